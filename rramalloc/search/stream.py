"""Time of several inputs that stream: makespan + (inputs - 1) * interval (docs/sources/model.md 8).

Without the modes that take longer than an interval the makespan can only rise. So a bound of the makespan
at the longest interval of a range, with the shortest interval of the range, bounds every allocation in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from rramalloc.ndarrays import Ints
from rramalloc.search.auto import solve as solve_makespan
from rramalloc.search.descent import Descent
from rramalloc.search.menu import Menu, limited_to
from rramalloc.search.problem import Answer, Choice, Problem
from rramalloc.search.ranges import (
    FIRST_WORK_OF_LIMIT,
    FasterThan,
    Incumbent,
    LimitSearch,
    close_ranges,
)
from rramalloc.search.work import SECONDS_PER_WORK, Work

_DESCENT_SHARE = 0.1
"""Part of the work spent and planned that one descent may take."""
_WORK_BESIDE = 2  # times the work allowed, for ranges of intervals


@dataclass(eq=False)
class _ByInterval:
    """The `LimitModel` of the time of several inputs in steps; a limit is the number of an interval."""

    incumbent: Incumbent
    descent: Descent
    stop: Work
    seed: int
    inputs: int
    lengths: Ints

    def floor(self, first: int, last: int, time: float) -> float:
        """Return the time of all inputs with an interval that is not shorter, as `LimitModel.floor`."""
        return time + (self.inputs - 1) * int(self.lengths[first])

    def fastest(self, limit: int, work: int) -> FasterThan:
        """Return the least makespan with an interval that is not longer, as `LimitModel.fastest`."""
        problem, longest = self.incumbent.problem, int(self.lengths[limit])
        within = limited_to(problem, longest)
        share = self.stop.nested(work)
        if share.time_limit_s is not None:  # other intervals follow: each search takes half of what is left
            share.time_limit_s -= max(0.0, share.time_limit_s - share.seconds) / 2
        answer = solve_makespan(within, share, self.seed)
        self.stop.charge(max(share.spent_s, SECONDS_PER_WORK))
        menu = Menu.of(within)
        self.incumbent.propose(menu.choice(problem, menu.cheapest(longest)[0]))
        return FasterThan(problem.choice(answer.choice.copies, answer.choice.modes), answer.lower_bound)

    def update(self, found: Choice) -> None:
        """Update the incumbent; run a descent from solutions close to it."""
        self.descent.update(found, self.incumbent, _DESCENT_SHARE * self.stop.plan_s)


def steps_of(found: Choice, inputs: int) -> int:
    """Return the steps or ticks of `inputs` inputs that stream through an allocation."""
    if inputs == 1:
        return found.makespan
    return found.makespan + (inputs - 1) * found.problem.time.interval(found.copies, found.modes)


def solve(problem: Problem, stop: Work, seed: int, inputs: int) -> Answer:
    """Minimise the time of `inputs` inputs in steps or ticks, with a bound of that time.

    The answer is not worse than those for the latency and for the interval with the same work: ranges of
    intervals take twice that, and where they leave a gap the search for the latency follows.
    """
    if inputs == 1:
        return solve_makespan(problem, stop, seed)
    menu, incumbent = Menu.of(problem), Incumbent(problem, partial(steps_of, inputs=inputs))
    share = stop.nested(_WORK_BESIDE * stop.work)
    lengths = menu.intervals(problem)
    model = _ByInterval(incumbent, Descent(problem, menu, share), share, seed, inputs, lengths)
    for start in (menu.smallest, menu.cheapest(menu.smallest_interval(problem))[0]):
        incumbent.propose(menu.choice(problem, start))
    for found in problem.starts(share):
        incumbent.propose(found)
    bound = model.floor(0, len(lengths) - 1, 1)
    if not stop.out_of_time:
        search, last = LimitSearch(model, incumbent, share), len(lengths) - 1
        pieces = [search.searched(-1, 0, FIRST_WORK_OF_LIMIT)]
        if last > 0:
            pieces.append(search.searched(0, last, FIRST_WORK_OF_LIMIT))
        bound = close_ranges(pieces, search.parts, incumbent, share)
        if stop.is_open(incumbent.value, bound):
            alone = stop.nested(stop.work)
            # Every incumbent: a longer search ends with another one, which may stream more slowly.
            incumbent.propose(solve_makespan(problem, alone, seed, every=incumbent.propose).choice)
            stop.charge(alone.spent_s)
    stop.charge(share.taken())
    least = math.ceil(min(bound, incumbent.value))
    why = stop.reason(round(incumbent.value), least)
    words = f"{why}: branch and bound over ranges of intervals, for {inputs} inputs"
    return incumbent.answer(words, least)
