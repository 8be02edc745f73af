"""The judge of placements: whether arrays, blocks and tiles are as they must be.

It shares no code with the placer: it counts the blocks of a layer itself, from
docs/sources/model.md 3 and 10.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from collections.abc import Mapping as MappingOf
from itertools import chain, pairwise, product
from math import gcd
from typing import NamedTuple

from rramalloc.commands.place.placement import MAX_PLACED, PlacedArray, PlacedLayer, Placement
from rramalloc.errors import MisplacedError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.tables import Chip, mesh_of
from rramalloc.mapping.mode import NO_BLOCKS, BlocksByName
from rramalloc.network.counts import inputs_of
from rramalloc.network.geometry import Pair
from rramalloc.network.network import Network
from rramalloc.network.node import Conv, ConvTranspose, Stage
from rramalloc.records import brief


def check_placement(
    placement: Placement,
    network: Network,
    copies: MappingOf[str, int],
    where: str = "placement",
    blocks: BlocksByName = NO_BLOCKS,
    kinds: MappingOf[str, str] | None = None,
) -> None:
    """Raise MisplacedError unless the placement holds the copies of every stage of `network`.

    Each physical array is used at most once and exists; each block of each copy is there exactly once, with
    the wordlines and bitlines it takes; copies, or row blocks of copies, keep to one tile where they must.
    copies: by layer name, layers left out have one copy; blocks: layers left out compute their smallest
    block of windows; kinds: of the allocation, where it names them.
    """
    if not network.is_of(placement.network.sha256):
        got = f"it is of {brief(placement.network.name)}, not of {brief(network.name)} as it is given"
        raise MisplacedError(where, "network", f"{got}: place this network's allocation")
    chip = placement.hardware.chip
    if chip is None:
        raise MisplacedError(where, "hardware", "has no [chip], so nothing can be placed on it")
    needs = _needs(placement, network, where)
    for entry, fault in chain(
        _faults_of_places(placement, chip),
        _faults_of_kinds(placement, chip, kinds or {}),
        _faults_of_layers(placement, needs, copies, blocks),
        _faults_of_blocks(placement, needs),
        _faults_of_tiles(placement, chip),
    ):
        raise MisplacedError(where, entry, fault)


Faults = Iterator[tuple[str, str]]  # (entry, what is wrong with it)
At = tuple[int, int, int]  # replica, row block, column block
UsedLines = tuple[int, int, int]  # wordlines and bitlines of an array, and copies that share it


class _Need(NamedTuple):
    """Need of a stage for arrays.

    most: copies of use, one for each block of windows; smallest: the block of a copy without shifted kernels;
    demand: arrays of one copy; arrays: what each must state; planes: of every block; shared: copies share
    them.
    """

    most: int
    smallest: Pair
    block: Pair
    demand: int
    arrays: dict[At, UsedLines]
    planes: int


def _needs(placement: Placement, network: Network, where: str) -> dict[str, _Need]:
    """Return the need of every stage that the options do not leave to the host."""
    layers = {layer.name: layer for layer in placement.layers}
    return {
        stage.name: _need(network, stage, placement, layers.get(stage.name), where)
        for stage in placement.options.timed_stages(network)
    }


def _need(
    network: Network, stage: Stage, placement: Placement, layer: PlacedLayer | None, where: str
) -> _Need:
    """Return the wordlines and bitlines of every array.

    Source: docs/sources/model.md 3 and 10, docs/sources/companions.md 3.
    """
    hardware, mapping = _kind_of(placement, layer, stage, where), placement.options.mapping
    wordlines, bitlines = hardware.crossbar.wordlines, hardware.crossbar.bitlines
    groups = 1 if hardware.dense_groups else stage.groups
    smallest = stage.stride if isinstance(stage, ConvTranspose) else (1, 1)
    fold, block, copies = (1, 1), smallest, 1
    if layer is not None:
        fold, block, copies = layer.fold or fold, layer.block or block, layer.copies
    most = _blocks_of_windows(network, stage, smallest, block, where)
    if hardware.processor is not None:
        read = _pixels_read(stage, 0, block[0]) * _pixels_read(stage, 1, block[1])
        lines = read * inputs_of(network, stage), block[0] * block[1] * stage.outputs
        units = {(copy, 0, 0): (*lines, 1) for copy in range(copies)}
        return _Need(most, smallest, block, 1, units, 1)
    high, wide = (_pixels_read(stage, axis, block[axis]) for axis in (0, 1))
    kernel = -(-high // fold[0]) * -(-wide // fold[1])
    channels = inputs_of(network, stage) // groups * fold[0] * fold[1]
    bits = hardware.precision.weight_bits if stage.weight_bits is None else stage.weight_bits
    lie_in = {"columns": 1, "rows": 1, "arrays": 1, "cells": 1}
    lie_in[hardware.crossbar.slices or "columns"] *= -(-bits // hardware.crossbar.cell_bits)
    if hardware.precision.signed == "differential":
        lie_in[hardware.crossbar.polarities or "columns"] *= 2
    columns, planes = block[0] * block[1] * stage.outputs // groups * lie_in["columns"], lie_in["arrays"]
    channels *= lie_in["rows"]
    segments, rows, most_rows = 1, kernel * channels, wordlines
    if mapping == "kernel_split":
        segments, rows = kernel, channels
    elif mapping == "whole_kernel" and rows > wordlines:
        most_rows = wordlines // kernel * kernel or wordlines
    room = min(wordlines // rows, bitlines // columns) if rows <= most_rows else 0
    shared, together = mapping == "sdk" and room > 0, room if room and groups > 1 else 1
    if shared:  # groups of all copies, one after the other
        demand, total = -(-groups // room), -(-copies * groups // room)
    else:
        demand = -(-groups // together) * -(-rows // most_rows) * segments * -(-columns // bitlines)
        total = copies * demand
    if total * planes > MAX_PLACED:
        reason = f"its copies take more than the {MAX_PLACED} arrays that a placement can have"
        raise MisplacedError("placement", f"layer {brief(stage.name)}", reason)
    arrays = dict[At, UsedLines]()
    for number in range(total if shared else 0):
        last = min((number + 1) * room, copies * groups) - 1
        held, replica = last - number * room + 1, number * room // groups
        arrays[replica, number, number] = held * rows, held * columns, last // groups - replica + 1
    if not shared:
        row_cuts, column_cuts = _lengths(rows, most_rows) * segments, _lengths(columns, bitlines)
        for replica, (unit, first) in product(range(copies), enumerate(range(0, groups, together))):
            here = min(together, groups - first)
            for (i, high), (j, wide) in product(enumerate(row_cuts), enumerate(column_cuts)):
                at = replica, unit * len(row_cuts) + i, unit * len(column_cuts) + j
                arrays[at] = here * high, here * wide, 1
    return _Need(most, smallest, block, demand * planes, arrays, planes)


def _kind_of(placement: Placement, layer: PlacedLayer | None, stage: Stage, where: str) -> Hardware:
    """Return the hardware with the arrays of the kind of a layer. Raises MisplacedError for none."""
    hardware = placement.hardware
    if hardware.kinds is None:
        return hardware
    kinds = {kind.name: own for kind, own in zip(hardware.kinds, hardware.each_kind, strict=True)}
    if layer is None or layer.kind not in kinds:
        raise MisplacedError(where, f"layer {brief(stage.name)}", f"needs a kind: {', '.join(kinds)}")
    return kinds[layer.kind]


def _pixels_read(stage: Stage, axis: int, windows: int) -> int:
    """Return the input pixels that `windows` neighbouring windows read along an axis, counted without listing
    them.

    A transposed convolution starts a window of its kernel at each stride-th output pixel, and kernel
    positions of equal floor(k * dilation / stride) meet the same pixel in it.
    """
    kernel, stride, dilation = stage.kernel[axis], stage.stride[axis], stage.dilation[axis]
    if isinstance(stage, ConvTranspose):
        first = sorted({position * dilation // stride for position in range(kernel)})
        shifts = windows // stride
        return shifts + sum(min(shifts, after - before) for before, after in pairwise(first))
    common = gcd(stride, dilation)
    apart = min(windows, dilation // common)
    return apart * kernel + (windows - apart) * min(kernel, stride // common)


def _blocks_of_windows(network: Network, stage: Stage, smallest: Pair, block: Pair, where: str) -> int:
    """Return the number of blocks that cover the output of a stage. Raises MisplacedError for a block that it
    cannot have."""
    shape = network.shapes[stage.name]
    count = shape.images
    for axis, extent in enumerate((shape.height, shape.width)):
        lead, most = 0, extent if isinstance(stage, Conv) else 1
        if isinstance(stage, ConvTranspose):  # its blocks are aligned to the stride
            lead = stage.pads[axis] % smallest[axis]
            most = -(-(extent + lead) // smallest[axis]) * smallest[axis]
        if block[axis] % smallest[axis] or block[axis] > most:
            got = f"block {_shown(block)} is none that it can have"
            raise MisplacedError(where, f"layer {brief(stage.name)}", got)
        count *= -(-(extent + lead) // block[axis])
    return count


def _lengths(whole: int, most: int) -> list[int]:
    return [min(most, whole - first) for first in range(0, whole, most)]


def _faults_of_places(placement: Placement, chip: Chip) -> Faults:
    """Yield physical arrays that do not exist, or are used twice."""
    seen: dict[tuple[int, ...], int] = {}
    per_tile = {
        kind.name: chip.arrays_per_tile if kind.chip is None else kind.chip.arrays_per_tile
        for kind in placement.hardware.kinds or ()
    }
    most = {layer.name: per_tile[layer.kind] for layer in placement.layers if layer.kind in per_tile}
    for number, array in enumerate(placement.arrays):
        places: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...] = (
            ("chip", array.chip, mesh_of(chip.chips)),
            ("tile", array.tile, mesh_of(chip.tiles)),
            ("index", (array.index,), (most.get(array.layer, chip.arrays_per_tile),)),
        )
        for name, at, there in places:
            if any(part >= count for part, count in zip(at, there, strict=True)):
                size = " x ".join(map(str, there))
                yield f"arrays[{number}]", f"{name} {_shown(at)} is outside the {size} there are"
        for (name, at, there), count in zip(places, (chip.chip_count, chip.tiles_per_chip), strict=False):
            if at[0] * there[-1] + at[-1] >= count:
                yield f"arrays[{number}]", f"{name} {_shown(at)} is an empty site: there are {count}"
        first = seen.setdefault((*array.chip, *array.tile, array.index), number)
        if first != number:
            place = f"{_at(array)}, index {array.index}"
            yield f"arrays[{number}]", f"is the physical array of arrays[{first}] again ({place})"


def _faults_of_kinds(placement: Placement, chip: Chip, wanted: MappingOf[str, str]) -> Faults:
    """Yield layers of another kind than in the allocation, and arrays in a tile of another kind than theirs.

    The tiles of the kinds follow each other in raster order.
    """
    for layer in placement.layers:
        if wanted.get(layer.name, layer.kind) != layer.kind:
            words = f"kind is {layer.kind}, the allocation has {wanted[layer.name]}"
            yield f"layer {brief(layer.name)}", words
    kinds, first, wide = placement.hardware.kinds, 0, mesh_of(chip.tiles)[1]
    if kinds is None:
        return
    tiles, of_layer = dict[str | None, range](), {layer.name: layer.kind for layer in placement.layers}
    for kind in kinds:
        tiles[kind.name] = range(first, first + (kind.tiles or 0))
        first += kind.tiles or 0
    for number, array in enumerate(placement.arrays):
        kind_of_layer = of_layer.get(array.layer)
        if array.tile[0] * wide + array.tile[1] not in tiles.get(kind_of_layer, range(0)):
            words = f"is in {_at(array)}, which has no arrays of the kind of {brief(array.layer)}"
            yield f"arrays[{number}]", f"{words} ({kind_of_layer})"


def _faults_of_layers(
    placement: Placement, needs: MappingOf[str, _Need], copies: MappingOf[str, int], blocks: BlocksByName
) -> Faults:
    """Yield where the layers listed are not the stages, with the copies of the allocation."""
    layers = {layer.name: layer for layer in placement.layers}
    for name in (*layers, *copies, *blocks):
        if name not in needs:
            yield f"layer {brief(name)}", "is no stage of the network"
    if len(layers) < len(placement.layers):
        yield "layers", "a layer stands twice among them"
    for name, need in needs.items():
        entry, count = f"layer {brief(name)}", copies.get(name, 1)
        if name not in layers:
            yield entry, "is missing among the layers"
        layer = layers[name]
        for what, got, expected in (
            ("copies", layer.copies, count),
            ("block", need.block, blocks.get(name, need.smallest)),
            ("arrays_per_copy", layer.arrays_per_copy, need.demand),
        ):
            if got != expected:
                yield entry, f"{what} is {got}, the allocation needs {expected}"
        if layer.block is not None and placement.options.mapping != "sdk":
            yield entry, f"has a block with mapping {placement.options.mapping!r}"
        if count > need.most:
            unit = "windows" if need.block == (1, 1) else "blocks of windows"
            yield entry, f"has {count} copies for {need.most} {unit}"


def _faults_of_blocks(placement: Placement, needs: MappingOf[str, _Need]) -> Faults:
    """Yield blocks of copies that are missing, present twice, or take other lines than they need."""
    seen, copies_of = dict[tuple[str, int, int, int, int], int](), placement.copies
    for number, array in enumerate(placement.arrays):
        entry, layer = f"arrays[{number}]", brief(array.layer)
        if array.layer not in needs:
            yield entry, f"layer {layer} is no stage of the network"
        need, copies = needs[array.layer], copies_of[array.layer]
        if array.replica >= copies:
            yield entry, f"copy {array.replica} of {layer}, it has {copies}"
        size = need.arrays.get((array.replica, array.row_block, array.column_block))
        if size is None:
            yield entry, f"a copy of {layer} has no block ({array.row_block}, {array.column_block})"
        rows, columns, shared_by = size or (0, 0, 0)
        if (array.rows, array.columns) != (rows, columns):
            lines = f"{array.rows} x {array.columns} lines"
            yield entry, f"takes {lines}, its block takes {rows} x {columns}"
        if array.copies != shared_by:
            yield entry, f"is shared by {array.copies} copies, its block is of {shared_by}"
        if array.plane >= need.planes:
            yield entry, f"holds plane {array.plane} of a block, there are {need.planes}"
        key = (array.layer, array.replica, array.row_block, array.column_block, array.plane)
        if seen.setdefault(key, number) != number:
            yield entry, f"holds the block of arrays[{seen[key]}] again"
    for name, need in needs.items():
        for (replica, row_block, column_block), plane in product(need.arrays, range(need.planes)):
            if (name, replica, row_block, column_block, plane) not in seen:
                block = f"block [{row_block}, {column_block}] of copy {replica}"
                of = f"plane {plane} of " if need.planes > 1 else ""
                yield f"layer {brief(name)}", f"{of}{block} is on no array"


def _faults_of_tiles(placement: Placement, chip: Chip) -> Faults:
    """Yield row blocks that leave a tile they must keep to, layers in a tile of another, and tiles listed
    that are not those in use.
    """
    arrays = placement.arrays
    in_blocks = placement.hardware.fills_first_fit
    owner, used = dict[tuple[int, ...], str](), Counter[tuple[int, ...]]()
    blocks = dict[tuple[str, int, int], int]()
    for number, array in enumerate(arrays):
        entry, tile = f"arrays[{number}]", (*array.chip, *array.tile)
        used[tile] += 1
        if chip.sharing == "layer" and owner.setdefault(tile, array.layer) != array.layer:
            yield entry, f'is in {_at(array)} with arrays of {brief(owner[tile])}, but sharing = "layer"'
        other = arrays[blocks.setdefault((array.layer, array.replica, array.row_block), number)]
        if in_blocks and tile != (*other.chip, *other.tile):
            of = f"row block {array.row_block} of copy {array.replica} of {brief(array.layer)}"
            places = f"in {_at(array)} and in {_at(other)}"
            yield entry, f'{of} is {places}, but counting.row_blocks = "first_fit"'
    for number, listed in enumerate(placement.tiles):
        if used.pop((*listed.chip, *listed.tile), 0) != listed.arrays:
            yield f"tiles[{number}]", f"does not hold the {listed.arrays} arrays told"
    if used:
        yield "tiles", f"{len(used)} tiles in use are not told"


def _at(array: PlacedArray) -> str:
    return f"tile {_shown(array.tile)} of chip {_shown(array.chip)}"


def _shown(place: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, place)) + "]"
