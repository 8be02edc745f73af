"""The objective of a segment: to write it and to run so many inputs through it (docs/sources/model.md 13)."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

import numpy as np
from typing_extensions import override

from rramalloc.commands.reload.staircase import Staircase
from rramalloc.commands.reload.writing import Writing
from rramalloc.errors import SpecError
from rramalloc.search.array_ranges import ArrayRangeSearch, FasterThan
from rramalloc.search.objective import Interval, Latency, Objective
from rramalloc.search.problem import Candidate, Problem, Stop
from rramalloc.timing.access import Absolute
from rramalloc.timing.simulate import ExactTiming
from rramalloc.units import Unit

_STEPS, _MOST_TRIED = 3, 400
"""Steps of a staircase that are tried in each direction, and modes that are tried before the last round."""
_SECONDS_PER_STAGE = 1e-4
"""Of timing an allocation in other blocks."""
_SECONDS_PER_MODE = 1e-5
"""Of the time of a mode of a stage alone."""
_ROUNDING = 1e-9


class LoadedRun(Objective):
    """Time to write the weights, and from the first of so many inputs until the last output."""

    name, label = "reload", "time of writing and running"
    unit: Unit = "ns"

    def __init__(self, problem: Problem, writing: Writing, inputs: int) -> None:
        super().__init__(problem)
        if problem.step_time is None:
            raise SpecError(
                "reload",
                "needs the time of a step in the hardware's [timing]: writing takes ns, running steps",
            )
        self.writing, self.inputs = writing, inputs

    def write_ns(self, timing: ExactTiming) -> float:
        """Time to write the weights."""
        return self.writing.ns(self.writing.wordlines(timing.graph.blocks, timing.replication))

    def run_ns(self, timing: ExactTiming) -> float:
        """Time of all inputs: the latency of one, and an interval for each of the others."""
        absolute = Absolute.of(self.problem.in_blocks(timing.graph.blocks).step_time, timing)
        step_ns = absolute.step_ns or absolute.tick_ns or 0.0
        return (timing.makespan + (self.inputs - 1) * timing.interval) * step_ns

    @override
    def value(self, timing: ExactTiming) -> float:
        return self.write_ns(timing) + self.run_ns(timing)

    @override
    def solve(self, stop: Stop, seed: int) -> Candidate:
        def fastest(problem: Problem, work: int) -> FasterThan:
            """The faster of the least latency and the smallest interval, with the bounds of both."""
            bound_ns, candidates = 0.0, list[Candidate]()
            for times, kind in ((1, Latency), (self.inputs - 1, Interval)):
                if times:
                    objective = kind(problem)
                    share = stop.nested(work)
                    candidates.append(objective.solve(share, seed))
                    bound_ns += times * objective.in_ns(objective.bound(candidates[-1], share))
            seconds = sum(candidate.seconds or 0.0 for candidate in candidates)
            best = min(candidates, key=lambda candidate: self.run_ns(problem.timing(candidate)))
            return FasterThan(replace(best, seconds=seconds), bound_ns)

        if self._alone:
            return self._fastest_mode()

        return self.improved(ArrayRangeSearch(self.problem, stop, self.value, self.floor, fastest).run())

    @property
    def _alone(self) -> bool:
        """Whether there is one stage, whose batches take as long whatever its copies."""
        step_time = self.problem.step_time
        return len(self.problem.demand) == 1 and step_time is not None and not step_time.depends_on_copies

    def _fastest_mode(self) -> Candidate:
        """The best mode of a single stage: its makespan and interval are the time of its batches.

        Copies alone that write more wordlines and take longer than others are no better in any round,
        so this is the optimum of them; with blocks it need not be.
        """
        best, best_ns, (stairs,) = None, math.inf, self._stairs
        modes = stairs.near(0, len(stairs.modes.length))
        for (block, copies), length in modes:
            written = self.writing.ns(self.writing.of_stage(0, block, copies))
            candidate = Candidate(np.array([copies], dtype=np.int64), 1, "every mode tried", blocks=(block,))
            value = written + self.inputs * Latency(self.problem).in_ns(length)
            if value < best_ns and self.problem.holds(candidate.replication, candidate.blocks):
                best, best_ns = candidate, value
        if best is None:
            raise AssertionError("one copy fits")
        bound = best_ns if self.problem.modes is None else None
        return replace(best, seconds=len(modes) * _SECONDS_PER_MODE, objective_bound=bound)

    def improved(self, candidate: Candidate) -> Candidate:
        """A local optimum over modes: none near that of a stage on its staircase of wordlines is faster."""
        if self.problem.modes is None:
            return candidate
        problem, tried, improved = self.problem, 0, True
        best = self.value(problem.timing(candidate))
        while improved and tried < _MOST_TRIED:
            improved = False
            for stage, stairs in enumerate(self._stairs):
                timing = problem.timing(candidate)
                length = int(timing.batches[stage] * timing.cycles[stage])
                for (block, copies), _ in stairs.near(length, _STEPS):
                    blocks, replication = list(timing.graph.blocks), candidate.replication.copy()
                    blocks[stage], replication[stage] = block, copies
                    trial = replace(candidate, blocks=tuple(blocks), replication=replication)
                    if not problem.holds(replication, trial.blocks):
                        continue
                    tried += 1
                    value = self.value(problem.timing(trial))
                    if value < best * (1 - _ROUNDING):
                        best, candidate, improved = value, trial, True
        spent_s = tried * len(self._stairs) * _SECONDS_PER_STAGE
        return replace(candidate, seconds=(candidate.seconds or 0.0) + spent_s)

    @cached_property
    def _stairs(self) -> list[Staircase]:
        stages, most = range(len(self.problem.demand)), self.problem.budget
        return [Staircase.of(self.problem, self.writing, stage, most) for stage in stages]

    @override
    def bound(self, candidate: Candidate, stop: Stop) -> float:
        known = candidate.objective_bound
        return self.floor(self.problem.minimum, 0.0) if known is None else known

    def floor(self, arrays: int, run_ns: float) -> float:
        """What no allocation undercuts with at least so many arrays and so much time for its inputs."""
        return self.writing.floor_ns(arrays, self.problem.minimum) + run_ns
