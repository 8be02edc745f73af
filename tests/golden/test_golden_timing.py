"""Exact timings of an independent program (golden/timing.json) on random and on real networks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.mapping.demand import demands
from rramalloc.network.network import Network
from rramalloc.network.node import Conv
from rramalloc.timing.buffers import buffers
from rramalloc.timing.recurrence import recurrence
from rramalloc.timing.simulate import copies_by_name, makespan_of_each, simulate
from rramalloc.timing.stage_graph import StageGraph

pytestmark = pytest.mark.quick

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "timing.json").read_text())
SHIPPED = {entry["file"]: entry for entry in GOLDEN["shipped"]}
OWN_JSON = {
    "squeezenet": "light_squeezenet.onnx",
    "inception_v1": "light_inception_v1.onnx",
    "densenet121": "light_densenet121.onnx",
    "shufflenet": "light_shufflenet.onnx",
    "vgg19": "light_vgg19.onnx",
}


def demand_of(network: Network, names: list[str], lines: int) -> list[int]:
    hardware = load_hardware("plain").with_crossbar(lines, lines)
    stages = {stage.name: stage for stage in network.stages}
    return demands(network, tuple(stages[name] for name in names), hardware)


@pytest.mark.parametrize("case", GOLDEN["random"], ids=lambda case: case["network"]["name"])
def test_random_network(case: dict[str, Any]) -> None:
    network = Network.from_document(case["network"], "golden")
    graph = StageGraph.build(network)
    timing = simulate(graph, copies_by_name(graph, case["copies"], "golden"))
    assert set(graph.names) == set(case["finish"])
    assert dict(zip(graph.names, timing.finish.tolist(), strict=True)) == case["finish"]
    assert timing.makespan == case["makespan"]
    assert makespan_of_each(graph, timing.copies[None, :]).tolist() == [case["makespan"]]
    names = list(case["demand_128"])
    assert demand_of(network, names, 128) == [case["demand_128"][name] for name in names]
    assert (recurrence(graph, timing.copies).op <= timing.finish).all()


def check_shipped(network: Network, entry: dict[str, Any]) -> None:
    """Windows, demand and every timing, convolutions in file order."""
    graph = StageGraph.build(network)
    names = [node.name for node in network.nodes if isinstance(node, Conv)]
    assert [network.shapes[name].pixels for name in names] == entry["windows"]
    assert demand_of(network, names, 128) == entry["demand_128"]
    assert demand_of(network, names, 256) == entry["demand_256"]
    assert set(names) == set(graph.names)
    for case in entry["cases"]:
        copies = dict(zip(names, case["copies"], strict=True))
        timing = simulate(graph, copies_by_name(graph, copies, "golden"))
        finish = dict(zip(graph.names, timing.finish.tolist(), strict=True))
        assert [finish[name] for name in names] == case["finish"]
        assert timing.makespan == case["makespan"]
        assert (recurrence(graph, timing.copies).op <= timing.finish).all()
        windows = dict(zip(graph.names, graph.windows.tolist(), strict=True))
        assert all(1 <= item.buffer_pixels <= windows[item.producer] for item in buffers(timing, 16).edges)
    rows = [
        [dict(zip(names, case["copies"], strict=True))[n] for n in graph.names] for case in entry["cases"]
    ]
    assert makespan_of_each(graph, np.array(rows)).tolist() == [case["makespan"] for case in entry["cases"]]


@pytest.mark.parametrize("file", SHIPPED)
def test_onnx_file(file: str) -> None:
    onnx = pytest.importorskip("onnx")
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    check_shipped(load(folder / file), SHIPPED[file])


@pytest.mark.parametrize("name", OWN_JSON)
def test_shipped_network_equals_its_onnx_file(name: str) -> None:
    check_shipped(load(name), SHIPPED[OWN_JSON[name]])
