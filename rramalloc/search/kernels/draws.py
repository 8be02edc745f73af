"""Compiled random draws.

Only operations that every machine rounds alike are used, so a seed gives the same run everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rramalloc.compiled import compiled_part


def generator(seed: int) -> npt.NDArray[np.uint64]:
    """Return the state of a generator, from which `draw` goes on."""
    return np.array([(seed * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) % 2**64 or 1], dtype=np.uint64)


@compiled_part
def draw(state: Any) -> float:
    """Return a uniform draw in (0, 1] by xorshift64*: the same numbers on every machine."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return (np.float64((x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(11)) + 1.0) / 9007199254740992.0


@compiled_part
def below(state: Any, count: int) -> int:
    """Return a uniform draw of 0 ... count - 1."""
    drawn = int(draw(state) * count)
    return drawn if drawn < count else count - 1


@compiled_part
def jump(state: Any, batches: int, longest: float) -> int:
    """Draw a change of batches: from 1 to a part `longest` of them, small changes more often."""
    part = draw(state)
    return 1 + int(batches * longest * part * part * part)
