"""The judge: re-times an allocation and re-checks the budget with code that no search shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rramalloc.choices import MAX_ARRAYS, Handoff
from rramalloc.errors import SolverError
from rramalloc.mapping.mode import ModeOfEach
from rramalloc.mapping.modes import smallest_block
from rramalloc.network.geometry import Pair
from rramalloc.search.problem import Answer, Problem
from rramalloc.timing.simulate import ExactTiming, simulate
from rramalloc.timing.stage_graph import StageGraph


@dataclass(frozen=True, slots=True, eq=False)
class CheckedTiming:
    """An allocation, simulated anew and checked.

    timing: exact; problem: with the blocks of the allocation; taken: arrays of all copies of every stage, in
    canonical order.
    """

    timing: ExactTiming
    problem: Problem
    taken: npt.NDArray[np.int64]

    @property
    def used(self) -> int:
        """Arrays of all stages."""
        return int(self.taken.sum())

    @property
    def demand(self) -> npt.NDArray[np.int64]:
        """Arrays of one copy of every stage, in canonical order."""
        return self.problem.storage.stored(self.timing.graph.modes, np.ones_like(self.taken))

    @property
    def copies(self) -> dict[str, int]:
        """Copies by name, in network order."""
        graph = self.timing.graph
        copies = self.timing.copies.tolist()
        return {graph.names[stage]: copies[stage] for stage in graph.network_order}

    @property
    def blocks(self) -> dict[str, Pair] | None:
        """Windows (height, width) that a copy of each stage computes in a step; None without modes."""
        graph = self.timing.graph
        if not self.problem.chooses_blocks:
            return None
        return {graph.names[stage]: graph.blocks[stage] for stage in graph.network_order}

    @property
    def kind(self) -> dict[str, str] | None:
        """Kind of the arrays of every layer on arrays, in network order; None where there is one kind."""
        graph = self.timing.graph
        hardware = self.problem.storage.hardware
        if hardware is None or hardware.kinds is None:
            return None
        names = [kind.name for kind in hardware.kinds]
        stored = [stage for stage in graph.network_order if graph.weighted[stage]]
        return {graph.names[stage]: names[graph.modes[stage].kind] for stage in stored}

    @property
    def by_kind(self) -> dict[str, int] | None:
        """Arrays used of every kind; None where there is one."""
        hardware = self.problem.storage.hardware
        if hardware is None or hardware.kinds is None:
            return None
        used = [0] * len(hardware.kinds)
        for mode, taken in zip(self.timing.graph.modes, self.taken.tolist(), strict=True):
            used[mode.kind] += taken
        return {kind.name: count for kind, count in zip(hardware.kinds, used, strict=True)}

    @property
    def has_shifted_kernels(self) -> bool:
        """Whether a copy of any stage computes more than the smallest block."""
        graph = self.timing.graph
        return graph.blocks != tuple(map(smallest_block, graph.stages))


def check_answer(problem: Problem, answer: Answer, budget: int, method: str) -> CheckedTiming:
    """Simulate the answer of a method, and check its copies, arrays, timing and bound.

    Raises SolverError, which names the method, if something does not hold.
    """
    modes = answer.choice.modes
    fixed = problem.timed(answer.choice)
    timing = simulate(fixed.graph, answer.choice.copies)
    taken = problem.storage.taken(modes, timing.copies)
    most = budget if len(problem.resources.weights) == 1 else MAX_ARRAYS  # of kinds, the axes limit them
    recheck(timing, taken.tolist(), most, method)
    _recheck_kinds(problem, modes, taken.tolist(), method)
    return CheckedTiming(timing, fixed, taken)


def _recheck_kinds(problem: Problem, modes: ModeOfEach, taken: Sequence[int], method: str) -> None:
    """Raise SolverError for more arrays of a kind than there are, or for more area than is allowed."""
    resources = problem.resources
    for axis in resources.axes:
        pairs = zip(modes, taken, strict=True)
        used = sum(axis.per_array[mode.kind] * arrays for mode, arrays in pairs)
        if used > axis.limit:
            raise SolverError(f"{method} used {used} {axis.name}, the limit is {axis.limit}")
    if len(resources.weights) > 1:
        cost = sum(arrays * resources.weights[mode.kind] for mode, arrays in zip(modes, taken, strict=True))
        if cost > problem.budget:
            words = f"{method} took {resources.words(cost)}"
            raise SolverError(f"{words}, the limit is {resources.words(problem.budget)}")


def recheck(timing: ExactTiming, arrays: Sequence[int], budget: int, method: str) -> None:
    """Raise SolverError unless the allocation fits and its timing is exact.

    arrays: what all copies of every stage take, in canonical order.
    """
    for stage, name in enumerate(timing.graph.names):
        copies = int(timing.copies[stage])
        if not 1 <= copies <= int(timing.graph.most_copies[stage]):
            raise SolverError(f"{method} gave {copies} copies of {name!r}: outside 1 ... its windows")
    used = sum(arrays)
    if used > budget:
        raise SolverError(f"{method} used {used} arrays, the budget is {budget}")
    finish = finish_by_cumulative_maximum(timing.graph, timing.copies, timing.cycles, timing.handoff)
    if finish != timing.finish.tolist():
        raise SolverError(f"{method}: two independent simulations disagree; please report this network")


def recheck_bound(value: float, bound: float, unit: str, method: str) -> None:
    """Raise SolverError if a bound of the objective is above a value that an allocation reaches."""
    if bound > value:
        raise SolverError(f"{method} claims no less than {bound:.17g} {unit}, yet {value:.17g} are enough")


def finish_by_cumulative_maximum(
    graph: StageGraph, copies: npt.NDArray[np.int64], cycles: npt.NDArray[np.int64], handoff: Handoff
) -> list[int]:
    """Return the exact finish of every stage without the compiled code: all edges, one cumulative maximum.

    Equal stages whose inputs differ by a delay alone differ by that delay, so one of them is computed.
    """
    counts = copies.tolist()
    lengths = cycles.tolist()
    windows = graph.windows.tolist()
    handed = lengths if handoff == "next" else [0] * len(lengths)  # ticks until a batch is handed on
    first: list[int] = []  # start of every stage, of which `curve` has the starts of its batches after that
    curve: list[npt.NDArray[np.int64]] = []
    curves: dict[bytes, npt.NDArray[np.int64]] = {}
    known: dict[tuple[object, ...], tuple[int, npt.NDArray[np.int64]]] = {}
    finish: list[int] = []
    for stage, edges in enumerate(graph.incoming):
        count = counts[stage]
        length = lengths[stage]
        ready = [first[producer] + handed[producer] + lag for producer, lag, _ in edges]
        waits = all(need[min(count, windows[stage]) - 1] >= 0 for _, _, need in edges)
        begin = min(ready) if waits and ready else 0
        inputs = [
            (curve[producer], since - begin, counts[producer], need)
            for (producer, _, need), since in zip(edges, ready, strict=True)
        ]
        key = (count, length, windows[stage], *[(id(c), since, d, id(need)) for c, since, d, need in inputs])
        if key not in known:
            starts = _starts_of_stage(windows[stage], count, length, inputs)
            after = starts - starts[0]
            known[key] = int(starts[0]), curves.setdefault(after.tobytes(), after)
        delay, after = known[key]
        first.append(begin + delay)
        curve.append(after)
        finish.append(first[-1] + int(after[-1]) + length)
    return finish


def _starts_of_stage(
    windows: int,
    count: int,
    length: int,
    inputs: Sequence[tuple[npt.NDArray[np.int64], int, int, npt.NDArray[np.int32]]],
) -> npt.NDArray[np.int64]:
    """Return the start of every batch of a stage.

    inputs: starts of a producer, ticks until the consumer has them, its copies, and what each window needs.
    ready(b) is the step in which the inputs of batch b are there and p the length of a batch. Then start(b) =
    max over a <= b of (ready(a) - a * p) + b * p, the closed form of docs/sources/model.md 4.
    """
    order = np.arange(-(-windows // count))
    last = np.minimum((order + 1) * count, windows) - 1
    ready = np.zeros(len(order), dtype=np.int64)
    for starts, delay, copies, need in inputs:
        needed = need[last]
        ready = np.maximum(ready, np.where(needed < 0, 0, starts[needed // copies] + delay))
    paced: npt.NDArray[np.int64] = order * length
    return np.maximum.accumulate(ready - paced) + paced
