"""Exact timing of an allocation: the truth that every method is judged by (docs/sources/model.md 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral

import numpy as np
import numpy.typing as npt

from rramalloc.choices import Handoff
from rramalloc.errors import SpecError
from rramalloc.records import brief
from rramalloc.timing.kernel import batch_starts, makespans
from rramalloc.timing.stage_graph import StageGraph

Replication = npt.NDArray[np.int64]
"""Copies of every stage, in the canonical order of the graph; int64 of length n."""


@dataclass(frozen=True, eq=False)
class Timing:
    """When every batch of every stage starts.

    graph, replication, handoff: what was simulated; makespan: steps until the last stage has finished;
    starts: int32, start steps of all batches; first: int64 of length n + 1, where each stage's begin.
    """

    graph: StageGraph
    replication: Replication
    handoff: Handoff
    makespan: int
    starts: npt.NDArray[np.int32]
    first: npt.NDArray[np.int64]

    @property
    def delay(self) -> int:
        """Steps from the start of a batch until its pixels can be used: 1, or 0 with handoff "same"."""
        return int(self.handoff == "next")

    @cached_property
    def batches(self) -> npt.NDArray[np.int64]:
        """Batches of every stage, ceil(W / d)."""
        return np.diff(self.first)

    @cached_property
    def interval(self) -> int:
        """Steps between two inputs when inputs stream: the largest number of batches."""
        return int(self.batches.max())

    @cached_property
    def start(self) -> npt.NDArray[np.int32]:
        """Step in which every stage starts its first batch."""
        return self.starts[self.first[:-1]]

    @cached_property
    def finish(self) -> npt.NDArray[np.int32]:
        """Step after which every stage has finished its last batch."""
        return self.starts[self.first[1:] - 1] + 1

    @cached_property
    def stall_steps(self) -> npt.NDArray[np.int64]:
        """Steps a stage waits for its inputs after its first batch has started."""
        return self.finish - self.start - self.batches

    def of_stage(self, stage: int) -> npt.NDArray[np.int32]:
        """Start step of every batch of one stage."""
        return self.starts[self.first[stage] : self.first[stage + 1]]


def simulate(
    graph: StageGraph, replication: Sequence[int] | Replication, handoff: Handoff = "next"
) -> Timing:
    """Exact timing of one allocation given in canonical order.

    Raises SpecError if a replication is below 1 or above the stage's windows.
    Source: docs/sources/model.md 4.
    """
    copies = checked(graph, replication)
    starts = np.empty(int((-(-graph.windows // copies)).sum()), dtype=np.int32)
    first = np.empty(len(graph.windows) + 1, dtype=np.int64)
    makespan = batch_starts(graph.flat_binding, copies, int(handoff == "next"), starts, first)
    return Timing(graph, copies, handoff, int(makespan), starts, first)


def makespan_of_each(
    graph: StageGraph, replications: npt.NDArray[np.int64], handoff: Handoff = "next"
) -> npt.NDArray[np.int64]:
    """Exact makespan of every row of `replications`, shape (k, n), in canonical order; unchecked."""
    result = np.empty(len(replications), dtype=np.int64)
    makespans(graph.flat_binding, replications, int(handoff == "next"), result)
    return result


def makespan_of(graph: StageGraph, replication: Replication) -> int:
    """Exact makespan of one allocation, in canonical order; unchecked."""
    return int(makespan_of_each(graph, replication[None, :])[0])


def checked(
    graph: StageGraph, replication: Sequence[int] | Replication, where: str | None = None
) -> Replication:
    """Replication as an array, every value a whole number within 1 ... windows of its stage.

    where: the file it was read from by name, None for values given in order. Raises SpecError.
    """
    if len(replication) != len(graph.stages):
        raise SpecError("replication", f"has {len(replication)} values for {len(graph.stages)} stages")
    for name, copies, windows in zip(graph.names, replication, graph.windows.tolist(), strict=True):
        whole = isinstance(copies, Integral) and not isinstance(copies, bool)
        if whole and 1 <= copies <= windows:
            continue
        got = f"got {brief(int(copies) if whole else copies)}"
        if where is None:
            raise SpecError(f"replication of {name!r}", f"must be between 1 and its {windows} windows, {got}")
        raise SpecError(where, f"replication.{name[:60]}: must be from 1 to its {windows} windows, {got}")
    return np.array(replication, dtype=np.int64)


def replication_by_name(graph: StageGraph, replication: Mapping[str, int], where: str) -> Replication:
    """Replication from a mapping by stage name; stages left out have one copy.

    Raises SpecError for a name that is no stage and for copies outside 1 ... its windows.
    """
    known = set(graph.names)
    for name in replication:
        if name not in known:
            raise SpecError(
                where, f"replication: the network has no stage {name[:60]!r}; {_known(graph.names)}"
            )
    return checked(graph, [replication.get(name, 1) for name in graph.names], where)


def _known(names: Sequence[str], shown: int = 8) -> str:
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return f"its stages are {', '.join(names[:shown])}{more}"
