"""Small networks and chips, and what a placement costs by walking every pair of arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from random import Random
from typing import Any

import numpy as np

from rramalloc.commands.place.layout import Flows, Layout, Pieces
from rramalloc.commands.place.mesh import Mesh
from rramalloc.commands.place.place import StoredNetwork
from rramalloc.commands.place.placement import PlacedArray, Placement
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.tables import MAX_LINES, Chip, Crossbar, Memory, Precision, Timing
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.network import Network
from rramalloc.timing.stage_graph import StageGraph

Place = tuple[int, int, int, int]
SMALL_TOML = """
name = "small"
source = "made for a test"
[crossbar]
wordlines = 32
bitlines = 16
cell_bits = 8
[precision]
weight_bits = 8
input_bits = 8
output_bits = 8
signed = "offset"
[timing]
step_ns = 100.0
[chip]
arrays_per_tile = 8
tiles = [3, 3]
chips = [1, 1]
hop_ns_tile = 1.0
bandwidth_tile_gb_s = 2.0
"""


def chip(
    arrays: int,
    tiles: tuple[int, int],
    chips: tuple[int, int] = (1, 1),
    **hops: Any,
) -> Chip:
    return Chip(arrays_per_tile=arrays, tiles=tiles, chips=chips, **hops)


def machine(
    of: Chip | None, lines: tuple[int, int] = (128, 128), timing: Timing | None = None, **more: Any
) -> Hardware:
    """One weight a cell, one byte a value."""
    return Hardware(
        name="small",
        source="made for a test",
        crossbar=Crossbar(wordlines=lines[0], bitlines=lines[1], cell_bits=8),
        precision=Precision(weight_bits=8, input_bits=8, output_bits=8, signed="offset"),
        timing=timing,
        chip=of,
        **more,
    )


def memory(bandwidth_gb_s: float) -> Memory:
    return Memory(bandwidth_gb_s=bandwidth_gb_s, reuse="none", scope="per_layer")


def chain(*channels: int, side: int = 4, kernel: int = 1) -> Network:
    """Convolutions c1, c2, ... with these output channels, on `side` x `side` pixels of one channel."""
    nodes: list[dict[str, Any]] = [{"name": "input", "op": "input", "shape": [1, side, side]}]
    for number, outputs in enumerate(channels, 1):
        nodes.append(
            {
                "name": f"c{number}",
                "op": "conv",
                "inputs": [nodes[-1]["name"]],
                "out_channels": outputs,
                "kernel": kernel,
                "pads": kernel // 2,
            }
        )
    return Network.build("chain", nodes)


def place_of(array: PlacedArray) -> Place:
    return (*array.chip, *array.tile)


def walk(start: Place, end: Place) -> Iterable[tuple[Any, tuple[int, int], tuple[int, int]]]:
    """Links from tile to tile: along the row, then the column; between chips by way of tile (0, 0)."""
    if start[:2] == end[:2]:
        yield from _along(start[:2], start[2:], end[2:])
        return
    yield from _along(start[:2], start[2:], (0, 0))
    yield from _along(None, start[:2], end[:2])
    yield from _along(end[:2], (0, 0), end[2:])


def _along(key: Any, at: tuple[int, int], end: tuple[int, int]) -> Iterable[Any]:
    row, column = at
    while (row, column) != end:
        before = (row, column)
        if column != end[1]:
            column += 1 if end[1] > column else -1
        else:
            row += 1 if end[0] > row else -1
        yield key, before, (row, column)


def weighted(mesh: Mesh, links: Iterable[Any]) -> float:
    """Number of links, those between chips weighted."""
    return sum(mesh.chip_hop if key is None else 1.0 for key, *_ in links)


def hops(mesh: Mesh, one: Place, other: Place) -> float:
    """Weighted hops between two tiles."""
    return weighted(mesh, walk(one, other))


def sums_by_walking(arrays: Iterable[PlacedArray]) -> list[tuple[Place, Place, int]]:
    """Partial sums as (from, to, columns): a tile adds up its own, those of a column block go to its last."""
    columns: dict[tuple[int, int], list[PlacedArray]] = defaultdict(list)
    for array in arrays:
        columns[array.replica, array.column_block].append(array)
    sums = []
    for blocks in columns.values():
        last = max(blocks, key=lambda array: array.row_block)
        starts = {place_of(array) for array in blocks} - {place_of(last)}
        sums += [(start, place_of(last), last.columns) for start in starts]
    return sums


def sends(arrays: Iterable[PlacedArray]) -> list[Place]:
    """Where results leave: the array of the last row block of every column block."""
    last: dict[tuple[int, int], PlacedArray] = {}
    for array in arrays:
        key = array.replica, array.column_block
        if key not in last or array.row_block > last[key].row_block:
            last[key] = array
    return [place_of(array) for array in last.values()]


def units(arrays: Iterable[PlacedArray]) -> list[set[Place]]:
    """Tiles of every row block of every copy: its column blocks read the same inputs."""
    found: dict[tuple[int, int], set[Place]] = defaultdict(set)
    for array in arrays:
        found[array.replica, array.row_block].add(place_of(array))
    return list(found.values())


def loads_by_walking(placement: Placement, graph: StageGraph) -> dict[Any, float]:
    """Bytes over every link, from every array that gives to every row block; one byte a column and window."""
    arrays = defaultdict(list)
    for array in placement.arrays:
        arrays[array.layer].append(array)
    loads: dict[Any, float] = defaultdict(float)
    for flow in placement.flows:
        if flow.producer != flow.consumer:
            starts, ends = sends(arrays[flow.producer]), units(arrays[flow.consumer])
            for start in starts:
                for unit in ends:
                    for link in {link for end in unit for link in walk(start, end)}:
                        loads[link] += flow.size_bytes / (len(starts) * len(ends))
    for name, windows in zip(graph.names, graph.windows.tolist(), strict=True):
        for start, to, columns in sums_by_walking(arrays[name]):
            for link in walk(start, to):
                loads[link] += columns * windows / placement.copies[name]
    return loads


def laid_out(
    graph: StageGraph, hardware: Hardware, copies: list[int], sites: Any, *rows: tuple[int, int, int, int]
) -> Layout:
    """Pieces in tiles; rows: (stage, copy, arrays, site)."""
    held = StoredNetwork.of_copies(graph, np.array(copies), hardware, MappingOptions()).held
    stage, copy, arrays, site = np.array(rows, dtype=np.int64).T
    cut = stage, arrays, copy
    pieces = Pieces.of(held, Flows.of(graph, hardware), cut, [MAX_LINES] * len(held), {})
    tiles = np.array(sites, dtype=np.int64)
    one_kind = np.zeros(len(tiles), dtype=np.int64)
    return Layout(pieces, site, tiles, chip(4, (2, 4)), one_kind, np.full(len(tiles), 4))


def random_chip(random: Random) -> Chip:
    """Up to about a hundred arrays in all."""
    tiles = random.choice(((1, 1), (1, 3), (2, 2), (2, 3), (6, 1), (3, 3)))
    chips = random.choice(((1, 1), (1, 1), (1, 2), (2, 2)))
    hops = random.choice(({}, {"hop_ns_tile": 1.0, "hop_ns_chip": random.choice((3.0, 2.5, 10.0))}))
    return chip(random.randint(1, 9), tiles, chips, **hops)
