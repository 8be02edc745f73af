"""How many copies of each layer NeuroSim's floor plan makes room for, whether asked for or not.

It chooses tile and processing element (PE) sizes, powers of two, for the best use of their cells; copies
that still fit the tiles of a layer are made. With "novel mapping" the layers of the commonest kernel size
have a PE per kernel position, the others lie as one matrix.
Source: DNN_NeuroSim_V1.4, Chip.cpp: ChipDesignInitialize, ChipFloorPlan, TileDesign*, PEDesign, SubArrayDup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

_LEAST_PE, _LEAST_TILE = 2, 4
"""In rows of an array."""


class Matrix(NamedTuple):
    """Weights of a layer: input channels, kernel positions, output channels."""

    inputs: int
    positions: int
    outputs: int


class _Block(NamedTuple):
    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class Floorplan:
    """novel: whether it uses novel mapping; free_copies: of each layer in the tiles of a single copy."""

    novel: bool
    free_copies: tuple[int, ...]

    @classmethod
    def of(cls, layers: Sequence[Matrix], wordlines: int, bitlines: int, slices: int) -> Floorplan | None:
        """Novel mapping, NeuroSim's default, where it can be built, else the conventional one; None: neither.

        slices: columns of a weight.
        """
        novel = _novel(layers, wordlines)
        side = max((_raised(layers[i].outputs * slices) for i in novel), default=0)
        if side < _LEAST_PE * wordlines:
            novel = frozenset()
            if max(_raised(layer.outputs * slices) for layer in layers) < _LEAST_TILE * wordlines:
                return None
        arrays = _Block(wordlines, bitlines)
        whole = [
            _Block(m.inputs * m.positions, m.outputs * slices) for i, m in enumerate(layers) if i not in novel
        ]
        split = [_Block(m.inputs, m.outputs * slices) for i, m in enumerate(layers) if i in novel]
        conventional = iter(_conventional(whole, arrays))
        by_position = iter(_by_position(split, arrays))
        free = tuple(next(by_position if i in novel else conventional) for i in range(len(layers)))
        return cls(bool(novel), free)


def _novel(layers: Sequence[Matrix], wordlines: int) -> frozenset[int]:
    """Layers with the commonest kernel size above 1 (the first of equals) that fill an array's rows."""
    counts = Counter(layer.positions for layer in layers if layer.positions > 1)
    positions = max(counts, key=lambda size: counts[size]) if counts else 1
    return frozenset(
        index
        for index, layer in enumerate(layers)
        if layer.positions == positions and layer.inputs * positions >= wordlines
    )


def _by_position(blocks: Sequence[_Block], arrays: _Block) -> list[int]:
    """Copies in the PEs of novel mapping, one PE per kernel position."""
    if not blocks:
        return []
    least = _LEAST_PE * arrays.rows
    start = max(max(_raised(block.columns) for block in blocks), least)
    side = _best(start, least, Fraction(0), lambda side: _use(blocks, side))[0]
    return [_copies(block, side, arrays) for block in blocks]


def _conventional(blocks: Sequence[_Block], arrays: _Block) -> list[int]:
    """Copies in tiles of PEs of arrays."""
    if not blocks:
        return []
    least = _LEAST_TILE * arrays.rows
    start = max(max(_raised(block.columns) for block in blocks), least)
    tile, use = _best(start, least, Fraction(0), lambda side: _use(blocks, side))
    cells = _tiles(blocks, tile) * tile * tile

    def use_of_pes(side: int) -> Fraction:
        held = sum(_copies(block, tile, _Block(side, side)) * block.rows * block.columns for block in blocks)
        return Fraction(held, cells)

    pe = _best(tile // 2, _LEAST_PE * arrays.rows, use, use_of_pes)[0]
    return [_copies(block, tile, _Block(pe, pe)) * _copies(block, pe, arrays) for block in blocks]


def _best(start: int, least: int, use: Fraction, use_of: Callable[[int], Fraction]) -> tuple[int, Fraction]:
    """The first side from `start` down to above `least`, halved each time, that is used best.

    `start` if none is used better than `use`.
    """
    best = side = start
    while side > least:
        if (found := use_of(side)) > use:
            best, use = side, found
        side //= 2
    return best, use


def _tiles(blocks: Sequence[_Block], side: int) -> int:
    return sum(-(-block.rows // side) * -(-block.columns // side) for block in blocks)


def _use(blocks: Sequence[_Block], side: int) -> Fraction:
    """Share of the cells in use when blocks lie in squares of `side`."""
    cells = sum(block.rows * block.columns for block in blocks)
    return Fraction(cells, _tiles(blocks, side) * side * side)


def _copies(block: _Block, side: int, unit: _Block) -> int:
    """Copies of a block in a square made of units, 1 if it is larger than that both ways."""
    if block.rows > side and block.columns > side:
        return 1
    high = -(-side // unit.rows) // -(-block.rows // unit.rows)
    wide = -(-side // unit.columns) // -(-block.columns // unit.columns)
    return max(1, high) * max(1, wide)


def _raised(value: int) -> int:
    """The next power of two."""
    return 1 << (value - 1).bit_length()
