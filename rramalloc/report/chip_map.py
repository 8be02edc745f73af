"""Figure: the tiles of the chips, each with the layers it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rramalloc.placement.placement import Placement
from rramalloc.report import style
from rramalloc.shown import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_AROUND_IN, _MOST_HEIGHT_IN, _NARROWEST_IN = 0.9, 8.0, 3.4
_MOST_NAMED_TILES = 400
_LEAST_NAMED = 0.3
"""Share of a tile that must be filled for a number to be written into it."""
_MOST_CHIPS = 16
Tile = tuple[int, int]


@style.look()
def draw(placement: Placement) -> Figure:
    """A mesh of tiles per chip in use: each tile is filled as its arrays are, in the colours of its layers.

    Colours go from the first layer to the last; the number in a tile is that of the layer with most arrays
    in it. At most 16 chips are drawn.
    """
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.ticker import MaxNLocator

    chips = sorted({tile.chip for tile in placement.tiles})[:_MOST_CHIPS]
    low, high = _extent(placement)
    rows, columns = high[0] - low[0] + 1, high[1] - low[1] + 1
    across = min(len(chips), 4 if columns <= rows * 2 else 2)
    down = -(-len(chips) // across)
    wide_in = (style.WIDTH_IN - 1.2) / across
    height_in = min(_MOST_HEIGHT_IN, down * min(wide_in * rows / columns + 0.3, _MOST_HEIGHT_IN) + _AROUND_IN)
    drawn, axes = style.figure(height_in, across, down)
    scale = ScalarMappable(Normalize(1, max(2, len(placement.layers))), colormaps["cividis"])
    for place, chip in zip(axes, chips, strict=False):
        _chip(place, placement, chip, (low, high), scale)
        if len(chips) > 1:
            place.set_title(f"chip {chip[0]},{chip[1]}", fontsize=8)
    for place in axes[len(chips) :]:
        place.set_visible(False)
    whole = MaxNLocator(integer=True)
    bar = drawn.colorbar(scale, ax=axes, shrink=0.8, aspect=30, pad=0.02, ticks=whole)
    bar.set_label("layer, in network order")
    bar.outline.set_visible(False)
    drawn.suptitle(_title(placement), fontsize=9)
    return drawn


def _extent(placement: Placement) -> tuple[Tile, Tile]:
    """First and last row and column of the part of the mesh that is in use."""
    rows, columns = zip(*(tile.tile for tile in placement.tiles), strict=True)
    return (min(rows), min(columns)), (max(rows), max(columns))


def _chip(axes: Axes, placement: Placement, chip: Tile, extent: tuple[Tile, Tile], scale: object) -> None:
    """Tiles as squares, filled from below."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    number = {layer.name: place for place, layer in enumerate(placement.layers, 1)}
    held: dict[Tile, dict[int, int]] = {}
    for array in placement.arrays:
        if array.chip == chip:
            count = held.setdefault(array.tile, {})
            count[number[array.layer]] = count.get(number[array.layer], 0) + 1
    room = placement.hardware.chip.arrays_per_tile if placement.hardware.chip else 1
    patches, colours = [], []
    for (row, column), layers in sorted(held.items()):
        low = row + 0.46
        for layer, arrays in sorted(layers.items()):
            high = 0.92 * arrays / room
            patches.append(Rectangle((column - 0.46, low - high), 0.92, high))
            colours.append(scale.to_rgba(layer))  # type: ignore[attr-defined]
            low -= high
    axes.add_collection(PatchCollection(patches, facecolors=colours, edgecolors="none"))
    rows, columns = (range(low, high + 1) for low, high in zip(*extent, strict=True))
    frames = [Rectangle((c - 0.46, r - 0.46), 0.92, 0.92) for r in rows for c in columns]
    axes.add_collection(PatchCollection(frames, facecolors="none", edgecolors=style.GREY, linewidths=0.5))
    if len(frames) <= _MOST_NAMED_TILES:
        _number(axes, held, max(number.values()), room, max(len(rows), len(columns)))
    axes.set_xlim(columns[0] - 0.6, columns[-1] + 0.6)
    axes.set_ylim(rows[-1] + 0.6, rows[0] - 0.6)
    axes.set_aspect("equal")
    axes.grid(visible=False)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.tick_params(length=0, labelsize=7)
    axes.set_xticks(_ticks(columns))
    axes.set_yticks(_ticks(rows))


def _number(axes: Axes, held: dict[Tile, dict[int, int]], layers: int, room: int, lines: int) -> None:
    """The number of the layer with most arrays, in the middle of what is filled of every tile."""
    size = max(3.5, min(8.0, 90 / lines))
    for (row, column), counts in sorted(held.items()):
        if sum(counts.values()) < _LEAST_NAMED * room:
            continue
        most = min(counts, key=lambda layer: (-counts[layer], layer))
        colour = "white" if most <= 0.55 * layers else style.BLACK
        middle = row + 0.46 - 0.46 * sum(counts.values()) / room
        axes.text(column, middle, str(most), ha="center", va="center", fontsize=size, color=colour)


def _ticks(lines: range) -> list[int]:
    return list(lines[:: max(1, -(-len(lines) // 16))])


def _title(placement: Placement) -> str:
    tiles, arrays = len(placement.tiles), len(placement.arrays)
    return (
        f"{style.label(placement.network.name)} on {style.label(placement.hardware.name)}: {arrays:,} arrays "
        f"in {counted(tiles, 'tile')}, {placement.traffic.cost:,.0f} byte hops"
    )
