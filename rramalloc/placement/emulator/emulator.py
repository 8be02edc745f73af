"""The emulated accelerator: layers on its arrays, everything else digital.

Digital nodes on integers. What a network file does not tell of an operator, a stand-in replaces.

add, mul             sum and product (brought back to the width like the sums of a layer)
maxpool              the border counts as the least integer
avgpool              sum over the whole kernel, border and what is beyond as 0, divided and rounded down
global pools         maximum; sum divided by the pixels and rounded down
relu                 max(x, 0);      activation: max(x, x / 8 rounded down)
softmax              x minus the maximum over channels, saturated
layernorm            x minus the mean over channels rounded down, saturated
batchnorm, identity, dropout    x
upsample             the last pixel that is needed; of the nearest one that is it
select               channel c is channel c modulo those there are
barrier              all values of all inputs in order, from the first again when they end

One layer on the arrays: windows to copies, sums over row blocks, slices shifted and added.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rramalloc.mapping.fold import Fold
from rramalloc.network.geometry import Shape
from rramalloc.network.network import Network
from rramalloc.network.node import (
    Barrier,
    Concat,
    Conv,
    Elementwise,
    Flatten,
    GlobalPool,
    Linear,
    Node,
    Pixelwise,
    Pool,
    Select,
    Stage,
    Upsample,
)
from rramalloc.placement.emulator.accelerator import Accelerator, address_of
from rramalloc.placement.emulator.cells import Storage
from rramalloc.placement.emulator.converters import Converters, Real
from rramalloc.placement.emulator.folded import Folds, fold_for, folded_windows, lines_of
from rramalloc.placement.emulator.integers import EXACT_SINGLE_BITS, Ints, Width
from rramalloc.placement.emulator.schedule import Schedule, geometry_of, padded, windows_of
from rramalloc.placement.emulator.weights import Weights
from rramalloc.placement.placement import PlacedArray

LEAK = 8


def computed(node: Node, inputs: list[Ints], output: Shape, width: Width) -> Ints:
    """Output of a digital node, (channels, height, width); sums and products in full."""
    first = inputs[0]
    match node:
        case Elementwise():
            return _folded(node, inputs, output)
        case Concat():
            grid = (output.height, output.width)
            return np.concatenate([np.broadcast_to(each, (len(each), *grid)) for each in inputs])
        case Pool():
            return _pooled(node, first, output, width)
        case GlobalPool():
            values = first.reshape(len(first), -1)
            pooled: Ints = values.max(1) if node.op == "global_maxpool" else values.sum(1) // values.shape[1]
            return pooled.reshape(output)
        case Flatten():
            return first.reshape(output)
        case Pixelwise():
            return _pixelwise(node, first, width)
        case Select():
            return first[np.arange(output.channels) % len(first)]
        case Upsample():
            needed = (node.needed(axis, first.shape[axis + 1]) for axis in (0, 1))
            rows, columns = ([last for _, last in each] for each in needed)
            return first[:, rows][:, :, columns]
        case Barrier():
            return np.resize(np.concatenate([each.ravel() for each in inputs]), output)
    raise AssertionError(f"{node.op} is no digital node")


def _folded(node: Elementwise, inputs: list[Ints], output: Shape) -> Ints:
    result = np.broadcast_to(inputs[0], output)
    for each in inputs[1:]:
        result = result + each if node.op == "add" else result * each
    return result


def _pooled(node: Pool, tensor: Ints, output: Shape, width: Width) -> Ints:
    """Kernel position by kernel position, each over the whole grid."""
    is_max = node.op == "maxpool"
    windows = windows_of(padded(tensor, node.geometry, output, width.low if is_max else 0), node.geometry)
    result = np.full(output, width.low if is_max else 0, dtype=np.int64)
    for y in range(node.kernel[0]):
        for x in range(node.kernel[1]):
            pixel = windows[:, :, :, y, x].transpose(2, 0, 1)
            result = np.maximum(result, pixel) if is_max else result + pixel
    return result if is_max else result // (node.kernel[0] * node.kernel[1])


def _pixelwise(node: Pixelwise, tensor: Ints, width: Width) -> Ints:
    result: Ints = tensor
    match node.op:
        case "relu":
            result = np.maximum(tensor, 0)
        case "activation":
            result = np.maximum(tensor, tensor // LEAK)
        case "softmax":
            result = np.maximum(tensor - tensor.max(axis=0), width.low)
        case "layernorm":
            result = np.clip(tensor - tensor.sum(axis=0) // len(tensor), width.low, width.high)
    return result


_CHUNK = 2**22
"""Values that the working memory of one matrix product holds."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A stage as its copies compute it. rows: values of a window, of one group; copies: of the layer."""

    network: Network
    stage: Stage
    accelerator: Accelerator
    storage: Storage
    converters: Converters
    copies: int
    fold: Fold | None = None

    @property
    def groups(self) -> int:
        """Groups of channels whose weights are stored apart."""
        return self.storage.groups(self.stage)

    @property
    def rows(self) -> int:
        """Wordlines that one output depends on."""
        return lines_of(self.network, self.stage, self.fold, self.groups)

    def sums(self, tensor: Ints) -> Ints:
        """Sums of products of every window; tensor: (channels, height, width), so is the result."""
        output = self.network.shapes[self.stage.name]
        windows = self._windows(tensor.astype(self._type()), output)
        result = np.empty((output.pixels, output.channels), dtype=np.int64)
        columns = output.channels * len(self.storage.factors)
        chunk = max(1, _CHUNK // (self.groups * self.rows + columns))
        for copy in range(self.copies):
            own = np.arange(copy, output.pixels, self.copies)
            for first in range(0, len(own), chunk):
                numbers = own[first : first + chunk]
                read = windows[np.divmod(numbers, output.width)].reshape(len(numbers), -1)
                result[numbers] = self._weighted(self._columns(copy, read, columns), read)
        return np.ascontiguousarray(result.T).reshape(output)

    def _windows(self, tensor: Real, output: Shape) -> Real:
        """What the receptive fields read, (rows, columns, channels, k_y, k_x)."""
        if self.fold is not None:
            return folded_windows(tensor, self.stage, self.fold)
        geometry = geometry_of(self.stage)
        return windows_of(padded(tensor, geometry, output, 0), geometry)

    def _type(self) -> type[np.floating[Any]]:
        """Single precision where the sums of an array are exact in it."""
        lines = self.accelerator.held[self.stage.name].values()
        most = max((block.rows for block in lines), default=1).bit_length()
        bits = most + self.storage.most.bit_length() + self.converters.width - 1
        return np.float32 if bits <= EXACT_SINGLE_BITS and self.converters.exact else np.float64

    def _columns(self, copy: int, read: Real, columns: int) -> npt.NDArray[np.float64]:
        """Bitlines of all groups, (windows, columns): partial sums added over the row blocks of a copy."""
        total = np.zeros((len(read), columns))
        for array in self.accelerator.copies.get((self.stage.name, copy), ()):
            self._add(array, read, total)
        return total

    def _add(self, array: PlacedArray, read: Real, total: npt.NDArray[np.float64]) -> None:
        cells = self.accelerator.read(array)
        block = self.accelerator.held[self.stage.name][array.row_block, array.column_block]
        bits = self.rows.bit_length() + self.storage.weight_bits + self.converters.width - 1
        conductances = self.converters.conductances(cells, address_of(array), bits, read.dtype)
        group_columns = total.shape[1] // self.groups
        driven = [
            read[:, part.group * self.rows + part.rows.start : part.group * self.rows + part.rows.stop]
            [:, :: part.rows.step] for part in block.parts
        ]  # fmt: skip
        wordlines = driven[0] if len(driven) == 1 else np.concatenate(driven, axis=1)
        most = self.storage.most * max(len(part.rows) for part in block.parts)
        bitlines = self.converters.multiply(wordlines, conductances, most)
        for part in block.parts:
            start = part.group * group_columns
            own = bitlines[:, part.bitline : part.bitline + len(part.columns)]
            total[:, start + part.columns.start : start + part.columns.stop : part.columns.step] += own

    def _weighted(self, columns: npt.NDArray[np.float64], read: Real) -> Ints:
        """Slices shifted and added, and the offset taken off; (windows, channels)."""
        factors = self.storage.factors
        sums = (columns.reshape(-1, len(factors)) @ factors).reshape(len(columns), self.groups, -1)
        if self.storage.offset:
            inputs = read.reshape(len(read), self.groups, self.rows).sum(axis=2, dtype=np.float64)
            sums -= float(self.storage.offset) * inputs[:, :, None]
        whole: Ints = np.rint(sums).astype(np.int64).reshape(len(columns), -1)
        return whole


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
