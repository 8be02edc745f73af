"""The emulated accelerator: layers on its arrays, everything else digital."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rramalloc.network.network import Network
from rramalloc.network.node import Conv, Linear, Node, Stage
from rramalloc.placement.emulator.accelerator import Accelerator
from rramalloc.placement.emulator.cells import Storage
from rramalloc.placement.emulator.converters import Converters
from rramalloc.placement.emulator.digital import computed
from rramalloc.placement.emulator.folded import Folds, fold_for
from rramalloc.placement.emulator.integers import Ints, Width
from rramalloc.placement.emulator.layer import Layer
from rramalloc.placement.emulator.schedule import Schedule
from rramalloc.placement.emulator.weights import Weights

_ROWS = 2**22
"""Weights of a layer on the host that are taken at once."""


@dataclass(frozen=True, slots=True)
class Emulator:
    """Computes node after node; what is written when is kept by whoever calls."""

    network: Network
    accelerator: Accelerator
    storage: Storage
    converters: Converters
    schedule: Schedule
    weights: Weights
    width: Width
    folds: Folds = field(default_factory=dict)

    def output(self, node: Node, inputs: list[Ints]) -> Ints:
        """Output of a node that is no input, (channels, height, width); sums and products in full."""
        if node.name in self.schedule.stage:
            stage, copies = self._stage(node), self.schedule.copies(node.name)
            fold = fold_for(self.network, stage, self.folds)
            layer = Layer(self.network, stage, self.accelerator, self.storage, self.converters, copies, fold)
            return layer.sums(inputs[0])
        if isinstance(node, Conv | Linear):
            return self._on_host(node, inputs[0])
        return computed(node, inputs, self.network.shapes[node.name], self.width)

    def narrowed(self, sums: Ints, shift: int) -> Ints:
        """Sums brought back to the width of a tensor: shifted, rounded down, saturated."""
        narrow: Ints = np.clip(sums >> shift, self.width.low, self.width.high)
        return narrow

    def _on_host(self, node: Stage, tensor: Ints) -> Ints:
        """A linear layer on one pixel, some outputs after the others."""
        weights, values = self.weights.of(node), tensor.reshape(-1).astype(np.float64)
        flat = weights.reshape(len(weights), -1)
        several = max(1, _ROWS // flat.shape[1])
        parts = [flat[at : at + several] @ values for at in range(0, len(flat), several)]
        return np.concatenate(parts).astype(np.int64).reshape(self.network.shapes[node.name])

    def _stage(self, node: Node) -> Stage:
        if not isinstance(node, Conv | Linear):
            raise AssertionError(f"{node.name} has no weights")
        return node
