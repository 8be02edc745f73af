"""When windows are read and written: batches as the timing starts them, and the judge of early reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rramalloc.errors import RramallocError
from rramalloc.network.geometry import Shape
from rramalloc.network.network import Network
from rramalloc.network.node import Barrier, Conv, Flatten, GlobalPool, Node, Pool, Stage, Upsample
from rramalloc.placement.emulator.windows import Steps, geometry_of, last_written
from rramalloc.records import brief
from rramalloc.timing.simulate import Timing


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
class Schedule:
    """Batch starts of all stages. timing: of `simulate`; stage: number of each stage by name."""

    timing: Timing
    stage: dict[str, int]

    @classmethod
    def of(cls, timing: Timing) -> Schedule:
        """The schedule that `simulate` found."""
        return cls(timing, {name: number for number, name in enumerate(timing.graph.names)})

    def copies(self, layer: str) -> int:
        """Copies of a stage; window w is computed in batch w // copies by copy w mod copies."""
        return int(self.timing.replication[self.stage[layer]])

    def written(self, network: Network, node: Node, inputs: list[Steps]) -> Steps:
        """Step from which each pixel of a node's output can be read. Raises EarlyReadError."""
        output = network.shapes[node.name]
        if node.name in self.stage:
            return self._computed(node, last_written(inputs[0], geometry_of(node), output))  # type: ignore[arg-type]
        return _digital(node, inputs, output)

    def _computed(self, stage: Stage, needed: Steps) -> Steps:
        starts = self.timing.of_stage(self.stage[stage.name]).astype(np.int64)
        step = starts[np.arange(needed.size) // self.copies(stage.name)].reshape(needed.shape)
        early = np.flatnonzero((step < needed).ravel())
        if len(early):
            window = int(early[0])
            raise EarlyReadError(stage.name, window, int(step.flat[window]), int(needed.flat[window]))
        return step + self.timing.delay


def _digital(node: Node, inputs: list[Steps], output: Shape) -> Steps:
    """Digital nodes take no time: a pixel can be read when all that it is made of can be."""
    grid = (output.height, output.width)
    if not inputs:
        return np.zeros(grid, dtype=np.int64)
    if isinstance(node, Conv | Pool):
        return last_written(inputs[0], node.geometry, output)
    if isinstance(node, Upsample):
        return inputs[0].repeat(node.scale[0], axis=0).repeat(node.scale[1], axis=1)
    if isinstance(node, GlobalPool | Flatten | Barrier):
        return np.full(grid, max(int(steps.max()) for steps in inputs))
    latest = np.zeros(grid, dtype=np.int64)
    for steps in inputs:  # one pixel is broadcast
        latest = np.maximum(latest, steps)
    return latest
