"""Plans of segments against every cut and every allocation of small networks, by code of the test alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from laws.kinds import KindsCase
from laws.strategies import ALL_PIXELS, ANY, random_network, randoms

import rramalloc
from rramalloc.allocation.case import Case
from rramalloc.allocation.question import Question
from rramalloc.commands.reload.cut_search import CutSearch
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.options import DEFAULT_MAPPING
from rramalloc.network.network import Network
from rramalloc.search.work import Work
from rramalloc.timing.stage_graph import StageGraph

ROWS, COLUMNS = 8, 6
MOST_WAYS = 1500
KINDS = (
    ("im2col", ""),
    ("im2col", "own"),
    ("im2col", "memory"),
    ("sdk", ""),
    ("sdk", "own"),
    ("sdk", "memory"),
)
EACH_KIND = pytest.mark.parametrize(("mapping", "clock"), KINDS)
"""Mappings with common steps, with own clocks, and with own clocks and a bandwidth that stages share."""
SMALL = tuple(op for op in ANY + ALL_PIXELS if op != "input")


def machine(**tables: Any) -> Hardware:
    given: dict[str, Any] = {
        "name": "m",
        "source": "test",
        "crossbar": {"wordlines": ROWS, "bitlines": COLUMNS, "cell_bits": 8},
        "precision": {"weight_bits": 8, "input_bits": 8, "output_bits": 8, "signed": "offset"},
        "timing": {"step_ns": 10.0},
        "write": {"write_ns_per_row": 1.0, "parallel": 1},
    }
    return Hardware.model_validate(given | tables)


def shape_of(stage: Any, channels: int, block: tuple[int, int]) -> tuple[int, int, int]:
    """Rows and columns of a group, and groups, by the formulas of docs/sources/model.md 3 and 10."""
    sides = [
        len(
            {
                y * stage.stride[axis] + k * stage.dilation[axis]
                for y in range(block[axis])
                for k in range(stage.kernel[axis])
            }
        )
        for axis in (0, 1)
    ]
    groups = stage.groups
    return channels // groups * sides[0] * sides[1], block[0] * block[1] * stage.outputs // groups, groups


def rows_of(shape: tuple[int, int, int], copies: int, *, shared: bool) -> list[int]:
    """Wordlines in use of every array of some copies."""
    rows, columns, groups = shape
    room = min(ROWS // rows, COLUMNS // columns)
    if shared and room:
        every, each = copies * groups, 1
    elif groups > 1 and room:
        every, each = groups, copies
    else:
        high = [ROWS] * (rows // ROWS) + [rows % ROWS] * (rows % ROWS > 0)
        return high * (-(-columns // COLUMNS) * copies * groups)
    full, rest = divmod(every, room)
    return ([room * rows] * full + [rest * rows] * (rest > 0)) * each


def write_ns(rows: list[int], hardware: Hardware) -> float:
    assert hardware.write is not None
    lanes = hardware.write.parallel or 1
    fullest = sorted(rows, reverse=True)
    return sum(fullest[::lanes]) * hardware.write.write_ns_per_row


def ticks_of(
    shape: tuple[int, int, int], copies: int, stages: int, hardware: Hardware, *, shared: bool
) -> int:
    """Ticks of a batch, docs/sources/model.md 7 and 11; stages: that share the bandwidth."""
    timing, memory = hardware.timing, hardware.memory
    assert timing is not None
    if timing.clock != "own":
        return 1
    rows, columns, groups = shape
    room = min(ROWS // rows, COLUMNS // columns)
    together = min(room, groups * (copies if shared else 1)) or 1
    slots = math.ceil(8 / timing.dac_bits) * math.ceil(min(together * rows, ROWS) / timing.rows_per_read)
    access_ns = 0.0
    if memory is not None:
        moved = copies * (rows + columns) * groups
        access_ns = moved * (stages if memory.scope == "shared" else 1) / memory.bandwidth_gb_s
    return max(1, math.ceil(max(slots * timing.read_ns, access_ns) / timing.tick_ns))


class Segmented:
    """All modes of all stages, and the exact time of segments, straight from the definitions."""

    def __init__(self, network: Network, hardware: Hardware, arrays: int, mapping: str, inputs: int) -> None:
        self.hardware, self.arrays, self.mapping, self.inputs = hardware, arrays, mapping, inputs
        self.graph = StageGraph.build(network)
        self.network = network
        self.modes = [list(self._modes(stage)) for stage in range(len(self.graph.stages))]

    def _modes(self, stage: int) -> Iterator[tuple[tuple[int, int], int, list[int]]]:
        node = self.graph.stages[stage]
        shape = self.network.shapes[node.name]
        channels = self.network.shapes[node.inputs[0]].channels
        sdk = self.mapping == "sdk" and node.op == "conv"
        sizes = itertools.product(range(1, shape.height + 1), range(1, shape.width + 1)) if sdk else [(1, 1)]
        for block in sizes:
            total = -(-shape.height // block[0]) * -(-shape.width // block[1])
            for copies in range(1, total + 1):
                rows = rows_of(shape_of(node, channels, block), copies, shared=self.mapping == "sdk")
                if len(rows) > self.arrays:
                    break
                yield block, copies, rows

    def ways(self, first: int, last: int) -> int:
        return math.prod(len(modes) for modes in self.modes[first:last])

    def best(self, first: int, last: int) -> float:
        """Least time to write and run stages first ... last - 1."""
        best = math.inf
        for chosen in itertools.product(*self.modes[first:last]):
            rows = [each for mode in chosen for each in mode[2]]
            if len(rows) <= self.arrays:
                best = min(best, write_ns(rows, self.hardware) + self.run_ns(first, chosen))
        return best

    def run_ns(self, first: int, chosen: tuple[Any, ...]) -> float:
        """The definition of docs/sources/model.md 4 and 11, pixel by pixel of every block's last window."""
        finish: dict[str, np.ndarray] = {}
        makespan = interval = 0
        for stage, (block, copies, _) in enumerate(chosen, first):
            node = self.graph.stages[stage]
            shape = self.network.shapes[node.name]
            channels = self.network.shapes[node.inputs[0]].channels
            lines = shape_of(node, channels, block)
            ticks = ticks_of(lines, copies, len(chosen), self.hardware, shared=self.mapping == "sdk")
            across = -(-shape.width // block[1])
            done = np.zeros((shape.height, shape.width), dtype=np.int64)
            start, batches = -ticks, -(-(-(-shape.height // block[0]) * across) // copies)
            for batch in range(batches):
                pixels = [
                    (y, x)
                    for y in range(shape.height)
                    for x in range(shape.width)
                    if (y // block[0] * across + x // block[1]) // copies == batch
                ]
                ready = max(self._ready(stage, pixel, finish) for pixel in pixels)
                start = max(start + ticks, ready)
                for pixel in pixels:
                    done[pixel] = start + ticks
            finish[node.name] = done
            makespan, interval = max(makespan, start + ticks), max(interval, batches * ticks)
        timing = self.hardware.timing
        assert timing is not None
        unit_ns = timing.tick_ns if timing.clock == "own" else timing.step_ns
        return (makespan + (self.inputs - 1) * interval) * unit_ns

    def _ready(self, stage: int, pixel: tuple[int, int], finish: dict[str, np.ndarray]) -> int:
        """When all pixels of stages of the segment are there that a window needs, as maxima over a raster."""
        ready = 0
        for edge in self.graph.edges:
            producer = self.graph.names[edge.producer]
            if edge.consumer == stage and producer in finish:
                for extent in edge.extents:
                    row, column = int(extent.rows[pixel[0]]), int(extent.columns[pixel[1]])
                    if row >= 0 and column >= 0:
                        ready = max(ready, int(finish[producer][: row + 1, : column + 1].max()))
        return ready

    def optimum(self) -> float:
        """Least time of all cuts."""
        n = len(self.modes)
        least = [0.0] + [math.inf] * n
        for last in range(1, n + 1):
            for first in range(last):
                if sum(len(modes[0][2]) for modes in self.modes[first:last]) <= self.arrays:
                    least[last] = min(least[last], least[first] + self.best(first, last))
        return least[n]


def drawn(random: Random, mapping: str, clock: str) -> Segmented:
    """A network of at least two stages that has few enough allocations to try all."""
    while True:
        extent, nodes = (3, 4) if mapping == "sdk" else (4, 6)
        network = random_network(random, nodes, extent, SMALL)
        if not 2 <= len(network.stages) <= 4:
            continue
        tables: dict[str, Any] = {
            "write": {
                "write_ns_per_row": random.choice([0.0, 0.5, 3.0, 40.0]),
                "parallel": random.choice([1, 2, 5]),
            }
        }
        if clock:
            tables["timing"] = {
                "read_ns": 2.0,
                "dac_bits": random.choice([2, 8]),
                "rows_per_read": random.choice([1, 3]),
                "clock": "own",
                "tick_ns": 1.0,
            }
        if clock == "memory":
            bandwidth = random.choice([0.5, 2.0, 10.0])
            tables["memory"] = {"bandwidth_gb_s": bandwidth, "reuse": "none", "scope": "shared"}
        hardware = machine(**tables)
        case = Segmented(network, hardware, 10**6, mapping, 1)
        single = [len(modes[0][2]) for modes in case.modes]
        arrays = random.randint(max(single), sum(single) + 4)
        case = Segmented(network, hardware, arrays, mapping, random.choice([1, 1, 2, 7, 1000]))
        if case.ways(0, len(case.modes)) <= MOST_WAYS:
            return case


@EACH_KIND
@settings(max_examples=10)
@given(random=randoms)
def test_no_cuts_and_no_allocation_are_faster_than_the_bound(
    mapping: Any, clock: str, random: Random
) -> None:
    case = drawn(random, mapping, clock)
    plan = rramalloc.optimize_reload(
        case.network, case.arrays, hardware=case.hardware, mapping=mapping, inputs=case.inputs, work=5
    )
    optimum = case.optimum()
    assert plan.lower_bound <= optimum * (1 + 1e-9)
    assert plan.total_ns >= optimum * (1 - 1e-9)
    if plan.gap == 0:
        assert plan.total_ns == pytest.approx(optimum)
        assert plan.proof.startswith("proven optimal")
    assert plan.total_ns <= 1.1 * optimum
    names = [name for segment in plan.segments for name in segment.allocation.copies]
    assert sorted(names) == sorted(
        stage.name for stage in case.network.stages if stage.name in case.graph.names
    )
    assert all(segment.arrays <= case.arrays for segment in plan.segments)
    for segment, network in zip(plan.segments, plan.networks, strict=True):
        again = rramalloc.simulate(network, segment.allocation)
        assert (again.makespan, again.interval) == (segment.makespan, segment.interval)


@EACH_KIND
@settings(max_examples=10)
@given(random=randoms)
def test_no_segment_is_faster_than_its_bounds(mapping: Any, clock: str, random: Random) -> None:
    """Neither than the bound that takes no search, nor than that of little work."""
    case = drawn(random, mapping, clock)
    write = case.hardware.write
    assert write is not None
    plain = case.hardware.model_copy(update={"write": None})
    own = Case(case.graph.network, plain, DEFAULT_MAPPING.changed(mapping=mapping))
    search = CutSearch(own, write, case.arrays, Question(), Work(), case.inputs)
    for first, floors in enumerate(search.bounds):
        for length, floor in enumerate(floors.tolist(), 1):
            best = case.best(first, first + length)
            assert floor <= best
            objective = search.objective((first, first + length))
            candidate = objective.solve(Work(work=random.choice([1, 4])), 0)
            assert candidate.lower_bound <= best * (1 + 1e-9)
            assert objective.value_of(objective.problem.timing(candidate.choice)) >= best * (1 - 1e-9)


def chain(*channels: int, extent: int = 4, kernel: int = 1) -> Network:
    nodes: list[dict[str, Any]] = [{"name": "in", "op": "input", "shape": [channels[0], extent, extent]}]
    for number, outputs in enumerate(channels[1:], 1):
        nodes.append(
            {
                "name": f"conv{number}",
                "op": "conv",
                "inputs": [nodes[-1]["name"]],
                "out_channels": outputs,
                "kernel": kernel,
                "pads": kernel // 2,
            }
        )
    return Network.build("chain", nodes)


class TestByHand:
    """Two 1 x 1 convolutions of 8 x 6 weights on 16 windows, one array each, of 8 wordlines in use."""

    NETWORK = chain(8, 6, 6)

    def test_one_array(self) -> None:
        """conv1 writes 8 rows, conv2 6: 14 ns; each runs 16 steps of 10 ns for one input."""
        plan = rramalloc.optimize_reload(self.NETWORK, 1, hardware=machine())
        assert [segment.write_ns for segment in plan.segments] == [8.0, 6.0]
        assert [segment.run_ns for segment in plan.segments] == [160.0, 160.0]
        assert plan.total_ns == plan.lower_bound == 334.0
        assert plan.gap == 0
        assert plan.proof.startswith("proven optimal")

    def test_two_arrays(self) -> None:
        """Together they take 17 steps, apart with two copies each 8 steps and twice the rows."""
        plan = rramalloc.optimize_reload(self.NETWORK, 2, hardware=machine())
        assert [segment.stages for segment in plan.segments] == [2]
        assert plan.total_ns == plan.lower_bound == 8.0 + 6.0 + 170.0

    def test_two_arrays_and_many_inputs(self) -> None:
        """Both ways take 16 steps an input: apart twice the rows are written, and 2 * 8 + 99 * 16 steps."""
        plan = rramalloc.optimize_reload(self.NETWORK, 2, hardware=machine(), inputs=100)
        assert plan.total_ns == plan.lower_bound == 14.0 + (17 + 99 * 16) * 10.0

    def test_two_lanes(self) -> None:
        """Two copies are written in the time of one: apart 14 + 160 ns, together 8 + 170 ns."""
        write = {"write_ns_per_row": 1.0, "parallel": 2}
        plan = rramalloc.optimize_reload(self.NETWORK, 2, hardware=machine(write=write))
        assert [segment.write_ns for segment in plan.segments] == [8.0, 6.0]
        assert plan.total_ns == plan.lower_bound == 14.0 + 80.0 + 80.0

    def test_energy(self) -> None:
        """Reads: 16 of one array each; 14 rows; 2 mW of an array for 334 ns; half the rows for one of 2."""
        energy = {"read_pj": 3.0, "leakage_mw": 2.0}
        write = {"write_ns_per_row": 1.0, "write_pj": 5.0, "parallel": 1}
        plan = rramalloc.optimize_reload(self.NETWORK, 1, hardware=machine(energy=energy, write=write))
        assert (plan.dynamic_pj, plan.write_pj, plan.static_pj) == (96.0, 70.0, 668.0)
        assert plan.energy_pj == 96.0 + 70.0 + 668.0
        plan = rramalloc.optimize_reload(
            self.NETWORK, 1, hardware=machine(energy=energy, write=write), inputs=2
        )
        assert plan.write_pj == 35.0

    def test_energy_of_what_crosses_a_cut(self) -> None:
        """16 pixels of 6 bytes are written and read: 192 bytes of 2 pJ, beside 96 pJ of reads."""
        energy = {"read_pj": 3.0, "pj_per_byte": 2.0}
        plan = rramalloc.optimize_reload(self.NETWORK, 1, hardware=machine(energy=energy))
        assert plan.dynamic_pj == 96.0 + 2 * (16 * 6) * 2.0

    def test_gated_tiles(self) -> None:
        """A chip of 3 tiles of one array: one of them leaks at a time, not all three."""
        for idle, leaking in (("on", 3), ("gated", 1)):
            energy = {"leakage_mw": 2.0, "idle": idle}
            tiles = {"arrays_per_tile": 1, "tiles": [1, 3], "chips": [1, 1]}
            hardware = machine(energy=energy, chip=tiles)
            plan = rramalloc.optimize_reload(self.NETWORK, 1, hardware=hardware)
            assert plan.static_pj == 2.0 * leaking * 334.0

    def test_energy_that_is_not_given_is_not_there(self) -> None:
        plan = rramalloc.optimize_reload(self.NETWORK, 1, hardware=machine())
        assert plan.energy_pj is None
        assert "write_pj" not in plan.to_dict()


def test_digital_nodes_with_a_rate_run_in_their_segment() -> None:
    """16 windows of one tick, pooled one pixel after the other in 5 ticks each, then a second layer alone."""
    nodes = chain(8, 6, 6).to_dict()["nodes"]
    pool = {"name": "pool", "op": "maxpool", "inputs": ["conv1"], "kernel": 2, "stride": 2}
    nodes[2:] = [pool, nodes[2] | {"inputs": ["pool"]}]
    hardware = machine(
        timing={"step_ns": 1.0, "clock": "own", "tick_ns": 1.0}, digital={"ns_per_pixel": {"maxpool": 5.0}}
    )
    plan = rramalloc.optimize_reload(Network.build("n", nodes), 1, hardware=hardware)
    assert [(segment.first, segment.last) for segment in plan.segments] in (
        [("conv1", "pool"), ("conv2", "conv2")],
        [("conv1", "conv1"), ("pool", "conv2")],
    )
    assert plan.lower_bound <= plan.total_ns
    assert {name for segment in plan.segments for name in segment.allocation.copies} == {
        "conv1",
        "conv2",
    }


def of_kinds(random: Random) -> tuple[KindsCase, Hardware]:
    """Two layers on two kinds of arrays, or arrays and a digital unit, written in 1 or 2 lanes."""
    case = KindsCase.drawn(random)
    document = case.hardware.to_dict() | {
        "write": {"write_ns_per_row": 1.0, "parallel": random.choice((1, 2))}
    }
    if random.random() < 0.5:
        document["timing"] = {"step_ns": 10.0, "clock": "own", "tick_ns": 1.0}
        unit = {"macs_per_ns": random.choice((4.0, 32.0)), "area_um2": 90.0, "leakage_mw": 0.1}
        document["kinds"][0] = {"name": "small", "arrays": 1, "processor": unit | {"pj_per_mac": 1.0}}
    machine = Hardware.model_validate(document)
    return KindsCase(case.network, machine, case.by_area), machine


def writing_ns(part: Network, document: dict[str, Any], hardware: Hardware) -> float:
    """Time to write 1 x 1 layers: of a copy, rows are cut by wordlines and columns by bitlines."""
    each = dict(zip([kind.name for kind in hardware.kinds or ()], hardware.each_kind, strict=True))
    rows = list[int]()
    for stage in part.stages:
        own, channels = each[document["kind"][stage.name]], part.shapes[stage.inputs[0]].channels
        lines, across = own.crossbar.wordlines, -(-stage.outputs // own.crossbar.bitlines)
        of_copy = [min(lines, channels - first) for first in range(0, channels, lines)] * across
        rows += of_copy * document["copies"][stage.name] if own.processor is None else []
    return write_ns(rows, hardware)


@pytest.mark.parametrize("seed", range(12))
def test_kinds_against_every_cut_and_allocation(seed: int) -> None:
    """docs/sources/model.md 13 and 18: both layers in one segment, or one after the other; digital ones are
    not written."""
    random = Random(f"kinds {seed}")
    case, hardware = of_kinds(random)
    inputs, first = random.choice((1, 3)), case.network.shapes["s0"]
    alone = {"name": "s0", "op": "input", "shape": first.as_tuple()}
    nodes = case.network.to_dict()["nodes"]
    best = dict[str, float]()
    for name, chosen in (("both", nodes), ("s0", nodes[:2]), ("s1", [alone, nodes[2]])):
        part = KindsCase(Network.build(name, chosen), hardware, case.by_area)
        best[name] = min(
            (
                writing_ns(part.network, document, hardware)
                + (found.makespan + (inputs - 1) * found.interval) * (found.latency_ns or 0) / found.makespan
                for document, found in part.allocations()
            ),
            default=math.inf,
        )
    least = min(best["both"], best["s0"] + best["s1"])
    plan = rramalloc.optimize_reload(case.network, hardware=hardware, inputs=inputs, work=4)
    if not plan.cut_layers:
        assert plan.lower_bound <= least * (1 + 1e-9)
        assert plan.total_ns == pytest.approx(least)
        assert plan.arrays.by_kind is not None
