"""Lower bounds of the cost of any schedule, and the proof of small ones by branch and bound.

Both relax a problem of pairwise costs: every operator has a cost for each option, every edge one for each
pair of options. A *bucket pass* takes the operators from last to first, adds what an operator and its later
neighbours cost at least to the edges that lead to earlier ones, and minimises over its options (mini-buckets:
Dechter and Rish, Journal of the ACM 50(2), 2003, doi 10.1145/636865.636866). It is exact where no operator
has two earlier neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rramalloc.commands.chiplet.places import Floats
from rramalloc.commands.chiplet.schedule_problem import EdgeLink, ScheduleProblem
from rramalloc.commands.chiplet.schedule_search import GroupSchedule
from rramalloc.compiled import compiled
from rramalloc.search.problem import Stop

MOST_ENTRIES = 2**33
"""Places times options of all edges together, for a bound that looks at each: minutes of a core."""
_TOLERANCE = 1e-9
Matrices = dict[tuple[int, int], Floats]
Flags = npt.NDArray[np.bool_]
Groups = tuple[tuple[int, ...], ...]


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


MOST_PROVEN = 8
"""Operators of a description whose groupings are enumerated: up to 4140 of them."""
_MOST_PAIRS = 2**24
"""Pairs of options of all pairs of operators together, for branch and bound."""
_NS_PER_PAIR = 4.0
_NS_PER_NODE = 20_000.0


@dataclass
class ScheduleProof:
    """Branch and bound over all groupings, strategies and places.

    best, total: the best schedule so far and its cost; nodes: options that were fixed; spent_s: seconds of a
    reference core; complete: whether no other schedule is cheaper.
    """

    problem: ScheduleProblem
    stop: Stop
    best: GroupSchedule
    total: float
    nodes: int = 0
    spent_s: float = 0.0
    complete: bool = False

    def run(self, work_s: float) -> None:
        """Look at all groupings, the one with the lowest bound first, within some seconds of work."""
        problem, order = self.problem, list(self.problem.order)
        pairs = [(u, v) for place, v in enumerate(order) for u in order[:place]]
        entries = sum(len(problem.options[u].cost) * len(problem.options[v].cost) for u, v in pairs)
        if len(order) > MOST_PROVEN or entries > _MOST_PAIRS:
            return
        self._end_s = self.spent_s + work_s
        self._costs = self._linked(order)
        self._shared: dict[tuple[int, int], Flags] = {}
        relaxed = [_Relaxed.of(problem, groups, order, self._costs) for groups in _groupings(problem)]
        for grouping in sorted(relaxed, key=lambda grouping: grouping.bound):
            if grouping.bound >= self._limit:
                break
            self._grouping = grouping
            tops = [0.0] * len(grouping.groups)
            self._descend(0, 0.0, list(grouping.unary), tops, [-1] * len(order))
            if self._ended:
                return
        self.complete = True

    @property
    def _ended(self) -> bool:
        return self.spent_s >= self._end_s or self.stop.out_of_time

    @property
    def _limit(self) -> float:
        return self.total - _TOLERANCE * max(1.0, self.total)

    def _linked(self, order: Sequence[int]) -> Matrices:
        """Costs of all edges between two operators, the earlier one in rows."""
        costs: Matrices = {}
        for link in self.problem.links:
            every = [np.arange(len(self.problem.options[v].cost)) for v in (link.source, link.to)]
            one = self.problem.link_costs(link, *every)
            key = (link.source, link.to)
            costs[key] = costs[key] + one if key in costs else np.array(one)
        return costs

    def _descend(
        self, depth: int, total: float, unary: list[Floats], tops: list[float], chosen: list[int]
    ) -> None:
        """Fix the option of one operator after the other; unary: of those that are not fixed."""
        grouping, options = self._grouping, self.problem.options
        v = grouping.order[depth]
        group = grouping.group_of[v]
        cost, dominant = options[v].cost, grouping.dominant[group]
        here = total + unary[v]
        if v == dominant:
            here = here + np.maximum(tops[group] - cost, 0)
        elif chosen[dominant] >= 0:
            here = here + np.maximum(cost - tops[group], 0)
        some = np.flatnonzero(here < self._limit)
        later = grouping.order[depth + 1 :]
        bounds = here[some]
        for w in later:
            costs, shared = grouping.costs.get((v, w)), self._conflicts(v, w)
            if costs is None and shared is None:
                bounds = bounds + unary[w].min()
                continue
            after = unary[w] if costs is None else unary[w] + costs[some]
            after = after if shared is None else np.where(shared[some], np.inf, after)
            bounds = bounds + after.min(axis=1)
            self.spent_s += 1e-9 * _NS_PER_PAIR * len(some) * len(unary[w])
        for place in np.argsort(bounds, kind="stable").tolist():
            self.nodes += 1
            self.spent_s += 1e-9 * _NS_PER_NODE
            if bounds[place] >= self._limit or self._ended:
                return
            option = int(some[place])
            chosen[v] = option
            if not later:
                self.total = float(bounds[place])
                self.best = GroupSchedule([list(group) for group in grouping.groups], list(chosen))
            else:
                below, top = list(unary), tops[group]
                for w in later:
                    costs, shared = grouping.costs.get((v, w)), self._conflicts(v, w)
                    if costs is not None:
                        below[w] = below[w] + costs[option]
                    if shared is not None:
                        below[w] = np.where(shared[option], np.inf, below[w])
                tops[group] = max(top, float(cost[option]))
                self._descend(depth + 1, float(here[option]), below, tops, chosen)
                tops[group] = top
            chosen[v] = -1

    def _conflicts(self, v: int, w: int) -> Flags | None:
        """Whether options of two operators share units; None if they are in different groups."""
        grouping = self._grouping
        if grouping.group_of[v] != grouping.group_of[w]:
            return None
        if (v, w) not in self._shared:
            members = self.problem.places.members
            here, there = (members[self.problem.options[each].place] for each in (v, w))
            self._shared[v, w] = here @ there.T > 0
        return self._shared[v, w]


@dataclass(frozen=True, eq=False)
class _Relaxed:
    """A grouping after a bucket pass, which moved costs to earlier operators without changing any sum.

    dominant: the operator of each group whose cost is in `unary`; that others cost more is added when they
    are fixed; bound: of all schedules with this grouping.
    """

    groups: Groups
    order: tuple[int, ...]
    group_of: dict[int, int]
    dominant: tuple[int, ...]
    unary: tuple[Floats, ...]
    costs: Matrices
    bound: float

    @classmethod
    def of(cls, problem: ScheduleProblem, groups: Groups, order: Sequence[int], costs: Matrices) -> _Relaxed:
        options = problem.options
        dominant = tuple(max(group, key=lambda v: float(options[v].cost.min())) for group in groups)
        unary = [each.cost if v in dominant else np.zeros_like(each.cost) for v, each in enumerate(options)]
        moved = dict(costs)
        bound = 0.0
        for v in reversed(order):
            earlier = [u for u in order if (u, v) in costs]
            for u in earlier:
                extended = moved[u, v] + unary[v] / len(earlier)
                least = extended.min(axis=1)
                unary[u] = unary[u] + least
                moved[u, v] = extended - least[:, None]
            if earlier:
                unary[v] = np.zeros_like(unary[v])
            else:
                bound += float(unary[v].min())
        group_of = {v: number for number, group in enumerate(groups) for v in group}
        return cls(groups, tuple(order), group_of, dominant, tuple(unary), moved, bound)


def _groupings(problem: ScheduleProblem) -> Iterator[Groups]:
    """Every way to part the operators into groups that can be put in an order which respects the edges."""
    before = [{link.source for link in links} for links in problem.entering]

    def ordered(groups: Sequence[Sequence[int]]) -> Groups | None:
        left, done, groupings = [tuple(group) for group in groups], set[int](), []
        while left:
            ready = next((group for group in left if all(before[v] <= done for v in group)), None)
            if ready is None:
                return None
            groupings.append(ready)
            left.remove(ready)
            done.update(ready)
        return tuple(groupings)

    def extend(place: int, groups: list[list[int]]) -> Iterator[Groups]:
        if place == len(problem.order):
            whole = ordered(groups)
            if whole is not None:
                yield whole
            return
        v = problem.order[place]
        for group in groups:
            if before[v].isdisjoint(group):
                group.append(v)
                yield from extend(place + 1, groups)
                group.pop()
        groups.append([v])
        yield from extend(place + 1, groups)
        groups.pop()

    return extend(0, [])
