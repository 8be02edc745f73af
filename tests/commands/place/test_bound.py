"""Bounds and optima of the traffic, against every way to place a few arrays."""

from __future__ import annotations

from functools import partial
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from commands.place.machines import chain, chip, hops, machine, walk, weighted
from hypothesis import given, settings
from laws.strategies import randoms

from rramalloc.commands.place.arrange import Masses, arrange, placement_lower_bound
from rramalloc.commands.place.layout import Flows, Layout, Pieces
from rramalloc.commands.place.mesh import Mesh
from rramalloc.commands.place.place import StoredNetwork
from rramalloc.mapping.options import MappingOptions
from rramalloc.search.work import Work
from rramalloc.timing.stage_graph import StageGraph

MESHES = (
    Mesh((1, 3), (1, 1), 1.0),
    Mesh((2, 2), (1, 1), 1.0),
    Mesh((1, 4), (1, 1), 1.0),
    Mesh((1, 2), (1, 2), 2.5),
    Mesh((1, 1), (2, 2), 0.5),
)


def flows_of(stages: int, producer: Any, consumer: Any, pixels: Any, pixel_bytes: Any) -> Flows:
    """Edges of stages whose results take no partial sums."""
    ones = np.ones(len(producer), dtype=np.int64)
    return Flows(producer, consumer, pixels, pixel_bytes, ones, np.ones(stages), np.zeros(stages))


def whole(arrays: Any) -> Masses:
    """Arrays that all give results."""
    return Masses(arrays, arrays, np.zeros(len(arrays)))


def random_flows(random: Random, stages: int) -> Flows:
    """Edges from earlier to later stages, at least one."""
    edges = [(p, c) for c in range(stages) for p in range(c) if random.random() < 0.6] or [(0, 1)]
    return flows_of(
        stages,
        np.array([p for p, _ in edges]),
        np.array([c for _, c in edges]),
        np.array([random.randint(1, 20) for _ in edges]),
        np.array([float(random.choice((1, 2, 8))) for _ in edges]),
    )


def least(flows: Flows, mesh: Mesh, groups: list[tuple[int, int]], room: int) -> float:
    """By every way to put the groups, (stage, arrays) in one tile each, into tiles."""
    sites, total = [tuple(site) for site in mesh.all_sites().tolist()], np.zeros(len(flows.blocks))
    apart = np.array([[hops(mesh, one, other) for other in sites] for one in sites])
    for stage, arrays in groups:
        total[stage] += arrays
    tiles = np.array(list(product(range(mesh.count), repeat=len(groups))))
    held = np.zeros((len(tiles), mesh.count))
    for group, (_, arrays) in enumerate(groups):
        held[np.arange(len(tiles)), tiles[:, group]] += arrays
    tiles = tiles[held.max(axis=1) <= room]
    cost = np.zeros(len(tiles))
    for p, c, sent in zip(flows.producer, flows.consumer, flows.size_bytes, strict=True):
        for one, (producer, n) in enumerate(groups):
            for other, (consumer, m) in enumerate(groups):
                if (producer, consumer) == (p, c):
                    share = sent * n * m / (total[p] * total[c])
                    cost += share * apart[tiles[:, one], tiles[:, other]]
    return float(cost.min(initial=np.inf))


@settings(max_examples=120, deadline=None)
@given(randoms)
def test_no_placement_of_single_arrays_is_below_the_bound(random: Random) -> None:
    mesh, stages = random.choice(MESHES), random.randint(2, 4)
    room = random.randint(1, 3)
    arrays = [random.randint(1, 3) for _ in range(stages)]
    while sum(arrays) > min(6, mesh.count * room):
        arrays[arrays.index(max(arrays))] -= 1
        if 0 in arrays:
            return
    flows = random_flows(random, stages)
    groups = [(stage, 1) for stage, count in enumerate(arrays) for _ in range(count)]
    bound = placement_lower_bound(flows, whole(np.array(arrays)), mesh, room)
    assert bound <= least(flows, mesh, groups, room) + 1e-9


@settings(max_examples=150, deadline=None)
@given(randoms)
def test_no_copies_cut_into_arrays_are_below_the_bound(random: Random) -> None:
    """Partial sums count: every array is a piece of its own, of one or two copies, in any tile with room."""
    rows, columns = [random.randint(1, 3) for _ in range(2)], [random.randint(1, 2) for _ in range(2)]
    copies, room = [random.randint(1, 2), 1], random.randint(1, 3)
    graph = StageGraph.build(chain(rows[1], *columns[1:], side=2))
    hardware, mesh = machine(None, (1, random.choice((1, 2)))), random.choice(MESHES)
    held = StoredNetwork.of_copies(graph, np.array(copies), hardware, MappingOptions()).held
    stage, copy = np.array(
        [(s, c) for s, each in enumerate(held) for c in range(len(each)) for _ in range(each.together)]
    ).T
    if len(stage) > min(6, mesh.count * room):
        return
    flows = Flows.of(graph, hardware)
    pieces = Pieces.of(held, flows, stage, np.ones(len(stage), dtype=np.int64), copy, by_rows=False)
    bound = placement_lower_bound(
        flows, Masses(pieces.column_blocks, pieces.taken, pieces.sum_bytes), mesh, room
    )
    tiles = np.array(list(product(range(mesh.count), repeat=len(stage))))
    tiles = tiles[[np.bincount(way).max() <= room for way in tiles]]
    cost = costs(flows, pieces, mesh, tiles)
    assert bound <= cost.min() + 1e-9
    way = random.randrange(len(tiles))
    assert Layout(pieces, tiles[way], mesh.all_sites()).cost(flows, mesh) == pytest.approx(cost[way])


def costs(flows: Flows, pieces: Pieces, mesh: Mesh, tiles: np.ndarray) -> np.ndarray:
    """Cost of many layouts, a row of tiles each, by walking to all sets of tiles."""
    sites, n = [tuple(site) for site in mesh.all_sites().tolist()], mesh.count
    tree, star = np.zeros((2, n, 2**n))
    for start, some in product(range(n), range(2**n)):
        routes = [set(walk(sites[start], sites[end])) for end in range(n) if some >> end & 1]
        star[start, some] = sum(map(partial(weighted, mesh), routes))
        tree[start, some] = weighted(mesh, set().union(*routes))
    numbers = pieces.units[:, 1].tolist()
    at = {unit: pieces.units[pieces.units[:, 1] == unit] for unit in numbers}
    reads = {unit: np.bitwise_or.reduce(1 << tiles[:, rows[:, 2]], axis=1) for unit, rows in at.items()}
    cost = np.zeros(len(tiles))
    for p, c, sent in zip(flows.producer, flows.consumer, flows.size_bytes, strict=True):
        units = {unit: rows[0, 3] for unit, rows in at.items() if rows[0, 0] == c}
        pairs = pieces.column_blocks[p] * sum(units.values())
        for piece, (unit, weight) in product(np.flatnonzero(pieces.stage == p), units.items()):
            share = sent * pieces.sends[piece] * weight / pairs
            cost += share * tree[tiles[:, piece], reads[unit]]
    sums = pieces.sums
    for net, (target, size) in enumerate(zip(sums.target, sums.size_bytes, strict=True)):
        sources = sums.source[sums.pointer[net] : sums.pointer[net + 1]]
        cost += size * star[tiles[:, target], np.bitwise_or.reduce(1 << tiles[:, sources], axis=1)]
    return cost


@settings(max_examples=25, deadline=None)
@given(randoms)
def test_small_placements_are_optimal(random: Random) -> None:
    """Copies that must keep to their tile: as good as the best of all ways, and the bound says so."""
    demand = [random.randint(1, 3) for _ in range(random.randint(2, 3))]
    copies = [random.randint(1, 2) for _ in demand]
    room, tiles = random.randint(3, 4), random.choice(((1, 3), (2, 2)))
    groups = [(stage, demand[stage]) for stage, count in enumerate(copies) for _ in range(count)]
    graph = StageGraph.build(chain(*demand, side=2))
    hardware = machine(chip(room, tiles), (9, 1))
    flows, mesh = Flows.of(graph, hardware), Mesh(tiles, (1, 1), 1.0)
    best = least(flows, mesh, groups, room)
    if not np.isfinite(best):
        return
    held = StoredNetwork.of_copies(graph, np.array(copies), hardware, MappingOptions()).held
    assert [each.demand for each in held] == demand
    found = arrange(graph, held, hardware, work=40, seed=0)
    assert found.cost == pytest.approx(best)
    assert found.lower_bound <= best * (1 + 1e-9)


def test_a_search_that_is_over_places_without_improvement() -> None:
    """The constructive placement stands as soon as the clock, or the user, has ended the search."""
    graph, hardware = (
        StageGraph.build(chain(3, 1, 2, 3, 1, 2, 3, 1, side=2)),
        machine(chip(4, (3, 3)), (9, 1)),
    )
    copies = np.array([2, 3, 1, 2, 3, 1, 2, 3])
    held = StoredNetwork.of_copies(graph, copies, hardware, MappingOptions()).held
    over = Work()
    over.interrupted = True
    ended, improved = (arrange(graph, held, hardware, work=40, seed=0, stop=stop) for stop in (over, Work()))
    assert improved.cost < improved.constructed == ended.constructed == ended.cost
