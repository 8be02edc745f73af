"""`verify` times what it computes: own clocks, digital nodes that take time, and transfers between tiles."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from commands.place.machines import chip, machine
from commands.verify.naive import task, verified
from hypothesis import given, settings
from laws.strategies import IMAGES, by_name, random_copies, random_network, randoms

import rramalloc
from rramalloc.commands.verify.verify import EarlyReadError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.tables import Digital, Timing
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.network import Network
from rramalloc.timing.simulate import simulate
from rramalloc.timing.stage_graph import BatchTicks, StageGraph

pytestmark = pytest.mark.quick

OWN = Timing(step_ns=10.0, clock="own", tick_ns=2.0)
LINKS = {"hop_ns_tile": 3.0, "bandwidth_tile_gb_s": 0.5}


def pooled() -> Network:
    nodes: list[dict[str, Any]] = [
        {"name": "in", "op": "input", "shape": [2, 6, 6]},
        {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 3, "kernel": 3, "pads": 1},
        {"name": "pool", "op": "maxpool", "inputs": ["a"], "kernel": 2, "stride": 2},
        {"name": "sum", "op": "add", "inputs": ["pool", "pool"]},
        {"name": "b", "op": "conv", "inputs": ["sum"], "out_channels": 2, "kernel": 1},
    ]
    return Network.build("pooled", nodes)


def on(board: Any = None, rates: dict[str, float] | None = None) -> Hardware:
    digital = {} if rates is None else {"digital": Digital(ns_per_pixel=rates)}
    return machine(board, (16, 4), OWN, **digital)


def test_digital_nodes_take_their_time() -> None:
    """a lasts 36 batches of 5 ticks, pool 4 ticks a pixel after its last four windows, b 5 after that."""
    free, rated = on(), on(rates={"maxpool": 8.0})
    assert rramalloc.verify(pooled(), {}, hardware=free).makespan == 36 * 5 + 5
    found = rramalloc.verify(pooled(), {}, hardware=rated)
    assert (found.verdict, found.makespan, found.tick_ns) == ("equal", 36 * 5 + 4 + 5, 2.0)


def test_transfers_delay_what_reads() -> None:
    board = chip(2, (2, 2), **LINKS)
    for hardware in (on(board), on(board, {"maxpool": 8.0})):
        allocation = rramalloc.optimize(pooled(), 6, hardware=hardware, placed=True, work=1)
        assert allocation.placed is not None
        assert allocation.placed.delays
        placement = rramalloc.place(pooled(), allocation)
        for at in (None, placement):
            found = rramalloc.verify(pooled(), allocation, at)
            assert (found.verdict, found.makespan) == ("equal", allocation.makespan)


@pytest.mark.parametrize("images", [1, 4])
@settings(max_examples=40, deadline=None)
@given(random=randoms)
def test_no_window_is_read_before_its_inputs_arrive(images: int, random: Random) -> None:
    """Each stage's pixels come later by a delay of its own edge to every reader; one tick less is caught."""
    network = random_network(random, nodes=7, extent=5)
    if images > 1:  # a raster of other widths waits for whole rows, later than its pixels are there
        kept = tuple(op for op in IMAGES if op != "raster")
        network = random_network(random, nodes=7, extent=4, ops=kept, images=images)
    rated = [op for op in ("maxpool", "avgpool", "add", "relu", "concat") if random.random() < 0.4]
    graph = StageGraph.build(network, MappingOptions(fc="crossbar"), rated=rated)
    ticks = [random.randint(1, 4) for _ in graph.stages]
    lags = {(edge.producer, edge.consumer): random.choice((0, 1, 5)) for edge in graph.edges}
    clocked = graph.timed(lambda stage, _: BatchTicks((ticks[stage],), 0.0)).delayed(lags)
    timing = simulate(clocked, np.minimum(random_copies(random, graph), graph.most_copies))
    copies = by_name(graph.on_arrays, timing.copies[graph.weighted])
    what = task(network, copies, machine(None, (16, 8)), fc="crossbar")
    assert verified(what, timing=timing).verdict == "equal"
    late = [s for s in range(len(graph.stages)) if timing.start[s] > 0]
    if not late:
        return
    starts = timing.starts.copy()
    starts[timing.first[late[0]]] -= 1
    with pytest.raises(EarlyReadError):
        verified(what, timing=replace(timing, starts=starts))
