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
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.network import Network
from rramalloc.timing.clocks import timed_graph
from rramalloc.timing.latency_table import LatencyRow, LatencyTable
from rramalloc.timing.measured_layer import MeasuredLayer
from rramalloc.timing.stage_graph import StageGraph

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
        pytest.param(READ, (80, 80), id="8 reads of 10 ns, whatever the rows"),
        # a: 27 rows in 1 turn, b: 144 rows, of which an array has 128, in 4 turns of 32
        pytest.param(READ | {"rows_per_read": 32}, (80, 320), id="rows in turns"),
        # a: 32 columns of 128, 16 * 32 / 128 = 4 conversions of 5 ns; b: all columns, 16 conversions
        pytest.param(READ | {"adc_ns": 5.0, "columns_per_adc": 16}, (160, 640), id="used columns share ADCs"),
        # a: 16 * 32 / 128 = 4 conversions of 1 ns hide behind the read
        pytest.param(READ | {"adc_ns": 1.0, "columns_per_adc": 16}, (80, 128), id="read hides conversions"),
        pytest.param(READ | {"tick_ns": 30.0}, (3, 3), id="80 ns are 3 ticks of 30 ns"),
        pytest.param(READ | {"tick_ns": 0.1}, (800, 800), id="800 ticks of 0.1 ns, not 801"),
        pytest.param({"step_ns": 0.5}, (1, 1), id="never less than a tick"),
    ],
)
def test_ticks_of_the_arrays(tmp_path: Any, timing: dict[str, Any], ticks: tuple[int, int]) -> None:
    graph = timed_graph(chain(tmp_path), machine(**timing), MappingOptions())
    assert ticks_of_a_batch(graph, [[1, 1], [5, 5]]) == [list(ticks)] * 2


@pytest.mark.parametrize(("scope", "times"), [("per_layer", 1), ("shared", 2)])
def test_ticks_of_the_memory(tmp_path: Any, scope: str, times: int) -> None:
    """Stage a reads 27 and writes 16 bytes a window, b 144 and 100: 43 and 244 ns a copy at 1 byte per ns."""
    memory = {"bandwidth_gb_s": 1.0, "reuse": "none", "scope": scope}
    graph = timed_graph(chain(tmp_path), machine(**READ, memory=memory), MappingOptions())
    assert ticks_of_a_batch(graph, [[copies, 4] for copies in (1, 2, 3)]) == [
        [max(80, times * 43 * copies), times * 976] for copies in (1, 2, 3)
    ]


def test_ticks_of_a_mode(tmp_path: Any) -> None:
    """Block 2 x 2 of stage a: 4 * 4 * 3 = 48 rows in 2 turns of 32, 4 * 32 = 128 columns."""
    timing = READ | {"rows_per_read": 32, "adc_ns": 1.0, "columns_per_adc": 16}
    graph = timed_graph(chain(tmp_path), machine(**timing), MappingOptions(mapping="sdk"))
    assert ticks_of_a_batch(graph, [1, 1])[0] == 80
    assert ticks_of_a_batch(graph, [1, 1], ((2, 2), (1, 1)))[0] == 8 * 2 * 16


def test_adjacent_columns_share_an_adc(tmp_path: Any) -> None:
    """32 and 128 used columns of 128, an ADC for 16 neighbours: 16 conversions of 5 ns in both, not 4."""
    timing = READ | {"adc_ns": 5.0, "columns_per_adc": 16, "adc_columns": "adjacent"}
    graph = timed_graph(chain(tmp_path), machine(**timing), MappingOptions())
    assert ticks_of_a_batch(graph, [1, 1]) == [8 * 80, 8 * 80]
    timing["columns_per_adc"] = 64
    graph = timed_graph(chain(tmp_path), machine(**timing), MappingOptions())
    assert ticks_of_a_batch(graph, [1, 1]) == [8 * 32 * 5, 8 * 64 * 5]


def shared_arrays(mapping: Any, **timing: Any) -> StageGraph:
    """Depthwise 3 x 3 and pointwise 1 x 1 on 128 x 128 cells of 2 bits, 16-bit weights: 8 columns each."""
    document = load_hardware("isaac").to_dict() | {"timing": {"clock": "own", "dac_bits": 16} | timing}
    nodes: list[dict[str, Any]] = [
        {"name": "input", "op": "input", "shape": [28, 4, 4]},
        {"name": "deep", "op": "conv", "inputs": ["input"], "out_channels": 28, "kernel": 3, "groups": 28},
        {"name": "point", "op": "conv", "inputs": ["deep"], "out_channels": 4, "kernel": 1},
    ]
    network = Network.from_document({"format": "rramalloc-network/1", "name": "n", "nodes": nodes}, "n")
    return timed_graph(network, Hardware.model_validate(document), MappingOptions(mapping=mapping))


@pytest.mark.parametrize("mapping", ["im2col", "sdk"])
def test_groups_that_share_an_array_convert_all_its_columns(mapping: Any) -> None:
    """14 groups of 9 rows and 8 columns an array: 112 conversions; 126 rows are 4 turns of 32."""
    graph = shared_arrays(mapping, read_ns=1.0, adc_ns=1.0, columns_per_adc=128)
    assert ticks_of_a_batch(graph, [1, 1]) == [112, 32]
    graph = shared_arrays(mapping, read_ns=1.0, rows_per_read=32)
    assert ticks_of_a_batch(graph, [1, 1]) == [4, 1]


def test_copies_that_share_an_array_convert_all_its_columns() -> None:
    """`point`: 28 rows and 32 columns a copy, 4 copies an array."""
    copies = [[1, copies] for copies in (1, 2, 3, 4, 5)]
    graph = shared_arrays("sdk", read_ns=1.0, adc_ns=1.0, columns_per_adc=128)
    assert [ticks for _, ticks in ticks_of_a_batch(graph, copies)] == [32, 64, 96, 128, 128]
    graph = shared_arrays("im2col", read_ns=1.0, adc_ns=1.0, columns_per_adc=128)
    assert [ticks for _, ticks in ticks_of_a_batch(graph, copies)] == [32] * 5


@pytest.mark.parametrize("mapping", ["im2col", "sdk"])
def test_memory_makes_batches_longer_and_ticks_no_longer(tmp_path: Any, mapping: Any) -> None:
    memory = {"bandwidth_gb_s": 0.5, "reuse": "none", "scope": "per_layer"}
    network, hardware = chain(tmp_path), machine(**READ, tick_ns=2.0, memory=memory)
    allocation = rramalloc.optimize(network, 100, hardware=hardware, mapping=mapping, work=2)
    assert allocation.tick_ns == 2.0
    assert allocation.latency_ns == 2.0 * allocation.makespan
    again = rramalloc.simulate(network, allocation)
    assert (again.makespan, again.latency_ns) == (allocation.makespan, allocation.latency_ns)


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
    assert [split.clocks(stage, (1, 1)).compute for stage in (0, 1)] == [(80,), (80,)]
    assert [whole.clocks(stage, (1, 1)).compute for stage in (0, 1)] == [(2 * 80,), (8 * 80,)]


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
    assert simulation.latency_ns == simulation.makespan * 2.0
    allocation = rramalloc.optimize(chain(tmp_path), 40, hardware=hardware, work=10)
    again = rramalloc.simulate(chain(tmp_path), allocation)
    assert (again.makespan, again.latency_ns) == (allocation.makespan, allocation.latency_ns)
    assert allocation.objective_unit == "ticks"
    assert allocation.lower_bound <= allocation.makespan


@pytest.mark.parametrize("factor", [1, 1000, 10**6])
def test_a_longer_tick_changes_nothing_but_the_count(tmp_path: Any, factor: int) -> None:
    """Steps of 80 ns in ticks of 80 ns, or of 80 ns / factor: the same copies, bound and work."""
    shared = rramalloc.optimize(chain(tmp_path), 60, hardware=machine(**READ, tick_ns=80.0), work=10)
    finer = rramalloc.optimize(chain(tmp_path), 60, hardware=machine(**READ, tick_ns=80.0 / factor), work=10)
    assert finer.makespan == factor * shared.makespan
    assert finer.lower_bound == factor * shared.lower_bound
    assert finer.replication == shared.replication


def test_equal_ticks_are_steps() -> None:
    """With one tick a batch the makespan and its proof are those of steps."""
    plain = rramalloc.optimize("alexnet", 1024)
    document = load_hardware("plain").to_dict() | {"timing": {"step_ns": 1.0, "clock": "own"}}
    own = rramalloc.optimize("alexnet", 1024, hardware=Hardware.model_validate(document))
    assert (own.makespan, own.gap) == (plain.makespan, 0)


@pytest.mark.parametrize("method", ["gain", "milp", "proportional", "interval", "sequential", "none"])
def test_every_method_is_judged_in_ticks(tmp_path: Any, method: str) -> None:
    hardware = machine(**READ, rows_per_read=32)
    best = rramalloc.optimize(chain(tmp_path), 40, hardware=hardware)
    found = rramalloc.optimize(chain(tmp_path), 40, hardware=hardware, method=method)
    assert found.lower_bound <= best.makespan <= found.makespan


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


@pytest.mark.parametrize(("clock", "unit"), [("own", "ticks"), ("shared", "steps")])
def test_a_front_with_the_makespan_as_an_axis_names_its_unit(tmp_path: Any, clock: str, unit: str) -> None:
    document = machine(**READ, clock=clock).to_dict() | {"energy": {"area_um2": 10.0}}
    hardware = Hardware.model_validate(document)
    front = rramalloc.pareto(chain(tmp_path), 16, hardware=hardware, objective="makespan", against="area")
    assert (front.unit, front.against_unit) == (unit, "um2")


def test_a_table_in_the_cost_of_a_placement(tmp_path: Any) -> None:
    """Batches of a: 8 of 3 ticks, of b: 8 of 5 ticks of 10 ns; one after the other in groups."""
    network = chain(tmp_path)
    chip = {"arrays_per_tile": 16, "straddle": True, "tiles": [4, 4], "chips": [1, 1]}
    hardware = Hardware.model_validate(machine(tick_ns=10.0).to_dict() | {"chip": chip})
    copies = {"a": 8, "b": 8}
    placement = rramalloc.place(network, copies, hardware=hardware)
    cost = rramalloc.chiplet_cost(network, copies, placement, latency_table=table(network, MEASURED))
    computed = {name: each.compute for group in cost.groups for name, each in group.operators.items()}
    assert computed == {"a": 8 * 30.0, "b": 8 * 50.0}
