"""Operators with very many inputs are read in time in proportion."""

from __future__ import annotations

import time
from typing import Any

import pytest
from importers.onnx_parts import info, weight
from onnx import helper

from rramalloc.importers.onnx import from_model
from rramalloc.network.node import Take

MOST_TIMES = 6.5  # for four times as many; what grew with the square took 8 to 16 times as long
SCOPES = {
    "pkg.torch.onnx.name_scopes": "['', 'act', 'relu']",
    "pkg.torch.onnx.class_hierarchy": "['M', 'torch.nn.modules.activation.ReLU', 'aten.relu']",
}


def wide(count: int, axis: int, *, is_named: bool) -> Any:
    """Activations of one convolution, joined along an axis; all of one module if they are named."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"])]
    for number in range(count):
        node = helper.make_node("Relu", ["c"], [f"r{number}"])
        for key, value in SCOPES.items() if is_named else ():
            node.metadata_props.add(key=key, value=value)
        nodes.append(node)
    nodes.append(helper.make_node("Concat", [f"r{number}" for number in range(count)], ["y"], axis=axis))
    outputs = [helper.make_empty_tensor_value_info("y")]
    graph = helper.make_graph(nodes, "wide", [info("x", 1, 3, 8, 8)], outputs, [weight("w", 4, 3, 3, 3)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def seconds(proto: Any) -> float:
    begun_s = time.process_time()
    from_model(proto, "wide.onnx", {})
    return time.process_time() - begun_s


@pytest.mark.parametrize(
    ("count", "axis", "is_named"),
    [(1200, 1, False), (250, 2, False), (800, 1, True)],
    ids=["along channels", "along the grid", "of one module"],
)
def test_many_inputs_are_read_in_proportion(count: int, axis: int, is_named: bool) -> None:
    few, many = (wide(times * count, axis, is_named=is_named) for times in (1, 4))
    seconds(few)  # the first one imports what it needs
    ratios = (seconds(many) / seconds(few) for _ in range(3))  # one quiet moment is enough
    assert any(ratio < MOST_TIMES for ratio in ratios)


def test_operands_along_the_grid_stand_one_behind_the_other() -> None:
    """Three of six rows each: the second takes no row, six rows, and no row."""
    network = from_model(wide(3, 2, is_named=False), "wide.onnx", {})
    taken = [node for node in network.nodes if isinstance(node, Take)]
    zeros = (-1, 6, 0)
    own = (0, 6, 1)
    assert [node.rows for node in taken] == [(own, (-1, 12, 0)), (zeros, own, zeros), ((-1, 12, 0), own)]
    assert str(network.shapes[network.nodes[-1].name]) == "4 x 18 x 6"
