"""Exact timing of an allocation, by which every method is judged (docs/sources/model.md 4)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from rramalloc.choices import Handoff
from rramalloc.errors import SpecError
from rramalloc.mapping.mode import SINGLE
from rramalloc.mapping.modes import BlockGrid
from rramalloc.network.geometry import Pair
from rramalloc.records import brief
from rramalloc.timing.kernel import batch_starts, makespans
from rramalloc.timing.stage_graph import MOST_CYCLES, StageGraph, StateRead

_LISTED = 8  # names in a message before "and N more"
Copies = npt.NDArray[np.int64]
"""Copies of every stage, in the canonical order of the graph; int64 of length n."""


@dataclass(frozen=True, eq=False)
class ExactTiming:
    """When every batch of every stage starts.

    graph, copies, handoff: what was simulated; cycles: int64, ticks that a batch of each stage lasts,
    1 where all stages step together; makespan: steps, or ticks, until the last stage has finished;
    starts: start steps of all batches; first: int64 of length n + 1, where each stage's begin.
    """

    graph: StageGraph
    copies: Copies
    handoff: Handoff
    cycles: npt.NDArray[np.int64]
    makespan: int
    starts: npt.NDArray[np.signedinteger[Any]]
    first: npt.NDArray[np.int64]

    @property
    def delay(self) -> npt.NDArray[np.int64]:
        """Steps from the start of a batch of each stage until its pixels can be used, 0 for "same"."""
        return self.cycles * int(self.handoff == "next")

    @cached_property
    def batches(self) -> npt.NDArray[np.int64]:
        """Batches of every stage, ceil(W / d)."""
        return np.diff(self.first)

    @cached_property
    def period(self) -> float:
        """Steps between two inputs when inputs stream: the time of all batches of the slowest stage.

        Where the next input needs this one's output, that is the makespan, which sequences share that take
        turns; where it needs a state that this one writes, the time until it is written, if that is longer.
        Source: docs/sources/model.md 8.
        """
        busy = int((self.batches * self.cycles).max())
        sequences = self.graph.network.sequences
        if sequences is not None:  # no state comes later than the output
            return max(self.makespan / sequences, busy)
        return max(busy, *map(self._wait, self.graph.state_reads), 0)

    def _wait(self, read: StateRead) -> int:
        """Return the most steps from the first batch that reads a pixel of a state until it is available."""
        is_read = read.first >= 0
        blocks = self.graph.grids[read.state].numbers()[is_read]
        written = self.of_stage(read.state)[blocks // self.copies[read.state]].astype(np.int64)
        begun = self.of_stage(read.layer)[read.first[is_read] // self.copies[read.layer]]
        return int((written - begun).max(initial=0) + self.delay[read.state])

    @property
    def interval(self) -> int:
        """The same in whole steps."""
        return math.ceil(self.period)

    @cached_property
    def start(self) -> npt.NDArray[np.int64]:
        """Step in which every stage starts its first batch."""
        return self.starts[self.first[:-1]].astype(np.int64)

    @cached_property
    def finish(self) -> npt.NDArray[np.int64]:
        """Step after which every stage has finished its last batch."""
        return self.starts[self.first[1:] - 1] + self.cycles

    @cached_property
    def stall_steps(self) -> npt.NDArray[np.int64]:
        """Steps a stage waits for its inputs after its first batch has started."""
        return self.finish - self.start - self.batches * self.cycles

    def of_stage(self, stage: int) -> npt.NDArray[np.signedinteger[Any]]:
        """Return the start step of every batch of a stage."""
        return self.starts[self.first[stage] : self.first[stage + 1]]


def simulate(
    graph: StageGraph,
    copies: Sequence[int] | Copies,
    handoff: Handoff = "next",
    cycles: Sequence[int] | npt.NDArray[np.int64] | None = None,
) -> ExactTiming:
    """Return the exact timing of an allocation given in canonical order.

    cycles: ticks that a batch of each stage lasts; left out, those of the graph's clocks, or one step.
    Raises SpecError if a stage has no copies or more than its blocks, or a batch lasts less than a tick or
    more than MOST_CYCLES. Source: docs/sources/model.md 4, 10 and 11.
    """
    counts = checked_copies(graph, copies)
    ticks = _ticks(graph, counts) if cycles is None else _checked_cycles(graph, cycles)
    starts = np.empty(int((-(-graph.windows // counts)).sum()), dtype=np.int64)
    first = np.empty(len(graph.windows) + 1, dtype=np.int64)
    makespan = batch_starts(graph.flat_binding, None, ticks, counts, int(handoff == "next"), starts, first)
    return ExactTiming(graph, counts, handoff, ticks, int(makespan), starts, first)


def _ticks(graph: StageGraph, copies: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the ticks of a batch of every stage, 1 of steps, so that kernels are compiled once."""
    return np.ones_like(copies) if graph.unit == "steps" else graph.batch_ticks(copies)


def makespan_of_each(
    graph: StageGraph, copies: npt.NDArray[np.int64], handoff: Handoff = "next"
) -> npt.NDArray[np.int64]:
    """Return the exact makespan of every row of `copies`, (k, n) in canonical order; unchecked."""
    result, first = np.empty(len(copies), dtype=np.int64), np.empty(len(graph.windows) + 1, np.int64)
    ticks = _ticks(graph, copies)
    starts = np.empty(int(graph.windows.sum()), dtype=np.int64)
    makespans(graph.flat_binding, ticks, copies, int(handoff == "next"), starts, first, result)
    return result


def makespan_of(graph: StageGraph, copies: Copies) -> int:
    """Return the exact makespan of an allocation given in canonical order; unchecked."""
    return int(makespan_of_each(graph, copies[None, :])[0])


def checked_copies(graph: StageGraph, copies: Sequence[int] | Copies, where: str | None = None) -> Copies:
    """Return the copies as int64, each value checked to be a whole number in 1 ... windows of its stage.

    where: the file it was read from by name, None for values given in order. Raises SpecError.
    """
    if len(copies) != len(graph.stages):
        raise SpecError("copies", f"has {len(copies)} values for {len(graph.stages)} stages")
    if isinstance(copies, np.ndarray) and copies.dtype == np.int64:  # 5,000 stages are checked at once
        counts: Copies = copies.copy()
        if ((counts >= 1) & (counts <= graph.most_copies)).all():
            return counts
    limits = graph.most_copies.tolist()
    for grid, name, most, count in zip(graph.grids, graph.names, limits, copies, strict=True):
        windows, unit = grid.total, "windows"
        if grid.block != SINGLE:
            unit = f"blocks of {grid.block[0]} x {grid.block[1]} windows"
        is_whole_number = isinstance(count, Integral) and not isinstance(
            count, bool
        )  # bool is an int in Python
        if is_whole_number and 1 <= count <= most:
            continue
        got = f"got {brief(int(count) if is_whole_number else count)}"
        if most < windows:
            got = f"and a recurrence has one copy, {got}"
        raise _refused(where, "copies", name, f"must be from 1 to its {windows} {unit}, {got}")
    return np.array(copies, dtype=np.int64)


def _checked_cycles(
    graph: StageGraph, cycles: Sequence[int] | npt.NDArray[np.int64], where: str | None = None
) -> npt.NDArray[np.int64]:
    if len(cycles) != len(graph.stages):
        raise SpecError("cycles", f"has {len(cycles)} values for {len(graph.stages)} stages")
    for name, ticks in zip(graph.names, cycles, strict=True):
        is_integer = isinstance(ticks, Integral) and not isinstance(ticks, bool)
        if not (is_integer and 1 <= ticks <= MOST_CYCLES):
            reason = f"must be a whole number of ticks from 1 to {MOST_CYCLES}, got {brief(ticks)}"
            raise _refused(where, "cycles", name, reason)
    return np.array(cycles, dtype=np.int64)


def _refused(where: str | None, field: str, name: str, reason: str) -> SpecError:
    """Return the error about a value of a stage, in the file `where` or in values given in order."""
    if where is None:
        return SpecError(f"{field} of {name!r}", reason)
    return SpecError(where, f"{field}.{name[:60]}: {reason}")


def copies_by_name(graph: StageGraph, copies: Mapping[str, int], where: str) -> Copies:
    """Return the copies that a mapping by stage name gives; stages left out have one copy.

    Raises SpecError for a name that is no stage and for copies outside 1 ... its windows.
    """
    _check_names(graph, "copies", copies, where)
    return checked_copies(graph, [copies.get(name, 1) for name in graph.names], where)


def blocks_by_name(graph: StageGraph, blocks: Mapping[str, Pair], where: str) -> tuple[Pair, ...]:
    """Return the block of every stage that a mapping by stage name gives, the graph's for stages left out.

    Raises SpecError for a name that is no stage and for a block that its stage cannot have.
    """
    _check_names(graph, "block", blocks, where)
    for stage in graph.stages:
        try:
            if stage.name in blocks:
                BlockGrid.of(stage, graph.network.shapes[stage.name], blocks[stage.name])
        except SpecError as error:
            raise SpecError(where, f"block.{stage.name[:60]}: {error.reason}") from None
    return tuple(
        blocks.get(name, unchanged) for name, unchanged in zip(graph.names, graph.blocks, strict=True)
    )


def cycles_by_name(graph: StageGraph, cycles: Mapping[str, int], where: str) -> npt.NDArray[np.int64]:
    """Return the ticks of a batch of every stage that a mapping by stage name gives, 1 for stages left out.

    Raises SpecError for a name that is no stage and for ticks outside 1 ... MOST_CYCLES.
    """
    _check_names(graph, "cycles", cycles, where)
    return _checked_cycles(graph, [cycles.get(name, 1) for name in graph.names], where)


def _check_names(graph: StageGraph, kind: str, named: Mapping[str, Any], where: str) -> None:
    names, unknown = graph.names, set(named).difference(graph.names)
    if unknown:
        name = next(name for name in named if name in unknown)
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        known = f"its stages are {', '.join(names[:_LISTED])}{more}"
        what = f"the network has no stage {name[:60]!r}"
        # The layer exists but is no stage: say why.
        if any(stage.name == name for stage in graph.network.stages):
            what = f"{name[:60]!r} is left to the host, by --fc or --host"
        raise SpecError(where, f"{kind}: {what}; {known}")
