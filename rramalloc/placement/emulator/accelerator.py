"""The programmed arrays: the only place where the emulated accelerator has weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rramalloc.choices import Mapping
from rramalloc.errors import MisplacedError, UnsupportedError
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.demand import folded_weights
from rramalloc.mapping.fold import UNFOLDED
from rramalloc.network.network import Network
from rramalloc.network.node import Stage
from rramalloc.placement.blocks import Block, blocks
from rramalloc.placement.emulator.cells import Cells, Storage
from rramalloc.placement.emulator.folded import NO_FOLDS, Folds
from rramalloc.placement.emulator.integers import MEMORY_LIMIT_BYTES, Ints
from rramalloc.placement.placement import PlacedArray
from rramalloc.records import brief

Address = tuple[int, ...]
Held = dict[tuple[int, int], Block]
"""What the arrays of one copy hold, by row block and column block."""


def address_of(array: PlacedArray) -> Address:
    """Where a physical array is: chip, tile, index in the tile."""
    return (*array.chip, *array.tile, array.index)


def held_by(
    network: Network, stages: Sequence[Stage], hardware: Hardware, mapping: Mapping, folds: Folds = NO_FOLDS
) -> dict[str, Held]:
    """The blocks of one copy of every stage; folds: of the stages that are folded first."""
    return {
        stage.name: {
            (block.row_block, block.column_block): block
            for block in blocks(
                folded_weights(network, stage, hardware, folds.get(stage.name, UNFOLDED)),
                hardware.crossbar,
                mapping,
            )
        }
        for stage in stages
    }


@dataclass(slots=True)
class Accelerator:
    """Cells of every physical array in use, and which arrays each copy of a layer reads."""

    held: dict[str, Held]
    cells: dict[Address, Cells] = field(default_factory=dict)
    copies: dict[tuple[str, int], list[PlacedArray]] = field(default_factory=dict)

    @classmethod
    def programmed(
        cls, arrays: Sequence[PlacedArray], held: dict[str, Held], storage: Storage,
        weights: Callable[[str], Ints],
    ) -> Accelerator:  # fmt: skip
        """All arrays programmed, each with the block that its entry names.

        weights: (groups, outputs, rows of a window) of a layer by name.
        Raises MisplacedError for an entry that no block fits and for an array that stands twice,
        UnsupportedError if cells are too many.
        """
        size = sum(array.rows * array.columns for array in arrays) * storage.cell_type.itemsize
        if size > MEMORY_LIMIT_BYTES:
            reason = f"its cells take {size >> 20} MiB, the limit is {MEMORY_LIMIT_BYTES >> 20}"
            raise UnsupportedError("placement", f"{reason}: verify an allocation of fewer arrays")
        numbers: dict[str, list[int]] = {}
        for number, array in enumerate(arrays):
            numbers.setdefault(array.layer, []).append(number)
        found: dict[int, Cells] = {}
        for layer in held:
            kept = weights(layer)
            for number in numbers.get(layer, ()):
                found[number] = storage.block(_block(held[layer], arrays[number], number), kept)
        machine = cls(held)
        for number, array in enumerate(arrays):
            if number not in found:
                reason = f"layer {brief(array.layer)} is no stage of the network"
                raise MisplacedError("placement", f"arrays[{number}]", reason)
            if address_of(array) in machine.cells:
                reason = "its physical array is programmed already: every array holds one block"
                raise MisplacedError("placement", f"arrays[{number}]", reason)
            machine.cells[address_of(array)] = found[number]
            machine.copies.setdefault((array.layer, array.replica), []).append(array)
        return machine

    def read(self, array: PlacedArray) -> Cells:
        """The cells of an array, on the lines that its block has in use."""
        return self.cells[address_of(array)]


def _block(held: Held, array: PlacedArray, number: int) -> Block:
    block = held.get((array.row_block, array.column_block))
    if block is None or (block.rows, block.columns) != (array.rows, array.columns):
        reason = f"no block of {brief(array.layer)} is as it says; `place` the allocation again"
        raise MisplacedError("placement", f"arrays[{number}]", reason)
    return block
