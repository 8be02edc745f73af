"""Finishes and arrays of an independent program (golden/modes.json), with blocks and with own clocks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rramalloc.hardware.loader import load_hardware
from rramalloc.mapping.demand import block_arrays
from rramalloc.network.network import Network
from rramalloc.timing.simulate import simulate
from rramalloc.timing.stage_graph import StageGraph

pytestmark = pytest.mark.quick

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "modes.json").read_text())["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["network"]["name"])
def test_modes(case: dict[str, Any]) -> None:
    network = Network.from_document(case["network"], "golden")
    graph = StageGraph.build(network)
    assert set(graph.names) == set(case["finish"])
    in_blocks = graph.in_blocks([tuple(case["block"][name]) for name in graph.names])
    copies = [case["copies"][name] for name in graph.names]
    timing = simulate(in_blocks, copies)
    assert dict(zip(graph.names, timing.finish.tolist(), strict=True)) == case["finish"]
    assert timing.makespan == case["makespan"]
    own = simulate(in_blocks, copies, cycles=[case["cycles"][name] for name in graph.names])
    assert dict(zip(graph.names, own.finish.tolist(), strict=True)) == case["finish_with_cycles"]
    assert own.makespan == case["makespan_with_cycles"]
    for lines, expected in case["arrays"].items():
        hardware = load_hardware("plain").with_crossbar(int(lines), int(lines))
        arrays = {
            stage.name: block_arrays(network, stage, hardware, grid.block).arrays(d)
            for stage, grid, d in zip(graph.stages, in_blocks.grids, copies, strict=True)
        }
        assert arrays == expected
