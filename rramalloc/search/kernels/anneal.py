"""Compiled annealing on the exact makespan, moving between the breakpoints of ceil(W / d).

Only operations that every machine rounds alike are used, so a seed gives the same run everywhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.compiled import compiled, compiled_part
from rramalloc.search.archive import keep
from rramalloc.search.kernels.limits import (
    arrays_of,
    batches_of,
    copy_to,
    packing_scratch,
    placeable,
    with_batches,
)
from rramalloc.search.kernels.schedule import accept, retime, timed
from rramalloc.timing.kernel import NEVER, STEPS

_P_RAISE = 0.7
"""Share of moves that begin by giving a stage more copies; the others take some from a stage first."""
_LONGEST_RAISE, _LONGEST_LOWER = 0.15, 0.1
"""Batches by which a move changes a stage at most, as a part of its batches; small changes are the rule."""
_REFILLS = 4
"""Stages that are offered a batch less from the arrays that a move leaves over."""
_TRIES, _OTHERS_FIRST = 64, 4
"""Stages drawn, times the stages there are, until a move fits; so many of them spare the raised stage."""


class Cooling(NamedTuple):
    """One run. hot, cold: first and last temperature; target: a makespan, see the function that anneals."""

    rounds: int
    hot: float
    cold: float
    target: int


def generator(seed: int) -> npt.NDArray[np.uint64]:
    """The state of a generator, from which `draw` goes on."""
    return np.array([(seed * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) % 2**64 or 1], dtype=np.uint64)


@compiled_part
def draw(state: Any) -> float:
    """Uniform in (0, 1]: xorshift64*, the same numbers on every machine."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return (np.float64((x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(11)) + 1.0) / 9007199254740992.0


@compiled_part
def below(state: Any, count: int) -> int:
    """Uniform in 0 ... count - 1."""
    drawn = int(draw(state) * count)
    return drawn if drawn < count else count - 1


@compiled_part
def jump(state: Any, batches: int, longest: float) -> int:
    """Batches to change a stage by: 1 and up to a part `longest` of them, small changes more often."""
    part = draw(state)
    return 1 + int(batches * longest * part * part * part)


@compiled_part
def _raise(windows: int, copies: int, fewer_batches: int, limit: int) -> int:
    """Copies of a stage with so many batches less, within its limit."""
    raised = with_batches(windows, batches_of(windows, copies) - fewer_batches)
    return raised if raised < limit else limit


@compiled_part
def _lower(windows: Any, limits: Any, j: int, state: Any, used: int, new: Any) -> int:
    """Fewer copies of stage j, as many as another number of batches needs; arrays then used."""
    if new[j] > limits.smallest[j]:
        batches = batches_of(windows[j], new[j])
        lowered = with_batches(windows[j], batches + jump(state, batches, _LONGEST_LOWER))
        if lowered > new[j] - 1:
            lowered = new[j] - 1
        if lowered < limits.smallest[j]:
            lowered = limits.smallest[j]
        used -= limits.demand[j] * (new[j] - lowered)
        new[j] = lowered
    return used


@compiled_part
def _propose(windows: Any, limits: Any, state: Any, used: int, new: Any) -> int:
    """Give a random stage fewer batches and take arrays from others until it fits; arrays then used."""
    n = len(windows)
    i = below(state, n)
    if draw(state) < _P_RAISE:
        batches = batches_of(windows[i], new[i])
        raised = with_batches(windows[i], batches - jump(state, batches, _LONGEST_RAISE))
        if raised < new[i] + 1:
            raised = new[i] + 1
        if raised > limits.largest[i]:
            raised = limits.largest[i]
        used += limits.demand[i] * (raised - new[i])
        new[i] = raised
    else:
        used = _lower(windows, limits, i, state, used, new)
    tries = 0
    while used > limits.budget and tries < _TRIES * n:
        tries += 1
        j = below(state, n)
        if j != i or tries > _OTHERS_FIRST * n:
            used = _lower(windows, limits, j, state, used, new)
    for _ in range(_REFILLS):
        j = below(state, n)
        raised = _raise(windows[j], new[j], 1, limits.largest[j])
        cost = limits.demand[j] * (raised - new[j])
        if raised > new[j] and used + cost <= limits.budget:
            used += cost
            new[j] = raised
    return used


@compiled
def anneal(
    graph: Any, limits: Any, cooling: Any, state: Any, current: Any, best: Any, slots: Any
) -> int:  # fmt: skip
    """Improve `current` (changed in place); the best makespan, its allocation in `best`.

    cooling: temperatures as parts of the makespan, ends when the target is met.
    state: uint64 of length 1, not 0, the generator's state; slots: of an archive that keeps what is
    fastest for its number of arrays, empty for none.
    """
    hot, cold = cooling.hot, cooling.cold
    schedule, makespan, _ = timed(graph, None, None, current, STEPS, None)
    used = arrays_of(limits.demand, current)
    copy_to(best, current)
    shortest, fewest = makespan, used
    new = np.empty_like(current)
    scratch = packing_scratch(limits.room)
    for step in range(cooling.rounds):
        if shortest <= cooling.target:
            break
        heat = shortest * hot / (1.0 + (hot / cold - 1.0) * (step / cooling.rounds))
        limit = makespan + int(2.0 * draw(state) * heat)
        copy_to(new, current)
        taken = _propose(graph.windows, limits, state, used, new)
        if taken > limits.budget or not placeable(limits.room, new, scratch):
            continue
        reached, _ = retime(graph, None, None, None, current, new, limit, schedule)
        if reached == NEVER:
            continue
        keep(slots, taken, reached, new)
        accept(schedule)
        copy_to(current, new)
        makespan, used = reached, taken
        if makespan < shortest or (makespan == shortest and used < fewest):
            shortest, fewest = makespan, used
            copy_to(best, current)
    return shortest
