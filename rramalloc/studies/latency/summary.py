"""Summary of the times of one run that a few outliers cannot move."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_CERTAIN = 1.959964
"""Standard deviations of a normal distribution within which 95 % lie."""
_MAD_TO_STD = 1.482602
_MEDIAN_TO_MEAN = 1.253314
_FEW = 8


class Summary(NamedTuple):
    """n times in ns: their median, spread (1.4826 * median absolute deviation) and how sure the median is.

    low_ns, high_ns: 95 % confidence interval of the median, from order statistics, whatever the distribution.
    """

    n: int
    median_ns: float
    spread_ns: float
    low_ns: float
    high_ns: float

    @classmethod
    def of(cls, times_ns: Sequence[float]) -> Summary:
        """Raises ValueError without any time."""
        if not times_ns:
            raise ValueError("there are no times")
        times, n = np.sort(np.asarray(times_ns, dtype=np.float64)), len(times_ns)
        median_ns = float(np.median(times))
        spread_ns = _MAD_TO_STD * float(np.median(np.abs(times - median_ns)))
        if n < _FEW:
            half_ns = _CERTAIN * _MEDIAN_TO_MEAN * spread_ns / math.sqrt(n)
            return cls(n, median_ns, spread_ns, median_ns - half_ns, median_ns + half_ns)
        below = math.floor((n - _CERTAIN * math.sqrt(n)) / 2)
        low_ns, high_ns = float(times[max(below - 1, 0)]), float(times[min(n - below, n - 1)])
        return cls(n, median_ns, spread_ns, low_ns, high_ns)

    @property
    def error_ns(self) -> float:
        """Standard error of the median."""
        return (self.high_ns - self.low_ns) / (2 * _CERTAIN)

    @property
    def width(self) -> float:
        """Width of the confidence interval relative to the median; infinite for fewer than 8 times."""
        if self.n < _FEW:
            return math.inf
        return (self.high_ns - self.low_ns) / self.median_ns if self.median_ns > 0 else 0.0
