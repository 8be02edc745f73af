"""The tight recurrence: a lower bound of an allocation's makespan on any graph (docs/sources/model.md 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.choices import Handoff
from rramalloc.timing.simulate import Copies, checked_copies
from rramalloc.timing.stage_graph import StageGraph


@dataclass(frozen=True, slots=True, eq=False)
class Recurrence:
    """Terms of every stage in steps, int64 of length n, canonical order.

    normal_op: time of its batches; pre_op: wait before the first batch; op: lower bound of its finish;
    tail: batches left when the last needed pixel of the producer that decides `op` is available, minus the
    batches that this producer has left then (0 without a producer).
    """

    normal_op: npt.NDArray[np.int64]
    pre_op: npt.NDArray[np.int64]
    tail: npt.NDArray[np.int64]
    op: npt.NDArray[np.int64]

    @property
    def steps(self) -> int:
        """Lower bound of the makespan."""
        return int(self.op.max())


class _Arrival(NamedTuple):
    """The last pixel that a consumer needs of one producer.

    available: lower bound of the time when it is available; batch: first batch of the consumer that needs
    it; tail: as in Recurrence.
    """

    available: int
    batch: int
    tail: int


def recurrence(
    graph: StageGraph,
    copies: Copies,
    handoff: Handoff = "next",
    cycles: npt.NDArray[np.int64] | None = None,
) -> Recurrence:
    """Evaluate the recurrence. Raises SpecError as `simulate` does.

    docs/sources/model.md 5 writes Op_p + Tail for every edge. If a consumer does not need the producer's
    last batch, it may wait for less than Op_p, and the sum would be no lower bound; the finish of the batch
    that is needed takes the place of Op_p - (batches after it). Windows are counted as blocks, so the bound
    holds in every mode. cycles: ticks of a batch of each stage; all terms are then in ticks.
    """
    copies = checked_copies(graph, copies)
    ticks = np.ones_like(copies) if cycles is None else cycles
    delay = ticks * int(handoff == "next")
    batches = -(-graph.windows // copies)
    pre_op, tail, op = (np.zeros(len(copies), dtype=np.int64) for _ in range(3))
    arrivals: list[list[_Arrival]] = []
    edges = graph.flat_edges
    for stage in range(len(copies)):
        count = int(batches[stage])
        ticks_of_batch = int(ticks[stage])
        last = np.minimum(np.arange(1, count + 1) * copies[stage], graph.windows[stage]) - 1
        incoming = []
        for edge in range(edges.pointer[stage], edges.pointer[stage + 1]):
            producer = int(edges.producer[edge])
            need = edges.need[edges.offset[edge] + last]
            dep = need // copies[producer]
            other = int(ticks[producer])
            delay_of_edge = int(delay[producer]) + int(edges.lag[edge])
            if need[0] >= 0:  # else the first batch needs nothing of this producer
                pre_op[stage] = max(pre_op[stage], pre_op[producer] + int(dep[0]) * other + delay_of_edge)
            batch = int(np.searchsorted(dep, dep[-1]))
            needed = int(dep[-1])
            finished = _finished(int(pre_op[producer]), arrivals[producer], needed, other)
            left = (count - batch) * ticks_of_batch - (int(batches[producer]) - 1 - needed) * other
            incoming.append(_Arrival(finished - other + delay_of_edge, batch, left))
        arrivals.append(incoming)
        op[stage] = _finished(int(pre_op[stage]), incoming, count - 1, ticks_of_batch)
        if incoming:
            # Batches follow each other, so this arrival gives the largest bound of the last one.
            deciding = max(incoming, key=lambda arrival: arrival.available - arrival.batch * ticks_of_batch)
            tail[stage] = deciding.tail
    return Recurrence(batches * ticks, pre_op, tail, op)


def _finished(pre_op: int, arrivals: list[_Arrival], batch: int, ticks: int) -> int:
    """Return a lower bound of the finish of `batch`: batches start at least `ticks` after each other."""
    bound = pre_op + (batch + 1) * ticks
    for arrival in arrivals:
        if arrival.batch <= batch:
            bound = max(bound, arrival.available + (batch - arrival.batch + 1) * ticks)
    return bound
