"""Step time, worked by hand (docs/sources/model.md 7)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rramalloc.hardware.hardware import Hardware
from rramalloc.network.network import Network
from rramalloc.timing.access import StepTime, bytes_of_block
from rramalloc.timing.stage_graph import StageGraph

pytestmark = pytest.mark.quick

NETWORK = Network.build(
    "two",
    [
        {"name": "in", "op": "input", "shape": [4, 9, 12]},
        {
            "name": "a", "op": "conv", "inputs": ["in"], "out_channels": 6,
            "kernel": [3, 5], "stride": [3, 2], "pads": [0, 2, 0, 2],
        },
        {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 8, "kernel": 1, "stride": [1, 3]},
    ],
)  # fmt: skip
GRAPH = StageGraph.build(NETWORK)
# a: height (9 - 3) / 3 + 1 = 3, width (12 + 4 - 5) // 2 + 1 = 6, 18 windows;
# b: 3 x ((6 - 1) // 3 + 1 = 2), 6 windows


def hardware(memory: dict[str, Any] | None, timing: dict[str, Any] | None) -> Hardware:
    tables: dict[str, Any] = {
        "name": "hand",
        "source": "made up",
        "crossbar": {"wordlines": 128, "bitlines": 128, "cell_bits": 1},
        "precision": {"weight_bits": 8, "input_bits": 12, "output_bits": 16, "signed": "offset"},
    }
    tables |= {} if memory is None else {"memory": memory}
    tables |= {} if timing is None else {"timing": timing}
    return Hardware(**tables)


@pytest.mark.parametrize(
    ("reuse", "first", "second"),
    [
        # a reads 3 * 5 * 4 = 60 values of 1.5 bytes and writes 6 of 2: 90 + 12; b reads 6: 9 + 16
        ("none", 102.0, 25.0),
        # a: 3 * min(2, 5) * 4 = 24 values, 36 + 12; b: 1 * min(3, 1) * 6 = 6 values, 9 + 16
        ("row", 48.0, 25.0),
        # a: 9 * 12 * 4 / 18 = 24 values, 36 + 12; b: 3 * 6 * 6 / 6 = 18 values, 27 + 16
        ("full", 48.0, 43.0),
    ],
)
@pytest.mark.parametrize("scope", ["per_layer", "shared"])
def test_access_time(reuse: str, scope: str, first: float, second: float) -> None:
    memory = {"bandwidth_gb_s": 4.0, "reuse": reuse, "scope": scope}  # 4 byte/ns
    machine = hardware(memory, {"step_ns": 100.0})
    assert [bytes_of_block(GRAPH.network, stage, (1, 1), machine) for stage in GRAPH.stages] == [
        first,
        second,
    ]
    step = StepTime.of(GRAPH, machine)
    assert step is not None
    assert step.step_ns(np.array([1, 1])) == 100.0
    access = (10 * first / 4, 6 * second / 4)  # d = 10 and 6
    expected = max(100.0, max(access) if scope == "per_layer" else sum(access))
    assert step.step_ns(np.array([10, 6])) == pytest.approx(expected)


def test_every_image_is_read_by_its_own_windows() -> None:
    """Reuse "full" reads V * H * W * C / (V * windows) values a window: those of one image."""
    nodes = [node.model_dump(mode="json") for node in NETWORK.nodes]
    several = Network.build("five", [nodes[0] | {"images": 5}, *nodes[1:]])
    machine = hardware({"bandwidth_gb_s": 4.0, "reuse": "full", "scope": "per_layer"}, {"step_ns": 100.0})
    assert [bytes_of_block(several, stage, (1, 1), machine) for stage in several.stages] == [48.0, 43.0]


def test_linear_layers_read_their_token() -> None:
    """10 features in, 20 out, on 7 tokens: 10 * 1.5 + 20 * 2 = 55 bytes under every reuse."""
    nodes = [
        {"name": "in", "op": "input", "shape": [10, 7, 1]},
        {"name": "fc", "op": "linear", "inputs": ["in"], "out_features": 20},
    ]
    graph = StageGraph.build(Network.build("tokens", nodes))
    for reuse in ("none", "row", "full"):
        machine = hardware({"bandwidth_gb_s": 1.0, "reuse": reuse, "scope": "shared"}, {"step_ns": 1.0})
        assert bytes_of_block(graph.network, graph.stages[0], (1, 1), machine) == 55.0
