"""Generated networks, copies and search problems for the laws.

Hypothesis draws only a seed, and `random.Random` the rest: drawn field by field, most examples would be
single stages of one window, for which every law is trivial.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from pydantic import TypeAdapter

from rramalloc.mapping.demand import Storage
from rramalloc.mapping.modes import largest_block, smallest_block
from rramalloc.mapping.options import DEFAULT_MAPPING
from rramalloc.network.geometry import Shape
from rramalloc.network.network import Network
from rramalloc.network.node import Node
from rramalloc.rounding import EXACTLY
from rramalloc.search.problem import Problem
from rramalloc.timing.simulate import makespan_of_each
from rramalloc.timing.stage_graph import BatchTicks, StageGraph

CHAIN = ("conv", "conv", "conv", "conv", "maxpool", "relu", "upsample")
ANY = (
    *CHAIN,
    *CHAIN,
    "conv",
    "add",
    "mul",
    "concat",
    "add",
    "concat",
    "avgpool",
    "linear",
    "select",
    "take",
    "regrid",
    "input",
)
IMAGES = (
    *CHAIN, "conv", "conv_transpose", "add", "concat", "take", "barrier", "flatten", "global_avgpool",
    "linear", "raster", "windows", "strided", "merge", "reduce", "frames", "select", "stack", "along",
    "regrid",
)  # fmt: skip
ALL_PIXELS = ("global_avgpool", "flatten", "barrier", "global_maxpool")
MOST_ALLOCATIONS = 20_000
_NODE: TypeAdapter[Any] = TypeAdapter(Node)


class Seeded(Random):
    """A generator that a failing test can name."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.seed_value = seed

    def __repr__(self) -> str:
        return f"Seeded({self.seed_value})"


randoms: st.SearchStrategy[Random] = st.integers(0, 2**40).map(Seeded)


def random_network(
    random: Random, nodes: int = 8, extent: int = 7, ops: tuple[str, ...] = ANY + ALL_PIXELS, images: int = 1
) -> Network:
    """A network of up to `nodes` operators on inputs of up to `extent` pixels a side, at least one stage.

    Names are such that canonical order and file order differ. images: most of an input.
    """
    items = [_input("in0", random, extent)]
    if images > 1:
        items[0]["images"] = random.randint(2, images)
    shapes = {"in0": _shape(items[0], {})}
    for index in range(1, random.randint((nodes + 1) // 2, nodes) + 1):
        name = f"{random.choice('zab')}{index}"
        item = _node(random.choice(ops), name, random, shapes, extent, chain=ops == CHAIN)
        shape = _shape(item, shapes)
        if shape.pixels <= 2 * extent * extent * images:
            items, shapes[name] = [*items, item], shape
    if not any(item["op"] == "conv" for item in items):
        last = items[-1]["name"]
        items.append({"name": "last", "op": "conv", "inputs": [last], "out_channels": 2, "kernel": 1})
    return Network.build("random", items, source="generated")


def _shape(item: dict[str, Any], shapes: Mapping[str, Shape]) -> Shape:
    """Of the output: a network of all nodes so far would check those again for each that is added."""
    node: Node = _NODE.validate_python(item)
    return node.output_shape([shapes[name] for name in node.inputs])


def _input(name: str, random: Random, extent: int) -> dict[str, Any]:
    side = [random.randint(2, extent), random.randint(2, extent)]
    if random.random() < 0.15:
        side[random.randrange(2)] = 1
    return {"name": name, "op": "input", "shape": [random.choice((1, 2, 4)), *side]}


def _node(
    op: str, name: str, random: Random, shapes: Mapping[str, Shape], extent: int, *, chain: bool
) -> dict[str, Any]:
    if op == "input":
        return _input(name, random, extent)
    known = list(shapes)
    source = known[-1] if chain or random.random() < 0.6 else random.choice(known[-4:])
    shape = shapes[source]
    node: dict[str, Any] = {"name": name, "op": op, "inputs": [source]}
    if op in ("conv", "maxpool", "avgpool"):
        node |= _window(random, shape)
        if op == "conv":
            groups = random.choice([g for g in (1, 2, 4) if shape.channels % g == 0])
            node |= {"groups": groups, "out_channels": groups * random.randint(1, 2)}
        else:
            node["ceil_mode"] = random.random() < 0.5
    elif op in ("add", "mul", "concat"):
        node["inputs"] = [source, *_partners(op, random, shapes, shape)]
    elif op == "upsample":
        node["scale"] = random.choice(([1, 2], [2, 1], [2, 2], [3, 2]))
        node["mode"] = random.choice(("nearest", "linear", "cubic"))
        node["coordinates"] = random.choice(("asymmetric", "half_pixel", "align_corners"))
    elif op in _MOVES:
        node |= _moved(op, random, source, shape)
    elif op == "take":
        node |= {"rows": _runs(random, shape.height), "columns": _runs(random, shape.width)}
    elif op == "regrid":
        pixels = shape.height * shape.width
        high = random.choice(_divisors(pixels))
        node["grid"] = [high, pixels // high]
    elif op == "conv_transpose":
        node |= _transposed(random, shape)
    elif op == "linear":
        node["out_features"] = random.randint(1, 4)
    elif op == "select":
        node["channels"] = random.randint(1, 4)
    elif op == "barrier":
        node |= {"shape": _input(name, random, extent)["shape"]}
        node["inputs"] = random.sample(known, min(len(known), random.randint(1, 2)))
        counts = {shapes[name].images for name in node["inputs"]}
        if counts != {1}:
            kept = {"mixes_images": random.random() < 0.3}
            node |= kept if len(counts) == 1 else {"images": random.randint(1, 4)}
    return node


_MOVES = ("raster", "along", "windows", "strided", "merge", "reduce", "frames", "stack")


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def _moved(op: str, random: Random, source: str, shape: Shape) -> dict[str, Any]:
    """A node that changes the number of images, or their order."""
    if op == "reduce":
        return {"op": "reduce", "images": random.choice(_divisors(shape.images))}
    if op == "along":
        return {"op": "concat", "inputs": [source, source], "images": 2 * shape.images}
    if op == "frames":
        return {"op": "take", "of_images": _runs(random, shape.images) or [[0, shape.images, 1]]}
    if op == "stack":
        kinds = random.choice((
            {"op": "select", "channels": 2}, {"op": "flatten"}, {"op": "global_maxpool"},
        ))  # fmt: skip
        return kinds | {"images": random.choice(_divisors(shape.images))}
    high, wide = random.choice(_divisors(shape.height)), random.choice(_divisors(shape.width))
    images = shape.images * (shape.height // high) * (shape.width // wide)
    if op == "merge":
        down = random.choice(_divisors(shape.images))
        beside = random.choice(_divisors(shape.images // down))
        high, wide, images = shape.height * down, shape.width * beside, shape.images // (down * beside)
        op = random.choice(("windows", "strided"))
    elif op == "raster":
        wide = random.choice(_divisors(shape.pixels))
        high = random.choice(_divisors(shape.pixels // wide))
        images = shape.pixels // (wide * high)
    return {"op": "regrid", "grid": [high, wide], "images": images, "order": op}


def _runs(random: Random, extent: int) -> list[list[int]] | None:
    """Some rows or columns in any order, or none; now and then all as they are."""
    runs = []
    for _ in range(random.randint(0, 4)):
        first, count = random.randint(-1, extent - 1), random.randint(1, 4)
        steps = [s for s in range(-3, 4) if 0 <= first + s * (count - 1) < extent] if first >= 0 else [0]
        runs.append([first, count, random.choice(steps)])
    return runs or None


def _transposed(random: Random, shape: Shape) -> dict[str, Any]:
    """Any transposed convolution: kernels smaller than the stride, crops, dilation, groups."""
    groups = random.choice([g for g in (1, 2, 4) if shape.channels % g == 0])
    kernel, stride, dilation, pads, added = [], [], [], [0, 0, 0, 0], []
    for axis, extent in enumerate((shape.height, shape.width)):
        kernel.append(random.randint(1, 5))
        stride.append(random.randint(1, 4))
        dilation.append(random.choice((1, 1, 1, 2, 3)))
        added.append(random.randint(0, max(stride[-1], dilation[-1]) - 1))
        room = (extent - 1) * stride[-1] + (kernel[-1] - 1) * dilation[-1] + added[-1]
        pads[axis] = random.randint(0, min(room, 4))
        pads[axis + 2] = random.randint(0, min(room - pads[axis], 4))
    sizes = {"kernel": kernel, "stride": stride, "dilation": dilation, "pads": pads, "output_padding": added}
    return sizes | {"groups": groups, "out_channels": groups * random.randint(1, 2)}


def _window(random: Random, shape: Shape) -> dict[str, Any]:
    """Often a window that keeps the grid, else any kernel, stride, dilation and padding that fits."""
    if random.random() < 0.6:
        return random.choice(
            ({"kernel": 1}, {"kernel": 3, "pads": 1}, {"kernel": [1, 3], "pads": [0, 1, 0, 1]})
        )
    kernel, stride, dilation, before, after = [], [], [], [], []
    for extent in (shape.height, shape.width):
        first, last = random.choice((0, 0, 1, 1, 2, 4)), random.choice((0, 0, 1, 1, 2))
        kernel.append(random.randint(1, min(4, extent + first + last)))
        most = (extent + first + last - 1) // max(1, kernel[-1] - 1)
        dilation.append(random.randint(1, max(1, min(3, most))))
        stride.append(random.choice((1, 1, 1, 1, 2, 3)))
        before.append(first)
        after.append(last)
    return {"kernel": kernel, "stride": stride, "dilation": dilation, "pads": before + after}


def _partners(op: str, random: Random, shapes: Mapping[str, Shape], shape: Shape) -> list[str]:
    grid = (shape.height, shape.width)
    fitting = [
        name
        for name, other in shapes.items()
        if (other.height, other.width) in (grid, (1, 1))
        and other.images in (1, shape.images)
        and (op == "concat" or other.channels in (shape.channels, 1))
    ]
    return random.choices(fitting[-4:], k=random.randint(1, 2))


def random_blocks(random: Random, graph: StageGraph) -> list[tuple[int, int]]:
    """A block of every stage, [1, 1] for a linear layer."""
    blocks = []
    for stage in graph.stages:
        unit = smallest_block(stage)
        most = largest_block(stage, graph.network.shapes[stage.name])
        high, wide = (random.randint(1, min(m // u, 4)) * u for u, m in zip(unit, most, strict=True))
        blocks.append((high, wide))
    return blocks


def random_copies(random: Random, graph: StageGraph) -> npt.NDArray[np.int64]:
    """One copy, one per window, or anything between, for every stage."""
    copies = [
        random.choice((1, windows, random.randint(1, windows), random.randint(1, min(windows, 4))))
        for windows in graph.windows.tolist()
    ]
    return np.array(copies, dtype=np.int64)


def by_name(graph: StageGraph, copies: npt.NDArray[np.int64]) -> dict[str, int]:
    """Copies as a mapping."""
    return dict(zip(graph.names, copies.tolist(), strict=True))


@dataclass(frozen=True)
class Clocks:
    """Random ticks of a batch, some of which rise with the copies, and a random lag of every edge."""

    seed: int
    tick: int

    def __call__(self, stage: int, block: tuple[int, int]) -> BatchTicks:
        random = Random(f"{self.seed} {stage} {tuple(block[:2])}")
        compute = sorted(self.tick * random.randint(1, 16) for _ in range(random.choice((1, 1, 3))))
        return BatchTicks(tuple(compute), self.tick * random.choice((0, 0, 0.75, 4.0)))

    def length(self, stage: int, block: tuple[int, int], copies: int) -> int:
        """Ticks of a batch."""
        ticks = self(stage, block)
        compute = ticks.compute[min(copies, len(ticks.compute)) - 1]
        return max(compute, math.ceil(ticks.per_copy * copies * EXACTLY))

    def lag(self, producer: int, consumer: int) -> int:
        return self.tick * Random(f"{self.seed} {producer}-{consumer}").choice((0, 0, 1, 5, 30))

    def of(self, problem: Problem) -> Problem:
        """The problem with these clocks and lags."""
        edges = [(edge.producer, edge.consumer) for edge in problem.graph.edges]
        lags = {edge: self.lag(*edge) for edge in edges}
        return replace(problem, graph=problem.graph.timed(self).delayed(lags))


@dataclass(frozen=True, eq=False)
class Enumerated:
    """A problem with all its allocations (k x n) and their exact makespans."""

    problem: Problem
    allocations: npt.NDArray[np.int64]
    makespans: npt.NDArray[np.int64]

    @property
    def optimum(self) -> int:
        return int(self.makespans.min())

    @property
    def arrays(self) -> npt.NDArray[np.int64]:
        return self.allocations @ self.problem.demand

    def __repr__(self) -> str:
        graph = self.problem.graph
        return (
            f"demand {self.problem.demand.tolist()} of {graph.names} with {graph.windows.tolist()} windows, "
            f"budget {self.problem.budget}, optimum {self.optimum}, nodes {graph.network.to_dict()['nodes']}"
        )


def enumerated(
    nodes: int = 9, extent: int = 6, ops: tuple[str, ...] = ANY, stages: int = 6, tick: int = 0
) -> st.SearchStrategy[Enumerated]:
    """Problems so small that every allocation within the budget can be tried.

    tick: periods and lags of random multiples of it; 0: stages step together.
    """
    return randoms.map(lambda random: random_problem(random, nodes, extent, ops, stages, tick))


def random_problem(
    random: Random, nodes: int, extent: int, ops: tuple[str, ...], stages: int, tick: int = 0
) -> Enumerated:
    """At least two stages and, nine times in ten, a choice of hundreds of allocations."""
    while True:
        network = random_network(random, nodes, extent, ops)
        windows = _windows(network)
        demand = np.array([random.randint(1, 6) for _ in windows], dtype=np.int64)
        spare = random.choice((random.randint(1, 30), random.randint(20, 200)))
        spare, ways = most_spare(windows, demand, spare, MOST_ALLOCATIONS)
        enough = ways >= 300 or random.random() < 0.1
        if 2 <= len(windows) <= stages and windows.max() > 3 and enough:
            problem = Problem(
                StageGraph.build(network), demand, int(demand.sum()) + spare, Storage.of_copies(demand)
            )
            return enumerate_all(Clocks(random.randrange(2**30), tick).of(problem) if tick else problem)


def _windows(network: Network) -> npt.NDArray[np.int64]:
    """Of the stages that a StageGraph will have: three of four networks are refused for what these say."""
    names = {stage.name for stage in DEFAULT_MAPPING.timed_stages(network)}
    stages = [node for node in network.canonical_nodes if node.name in names]
    return np.array([network.shapes[stage.name].pixels for stage in stages], dtype=np.int64)


def enumerate_all(problem: Problem) -> Enumerated:
    """Every allocation that keeps to budget, windows and the problem's own bounds."""
    rows = _within_budget(problem)
    most = problem.graph.windows if problem.held.most is None else problem.held.most
    least = np.ones_like(most) if problem.held.least is None else problem.held.least
    rows = rows[((rows >= least) & (rows <= most)).all(axis=1)]
    return Enumerated(problem, rows, makespan_of_each(problem.graph, rows))


def _within_budget(problem: Problem) -> npt.NDArray[np.int64]:
    """Every allocation within the budget, in the order of their copies."""
    rows = np.zeros((1, 0), dtype=np.int64)
    spare = np.array([problem.budget - int(problem.demand.sum())])
    for windows, demand in zip(problem.graph.windows.tolist(), problem.demand.tolist(), strict=True):
        ways = np.minimum(windows, spare // demand + 1)
        before = np.repeat(np.arange(len(rows)), ways)
        more = np.arange(len(before)) - np.repeat(np.cumsum(ways) - ways, ways)
        rows, spare = np.column_stack([rows[before], more + 1]), spare[before] - more * demand
    return rows


def most_spare(
    windows: npt.NDArray[np.int64], demand: npt.NDArray[np.int64], spare: int, most: int
) -> tuple[int, int]:
    """Return the most arrays beyond one copy of each stage for so few allocations; how many these are."""
    ways = _ways(windows, demand, spare)
    while sum(ways[: spare + 1]) > most:
        spare -= 1
    return spare, sum(ways[: spare + 1])


def _ways(windows: npt.NDArray[np.int64], demand: npt.NDArray[np.int64], spare: int) -> list[int]:
    """Number of allocations that take exactly 0 ... `spare` arrays beyond one copy of each stage."""
    ways = [1] + [0] * spare
    for most, each in zip(windows.tolist(), demand.tolist(), strict=True):
        grown = [0] * (spare + 1)
        for used, count in enumerate(ways):
            if count:
                for copies in range(min(most, (spare - used) // each + 1)):
                    grown[used + copies * each] += count
        ways = grown
    return ways
