"""Lower bound of the cost of any schedule.

It relaxes a problem of pairwise costs: every operator has a cost for each option, every edge one for each
pair of options. A *bucket pass* takes the operators from last to first, adds what an operator and its later
neighbours cost at least to the edges that lead to earlier ones, and minimises over its options (mini-buckets:
Dechter and Rish, Journal of the ACM 50(2), 2003, doi 10.1145/636865.636866). It is exact where no operator
has two earlier neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rramalloc.commands.chiplet.places import Floats
from rramalloc.commands.chiplet.schedule_problem import EdgeLink, ScheduleProblem
from rramalloc.compiled import compiled

MOST_ENTRIES = 2**33  # places times options of all edges, of which a bucket pass looks at each: minutes


def lower_bound(problem: ScheduleProblem) -> float:
    """What no schedule undercuts, whatever its groups, strategies and places.

    Groups cost at least as much as the operators along any path of edges, which are in different groups; and
    as much as cost times units of all operators, divided by the units of the chip. The larger of both is
    bounded together with the edges, or apart from them where there are too many options.
    """
    units = float(problem.places.members.shape[1])
    path = set(_heaviest_path(problem))
    along = [
        options.cost if v in path else np.zeros_like(options.cost)
        for v, options in enumerate(problem.options)
    ]
    spread = [options.cost * problem.places.sizes[options.place] / units for options in problem.options]
    unary = max((along, spread), key=lambda costs: sum(float(each.min()) for each in costs))
    entries = sum(len(problem.options[link.to].cost) for link in problem.links) * len(problem.places.sizes)
    if entries > MOST_ENTRIES:
        return sum(float(each.min()) for each in unary) + sum(_least(link, problem) for link in problem.links)
    return _bucket_pass(problem, unary)


def _heaviest_path(problem: ScheduleProblem) -> list[int]:
    """Operators along the path of edges whose least costs sum to most."""
    least = [float(options.cost.min()) for options in problem.options]
    total, before = list(least), [-1] * len(least)
    for v in problem.order:
        for link in problem.entering[v]:
            if total[link.source] + least[v] > total[v]:
                total[v], before[v] = total[link.source] + least[v], link.source
    path = [int(np.argmax(total))]
    while before[path[-1]] >= 0:
        path.append(before[path[-1]])
    return path


def _least(link: EdgeLink, problem: ScheduleProblem) -> float:
    """What an edge costs at least, its hops left out."""
    if link.table is None:
        return 0.0
    chip = problem.description.chip
    fastest = max(chip.bandwidth_inside or 0.0, chip.bandwidth_between or 0.0)
    return float(link.table.min()) / (fastest if link.in_bytes else 1.0)


def _bucket_pass(problem: ScheduleProblem, unary: Sequence[Floats]) -> float:
    """The least sum of unary and edge costs as far as a bucket pass sees it."""
    costs = [each.copy() for each in unary]
    position = {v: number for number, v in enumerate(problem.order)}
    bound = 0.0
    for v in reversed(problem.order):
        earlier = sorted({link.source for link in problem.entering[v]}, key=position.__getitem__)
        if not earlier:
            bound += float(costs[v].min())
        for u in earlier:
            links = [link for link in problem.entering[v] if link.source == u]
            for link in links:
                below = costs[v] / (len(earlier) * len(links))
                costs[u] = costs[u] + _message(problem, link, below)
    return bound


def _message(problem: ScheduleProblem, link: EdgeLink, below: Floats) -> Floats:
    """For every option of the source the least of the edge and `below`, which is by option of the reader.

    Hops depend on places alone, tables on strategies alone: the least over the places of each strategy of
    the reader is taken once for all strategies of the source.
    """
    source, to = problem.options[link.source], problem.options[link.to]
    if link.pairs is not None or link.table is None:
        return _plain_message(problem, link, below)
    chip = problem.description.chip
    inside, between = (chip.bandwidth_inside, chip.bandwidth_between) if link.in_bytes else (1.0, 1.0)
    message = np.full(len(source.cost), np.inf)
    for reduced in np.unique(source.reduced):
        some = np.flatnonzero(source.reduced == reduced)
        hopped = problem.places.from_last if reduced else problem.places.between_all
        rows, at = np.unique(source.place[some], return_inverse=True)
        for strategy in np.unique(to.strategy):
            columns = np.flatnonzero(to.strategy == strategy)
            least = np.empty((2, len(rows)))
            there = to.place[columns], below[columns]
            nearest(hopped.cycles, hopped.within, rows, *there, float(link.transfers), least)
            table = link.table[source.strategy[some], strategy]
            for stays, bandwidth in ((1, inside), (0, between)):
                value = least[stays][at] + table / (bandwidth or np.inf)
                message[some] = np.minimum(message[some], value)
    return message


@compiled
def nearest(
    cycles: Any, within: Any, rows: Any, columns: Any, below: Any, transfers: float, least: Any
) -> None:
    """For every row the least transfers * cycles + below over the columns, into `least`.

    least: float64 of shape (2, rows), written: over the columns in another chiplet, and in the same.
    """
    for i in range(len(rows)):
        least[0, i] = least[1, i] = np.inf
        for j in range(len(columns)):
            cost = transfers * cycles[rows[i], columns[j]] + below[j]
            stays = 1 if within[rows[i], columns[j]] else 0
            least[stays, i] = min(least[stays, i], cost)


def _plain_message(problem: ScheduleProblem, link: EdgeLink, below: Floats) -> Floats:
    """The same for an edge whose cost does not depend on strategies."""
    source, to = problem.options[link.source], problem.options[link.to]
    there = np.arange(len(to.cost))
    kinds, at = np.unique(np.stack([source.place, source.reduced]), axis=1, return_inverse=True)
    first = np.array([np.flatnonzero(at.ravel() == kind)[0] for kind in range(kinds.shape[1])])
    if link.table is not None:
        first, at = np.arange(len(source.cost)), np.arange(len(source.cost))
    least: Floats = (problem.link_costs(link, first, there) + below).min(axis=1)
    return least[at.ravel()]
