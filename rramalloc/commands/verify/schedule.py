"""When windows are read and written: batches as the timing starts them, and the judge of early reads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rramalloc.commands.verify.reference import pixels_met
from rramalloc.errors import RramallocError
from rramalloc.network.geometry import Shape
from rramalloc.network.network import Network
from rramalloc.network.node import (
    Barrier,
    Flatten,
    GlobalPool,
    Node,
    Pool,
    Regrid,
    Stage,
    Take,
    Upsample,
)
from rramalloc.network.receptive import ranges
from rramalloc.records import brief
from rramalloc.timing.simulate import ExactTiming

Steps = npt.NDArray[np.int64]  # step from which each pixel of a tensor can be read; shape (height, width)
Written = dict[int, Steps]
"""The same of what each stage contributed to a tensor, NEVER where nothing; transfer comes on top of it.

One entry, ANY_STAGE, where no transfer takes time.
"""
NEVER = -1  # before batch 0
ANY_STAGE = -1  # no stage's number


def last_written(written: Steps, node: Stage | Pool, output: Shape) -> Steps:
    """Return the step from which each window can be read, that of its latest pixel; shape of the output."""
    for axis, outputs in enumerate((output.height, output.width)):
        border = [(0, int(axis == 0)), (0, int(axis == 1))]
        bordered = np.pad(written, border, constant_values=NEVER)
        other = written.shape[1 - axis]
        latest = np.full((outputs, other) if axis == 0 else (other, outputs), NEVER, dtype=np.int64)
        for position in range(node.kernel[axis]):
            pixels = pixels_met(node, axis, position, outputs, written.shape[axis])
            latest = np.maximum(latest, bordered.take(pixels, axis=axis))
        written = latest
    return written


class EarlyReadError(RramallocError):
    """A window is read before its inputs are written: the timing does not hold.

    layer, window: which reads; step: when; written: the step from which all its inputs can be read.
    """

    def __init__(self, layer: str, window: int, step: int, written: int) -> None:
        super().__init__(layer, window, step, written)
        self.layer, self.window, self.step, self.written = layer, window, step, written

    def __str__(self) -> str:
        return (
            f"layer {brief(self.layer)}: window {self.window} is read in step {self.step}, its inputs are "
            f"written only by step {self.written}: the timing of this allocation is wrong, please report it"
        )


@dataclass(frozen=True)
class BatchSchedule:
    """Batch starts of all stages, as `simulate` found them."""

    timing: ExactTiming

    @cached_property
    def stage(self) -> dict[str, int]:
        """Number of each stage by name."""
        return {name: number for number, name in enumerate(self.timing.graph.names)}

    def written(self, network: Network, node: Node, inputs: list[Written]) -> Written:
        """Return the step from which each pixel of a node's output can be read. Raises EarlyReadError."""
        output, lags, reached = network.shapes[node.name], self.timing.graph.lags, Written()
        for source in sorted(set().union(*inputs)) or [ANY_STAGE]:
            steps = [own.get(source, np.full_like(next(iter(own.values())), NEVER)) for own in inputs]
            if isinstance(node, Stage) and node.name in self.stage:
                reached[source] = last_written(steps[0], node, output)
            else:
                reached[source] = _digital(node, steps, output)
        number = self.stage.get(node.name)
        if number is None:
            return reached
        needed = np.full((output.height, output.width), NEVER, dtype=np.int64)
        for source, step in reached.items():
            arrived = np.where(step > NEVER, step + lags.get((source, number), 0), NEVER)
            needed = np.maximum(needed, arrived)
        timing = self.timing
        batch = timing.graph.grids[number].numbers() // int(timing.replication[number])
        step = timing.of_stage(number).astype(np.int64)[batch]
        early = np.flatnonzero((step < needed).ravel())
        if len(early):
            window = int(early[0])
            raise EarlyReadError(node.name, window, int(step.flat[window]), int(needed.flat[window]))
        return {number if lags else ANY_STAGE: step + int(timing.delay[number])}


def _digital(node: Node, inputs: list[Steps], output: Shape) -> Steps:
    """Return the steps from which all inputs of a pixel of a digital node can be read."""
    grid = (output.height, output.width)
    if not inputs:
        return np.zeros(grid, dtype=np.int64)
    if isinstance(node, Pool):
        return last_written(inputs[0], node, output)
    if isinstance(node, Upsample | Take | Regrid):
        rows, columns = (ranges(node, axis, Shape(1, *inputs[0].shape)) for axis in (0, 1))
        high = np.stack([inputs[0][first : last + 1].max(axis=0, initial=NEVER) for first, last in rows])
        return np.stack(
            [high[:, first : last + 1].max(axis=1, initial=NEVER) for first, last in columns], axis=1
        )
    if isinstance(node, GlobalPool | Flatten | Barrier):
        return np.full(grid, max(int(steps.max()) for steps in inputs))
    latest = np.full(grid, NEVER, dtype=np.int64)
    for steps in inputs:  # one pixel is broadcast
        latest = np.maximum(latest, steps)
    return latest
