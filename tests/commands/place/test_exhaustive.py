"""Small placements against all of them: the time with transfers first, then byte hops."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import numpy as np
from commands.place.machines import chain, chip, machine, walk
from laws.strategies import by_name

import rramalloc
from rramalloc.commands.place.arrange import arrange
from rramalloc.commands.place.mesh import Mesh
from rramalloc.commands.place.place import StoredNetwork
from rramalloc.hardware.tables import Timing
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.network import Network
from rramalloc.search.work import Work
from rramalloc.timing.stage_graph import StageGraph

MESH = Mesh((2, 3), (1, 1), 1.0, 6, 1)
SITES: list[Any] = [tuple(site) for site in MESH.all_sites().tolist()]
WAYS = [[list(walk(start, end)) for end in SITES] for start in SITES]
LINKS = sorted({link for row in WAYS for way in row for link in way}, key=str)
USED = np.array([[[link in way for link in LINKS] for way in row] for row in WAYS])
HOPS = USED.sum(axis=2)
HOP_NS, GB_S, STEP_NS = 1.0, 2.0, 12.0
PIXELS = 16
COLUMNS = 2
LINES = (16, COLUMNS)


def best_of_all(
    network: Network, copies: list[int], demand: list[int], room: int
) -> tuple[float, float, float]:
    """Step [ns] and byte hops of the best way to put whole copies into tiles, and the least byte hops of all.

    A copy yields a pixel of a byte a channel in a step, and sends an equal part of it to every copy of the
    next stage.
    """
    stage = np.repeat(np.arange(len(copies)), copies)
    tiles = np.array(list(product(range(len(SITES)), repeat=len(stage))))
    held = np.zeros((len(tiles), len(SITES)), dtype=np.int64)
    for piece, s in enumerate(stage.tolist()):
        held[np.arange(len(tiles)), tiles[:, piece]] += demand[s]
    tiles = tiles[held.max(axis=1) <= room]
    if not len(tiles):
        return np.inf, np.inf, np.inf
    hops, loads = np.zeros(len(tiles)), np.zeros((len(tiles), len(LINKS)))
    farthest = np.zeros((len(copies), len(tiles)))
    used = np.zeros((len(copies), len(tiles), len(LINKS)), dtype=bool)
    for one, other in product(range(len(stage)), repeat=2):
        p = stage[one]
        if stage[other] != p + 1:
            continue
        channels = network.shapes[network.stages[p].name].channels
        way = tiles[:, one], tiles[:, other]
        hops += HOPS[way] * channels * PIXELS / (copies[p] * copies[p + 1])
        loads += USED[way] * channels / copies[p + 1]
        farthest[p] = np.maximum(farthest[p], HOPS[way])
        used[p] |= USED[way]
    queue = np.where(used, loads / GB_S, 0.0).max(axis=2)
    step_ns = np.maximum(STEP_NS, (farthest * HOP_NS + queue).max(axis=0))
    order = np.lexsort((hops, step_ns.round(9)))
    return float(step_ns[order[0]]), float(hops[order[0]]), float(hops.min())


def drawn(random: Random, pieces: int) -> Any:
    """A chain whose copies are that many pieces at most, and tiles that hold all of them, if barely."""
    demand = [random.randint(1, 3) for _ in range(random.randint(2, 4))]
    copies = [1] * len(demand)
    while sum(copies) < pieces and random.random() < 0.85:
        copies[random.randrange(len(copies))] += 1
    room = max(max(demand), -(-sum(map(int.__mul__, demand, copies)) // len(SITES)) + random.randint(0, 2))
    return demand, copies, room


def shares_of_the_best(seeds: range, pieces: int) -> tuple[int, int]:
    """Of how many the search finds the best of all: with times of links, and without."""
    timed = untimed = 0
    for seed in seeds:
        demand, copies, room = drawn(Random(seed), pieces)
        network = chain(*(COLUMNS * arrays for arrays in demand), side=4)
        step_ns, timed_hops, least_hops = best_of_all(network, copies, demand, room)
        board = chip(room, (2, 3), hop_ns_tile=HOP_NS, bandwidth_tile_gb_s=GB_S)
        hardware = machine(board, LINES, Timing(step_ns=STEP_NS))
        names = [node.name for node in network.stages]
        given = dict(zip(names, copies, strict=True))
        placed = rramalloc.place(network, given, hardware=hardware)
        assert placed.latency_ns is not None
        assert placed.latency_ns_alone is not None
        factor, best = placed.latency_ns / placed.latency_ns_alone, step_ns / STEP_NS
        assert (placed.status == "optimal") == (factor <= 1 + 1e-9)
        hops = placed.traffic.cost
        timed += factor < best - 1e-9 or (factor <= best + 1e-9 and hops <= timed_hops * (1 + 1e-9))
        plain = rramalloc.place(network, given, hardware=machine(chip(room, (2, 3)), LINES))
        untimed += plain.traffic.cost <= least_hops * (1 + 1e-9)
    return timed, untimed


def test_nearly_all_small_placements_are_the_best_of_all() -> None:
    timed, untimed = shares_of_the_best(range(10), 6)
    assert timed >= 10
    assert untimed >= 10


def test_a_search_that_is_over_places_without_improvement() -> None:
    """The constructive placement stands as soon as the clock, or the user, has ended the search."""
    graph = StageGraph.build(chain(3, 1, 2, 3, 1, 2, 3, 1, side=2))
    hardware, copies = machine(chip(4, (3, 3)), (9, 1)), np.array([2, 3, 1, 2, 3, 1, 2, 3])
    held = StoredNetwork.of_copies(graph, copies, hardware, MappingOptions()).held
    over = Work()
    over.interrupted = True
    ended, improved = (arrange(graph, held, hardware, work=40, seed=0, stop=stop) for stop in (over, Work()))
    assert improved.cost < improved.constructed == ended.constructed == ended.cost


def test_the_work_asked_for_is_spent() -> None:
    """And what is spent by default stands in the file."""
    network, hardware = chain(3, 5, 4), machine(chip(4, (2, 3)), (16, 16))
    given = by_name(StageGraph.build(network), np.array([2, 2, 1]))
    assert rramalloc.place(network, given, hardware=hardware, work=70).options.work == 70
    assert rramalloc.place(network, given, hardware=hardware).options.work > 0
