"""Labels: the intervals of copies into which the relaxation cuts every stage's box."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rramalloc.search.interval_kernel import cut
from rramalloc.timing.simulate import Replication

MOST = 16
"""Labels of a stage, a power of two."""

Whole = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """Label m of stage i, m < count[i], stands for low[i, m] ... high[i, m] copies; int64 (stages, MOST).

    first[i]: number of labels of the stages before i, so that all weights form one vector.
    """

    low: Whole
    high: Whole
    count: Whole
    first: Whole

    @classmethod
    def of(cls, windows: Replication, low: Replication, high: Replication) -> Labels:
        """Cut the box low ... high at breakpoints of ceil(windows / d), or evenly if there are too many."""
        stages = len(windows)
        lows, highs = np.ones((stages, MOST), dtype=np.int64), np.ones((stages, MOST), dtype=np.int64)
        count = np.zeros(stages, dtype=np.int64)
        cut(windows, low, high, MOST, lows, highs, count)
        return cls(lows, highs, count, np.concatenate(([0], np.cumsum(count))))

    @property
    def total(self) -> int:
        """Number of labels of all stages."""
        return int(self.first[-1])

    def weights(self, stage: int) -> Whole:
        """Numbers of the weights of a stage."""
        return np.arange(self.first[stage], self.first[stage + 1])

    def lows(self, stage: int) -> Whole:
        """Fewest copies of every label of a stage."""
        fewest: Whole = self.low[stage, : self.count[stage]]
        return fewest

    def highs(self, stage: int) -> Whole:
        """Most copies of every label of a stage."""
        most: Whole = self.high[stage, : self.count[stage]]
        return most

    def square(self, weights: Floats) -> Floats:
        """The vector of all weights as (stages, MOST), 0 where a stage has no such label."""
        table = np.zeros(self.low.shape)
        table[np.arange(MOST) < self.count[:, None]] = weights
        return table
