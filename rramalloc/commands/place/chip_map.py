"""Chart: the tiles of the chips, and in them the arrays in the colours of their layers."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

from rramalloc.chart import Axis, Chart, Marks, Panel, VegaSpec, columns, fills, label, labels, named
from rramalloc.commands.place.placement import Place, PlacedArray, Placement
from rramalloc.errors import SpecError
from rramalloc.hardware.tables import mesh_of
from rramalloc.records import brief
from rramalloc.units import counted, rounded
from rramalloc.view.view import FIGURE, Detail

_FRAME = "#9aa3ad"
_TILE = 0.92  # side of a tile where tiles are 1 apart
_BOX = 0.47 * _TILE  # half the side of the box of an array where a tile holds one
_MOST_FRAMES = 4000  # tiles that are drawn as frames
_MOST_WIDER = 1000  # places that a tile is drawn wider than a square, to fill its last row
_MOST_NUMBERED = 400  # filled tiles up to which each has the number of its layer with most arrays
_LEAST_NUMBERED = 0.3  # share of a tile that must be filled for a number to stand in it
_DIGIT = 7  # pixels of a digit of a number in a tile; no number is less high than two of them are wide
_LONGEST_KEY = 22  # characters of a layer's name in the legend
_ARRAYS = 2  # arrays that take as much of the page as one mark of another chart: twice as many are drawn
_LOWEST = 180  # height of a drawing in pixels
_HIGHEST = 560  # height of a drawing in pixels
_SHAPE = 520  # width in pixels that the height follows, so that tiles are about square


@dataclass(frozen=True, slots=True)
class _Map:
    """Places of chips and layers on the drawing. mesh: rows and columns of tiles of a chip; corner: row and
    column of the first tile of every chip; number: of layers by name, from 0; shown: number and name of a
    layer, as the legend has them; rooms: arrays or units of a tile; kinds: the kind of a tile, where there
    are several."""

    placement: Placement
    mesh: Place
    corner: dict[Place, Place]
    number: dict[str, int]
    shown: dict[str, str]
    rooms: dict[Place, int]
    kinds: dict[Place, str]

    @classmethod
    def of(cls, placement: Placement) -> _Map:
        chip, arrays = placement.hardware.chip, placement.arrays
        mesh = (0, 0) if chip is None else mesh_of(chip.tiles)
        if not 0 < mesh[0] * mesh[1] <= _MOST_FRAMES:
            mesh = max(array.tile[0] for array in arrays) + 1, max(array.tile[1] for array in arrays) + 1
        chips = sorted({array.chip for array in arrays})
        down, across = (sorted({each[axis] for each in chips}) for axis in (0, 1))
        corner = {(r, c): (down.index(r) * (mesh[0] + 1), across.index(c) * (mesh[1] + 1)) for r, c in chips}
        number = {layer.name: place for place, layer in enumerate(placement.layers)}
        for index, array in enumerate(arrays):
            if array.layer not in number:
                where = f"placement of {placement.network.name[:60]!r}: arrays[{index}]"
                raise SpecError(where, f"holds {brief(array.layer)}, which is none of the layers")
        hardware, kinds = placement.hardware, dict[Place, str]()
        most = max([array.index + 1 for array in arrays] + [*hardware.arrays_per_tile, 1])
        rooms = {array.tile: most for array in arrays}
        if chip is not None and hardware.kinds is not None:
            of_tiles = [kind for kind in hardware.kind_of_tiles if kind >= 0]
            tiles = [divmod(place, mesh_of(chip.tiles)[1]) for place in range(len(of_tiles))]
            kinds = {tile: hardware.kinds[kind].name for tile, kind in zip(tiles, of_tiles, strict=True)}
            rooms |= {
                tile: hardware.arrays_per_tile[kind] for tile, kind in zip(tiles, of_tiles, strict=True)
            }
            for array in arrays:  # of a file, which may hold more than its tile has room for
                rooms[array.tile] = max(rooms[array.tile], array.index + 1)
        short = labels([*number], _LONGEST_KEY)
        shown = {layer: f"{place} {text}" for (layer, place), text in zip(number.items(), short, strict=True)}
        return cls(placement, mesh, corner, number, shown, rooms, kinds)

    def middle(self, chip: Place, tile: Place) -> Place:
        """Return the row and column of a tile on the drawing."""
        return self.corner[chip][0] + tile[0], self.corner[chip][1] + tile[1]

    def colour(self) -> VegaSpec:
        """Return the colour of a layer with its legend: 24, then hatched ones."""
        names = [*self.shown.values()]
        scale: VegaSpec = {"domain": names, "range": fills(len(names))}
        legend: VegaSpec = {"orient": "bottom", "title": "layer, in network order", "symbolType": "square"}
        legend |= {"symbolLimit": 0}
        return {"field": "shown", "type": "nominal", "scale": scale, "legend": legend}

    def tooltip(self, *arrays: PlacedArray) -> dict[str, Any]:
        """Return what is said of arrays of one layer in one tile; `windows`: of a mode, if any."""
        first = min(array.replica for array in arrays)
        last = max(array.replica + array.copies - 1 for array in arrays)
        layer, blocks = arrays[0].layer, self.placement.blocks
        return {
            "layer": layer,
            "tile": _pair(arrays[0].tile),
            **({"kind": self.kinds.get(arrays[0].tile, "")} if self.kinds else {}),
            "replica": f"{first} to {last}" if last > first else str(first),
            **({"windows": "{} x {}".format(*blocks[layer])} if layer in blocks else {}),
            "block": _pair((arrays[0].row_block, arrays[0].column_block)),
            "shown": self.shown[layer],
        }


def chip_map(placement: Placement, *, detail: Detail = FIGURE) -> Chart | None:
    """Draw arrays one by one if the detail allows, else the layers of a tile as bands as high as
    their share."""
    if not placement.arrays:
        return None
    drawing = _Map.of(placement)
    high = max(row for row, _ in drawing.corner.values()) + drawing.mesh[0]
    wide = max(column for _, column in drawing.corner.values()) + drawing.mesh[1]
    every = len(placement.arrays) <= _ARRAYS * detail.marks
    marks, note = _arrays(drawing) if every else _bands(drawing, detail.marks)
    chips = len(drawing.corner)
    layers = (_frames(drawing), marks, *_numbers(drawing), *_chip_names(drawing))
    down = Axis("tile row", -0.7, high - 0.3, integers=True, shown=chips == 1, grid=False, down=True)
    across = Axis("tile column", -0.7, wide - 0.3, integers=True, shown=chips == 1, grid=False)
    arrays, tiles = f"{len(placement.arrays):,} arrays", counted(len(placement.tiles), "tile")
    heading = (
        f"{label(placement.network.name)} on {label(placement.hardware.name)}: {arrays} in {tiles}, "
        f"{rounded(placement.traffic.cost)} byte hops"
    )
    each = [
        f"{counted(many, 'tile')} of kind {kind}" for kind, many in Counter(drawing.kinds.values()).items()
    ]
    note += f" Row by row, a chip has {', then '.join(each)}." if each else ""
    height = min(_HIGHEST, max(_LOWEST, round(_SHAPE * high / wide)))
    return Chart(
        title="Chip map",
        panels=(Panel(across, down, height, layers),),
        summary=f"{arrays} in {len(placement.tiles):,} tiles on {counted(chips, 'chip')}, coloured by layer. "
        "The table of placed layers has the tiles of each.",
        heading=(heading,),
        zoom="xy",
        note=f"The number in a tile, where there is room, is that of its layer with most arrays. {note}",
    )


def _boxes(
    data: dict[str, list[Any]], across: float | str, down: float | str, mark: VegaSpec, **more: Any
) -> Marks:
    """Return boxes around the columns x and y; across, down: half their sides, or the columns of these."""
    edges = {"left": f"datum.x - {across}", "right": f"datum.x + {across}"}
    edges |= {"low": f"datum.y - {down}", "high": f"datum.y + {down}"}
    channels = {"x": "left", "x2": "right", "y": "low", "y2": "high"} | more.pop("channels", {})
    return Marks({"type": "rect"} | mark, data, channels, derived=edges, **more)


def _frames(drawing: _Map) -> Marks:
    chip, columns_there = drawing.placement.hardware.chip, drawing.mesh[1]
    most = drawing.mesh[0] * columns_there if chip is None else chip.tiles_per_chip
    tiles = [divmod(tile, columns_there) for tile in range(min(most, drawing.mesh[0] * columns_there))]
    every = (drawing.middle(chip, tile) for tile, chip in product(tiles, drawing.corner))
    places = list(islice(every, _MOST_FRAMES))
    data = {"x": [column for _, column in places], "y": [row for row, _ in places]}
    look = {"fill": _FRAME, "fillOpacity": 0.12, "stroke": _FRAME, "strokeOpacity": 0.5, "strokeWidth": 0.7}
    return _boxes(data, (_TILE + 0.04) / 2, (_TILE + 0.04) / 2, look)


def _arrays(drawing: _Map) -> tuple[Marks, str]:
    """Draw a box for every array, row by row in its tile, with few places over and about square."""
    rows = list[dict[str, Any]]()
    grids = dict[int, Place]()
    beyond = set[int]()
    for room in set(drawing.rooms.values()):
        least = math.ceil(math.sqrt(room))
        over, wide = min((-room % wide, wide) for wide in range(least, least + min(least, _MOST_WIDER) + 1))
        grids[room] = wide, -(-room // wide)
        beyond.add(over)
    for array in drawing.placement.arrays:
        wide, high = grids[drawing.rooms[array.tile]]
        tile_row, tile_column = drawing.middle(array.chip, array.tile)
        row, column = divmod(array.index, wide)
        x = round(tile_column + _TILE * ((column + 0.5) / wide - 0.5), 3)
        y = round(tile_row + _TILE * ((row + 0.5) / high - 0.5), 3)
        cells, own = f"{array.rows} x {array.columns}", {"array": array.index, "plane": array.plane}
        rows.append(
            drawing.tooltip(array) | own | {"chip": _pair(array.chip), "cells": cells, "x": x, "y": y}
        )
        if drawing.kinds:
            rows[-1] |= {"across": round(_BOX / wide, 4), "down": round(_BOX / high, 4)}
    hover = named("layer, copy=replica") | _more_hover(drawing) | {"block (row, column)": "block"}
    if "plane" not in drawing.placement.left_out:
        hover |= named("plane")
    hover |= named("wordlines x bitlines=cells, chip, tile, array")
    across, down = ("datum.across", "datum.down") if drawing.kinds else (_BOX / wide, _BOX / high)
    note = (
        f" The last {counted(max(beyond), 'place')} of a tile are none."
        if len(beyond) == 1 and max(beyond)
        else ""
    )
    marks = _boxes(columns(rows), across, down, {}, channels={"color": drawing.colour()}, hover=hover)
    return marks, f"Every box is an array.{note}"


def _more_hover(drawing: _Map) -> dict[str, str]:
    kinds = {"kind of the tile": "kind"} if drawing.kinds else {}
    return kinds | ({"windows a step": "windows"} if drawing.placement.blocks else {})


def _bands(drawing: _Map, most: int) -> tuple[Marks, str]:
    """Draw a band for every layer in a tile, as high as its share of the tile's arrays."""
    held: dict[tuple[Place, Place, int], list[PlacedArray]] = {}
    for array in drawing.placement.arrays:
        held.setdefault((array.chip, array.tile, drawing.number[array.layer]), []).append(array)
    filled, rows = Counter[Place](), []
    for (chip, tile, _), arrays in sorted(held.items())[:most]:
        row, column = at = drawing.middle(chip, tile)
        of_array = _TILE / drawing.rooms[tile]
        low = row + _TILE / 2 - of_array * filled[at]
        filled[at] += len(arrays)
        left, right = round(column - _TILE / 2, 3), round(column + _TILE / 2, 3)
        edges = {"left": left, "right": right, "top": round(low - of_array * len(arrays), 3)}
        rows.append(drawing.tooltip(*arrays) | {"arrays": len(arrays), "bottom": round(low, 3)} | edges)
    hover = named("layer, arrays in this tile=arrays, tile, copies=replica") | _more_hover(drawing)
    hover |= {"first block (row, column)": "block"}
    channels = {"x": "left", "x2": "right", "y": "top", "y2": "bottom", "color": drawing.colour()}
    note = "Every band is the arrays of a layer in a tile."
    if len(held) > most:
        note += f" The first {most:,} of {len(held):,} are drawn."
    return Marks({"type": "rect"}, columns(rows), channels, hover=hover), note


def _numbers(drawing: _Map) -> list[Marks]:
    """Draw the number of the layer with most arrays in every tile that is filled enough."""
    held: dict[Place, Counter[str]] = {}
    rooms = dict[Place, int]()
    for array in drawing.placement.arrays:
        at = drawing.middle(array.chip, array.tile)
        held.setdefault(at, Counter())[array.layer] += 1
        rooms[at] = drawing.rooms[array.tile]
    if len(held) > _MOST_NUMBERED:
        return []
    rows: list[dict[str, Any]] = []
    for at, counts in sorted(held.items()):
        if counts.total() >= _LEAST_NUMBERED * rooms[at]:
            most = min((-count, drawing.number[layer]) for layer, count in counts.items())
            rows.append({"x": at[1], "y": at[0], "number": str(most[1])})
    if not rows:
        return []
    halo = {"type": "text", "fontWeight": "bold", "fontSize": 10, "stroke": "white", "strokeWidth": 3}
    halo |= {"strokeJoin": "round"}  # else the stroke of a 4 ends in a spike
    black = {"type": "text", "fontWeight": "bold", "fontSize": 10, "fill": "black"}
    channels = {"x": "x", "y": "y", "text": "number"}
    room = _DIGIT * max(2, *(len(row["number"]) for row in rows))
    return [Marks(look, columns(rows), channels, room=room) for look in (halo, black)]


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
