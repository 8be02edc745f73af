"""Inputs of an ONNX model: open axes, batch, weights in every place a file may keep them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from rramalloc.errors import SpecError, UnsupportedError
from rramalloc.importers.onnx import from_model
from rramalloc.network.network import Network

FLOAT = TensorProto.FLOAT


def info(name: str, *dims: int | str) -> Any:
    return helper.make_tensor_value_info(name, FLOAT, dims)


def weight(name: str, *dims: int) -> Any:
    return helper.make_tensor(name, FLOAT, dims, np.zeros(int(np.prod(dims)), dtype=np.float32))


def ints(name: str, *values: int) -> Any:
    return numpy_helper.from_array(np.array(values, dtype=np.int64), name)


def model(nodes: Sequence[Any], inputs: Sequence[Any], constants: Sequence[Any] = (), opset: int = 17) -> Any:
    output = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph(list(nodes), "graph", list(inputs), [output], list(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def load(proto: Any, shapes: dict[str, Sequence[int]] | None = None) -> Network:
    return from_model(proto, "dir/net.v2.onnx", shapes or {})


CONV = helper.make_node("Conv", ["x", "w"], ["y"], name="conv")
W = weight("w", 4, 3, 3, 3)


def test_name_and_source() -> None:
    proto = model([CONV], [info("x", 1, 3, 8, 8)], [W])
    proto.producer_name, proto.producer_version = "maker", "2.1"
    network = load(proto)
    assert (network.name, network.source) == ("net.v2", "ONNX file net.v2.onnx, opset 17, producer maker 2.1")


def test_symbolic_batch_is_one() -> None:
    network = load(model([CONV], [info("x", "N", 3, 8, 8)], [W]))
    assert str(network.shapes["x"]) == "3 x 8 x 8"
    assert network.warnings == ()


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


def test_input_without_shape() -> None:
    proto = model([CONV], [helper.make_empty_tensor_value_info("x")], [W])
    proto.graph.input[0].type.tensor_type.elem_type = FLOAT
    with pytest.raises(UnsupportedError, match="any shape"):
        load(proto)
    assert str(load(proto, {"x": (1, 3, 8, 10)}).shapes["x"]) == "3 x 8 x 10"


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        pytest.param(
            {"z": (1, 3, 8, 8)}, r"'z': the model has no such input; its inputs are 'x' \(N x 3 x H x W\)"
        ),
        pytest.param({"x": (3, 8, 8)}, "got 3 lengths, the input has 4"),
        pytest.param({"x": (1, 5, 8, 8)}, "got 5 where the file fixes 3"),
        pytest.param({"x": (1, 3, 0, 8)}, "got 0, a length is an integer from 1"),
        pytest.param({"x": (1, 3, 10**18, 8)}, "got 10+, a length is"),
        pytest.param({"x": (1, 3, 8.0, 8)}, "got 8.0"),
        pytest.param({"x": (1, 3, True, 8)}, "got True"),
    ],
    ids=["unknown name", "rank", "contradiction", "zero", "huge", "fraction", "truth value"],
)
def test_given_shapes_are_checked(shapes: Any, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        load(model([CONV], [info("x", "N", 3, "H", "W")], [W]), shapes)


def constant(name: str, tensor: Any) -> Any:
    return helper.make_node("Constant", [], [name], value=tensor)


WEIGHTS = {
    "initializer": ([], [], [W]),
    "initializer and input": ([], [info("w", 4, 3, 3, 3)], [W]),
    "input only": ([], [info("w", 4, 3, 3, 3)], []),
    "Constant": ([constant("w", W)], [], []),
    "ConstantOfShape": ([helper.make_node("ConstantOfShape", ["s"], ["w"])], [], [ints("s", 4, 3, 3, 3)]),
    "Identity": ([helper.make_node("Identity", ["v"], ["w"])], [], [weight("v", 4, 3, 3, 3)]),
    "Cast": ([helper.make_node("Cast", ["v"], ["w"], to=FLOAT)], [], [weight("v", 4, 3, 3, 3)]),
    "Reshape": (
        [helper.make_node("Reshape", ["v", "s"], ["w"])],
        [],
        [weight("v", 4, 27), ints("s", 4, 3, 3, 3)],
    ),
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


def test_computed_weights_are_refused() -> None:
    nodes = [helper.make_node("Relu", ["v"], ["w"]), CONV]
    with pytest.raises(UnsupportedError, match="a stage holds constant weights"):
        load(model(nodes, [info("x", 1, 3, 8, 8), info("v", 1, 3, 3, 3)]))


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


def test_several_inputs_and_outputs() -> None:
    nodes = [
        helper.make_node("Conv", ["a", "w"], ["p"], name="same"),
        helper.make_node("Conv", ["b", "w"], ["q"], name="same"),
        helper.make_node("Add", ["p", "q"], ["y"]),
        helper.make_node("Relu", ["p"], ["dead"]),
        helper.make_node("Sigmoid", ["q"], ["z"], name="a"),
    ]
    proto = model(nodes, [info("a", 1, 3, 8, 8), info("b", 1, 3, 8, 8), info("unused", "?", 3, "?")], [W])
    proto.graph.output.append(helper.make_empty_tensor_value_info("z"))
    network = load(proto)
    assert [node.name for node in network.nodes] == ["a", "b", "p", "q", "y", "a_2"]


def test_batch_inserted_by_the_model() -> None:
    """(3, H, W) with an axis inserted in front has no batch; (N, C, L) with one at the end has."""
    nodes = [helper.make_node("Unsqueeze", ["x", "a"], ["u"]), helper.make_node("Conv", ["u", "v"], ["y"])]
    network = load(model(nodes, [info("x", 3, 8, 8)], [ints("a", 0), weight("v", 4, 3, 3, 3)]))
    assert ([node.op for node in network.nodes], network.warnings) == (["input", "conv"], ())
    network = load(model(nodes, [info("x", 2, 3, 8)], [ints("a", 3), weight("v", 4, 3, 3, 1)]))
    assert "batch of 2" in network.warnings[0]
    assert str(network.shapes["y"]) == "4 x 6 x 1"


def function(name: str, *nodes: Any) -> Any:
    return helper.make_function("own", name, ["a", "b"], ["c"], nodes, [helper.make_opsetid("", 17)])


def with_functions(*functions: Any) -> Any:
    proto = model([helper.make_node("Layer", ["x", "w"], ["y"], domain="own")], [info("x", 1, 3, 8, 8)], [W])
    proto.opset_import.append(helper.make_opsetid("own", 1))
    proto.functions.extend(functions)
    return proto


def test_functions_of_the_model_are_replaced() -> None:
    inner = function(
        "Inner", helper.make_node("Conv", ["a", "b"], ["d"]), helper.make_node("Relu", ["d"], ["c"])
    )
    outer = function("Layer", helper.make_node("Inner", ["a", "b"], ["c"], domain="own"))
    outer.opset_import.append(helper.make_opsetid("own", 1))
    network = load(with_functions(inner, outer))
    assert [node.op for node in network.nodes] == ["input", "conv", "relu"]


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


def test_old_opset_warns() -> None:
    assert "opset 6 is older than 7" in load(model([CONV], [info("x", 1, 3, 8, 8)], [W], opset=6)).warnings[0]


def test_unordered_file_keeps_stage_order() -> None:
    nodes = [
        helper.make_node("Add", ["p", "q"], ["y"]),
        helper.make_node("Conv", ["x", "w"], ["q"]),
        helper.make_node("Conv", ["x", "w"], ["p"]),
    ]
    network = load(model(nodes, [info("x", 1, 3, 8, 8)], [W]))
    assert [stage.name for stage in network.stages] == ["q", "p"]


def test_same_bytes_same_network() -> None:
    proto = model([CONV], [info("x", 1, 3, 8, 8)], [W])
    assert load(proto).to_dict() == load(type(proto).FromString(proto.SerializeToString())).to_dict()


def test_embedding_look_up() -> None:
    """Tokens are pixels: a table row per token, then a linear stage on T x 1."""
    nodes = [helper.make_node("Gather", ["e", "x"], ["t"]), helper.make_node("MatMul", ["t", "m"], ["y"])]
    proto = model(nodes, [info("x", 1, 20)], [weight("e", 1000, 32), weight("m", 32, 64)])
    network = load(proto)
    assert [node.op for node in network.nodes] == ["input", "select", "linear"]
    assert str(network.shapes["y"]) == "64 x 20 x 1"
