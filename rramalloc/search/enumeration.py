"""Small problems: every allocation is timed, so that the best one is known in any objective.

Searches look at what pays in most networks; in one of a few hundred allocations it costs less to look at all
of them than to bound what is left, and nothing can be missed: no tie, no limit, no point of a front.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.mapping.modes import Variant
from rramalloc.search import cost
from rramalloc.search.menu import StageModes, all_modes
from rramalloc.search.problem import Choice, Problem
from rramalloc.search.work import Work
from rramalloc.timing.simulate import makespan_of_each

MOST_ALLOCATIONS = 50_000
"""Allocations up to which all are timed where a search leaves a gap: it took longer, of the default work."""
MOST_AT_ONCE = 10_000
"""Allocations up to which no search is made before: many would have their proof sooner, few by much."""
MOST_STAGES = 12
"""Stages of a small problem: of more even a spare array for each leaves too many allocations."""
_SHARE = 0.5
"""Part of the work allowed, and of the time left, that timing all of them may take."""
_SLOWEST_S = 2e-4  # wall clock of an allocation, made and measured, on slow machines
_TOGETHER = 4
"""Allocations with the same blocks from which on their windows are traced anew to time them in one call."""

Ints = npt.NDArray[np.int64]


class _Options(NamedTuple):
    """Every mode of a stage, one row each: its variant, copies and arrays."""

    variants: list[Variant]
    copies: Ints
    arrays: Ints

    @classmethod
    def of(cls, each: StageModes) -> _Options:
        """List the modes of a stage with every number of copies."""
        modes = each.modes
        ways = modes.high - modes.low + 1
        row = np.repeat(np.arange(len(ways)), ways)
        copies = modes.low[row] + np.arange(len(row)) - np.repeat(np.cumsum(ways) - ways, ways)
        variants = [each.variant(at) for at in range(len(ways))]
        return cls([variants[at] for at in row.tolist()], copies, each.arrays_of(each.block[row], copies))


def every_choice(problem: Problem, stop: Work, most: int = MOST_ALLOCATIONS) -> list[Choice] | None:
    """Return all allocations of a problem; None if they are more than `most`, or too many for the work.

    Source: docs/sources/model.md 8.
    """
    seconds = cost.ALLOCATION * len(problem.demand)
    most = min(most, int(_SHARE * stop.work_s / seconds))
    if stop.time_limit_s is not None:
        most = min(most, int(_SHARE * max(0.0, stop.time_limit_s - stop.seconds) / _SLOWEST_S))
    if stop.out_of_time or len(problem.demand) > MOST_STAGES or _fewest_ways(problem) > most:
        return None
    stages = all_modes(problem)
    if any(int((each.modes.high - each.modes.low + 1).sum()) > most for each in stages):
        return None
    options = [_Options.of(each) for each in stages]
    rows = _rows(options, problem.budget, most)
    if rows is None:
        return None
    stop.charge(seconds * len(rows))
    every = list[Choice]()
    for found in _timed(problem, options, rows):
        if stop.out_of_time:
            return None
        # They keep to the budget, which is the only one where bits are not chosen.
        if problem.bits is None or problem.holds(found.copies, found.blocks):
            every.append(found)
    return every


def _fewest_ways(problem: Problem) -> float:
    """Return how many allocations a problem has at least: each stage takes its part of the spare arrays.

    Of copies alone, so that a large problem is known as such before its modes are listed.
    """
    part = max(0, problem.budget - problem.minimum) // len(problem.demand)
    ways = 1 + np.minimum(problem.largest - problem.smallest, part // np.maximum(problem.demand, 1))
    return float(np.prod(ways.astype(np.float64))) if problem.modes.divide is None else 1.0


def _rows(options: Sequence[_Options], budget: int, most: int) -> Ints | None:
    """Return every choice of an option of each stage within a budget; None if they are more than `most`."""
    least = [int(each.arrays.min(initial=2**60)) for each in options]
    rest = sum(least)
    rows, used = np.zeros((1, 0), dtype=np.int64), np.zeros(1, dtype=np.int64)
    for each, own in zip(options, least, strict=True):
        rest -= own
        total = used[:, None] + each.arrays
        before, chosen = np.nonzero(total <= budget - rest)  # the later stages can still be stored
        if len(before) > most:
            return None
        rows, used = np.column_stack([rows[before], chosen]), total[before, chosen]
    return rows


def _timed(problem: Problem, options: Sequence[_Options], rows: Ints) -> Iterator[Choice]:
    """Yield the allocation of every row, those with the same blocks timed in one call where they are many."""
    alike = dict[tuple[Variant, ...], list[Ints]]()
    for row in rows.tolist():
        modes = [(each.variants[at], each.copies[at]) for each, at in zip(options, row, strict=True)]
        copies = np.array([count for _, count in modes], dtype=np.int64)
        alike.setdefault(tuple(variant for variant, _ in modes), []).append(copies)
    for blocks, of_blocks in alike.items():
        if problem.bits is not None or len(of_blocks) < _TOGETHER:
            yield from (problem.choice(copies, blocks) for copies in of_blocks)
            continue
        makespans = makespan_of_each(problem.graph.in_blocks(blocks), np.array(of_blocks))
        for copies, makespan in zip(of_blocks, makespans.tolist(), strict=True):
            yield problem.choice(copies, blocks, makespan)
