"""Simulators for tests: in Python with clocks that are known, and as scripts that behave and misbehave."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rramalloc.allocation.allocation import Allocation
from rramalloc.errors import SimulatorError
from rramalloc.network.network import Network
from rramalloc.timing.simulate import simulate
from rramalloc.timing.stage_graph import StageGraph

NODES = [
    {"name": "input", "op": "input", "shape": [3, 16, 16]},
    {"name": "conv1", "op": "conv", "inputs": ["input"], "out_channels": 16, "kernel": 3, "pads": 1},
    {"name": "pool1", "op": "maxpool", "inputs": ["conv1"], "kernel": 2, "stride": 2},
    {"name": "conv2", "op": "conv", "inputs": ["pool1"], "out_channels": 32, "kernel": 3, "pads": 1},
    {"name": "conv3", "op": "conv", "inputs": ["conv2"], "out_channels": 32, "kernel": 3, "pads": 1},
]
NETWORK = Network.build("toy", NODES)
GRAPH = StageGraph.build(NETWORK)
SUM = """
import json, sys
layers = json.load(open(sys.argv[1]))["layers"]
print("some words")
print(sum(layer["batches"] * (index + 1) for index, layer in enumerate(layers)))
"""
"""Stages one after the other: a batch of the first takes 1, of the second 2, and so on."""


class OwnClocks:
    """Exact time with these ticks a batch, and so many more for each copy; counts what it is asked."""

    def __init__(self, ticks: Sequence[int], per_copy: Sequence[int], graph: StageGraph = GRAPH) -> None:
        self.name = "own clocks"
        self.ticks, self.per_copy, self.graph = np.array(ticks), np.array(per_copy), graph
        self.asked: list[tuple[int, ...]] = []
        self._lock = threading.Lock()

    def evaluate(self, network: Network, allocation: Allocation) -> float:
        assert network.sha256 == self.graph.network.sha256
        copies = np.array([allocation.copies[name] for name in self.graph.names])
        with self._lock:
            self.asked.append(tuple(copies.tolist()))
        return float(simulate(self.graph, copies, "next", self.ticks + self.per_copy * copies).makespan)


class Faulty:
    """Fails where conv1 has an even number of copies; else the copies of conv1 are the figure."""

    name = "faulty"

    def evaluate(self, network: Network, allocation: Allocation) -> float:
        copies = allocation.copies["conv1"]
        if copies % 2 == 0:
            raise SimulatorError(f"{copies} is even")
        return float(copies)


def script(folder: Path, text: str, name: str = "simulator.py") -> str:
    """The command of a simulator with this text."""
    path = folder / name
    path.write_text(text)
    return f"{sys.executable} {path} {{allocation}}"
