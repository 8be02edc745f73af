"""The traffic of placements: worked by hand, and against walking every pair of arrays."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from commands.place.machines import chain, laid_out, loads_by_walking, machine, random_chip
from hypothesis import given, settings
from laws.strategies import by_name, random_copies, random_network, randoms

from rramalloc.commands.place.annealing import FIRST_THRESHOLD, Search, anneal
from rramalloc.commands.place.arrange import arrange
from rramalloc.commands.place.layout import Layout
from rramalloc.commands.place.links import LinkCaps, distinct
from rramalloc.commands.place.mesh import Mesh
from rramalloc.commands.place.place import StoredNetwork, assembled, place
from rramalloc.commands.place.transfer import TileRoutes
from rramalloc.errors import CapacityError, SpecError
from rramalloc.hardware.tables import Counting
from rramalloc.mapping.options import MappingOptions
from rramalloc.search.work import Work
from rramalloc.timing.stage_graph import StageGraph

PLAIN = machine(None)


def listed(layout: Layout, graph: StageGraph, copies: list[int]) -> list[Any]:
    """Loads of the links of a layout."""
    arrays = assembled(layout, graph.names)
    routes = TileRoutes.of(arrays, graph.names, layout.pieces.flows, np.array(copies))
    return routes.loads(routes.input_bytes).listed()


def test_cost_by_hand() -> None:
    """Two arrays of c1 in tile (0, 0), c2 with one in (0, 1) and one in (1, 2): 1 and 3 hops, mean 2."""
    graph = StageGraph.build(chain(3, 5))
    sites = [(0, 0, 0, 0), (0, 0, 0, 1)]
    rows = (0, 0, 1, 0), (0, 1, 1, 0), (1, 0, 1, 1), (1, 1, 1, 2)
    here = laid_out(graph, PLAIN, [2, 2], [*sites, (0, 0, 1, 2)], *rows)
    assert Search.of(here).costs.sum() == 48 * 2.0
    assert listed(here, graph, [2, 2]) == [
        (48.0, (0, 0), (0, 0), (0, 1)),
        (24.0, (0, 0), (0, 1), (0, 2)),
        (24.0, (0, 0), (0, 2), (1, 2)),
    ]


def test_partial_sums_cost_by_hand() -> None:
    """c2 reads 6 rows on 2 wordlines and yields 5 columns on 3 bitlines: 3 blocks of rows by 2 of columns.

    They fill pieces of 2 arrays column block after column block: rows 0 and 1 of the 3 columns in tile 0; the
    last row of these and the first of the other 2 in tile 1; the rest in tile 2. So 3 columns go from tile 0
    to 1 and 2 from tile 1 to 2, a byte each for 16 windows. c1 in tile 0 sends a third of its 16 pixels of 6
    bytes to every row block: in tiles 0 and 1, 0 and 2, 1 and 2, over 1, 2 and 2 links.
    """
    hardware = machine(None, (2, 3))
    graph = StageGraph.build(chain(6, 5))
    one = laid_out(
        graph,
        hardware,
        [1, 1],
        [(0, 0, 0, n) for n in range(4)],
        (0, 0, 2, 0),
        (1, 0, 2, 0),
        (1, 0, 2, 1),
        (1, 0, 2, 2),
    )
    assert one.pieces.sends.tolist() == [2, 0, 1, 1]
    assert Search.of(one).costs.sum() == 96 * 5 / 3 + 16 * (3 + 2)
    assert listed(one, graph, [1, 1]) == [
        (96 + 16 * 3, (0, 0), (0, 0), (0, 1)),
        (96 * 2 / 3 + 16 * 2, (0, 0), (0, 1), (0, 2)),
    ]


LINKS = {"hop_ns_tile": 1.0, "bandwidth_tile_gb_s": 2.0, "hop_ns_chip": 3.0, "bandwidth_chip_gb_s": 0.5}


@settings(max_examples=60, deadline=None)
@given(randoms)
def test_moves_change_the_cost_and_the_links_as_they_say(random: Random) -> None:
    """What the compiled search adds up is what the whole count says, whatever tiles copies lie in: byte hops,
    and loads of links in a batch.
    """
    network = random_network(random, nodes=7, extent=4)
    board = random_chip(random).model_copy(update=LINKS)
    counting = Counting(groups="diagonal", classifiers="host", row_blocks="first_fit")
    rows = {"counting": counting} if random.random() < 0.4 else {}
    hardware, graph = machine(board, (6, 3), **rows), StageGraph.build(network, MappingOptions(fc="crossbar"))
    copies = np.minimum(random_copies(random, graph), 3)
    try:
        held = StoredNetwork.of_copies(graph, copies, hardware, MappingOptions()).held
        found = arrange(graph, held, hardware, work=0, seed=0)
    except (CapacityError, SpecError):
        return
    layout = found.layout
    if not rows:
        heights = np.array([random.choice((1, 2, 3, 9)) for _ in held])
        layout = replace(layout, pieces=layout.pieces.in_stripes(heights))
    batch_ns = np.array([random.choice((1.0, 3.0)) for _ in held])
    seed, price = random.randint(1, 10**6), random.choice((0.0, 100.0))
    timed = random.random() < 0.7
    search, again = (
        Search.of(layout, seed, batch_ns=batch_ns if timed else None, caps=LinkCaps({}, 0.1))
        for _ in range(2)
    )
    change = sum(anneal(search.problem, until, 60_000, price, FIRST_THRESHOLD) for until in (20_000, 60_000))
    anneal(again.problem, 60_000, 60_000, price, FIRST_THRESHOLD)
    moved, before = search.run(0, Work()), search.costs.sum()
    assert np.array_equal(moved.site, again.run(0, Work()).site)
    after = Search.of(moved).costs.sum()
    assert change == pytest.approx(after - before, abs=1e-9 * max(1.0, before))
    routes = TileRoutes.of_layout(moved)
    assert after == pytest.approx(routes.byte_hops(Mesh.of(board).chip_hop))
    if not timed:
        return
    whole = routes.loads(routes.batch_bytes / batch_ns[routes.sender])
    counted: dict[Any, float] = {}
    sites = [tuple(chip) for chip in np.unique(moved.sites[:, :2], axis=0).tolist()]
    for number, loads in enumerate(search.problem.links.load):
        key = sites[number] if number < len(sites) else None
        gb_s = 0.5 if key is None else 2.0
        for direction, row, column in np.argwhere(loads > 1e-9).tolist():
            counted[key, direction, row, column] = loads[direction, row, column] * gb_s
    told = {
        (key, *at): loads[tuple(at)]
        for key, loads in whole.of_key.items()
        for at in np.argwhere(loads > 0).tolist()
    }
    assert counted == pytest.approx(told, abs=1e-8)


@settings(max_examples=40, deadline=None)
@given(randoms)
def test_cost_and_links_are_those_of_every_pair_of_arrays(random: Random) -> None:
    network, hardware = random_network(random, nodes=7, extent=4), machine(random_chip(random), (6, 3))
    graph = StageGraph.build(network, MappingOptions(fc="crossbar"))
    copies = np.minimum(random_copies(random, graph), 3)
    try:
        placement = place(network, by_name(graph, copies), hardware=hardware, fc="crossbar", work=1)
    except CapacityError:
        return
    loads = loads_by_walking(placement, graph)
    hop = placement.traffic.chip_hop
    cost = sum(load * (hop if key is None else 1.0) for (key, *_), load in loads.items())
    assert placement.traffic.cost == pytest.approx(cost)
    assert sum(flow.byte_hops for flow in placement.flows) == pytest.approx(cost)
    told = {(link.chip, link.start, link.end): link.size_bytes for link in placement.links}
    assert told == pytest.approx({link: load for link, load in loads.items() if load})
    assert [link.size_bytes for link in placement.links] == sorted(told.values(), reverse=True)
    assert placement.traffic.cost <= placement.traffic.constructed + 1e-9


@given(randoms)
def test_distinct_places_are_those_of_numpy(random: Random) -> None:
    wide = random.choice((2, 4))
    places = np.array([[random.randint(0, 3) for _ in range(wide)] for _ in range(random.randint(0, 20))])
    places = places.astype(np.int64).reshape(-1, wide)
    found, number = distinct(places)
    rows, inverse = np.unique(places, axis=0, return_inverse=True)
    assert found.tolist() == rows.tolist()
    assert number.tolist() == inverse.ravel().tolist()
