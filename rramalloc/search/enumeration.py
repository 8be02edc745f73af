"""Small problems: every allocation is timed, so that the best one is known in any objective.

Searches look at what pays in most networks; in one of a few hundred allocations it costs less to look at all
of them than to bound what is left, and nothing can be missed: no tie, no limit, no point of a front.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rramalloc.mapping.mode import Mode, ModeOfEach
from rramalloc.ndarrays import Ints
from rramalloc.search import cost
from rramalloc.search.menu import StageModes, all_modes
from rramalloc.search.problem import Choice, Problem
from rramalloc.search.work import Work

MOST_ALLOCATIONS = 50_000
"""Allocations up to which all are timed where a search leaves a gap: it took longer, of the default work."""
MOST_AT_ONCE = 10_000
"""Allocations up to which no search is made before: many would have their proof sooner, few by much."""
MOST_STAGES = 12
"""Stages of a small problem: of more even a spare array for each leaves too many allocations."""
_SHARE = 0.5
"""Part of the work allowed, and of the time left, that timing all of them may take."""
_SLOWEST_S = 2e-4  # wall clock of an allocation, made and measured, on slow machines


class _Options(NamedTuple):
    """Every mode of a stage, one row each: with its copies, and the arrays of these."""

    modes: list[Mode]
    copies: Ints
    arrays: Ints

    @classmethod
    def of(cls, each: StageModes) -> _Options:
        """List the modes of a stage with every number of copies."""
        ways = each.high - each.low + 1
        entry = np.repeat(np.arange(len(ways)), ways)
        copies = each.low[entry] + np.arange(len(entry)) - np.repeat(np.cumsum(ways) - ways, ways)
        row = each.row[entry]
        return cls([each.modes[at] for at in row.tolist()], copies, each.table.take(row).arrays(copies))


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
    if any(int((each.high - each.low + 1).sum()) > most for each in stages):
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
        # They keep to the budget, which is the only one unless other resources are limited.
        if not problem.resources.axes or problem.holds(found.copies, found.modes):
            every.append(found)
    return every


def _fewest_ways(problem: Problem) -> float:
    """Return how many allocations a problem has at least: each stage takes its part of the spare arrays.

    Of copies alone, so that a large problem is known as such before its modes are listed.
    """
    part = max(0, problem.budget - problem.minimum) // len(problem.demand)
    ways = 1 + np.minimum(problem.largest - problem.smallest, part // np.maximum(problem.demand, 1))
    return float(np.prod(ways.astype(np.float64))) if problem.storage.divide is None else 1.0


def _rows(options: Sequence[_Options], budget: int, most: int) -> Ints | None:
    """Return every choice of an option of each stage within a budget; None if they are more than `most`."""
    least = [int(each.arrays.min(initial=2**60)) for each in options]
    rest = sum(least)
    rows, used = np.zeros((1, 0), dtype=np.int64), np.zeros(1, dtype=np.int64)
    for each, own in zip(options, least, strict=True):
        rest -= own
        order = np.argsort(each.arrays, kind="stable")
        # So many options leave enough arrays to store the later stages, those with the fewest arrays.
        fitting = np.searchsorted(each.arrays[order], budget - rest - used, side="right")
        if int(fitting.sum()) > most:
            return None
        before = np.repeat(np.arange(len(rows)), fitting)
        chosen = order[np.arange(len(before)) - np.repeat(np.cumsum(fitting) - fitting, fitting)]
        rows, used = np.column_stack([rows[before], chosen]), used[before] + each.arrays[chosen]
    return rows


def _timed(problem: Problem, options: Sequence[_Options], rows: Ints) -> Iterator[Choice]:
    """Yield the allocation of every row, those with the same blocks timed in one call where they are many."""
    alike = dict[ModeOfEach, list[Ints]]()
    for row in rows.tolist():
        chosen = [(each.modes[at], each.copies[at]) for each, at in zip(options, row, strict=True)]
        copies = np.array([count for _, count in chosen], dtype=np.int64)
        alike.setdefault(tuple(mode for mode, _ in chosen), []).append(copies)
    for modes, of_modes in alike.items():
        yield from problem.choices(of_modes, modes)
