"""Search for a schedule of low cost, and a lower bound: greedy construction, then perturbed local search.

Three moves take turns. *Relocate* gives one operator the best of all its options in the best of all groups
that may hold it. *Perturb* takes the operators of a group, or some that are near each other, out of the
schedule and inserts them again, greedily or at random. *Reorder* brings the groups into another order.
Source of the objective: docs/sources/companions.md 2; iterated local search: Lourenco, Martin and Stuetzle,
Handbook of Metaheuristics (2003), doi 10.1007/0-306-48056-5_11.

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
    sizes, units = problem.places.sizes, float(problem.description.chip.count)
    spread = [options.cost * sizes[options.place] / units for options in problem.options]
    unary = max((along, spread), key=lambda costs: sum(float(each.min()) for each in costs))
    entries = sum(len(problem.options[link.to].cost) for link in problem.links) * len(sizes)
    if entries > MOST_ENTRIES:
        return sum(float(each.min()) for each in unary) + sum(
            float(each.tables.min()) for each in problem.links
        )
    return _bucket_pass(problem, unary)


def _heaviest_path(problem: ScheduleProblem) -> list[int]:
    """Return the operators along the path of edges whose least costs sum to most."""
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


def _bucket_pass(problem: ScheduleProblem, unary: Sequence[Floats]) -> float:
    """Return the least sum of unary and edge costs as far as a bucket pass sees it."""
    costs, bound = [each.copy() for each in unary], 0.0
    for v in reversed(problem.order):
        links = problem.entering[v]
        if not links:
            bound += float(costs[v].min())
        earlier = Counter(link.source for link in links)
        for link in links:
            below = costs[v] / (len(earlier) * earlier[link.source])
            costs[link.source] = costs[link.source] + _message(problem, link, below)
    return bound


def _message(problem: ScheduleProblem, link: EdgeLink, below: Floats) -> Floats:
    """Return for every option of the source the least of the edge and `below`, which is by option of the
    reader.

    Hops depend on places alone, tables on strategies alone: the least over the places of each strategy of
    the reader is taken once for all strategies of the source.
    """
    source, to = problem.options[link.source], problem.options[link.to]
    if link.pairs is not None:
        costs = problem.link_costs(link, np.arange(len(source.cost)), np.arange(len(to.cost)))
        least: Floats = (costs + below).min(axis=1)
        return least
    message = np.full(len(source.cost), np.inf)
    rows, at = np.unique(source.result, return_inverse=True)
    for strategy in np.unique(to.strategy):
        columns = np.flatnonzero(to.strategy == strategy)
        hopped = np.empty((2, len(rows)))
        places, transfers = problem.places, float(link.transfers)
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
_NS_PER_LOOK = 50_000.0
"""Time of a reference core for a look at an edge or a group."""
_REORDERED_EVERY = 8
"""Perturbations after which groups are reordered, and reorderings without gain that end a first descent."""
_KICKED = 6
"""Operators that a perturbation changes at most."""
_P_GROUP = 0.3
"""Share of perturbations that take a whole group."""
_P_REBUILT = 0.5
"""Share of perturbations that insert greedily rather than at random."""
_ACCEPTED = 0.001
"""Relative cost above the best up to which a schedule is accepted as the next one to change."""
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
    """The moves, and what they cost. spent_s: seconds of a reference core so far."""

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
            self._insert(schedule, v, self._edges(schedule, v), alone=alone)
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
        current = min((self._settled(start, end_s) for start in starts), key=self.total)
        best, least, kicks = current.copy(), self.total(current), 0
        while self._goes_on(end_s) and least > bound * (1 + SAME_SUM):
            if on_progress is not None:
                on_progress(least, bound)
            kicks += 1
            other = current.copy()
            self._descend(other, self._perturb(other), end_s)
            if kicks % _REORDERED_EVERY == 0:
                self._reorder(other)
            reached = self.total(other)
            if reached < least * (1 - SAME_SUM):
                best, least = other.copy(), reached
            if reached <= least * (1 + _ACCEPTED):
                current = other
        return best

    def _settled(self, start: GroupSchedule, end_s: float) -> GroupSchedule:
        """Descend until relocations lower the cost in no order of groups that is tried."""
        schedule = start.copy()
        self._descend(schedule, list(range(len(start.chosen))), end_s)
        total, stale = self.total(schedule), 0
        while stale < _REORDERED_EVERY and self._goes_on(end_s):
            self._reorder(schedule)
            self._descend(schedule, list(range(len(schedule.chosen))), end_s)
            now = self.total(schedule)
            stale = 0 if now < total * (1 - SAME_SUM) else stale + 1
            total = now
        return schedule

    def _descend(self, schedule: GroupSchedule, touched: list[int], end_s: float) -> None:
        """Relocate operators, and those near one that was moved, until none can be moved for less."""
        waiting = [touched[place] for place in self.random.permutation(len(touched)).tolist()]
        known = set(waiting)
        while waiting and self._goes_on(end_s):
            v = waiting.pop()
            known.discard(v)
            for u in self._relocate(schedule, v):
                if u not in known:
                    known.add(u)
                    waiting.insert(0, u)

    def _edges(self, schedule: GroupSchedule, v: int) -> Floats:
        """Return the cost of the edges of an operator for each of its options."""
        costs, chosen = np.zeros(len(self._every[v])), schedule.chosen
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

    def _relocate(self, schedule: GroupSchedule, v: int) -> list[int]:
        """Move an operator where it costs least, if that is less; returns those that may move then."""
        saved, before = schedule.copy(), schedule.chosen[v]
        edges, cost = self._edges(schedule, v), self.problem.options[v].cost
        others = [u for u in schedule.groups[schedule.place(v)] if u != v]
        now = float(edges[before]) + max(0.0, float(cost[before]) - self._top(schedule, others))
        schedule.remove(v)
        least = self._insert(schedule, v, edges, alone=False)
        if least < now * (1 - SAME_SUM):
            mates = schedule.groups[schedule.place(v)]
            return [*sorted(self._before[v] | self._after[v]), *others, *(u for u in mates if u != v)]
        schedule.groups, schedule.chosen = saved.groups, saved.chosen
        return []

    def _insert(self, schedule: GroupSchedule, v: int, edges: Floats, *, alone: bool) -> float:
        """Put an operator where it costs least, given what its edges cost; returns what it adds."""
        groups, cost = schedule.groups, self.problem.options[v].cost
        low, high = self._range(schedule, v)
        values = edges + cost
        chosen = int(values.argmin())
        least, target = float(values[chosen]), -1
        for number in range(low, high) if not alone else ():
            top = self._top(schedule, groups[number])
            joined = edges + np.maximum(cost - top, 0)
            self._count(len(joined))
            if joined.min() >= least:
                continue
            joined = np.where(self._conflicts(schedule, v, groups[number]), np.inf, joined)
            option = int(joined.argmin())
            if joined[option] < least:
                chosen, least, target = option, float(joined[option]), number
        schedule.chosen[v] = chosen
        if target >= 0:
            groups[target].append(v)
        else:
            groups.insert(low, [v])
        return least

    def _range(self, schedule: GroupSchedule, v: int) -> tuple[int, int]:
        """Return the groups that may hold an operator: from the first to below the second."""
        low, high = 0, len(schedule.groups)
        for number, group in enumerate(schedule.groups):
            if not self._ancestors[v].isdisjoint(group):
                low = number + 1
            if any(v in self._ancestors[u] for u in group):
                high = min(high, number)
        return low, high

    def _top(self, schedule: GroupSchedule, group: Sequence[int]) -> float:
        return max((float(self.problem.options[u].cost[schedule.chosen[u]]) for u in group), default=0.0)

    def _reorder(self, schedule: GroupSchedule) -> None:
        """Put the groups into another order that respects the edges: other groups can be joined then."""
        group_of = {v: number for number, group in enumerate(schedule.groups) for v in group}
        needs = [{group_of[u] for v in group for u in self._before[v]} for group in schedule.groups]
        done: set[int] = set()
        ordered: list[list[int]] = []
        left = list(range(len(needs)))
        while left:
            ready = [number for number in left if needs[number] <= done]
            number = ready[int(self.random.integers(len(ready)))]
            ordered.append(schedule.groups[number])
            done.add(number)
            left.remove(number)
        schedule.groups[:] = ordered

    def _perturb(self, schedule: GroupSchedule) -> list[int]:
        """Change some operators that are near each other; returns those that may move then."""
        near = self._near(schedule)
        touched = dict.fromkeys(near)
        for v in near:
            mates = schedule.groups[schedule.place(v)]
            touched |= dict.fromkeys((*mates, *sorted(self._before[v] | self._after[v])))
            schedule.remove(v)
        anew = self.random.random() < _P_REBUILT
        for v in near:
            schedule.chosen[v] = -1
        for v in near:
            if anew:
                self._insert(schedule, v, self._edges(schedule, v), alone=False)
            else:
                low = self._range(schedule, v)[0]
                schedule.groups.insert(low, [v])
                schedule.chosen[v] = int(self.random.integers(len(self._every[v])))
        return list(touched)

    def _near(self, schedule: GroupSchedule) -> list[int]:
        """Return the operators of one group, or some around one, or any where these are too few."""
        first = int(self.random.integers(len(schedule.chosen)))
        group = schedule.groups[schedule.place(first)]
        if len(group) > 1 and self.random.random() < _P_GROUP:
            return [group[place] for place in self.random.permutation(len(group)).tolist()]
        count, near = 1 + int(self.random.integers(_KICKED)), [first]
        for v in near:
            near += [u for u in sorted(self._before[v] | self._after[v]) if u not in near]
            if len(near) >= count:
                break
        if len(near) < count:  # no edge leads further: operators that only share units may move together
            near += [u for u in self.random.permutation(len(schedule.chosen)).tolist() if u not in near]
        return near[:count]

    def _goes_on(self, end_s: float) -> bool:
        return self.spent_s < end_s and not self.stop.out_of_time

    def _count(self, entries: int) -> None:
        self.spent_s += 1e-9 * (_NS_PER_LOOK + _NS_PER_ENTRY * entries)
