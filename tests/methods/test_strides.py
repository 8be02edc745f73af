"""`isaac` and `neurosim` on cases worked by hand."""

from __future__ import annotations

from typing import Any

import pytest
from methods.small import conv, copies, node, problem

from rramalloc.allocation.case import Case
from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.methods import isaac, neurosim_rule

pytestmark = pytest.mark.quick


def wanted(module: Any, extent: int, nodes: list[dict[str, Any]]) -> list[int]:
    stages = sum(item["op"] == "conv" for item in nodes)
    return copies(module, problem(extent, nodes, [1] * stages, 10**6))


def test_isaac_on_alexnet() -> None:
    """Strides 4 1 1 1 1, pooling by 2 after the first two: 1, 1, 1, then 2^2 * 1, then 2^2 * 4."""
    case = Case(load("alexnet_todaes"), load_hardware("plain")).problem(1024)
    assert copies(isaac, case) == [16, 4, 1, 1, 1]


def test_isaac_on_vgg_a() -> None:
    """Pooling by 2 after layers 1, 2, 4, 6 and 8; the last one feeds no other layer."""
    case = Case(load("vgg11"), load_hardware("plain")).problem(1024)
    assert copies(isaac, case) == [256, 64, 16, 16, 4, 4, 1, 1]


def test_isaac_takes_the_most_demanding_consumer() -> None:
    """a feeds b (stride 2, last: 4 pixels a step) and c (stride 1), which feeds d (stride 4, last: 16)."""
    nodes = [
        conv("a", "in"), conv("b", "a", stride=2), conv("c", "a"),
        conv("d", "c", stride=4),
    ]  # fmt: skip
    assert wanted(isaac, 16, nodes) == [16, 1, 16, 1]


def test_isaac_through_enlargement() -> None:
    """c (stride 4) takes 16 pixels a step of b, b takes 16 / 2^2 of a through the enlargement by 2."""
    nodes = [
        conv("a", "in"), node("up", "upsample", "a", scale=2), conv("b", "up"),
        conv("c", "b", stride=4),
    ]  # fmt: skip
    assert wanted(isaac, 8, nodes) == [4, 16, 1]


def test_isaac_rounds_up() -> None:
    """b (stride 3) takes 9 of an enlargement by 2: 9 / 4 pixels a step."""
    nodes = [conv("a", "in"), node("up", "upsample", "a", scale=2), conv("b", "up", stride=3)]
    assert wanted(isaac, 8, nodes) == [3, 1]


def test_isaac_behind_a_barrier() -> None:
    """Global pooling waits for all of a: no rate. Its single pixel times b: b's rate is c's, 2^2."""
    nodes = [
        conv("a", "in"), node("g", "global_avgpool", "a"), conv("b", "in"),
        {"name": "m", "op": "mul", "inputs": ["b", "g"]}, conv("c", "m", stride=2),
    ]  # fmt: skip
    assert wanted(isaac, 8, nodes) == [1, 4, 1]


def test_isaac_never_asks_for_more_than_windows() -> None:
    """b moves by 9 on a grid of 4 x 4: all its 16 pixels, not 81."""
    assert wanted(isaac, 4, [conv("a", "in"), conv("b", "a", stride=9)]) == [16, 1]


@pytest.mark.parametrize(
    ("extent", "expected"),
    [
        pytest.param(16, [64, 16, 4, 1], id="unit 2: 8^2, 4^2, 2^2, 1^2"),
        pytest.param(20, [45, 12, 3, 1], id="unit 3: 44.4, 11.1, 2.8, 0.4, rounded up"),
        pytest.param(8, [64, 16, 4, 1], id="unit 1: 8^2, 4^2, 2^2, 1^2"),
    ],
)
def test_neurosim(extent: int, expected: list[int]) -> None:
    """Rows halve from layer to layer: 20, 10, 5, 2."""
    nodes, source = [], "in"
    for index in range(4):
        nodes.append(conv(f"c{index}", source))
        nodes.append(node(f"p{index}", "maxpool", f"c{index}", kernel=2, stride=2))
        source = f"p{index}"
    assert wanted(neurosim_rule, extent, nodes[:-1]) == expected


def test_neurosim_counts_rows_of_the_input() -> None:
    """c1 reads 16 rows and has 8: ceil(16 / 8) = 2, 8^2 = 64 copies; c2 reads 8: 4^2."""
    assert wanted(neurosim_rule, 16, [conv("c1", "in", stride=2), conv("c2", "c1")]) == [64, 16]
