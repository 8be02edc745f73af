"""Inputs of an ONNX model: open axes, batch, weights in every place a file may keep them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from importers.onnx_parts import FLOAT, info, ints, weight
from onnx import TensorProto, helper, numpy_helper

import rramalloc
from rramalloc.cli.parameters import parse_input_shapes
from rramalloc.errors import RramallocError, SpecError, UnsupportedError
from rramalloc.importers.onnx import from_model
from rramalloc.network import counts
from rramalloc.network.counts import weights
from rramalloc.network.network import Network


def model(nodes: Sequence[Any], inputs: Sequence[Any], constants: Sequence[Any] = (), opset: int = 17) -> Any:
    output = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph(list(nodes), "graph", list(inputs), [output], list(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def load(proto: Any, shapes: dict[str, Sequence[int]] | None = None) -> Network:
    return from_model(proto, "dir/net.v2.onnx", shapes or {})


CONV = helper.make_node("Conv", ["x", "w"], ["y"], name="conv")
W = weight("w", 4, 3, 3, 3)


def test_fixed_batch_is_taken_as_one_with_a_warning() -> None:
    """The batch may stand in reshape targets: (16, -1), (16, 144), (-1, 144), (0, 144)."""
    for target in ((16, -1), (16, 144), (-1, 144), (0, 144), (0, -1)):
        nodes = [
            helper.make_node("Conv", ["x", "w"], ["c"]),
            helper.make_node("Reshape", ["c", "r"], ["f"]),
            helper.make_node("Gemm", ["f", "g"], ["y"]),
        ]
        constants = [W, ints("r", *target), weight("g", 144, 10)]
        network = load(model(nodes, [info("x", 16, 3, 8, 8)], constants))
        assert [node.op for node in network.nodes] == ["input", "conv", "flatten", "linear"]
        assert network.warnings == ("input 'x' has a batch of 16: taken as 1, one input at a time",)


@pytest.mark.parametrize(
    "dims", [("N", 3, "H", "W"), ("N", 3, -1, 0), (1, 3, 8, "W")], ids=["names", "no length", "one open"]
)
def test_open_axes_need_a_shape(dims: tuple[Any, ...]) -> None:
    proto = model([CONV], [info("x", *dims)], [W])
    with pytest.raises(
        UnsupportedError, match=r"input 'x': its shape is open.*--input-shape x=1,3,|N,3,"
    ) as caught:
        load(proto)
    assert "--input-shape x=" in str(caught.value)
    assert str(load(proto, {"x": (1, 3, 8, 10)}).shapes["conv"]) == "4 x 6 x 8"


def test_the_example_of_a_shape_has_one_input_in_its_batch() -> None:
    """As states of recurrent layers: 2 layers, a batch, 4 values."""
    with pytest.raises(UnsupportedError, match=r"--input-shape x=2,1,4 "):
        load(model([CONV], [info("x", 2, "batch_size", 4)], [W]))


def test_all_open_inputs_are_asked_for_at_once() -> None:
    """Axes of one name are equally long in the examples, which are followed as they stand."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Add", ["a", "z"], ["b"]),
        helper.make_node("Concat", ["past", "b"], ["y"], axis=1),
    ]
    inputs = [info("x", "batch", "T", 4), info("z", "batch", "T", 6), info("past", "batch", "P", 6)]
    proto = model(nodes, inputs, [weight("w", 4, 6)])
    with pytest.raises(UnsupportedError, match=r"'x': its shape is open: .*convert FILE OUT.json") as caught:
        load(proto)
    options = re.findall(r"--input-shape (\S+)", str(caught.value))
    network = load(proto, parse_input_shapes(options))
    assert [counts.windows(network, stage) for stage in network.stages] == [128]


def test_messages_in_python_name_arguments(tmp_path: Path) -> None:
    """Not options: a shape and a value are items of a mapping, and what is partial a flag."""
    onnx.save(model([CONV], [info("x", 1, 3, "H", "W"), info("w", 4, 3, 3, 3)], []), tmp_path / "net.onnx")
    with pytest.raises(UnsupportedError) as caught:
        rramalloc.load(tmp_path / "net.onnx")
    assert "for example input_shapes={'x': (1, 3, 224, 224)} here" in str(caught.value)
    assert "--input-shape x=1,3,224,224 here" in caught.value.on_terminal
    chosen = helper.make_node("Own", ["x", "m"], ["y"], domain="own")
    proto = model([chosen], [info("x", 1, 3, 8, 8)], [weight("m", 4, 4)])
    proto.graph.output[0].CopyFrom(info("y", 1, 3, 8, 8))
    with pytest.raises(UnsupportedError, match="give allow_partial=True, or host with their names"):
        rramalloc.load(proto)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"z": (1, 3, 8, 8)}, r"'z': the model has no such input; its inputs are 'x' \(N x 3 x H x W\)"),
        ({"x": (3, 8, 8)}, "got 3 lengths, the input has 4"),
        ({"x": (1, 5, 8, 8)}, "got 5 where the file fixes 3"),
        ({"x": (1, 3, 10**18, 8)}, "got 10+, a length is"),
        ({"x": (1, 3, True, 8)}, "got True"),
    ],
)
def test_given_shapes_are_checked(shapes: Any, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        load(model([CONV], [info("x", "N", 3, "H", "W")], [W]), shapes)


def constant(name: str, tensor: Any) -> Any:
    return helper.make_node("Constant", [], [name], value=tensor)


WEIGHTS = {
    "initializer": ([], [], [W]),
    "input only": ([], [info("w", 4, 3, 3, 3)], []),
    "Constant": ([constant("w", W)], [], []),
    "Transpose": (
        [helper.make_node("Transpose", ["v"], ["w"], perm=[3, 2, 0, 1])],
        [],
        [weight("v", 3, 3, 3, 4)],
    ),
    "Unsqueeze": (
        [helper.make_node("Unsqueeze", ["v", "s"], ["w"])],
        [],
        [weight("v", 3, 3, 3), ints("s", 0)],
    ),
    "DequantizeLinear": (
        [helper.make_node("DequantizeLinear", ["v", "s"], ["w"])],
        [],
        [helper.make_tensor("v", TensorProto.INT8, [4, 3, 3, 3], bytes(108), raw=True), weight("s")],
    ),
    "scaled": (
        [helper.make_node("Mul", ["v", "s"], ["w"])],
        [],
        [weight("v", 4, 3, 3, 3), weight("s", 4, 1, 1, 1)],
    ),
}


@pytest.mark.parametrize("place", WEIGHTS)
def test_places_of_weights(place: str) -> None:
    """Only the shape of weights matters, wherever they come from."""
    nodes, inputs, constants = WEIGHTS[place]
    network = load(model([*nodes, CONV], [info("x", 1, 3, 8, 8), *inputs], constants))
    conv: Any = network.stages[0]
    assert conv.kernel == (3, 3)
    assert conv.out_channels == (1 if place == "Unsqueeze" else 4)
    assert [node.op for node in network.nodes] == ["input", "conv"]


HEAD = [
    helper.make_node("Conv", ["x", "w"], ["c"]),
    helper.make_node("Reshape", ["c", "s"], ["f"]),
    helper.make_node("Transpose", ["f"], ["t"], perm=[0, 2, 1]),
]
"""36 tokens of 4 values: a convolution of 3 * 3 * 3 * 4 weights on 6 x 6 pixels before them."""
WITHOUT_VALUES = {
    # operators on t; inputs without values; weights of the layers behind the convolution, and products of the
    # operators where the inputs are data
    "the other side": ([("MatMul", "m t", {})], {"m": (5, 36)}, [180], 5 * 36 * 4),
    "Cast, Reshape": (
        [("Cast", "m", {"to": FLOAT}), ("Reshape", "o q", {}), ("MatMul", "t o", {})],
        {"m": (2, 10)},
        [20],
        36 * 4 * 5,
    ),
    "bias, scale": (
        [("MatMul", "t m", {}), ("Mul", "o b", {}), ("Add", "o d", {})],
        {"m": (4, 5), "b": (5,), "d": (1, 1, 5)},
        [20],
        36 * 4 * 5,
    ),
    "Gemm's first": ([("Flatten", "t", {}), ("Gemm", "m o", {"transB": 1})], {"m": (5, 144)}, [720], 5 * 144),
    "Einsum": ([("Einsum", "t m", {"equation": "btc,chd->bthd"})], {"m": (4, 2, 5)}, [40], 36 * 4 * 10),
    "stack": (
        [("Reshape", "t p", {}), ("Transpose", "o", {"perm": [0, 2, 1, 3]}), ("MatMul", "o m", {})],
        {"m": (2, 2, 5)},
        [20],
        2 * 36 * 2 * 5,
    ),
    "LSTM": (
        [("Transpose", "t", {"perm": [1, 0, 2]}), ("LSTM", "o m r b", {"hidden_size": 8})],
        {"m": (1, 32, 4), "r": (1, 32, 8), "b": (1, 64)},
        [128, 256],
        36 * (128 + 256),
    ),
    "layer normalisation": (
        [("LayerNormalization", "t b b", {}), ("MatMul", "o m", {})],
        {"m": (4, 5), "b": (4,)},
        [20],
        36 * 4 * 5,
    ),
    "attention": (
        [("Attention", "t m b", {"domain": "com.microsoft", "num_heads": 2})],
        {"m": (4, 12), "b": (12,)},
        [48],
        36 * 4 * 12 + 2 * 36 * 36 * 4,
    ),
}


def in_order(operators: Any) -> list[Any]:
    """HEAD and these operators on t, each a name, inputs (o: the last output) and attributes."""
    nodes = [*HEAD]
    for op, names, attributes in operators:
        taken = [nodes[-1].output[0] if name == "o" else name for name in names.split()]
        nodes.append(helper.make_node(op, taken, [f"o{len(nodes)}"], **attributes))
    return [*nodes, helper.make_node("Identity", nodes[-1].output[:1], ["y"])]


def inputs_and_products(network: Network) -> tuple[set[str], int]:
    """Names of the inputs, and multiply-accumulates of products of two computed tensors."""
    products = sum(getattr(node, "dynamic_macs", None) or 0 for node in network.nodes)
    return {node.name for node in network.nodes if node.op == "input"}, products


@pytest.mark.parametrize("case", WITHOUT_VALUES)
def test_inputs_without_values_are_weights_where_the_file_stores_none(case: str) -> None:
    """As in a file exported without parameters: a weight where an operator uses it as one, with a note."""
    operators, inputs, behind, products = WITHOUT_VALUES[case]
    nodes = in_order(operators)
    constants = [ints("s", 1, 4, 36), ints("p", 1, 36, 2, 2), ints("q", 4, 5)]
    own = [info(name, *dims) for name, dims in inputs.items()]
    given = [info("x", 1, 3, 8, 8), info("w", 4, 3, 3, 3), *own]
    for order in (given, given[::-1]):  # whichever stands first
        network = load(model(nodes, order, constants))
        assert [weights(network, stage) for stage in network.stages] == [108, *behind]
        assert inputs_and_products(network)[0] == {"x"}
        assert "the file stores no weights; where one is data" in network.warnings[0]
    network = load(model(nodes, [given[0], *own], [W, *constants]))
    assert inputs_and_products(network)[1] == products
    assert [weights(network, stage) for stage in network.stages] == [108]
    assert {"x", "m"} <= inputs_and_products(network)[0]
    assert "taken as data, not as weights, because the file stores" in network.warnings[0]


KERNELS = {  # operators on c, 4 x 6 x 6, with a kernel or a matrix m that is an input; its shape; products
    "depthwise": ([("Conv", "c m", {"group": 4})], (4, 1, 3, 3), 4 * 4 * 4 * 9),
    "strided": ([("Conv", "c m", {"strides": [2, 2], "pads": [1] * 4})], (5, 4, 3, 3), 5 * 3 * 3 * 36),
    "transposed": ([("ConvTranspose", "c m", {"strides": [2, 2]})], (4, 2, 3, 3), 36 * 4 * 2 * 9),
    "fused": (
        [("FusedConv", "c m", {"activation": "Relu", "domain": "com.microsoft"})],
        (2, 4, 3, 3),
        2 * 16 * 36,
    ),
    "quantised": ([("QLinearConv", "c u z m u z u z", {})], (2, 4, 3, 3), 2 * 16 * 36),
    "whole numbers": ([("ConvInteger", "c m", {})], (2, 4, 3, 3), 2 * 16 * 36),
    "few bits": (
        [("MatMulNBits", "t m u", {"N": 5, "K": 4, "bits": 4, "domain": "com.microsoft"})],
        (5, 1, 8),
        36 * 4 * 5,
    ),
    "quantised product": ([("QLinearMatMul", "t u z m u z u z", {})], (4, 5), 36 * 4 * 5),
    "product of whole numbers": ([("MatMulInteger", "t m", {})], (4, 5), 36 * 4 * 5),
    "Gemm, both turned": (
        [("Flatten", "c", {"axis": 2}), ("Gemm", "o m", {"transA": 1, "transB": 1})],
        (5, 4),
        36 * 4 * 5,
    ),
    "one of stacked caches": (
        [("Gather", "m first", {}), ("Transpose", "o", {"perm": [0, 2, 1]}), ("MatMul", "t o", {})],
        (3, 1, 7, 4),
        36 * 4 * 7,
    ),
    "a slice of stacked caches": (
        [("Slice", "m zero one zero", {}), ("Reshape", "o cache", {}), ("MatMul", "t o", {})],
        (3, 4, 7),
        36 * 4 * 7,
    ),
}


@pytest.mark.parametrize("case", KERNELS)
def test_a_kernel_that_is_an_input_is_data_beside_stored_weights(case: str) -> None:
    """A tracker's kernel, prototypes, caches: its product is dynamic, and all of its axes count."""
    operators, dims, products = KERNELS[case]
    constants = [W, ints("s", 1, 4, 36), weight("u"), ints("zero", 0), ints("one", 1), ints("cache", 1, 4, 7)]
    constants += [numpy_helper.from_array(np.array(0), "first"), numpy_helper.from_array(np.uint8(0), "z")]
    network = load(model(in_order(operators), [info("x", 1, 3, 8, 8), info("m", *dims)], constants))
    assert [weights(network, stage) for stage in network.stages] == [108]
    assert inputs_and_products(network) == ({"x", "m"}, products)
    assert network.shapes["m"].channels * network.shapes["m"].pixels == np.prod(dims)


@pytest.mark.parametrize("dims", [(), (4,), (4, 1), (4, 1, 3, 3, 3), (4, 1, 30, 3), (5, 3, 3, 3)])
def test_kernels_that_do_not_fit(dims: tuple[int, ...]) -> None:
    for op in ("Conv",) if 30 in dims else ("Conv", "ConvTranspose"):
        nodes = in_order([(op, "c m", {"group": 4, "pads": [2, 2, 2, 2]})])
        with pytest.raises(RramallocError, match=r"do not fit data|larger than data|covers"):
            load(model(nodes, [info("x", 1, 3, 8, 8), info("m", *dims)], [W, ints("s", 1, 4, 36)]))


STORED = {  # nodes that make w, the inputs and the constants, and a function or a branch that holds the layer
    "initializer": ([], [], [W]),
    "initializer and input": ([], [info("w", 4, 3, 3, 3)], [W]),
    "Constant": ([constant("w", W)], [], []),
    "dequantised": WEIGHTS["DequantizeLinear"],
    "scaled": WEIGHTS["scaled"],
}


@pytest.mark.parametrize("place", [*STORED, "sparse", "function", "branch"])
def test_where_weights_are_stored(place: str) -> None:
    """Wherever a layer has its stored weights, an input that is multiplied with computed values is data."""
    made, inputs, constants = STORED.get(place, ([], [], [W]))
    nodes = [*made, *in_order([("MatMul", "t m", {})])]
    proto = model(nodes, [info("x", 1, 3, 8, 8), info("m", 4, 5), *inputs], [*constants, ints("s", 1, 4, 36)])
    if place == "sparse":
        values = helper.make_tensor("w", FLOAT, [1], [1.0])
        del proto.graph.initializer[0]
        sparse = helper.make_sparse_tensor(values, ints("at", 5), [4, 3, 3, 3])
        proto.graph.sparse_initializer.append(sparse)
    elif place == "function":
        body = [constant("b", weight("b", 4, 3, 3, 3)), helper.make_node("Conv", ["a", "b"], ["c"])]
        own = helper.make_function("own", "Layer", ["a"], ["c"], body, [helper.make_opsetid("", 17)])
        proto.functions.append(own)
        proto.graph.node[0].CopyFrom(helper.make_node("Layer", ["x"], ["c"], domain="own"))
        proto.opset_import.append(helper.make_opsetid("own", 1))
    elif place == "branch":
        out = helper.make_empty_tensor_value_info("inner")
        layer = helper.make_node("Conv", ["x", "w"], ["inner"])
        branch = helper.make_graph([layer], "branch", [], [out], [W])
        del proto.graph.initializer[0]
        choice = helper.make_node("If", ["yes"], ["c"], then_branch=branch, else_branch=branch)
        proto.graph.node[0].CopyFrom(choice)
        proto.graph.initializer.append(helper.make_tensor("yes", TensorProto.BOOL, [], [True]))
    network = load(proto)
    assert [weights(network, stage) for stage in network.stages] == [108]
    assert inputs_and_products(network) == ({"x", "m"}, 36 * 4 * 5)


def test_weights_whose_shape_and_type_are_read() -> None:
    """As PyTorch writes a convolution without a bias: zeros of as many channels, of the weights' type."""
    nodes = [
        helper.make_node("Shape", ["w"], ["channels"], end=1),
        helper.make_node("ConstantOfShape", ["channels"], ["zeros"]),
        helper.make_node("CastLike", ["zeros", "w"], ["bias"]),
        helper.make_node("Conv", ["x", "w", "bias"], ["y"]),
    ]
    network = load(model(nodes, [info("x", 1, 3, 8, 8), info("w", 4, 3, 3, 3)], []))
    assert [weights(network, stage) for stage in network.stages] == [108]
    assert "taken as weights" in network.warnings[0]


@pytest.mark.parametrize("kind", ["INT8", "UINT4", "FLOAT8E4M3FN"])
def test_types_of_inputs_are_their_bits(kind: str) -> None:
    """Weights that the file does not store, and data that is quantised already."""
    number, bits = getattr(TensorProto, kind), {"INT8": 8, "UINT4": 4, "FLOAT8E4M3FN": 8}[kind]
    nodes = [
        helper.make_node("DequantizeLinear", ["v", "s"], ["w"]),
        helper.make_node("DequantizeLinear", ["q", "s"], ["x"]),
        CONV,
    ]
    inputs = [
        helper.make_tensor_value_info("q", number, (1, 3, 8, 8)),
        helper.make_tensor_value_info("v", number, (4, 3, 3, 3)),
    ]
    (layer,) = load(model(nodes, inputs, [weight("s")])).stages
    assert (layer.weight_bits, layer.input_bits) == (bits, bits)


def test_the_only_input_is_data_on_either_side_of_a_product() -> None:
    """W^T (32 x 64) times x (64 x 8): eight columns of 64 values."""
    inputs, stored = [info("x", 64, 8)], [weight("w", 64, 32)]
    network = load(model([helper.make_node("Gemm", ["w", "x"], ["y"], transA=1)], inputs, stored))
    assert [counts.windows(network, stage) for stage in network.stages] == [8]
    assert network.warnings == ()


def test_a_second_input_is_no_weight() -> None:
    """What stored weights multiply is data, and so is what computed values are multiplied with."""
    nodes = [
        helper.make_node("MatMul", ["x", "m"], ["a"]),
        helper.make_node("MatMul", ["z", "m"], ["b"]),
        helper.make_node("Transpose", ["b"], ["bt"], perm=[1, 0]),
        helper.make_node("MatMul", ["a", "bt"], ["y"]),
    ]
    inputs = [info("x", 1, 5, 4), info("z", 6, 4)]
    assert len(load(model(nodes, inputs, [weight("m", 4, 4)])).stages) == 2
    product = [helper.make_node("MatMul", ["x", "m"], ["a"]), helper.make_node("MatMul", ["z", "a"], ["y"])]
    inputs = [info("x", 1, 5, 4), info("z", 6, 5)]
    network = load(model(product, inputs, [weight("m", 4, 4)]))
    assert network.warnings[0].startswith("input 'z': taken as data")
    assert inputs_and_products(network) == ({"x", "z"}, 6 * 5 * 4)


@pytest.mark.parametrize("kind", [FLOAT, TensorProto.INT64, TensorProto.BOOL])
def test_masks_of_tokens_are_data(kind: int) -> None:
    """Tokens are looked up; a mask of them is added to the scores, as in BERT."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["h"]),
        helper.make_node("MatMul", ["h", "m"], ["q"]),
        helper.make_node("Transpose", ["q"], ["k"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "k"], ["s"]),
        helper.make_node("Unsqueeze", ["mask", "one"], ["row"]),
        helper.make_node("Cast", ["row"], ["added"], to=FLOAT),
        helper.make_node("Add", ["s", "added"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, (1, 6))]
    inputs += [helper.make_tensor_value_info("mask", kind, (1, 6))]
    for order in (inputs, inputs[::-1]):
        network = load(model(nodes, order, [weight("table", 9, 8), weight("m", 8, 8), ints("one", 1)]))
        assert {node.name for node in network.nodes if node.op == "input"} == {"ids", "mask"}
        assert network.warnings == ()


def test_weights_are_never_read() -> None:
    """External or stripped data, of whatever length it claims to be."""
    external = weight("w", 4, 3, 3, 3)
    external.ClearField("float_data")
    external.data_location = TensorProto.EXTERNAL
    external.external_data.add(key="location", value="../../missing.bin")
    stripped = TensorProto(name="w", data_type=FLOAT, dims=[4, 3, 3, 3])
    wrong = TensorProto(name="w", data_type=FLOAT, dims=[4, 3, 3, 3], raw_data=b"abc")
    huge = TensorProto(name="w", data_type=FLOAT, dims=[2**31 - 1, 3, 3, 3])
    for tensor in (external, stripped, wrong, huge):
        assert len(load(model([CONV], [info("x", 1, 3, 8, 8)], [tensor])).stages) == 1


def test_shapes_computed_in_the_graph() -> None:
    """Shape -> Slice -> Concat -> Reshape, as exporters write it for a dynamic batch."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Shape", ["c"], ["s"]),
        helper.make_node("Gather", ["s", "i0"], ["n"], axis=0),
        helper.make_node("Unsqueeze", ["n", "zero"], ["n1"]),
        helper.make_node("Slice", ["s", "one", "end"], ["rest"]),
        helper.make_node("ReduceProd", ["rest"], ["f"], keepdims=1),
        helper.make_node("Div", ["f", "two"], ["half"]),
        helper.make_node("Mul", ["half", "two"], ["back"]),
        helper.make_node("Cast", ["back"], ["i"], to=TensorProto.INT64),
        helper.make_node("Concat", ["n1", "i"], ["t"], axis=0),
        helper.make_node("Reshape", ["c", "t"], ["f1"]),
        helper.make_node("Gemm", ["f1", "g"], ["y"]),
    ]
    scalar = numpy_helper.from_array(np.array(0, dtype=np.int64), "i0")
    constants = [
        W,
        scalar,
        ints("zero", 0),
        ints("one", 1),
        ints("end", 4),
        ints("two", 2),
        weight("g", 144, 5),
    ]
    network = load(model(nodes, [info("x", "N", 3, 8, 8)], constants))
    assert [node.op for node in network.nodes] == ["input", "conv", "flatten", "linear"]


ROUND = helper.make_graph(
    [helper.make_node("Relu", ["u"], ["v"])],
    "round",
    [helper.make_empty_tensor_value_info("u")],
    [helper.make_empty_tensor_value_info("v")],
)
FIRST_AXES = {  # operators on x; its shape; windows of the last layer, or what is asked for, or noted
    "HWC image": (
        (64, 48, 3),
        [("Transpose", "x", {"perm": [2, 0, 1]}), ("Unsqueeze", "o zero", {}), ("Conv", "o w", {})],
        62 * 46,
    ),
    "batch": ((8, 3, 64, 48), [("Conv", "x w", {})], 62 * 46),
    "batch of sequences": ((8, 3, 64), [("Unsqueeze", "x three", {}), ("Conv", "o w2", {})], 62),
    "tokens and positions": ((128, 64), [("Add", "x positions", {}), ("MatMul", "o m", {})], 128),
    "batch of attention": (
        (8, 16, 64),
        [("MatMul", "x m", {}), ("Einsum", "o x", {"equation": "bid,bjd->bij"})],
        16,
    ),
    "batch merged with heads and with tokens": (
        (8, 16, 64),
        [
            ("Transpose", "x", {"perm": [1, 0, 2]}),
            ("MatMul", "o m", {}),
            ("Reshape", "o heads_merged", {}),
            ("Transpose", "o", {"perm": [1, 0, 2]}),
            ("Reshape", "o heads", {}),
            ("MatMul", "o o", {}),
            ("Transpose", "o", {"perm": [2, 0, 1, 3]}),
            ("Reshape", "o tokens_merged", {}),
            ("MatMul", "o m", {}),
            ("Reshape", "o tokens", {}),
        ],
        16,
    ),
    "sequence first": ((30, 1, 16), [("LSTM", "x W R", {"hidden_size": 32})], 30),
    "scanned": (
        (30, 4, 64),
        [("Scan", "x", {"num_scan_inputs": 1, "body": ROUND}), ("MatMul", "o m", {})],
        30 * 4,
    ),
    "scanned along another axis": (
        (8, 4, 64),
        [("Scan", "x", {"num_scan_inputs": 1, "scan_input_axes": [1], "body": ROUND}), ("MatMul", "o m", {})],
        4,
    ),
    "summed up": ((30, 4, 64), [("MatMul", "x m", {}), ("CumSum", "o zero", {})], 30 * 4),
    "batch second": (
        (1, 30, 16),
        [("Transpose", "x", {"perm": [1, 0, 2]}), ("LSTM", "o W R", {"hidden_size": 32})],
        30,
    ),
    "open batch by name": (("batch_size", 64), [("MatMul", "x m", {})], 1),
    "open batch without a name": (
        ("", 64),
        [("MatMul", "x m", {})],
        "the open first axis is taken as a batch of 1",
    ),
    "open length": (("T", 64), [("MatMul", "x m", {})], "--input-shape x=128,64"),
    "open height": (
        ("", 48, 3),
        [("Transpose", "x", {"perm": [2, 0, 1]}), ("Unsqueeze", "o zero", {}), ("Conv", "o w", {})],
        "--input-shape x=128,48,3",
    ),
}
CONSTANTS = {
    "zero": ints("zero", 0),
    "three": ints("three", 3),
    "image": ints("image", 1, 1, 64, 48),
    "w": weight("w", 4, 3, 3, 3),
    "w1": weight("w1", 4, 1, 3, 3),
    "w2": weight("w2", 4, 3, 3, 1),
    "m": weight("m", 64, 64),
    "positions": weight("positions", 128, 64),
    "heads_merged": ints("heads_merged", 16, 32, 16),
    "heads": ints("heads", 8, 4, 16, 16),
    "tokens_merged": ints("tokens_merged", 128, 64),
    "tokens": ints("tokens", 16, 8, 64),
    "W": weight("W", 1, 128, 16),
    "R": weight("R", 1, 128, 32),
}


@pytest.mark.parametrize("case", FIRST_AXES)
def test_an_axis_is_a_batch_where_the_model_treats_it_as_one(case: str) -> None:
    """Else its length counts; an open one is asked for, or noted where nobody named it."""
    dims, operators, expected = FIRST_AXES[case]
    nodes: list[Any] = []
    for op, names, attributes in operators:
        taken = [f"o{len(nodes)}" if name == "o" else name for name in names.split()]
        nodes.append(helper.make_node(op, taken, [f"o{len(nodes) + 1}"], **attributes))
    nodes.append(helper.make_node("Identity", nodes[-1].output[:1], ["y"]))
    used = {name for node in nodes for name in node.input}
    proto = model(nodes, [info("x", *dims)], [each for name, each in CONSTANTS.items() if name in used])
    if isinstance(expected, str) and "--input-shape x=" in expected:
        with pytest.raises(UnsupportedError, match=expected):
            load(proto)
        given = tuple(int(size) for size in expected.partition("=")[2].split(","))
        network = load(proto, {"x": given})  # the advice helps
        assert network.shapes[network.stages[-1].name].height in (128, 126)
        return
    network = load(proto)
    if isinstance(expected, str):
        assert expected in network.warnings[0]
        assert counts.windows(load(proto, {"x": (128, *dims[1:])}), network.stages[-1]) == 128
        return
    assert network.shapes[network.stages[-1].name].pixels == expected
    is_batch = dims[0] in (7, 8)
    assert any("has a batch of" in text for text in network.warnings) == is_batch


def test_stacks_that_the_other_operand_does_not_have() -> None:
    """Three adjacencies of 6 x 6 over one input of 6 x 4, and six cameras of 4 x 4 over 4 x 9 points each."""
    stacked = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("MatMul", ["m", "a"], ["y"])]
    network = load(model(stacked, [info("x", 1, 6, 4), info("m", 3, 6, 6)], [weight("w", 4, 4)]))
    assert inputs_and_products(network) == ({"x", "m"}, 3 * 6 * 6 * 4)
    summed = helper.make_node("Einsum", ["m", "a"], ["y"], equation="rij,bjf->bif")
    network = load(model([stacked[0], summed], [info("x", 1, 6, 4), info("m", 3, 6, 6)], [weight("w", 4, 4)]))
    assert inputs_and_products(network) == ({"x", "m"}, 6 * 6 * 4)
    cameras = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Reshape", ["a", "s"], ["p"]),
        helper.make_node("MatMul", ["m", "p"], ["y"]),
    ]
    constants = [weight("w", 36, 36), ints("s", 6, 4, 9)]
    network = load(model(cameras, [info("x", 1, 6, 36), info("m", 6, 4, 4)], constants))
    assert inputs_and_products(network)[1] == 6 * 4 * 4 * 9


def test_first_axes_of_several_inputs() -> None:
    """An open axis of the batch's name follows it, a fixed one of its length too; regions are images."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("GlobalAveragePool", ["c"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Concat", ["f", "z"], ["j"], axis=1),
        helper.make_node("MatMul", ["j", "m"], ["y"]),
    ]
    for first in (8, "rows"):
        network = load(
            model(nodes, [info("x", first, 3, 8, 8), info("z", first, 6)], [W, weight("m", 10, 5)])
        )
        assert [str(network.shapes[name]) for name in "xz"] == ["3 x 8 x 8", "6 x 1 x 1"]
    regions = [
        helper.make_node("RoiAlign", ["x", "r", "i"], ["a"], output_height=5, output_width=5),
        helper.make_node("Conv", ["a", "w"], ["y"]),
    ]
    inputs = [info("x", 1, 3, 8, 8), info("r", 50, 4), info("i", 50)]
    network = load(model(regions, inputs, [W]))
    assert str(network.shapes["y"]) == "50 images of 4 x 3 x 3"


def function(name: str, *nodes: Any) -> Any:
    return helper.make_function("own", name, ["a", "b"], ["c"], nodes, [helper.make_opsetid("", 17)])


def with_functions(*functions: Any) -> Any:
    proto = model([helper.make_node("Layer", ["x", "w"], ["y"], domain="own")], [info("x", 1, 3, 8, 8)], [W])
    proto.opset_import.append(helper.make_opsetid("own", 1))
    proto.functions.extend(functions)
    return proto


def test_functions_that_never_end() -> None:
    loop = function("Layer", helper.make_node("Layer", ["a", "b"], ["c"], domain="own"))
    with pytest.raises(SpecError, match="calls itself"):
        load(with_functions(loop))
    doubling = [
        function(f"F{k}", *[helper.make_node(f"F{k + 1}", ["a", "b"], ["c"], domain="own")] * 2)
        for k in range(60)
    ]
    first = function("Layer", helper.make_node("F0", ["a", "b"], ["c"], domain="own"))
    with pytest.raises(UnsupportedError, match="the limit is"):
        load(with_functions(first, *doubling))


def test_unordered_file_keeps_stage_order() -> None:
    nodes = [
        helper.make_node("Add", ["p", "q"], ["y"]),
        helper.make_node("Conv", ["x", "w"], ["q"]),
        helper.make_node("Conv", ["x", "w"], ["p"]),
    ]
    network = load(model(nodes, [info("x", 1, 3, 8, 8)], [W]))
    assert [stage.name for stage in network.stages] == ["q", "p"]


EMPTY = TensorProto()
ONE = weight("one", 6)
MADE = {  # an operator on constants alone that makes the weights or positions; its shape by ONNX's definition
    "ConvTranspose": ("ConvTranspose", [weight("a", 1, 4, 6, 6), weight("b", 4, 3, 2, 2)], {}, (1, 3, 7, 7)),
    "Gemm": ("Gemm", [weight("a", 1, 32), weight("b", 64, 32)], {"transB": 1}, (1, 64)),
    "Resize": ("Resize", [weight("a", 1, 3, 4, 4), EMPTY, EMPTY, ints("b", 1, 3, 6, 8)], {}, (1, 3, 6, 8)),
    "BatchNormalization": (
        "BatchNormalization",
        [weight("a", 4, 6, 3, 3), ONE, ONE, ONE, ONE],
        {},
        (4, 6, 3, 3),
    ),
    "Pad": ("Pad", [weight("a", 4, 3, 1, 1), ints("b", 0, 0, 1, 1, 0, 0, 1, 1)], {}, (4, 3, 3, 3)),
    "Split": ("Split", [weight("a", 12, 9), ints("b", 12)], {"axis": 0}, (12, 9)),
    "Einsum": ("Einsum", [weight("a", 20, 9), weight("b", 20, 5)], {"equation": "ij,ik->jk"}, (9, 5)),
    "Concat": ("Concat", [ints("a", *[0] * 70_000), ints("b", 1, 2)], {"axis": 0}, (70_002,)),
    "Flatten": ("Flatten", [weight("a", 4, 3, 5, 1)], {}, (4, 15)),
    "Gather": ("Gather", [weight("a", 20, 9), ints("b", 3, 4)], {"axis": 1}, (20, 2)),
    "ReduceMean": ("ReduceMean", [weight("a", 20, 9)], {"axes": [1], "keepdims": 0}, (20,)),
}


@pytest.mark.parametrize("case", MADE)
def test_operators_on_constants_have_shapes(case: str) -> None:
    op, constants, attributes, dims = MADE[case]
    named = {each.name: each for each in constants if each.name}
    nodes = [
        helper.make_node(op, [each.name for each in constants], ["made"], **attributes),
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Flatten", ["c"], ["f"]),
        helper.make_node("Reshape", ["made", "flat"], ["table"]),
        helper.make_node("MatMul", ["f", "table"], ["y"]),
    ]
    inner, rest = 144, int(np.prod(dims))
    nodes[4:4] = [helper.make_node("Slice", ["f", "zero", "end", "first"], ["cut"])]
    nodes[5].input[0] = "cut"
    rows = next(size for size in range(min(rest, inner), 0, -1) if rest % size == 0)
    targets = [ints("flat", rows, rest // rows), ints("zero", 0), ints("end", rows), ints("first", 1)]
    network = load(model(nodes, [info("x", 1, 3, 8, 8)], [W, *named.values(), *targets]))
    assert weights(network, network.stages[-1]) == rest
