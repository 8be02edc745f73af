"""What is done to single steps of the front: improve, bound, branch, search. Each task works for many steps.

A task gets an archive of its own, a list of budgets and a limit of counted seconds. What it comes to
depends on nothing else, so tasks may run side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from rramalloc.search.archive import Archive, Step
from rramalloc.search.auto import WarmStart, solve_to_target
from rramalloc.search.bound import Bounder, Outcome
from rramalloc.search.improve import Found, Improver
from rramalloc.search.problem import SECONDS_PER_WORK, Problem, Stop
from rramalloc.timing.simulate import makespan_of

_PRIMES = 7919, 104729
"""Spread the seeds of rounds and budgets."""


class Effort(NamedTuple):
    """What each step gets: seconds of improving, nodes of branching, units of work of a whole search."""

    improve_s: float
    nodes: int
    work: int


class Done(NamedTuple):
    """Seconds of work counted; steps that were tried, and those of them with which it got on."""

    seconds: float
    tried: int = 0
    succeeded: int = 0


Task = Callable[[Archive, Sequence[int], float], Done]


@dataclass(frozen=True, eq=False)
class Tasks:
    """The tasks of one round.

    bounder: of the whole problem; effort: what each step gets; seed: differs from round to round.
    """

    problem: Problem
    bounder: Bounder
    stop: Stop
    effort: Effort
    seed: int

    @classmethod
    def of_round(cls, number: int, bounder: Bounder, stop: Stop, effort: Effort, seed: int) -> Tasks:
        """The tasks of the round with that number."""
        return cls(bounder.problem, bounder, stop, effort, seed + _PRIMES[0] * number)

    def improve(self, archive: Archive, budgets: Sequence[int], limit_s: float) -> Done:
        """Rebalance and anneal from a step's allocation and its neighbours'."""
        spent = 0.0
        for step in self._open(archive, budgets):
            if spent >= limit_s:
                break
            improver = Improver(self._within(step.until), self._seed(step.until), archive.slots)
            improver.guides = [archive.replication(near) for near in archive.beside(step)]
            best = Found(archive.replication(step), step.makespan, 0.0)
            found = improver.run(best, archive.bound(step), self.effort.improve_s, self.stop)
            archive.offer(found.replication, found.makespan)
            spent += found.seconds
        return Done(spent)

    def bound(self, archive: Archive, budgets: Sequence[int], limit_s: float) -> Done:
        """Raise bounds by propagation; budgets from the largest to the smallest, as bounds pass on."""
        spent, price = 0.0, -1
        for step in self._open(archive, budgets):
            if spent >= limit_s:
                break
            bounder = self.bounder.within(step.until)
            bound, price, nodes = bounder.raised(archive.bound(step), step.makespan, price)
            archive.raise_bound(step.until, bound)
            spent += nodes * bounder.node_seconds
        return Done(spent)

    def branch(self, archive: Archive, budgets: Sequence[int], limit_s: float) -> Done:
        """Refute what would be faster by a step, or find it; else try half of the gap."""
        spent, tried, succeeded = 0.0, 0, 0
        for step in self._open(archive, budgets):
            if spent >= limit_s:
                break
            tried += 1
            bounder = self.bounder.within(step.until)
            targets = {step.makespan - 1, (step.makespan + archive.bound(step)) // 2 - 1}
            for target in sorted(targets - {archive.bound(step) - 1}, reverse=True):
                outcome, nodes, found = bounder.decide(target, self.effort.nodes)
                spent += nodes * bounder.node_seconds + bounder.sweep_seconds
                if outcome is Outcome.REFUTED:
                    archive.raise_bound(step.until, target + 1)
                elif outcome is Outcome.FOUND:
                    archive.offer(found, makespan_of(self.problem.graph, found))
                if outcome is not Outcome.UNDECIDED:
                    succeeded += 1
                    break
        return Done(spent, tried, succeeded)

    def search(self, archive: Archive, budgets: Sequence[int], limit_s: float) -> Done:
        """Whole searches, each beginning with what is known of its budget."""
        spent = 0.0
        for step in self._open(archive, budgets):
            if spent >= limit_s:
                break
            work = min(self.effort.work, math.ceil((limit_s - spent) / SECONDS_PER_WORK))
            stop = replace(self.stop, work=work, cores=1, on_progress=None, history=[])
            warm_start = WarmStart(archive.replication(step), archive.bound(step), archive.slots)
            found = solve_to_target(self._within(step.until), stop, self._seed(step.until), 0, warm_start)
            archive.offer(found.replication, makespan_of(self.problem.graph, found.replication))
            archive.raise_bound(step.until, found.lower_bound)
            spent += found.seconds or 0.0
        return Done(spent)

    def _open(self, archive: Archive, budgets: Sequence[int]) -> Iterator[Step]:
        """The steps at these budgets that are not proven by the time it is their turn."""
        for budget in budgets:
            step = archive.at(budget)
            if archive.bound(step) < step.makespan and not self.stop.out_of_time:
                yield step

    def _within(self, budget: int) -> Problem:
        return replace(self.problem, budget=budget)

    def _seed(self, budget: int) -> int:
        return self.seed + _PRIMES[1] * budget
