"""When windows are read and written: batches as the timing starts them, and the judge of early reads.

Windows: what a receptive field reads of a tensor, and when the last of it was written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rramalloc.errors import RramallocError
from rramalloc.mapping.modes import BlockGrid
from rramalloc.network.geometry import Geometry, Shape
from rramalloc.network.network import Network
from rramalloc.network.node import (
    Barrier,
    ConvTranspose,
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

Steps = npt.NDArray[np.int64]
"""Step from which each pixel of a tensor can be read; shape (height, width)."""
Written = dict[int, Steps]
"""The same of what each stage contributed to a tensor, NEVER where nothing; transfer comes on top of it.

One entry, ANY_STAGE, where no transfer takes time.
"""
NEVER, ANY_STAGE = -1, -1


def padded(tensor: npt.NDArray[Any], geometry: Geometry, output: Shape, fill: int) -> npt.NDArray[Any]:
    """A tensor (..., height, width) with a border of `fill`, exactly as large as all windows reach."""
    for axis, count in ((-2, output.height), (-1, output.width)):
        before, _ = geometry.pads.along(axis + 2)
        reach = (count - 1) * geometry.stride[axis] + geometry.span(axis)
        after = max(0, reach - before - tensor.shape[axis])
        border = [(0, 0)] * tensor.ndim
        border[axis] = (before, after)
        tensor = np.pad(tensor, border, constant_values=fill)
        tensor = tensor[..., :reach, :] if axis == -2 else tensor[..., :reach]
    return tensor


def windows_of(tensor: npt.NDArray[Any], geometry: Geometry) -> npt.NDArray[Any]:
    """View of a padded tensor (channels, height, width): (rows, columns, channels, k_y, k_x)."""
    spans = (geometry.span(0), geometry.span(1))
    view = np.lib.stride_tricks.sliding_window_view(tensor, spans, axis=(1, 2))
    (high, wide), (down, across) = geometry.stride, geometry.dilation
    return view[:, ::high, ::wide, ::down, ::across].transpose(1, 2, 0, 3, 4)


def last_written(written: Steps, node: Stage | Pool, output: Shape) -> Steps:
    """Step from which each window can be read: the latest of its pixels; shape of the output grid."""
    for axis, outputs in enumerate((output.height, output.width)):
        border = [(0, int(axis == 0)), (0, int(axis == 1))]
        bordered = np.pad(written, border, constant_values=NEVER)
        other = written.shape[1 - axis]
        latest = np.full((outputs, other) if axis == 0 else (other, outputs), NEVER, dtype=np.int64)
        for position in range(node.kernel[axis]):
            pixels = _pixels_met(node, axis, position, outputs, written.shape[axis])
            latest = np.maximum(latest, bordered.take(pixels, axis=axis))
        written = latest
    return written


def _pixels_met(node: Stage | Pool, axis: int, position: int, outputs: int, extent: int) -> Steps:
    """Input pixel that a kernel position meets for each output pixel; `extent` for none."""
    stride, reach, before = node.stride[axis], position * node.dilation[axis], node.pads[axis]
    if isinstance(node, ConvTranspose):
        pixels, beside = np.divmod(np.arange(outputs) + before - reach, stride)
    else:
        pixels, beside = np.arange(outputs) * stride + reach - before, np.zeros(outputs, dtype=np.int64)
    return np.where((beside == 0) & (pixels >= 0) & (pixels < extent), pixels, extent)


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


@dataclass(frozen=True, slots=True)
class BatchSchedule:
    """Batch starts of all stages. timing: of `simulate`; stage: number of each stage by name."""

    timing: ExactTiming
    stage: dict[str, int]

    @classmethod
    def of(cls, timing: ExactTiming) -> BatchSchedule:
        """The schedule that `simulate` found."""
        return cls(timing, {name: number for number, name in enumerate(timing.graph.names)})

    def copies(self, layer: str) -> int:
        """Copies of a stage; block n is computed in batch n // copies by copy n mod copies."""
        return int(self.timing.replication[self.stage[layer]])

    def grid(self, layer: str) -> BlockGrid:
        """How the output of a stage is cut into blocks of windows."""
        return self.timing.graph.grids[self.stage[layer]]

    def written(self, network: Network, node: Node, inputs: list[Written]) -> Written:
        """Step from which each pixel of a node's output can be read. Raises EarlyReadError."""
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
        return {number if lags else ANY_STAGE: self._computed(node.name, needed)}

    def _computed(self, name: str, needed: Steps) -> Steps:
        starts = self.timing.of_stage(self.stage[name]).astype(np.int64)
        step = starts[self.grid(name).numbers() // self.copies(name)]
        early = np.flatnonzero((step < needed).ravel())
        if len(early):
            window = int(early[0])
            raise EarlyReadError(name, window, int(step.flat[window]), int(needed.flat[window]))
        return step + int(self.timing.delay[self.stage[name]])


def _digital(node: Node, inputs: list[Steps], output: Shape) -> Steps:
    """When all that a pixel of a digital node is made of can be read."""
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
