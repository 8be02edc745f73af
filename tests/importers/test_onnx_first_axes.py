"""First axes of inputs: a batch, rows of one input, or its images (docs/sources/model.md 14)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from importers.onnx_parts import info, ints, weight
from onnx import TensorProto, helper

from rramalloc.errors import UnsupportedError
from rramalloc.importers.onnx import from_model
from rramalloc.network import counts
from rramalloc.network.network import Network

Operators = Sequence[tuple[str, str, dict[str, Any]]]
ROUND = helper.make_graph(
    [helper.make_node("Add", ["s", "u"], ["s2"]), helper.make_node("Relu", ["s2"], ["v"])],
    "round",
    [helper.make_empty_tensor_value_info("s"), helper.make_empty_tensor_value_info("u")],
    [helper.make_empty_tensor_value_info("s2"), helper.make_empty_tensor_value_info("v")],
)
CONSTANTS = [
    weight("w", 8, 3, 3, 3),
    weight("w2d", 8, 6, 2, 2),
    weight("w3d", 8, 3, 2, 2, 2),
    weight("m8", 8, 8),
    weight("m32", 32, 5),
    weight("of_each", 4, 8),
    weight("bn", 8),
    weight("decays", 2, 4, 1),
    ints("heads", 2, 1, 4),
    weight("W", 1, 32, 8),
    weight("R", 1, 32, 8),
    weight("state", 8),
    ints("zero", 0),
    ints("one", 1),
    ints("two", 2),
    ints("three", 3),
    ints("four", 4),
    ints("pick", 2, 0),
    ints("flat", 1, -1),
    ints("split", 2, 2, 8),
]
CONSTANTS += [helper.make_tensor("last", TensorProto.INT64, [], [3])]
FRONT: Operators = [
    ("Conv", "x w", {"pads": [1, 1, 1, 1], "name": "front"}),
    ("GlobalAveragePool", "o", {}),
    ("Flatten", "o", {}),
]
"""A convolution of 216 weights on 4 frames of 8 x 8, then 8 values a frame, called f."""


def built(operators: Operators, inputs: Sequence[Any], opset: int = 18) -> Any:
    """Operators in order, each with inputs (o: the last output, oN: of number N) and attributes."""
    nodes: list[Any] = []
    for op, names, attributes in operators:
        taken = [f"o{len(nodes)}" if name == "o" else name for name in names.split()]
        outputs = [f"o{len(nodes) + 1}"] + ["unused"] * (op in ("TopK", "Scan"))
        nodes.append(helper.make_node(op, taken, outputs, **{"name": op.lower(), **attributes}))
    if nodes[-1].op_type == "Scan":
        nodes[-1].output[:] = ["final", nodes[-1].output[0]]
    nodes.append(helper.make_node("Identity", [nodes[-1].output[-1 if op == "Scan" else 0]], ["y"]))
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes,
        "graph",
        list(inputs),
        [helper.make_empty_tensor_value_info("y")],
        [tensor for tensor in CONSTANTS if tensor.name in used],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def load(operators: Operators, *inputs: Any, shapes: dict[str, Sequence[int]] | None = None) -> Network:
    return from_model(built(operators, inputs), "net.onnx", shapes or {})


MIXING: dict[str, Operators] = {  # of o3, 4 x 8: a value of 8 for each frame
    "mean": [("ReduceMean", "o zero", {})],
    "maximum": [("ReduceMax", "o zero", {})],
    "one frame": [("Gather", "o last", {})],
    "some frames": [("Gather", "o pick", {})],
    "difference": [("Slice", "o one four", {}), ("Slice", "o3 zero three", {}), ("Sub", "o4 o5", {})],
    "sums": [("CumSum", "o zero", {})],
    "recurrence": [("Unsqueeze", "o one", {}), ("LSTM", "o W R", {"hidden_size": 8})],
    "softmax": [("Softmax", "o", {"axis": 0}), ("Mul", "o o3", {})],
    "attention": [("Transpose", "o", {"perm": [1, 0]}), ("MatMul", "o3 o", {})],
    "Einsum": [("Einsum", "o o", {"equation": "ic,jc->ij"})],
    "pairs": [("Unsqueeze", "o zero", {}), ("Unsqueeze", "o3 one", {}), ("Sub", "o4 o5", {})],
    "features of all": [("Reshape", "o flat", {}), ("MatMul", "o m32", {})],
    "the best": [("TopK", "o two", {"axis": 0})],
    "halves": [("Reshape", "o split", {})],
    "scan": [("Scan", "state o", {"num_scan_inputs": 1, "body": ROUND})],
    "one behind the other": [("Concat", "o o", {"axis": 0})],
}


@pytest.mark.parametrize("case", MIXING)
def test_frames_that_are_mixed_are_images(case: str) -> None:
    """Whatever a convolution before them says: 4 images through it; an open number of them is asked for."""
    network = load([*FRONT, *MIXING[case]], info("x", 4, 3, 8, 8))
    assert str(network.shapes["x"]) == "4 images of 3 x 8 x 8"
    assert counts.windows(network, network.stages[0]) == 4 * 64
    assert not any("batch" in text for text in network.warnings)
    if case == "halves":  # of an odd number there are none
        return
    with pytest.raises(UnsupportedError, match=r"its shape is open: .*mixes the elements of the first axis"):
        load([*FRONT, *MIXING[case]], info("x", "N", 3, 8, 8))


@pytest.mark.parametrize("case", MIXING)
def test_rows_that_are_mixed_are_rows_of_one_input(case: str) -> None:
    """Without a convolution: 4 tokens, nodes or points through one matrix, 4 windows."""
    first: Operators = [("MatMul", "x m8", {"name": "front"}), ("Relu", "o", {}), ("Neg", "o", {})]
    network = load([*first, *MIXING[case]], info("x", 4, 8))
    assert counts.windows(network, network.stages[0]) == 4
    assert not any("batch" in text for text in network.warnings)


def test_normalisation_of_rows_is_no_evidence_of_a_batch() -> None:
    """Nodes of a graph: 20 rows, that edges gather; a batch norm on a batch of images is no mixing."""
    first: Operators = [("MatMul", "x m8", {"name": "front"}), ("BatchNormalization", "o bn bn bn bn", {})]
    edges = helper.make_tensor_value_info("edges", TensorProto.INT64, (50,))
    network = load([*first, ("Gather", "o edges", {}), ("MatMul", "o m8", {})], info("x", 20, 8), edges)
    assert [counts.windows(network, stage) for stage in network.stages] == [20, 50]
    images = load([*FRONT[:1], ("BatchNormalization", "o bn bn bn bn", {})], info("x", 4, 3, 8, 8))
    assert images.shapes["x"].pixels == 64
    assert images.warnings == ("input 'x' has a batch of 4: taken as 1, one input at a time",)


def test_patches_are_rows_of_a_linear_layer() -> None:
    """A kernel as large as a patch, in two dimensions or three, is a matrix of 24 x 8 on each of 16."""
    for dims, kernel in (((16, 6, 2, 2), "w2d"), ((16, 3, 2, 2, 2), "w3d")):
        strides = {"strides": [2] * (len(dims) - 2)}
        first: Operators = [("Conv", f"x {kernel}", strides), ("Flatten", "o", {}), ("Relu", "o", {})]
        network = load([*first, *MIXING["attention"]], info("x", *dims))
        assert [counts.windows(network, stage) for stage in network.stages] == [16]
        assert [counts.weights(network, stage) for stage in network.stages] == [192]


APART: dict[str, Operators] = {  # operators on o3 that keep all elements apart
    "a layer": [("MatMul", "o m8", {})],
    "softmax of classes": [("MatMul", "o m8", {}), ("Softmax", "o", {"axis": -1})],
    "a stored value of each": [("Add", "o of_each", {}), ("MatMul", "o m8", {})],
    "each picks for itself": [
        ("ArgMax", "o", {"axis": 1, "keepdims": 1}),
        ("GatherElements", "o3 o", {"axis": 1}),
    ],
}


@pytest.mark.parametrize("first", [4, "images"])
@pytest.mark.parametrize("case", APART)
def test_what_is_kept_apart_everywhere_is_a_batch(case: str, first: Any) -> None:
    network = load([*FRONT, *APART[case]], info("x", first, 3, 8, 8))
    assert counts.windows(network, network.stages[0]) == 64
    assert sum("a batch of 4" in text for text in network.warnings) == (first == 4)


@pytest.mark.parametrize("name", ["labels", "open"])
def test_a_vector_with_a_value_for_each_element_belongs_to_the_batch(name: str) -> None:
    """Labels are looked up and added to the images' features: one of each."""
    first = 4 if name == "labels" else "images"
    labels = helper.make_tensor_value_info("labels", TensorProto.INT64, (first,))
    tail: Operators = [("Gather", "m8 labels", {}), ("Add", "o3 o", {}), ("MatMul", "o m8", {})]
    network = load([*FRONT, *tail], info("x", first, 3, 8, 8), labels)
    assert [counts.windows(network, stage) for stage in network.stages] == [64, 1]
    assert str(network.shapes["labels"]) == "1 x 1 x 1"


def test_heads_with_a_stored_scale_each_are_no_batch() -> None:
    """A state of 2 heads, whose decays are stored, beside products of computed stacks."""
    step: Operators = [
        ("MatMul", "x m8", {}),
        ("Reshape", "o heads", {}),
        ("Mul", "s decays", {}),
        ("MatMul", "o2 o", {}),
    ]
    network = load(step, info("x", 1, 8), info("s", 2, 4, 4))
    assert network.shapes["s"].channels * network.shapes["s"].pixels == 32
    assert not any("batch" in text for text in network.warnings)


def test_a_shape_that_is_given_is_taken() -> None:
    """An open axis that is mixed counts with the length that is given."""
    first: Operators = [("MatMul", "x m8", {}), ("ReduceMean", "o zero", {})]
    network = load(first, info("x", "T", 8), shapes={"x": (6, 8)})
    assert counts.windows(network, network.stages[0]) == 6
