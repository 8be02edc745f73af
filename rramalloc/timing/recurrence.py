"""The tight recurrence: a lower bound of an allocation's makespan on any graph (docs/sources/model.md 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rramalloc.choices import Handoff
from rramalloc.timing.simulate import Replication, checked
from rramalloc.timing.stage_graph import StageGraph


@dataclass(frozen=True, slots=True, eq=False)
class Recurrence:
    """Terms of every stage in steps, int64 of length n, canonical order.

    normal_op: batches; pre_op: wait before the first batch; op: finish, never above the exact one;
    tail: batches left when the producer that decides `op` has delivered its last pixel, less the
    batches that producer itself has left then (0 without a producer).
    """

    normal_op: npt.NDArray[np.int64]
    pre_op: npt.NDArray[np.int64]
    tail: npt.NDArray[np.int64]
    op: npt.NDArray[np.int64]

    @property
    def steps(self) -> int:
        """Lower bound of the makespan."""
        return int(self.op.max())


@dataclass(slots=True)
class _Arrival:
    """What a consumer knows of one producer: when the last pixel it needs is there.

    finished: lower bound of the finish of the producer's batch with that pixel; batch: first batch of the
    consumer that needs it; tail: as in Recurrence.
    """

    finished: int
    batch: int
    tail: int


def recurrence(graph: StageGraph, replication: Replication, handoff: Handoff = "next") -> Recurrence:
    """Evaluate the recurrence. Raises SpecError as `simulate` does.

    docs/sources/model.md 5 writes Op_p + Tail for every edge. Where a consumer does not need the producer's
    last batch, Op_p can exceed what the consumer waits for and the sum would be no bound; there the finish
    of the batch that is needed takes the place of Op_p - (batches after it).
    """
    copies = checked(graph, replication)
    delay = int(handoff == "next")
    batches = -(-graph.windows // copies)
    pre_op, tail, op = (np.zeros(len(copies), dtype=np.int64) for _ in range(3))
    arrivals: list[list[_Arrival]] = []
    edges = graph.flat_edges
    for stage in range(len(copies)):
        count = int(batches[stage])
        last = np.minimum(np.arange(1, count + 1) * copies[stage], graph.windows[stage]) - 1
        incoming = []
        for edge in range(edges.pointer[stage], edges.pointer[stage + 1]):
            producer = int(edges.producer[edge])
            need = edges.need[edges.offset[edge] + last]
            dep = need // copies[producer]
            if need[0] >= 0:
                pre_op[stage] = max(pre_op[stage], pre_op[producer] + dep[0] + delay)
            batch = int(np.searchsorted(dep, dep[-1]))
            needed = int(dep[-1])
            finished = _finished(int(pre_op[producer]), arrivals[producer], needed, delay)
            left = count - batch - (int(batches[producer]) - 1 - needed)
            incoming.append(_Arrival(finished, batch, left))
        arrivals.append(incoming)
        op[stage] = _finished(int(pre_op[stage]), incoming, count - 1, delay)
        if incoming:
            deciding = max(incoming, key=lambda arrival: arrival.finished - arrival.batch)
            tail[stage] = deciding.tail
    return Recurrence(batches, pre_op, tail, op)


def _finished(pre_op: int, arrivals: list[_Arrival], batch: int, delay: int) -> int:
    """Lower bound of the finish of `batch`: batches follow each other at least a step apart."""
    bound = pre_op + batch + 1
    for arrival in arrivals:
        if arrival.batch <= batch:
            start = arrival.finished - 1 + delay
            bound = max(bound, start + batch - arrival.batch + 1)
    return bound
