"""The emulated accelerator: layers on its arrays, everything else digital.

Digital nodes on integers. A stand-in replaces what a network file omits of an operator.

add, mul             sum and product (brought back to the width like the sums of a layer)
maxpool              the border counts as the least integer
avgpool              sum over the whole kernel, border and what is beyond as 0, divided and rounded down
global pools         maximum; sum divided by the pixels and rounded down
relu                 max(x, 0);      activation: max(x, x / 8 rounded down)
softmax              x minus the maximum over channels, saturated
layernorm            x minus the mean over channels rounded down, saturated
batchnorm, identity, dropout    x
upsample             the last pixel that is needed; of the nearest one that is it
take, regrid         the pixels that they take, 0 where they take none
select               channel c is channel c modulo those there are
barrier              all values of all inputs in order, from the first again when they end

One layer on the arrays: blocks of windows to copies, sums over row blocks, slices shifted and added.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rramalloc.mapping.fold import Fold
from rramalloc.mapping.modes import BlockGrid
from rramalloc.network.geometry import Shape
from rramalloc.network.network import Network
from rramalloc.network.node import (
    Barrier,
    Concat,
    Elementwise,
    Flatten,
    GlobalPool,
    Node,
    Pixelwise,
    Pool,
    Regrid,
    Select,
    Stage,
    Take,
    Upsample,
)
from rramalloc.placement.emulator.accelerator import Accelerator, address_of
from rramalloc.placement.emulator.batch_schedule import BatchSchedule, padded, windows_of
from rramalloc.placement.emulator.cells import Storage
from rramalloc.placement.emulator.converters import Converters, Real
from rramalloc.placement.emulator.folded import Folds, fold_for, folded_tensor
from rramalloc.placement.emulator.integers import EXACT_SINGLE_BITS, Ints, Width
from rramalloc.placement.emulator.parallel_window import ParallelWindow
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
        case Upsample() | Take():
            needed = (node.needed(axis, first.shape[axis + 1]) for axis in (0, 1))
            rows, columns = ([last for _, last in each] for each in needed)
            bordered = np.pad(first, ((0, 0), (0, 1), (0, 1)))  # -1 takes a row or column of zeros
            return bordered[:, rows][:, :, columns]
        case Regrid():
            return first.reshape(output)
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
class EmulatedLayer:
    """A stage as its copies compute it, each a block of windows a step; window: what a block reads."""

    network: Network
    stage: Stage
    accelerator: Accelerator
    storage: Storage
    converters: Converters
    copies: int
    grid: BlockGrid
    window: ParallelWindow
    fold: Fold | None = None

    @property
    def groups(self) -> int:
        """Groups of channels whose weights are stored apart."""
        return self.storage.groups(self.stage)

    def sums(self, tensor: Ints) -> Ints:
        """Sums of products of every window; tensor: (channels, height, width), so is the result.

        Batch b holds blocks b * copies ... (b + 1) * copies - 1, one for each copy; windows of a block that
        lie beyond the output are not read out.
        """
        grid, output = self.grid, self.network.shapes[self.stage.name]
        folded = tensor if self.fold is None else folded_tensor(tensor, self.stage, self.fold)
        source = np.pad(folded.astype(self._type()), ((0, 0), (0, 1), (0, 1)))
        (high, wide), (down, across) = grid.block, grid.phase
        result = np.zeros((grid.rows, high, grid.columns, wide, output.channels), dtype=np.int64)
        for copies, arrays in self.accelerator.teams(self.stage.name):
            for blocks in self._batches(copies, len(folded)):
                at = np.divmod(blocks.ravel(), grid.columns)
                sums = self._weighted(self._read(source, blocks, copies, arrays))
                there = blocks.ravel() < grid.total
                result[at[0][there], :, at[1][there]] = sums[there]
        pixels = result.reshape(grid.rows * high, grid.columns * wide, -1)
        cut = pixels[down : down + output.height, across : across + output.width]
        return np.ascontiguousarray(cut.transpose(2, 0, 1))

    def _batches(self, copies: range, channels: int) -> Iterator[Ints]:
        """Numbers of the blocks that copies compute, (batches, copies), a few batches at a time.

        A number past the last block stands for none.
        """
        values = channels * self.window.positions + self._columns
        chunk = max(1, _CHUNK // (values * len(copies)))
        own = np.array(copies)
        for first in range(0, -(-self.grid.total // self.copies), chunk):
            batches = np.arange(first, min(first + chunk, -(-self.grid.total // self.copies)))
            blocks = batches[:, None] * self.copies + own
            yield np.where(own < self.copies, blocks, self.grid.total)

    @property
    def _columns(self) -> int:
        """Bitlines of all groups of a copy."""
        outputs = self.grid.block[0] * self.grid.block[1] * self.network.shapes[self.stage.name].channels
        return outputs * len(self.storage.factors)

    def _type(self) -> type[np.floating[Any]]:
        """Single precision where the sums of an array are exact in it."""
        lines = self.accelerator.held[self.stage.name].values()
        most = max((block.rows for block in lines), default=1).bit_length()
        bits = most + self.storage.most.bit_length() + self.converters.width - 1
        return np.float32 if bits <= EXACT_SINGLE_BITS and self.converters.exact else np.float64

    def _read(
        self, source: Real, blocks: Ints, copies: range, arrays: list[PlacedArray]
    ) -> tuple[npt.NDArray[np.float64], Real]:
        """Bitlines of all groups and the inputs they come from, one row per block in `blocks`.

        Partial sums are added over the row blocks of a copy. All copies in an array are read at once.
        """
        there = blocks < self.grid.total
        at = np.divmod(np.where(there, blocks, 0).ravel(), self.grid.columns)
        read = self.storage.on_wordlines(self.window.read(source, at), self.window.positions)
        inputs = read.reshape(*blocks.shape, -1)
        inputs[~there] = 0
        total = np.zeros((*blocks.shape, self._columns))
        for array in arrays:
            self._add(array, array.replica - copies.start, inputs, total)
        return total.reshape(blocks.size, -1), inputs.reshape(blocks.size, -1)

    def _add(self, array: PlacedArray, first: int, inputs: Real, total: npt.NDArray[np.float64]) -> None:
        """Read an array and add its bitlines; first: place of its first copy among those of `inputs`."""
        parts = self.accelerator.block(array).parts
        rows, group_columns = inputs.shape[2] // self.groups, total.shape[2] // self.groups
        bits = rows.bit_length() + self.storage.weight_bits + self.converters.width - 1
        cells = self.accelerator.read(array)
        conductances = self.converters.conductances(cells, address_of(array), bits, inputs.dtype)
        driven = [inputs[:, first + part.copy, part.group * rows :][:, _slice(part.rows)] for part in parts]
        wordlines = driven[0] if len(driven) == 1 else np.concatenate(driven, axis=1)
        longest = max(len(part.rows) for part in parts)
        most = self.storage.most * (-(-longest // 2) if self.storage.polarities == "rows" else longest)
        bitlines = self.converters.multiply(wordlines, conductances, most, signed=self.storage.signed_sums)
        worth = self.storage.plane_factor(array.plane)
        for part in parts:
            own = total[:, first + part.copy, part.group * group_columns :]
            read = bitlines[:, part.bitline : part.bitline + len(part.columns)]
            own[:, _slice(part.columns)] += read * worth

    def _weighted(self, read: tuple[npt.NDArray[np.float64], Real]) -> Ints:
        """Slices shifted and added, and the offset taken off; (blocks, height, width, channels)."""
        (columns, inputs), factors = read, self.storage.factors
        sums = (columns.reshape(-1, len(factors)) @ factors).reshape(len(columns), self.groups, -1)
        if self.storage.offset:
            driven = inputs.reshape(len(inputs), self.groups, -1).sum(axis=2, dtype=np.float64)
            sums -= float(self.storage.offset) * driven[:, :, None]
        whole: Ints = np.rint(sums).astype(np.int64)
        windows = whole.reshape(len(columns), self.groups, *self.grid.block, -1)
        return windows.transpose(0, 2, 3, 1, 4).reshape(len(columns), *self.grid.block, -1)


def _slice(lines: range) -> slice:
    return slice(lines.start, lines.stop, lines.step)


_ROWS = 2**22
"""Weights of a layer on the host that are taken at once."""


@dataclass(frozen=True, slots=True)
class Emulator:
    """Computes node after node; what is written when is kept by whoever calls. storage: by stage name."""

    network: Network
    accelerator: Accelerator
    storage: Mapping[str, Storage]
    converters: Converters
    schedule: BatchSchedule
    weights: Weights
    width: Width
    folds: Folds = field(default_factory=dict)

    def output(self, node: Node, inputs: list[Ints]) -> Ints:
        """Output of a node that is no input, (channels, height, width); sums and products in full."""
        if not isinstance(node, Stage):
            return computed(node, inputs, self.network.shapes[node.name], self.width)
        width = self.width.entering(node)
        tensor = inputs[0] >> (self.width.bits - width.bits)
        if node.name not in self.schedule.stage:
            return self._on_host(node, tensor)
        fold, grid = fold_for(self.network, node, self.folds), self.schedule.grid(node.name)
        storage, copies = self.storage[node.name], self.schedule.copies(node.name)
        converters, window = replace(self.converters, width=width.bits), ParallelWindow.of(node, grid, fold)
        parts = (self.accelerator, storage, converters, copies, grid, window, fold)
        return EmulatedLayer(self.network, node, *parts).sums(tensor)

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
