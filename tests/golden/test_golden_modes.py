"""Finishes and arrays of an independent program (golden/modes.json), with blocks and with own clocks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rramalloc
from rramalloc.hardware.loader import load_hardware
from rramalloc.mapping.demand import block_arrays
from rramalloc.network.network import Network
from rramalloc.timing.simulate import simulate
from rramalloc.timing.stage_graph import StageGraph

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "modes.json").read_text())["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["network"]["name"])
def test_modes(case: dict[str, Any]) -> None:
    network = Network.from_document(case["network"], "golden")
    graph = StageGraph.build(network)
    assert set(graph.names) == set(case["finish"])
    in_blocks = graph.in_blocks([tuple(case["block"][name]) for name in graph.names])
    copies = [case["replication"][name] for name in graph.names]
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


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["network"]["name"])
def test_the_api_says_the_same(case: dict[str, Any]) -> None:
    network = Network.from_document(case["network"], "golden")
    modes = {"replication": case["replication"], "block": case["block"]}
    for lines, expected in case["arrays"].items():
        simulation = rramalloc.simulate(network, modes, crossbar=f"{lines}x{lines}")
        assert {layer.name: layer.finish for layer in simulation.layers} == case["finish"]
        assert {layer.name: layer.arrays for layer in simulation.layers} == expected
        assert {layer.name: [*(layer.block or ())] for layer in simulation.layers} == case["block"]
        assert simulation.arrays == sum(expected.values())
        assert simulation.recurrence <= simulation.makespan == case["makespan"]
    own = rramalloc.simulate(network, modes | {"cycles": case["cycles"]})
    assert {layer.name: layer.finish for layer in own.layers} == case["finish_with_cycles"]
    assert {layer.name: layer.cycles for layer in own.layers} == case["cycles"]
    assert own.recurrence <= own.makespan == case["makespan_with_cycles"]
