"""Chart of the chips: every tile of the mesh, and in it every array in the colour of its layer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

from rramalloc.placement.placement import PlacedArray, Placement
from rramalloc.report.page import charts
from rramalloc.report.page.parts import Chart, Detail
from rramalloc.shown import counted

_FRAME, _EMPTY = "#9aa3ad", "#8a939d"
_TILE = 0.92
_BETWEEN = 1
"""Tiles of space between chips."""
_MOST_FRAMES = 4000
_ARRAYS = 2
"""Arrays that take as much of the page as one mark of another chart, and so are drawn twice as often."""
_CUT = 20
"""Colours of the map's dark end that are left out: they would drown in a dark page."""
_LOWEST, _HIGHEST, _SHAPE = 260, 640, 920
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Map:
    """Where chips and layers are on the drawing. mesh: rows and columns of tiles of a chip; corner: row and
    column of the first tile of every chip; colours: of layers by name; room: arrays of the fullest tile.
    """

    placement: Placement
    mesh: Place
    corner: dict[Place, Place]
    colours: dict[str, str]
    room: int

    @classmethod
    def of(cls, placement: Placement) -> _Map:
        mesh, chip = _mesh(placement), placement.hardware.chip
        chips = {array.chip for array in placement.arrays}
        down = {row: place for place, row in enumerate(sorted({chip[0] for chip in chips}))}
        across = {column: place for place, column in enumerate(sorted({chip[1] for chip in chips}))}
        corner = {
            (row, column): (down[row] * (mesh[0] + _BETWEEN), across[column] * (mesh[1] + _BETWEEN))
            for row, column in sorted(chips)
        }
        room = max([array.index + 1 for array in placement.arrays] + [chip.arrays_per_tile if chip else 1])
        return cls(placement, mesh, corner, _colours([layer.name for layer in placement.layers]), room)

    def middle(self, chip: Place, tile: Place) -> Place:
        """Row and column of a tile on the drawing."""
        return self.corner[chip][0] + tile[0], self.corner[chip][1] + tile[1]

    def colour(self, layer: str) -> str:
        return self.colours.get(layer, _EMPTY)


def chip_map(placement: Placement, detail: Detail) -> Chart:
    """Arrays one by one if the detail allows, else the layers of a tile as bands as high as their share."""
    drawing = _Map.of(placement)
    high = max(row for row, _ in drawing.corner.values()) + drawing.mesh[0]
    wide = max(column for _, column in drawing.corner.values()) + drawing.mesh[1]
    height = min(_HIGHEST, max(_LOWEST, round(_SHAPE * high / wide))) + 60
    drawn = charts.figure(
        height, "tile column", "tile row", drag="box_zoom", x_range=(-0.7, wide - 0.3),
        y_range=(high - 0.3, -0.7),
    )  # fmt: skip
    drawn.grid.grid_line_color = None
    _frames(drawn, drawing)
    if len(placement.arrays) <= _ARRAYS * detail.marks:
        note = _arrays(drawn, drawing)
    else:
        note = _bands(drawn, drawing, detail.marks)
    chips = len(drawing.corner)
    for axis in (drawn.xaxis[0], drawn.yaxis[0]):
        axis.ticker.min_interval = 1
        axis.visible = chips == 1
    summary = (
        f"{len(placement.arrays):,} arrays in {len(placement.tiles):,} tiles on "
        f"{counted(chips, 'chip')}, coloured by layer. The table of placed layers has the tiles "
        "of each."
    )
    told = f"Colours go from the first layer (dark) to the last. {note}"
    return Chart("Chip map", (drawn,), summary, "xy", told)


def _mesh(placement: Placement) -> Place:
    chip = placement.hardware.chip
    if chip is not None and chip.tiles[0] * chip.tiles[1] <= _MOST_FRAMES:
        return chip.tiles[0], chip.tiles[1]
    tiles = [array.tile for array in placement.arrays]
    return 1 + max(row for row, _ in tiles), 1 + max(column for _, column in tiles)


def _colours(names: Sequence[str]) -> dict[str, str]:
    from bokeh.palettes import Viridis256

    shades = Viridis256[_CUT:]
    last = max(1, len(names) - 1)
    return {name: shades[place * (len(shades) - 1) // last] for place, name in enumerate(names)}


def _frames(drawn: Any, drawing: _Map) -> None:
    tiles = product(range(drawing.mesh[0]), range(drawing.mesh[1]))
    every = (
        drawing.middle(chip, tile) for tile, chip in product(islice(tiles, _MOST_FRAMES), drawing.corner)
    )
    places = list(islice(every, _MOST_FRAMES))
    drawn.rect(
        x=[column for _, column in places], y=[row for row, _ in places], width=_TILE + 0.04,
        height=_TILE + 0.04, fill_color=_EMPTY, fill_alpha=0.12, line_color=_FRAME, line_alpha=0.5,
        line_width=0.7,
    )  # fmt: skip


def _arrays(drawn: Any, drawing: _Map) -> str:
    """A square for every array, row by row in its tile."""
    side = math.ceil(math.sqrt(drawing.room))
    each = _TILE / side
    marks = charts.columns(_square(array, drawing, side) for array in drawing.placement.arrays)
    squares = drawn.rect(
        x="x", y="y", width=each * 0.94, height=each * 0.94, source=charts.source(marks),
        fill_color="colour", line_color=None,
    )  # fmt: skip
    told = [
        ("layer", "@layer"), ("replica", "@replica"), ("block (row, column)", "@block"),
        ("wordlines x bitlines", "@cells"), ("chip", "@chip"), ("tile", "@tile"), ("array", "@array"),
    ]  # fmt: skip
    charts.hover(drawn, [squares], told)
    return "Every square is an array."


def _square(array: PlacedArray, drawing: _Map, side: int) -> dict[str, Any]:
    each = _TILE / side
    tile_row, tile_column = drawing.middle(array.chip, array.tile)
    row, column = divmod(array.index, side)
    return {
        "layer": array.layer,
        "chip": _pair(array.chip),
        "tile": _pair(array.tile),
        "array": array.index,
        "replica": array.replica,
        "block": _pair((array.row_block, array.column_block)),
        "cells": f"{array.rows} x {array.columns}",
        "x": round(tile_column - _TILE / 2 + (column + 0.5) * each, 3),
        "y": round(tile_row - _TILE / 2 + (row + 0.5) * each, 3),
        "colour": drawing.colour(array.layer),
    }


def _bands(drawn: Any, drawing: _Map, most: int) -> str:
    """A band for every layer in a tile, as high as its share of the tile's arrays."""
    held: dict[tuple[Place, Place, str], list[PlacedArray]] = {}
    for array in drawing.placement.arrays:
        held.setdefault((array.chip, array.tile, array.layer), []).append(array)
    marks = charts.columns(islice(_each_band(held, drawing), most))
    bands = drawn.quad(
        left="left", right="right", top="top", bottom="bottom", source=charts.source(marks),
        fill_color="colour", line_color=None,
    )  # fmt: skip
    told = [
        ("layer", "@layer"), ("arrays in this tile", "@arrays{0,0}"), ("tile", "@tile"),
        ("replicas", "@replicas"), ("first block (row, column)", "@block"),
    ]  # fmt: skip
    charts.hover(drawn, [bands], told)
    note = "Every band is the arrays of a layer in a tile."
    return note if len(held) <= most else f"{note} The first {most:,} of {len(held):,} are drawn."


def _each_band(
    held: dict[tuple[Place, Place, str], list[PlacedArray]], drawing: _Map
) -> Iterator[dict[str, Any]]:
    order = {layer.name: place for place, layer in enumerate(drawing.placement.layers)}
    filled: Counter[tuple[Place, Place]] = Counter()
    for chip, tile, layer in sorted(held, key=lambda key: (key[0], key[1], order.get(key[2], 0), key[2])):
        arrays = held[chip, tile, layer]
        row, column = drawing.middle(chip, tile)
        low = row + _TILE / 2 - _TILE * filled[chip, tile] / drawing.room
        filled[chip, tile] += len(arrays)
        replicas = sorted({array.replica for array in arrays})
        yield {
            "layer": layer,
            "tile": _pair(tile),
            "arrays": len(arrays),
            "replicas": f"{replicas[0]} to {replicas[-1]}" if len(replicas) > 1 else str(replicas[0]),
            "block": _pair((arrays[0].row_block, arrays[0].column_block)),
            "left": round(column - _TILE / 2, 3),
            "right": round(column + _TILE / 2, 3),
            "top": round(low - _TILE * len(arrays) / drawing.room, 3),
            "bottom": round(low, 3),
            "colour": drawing.colour(layer),
        }


def _pair(place: Place) -> str:
    return f"{place[0]}, {place[1]}"
