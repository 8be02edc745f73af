"""The judge of placements: whether arrays, blocks and tiles are as they must be.

It shares no code with what places: the blocks that a layer needs are counted anew from
docs/sources/model.md 3.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import dataclass

from rramalloc.choices import Mapping
from rramalloc.errors import MisplacedError
from rramalloc.hardware.hardware import Hardware
from rramalloc.network.network import Network
from rramalloc.network.node import ConvTranspose, Linear, Stage
from rramalloc.placement.placement import MAX_PLACED, PlacedArray, Placement
from rramalloc.records import brief


def check(
    placement: Placement, network: Network, replication: MappingOf[str, int], where: str = "placement"
) -> None:
    """Raise MisplacedError unless the placement holds `replication` copies of every stage of `network`.

    Each physical array is used at most once and exists; each block of each copy is there exactly once, with
    the wordlines and bitlines it takes; copies, or row blocks of copies, keep to one tile where they must.
    replication: by layer name, layers left out have one copy.
    """
    if placement.network.sha256 != network.sha256:
        got = f"it is of {brief(placement.network.name)}, not of {brief(network.name)} as it is given"
        raise MisplacedError(where, "network", f"{got}: place this network's allocation")
    needs = _needs(placement, network)
    _check_places(placement, where)
    _check_layers(placement, needs, replication, where)
    _check_blocks(placement, needs, where)
    _check_tiles(placement, where)


@dataclass(frozen=True, slots=True)
class _Need:
    """What a copy of a stage takes. sizes: (rows, columns) of every block by (row_block, column_block)."""

    windows: int
    sizes: dict[tuple[int, int], tuple[int, int]]


def _needs(placement: Placement, network: Network) -> dict[str, _Need]:
    """The need of every stage: convolutions, and linear layers on a grid or with fc "crossbar"."""
    needs, folds = {}, {layer.name: layer.fold for layer in placement.layers}
    for node in network.nodes:
        if isinstance(node, Stage):
            pixels = network.shapes[node.name].pixels
            on_host = isinstance(node, Linear) and pixels == 1 and placement.options.fc == "host"
            if not on_host or network.only_classifiers:
                fold, mapping = folds.get(node.name) or (1, 1), placement.options.mapping
                sizes = _sizes(network, node, placement.hardware, mapping, fold)
                needs[node.name] = _Need(pixels, sizes)
    return needs


def _sizes(
    network: Network, stage: Stage, hardware: Hardware, mapping: Mapping, fold: tuple[int, int]
) -> dict[tuple[int, int], tuple[int, int]]:
    """Wordlines and bitlines of every block of one copy.

    Source: docs/sources/model.md 3, docs/sources/companions.md 3.
    """
    wordlines, bitlines = hardware.crossbar.wordlines, hardware.crossbar.bitlines
    groups = 1 if isinstance(stage, Linear) or hardware.dense_groups else stage.groups
    high, wide = (1, 1) if isinstance(stage, Linear) else stage.kernel
    block = 1
    if isinstance(stage, ConvTranspose):  # input pixels of a block of stride x stride output pixels
        (high, wide), block = stage.block_reach, stage.stride[0] * stage.stride[1]
    kernel = -(-high // fold[0]) * -(-wide // fold[1])
    channels = network.input_shape(stage).channels // groups * fold[0] * fold[1]
    slices = -(-hardware.precision.weight_bits // hardware.crossbar.cell_bits)
    if hardware.precision.signed == "differential":
        slices *= 2
    columns = block * network.shapes[stage.name].channels // groups * slices
    if mapping == "kernel_split":
        segments, rows, most_rows = kernel, channels, wordlines
    else:
        segments, rows, most_rows = 1, kernel * channels, wordlines
        if mapping == "whole_kernel" and rows > wordlines:
            most_rows = wordlines // kernel * kernel
    if kernel * channels * columns * groups > MAX_PLACED * wordlines * bitlines:
        reason = f"a copy takes more than the {MAX_PLACED} arrays that a placement can have"
        raise MisplacedError("placement", f"layer {brief(stage.name)}", reason)
    row_cuts, column_cuts = _lengths(rows, most_rows), _lengths(columns, bitlines)
    share = 1
    if groups > 1 and len(row_cuts) == len(column_cuts) == 1:
        while (share + 1) * rows <= wordlines and (share + 1) * columns <= bitlines:
            share += 1
    sizes = {}
    for first in range(0, groups, share):
        here, unit = min(share, groups - first), first // share
        for row, used_rows in enumerate(row_cuts * segments):
            for column, used_columns in enumerate(column_cuts):
                key = (unit * segments * len(row_cuts) + row, unit * len(column_cuts) + column)
                sizes[key] = (used_rows * here, used_columns * here)
    return sizes


def _lengths(whole: int, most: int) -> list[int]:
    lengths = []
    while whole > 0:
        lengths.append(min(whole, most))
        whole -= most
    return lengths


def _check_places(placement: Placement, where: str) -> None:
    """Every physical array exists, and is used at most once."""
    chip = placement.hardware.chip
    if chip is None:
        raise MisplacedError(where, "hardware", "has no [chip], so nothing can be placed on it")
    seen: dict[tuple[int, ...], int] = {}
    for number, array in enumerate(placement.arrays):
        entry = f"arrays[{number}]"
        places: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...] = (
            ("chip", array.chip, chip.chips),
            ("tile", array.tile, chip.tiles),
            ("index", (array.index,), (chip.arrays_per_tile,)),
        )
        for name, at, there in places:
            if any(part >= count for part, count in zip(at, there, strict=True)):
                reason = f"{name} {_shown(at)} is outside the {_size(there)} there are"
                raise MisplacedError(where, entry, reason)
        place = (*array.chip, *array.tile, array.index)
        if place in seen:
            got = f"{_at(array)}, index {array.index}"
            reason = f"is the physical array of arrays[{seen[place]}] again ({got})"
            raise MisplacedError(where, entry, reason)
        seen[place] = number


def _check_layers(
    placement: Placement, needs: MappingOf[str, _Need], replication: MappingOf[str, int], where: str
) -> None:
    """The layers told are the stages, as often as the allocation says."""
    told = {layer.name: layer for layer in placement.layers}
    for name in (*told, *replication):
        if name not in needs:
            raise MisplacedError(where, f"layer {brief(name)}", "is no stage of the network")
    if len(told) < len(placement.layers):
        raise MisplacedError(where, "layers", "a layer stands twice among them")
    for name, need in needs.items():
        entry, copies = f"layer {brief(name)}", replication.get(name, 1)
        if name not in told:
            raise MisplacedError(where, entry, "is missing among the layers")
        layer = told[name]
        for what, got, wanted in (
            ("replication", layer.replication, copies),
            ("demand", layer.demand, len(need.sizes)),
        ):
            if got != wanted:
                raise MisplacedError(where, entry, f"{what} is {got}, the allocation needs {wanted}")
        if copies > need.windows:
            raise MisplacedError(where, entry, f"has {copies} copies for {need.windows} windows")


def _check_blocks(placement: Placement, needs: MappingOf[str, _Need], where: str) -> None:
    """Every block of every copy is there once, and takes the lines it takes."""
    copies = placement.replication
    seen: dict[tuple[str, int, int, int], int] = {}
    for number, array in enumerate(placement.arrays):
        entry = f"arrays[{number}]"
        if array.layer not in needs:
            raise MisplacedError(where, entry, f"layer {brief(array.layer)} is no stage of the network")
        if array.replica >= copies[array.layer]:
            reason = f"replica {array.replica} of {brief(array.layer)}, it has {copies[array.layer]}"
            raise MisplacedError(where, entry, reason)
        size = needs[array.layer].sizes.get((array.row_block, array.column_block))
        if size is None:
            reason = f"a copy of {brief(array.layer)} has no block ({array.row_block}, {array.column_block})"
            raise MisplacedError(where, entry, reason)
        if (array.rows, array.columns) != size:
            got = f"takes {array.rows} x {array.columns} lines"
            raise MisplacedError(where, entry, f"{got}, its block takes {size[0]} x {size[1]}")
        key = (array.layer, array.replica, array.row_block, array.column_block)
        if key in seen:
            raise MisplacedError(where, entry, f"holds the block of arrays[{seen[key]}] again")
        seen[key] = number
    for name, need in needs.items():
        for replica in range(copies[name]):
            for block in need.sizes:
                if (name, replica, *block) not in seen:
                    reason = f"block {_shown(block)} of replica {replica} is on no array"
                    raise MisplacedError(where, f"layer {brief(name)}", reason)


def _check_tiles(placement: Placement, where: str) -> None:
    """Copies, or their row blocks, keep to one tile where they must; the tiles listed are those in use."""
    chip, counting = placement.hardware.chip, placement.hardware.counting
    in_blocks = counting is not None and counting.row_blocks == "first_fit"
    first: dict[tuple[str, int], int] = {}
    blocks: dict[tuple[str, int, int], int] = {}
    used: dict[tuple[int, ...], int] = {}
    for number, array in enumerate(placement.arrays):
        tile = (*array.chip, *array.tile)
        used[tile] = used.get(tile, 0) + 1
        other = placement.arrays[first.setdefault((array.layer, array.replica), number)]
        if chip is not None and not chip.straddle and tile != (*other.chip, *other.tile):
            reason = (
                f"replica {array.replica} of {brief(array.layer)} is in {_at(array)} and in {_at(other)}, "
                f"but straddle = false"
            )
            raise MisplacedError(where, f"arrays[{number}]", reason)
        other = placement.arrays[blocks.setdefault((array.layer, array.replica, array.row_block), number)]
        if in_blocks and tile != (*other.chip, *other.tile):
            reason = (
                f"row block {array.row_block} of replica {array.replica} of {brief(array.layer)} is in "
                f'{_at(array)} and in {_at(other)}, but counting.row_blocks = "first_fit"'
            )
            raise MisplacedError(where, f"arrays[{number}]", reason)
    for number, told in enumerate(placement.tiles):
        if used.pop((*told.chip, *told.tile), 0) != told.arrays:
            raise MisplacedError(where, f"tiles[{number}]", f"does not hold the {told.arrays} arrays told")
    if used:
        raise MisplacedError(where, "tiles", f"{len(used)} tiles in use are not told")


def _at(array: PlacedArray) -> str:
    return f"tile {_shown(array.tile)} of chip {_shown(array.chip)}"


def _shown(place: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, place)) + "]"


def _size(counts: tuple[int, ...]) -> str:
    return " x ".join(map(str, counts))
