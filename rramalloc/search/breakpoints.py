"""Useful replications: those at which the number of batches ceil(W / d) changes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def breakpoints(windows: int, largest: int) -> npt.NDArray[np.int64]:
    """Smallest d for every value that ceil(windows / d) takes with d <= largest, rising; int64."""
    useful = []
    copies = 1
    while copies <= largest:
        useful.append(copies)
        batches = -(-windows // copies)
        if batches == 1:
            break
        copies = -(-windows // (batches - 1))
    return np.array(useful, dtype=np.int64)
