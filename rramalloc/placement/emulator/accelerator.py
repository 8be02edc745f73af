"""The programmed arrays: the only place where the emulated accelerator has weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rramalloc.errors import MisplacedError, UnsupportedError
from rramalloc.placement.blocks import Block
from rramalloc.placement.emulator.cells import Cells, Storage
from rramalloc.placement.emulator.integers import MEMORY_LIMIT_BYTES, Ints
from rramalloc.placement.placement import PlacedArray
from rramalloc.records import brief

Address = tuple[int, ...]
Blocks = dict[tuple[int, int], Block]
"""What the arrays of a layer hold, by row block and column block; of one copy where copies share none."""


def address_of(array: PlacedArray) -> Address:
    """Where a physical array is: chip, tile, index in the tile."""
    return (*array.chip, *array.tile, array.index)


@dataclass(slots=True)
class Accelerator:
    """Cells of every physical array in use, and which arrays each layer reads."""

    held: dict[str, Blocks]
    cells: dict[Address, Cells] = field(default_factory=dict)
    arrays: dict[str, list[PlacedArray]] = field(default_factory=dict)

    @classmethod
    def programmed(
        cls,
        arrays: Sequence[PlacedArray],
        held: dict[str, Blocks],
        storage: Mapping[str, Storage],
        weights: Callable[[str], Ints],
    ) -> Accelerator:
        """All arrays programmed, each with the block that its entry names.

        storage: by layer name; weights: (groups, outputs, rows of a group) of a layer by name.
        Raises MisplacedError for an entry that no block fits and for an array listed twice,
        UnsupportedError if cells are too many.
        """
        bytes_of_cell = {layer: own.cell_type.itemsize for layer, own in storage.items()}
        size = sum(array.rows * array.columns * bytes_of_cell.get(array.layer, 1) for array in arrays)
        if size > MEMORY_LIMIT_BYTES:
            reason = f"its cells take {size >> 20} MiB, the limit is {MEMORY_LIMIT_BYTES >> 20}"
            raise UnsupportedError("placement", f"{reason}: verify an allocation of fewer arrays")
        numbers: dict[str, list[int]] = {}
        for number, array in enumerate(arrays):
            numbers.setdefault(array.layer, []).append(number)
        arrays_of: dict[int, Cells] = {}
        for layer in held:
            kept = weights(layer)
            for number in numbers.get(layer, ()):
                arrays_of[number] = storage[layer].block(
                    _block(held[layer], arrays[number], number), kept, arrays[number].plane
                )
        machine = cls(held)
        for number, array in enumerate(arrays):
            if number not in arrays_of:
                reason = f"layer {brief(array.layer)} is no stage of the network"
                raise MisplacedError("placement", f"arrays[{number}]", reason)
            if address_of(array) in machine.cells:
                reason = "its physical array is programmed already: every array holds one block"
                raise MisplacedError("placement", f"arrays[{number}]", reason)
            machine.cells[address_of(array)] = arrays_of[number]
            machine.arrays.setdefault(array.layer, []).append(array)
        return machine

    def teams(self, layer: str) -> Iterator[tuple[range, list[PlacedArray]]]:
        """Copies of a layer that share arrays, which are read together; a copy alone where it shares none."""
        arrays = sorted(self.arrays.get(layer, ()), key=lambda array: array.replica)
        team: list[PlacedArray] = []
        first = end = 0
        for array in arrays:
            if team and array.replica >= end:
                yield range(first, end), team
                team = []
            if not team:
                first = end = array.replica
            team.append(array)
            end = max(end, array.replica + self.block(array).copies)
        if team:
            yield range(first, end), team

    def block(self, array: PlacedArray) -> Block:
        """What an array holds."""
        return self.held[array.layer][array.row_block, array.column_block]

    def read(self, array: PlacedArray) -> Cells:
        """The cells of an array, on the lines that its block has in use."""
        return self.cells[address_of(array)]


def _block(held: Blocks, array: PlacedArray, number: int) -> Block:
    block = held.get((array.row_block, array.column_block))
    if block is None or (block.rows, block.columns, block.copies) != (
        array.rows,
        array.columns,
        array.copies,
    ):
        reason = f"no block of {brief(array.layer)} is as it says; `place` the allocation again"
        raise MisplacedError("placement", f"arrays[{number}]", reason)
    return block
