"""The critical path: the stages and waits that add up to the makespan, from the first step to the last."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

from rramalloc.ndarrays import Ints
from rramalloc.records import Record, Steps
from rramalloc.timing.kernel import Timeline, critical_chain
from rramalloc.timing.simulate import ExactTiming
from rramalloc.units import number_of


class CriticalSegment(Record):
    """Batches of one stage without a pause on the critical path.

    waits_for: the producer whose pixel the first of them waited for, None at the input; row, column: that
    pixel on the producer's grid, the last one of its block.
    """

    stage: str
    start: Steps
    finish: Steps
    batches: Steps
    waits_for: str | None
    row: int | None
    column: int | None

    @property
    def steps(self) -> int:
        """Steps from start to finish."""
        return self.finish - self.start


def chain_of(timing: ExactTiming) -> tuple[Ints, Ints]:
    """Return the first batch and last block of every stage on a critical chain of batches to the last step.

    Both are -1 for stages off the chain.
    """
    timeline = Timeline(timing.copies, timing.first, timing.starts, int(timing.handoff == "next"))
    enters, leaves = np.empty((2, len(timing.copies)), dtype=np.int64)
    last = int(timing.finish.argmax())
    critical_chain(timing.graph.flat_binding, None, timing.cycles, timeline, last, False, enters, leaves)
    return enters, leaves


def critical_path(timing: ExactTiming) -> tuple[CriticalSegment, ...]:
    """Return the segments in order of time; each starts after the last batch of the one before."""
    copies = timing.copies
    graph = timing.graph
    enters, leaves = chain_of(timing)
    path = list[CriticalSegment]()
    cause = None
    for stage in np.flatnonzero(leaves >= 0).tolist():
        starts = timing.of_stage(stage)
        begin = int(enters[stage])
        end = int(leaves[stage] // copies[stage])
        pixel: tuple[int | None, int | None] = (None, None)
        if cause is not None:
            grid = graph.grids[cause]
            rows, columns = divmod(int(leaves[cause]), grid.columns)
            pixel = (int(grid.last_pixels(0)[rows]), int(grid.last_pixels(1)[columns]))
        path.append(
            CriticalSegment(
                stage=graph.names[stage],
                start=int(starts[begin]),
                finish=int(starts[end]) + int(timing.delay[stage]),
                batches=end - begin + 1,
                waits_for=None if cause is None else graph.names[cause],
                row=pixel[0],
                column=pixel[1],
            )
        )
        cause = stage
    return tuple(path)


def slack_of_stages(timing: ExactTiming) -> npt.NDArray[np.int64]:
    """Return the slack of each stage: steps by which any one of its batches may start later, int64.

    The makespan stays the same; a stage on a critical path has slack 0 (total float of the critical path
    method).
    """
    graph = timing.graph
    edges = timing.graph.flat_binding
    latest = np.full(len(timing.starts), timing.makespan, dtype=np.int64)
    slack = np.zeros(len(graph.stages), dtype=np.int64)
    for stage in reversed(range(len(graph.stages))):  # consumers first: they bound their producers
        starts = latest[timing.first[stage] : timing.first[stage + 1]]
        order = np.arange(len(starts)) * timing.cycles[stage]
        starts[:] = np.minimum(starts, timing.makespan - timing.cycles[stage]) - order
        starts[:] = np.minimum.accumulate(starts[::-1])[::-1] + order  # batches follow each other
        slack[stage] = (starts - timing.of_stage(stage)).min()
        last = np.minimum((np.arange(len(starts)) + 1) * timing.copies[stage], graph.windows[stage]) - 1
        for edge in range(edges.pointer[stage], edges.pointer[stage + 1]):
            producer = int(edges.producer[edge])
            block = edges.of(edge, stage)[last]
            batch = timing.first[producer] + block[block >= 0] // timing.copies[producer]
            available = starts[block >= 0] - timing.delay[producer] - edges.lag[edge]
            np.minimum.at(latest, batch, available)
    return slack


def path_words(path: tuple[CriticalSegment, ...], makespan: int, unit: str = "step") -> str:
    """Return the path in words: its bottleneck stage, the cause of its wait, and the next two stages."""
    held = Counter[str]()  # steps on the path of each stage, which may be there several times
    for segment in path:
        held[segment.stage] += segment.steps
    worst = max(held, key=lambda name: held[name])
    text = f"{worst} holds the network back: it computes in {held[worst]} of the {number_of(makespan, unit)}"
    first = next(segment for segment in path if segment.stage == worst)
    if first.waits_for is not None:
        text += f", after waiting until {unit} {first.start} for pixel ({first.row}, {first.column}) of "
        text += first.waits_for
    others = sorted((name for name in held if name != worst), key=lambda name: -held[name])[:2]
    if others:
        text += "; next on the path: " + ", ".join(
            f"{name} ({number_of(held[name], unit)})" for name in others
        )
    return text
