"""What an explanation says, against values worked out by hand and against all allocations of small chains."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

import rramalloc
from rramalloc import Explanation, Network
from rramalloc.commands.explain import neighbours
from rramalloc.commands.place import placer
from rramalloc.errors import SpecError
from rramalloc.timing.critical_path import slack_of_stages
from rramalloc.timing.simulate import simulate
from rramalloc.timing.stage_graph import StageGraph

pytestmark = pytest.mark.quick

PLAIN = """
[crossbar]
wordlines = 16
bitlines = 16
cell_bits = 8
[precision]
weight_bits = 8
input_bits = 8
output_bits = 8
signed = "offset"
"""


def chain(*layers: tuple[int, int], size: int = 2, channels: int = 1) -> Network:
    """Convolutions one after another, each (output channels, kernel) with a border of zeros."""
    nodes: list[dict[str, Any]] = [{"name": "input", "op": "input", "shape": [channels, size, size]}]
    for number, (out, kernel) in enumerate(layers, 1):
        node = {"op": "conv", "inputs": [nodes[-1]["name"]], "out_channels": out, "kernel": kernel}
        nodes.append({"name": f"conv{number}", "pads": kernel // 2, **node})
    return network_of(nodes)


def network_of(nodes: list[dict[str, Any]]) -> Network:
    document = {"format": "rramalloc-network/1", "name": "small", "nodes": nodes}
    return Network.from_document(document, "small")


def machine(tmp_path: Path, tables: str = "", **replaced: str) -> Path:
    text = PLAIN + tables
    for name, value in replaced.items():
        text = text.replace(f"{name} = 8", f"{name} = {value}")
    path = tmp_path / "machine.toml"
    path.write_text(text)
    return path


def layer(made: Explanation, name: str) -> Any:
    return next(each for each in made.layers if each.name == name)


def test_two_layers_by_hand(tmp_path: Path) -> None:
    """Two layers of 4 windows and one array each. Fronts: 2 arrays 5 steps, 4 arrays 3, 8 arrays 2.

    With two copies each conv1 computes in steps 0 and 1, conv2 in 1 and 2: of the 3 steps conv1's first and
    both of conv2 are critical, nothing waits, no batch may be later. Two layers take 2 steps at least.
    """
    network, hardware = chain((16, 1), (16, 1)), machine(tmp_path)
    made = rramalloc.explain(network, 4, hardware=hardware, speedup=1.5)
    assert (made.value, made.interval, made.arrays) == (3, 2, 4)
    told = [(each.busy, each.critical, each.waiting, each.slack, each.sets_interval) for each in made.layers]
    assert told == [(2, 1, 0, 0, True), (2, 2, 0, 0, True)]
    points = [each.point for each in (made.cheaper, made.faster, made.speedup) if each and each.point]
    assert [(each.arrays, each.value) for each in points] == [(2, 5), (8, 2), (8, 2)]
    assert made.cheaper.proven
    assert made.faster.proven
    fastest = rramalloc.explain(network, 8, hardware=hardware, speedup=1.01)
    assert fastest.faster.point is None
    assert fastest.faster.proven
    assert fastest.speedup is not None
    assert fastest.speedup.proven
    assert "the 2 layers conv1 ... conv2, one after another, take 2 steps" in fastest.speedup.words
    smallest = rramalloc.explain(network, allocation={"conv1": 1, "conv2": 1}, hardware=hardware)
    assert (smallest.cheaper.point, smallest.cheaper.proven) == (None, True)


@pytest.mark.parametrize("objective", ["latency", "interval"])
def test_points_are_those_of_all_allocations(tmp_path: Path, objective: Any) -> None:
    """Three layers whose 4 * 9 * 9 allocations are all simulated."""
    network = network_of(
        [
            {"name": "input", "op": "input", "shape": [2, 3, 3]},
            {"name": "a", "op": "conv", "inputs": ["input"], "out_channels": 4, "kernel": 3, "pads": 1},
            {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 16, "kernel": 1},
            {"name": "c", "op": "conv", "inputs": ["b"], "out_channels": 20, "kernel": 2},
        ]
    )
    hardware = machine(tmp_path)
    graph = StageGraph.build(network)
    demand = {
        each.name: each.arrays_per_copy for each in rramalloc.inspect(network, hardware=hardware).layers
    }
    every = []
    for copies in itertools.product(*(range(1, windows + 1) for windows in graph.windows.tolist())):
        timing = simulate(graph, copies)
        arrays = sum(n * demand[name] for n, name in zip(copies, graph.names, strict=True))
        every.append((arrays, timing.makespan if objective == "latency" else timing.interval))
    for budget in (14, 25, 40, 80):
        made = rramalloc.explain(network, budget, objective=objective, hardware=hardware, speedup=1.7)
        fewer = [value for arrays, value in every if arrays < made.arrays]
        assert made.cheaper.point is not None
        assert (made.cheaper.point.value, made.cheaper.proven) == (min(fewer), True)
        faster = [arrays for arrays, value in every if value < made.value]
        assert (made.faster.point is not None, made.faster.proven) == (bool(faster), True)
        if made.faster.point is not None:
            assert made.faster.point.arrays == min(faster)
            assert made.faster.point.value == min(v for arrays, v in every if arrays <= min(faster))
        assert made.speedup is not None
        reaching = [arrays for arrays, value in every if 1.7 * value <= made.value]
        assert made.speedup.proven
        assert (made.speedup.point is None) == (not reaching)
        if made.speedup.point is not None:  # with one array less no allocation reaches it
            assert made.speedup.point.arrays == min(reaching)
            assert 1.7 * made.speedup.point.value <= made.value


def test_slack_is_what_a_batch_may_be_late(tmp_path: Path) -> None:
    """Every batch alone is delayed by a branch's slack, and the tightest one by a step more."""
    conv = {"op": "conv", "kernel": 3, "pads": 1, "out_channels": 2}
    network = network_of(
        [
            {"name": "input", "op": "input", "shape": [2, 4, 4]},
            {"name": "a", "inputs": ["input"], **conv},
            {"name": "b", "inputs": ["input"], **conv},
            {"name": "c", "inputs": ["b"], **conv},
            {"name": "sum", "op": "add", "inputs": ["a", "c"]},
            {"name": "d", "inputs": ["sum"], **conv},
        ]
    )
    graph = StageGraph.build(network)
    timing = simulate(graph, [3 if name == "a" else 2 for name in graph.names])

    def delayed(stage: int, batch: int, steps: int) -> int:
        """Return the makespan if a batch starts `steps` later than it could, by the definition."""
        starts: list[list[int]] = []
        for own, windows in enumerate(graph.windows.tolist()):
            starts.append([])
            copies = int(timing.copies[own])
            for number in range(-(-windows // copies)):
                last = min((number + 1) * copies, windows) - 1
                begin = starts[own][-1] + 1 if number else 0
                for edge in graph.edges:
                    need = int(graph.needed(edge)[last])
                    if edge.consumer == own and need >= 0:
                        begin = max(
                            begin, starts[edge.producer][need // int(timing.copies[edge.producer])] + 1
                        )
                if (own, number) == (stage, batch):
                    begin = max(begin, int(timing.of_stage(own)[number]) + steps)
                starts[own].append(begin)
        return max(each[-1] for each in starts) + 1

    slack = slack_of_stages(timing).tolist()
    assert min(slack) == 0 < max(slack)
    for stage, steps in enumerate(slack):
        batches = range(int(timing.batches[stage]))
        assert all(delayed(stage, batch, steps) == timing.makespan for batch in batches)
        assert any(delayed(stage, batch, steps + 1) > timing.makespan for batch in batches)


CONVERTERS = """
[timing]
read_ns = 10.0
dac_bits = 1
rows_per_read = 8
adc_ns = 3.0
columns_per_adc = 16
clock = "own"
[memory]
bandwidth_gb_s = {bandwidth}
reuse = "none"
scope = "per_layer"
"""


@pytest.mark.parametrize(("bandwidth", "binds", "ticks"), [(0.1, "converter", 192), (0.05, "memory", 260)])
def test_parts_of_a_batch_by_hand(tmp_path: Path, bandwidth: float, binds: str, ticks: int) -> None:
    """A 3 x 3 layer of 2 to 4 channels, 4 bits in 2-bit cells: 18 rows, 8 columns of arrays of 16 x 16.

    4 turns of single bits times 2 turns of 8 of the 16 rows are 8 reads of 10 ns. An ADC of 16 columns, of
    which 8 are in use, converts 8 a read: 8 * 8 * 3 = 192 ns. 18 values of 4 bits are read and 4 of 8 bits
    written: 13 bytes, 130 ns at 0.1 byte/ns.
    """
    bits = {"cell_bits": "2", "weight_bits": "4", "input_bits": "4"}
    hardware = machine(tmp_path, CONVERTERS.format(bandwidth=bandwidth), **bits)
    network = chain((4, 3), channels=2)
    made = rramalloc.explain(network, allocation={"conv1": 1}, hardware=hardware, speedup=1000)
    only = layer(made, "conv1")
    assert (only.input_cycles, only.reads, only.conversions) == (4, 8, 8)
    assert (only.read_ns, only.converter_ns, only.memory_ns) == pytest.approx((80, 192, 13 / bandwidth))
    assert (only.binds, only.cycles, only.step_ns) == (binds, ticks, pytest.approx(ticks))
    assert made.speedup is not None
    target = 4 * ticks / 1000
    needs = {change.number: change.need for change in made.speedup.changes}
    assert needs == pytest.approx(
        {  # one batch of all windows reads and converts once, but moves all bytes
            "timing.read_ns": 10 * target / 80,
            "timing.adc_ns": 3 * target / 192,
            "memory.bandwidth_gb_s": 4 * 13 / target,
        }
    )


SHARED = """
[timing]
step_ns = 10.0
[memory]
bandwidth_gb_s = 1.0
reuse = "none"
scope = "{scope}"
"""


def test_memory_that_no_number_of_arrays_helps(tmp_path: Path) -> None:
    """1 -> 16 channels, 4 windows: each moves 17 bytes, so all of them take 68 ns at 1 byte/ns."""
    network, hardware = chain((16, 1)), machine(tmp_path, SHARED.format(scope="per_layer"))
    made = rramalloc.explain(network, 1, hardware=hardware, speedup=2)
    assert (made.value, made.unit, made.slowest) == (68, "ns", "conv1")
    assert layer(made, "conv1").binds == "memory"
    assert (made.faster.point, made.faster.proven) == (None, True)
    assert made.speedup is not None
    assert (made.speedup.point, made.speedup.proven) == (None, True)
    (change,) = made.speedup.changes
    assert (change.number, change.need) == ("memory.bandwidth_gb_s", pytest.approx(2))


def test_a_step_waits_for_what_all_layers_move_of_a_shared_memory(tmp_path: Path) -> None:
    """conv1 moves 17 bytes a window, conv2 16 + 16: 49 ns a step, of which conv2 moves most."""
    network, hardware = chain((16, 1), (16, 1)), machine(tmp_path, SHARED.format(scope="shared"))
    made = rramalloc.explain(network, allocation={"conv1": 1, "conv2": 1}, hardware=hardware)
    assert [each.memory_ns for each in made.layers] == [17, 32]
    assert (made.step_ns, made.slowest, layer(made, "conv1").step_ns) == (49, "conv2", 49)


CHIP = """
[timing]
step_ns = 10.0
[chip]
arrays_per_tile = 1
tiles = [4, 4]
chips = [1, 1]
hop_ns_tile = 1.0
bandwidth_tile_gb_s = 0.1
"""


def test_transfer_of_a_placement_is_a_part_and_arrays_are_in_tiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placer, "TRIES_THAT_PAY", 1)
    network, hardware = chain((16, 1), (16, 1)), machine(tmp_path, CHIP)
    allocation = rramalloc.optimize(network, 4, hardware=hardware, placed=True, work=1)
    assert allocation.placed is not None
    made = rramalloc.explain(network, allocation=allocation, work=1, what_if=())
    assert {each.name: each.transfer_ns for each in made.layers} == allocation.placed.transfer_ns
    assert (made.step_ns, made.latency_ns) == (allocation.step_ns, allocation.latency_ns)
    assert layer(made, "conv1").binds == "transfer"
    assert made.faster.point is not None
    assert (made.faster.point.tiles, made.faster.point.chips) == (made.faster.point.arrays, 1)
    assert not any("transfer" in warning for warning in made.warnings)


TWO_TILES = """
[timing]
step_ns = 4.0
[chip]
arrays_per_tile = 2
tiles = [1, 2]
hop_ns_tile = 3.0
bandwidth_tile_gb_s = {gb_s}
"""


def test_a_point_beside_a_placed_allocation_is_timed_with_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both layers in one tile: 5 steps of 4 ns, 20 ns. Two copies of each take 3 steps, 12 ns without links.

    They fill both tiles; each copy of conv1 sends 8 of its 16 bytes to the other tile: 3 + 8 / 2 = 7 ns a
    step, 21 ns, slower than 20; at 4 GB/s 5 ns a step, 15 ns. Three arrays take 5 steps.
    """
    monkeypatch.setattr(placer, "TRIES_THAT_PAY", 1)  # of a minimum that one finds
    monkeypatch.setattr(neighbours, "_MOST_NEAR", 1)
    network = chain((16, 1), (16, 1), channels=16)
    found = dict[float, Explanation]()
    for gb_s in (2.0, 4.0):
        hardware = machine(tmp_path, TWO_TILES.format(gb_s=gb_s))
        placed = rramalloc.optimize(network, 2, hardware=hardware, placed=True, work=1)
        found[gb_s] = rramalloc.explain(network, allocation=placed, work=1, what_if=(), speedup=1.3)
        assert (found[gb_s].value, found[gb_s].unit, found[gb_s].cheaper.proven) == (20, "ns", True)
    slow, fast = found.values()
    assert slow.speedup is not None
    assert (slow.faster.point, slow.faster.proven, slow.speedup.point) == (None, False, None)
    assert "none takes less than 12 ns" in slow.faster.words
    for told in (fast.faster, fast.speedup):
        assert told is not None
        assert told.point is not None
        assert (told.point.copies, told.point.value) == ({"conv1": 2, "conv2": 2}, 15)
    (left_out,) = fast.warnings  # of two
    assert left_out.startswith("1 allocation with a copy more or less of a layer was not placed")


def test_the_value_of_a_point_is_that_of_its_placement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `place` times its copies."""
    monkeypatch.setattr(placer, "TRIES_THAT_PAY", 1)
    network = chain((16, 1), (16, 1), channels=16)
    hardware = machine(tmp_path, TWO_TILES.format(gb_s=1.0))
    placed = rramalloc.optimize(network, 4, copies=["conv1=2"], hardware=hardware, placed=True, work=1)
    made = rramalloc.explain(network, allocation=placed, work=1, what_if=())
    assert made.value == placed.latency_ns
    points = [told.point for told in (made.cheaper, made.faster) if told.point is not None]
    assert points
    for point in points:
        timed = rramalloc.place(network, point.copies, hardware=hardware).latency_ns
        assert timed is not None
        assert point.value == pytest.approx(timed)
        assert point.value_bound is not None
        assert point.value_bound <= point.value


def test_an_allocation_keeps_its_limits_and_its_objective(tmp_path: Path) -> None:
    """conv1 is held at one copy: its 4 windows take 4 steps and conv2 one more, whatever the arrays."""
    network, hardware = chain((16, 1), (16, 1)), machine(tmp_path)
    allocation = rramalloc.optimize(network, 4, hardware=hardware, copies=["conv1=1"], objective="interval")
    path = tmp_path / "a.json"
    allocation.save(path)
    made = rramalloc.explain(network, allocation=path, speedup=1.3)
    assert (made.objective, made.value) == ("interval", 4)
    assert made.faster.point is None
    latency = rramalloc.explain(network, allocation=path, objective="latency", speedup=1.3)
    assert latency.speedup is not None
    assert (latency.value, latency.speedup.point, latency.speedup.proven) == (5, None, True)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"arrays": 4, "allocation": {"conv1": 1}}, "leave it out beside allocation"),
        ({}, "arrays"),
        ({"arrays": 4, "speedup": 0.0}, "speedup"),
        ({"allocation": {"copies": {"conv1": 1}, "cycles": {"conv1": 2}}}, "cycles"),
        ({"allocation": {"conv9": 1}}, "conv9"),
    ],
)
def test_what_cannot_be_explained(given: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        rramalloc.explain(chain((16, 1)), **given)


def test_every_search_is_told_of() -> None:
    """By what is searched, with best and bound; the answer is the same."""
    told: list[tuple[str, int, int]] = []
    network = rramalloc.load("alexnet")
    given = {"arrays": 2000, "hardware": "isaac", "work": 1, "what_if": ["timing.dac_bits=2"]}
    found = rramalloc.explain(network, **given, on_progress=lambda *step: told.append(step))  # type: ignore[arg-type]
    names = [what for what, _, _ in told]
    assert names[0] == "an allocation"
    assert {"an allocation", "the next faster point", "what if timing.dac_bits=2"} <= {*names}
    assert all(bound <= best for _, best, bound in told)
    assert found == rramalloc.explain(network, **given)  # type: ignore[arg-type]


def test_a_target_of_the_interval_of_several_sequences_is_explained_by_the_latency(tmp_path: Path) -> None:
    """The interval of sequences that take turns follows from the latency and the busiest layer."""
    asked: dict[str, Any] = {"hardware": machine(tmp_path, "[timing]\nstep_ns = 4.0\n"), "work": 1}
    network = chain((16, 1), (16, 1), channels=16)
    found = rramalloc.optimize(network, 4, feeds_back=True, sequences=2, target_throughput=1e6, **asked)
    assert rramalloc.explain(network, allocation=found, work=1).objective == "latency"
