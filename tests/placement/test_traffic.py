"""The traffic of placements: worked by hand, and against walking every pair of arrays."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from laws.strategies import by_name, random_network, random_replication, randoms
from placement.machines import chain, chip, loads_by_walking, machine, random_chip

from rramalloc.errors import CapacityError, TileError
from rramalloc.placement.flows import Flows, Spread
from rramalloc.placement.links import Loads
from rramalloc.placement.mesh import Mesh
from rramalloc.placement.place import place
from rramalloc.timing.stage_graph import StageGraph


def spread(stages: int, sites: list[tuple[int, ...]], *held: tuple[int, int, int]) -> Spread:
    """held: (stage, site, arrays)."""
    stage, site, arrays = np.array(held, dtype=np.int64).T
    return Spread(stages, np.array(sites, dtype=np.int64), stage, site, arrays)


def test_bytes_of_an_edge_are_the_producers_output() -> None:
    """4 x 4 pixels of 3 channels, 1 byte each."""
    flows = Flows.of(StageGraph.build(chain(3, 5)), 8)
    assert flows.size_bytes.tolist() == [48.0]
    assert Flows.of(StageGraph.build(chain(3, 5)), 12).size_bytes.tolist() == [72.0]


def test_pixels_after_the_last_one_needed_are_not_sent() -> None:
    """Stride 2 without padding on 4 x 4: windows start at (0|2, 0|2); the last pixel needed is 2 * 4 + 2."""
    from rramalloc.network.network import Network

    nodes = chain(3).to_dict()["nodes"] + [
        {"name": "c2", "op": "conv", "inputs": ["c1"], "out_channels": 1, "kernel": 1, "stride": 2}
    ]
    flows = Flows.of(StageGraph.build(Network.build("strided", nodes)), 8)
    assert flows.size_bytes.tolist() == [(2 * 4 + 2 + 1) * 3]


def test_cost_by_hand() -> None:
    """Two arrays of c1 in tile (0, 0), c2 with one in (0, 1) and one in (1, 2): 1 and 3 hops, mean 2."""
    flows = Flows.of(StageGraph.build(chain(3, 5)), 8)
    mesh = Mesh((2, 3), (1, 1), 1.0)
    here = spread(2, [(0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 2)], (0, 0, 2), (1, 1, 1), (1, 2, 1))
    assert here.cost(flows, mesh) == 48 * 2.0
    listed = Loads.total(here, flows, flows.size_bytes).listed()
    assert listed == [
        (48.0, (0, 0), (0, 0), (0, 1)),
        (24.0, (0, 0), (0, 1), (0, 2)),
        (24.0, (0, 0), (0, 2), (1, 2)),
    ]


def test_chips_are_joined_at_their_first_tiles() -> None:
    """From (1, 1) of chip (0, 0): 2 hops to its first tile, a hop between chips, 1 hop to (0, 1)."""
    flows = Flows.of(StageGraph.build(chain(3, 5)), 8)
    mesh = Mesh((2, 2), (1, 2), 10.0)
    here = spread(2, [(0, 0, 1, 1), (0, 1, 0, 1)], (0, 0, 1), (1, 1, 1))
    assert here.cost(flows, mesh) == 48 * (2 + 10 + 1)
    assert Loads.total(here, flows, flows.size_bytes).listed() == [
        (48.0, None, (0, 0), (0, 1)),
        (48.0, (0, 0), (1, 0), (0, 0)),
        (48.0, (0, 0), (1, 1), (1, 0)),
        (48.0, (0, 1), (0, 0), (0, 1)),
    ]


@settings(max_examples=60, deadline=None)
@given(randoms)
def test_cost_and_links_are_those_of_every_pair_of_arrays(random: Random) -> None:
    network, hardware = random_network(random, nodes=7, extent=4), machine(random_chip(random), (6, 3))
    graph = StageGraph.build(network, "crossbar")
    copies = np.minimum(random_replication(random, graph), 3)
    replication = by_name(graph, copies)
    try:
        placement = place(network, replication, hardware=hardware, fc="crossbar", work=1)
    except (CapacityError, TileError):
        return
    loads = loads_by_walking(placement)
    hop = placement.traffic.chip_hop
    cost = sum(load * (hop if key is None else 1.0) for (key, *_), load in loads.items())
    assert placement.traffic.cost == pytest.approx(cost)
    assert sum(flow.byte_hops for flow in placement.flows) == pytest.approx(cost)
    told = {(link.chip, link.start, link.end): link.size_bytes for link in placement.links}
    assert told == pytest.approx({link: load for link, load in loads.items() if load})
    assert [link.size_bytes for link in placement.links] == sorted(told.values(), reverse=True)
    assert placement.traffic.lower_bound <= placement.traffic.cost <= placement.traffic.constructed + 1e-9


@given(randoms)
def test_every_curve_visits_every_tile_once(random: Random) -> None:
    mesh = Mesh(
        (random.randint(1, 9), random.randint(1, 9)), (random.randint(1, 3), random.randint(1, 3)), 1.0
    )
    needed = random.randint(1, mesh.count)
    for curve in mesh.curves(needed):
        visited = set(map(tuple, curve.tolist()))
        assert len(visited) == len(curve) >= needed
        assert visited <= set(map(tuple, mesh.all_sites().tolist()))


@given(randoms)
def test_distances_are_those_of_single_pairs(random: Random) -> None:
    mesh = Mesh((3, 4), (2, 2), random.choice((1.0, 2.5)))
    sites = mesh.all_sites()
    table = mesh.distances(sites)
    i, j = random.randrange(len(sites)), random.randrange(len(sites))
    assert table[i, j] == mesh.hops(tuple(sites[i].tolist()), tuple(sites[j].tolist()))
    assert (table == table.T).all()
    assert (np.diag(table) == 0).all()


def test_a_chip_hop_counts_by_its_time() -> None:
    given_both = chip(1, (1, 1), (1, 2), hop_ns_tile=2.0, hop_ns_chip=9.0)
    assert Mesh.of(given_both).chip_hop == 4.5
    assert Mesh.of(chip(1, (1, 1), (1, 2), hop_ns_chip=9.0)).chip_hop == 1.0
