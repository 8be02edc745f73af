"""Own clocks: the ticks of a batch by hand (docs/sources/model.md 11), and what follows from them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import rramalloc
from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.mapping.mode import PLAIN
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.network import Network
from rramalloc.timing.clocks import timed_graph
from rramalloc.timing.latency_table import LatencyRow, LatencyTable
from rramalloc.timing.measured_layer import MeasuredLayer
from rramalloc.timing.stage_graph import StageGraph

pytestmark = pytest.mark.quick

CHAIN = {
    "format": "rramalloc-network/1",
    "name": "chain",
    "nodes": [
        {"name": "input", "op": "input", "shape": [3, 8, 8]},
        {"name": "a", "op": "conv", "inputs": ["input"], "out_channels": 16, "kernel": 3, "pads": 1},
        {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 100, "kernel": 3, "pads": 1},
    ],
}


def chain(tmp_path: Any) -> Network:
    path = tmp_path / "chain.json"
    path.write_text(json.dumps(CHAIN))
    return load(path)


def machine(**timing: Any) -> Hardware:
    document = load_hardware("plain").to_dict()
    document["precision"] |= {"weight_bits": 4, "input_bits": 8, "output_bits": 8}
    document["crossbar"]["cell_bits"] = 2
    memory = timing.pop("memory", None)
    return Hardware.model_validate(document | {"timing": {"clock": "own"} | timing, "memory": memory})


def ticks_of_a_batch(graph: StageGraph, copies: Any, blocks: Any = None) -> list[Any]:
    ticks = graph.batch_ticks(np.array(copies), blocks)
    assert ticks is not None
    return list(ticks.tolist())


READ = {"read_ns": 10.0, "dac_bits": 1}


@pytest.mark.parametrize(
    ("timing", "ticks"),
    [
        (READ, (80, 80)),
        # a: 27 rows in 1 turn, b: 144 rows, of which an array has 128, in 4 turns of 32
        (READ | {"rows_per_read": 32}, (80, 320)),
        # a: 32 columns of 128, 16 * 32 / 128 = 4 conversions of 5 ns; b: all columns, 16 conversions
        (READ | {"adc_ns": 5.0, "columns_per_adc": 16}, (160, 640)),
        # a: 16 * 32 / 128 = 4 conversions of 1 ns hide behind the read
        (READ | {"adc_ns": 1.0, "columns_per_adc": 16}, (80, 128)),
        (READ | {"tick_ns": 30.0}, (3, 3)),
        (READ | {"tick_ns": 0.1}, (800, 800)),
        ({"step_ns": 0.5}, (1, 1)),
    ],
)
def test_ticks_of_the_arrays(tmp_path: Any, timing: dict[str, Any], ticks: tuple[int, int]) -> None:
    graph = timed_graph(chain(tmp_path), machine(**timing), MappingOptions())
    assert ticks_of_a_batch(graph, [[1, 1], [5, 5]]) == [list(ticks)] * 2


def test_kernel_split_reads_the_channels_of_a_position(tmp_path: Any) -> None:
    """3 and 16 rows are read at once, 27 and 128 in 2 and 8 turns of 16; whole kernels: 14 of 9 rows."""
    split = timed_graph(
        chain(tmp_path), machine(**READ, rows_per_read=16), MappingOptions(mapping="kernel_split")
    )
    whole = timed_graph(
        chain(tmp_path), machine(**READ, rows_per_read=16), MappingOptions(mapping="whole_kernel")
    )
    assert split.clocks is not None
    assert whole.clocks is not None
    assert [split.clocks(stage, PLAIN).compute for stage in (0, 1)] == [(80,), (80,)]
    assert [whole.clocks(stage, PLAIN).compute for stage in (0, 1)] == [(2 * 80,), (8 * 80,)]


def test_an_allocation_says_its_ticks(tmp_path: Any) -> None:
    """8 copies each: 8 batches of 40 ticks, 8 of 160; b needs row 1 of a and waits for 2 batches."""
    hardware = machine(**READ, rows_per_read=32, tick_ns=2.0)
    simulation = rramalloc.simulate(chain(tmp_path), {"a": 8, "b": 8}, hardware=hardware)
    assert [layer.cycles for layer in simulation.layers] == [40, 160]
    assert [layer.start for layer in simulation.layers] == [0, 2 * 40]
    assert simulation.makespan == 2 * 40 + 8 * 160
    assert simulation.interval == 8 * 160
    assert simulation.tick_ns == 2.0
    assert simulation.step_ns is None
    assert simulation.unit_ns == 2.0
    assert simulation.latency_ns == simulation.makespan * 2.0
    allocation = rramalloc.optimize(chain(tmp_path), 40, hardware=hardware, work=10)
    again = rramalloc.simulate(chain(tmp_path), allocation)
    assert (again.makespan, again.latency_ns) == (allocation.makespan, allocation.latency_ns)
    assert allocation.objective_unit == "ticks"
    assert allocation.lower_bound <= allocation.makespan


@pytest.mark.parametrize(
    ("timing", "words"),
    [
        ({}, "needs the time of a step"),
        (READ | {"clock": "shared", "tick_ns": 1.0}, "tick_ns has no effect"),
        ({"step_ns": 1.0, "rows_per_read": 8}, "rows_per_read"),
        (READ | {"tick_ns": 1e-9}, "give a longer tick_ns"),
    ],
)
def test_what_a_clock_needs(tmp_path: Any, timing: dict[str, Any], words: str) -> None:
    with pytest.raises((SpecError, ValueError), match=words):
        rramalloc.optimize(chain(tmp_path), 60, hardware=machine(**timing))


def table(network: Network, ns_per_window: dict[str, float]) -> LatencyTable:
    rows = []
    for node in network.nodes:
        if node.name in ns_per_window:
            layer = MeasuredLayer.of(network, node)
            total_ns = ns_per_window[node.name] * network.shapes[node.name].pixels
            rows.append(LatencyRow(**layer.model_dump(), latency_ns=total_ns))
    return LatencyTable(rows=tuple(rows))


MEASURED = {"a": 30.0, "b": 50.0}


def test_a_table_gives_every_stage_its_own_length(tmp_path: Any) -> None:
    """Windows of 30 and 50 ns in ticks of 10 ns: 3 and 5; with a shared clock all steps last 50 ns."""
    network, hardware = chain(tmp_path), machine(tick_ns=10.0)
    times = table(network, MEASURED)
    own = rramalloc.optimize(network, 16, hardware=hardware, latency_table=times)
    assert [layer.cycles for layer in own.layers] == [3, 5]
    assert own.latency_ns == own.makespan * 10.0
    again = rramalloc.simulate(network, own)
    assert (again.makespan, again.tick_ns) == (own.makespan, 10.0)
    together = machine(clock="shared", step_ns=1.0)
    shared = rramalloc.optimize(network, 16, hardware=together, latency_table=times)
    assert shared.step_ns == 50.0
    assert own.latency_ns < shared.latency_ns
    compared = rramalloc.compare(
        network, 16, hardware=hardware, latency_table=times, methods=["auto", "gain"]
    )
    assert (compared.objective_unit, compared.at(16)[0].latency_ns) == ("ticks", own.latency_ns)
    front = rramalloc.pareto(network, 16, hardware=hardware, latency_table=times)
    assert front.unit == "ticks"
    assert front.points[-1].latency_ns == own.latency_ns
    assert front.options.latency_table == own.options.latency_table
