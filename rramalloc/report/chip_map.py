"""Chart: the tiles of the chips, and in them the arrays in the colours of their layers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

from rramalloc.chart import Axis, Chart, Marks, Panel, Spec, columns, label, named
from rramalloc.errors import SpecError
from rramalloc.placement.placement import PlacedArray, Placement
from rramalloc.records import brief
from rramalloc.report.section import FIGURE, Detail
from rramalloc.units import counted, rounded

_FRAME = "#9aa3ad"
_TILE = 0.92
_MOST_FRAMES = 4000
_MOST_NUMBERED = 400
"""Tiles up to which each has the number of its layer with most arrays."""
_LEAST_NUMBERED = 0.3
"""Share of a tile that must be filled for a number to stand in it."""
_ARRAYS = 2
"""Arrays that take as much of the page as one mark of another chart, and so are drawn twice as often."""
_MOST_NAMED = 12
"""Layers up to which the legend has a colour for each name; beyond, it is a scale."""
_LOWEST, _HIGHEST, _SHAPE = 180, 560, 520
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Map:
    """Where chips and layers are on the drawing. mesh: rows and columns of tiles of a chip; corner: row and
    column of the first tile of every chip; number: of layers by name, from 1; room: arrays of a tile.
    """

    placement: Placement
    mesh: Place
    corner: dict[Place, Place]
    number: dict[str, int]
    room: int

    @classmethod
    def of(cls, placement: Placement) -> _Map:
        mesh, chip = _mesh(placement), placement.hardware.chip
        chips = sorted({array.chip for array in placement.arrays})
        down = {row: place for place, row in enumerate(sorted({row for row, _ in chips}))}
        across = {column: place for place, column in enumerate(sorted({column for _, column in chips}))}
        corner = {(r, c): (down[r] * (mesh[0] + 1), across[c] * (mesh[1] + 1)) for r, c in chips}
        number = {layer.name: place for place, layer in enumerate(placement.layers, 1)}
        for index, array in enumerate(placement.arrays):
            if array.layer not in number:
                where = f"placement of {placement.network.name[:60]!r}: arrays[{index}]"
                raise SpecError(where, f"holds {brief(array.layer)}, which is none of the layers")
        room = max([array.index + 1 for array in placement.arrays] + [chip.arrays_per_tile if chip else 1])
        return cls(placement, mesh, corner, number, room)

    def middle(self, chip: Place, tile: Place) -> Place:
        """Row and column of a tile on the drawing."""
        return self.corner[chip][0] + tile[0], self.corner[chip][1] + tile[1]

    def colour(self) -> Spec:
        """Colour by layer from first (dark) to last, with its legend."""
        layers = self.placement.layers
        legend: Spec = {"orient": "bottom", "title": "layer, in network order"}
        if len(layers) <= _MOST_NAMED:
            names = [f"{place} {label(layer.name)}" for place, layer in enumerate(layers, 1)]
            scale: Spec = {"domain": names, "scheme": {"name": "viridis", "extent": [0.08, 1]}}
            legend |= {"columns": 4, "labelLimit": 200, "symbolType": "square"}
            return {"field": "shown", "type": "ordinal", "scale": scale, "legend": legend}
        scale = {"domain": [1, len(layers)], "scheme": {"name": "viridis", "extent": [0.08, 1]}}
        legend |= {"gradientLength": 300, "tickMinStep": 1}
        return {"field": "number", "type": "quantitative", "scale": scale, "legend": legend}

    def look(self, layer: str) -> Spec:
        """The columns that the colour is taken from."""
        number = self.number.get(layer, 0)
        if len(self.placement.layers) <= _MOST_NAMED:
            return {"shown": f"{number} {label(layer)}"}
        return {"number": number}


def chip_map(placement: Placement, detail: Detail = FIGURE) -> Chart:
    """Arrays one by one if the detail allows, else the layers of a tile as bands as high as their share."""
    drawing = _Map.of(placement)
    high = max(row for row, _ in drawing.corner.values()) + drawing.mesh[0]
    wide = max(column for _, column in drawing.corner.values()) + drawing.mesh[1]
    every = len(placement.arrays) <= _ARRAYS * detail.marks
    marks, note = _arrays(drawing) if every else _bands(drawing, detail.marks)
    chips = len(drawing.corner)
    layers = (_frames(drawing), marks, *_numbers(drawing), *_chip_names(drawing))
    down = Axis("tile row", -0.7, high - 0.3, whole=True, shown=chips == 1, grid=False, down=True)
    across = Axis("tile column", -0.7, wide - 0.3, whole=True, shown=chips == 1, grid=False)
    tiles, arrays = len(placement.tiles), len(placement.arrays)
    height = min(_HIGHEST, max(_LOWEST, round(_SHAPE * high / wide)))
    return Chart(
        title="Chip map",
        panels=(Panel(across, down, height, layers),),
        summary=f"{arrays:,} arrays in {tiles:,} tiles on {counted(chips, 'chip')}, coloured by layer. "
        "The table of placed layers has the tiles of each.",
        heading=(_heading(placement),),
        zoom="xy",
        note=f"The number in a tile is that of its layer with most arrays. {note}",
    )


def _heading(placement: Placement) -> str:
    arrays = f"{len(placement.arrays):,} arrays"
    return (
        f"{label(placement.network.name)} on {label(placement.hardware.name)}: {arrays} in "
        f"{counted(len(placement.tiles), 'tile')}, {rounded(placement.traffic.cost)} byte hops"
    )


def _mesh(placement: Placement) -> Place:
    chip = placement.hardware.chip
    if chip is not None and chip.tiles[0] * chip.tiles[1] <= _MOST_FRAMES:
        return chip.tiles[0], chip.tiles[1]
    tiles = [array.tile for array in placement.arrays]
    return 1 + max(row for row, _ in tiles), 1 + max(column for _, column in tiles)


def _squares(data: dict[str, list[Any]], side: float, mark: Spec, **more: Any) -> Marks:
    """Squares of one size around the columns x and y."""
    half = side / 2
    sides = {"left": f"datum.x - {half}", "right": f"datum.x + {half}"}
    sides |= {"low": f"datum.y - {half}", "high": f"datum.y + {half}"}
    channels = {"x": "left", "x2": "right", "y": "low", "y2": "high"} | more.pop("channels", {})
    return Marks({"type": "rect"} | mark, data, channels, derived=sides, **more)


def _frames(drawing: _Map) -> Marks:
    tiles = product(range(drawing.mesh[0]), range(drawing.mesh[1]))
    every = (drawing.middle(chip, tile) for tile, chip in product(tiles, drawing.corner))
    places = list(islice(every, _MOST_FRAMES))
    data = {"x": [column for _, column in places], "y": [row for row, _ in places]}
    look = {"fill": _FRAME, "fillOpacity": 0.12, "stroke": _FRAME, "strokeOpacity": 0.5, "strokeWidth": 0.7}
    return _squares(data, _TILE + 0.04, look)


def _arrays(drawing: _Map) -> tuple[Marks, str]:
    """A square for every array, row by row in its tile."""
    side = math.ceil(math.sqrt(drawing.room))
    data = columns([_square(array, drawing, side) for array in drawing.placement.arrays])
    hover = named("layer, replica") | _windows_hover(drawing) | {"block (row, column)": "block"}
    if "plane" not in drawing.placement.left_out:
        hover |= named("plane")
    hover |= named("wordlines x bitlines=cells, chip, tile, array")
    colour = {"color": drawing.colour()}
    return _squares(data, round(_TILE / side * 0.94, 4), {}, channels=colour, hover=hover), (
        "Every square is an array."
    )


def _square(array: PlacedArray, drawing: _Map, side: int) -> dict[str, Any]:
    each = _TILE / side
    tile_row, tile_column = drawing.middle(array.chip, array.tile)
    row, column = divmod(array.index, side)
    return {
        "layer": array.layer,
        "chip": _pair(array.chip),
        "tile": _pair(array.tile),
        "array": array.index,
        "replica": _replicas(array.replica, array.replica + array.copies - 1),
        **_windows(drawing, array.layer),
        "block": _pair((array.row_block, array.column_block)),
        "plane": array.plane,
        "cells": f"{array.rows} x {array.columns}",
        "x": round(tile_column - _TILE / 2 + (column + 0.5) * each, 3),
        "y": round(tile_row - _TILE / 2 + (row + 0.5) * each, 3),
        **drawing.look(array.layer),
    }


def _windows_hover(drawing: _Map) -> dict[str, str]:
    return {"windows a step": "windows"} if drawing.placement.blocks else {}


def _windows(drawing: _Map, layer: str) -> Spec:
    """The column with the block of windows that copies of a layer compute, with mapping "sdk"."""
    blocks = drawing.placement.blocks
    return {"windows": "{} x {}".format(*blocks[layer])} if layer in blocks else {}


def _replicas(first: int, last: int) -> str:
    return f"{first} to {last}" if last > first else str(first)


def _bands(drawing: _Map, most: int) -> tuple[Marks, str]:
    """A band for every layer in a tile, as high as its share of the tile's arrays."""
    held: dict[tuple[Place, Place, str], list[PlacedArray]] = {}
    for array in drawing.placement.arrays:
        held.setdefault((array.chip, array.tile, array.layer), []).append(array)
    data = columns(list(islice(_each_band(held, drawing), most)))
    hover = named("layer, arrays in this tile=arrays, tile, replicas") | _windows_hover(drawing)
    hover |= {"first block (row, column)": "block"}
    channels = {"x": "left", "x2": "right", "y": "top", "y2": "bottom", "color": drawing.colour()}
    note = "Every band is the arrays of a layer in a tile."
    if len(held) > most:
        note += f" The first {most:,} of {len(held):,} are drawn."
    return Marks({"type": "rect"}, data, channels, hover=hover), note


def _each_band(
    held: dict[tuple[Place, Place, str], list[PlacedArray]], drawing: _Map
) -> Iterator[dict[str, Any]]:
    filled: Counter[tuple[Place, Place]] = Counter()
    for chip, tile, layer in sorted(held, key=lambda at: (at[0], at[1], drawing.number.get(at[2], 0), at[2])):
        arrays = held[chip, tile, layer]
        row, column = drawing.middle(chip, tile)
        low = row + _TILE / 2 - _TILE * filled[chip, tile] / drawing.room
        filled[chip, tile] += len(arrays)
        replicas = [array.replica for array in arrays]
        replicas += [array.replica + array.copies - 1 for array in arrays]
        yield {
            "layer": layer,
            "tile": _pair(tile),
            "arrays": len(arrays),
            "replicas": _replicas(min(replicas), max(replicas)),
            **_windows(drawing, layer),
            "block": _pair((arrays[0].row_block, arrays[0].column_block)),
            "left": round(column - _TILE / 2, 3),
            "right": round(column + _TILE / 2, 3),
            "top": round(low - _TILE * len(arrays) / drawing.room, 3),
            "bottom": round(low, 3),
            **drawing.look(layer),
        }


def _numbers(drawing: _Map) -> list[Marks]:
    """The number of the layer with most arrays in every tile that is filled enough."""
    held: dict[Place, Counter[str]] = {}
    for array in drawing.placement.arrays:
        held.setdefault(drawing.middle(array.chip, array.tile), Counter())[array.layer] += 1
    if len(held) > _MOST_NUMBERED:
        return []
    rows = []
    for (row, column), counts in sorted(held.items()):
        if counts.total() >= _LEAST_NUMBERED * drawing.room:
            most = min(counts, key=lambda layer: (-counts[layer], drawing.number.get(layer, 0)))
            rows.append({"x": column, "y": row, "number": str(drawing.number.get(most, "?"))})
    if not rows:
        return []
    halo = {"type": "text", "fontWeight": "bold", "fontSize": 10, "stroke": "white", "strokeWidth": 3}
    black = {"type": "text", "fontWeight": "bold", "fontSize": 10, "fill": "black"}
    channels = {"x": "x", "y": "y", "text": "number"}
    return [Marks(look, columns(rows), channels) for look in (halo, black)]


def _chip_names(drawing: _Map) -> list[Marks]:
    if len(drawing.corner) == 1:
        return []
    rows = [
        {"x": column - 0.5, "y": row - 0.75, "name": f"chip {_pair(chip)}"}
        for chip, (row, column) in drawing.corner.items()
    ]
    look = {"type": "text", "align": "left", "baseline": "middle"}
    return [Marks(look, columns(rows), {"x": "x", "y": "y", "text": "name"})]


def _pair(place: Place) -> str:
    return f"{place[0]}, {place[1]}"
