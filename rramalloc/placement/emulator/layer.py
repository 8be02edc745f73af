"""One layer on the arrays: windows to copies, sums over row blocks, slices shifted and added."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rramalloc.mapping.fold import Fold
from rramalloc.network.counts import groups_of
from rramalloc.network.geometry import Shape
from rramalloc.network.network import Network
from rramalloc.network.node import Stage
from rramalloc.placement.emulator.accelerator import Accelerator, address_of
from rramalloc.placement.emulator.cells import Storage
from rramalloc.placement.emulator.converters import Converters, Real
from rramalloc.placement.emulator.folded import folded_windows, lines_of
from rramalloc.placement.emulator.integers import EXACT_SINGLE_BITS, Ints
from rramalloc.placement.emulator.windows import field, geometry_of, padded
from rramalloc.placement.placement import PlacedArray

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
        """Groups of channels that have weights of their own."""
        return groups_of(self.stage)

    @property
    def rows(self) -> int:
        """Values of a window that one output depends on."""
        return lines_of(self.network, self.stage, self.fold)

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
        return field(padded(tensor, geometry, output, 0), geometry)

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
