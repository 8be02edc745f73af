"""`separable`: the model of `milp`, solved to optimality by a search made for it (MODEL.md 5 and 6).

The same inequalities as `milp.build` and so the same optimum, a lower bound of the exact makespan. A target
is refuted or met by dynamic programming over the stages, from the last to the first, with dominance and
with bounds from a Lagrangian relaxation; targets are bisected.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rramalloc.search import separable_plan, separable_tables, separable_target
from rramalloc.search.bound import Outcome
from rramalloc.search.problem import SECONDS_PER_WORK, Candidate, Problem, Stop
from rramalloc.search.separable_kernel import steps_of
from rramalloc.search.separable_labels import stack_of
from rramalloc.timing.simulate import Replication

_SECONDS_PER_STEP = 5e-8
"""Time of one option of one label on a reference core: a count of work, not a clock."""
_CHUNK, _DIVE, _LARGEST_CHUNK = 1024, 64, 2**16
"""Labels of a level that go on together: at first, in a quick look for an allocation, at most."""
_FIRST_SLICE, _DIVE_SLICE, _GROWTH = 2**17, 2**18, 4
"""Work on one target before another is tried, and by how much chunk and slice grow when all are stuck."""
_FIRST, _LATER, _AGAIN = 96, 16, 16
"""Rounds in search of prices at first, at each later target, and those that count as done at a new one."""
_ROOM, _MOST_ENTRIES = 2**21, 2**22
"""Labels on the stack, and numbers in the tables of all levels."""

Prices = npt.NDArray[np.float64]


def solve(problem: Problem, stop: Stop, seed: int) -> Candidate:  # noqa: ARG001
    """Minimise the steps of the separable model. Same problem, work and gap give the same candidate.

    The allocation it belongs to can be far from the best under exact timing.  Source: MODEL.md 6.
    """
    search = _Search(problem, stop)
    search.run()
    return Candidate(search.replication, max(1, search.low), search.words, search.work * _SECONDS_PER_STEP)


@dataclass(eq=False)
class _Search:
    """No choice takes fewer than `low` steps in the model, `best` takes `high`."""

    problem: Problem
    stop: Stop
    low: int = 1
    high: int = field(init=False)
    work: int = 0

    def __post_init__(self) -> None:
        problem, edges = self.problem, self.problem.graph.flat_edges
        self._model, self._copies, kind = separable_tables.tables(
            problem.graph.windows, problem.smallest, problem.largest, problem.demand,
            edges.pointer, edges.producer.astype(np.int64), edges.offset, edges.need,
        )  # fmt: skip
        of_stage, into, origin, function, base = (self._model[part] for part in (3, 7, 8, 9, 11))
        self._plan = separable_plan.plan(len(problem.demand), of_stage, kind, into, origin, function, base)
        self._best, self._found = np.zeros((2, len(problem.demand)), dtype=np.int64)
        self._length = np.empty(len(self._model[4]) - 1, dtype=np.int64)
        self._head = np.empty(len(self._model[7]) - 1, dtype=np.int64)

    @property
    def replication(self) -> Replication:
        """Copies of the best choice."""
        chosen: Replication = self._copies[self._model[0][:-1] + self._best]
        return chosen

    def run(self) -> None:
        """Bring low and high together, as far as the work allowed and the clock let it."""
        model = self._model
        self.high = self._steps(self._best)
        mean, used = self._length.astype(np.float64), model[2][model[0][:-1]].astype(np.float64)
        self.low = separable_target.lowest_target(model, self.problem.budget, self.high)
        self._stack = stack_of(self._plan, _ROOM if self._searchable else 1)
        self._bisect(self._approach(mean, used), mean, used)

    def _approach(self, mean: Prices, used: Prices) -> int:
        """Raise the lower bound by prices alone; the first target that they do not refute."""
        target, turn, step = self.low, 0, 1
        while not self._done and target < self.high:
            outcome, following = self._attempt(target, mean, used, turn, _FIRST, 0, self._allowed)
            if outcome != Outcome.REFUTED.value:
                break
            self.low, turn = target + 1, _AGAIN
            target = max(target + min(step, target // 64), following)
            step *= 2
        return target

    def _bisect(self, target: int, mean: Prices, used: Prices) -> None:
        """Try targets, further and further up until one is met, then between the bounds."""
        turn, rounds, step = _FIRST, _LATER, 1
        chunk, most = _CHUNK if self._searchable else 0, _FIRST_SLICE
        dived: set[int] = set()
        while not self._done and chunk:
            target = min(target, self.high - 1)
            limit, before = min(most, self._affordable), self.work
            outcome, following = self._attempt(target, mean, used, turn, rounds, chunk, limit)
            full = self.work - before < limit
            turn, rounds = turn + rounds, _LATER
            if outcome == Outcome.UNDECIDED.value and target not in dived:
                dived.add(target)
                outcome, following = self._attempt(target, mean, used, turn, rounds, _DIVE, _DIVE_SLICE)
            if outcome == Outcome.REFUTED.value:
                self.low = target + 1
                target = max(target + step, following) if step else (self.low + self.high - 1) // 2
                step *= 2
            elif outcome == Outcome.FOUND.value:
                self._best, self.high = self._found.copy(), self._steps(self._found)
                target, step = (self.low + self.high - 1) // 2, 0
            elif target > self.low:
                target, step = (self.low + target) // 2, 1
            elif full:
                chunk, step = chunk // 8, 1
            else:
                chunk, most = min(_GROWTH * chunk, _LARGEST_CHUNK), _GROWTH * most
                rounds, step = _FIRST, 1

    def _attempt(
        self, target: int, mean: Prices, used: Prices, turn: int, rounds: int, chunk: int, limit: int
    ) -> tuple[int, int]:
        outcome, work, following = separable_target.attempt(
            self._model, self._plan, self.problem.budget, target, mean, used, turn, rounds, chunk,
            self._stack, limit, self._found,
        )  # fmt: skip
        self.work += work
        return outcome, following

    def _steps(self, choice: Replication) -> int:
        return int(steps_of(self._model, choice, self._length, self._head))

    @property
    def _allowed(self) -> int:
        return int(self.stop.work * SECONDS_PER_WORK / _SECONDS_PER_STEP)

    @property
    def _affordable(self) -> int:
        """Work left, and no more of it at once than there may be time for."""
        left = self._allowed - self.work
        if self.stop.time_limit_s is None:
            return left
        return min(left, int((self.stop.time_limit_s - self.stop.seconds) / _SECONDS_PER_STEP) + _CHUNK)

    @property
    def _searchable(self) -> bool:
        """Whether the rests of all stages fit in tables of a sensible size."""
        columns, stages = self._plan[13], len(self._best)
        return bool(columns * stages <= _MOST_ENTRIES and len(self._plan[9]) * stages <= 16 * _MOST_ENTRIES)

    @property
    def _done(self) -> bool:
        return (
            self.low >= self.high
            or self.stop.close_enough(self.high, self.low)
            or self.stop.out_of_time
            or self.work >= self._allowed
        )

    @property
    def words(self) -> str:
        """What was proven, and what ended the search."""
        if self.low >= self.high:
            what = "solved to optimality"
        elif self.stop.interrupted:
            what = "interrupted"
        elif self.stop.out_of_time:
            what = "stopped by the time limit (depends on the machine)"
        elif self.stop.close_enough(self.high, self.low):
            what = "stopped within the gap asked for"
        elif self.work >= self._allowed:
            what = "stopped after the work allowed"
        else:
            what = "stopped where it would take too much memory"
        return (
            f"separable model by dynamic programming with bounds, {what}: "
            f"no allocation takes less than {max(1, self.low)} steps in its model"
        )
