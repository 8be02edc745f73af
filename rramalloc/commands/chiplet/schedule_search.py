"""Search for a schedule of low cost, and a lower bound: greedy construction, then ruin and recreate.

The operators of a group, or some that are near each other, are taken out of the schedule and inserted again
one by one, in random order, each with the best of all its options in the best of all groups that may hold it.
Source of the objective: docs/sources/companions.md 2; ruin and recreate: Schrimpf et al., J. Comput. Phys.
159(2), 2000, doi 10.1006/jcph.1999.6413; blinks: Christiaens and Vanden Berghe, Transportation Science 54(2),
2020, doi 10.1287/trsc.2019.0914.

The bound relaxes a problem of pairwise costs: every operator has a cost for each option, every edge one for
each pair of options. A *bucket pass* takes the operators from last to first. It adds the least cost of an
operator and its later neighbours to the edges that lead to earlier ones, and minimises over its options. It
is exact where no operator has two earlier neighbours.
Source of the bound: mini-buckets, Dechter and Rish, J. ACM 50(2), 2003, doi 10.1145/636865.636866.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rramalloc.commands.chiplet.schedule_problem import EdgeLink, ScheduleProblem
from rramalloc.compiled import compiled
from rramalloc.ndarrays import Floats, Ints
from rramalloc.rounding import SAME_SUM
from rramalloc.search.work import Work

MOST_ENTRIES = 2**33  # places times options of all edges, of which a bucket pass looks at each: minutes


def schedule_lower_bound(problem: ScheduleProblem) -> float:
    """Return a cost that no schedule undercuts, whatever its groups, strategies and places.

    Groups cost at least as much as the operators along any path of edges, which are in different groups; and
    as much as cost times units of all operators, divided by the units of the chip. The larger of both is
    bounded together with the edges, or apart from them where there are too many options.
    """
    path = set(_heaviest_path(problem))
    along = [
        options.cost if v in path else np.zeros_like(options.cost)
        for v, options in enumerate(problem.options)
    ]
    sizes = problem.places.sizes
    units = float(problem.description.chip.count)
    spread = [options.cost * sizes[options.place] / units for options in problem.options]
    unary = max(
        (along, spread), key=lambda costs: sum(float(costs_of_operator.min()) for costs_of_operator in costs)
    )
    entries = sum(len(problem.options[link.to].cost) for link in problem.links) * len(sizes)
    if entries > MOST_ENTRIES:
        return sum(float(costs_of_operator.min()) for costs_of_operator in unary) + sum(
            float(costs_of_operator.tables.min()) for costs_of_operator in problem.links
        )
    return _bucket_pass(problem, unary)


def _heaviest_path(problem: ScheduleProblem) -> list[int]:
    """Return the operators along the path of edges whose least costs sum to most."""
    least = [float(options.cost.min()) for options in problem.options]
    total = list(least)
    before = [-1] * len(least)
    for v in problem.order:
        for link in problem.entering[v]:
            if total[link.source] + least[v] > total[v]:
                total[v], before[v] = total[link.source] + least[v], link.source
    path = [int(np.argmax(total))]
    while before[path[-1]] >= 0:
        path.append(before[path[-1]])
    return path


def _bucket_pass(problem: ScheduleProblem, unary: Sequence[Floats]) -> float:
    """Return a lower bound of the sum of unary and edge costs by a bucket pass (see above)."""
    costs = [cost.copy() for cost in unary]
    bound = 0.0
    for v in reversed(problem.order):
        links = problem.entering[v]
        if not links:
            bound += float(costs[v].min())
        earlier = Counter(link.source for link in links)
        for link in links:
            # Splitting the reader's costs over its edges keeps the sum a lower bound.
            below = costs[v] / (len(earlier) * earlier[link.source])
            costs[link.source] = costs[link.source] + _message(problem, link, below)
    return bound


def _message(problem: ScheduleProblem, link: EdgeLink, below: Floats) -> Floats:
    """Return, by option of the source, the minimum over the reader's options of edge cost + `below`.

    below: by option of the reader. Hops depend on places alone, tables on strategies alone: the minimum over
    the places of each strategy of the reader is taken once for all strategies of the source.
    """
    source = problem.options[link.source]
    to = problem.options[link.to]
    if link.pairs is not None:
        costs = problem.link_costs(link, np.arange(len(source.cost)), np.arange(len(to.cost)))
        least: Floats = (costs + below).min(axis=1)
        return least
    message = np.full(len(source.cost), np.inf)
    rows, at = np.unique(source.result, return_inverse=True)
    for strategy in np.unique(to.strategy):
        columns = np.flatnonzero(to.strategy == strategy)
        hopped = np.empty((2, len(rows)))
        places = problem.places
        transfers = float(link.transfers)
        nearest(places.cycles, places.within, rows, to.place[columns], below[columns], transfers, hopped)
        values = hopped[:, at] + link.tables[:, source.strategy, strategy]
        message = np.minimum(message, values.min(axis=0))
    return message


@compiled
def nearest(
    cycles: Any, within: Any, rows: Any, columns: Any, below: Any, transfers: float, least: Any
) -> None:
    """Write into `least` for every row the least transfers * cycles + below over the columns.

    least: float64 of shape (2, rows), written: over the columns in another chiplet, and in the same.
    """
    for i in range(len(rows)):
        least[0, i] = least[1, i] = np.inf
        for j in range(len(columns)):
            cost = transfers * cycles[rows[i], columns[j]] + below[j]
            stays = 1 if within[rows[i], columns[j]] else 0
            least[stays, i] = min(least[stays, i], cost)


_NS_PER_ENTRY = 20.0  # time of a reference core for a look at one cost
_NS_PER_LOOK = 50_000.0  # time of a reference core for a look at an edge or a group
_MOST_RUINED = 6  # operators that are taken out at most, unless they are a group
_P_GROUP = 0.3  # share of ruins that take a whole group
_P_BLINK = 0.03  # share of groups that an insertion overlooks: the best place is not always the way on
_ACCEPTED = 0.001  # relative cost above the best up to which a schedule is the next one to ruin
ScheduleProgress = Callable[[float, float], None]
"""Called with the cost of the best schedule and the lower bound."""


@dataclass
class GroupSchedule:
    """groups: operators that run at the same time, in order; chosen: the option of every operator."""

    groups: list[list[int]]
    chosen: list[int]

    def copy(self) -> GroupSchedule:
        """Return a copy that may change."""
        return GroupSchedule([list(group) for group in self.groups], list(self.chosen))

    def place(self, v: int) -> int:
        """Return the number of the group that holds an operator."""
        return next(number for number, group in enumerate(self.groups) if v in group)

    def remove(self, v: int) -> None:
        """Take an operator out of its group, and the group out of the schedule if it is empty then."""
        place = self.place(v)
        self.groups[place].remove(v)
        if not self.groups[place]:
            del self.groups[place]


class ScheduleSearch:
    """Moves of the search on one problem. spent_s: work so far, in seconds of a reference core."""

    def __init__(self, problem: ScheduleProblem, stop: Work, seed: int) -> None:
        self.problem, self.stop = problem, stop
        self.random = np.random.default_rng(seed)
        self.spent_s = 0.0
        self._every = [np.arange(len(options.cost)) for options in problem.options]
        self._before = [{link.source for link in links} for links in problem.entering]
        self._after = [{link.to for link in links} for links in problem.leaving]
        self._ancestors: list[set[int]] = [set() for _ in problem.names]
        for v in problem.order:
            self._ancestors[v] = self._before[v].union(*(self._ancestors[u] for u in self._before[v]))

    def total(self, schedule: GroupSchedule) -> float:
        """Return the cost of a schedule."""
        return self.problem.total(schedule.groups, schedule.chosen)

    def greedy(self, *, alone: bool = False) -> GroupSchedule:
        """Put operators in order where each adds least; alone: each in a group of its own."""
        schedule = GroupSchedule([], [-1] * len(self.problem.names))
        for v in self.problem.order:
            self._insert(schedule, v, alone=alone)
        return schedule

    def random_schedule(self) -> GroupSchedule:
        """Draw an option for each operator in order, in the last group if that has room, or alone."""
        schedule = GroupSchedule([], [-1] * len(self.problem.names))
        for v in self.problem.order:
            option = int(self.random.integers(len(self._every[v])))
            schedule.chosen[v] = option
            last = schedule.groups[-1] if schedule.groups else []
            free = bool(last) and self._before[v].isdisjoint(last) and self.random.random() < 0.5
            if free and not self._conflicts(schedule, v, last)[option]:
                last.append(v)
            else:
                schedule.groups.append([v])
        return schedule

    def improve(
        self,
        starts: Sequence[GroupSchedule],
        work_s: float,
        bound: float,
        on_progress: ScheduleProgress | None = None,
    ) -> GroupSchedule:
        """Return the best schedule that is reached from the starts within some seconds of a reference core.

        bound: no schedule costs less, so the search ends when one costs no more.
        """
        end_s = self.spent_s + work_s
        current = best = min(starts, key=self.total)
        cost = least = self.total(best)
        while self.spent_s < end_s and not self.stop.out_of_time and least > bound * (1 + SAME_SUM):
            if on_progress is not None:
                on_progress(least, bound)
            other = current.copy()
            saved = 0.0
            ruined = self._near(other)
            for v in ruined:
                saved += self._take_out(other, v)
            order = self.random.permutation(len(ruined)).tolist()
            reached = cost - saved + sum(self._insert(other, ruined[at], blinks=_P_BLINK) for at in order)
            if reached < least * (1 - SAME_SUM):
                reached = self.total(other)
                best = other
                least = reached
            if reached <= least * (1 + _ACCEPTED):
                current = other
                cost = reached
        return best

    def _take_out(self, schedule: GroupSchedule, v: int) -> float:
        """Take an operator out of the schedule; return by how much the cost falls."""
        option = schedule.chosen[v]
        cost = self.problem.options[v].cost
        others = [u for u in schedule.groups[schedule.place(v)] if u != v]
        alone = max(0.0, float(cost[option]) - self._top(schedule, others))
        saved = float(self._edges(schedule, v)[option]) + alone
        schedule.remove(v)
        schedule.chosen[v] = -1
        return saved

    def _edges(self, schedule: GroupSchedule, v: int) -> Floats:
        """Return the cost of the edges of an operator for each of its options."""
        costs = np.zeros(len(self._every[v]))
        chosen = schedule.chosen
        for link in (*self.problem.entering[v], *self.problem.leaving[v]):
            ends = [self._every[u] if u == v else np.array([chosen[u]]) for u in (link.source, link.to)]
            if min(chosen[u] for u in (link.source, link.to) if u != v) >= 0:
                costs += self.problem.link_costs(link, *ends).ravel()
                self._count(len(costs))
        return costs

    def _conflicts(self, schedule: GroupSchedule, v: int, group: Sequence[int]) -> Ints:
        """Return True for each option of an operator that shares units with some operators."""
        places = self.problem.places
        used = [self.problem.options[u].place[schedule.chosen[u]] for u in group]
        shared = places.members @ places.members[used].sum(axis=0)
        self._count(places.members.size // 8)
        conflicts: Ints = shared[self.problem.options[v].place] > 0
        return conflicts

    def _insert(self, schedule: GroupSchedule, v: int, *, alone: bool = False, blinks: float = 0.0) -> float:
        """Insert an operator where it adds the least cost; return that cost.

        alone: only into a new group; blinks: share of the groups that are skipped at random. A new group then
        stands at a random position that the edges allow, so that other groups can join it later.
        """
        groups = schedule.groups
        edges = self._edges(schedule, v)
        cost = self.problem.options[v].cost
        low, high = self._range(schedule, v)
        values = edges + cost
        chosen = int(values.argmin())
        least = float(values[chosen])
        target = -1
        for number in range(low, high) if not alone else ():
            if blinks and self.random.random() < blinks:
                continue
            joined = edges + np.maximum(cost - self._top(schedule, groups[number]), 0)
            self._count(len(joined))
            if joined.min() >= least:
                continue
            joined = np.where(self._conflicts(schedule, v, groups[number]), np.inf, joined)
            option = int(joined.argmin())
            if joined[option] < least:
                chosen = option
                least = float(joined[option])
                target = number
        schedule.chosen[v] = chosen
        if target >= 0:
            groups[target].append(v)
        else:
            groups.insert(low + int(self.random.integers(max(1, high - low + 1))) if blinks else low, [v])
        return least

    def _range(self, schedule: GroupSchedule, v: int) -> tuple[int, int]:
        """Return the range (first, behind the last) of groups that may hold an operator."""
        low = 0
        high = len(schedule.groups)
        for number, group in enumerate(schedule.groups):
            if not self._ancestors[v].isdisjoint(group):
                low = number + 1
            if any(v in self._ancestors[u] for u in group):
                high = min(high, number)
        return low, high

    def _top(self, schedule: GroupSchedule, group: Sequence[int]) -> float:
        return max((float(self.problem.options[u].cost[schedule.chosen[u]]) for u in group), default=0.0)

    def _near(self, schedule: GroupSchedule) -> list[int]:
        """Draw the operators to take out: a group, or neighbours of an operator and any others if too few."""
        first = int(self.random.integers(len(schedule.chosen)))
        group = schedule.groups[schedule.place(first)]
        if len(group) > 1 and self.random.random() < _P_GROUP:
            return [group[place] for place in self.random.permutation(len(group)).tolist()]
        count = 1 + int(self.random.integers(_MOST_RUINED))
        near = [first]
        for v in near:
            near += [u for u in sorted(self._before[v] | self._after[v]) if u not in near]
            if len(near) >= count:
                break
        if len(near) < count:  # no edge leads further: operators that only share units may move together
            near += [u for u in self.random.permutation(len(schedule.chosen)).tolist() if u not in near]
        return near[:count]

    def _count(self, entries: int) -> None:
        self.spent_s += 1e-9 * (_NS_PER_LOOK + _NS_PER_ENTRY * entries)
