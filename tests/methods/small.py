"""Small problems whose allocations can be worked out by hand."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from laws.strategies import Enumerated, enumerate_all

from rramalloc.mapping.demand import Storage
from rramalloc.network.network import Network
from rramalloc.search.problem import Problem
from rramalloc.search.work import Work
from rramalloc.timing.stage_graph import StageGraph


def node(name: str, op: str, source: str, **fields: Any) -> dict[str, Any]:
    """A node with one input."""
    return {"name": name, "op": op, "inputs": [source]} | fields


def conv(name: str, source: str, **fields: Any) -> dict[str, Any]:
    """A convolution of one channel, 1 x 1 unless told otherwise."""
    return node(name, "conv", source, **{"out_channels": 1, "kernel": 1} | fields)


def problem(extent: int, nodes: list[dict[str, Any]], demand: list[int], budget: int) -> Problem:
    """A problem on a square input called "in"; demand in canonical order, which is that of the names."""
    items = [{"name": "in", "op": "input", "shape": [1, extent, extent]}, *nodes]
    graph = StageGraph.build(Network.build("small", items))
    arrays = np.array(demand, dtype=np.int64)
    return Problem(graph, arrays, budget, Storage.of_copies(arrays))


def pyramid(demand: list[int], budget: int) -> Problem:
    """64, 16 and 4 windows: 1 x 1 convolutions with pooling by 2 between them."""
    nodes = [
        conv("c1", "in"), node("p1", "maxpool", "c1", kernel=2, stride=2),
        conv("c2", "p1"), node("p2", "maxpool", "c2", kernel=2, stride=2), conv("c3", "p2"),
    ]  # fmt: skip
    return problem(8, nodes, demand, budget)


def valley(demand: list[int], budget: int) -> Problem:
    """64, 25 and 16 windows: a 1 x 1, a 4 x 4 and a 2 x 2 convolution without padding."""
    nodes = [conv("c1", "in"), conv("c2", "c1", kernel=4), conv("c3", "c2", kernel=2)]
    return problem(8, nodes, demand, budget)


def copies(module: Any, case: Problem, seed: int = 0) -> list[int]:
    """What a method asks for."""
    return module.solve(case, Work(), seed).choice.copies.tolist()


def chain(count: int, extent: int = 8) -> Network:
    """Equal 3 x 3 convolutions of 16 channels in a row."""
    nodes: list[dict[str, Any]] = [{"name": "in", "op": "input", "shape": [16, extent, extent]}]
    for number in range(count):
        nodes.append(conv(f"c{number}", nodes[-1]["name"], out_channels=16, kernel=3, pads=1))
    return Network.build("chain", nodes)


def random_chain(random: Random) -> Enumerated:
    """Square convolutions and pools in a row, which the published recurrence covers; all allocations."""
    nodes: list[dict[str, Any]] = []
    extent = side = random.randint(3, 6)
    source = "in"
    for index in range(random.randint(2, 4)):
        kernel = random.choice((1, 3))
        nodes.append(conv(f"c{index}", source, kernel=kernel, pads=kernel // 2))
        source = f"c{index}"
        if side >= 4 and random.random() < 0.5:
            nodes.append(node(f"p{index}", "maxpool", source, kernel=2, stride=2))
            source, side = f"p{index}", side // 2
    stages = sum(item["op"] == "conv" for item in nodes)
    demand = [random.randint(1, 4) for _ in range(stages)]
    return enumerate_all(problem(extent, nodes, demand, sum(demand) + random.randint(0, 16)))
