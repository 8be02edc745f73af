"""Every ONNX operator that has a rule: its nodes and their shapes (docs/sources/model.md 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from importers.onnx_parts import FLOAT, info, weight
from onnx import TensorProto, helper, numpy_helper

from rramalloc.errors import NetworkError, RramallocError, UnsupportedError
from rramalloc.importers.onnx import from_model, importer
from rramalloc.importers.onnx.operators import HANDLERS
from rramalloc.importers.onnx.tensors import NO_PADS, Tensor
from rramalloc.network import counts
from rramalloc.network.counts import weights
from rramalloc.network.coverage import Coverage
from rramalloc.network.network import Network
from rramalloc.network.node import Recurrent
from rramalloc.timing.simulate import simulate
from rramalloc.timing.stage_graph import StageGraph

pytestmark = pytest.mark.quick

Dims = Sequence[int | str]


def ints(name: str, values: Any) -> TensorProto:
    return numpy_helper.from_array(np.array(values, dtype=np.int64), name)


def floats(name: str, *values: float) -> TensorProto:
    return numpy_helper.from_array(np.array(values, dtype=np.float32), name)


def node(op: str, inputs: str, output: str = "y", name: str = "", domain: str = "", **attributes: Any) -> Any:
    names = ["" if part == "-" else part for part in inputs.split()]
    return helper.make_node(op, names, output.split(), name=name or op.lower(), domain=domain, **attributes)


def model(
    nodes: Sequence[Any],
    initializers: Sequence[TensorProto] = (),
    inputs: dict[str, Dims] | None = None,
    outputs: Sequence[str] = ("y",),
    opset: int = 21,
    value_info: dict[str, Dims] | None = None,
) -> Any:
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [info(name, *dims) for name, dims in (inputs or {"x": (1, 8, 12, 10)}).items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        list(initializers),
        value_info=[info(name, *dims) for name, dims in (value_info or {}).items()],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("acme", 1)]
    )


def load(proto: Any, **input_shapes: Sequence[int]) -> Network:
    return from_model(proto, "net.onnx", input_shapes, allow_partial=True)


def last(network: Network) -> tuple[str, str]:
    """Operator and shape of the last node."""
    return network.nodes[-1].op, str(network.shapes[network.nodes[-1].name])


def ops(network: Network) -> str:
    return " ".join(item.op for item in network.nodes)


def inferred(proto: Any, name: str) -> tuple[int, ...]:
    """Shape by ONNX's own inference, () if it cannot tell."""
    graph = onnx.shape_inference.infer_shapes(proto, data_prop=True).graph
    found = {info.name: info for info in (*graph.output, *graph.value_info)}
    axes = found[name].type.tensor_type.shape.dim if name in found else []
    return tuple(axis.dim_value for axis in axes)


@pytest.fixture(autouse=True)
def _tensors_agree_with_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every ONNX tensor that the reader tracks has the shape of the node that yields it."""
    visit = importer._results

    def checked(step: Any, declared: Any) -> Any:
        results = visit(step, declared)
        for value in results:
            if isinstance(value, Tensor) and value.pads == NO_PADS:
                assert value.shape == step.builder.shapes[value.node], (step.place, value)
                assert len(value.dims) == len(value.layout)
        return results

    monkeypatch.setattr(importer, "_results", checked)


STEM = node("Conv", "x w", "c", "stem")
W = weight("w", 16, 8, 1, 1)


# fmt: off
AFTER_STEM = [  # c: 16 x 12 x 10; operator, its inputs, attributes, constants, opset, nodes, output shape
    ("Relu", "c", {}, [], 21, "relu", "16 x 12 x 10"),
    *[(op, "c", {}, [], 21, "activation", "16 x 12 x 10") for op in (
        "LeakyRelu", "Sigmoid", "HardSigmoid", "HardSwish", "Elu", "Selu", "Gelu", "Erf", "Tanh", "Exp",
        "Log", "Sqrt", "Softplus", "Clip", "Mish", "Celu", "Sin", "Neg", "Abs", "Reciprocal", "Floor", "Ceil",
        "Round", "Softsign", "ThresholdedRelu", "Sign", "Shrink")],
    ("PRelu", "c s", {}, [weight("s", 16, 1, 1)], 21, "activation", "16 x 12 x 10"),
    ("LRN", "c", {"size": 5}, [], 21, "activation", "16 x 12 x 10"),
    ("Identity", "c", {}, [], 21, "identity", "16 x 12 x 10"),
    ("Cast", "c", {"to": TensorProto.FLOAT16}, [], 21, "identity", "16 x 12 x 10"),
    ("Dropout", "c", {}, [], 21, "dropout", "16 x 12 x 10"),
    ("BatchNormalization", "c s s s s", {}, [weight("s", 16)], 21, "batchnorm", "16 x 12 x 10"),
    ("InstanceNormalization", "c s s", {}, [weight("s", 16)], 21, "barrier", "16 x 12 x 10"),
    ("GroupNormalization", "c s s", {"num_groups": 4}, [weight("s", 16)], 21, "barrier", "16 x 12 x 10"),
    ("LpNormalization", "c", {"axis": 1}, [], 21, "layernorm", "16 x 12 x 10"),
    ("LpNormalization", "c", {"axis": 2}, [], 21, "barrier", "16 x 12 x 10"),
    ("MeanVarianceNormalization", "c", {}, [], 21, "barrier", "16 x 12 x 10"),
    ("LayerNormalization", "c s", {"axis": 1}, [weight("s", 16, 12, 10)], 21, "barrier", "16 x 12 x 10"),
    ("Softmax", "c", {"axis": 1}, [], 21, "softmax", "16 x 12 x 10"),
    ("Softmax", "c", {}, [], 21, "barrier", "16 x 12 x 10"),
    ("Softmax", "c", {}, [], 12, "barrier", "16 x 12 x 10"),
    ("LogSoftmax", "c", {"axis": -3}, [], 21, "softmax", "16 x 12 x 10"),
    *[(op, "c k", {}, [weight("k", 1, 16, 1, 1)], 21, "activation", "16 x 12 x 10") for op in (
        "Add", "Sub", "Mul", "Div", "Max", "Min", "Mean", "Sum", "Pow")],
    ("Add", "c k", {}, [weight("k", 5, 16, 12, 10)], 21, None, None),
    ("Add", "c c", {}, [], 21, "add", "16 x 12 x 10"),
    ("Div", "c c", {}, [], 21, "mul", "16 x 12 x 10"),
    ("Concat", "c c", {"axis": 1}, [], 21, "concat", "32 x 12 x 10"),
    ("Concat", "c k", {"axis": 1}, [weight("k", 1, 3, 12, 10)], 21, "select", "19 x 12 x 10"),
    ("Concat", "c c", {"axis": 3}, [], 21, "take take add", "16 x 12 x 20"),
    ("MaxPool", "c", {"kernel_shape": [2, 2], "strides": [2, 2]}, [], 21, "maxpool", "16 x 6 x 5"),
    ("MaxPool", "c", {"kernel_shape": [3, 3], "dilations": [2, 2]}, [], 21, "maxpool", "16 x 8 x 6"),
    ("MaxPool", "c", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, [], 21, "maxpool",
     "16 x 6 x 5"),
    ("AveragePool", "c", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, [], 21, "avgpool", "16 x 12 x 10"),
    ("LpPool", "c", {"kernel_shape": [3, 1]}, [], 21, "avgpool", "16 x 10 x 10"),
    ("GlobalAveragePool", "c", {}, [], 21, "global_avgpool", "16 x 1 x 1"),
    ("GlobalMaxPool", "c", {}, [], 21, "global_maxpool", "16 x 1 x 1"),
    ("GlobalLpPool", "c", {}, [], 21, "global_avgpool", "16 x 1 x 1"),
    ("ReduceMean", "c", {"axes": [2, 3]}, [], 13, "global_avgpool", "16 x 1 x 1"),
    ("ReduceMean", "c a", {"keepdims": 0}, [ints("a", [-1, -2])], 18, "global_avgpool", "16 x 1 x 1"),
    ("ReduceMax", "c", {"axes": [2, 3], "keepdims": 0}, [], 13, "global_maxpool", "16 x 1 x 1"),
    ("ReduceSum", "c a", {}, [ints("a", [1])], 13, "select", "1 x 12 x 10"),
    ("ReduceMean", "c", {"axes": [2]}, [], 13, "avgpool", "16 x 1 x 10"),
    ("ReduceMean", "c", {}, [], 13, "global_avgpool select", "1 x 1 x 1"),
    ("ArgMax", "c", {"axis": 1, "keepdims": 0}, [], 13, "select", "1 x 12 x 10"),
    ("Flatten", "c", {}, [], 21, "flatten", "1920 x 1 x 1"),
    ("Reshape", "c t", {}, [ints("t", [0, -1])], 21, "flatten", "1920 x 1 x 1"),
    ("Reshape", "c t", {}, [ints("t", [-1, 1920])], 21, "flatten", "1920 x 1 x 1"),
    ("Reshape", "c t", {}, [ints("t", [1, 16, 120])], 21, "", "16 x 12 x 10"),
    ("Reshape", "c t", {}, [ints("t", [1, 16, 6, 20])], 21, "", "16 x 12 x 10"),
    ("Reshape", "c t", {}, [ints("t", [1, 4, 4, 12, 10])], 21, "", "16 x 12 x 10"),
    ("Transpose", "c", {"perm": [0, 2, 3, 1]}, [], 21, "", "16 x 12 x 10"),
    ("Unsqueeze", "c a", {}, [ints("a", [2])], 21, "", "16 x 12 x 10"),
    ("Unsqueeze", "c", {"axes": [0]}, [], 11, "", "16 x 12 x 10"),
    ("Expand", "c t", {}, [ints("t", [1, 16, 12, 10])], 21, "activation", "16 x 12 x 10"),
    ("Slice", "c b e a", {}, [ints("b", [4]), ints("e", [9]), ints("a", [1])], 21, "select", "5 x 12 x 10"),
    ("Slice", "c", {"starts": [0], "ends": [-1], "axes": [1]}, [], 9, "select", "15 x 12 x 10"),
    ("Slice", "c b e a s", {}, [ints("b", [0]), ints("e", [99]), ints("a", [2]), ints("s", [2])], 21,
     "take", "16 x 6 x 10"),
    ("Slice", "c b e a", {}, [ints("b", [0]), ints("e", [2**62]), ints("a", [3])], 21, "", "16 x 12 x 10"),
    ("Gather", "c i", {"axis": 1}, [ints("i", [3, 1, 2])], 21, "select", "3 x 12 x 10"),
    ("Gather", "c i", {"axis": 2}, [ints("i", 3)], 21, "take", "16 x 1 x 10"),
    ("Tile", "c r", {}, [ints("r", [1, 2, 1, 1])], 21, "select", "32 x 12 x 10"),
    ("Tile", "c r", {}, [ints("r", [1, 1, 2, 1])], 21, "take", "16 x 24 x 10"),
    ("DepthToSpace", "c", {"blocksize": 2}, [], 21, "upsample select", "4 x 24 x 20"),
    ("SpaceToDepth", "c", {"blocksize": 2}, [], 21, "maxpool select", "64 x 6 x 5"),
    ("Resize", "c - s", {}, [floats("s", 1, 1, 2, 3)], 21, "upsample", "16 x 24 x 30"),
    ("Resize", "c - - z", {}, [ints("z", [1, 16, 24, 20])], 21, "upsample", "16 x 24 x 20"),
    ("Resize", "c - - z", {"axes": [2, 3]}, [ints("z", [36, 10])], 21, "upsample", "16 x 36 x 10"),
    ("Resize", "c - s", {"mode": "linear"}, [floats("s", 1, 1, 2, 2)], 21, "upsample", "16 x 24 x 20"),
    ("Resize", "c - s", {}, [floats("s", 1, 1, 0.5, 0.5)], 21, "barrier", "16 x 6 x 5"),
    ("Resize", "c - s", {}, [floats("s", 1, 1, 1, 1)], 21, "identity", "16 x 12 x 10"),
    ("Resize", "c s", {}, [floats("s", 1, 1, 2, 2)], 10, "upsample", "16 x 24 x 20"),
    ("Upsample", "c", {"scales": [1.0, 1.0, 2.0, 2.0]}, [], 7, "upsample", "16 x 24 x 20"),
    ("Upsample", "c s", {}, [floats("s", 1, 1, 2, 2)], 9, "upsample", "16 x 24 x 20"),
    ("Pad", "c p", {}, [ints("p", [0] * 8)], 21, "identity", "16 x 12 x 10"),
    ("Pad", "c p", {}, [ints("p", [0, 0, 1, 1, 0, 0, 1, 1])], 21, "take take", "16 x 14 x 12"),
    ("Pad", "c p", {}, [ints("p", [0, 4, 0, 0, 0, 4, 0, 0])], 21, "select", "24 x 12 x 10"),
    ("Pad", "c", {"pads": [0, 0, 2, 0, 0, 0, 0, 0]}, [], 9, "take", "16 x 14 x 10"),
    ("Where", "q c k", {}, [helper.make_tensor("q", TensorProto.BOOL, [1], [True]), weight("k", 1)], 21,
     "activation", "16 x 12 x 10"),
    ("QuantizeLinear", "c s", {}, [weight("s")], 21, "identity", "16 x 12 x 10"),
    ("CumSum", "c a", {}, [ints("a", 2)], 21, "barrier", "16 x 12 x 10"),
    ("Trilu", "c", {}, [], 21, "barrier", "16 x 12 x 10"),
    ("ScatterND", "c i u", {}, [ints("i", [[0, 0]]), weight("u", 1, 12, 10)], 21, "barrier", "16 x 12 x 10"),
    ("GatherElements", "c i", {}, [ints("i", [[[[1, 2]]]])], 21, "barrier", "1 x 2 x 1"),
    ("GatherND", "c i", {}, [ints("i", [[0, 1], [0, 2]])], 21, "barrier", "12 x 2 x 10"),
    ("Einsum", "c k", {"equation": "nchw,co->nohw"}, [weight("k", 16, 5)], 21, "linear", "5 x 12 x 10"),
    ("OneHot", "c k v", {}, [ints("k", 3), weight("v", 2)], 21, "barrier", None),
    ("RoiAlign", "c r i", {"output_height": 7, "output_width": 6}, [weight("r", 1, 4), ints("i", [0])], 21,
     "barrier", "16 x 7 x 6"),
    ("GridSample", "c g", {}, [weight("g", 1, 6, 5, 2)], 21, "barrier", "16 x 6 x 5"),
    ("CenterCropPad", "c z", {"axes": [2, 3]}, [ints("z", [8, 14])], 21, "barrier", "16 x 8 x 14"),
    ("MaxUnpool", "c j", {"kernel_shape": [2, 2], "strides": [2, 2]}, [ints("j", np.zeros((1, 16, 12, 10)))],
     21, "barrier", "16 x 24 x 20"),
    ("DeformConv", "c k o", {}, [weight("k", 4, 16, 3, 3), weight("o", 1, 18, 10, 8)], 21, "barrier",
     "4 x 10 x 8"),
]
# fmt: on


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "constants", "opset", "nodes", "shape"),
    [pytest.param(*case, id=f"{case[0]} {case[2]} opset {case[4]}") for case in AFTER_STEM],
)
def test_operator(
    op: str, inputs: str, attributes: Any, constants: Any, opset: int, nodes: str | None, shape: str | None
) -> None:
    proto = model([STEM, node(op, inputs, **attributes)], [W, *constants], opset=opset)
    network = load(proto)
    if nodes is None:
        return
    assert ops(network) == f"input conv {nodes}".strip()
    assert shape is None or last(network)[1] == shape
    dims = inferred(proto, "y")
    if dims and all(dims):
        channels, height, width = network.shapes[network.nodes[-1].name]
        assert np.prod(dims) == channels * height * width


SILENT = "Softmax Flatten Reshape Transpose Concat InstanceNormalization GroupNormalization LpNormalization"


def test_conv_1d_is_a_column() -> None:
    proto = model([node("Conv", "x v", strides=[2], pads=[1, 0])], [weight("v", 4, 2, 3)], {"x": (1, 2, 100)})
    network = load(proto)
    conv: Any = network.stages[0]
    assert (conv.kernel, conv.stride, conv.pads) == ((3, 1), (2, 1), (1, 0, 0, 0))
    assert str(network.shapes["conv"]) == "4 x 50 x 1"


@pytest.mark.parametrize(
    ("attributes", "kernel", "expected", "pads", "added"),
    [
        ({"strides": [2, 2]}, (1, 1), "6 x 23 x 19", (0, 0, 0, 0), (0, 0)),
        (
            {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
            (3, 3),
            "6 x 24 x 20",
            (1, 1, 1, 1),
            (1, 1),
        ),
        ({"strides": [2, 2], "output_shape": [24, 22]}, (3, 3), "6 x 24 x 22", (1, 0, 0, 0), (0, 1)),
        ({"strides": [3, 3], "auto_pad": "SAME_UPPER"}, (4, 4), "6 x 36 x 30", (0, 0, 1, 1), (0, 0)),
        ({"strides": [3, 3], "auto_pad": "SAME_LOWER"}, (4, 4), "6 x 36 x 30", (1, 1, 0, 0), (0, 0)),
        ({"dilations": [2, 2]}, (3, 3), "6 x 16 x 14", (0, 0, 0, 0), (0, 0)),
    ],
)
def test_transposed_conv(attributes: Any, kernel: Any, expected: str, pads: Any, added: Any) -> None:
    """ONNX operator ConvTranspose: what is cut off the full output, and what is added behind it."""
    proto = model([node("ConvTranspose", "x v", **attributes)], [weight("v", 8, 6, *kernel)])
    network = load(proto)
    stage: Any = network.stages[0]
    assert ops(network) == "input conv_transpose"
    assert str(network.shapes["convtranspose"]) == expected
    assert str(network.shapes["convtranspose"]) == " x ".join(map(str, inferred(proto, "y")[1:]))
    assert (stage.kernel, stage.pads, stage.output_padding) == (kernel, pads, added)
    assert stage.weight_count(8) == 8 * 6 * kernel[0] * kernel[1]


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"output_shape": [40, 40], "strides": [2, 2]}, "output_padding: adds 15"),
        ({"pads": [9, 9, 9, 9]}, "pads: cut off 18 of the 14 pixels"),
        ({"output_padding": [1]}, "output_padding"),
        ({"pads": [-1, 0, 0, 0]}, "negative pads"),
        ({"group": 0}, "groups"),
        ({"strides": [2**31 - 1] * 2}, "pixels"),
    ],
)
def test_transposed_conv_refused(attributes: Any, message: str) -> None:
    with pytest.raises(RramallocError, match=message):
        load(model([node("ConvTranspose", "x v", **attributes)], [weight("v", 8, 6, 3, 3)]))


def test_padding_joins_the_convolution() -> None:
    constants = [weight("v", 4, 8, 3, 3), ints("p", [0, 0, 1, 2, 0, 0, 3, 4])]
    network = load(model([node("Pad", "x p", "d"), node("Conv", "d v", pads=[1, 0, 0, 0])], constants))
    conv: Any = network.stages[0]
    assert (ops(network), conv.pads) == ("input conv", (2, 2, 3, 4))
    shared = [node("Pad", "x p", "d"), node("Conv", "d v", "e"), node("Relu", "d", "r")]
    network = load(model(shared, constants, outputs=["e", "r"]))
    assert ops(network) == "input take take conv relu"
    assert network.nodes[1].rows == ((-1, 1, 0), (0, 12, 1), (-1, 3, 0))  # type: ignore[union-attr]
    assert network.nodes[2].columns == ((-1, 2, 0), (0, 10, 1), (-1, 4, 0))  # type: ignore[union-attr]
    assert network.warnings == ()


@pytest.mark.parametrize(
    ("inputs", "nodes", "constants", "expected"),
    [
        ((1, 7, 9, 64), [node("MatMul", "x a")], [weight("a", 64, 32)], "32 x 7 x 9"),
        ((1, 64, 50), [node("MatMul", "a x")], [weight("a", 32, 64)], "32 x 50 x 1"),
        (
            (1, 50, 64),
            [node("Reshape", "x r", "t"), node("Gemm", "t a")],
            [ints("r", [-1, 64]), weight("a", 64, 32)],
            "32 x 50 x 1",
        ),
        (
            (1, 50, 64),
            [node("Transpose", "x", "t", perm=[0, 2, 1]), node("Conv", "t a")],
            [weight("a", 32, 64, 1)],
            "32 x 50 x 1",
        ),
    ],
)
def test_token_layers(inputs: tuple[int, ...], nodes: Any, constants: Any, expected: str) -> None:
    network = load(model(nodes, constants, {"x": inputs}))
    assert len(network.nodes) == 2
    assert str(network.shapes[network.stages[0].name]) == expected


def test_attention() -> None:
    """A pixel of Q K^T needs its pixel of Q and every pixel of K; softmax over keys is pixelwise."""
    heads = [ints("h", [1, 50, 4, 16])]
    nodes = []
    for name in "qkv":
        perm = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
        nodes += [
            node("MatMul", f"x w{name}", f"{name}1", f"{name}_proj"),
            node("Reshape", f"{name}1 h", f"{name}2", f"{name}_heads"),
            node("Transpose", f"{name}2", name, f"{name}_turn", perm=perm),
        ]
    nodes += [
        node("MatMul", "q k", "s", "scores"),
        node("Softmax", "s", "p"),
        node("MatMul", "p v", "o", "mix"),
        node("Transpose", "o", "o1", perm=[0, 2, 1, 3]),
        node("Reshape", "o1 j", "o2", "join"),
        node("MatMul", "o2 wo", "y", "out"),
    ]
    weights = [weight(f"w{name}", 64, 64) for name in "qkvo"]
    network = load(model(nodes, [*heads, ints("j", [1, 50, 64]), *weights], {"x": (1, 50, 64)}))
    whole = "global_maxpool select select mul"  # of K or V, the channels of the result, times Q or the scores
    assert ops(network) == f"input linear linear linear {whole} softmax {whole} linear"
    assert str(network.shapes["scores"]) == "200 x 50 x 1"
    assert str(network.shapes["mix"]) == "64 x 50 x 1"
    assert network.warnings == ()


@pytest.mark.parametrize("mask", [(1, 1, 50, 50), (1, 1, 1, 50), (1, 4, 50, 50)])
def test_attention_under_a_computed_mask(mask: Dims) -> None:
    """4 heads of 50 scores a pixel; the mask has the rows of one head or of all, in any layout."""
    nodes = [
        node("MatMul", "x w", "q", "query"),
        node("Reshape", "q h", "q4"),
        node("Transpose", "q4", "qt", perm=[0, 2, 1, 3]),
        node("Transpose", "q4", "kt", perm=[0, 2, 3, 1]),
        node("MatMul", "qt kt", "s", "scores"),
        node("Add", "s mask", "y", "masked"),
    ]
    proto = model(nodes, [weight("w", 64, 64), ints("h", [1, 50, 4, 16])], {"x": (1, 50, 64), "mask": mask})
    assert last(load(proto, mask=[int(size) for size in mask])) == ("add", "200 x 50 x 1")


def test_parts_without_elements_are_left_out() -> None:
    """The rest behind a rotary embedding of the whole head: 64 channels, then none."""
    cut = [
        node("MatMul", "x w", "q", "query"),
        node("Slice", "q zero all last", "turned"),
        node("Slice", "q all all last", "rest"),
        node("Neg", "turned", "n"),
        node("Concat", "n rest", "y", axis=2),
    ]
    constants = [weight("w", 64, 64), ints("zero", [0]), ints("all", [64]), ints("last", [2])]
    assert ops(load(model(cut, constants, {"x": (1, 50, 64)}))) == "input linear activation"
    cut[1:3] = [node("Split", "q sizes", "turned rest", axis=2)]
    network = load(model(cut, [constants[0], ints("sizes", [64, 0])], {"x": (1, 50, 64)}))
    assert ops(network) == "input linear activation"


@pytest.mark.parametrize(("domain", "inputs"), [("", "q c c places"), ("com.microsoft", "q places c c")])
def test_rotary_embedding_is_pixelwise(domain: str, inputs: str) -> None:
    """A token turns by its own position: both are the same pixel."""
    nodes = [
        node("MatMul", "x w", "q", "query"),
        node("RotaryEmbedding", inputs, "r", "r", domain, num_heads=4),
    ]
    proto = model(
        [*nodes, node("MatMul", "r w", name="out")],
        [weight("w", 64, 64), weight("c", 99, 8)],
        {"x": (1, 50, 64), "places": (1, 50)},
        opset=23,
    )
    network = load(proto)
    assert ops(network) == "input input linear activation add linear"
    assert network.warnings == ()


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        ([node("QLinearConv", "x s z w s z s z")], [W, weight("s"), weight("z")]),
        ([node("ConvInteger", "x w")], [W]),
        (
            [
                node("DynamicQuantizeLinear", "x", "q s z"),
                node("ConvInteger", "q w z", "i"),
                node("Cast", "i", "f", to=1),
                node("Mul", "f s"),
            ],
            [W],
        ),
        ([node("DequantizeLinear", "w s", "d"), node("Conv", "x d")], [W, weight("s")]),
    ],
)
def test_quantised_conv(nodes: Any, constants: Any) -> None:
    network = load(model(nodes, constants))
    assert [network.shapes[stage.name].channels for stage in network.stages] == [16]
    assert "barrier" not in ops(network)


@pytest.mark.parametrize(
    ("dims", "axis", "as_now"),
    [
        ((16,), 1, (16, 1, 1)),
        ((16, 12), 1, (16, 12, 1)),
        ((12,), 2, (12, 1)),
        ((10,), 3, (10,)),
        ((10,), None, (10,)),
        ((1,), 0, (1, 1, 1, 1)),
        ((12, 10), -2, (12, 10)),
    ],
)
@pytest.mark.parametrize("op", ["Add", "Mul", "Pow", "Less"])
def test_operands_that_begin_at_an_axis(op: str, dims: Dims, axis: int | None, as_now: Dims) -> None:
    """Before opset 7 an attribute said where the second operand stands; the same nodes as numpy's way."""
    fields = {"broadcast": 1} | ({} if axis is None else {"axis": axis})
    for constant in (True, False):
        constants = [W, weight("b", *map(int, dims))] if constant else [W]
        inputs: dict[str, Dims] = {"x": (1, 8, 12, 10)} | ({} if constant else {"b": dims})
        operand = "b" if constant else "n"
        given = [] if constant else [node("Neg", "b", "n")]
        old = load(model([STEM, *given, node(op, f"c {operand}", **fields)], constants, inputs, opset=6))
        shaped = node("Reshape", f"{operand} shape", "r")
        nodes = [STEM, *given, shaped, node(op, "c r")]
        new = load(model(nodes, [*constants, ints("shape", list(as_now))], inputs, opset=13))
        assert old.nodes == new.nodes
        assert old.warnings == new.warnings
    with pytest.raises(RramallocError, match="from axis 3 on"):
        load(model([STEM, node(op, "c b", broadcast=1, axis=3)], [W, weight("b", 10, 4)], opset=6))


def test_shapes_of_the_oldest_operators_are_attributes() -> None:
    """Reshape before opset 5, Pad before opset 2."""
    reshape = [STEM, node("Reshape", "c", shape=[1, 16, 120])]
    assert last(load(model(reshape, [W], opset=4))) == last(
        load(model([STEM, node("Reshape", "c s")], [W, ints("s", [1, 16, 120])], opset=5))
    )
    pads = [0, 0, 1, 1, 0, 0, 1, 1]
    nodes = [node("Pad", "x", "p", paddings=pads), node("Conv", "p k")]
    network = load(model(nodes, [weight("k", 4, 8, 3, 3)], opset=1))
    assert (ops(network), last(network)[1]) == ("input conv", "4 x 12 x 10")


@pytest.mark.parametrize(
    ("opset", "fields", "outputs", "trains"),
    [
        (17, {"training_mode": 1}, "y m v", True),
        (17, {}, "y", False),
        (9, {}, "y m v sm sv", True),
        (9, {}, "y", False),
        (6, {}, "y", True),
        (6, {"is_test": 1}, "y", False),
    ],
)
def test_batch_normalisation_in_training_mode(opset: int, fields: Any, outputs: str, trains: bool) -> None:
    """Read as in inference, with a note."""
    nodes = [STEM, node("BatchNormalization", "c s s s s", outputs, "norm", **fields)]
    network = load(model(nodes, [W, weight("s", 16)], opset=opset))
    assert ops(network) == "input conv batchnorm"
    assert any("(1 node, first 'norm') is in training mode" in text for text in network.warnings) == trains


def test_unknown_operators_become_barriers_with_one_warning() -> None:
    nodes = [
        STEM,
        node("Warp", "c", "a", "warp1", domain="acme"),
        node("Warp", "a", "y", "warp2", domain="acme"),
    ]
    shapes: dict[str, Dims] = {"a": ("N", 16, 6, 5), "y": ("N", 3, 6, 5)}
    network = load(model(nodes, [W], value_info=shapes))
    assert ops(network) == "input conv barrier barrier"
    assert last(network)[1] == "3 x 6 x 5"
    assert network.warnings == (
        "operator acme.Warp (2 nodes, first 'warp1') is not known: treated as a barrier",
    )


def test_recurrent_weights_of_which_one_is_an_input() -> None:
    """96 stored weights on 7 tokens count as not modelled, the products with 144 computed ones as dynamic."""
    nodes = [
        node("LSTM", "x w r", "h", "lstm", hidden_size=6),
        node("Squeeze", "h one", "s"),
        node("MatMul", "s m"),
    ]
    constants = [weight("w", 1, 24, 4), ints("one", [1]), weight("m", 6, 3)]
    proto = model(nodes, constants, {"x": (7, 1, 4), "r": (1, 24, 6)})
    with pytest.raises(UnsupportedError, match=r"LSTM 'lstm' \(96 weights\).*--allow-partial"):
        from_model(proto, "net.onnx", {})
    network = load(proto)
    assert [(item.weights, item.macs) for item in network.unmodelled] == [(96, 7 * 96)]
    assert sum(getattr(item, "dynamic_macs", None) or 0 for item in network.nodes) == 7 * 144


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("layout", [0, 1])
def test_several_sequences_at_once_are_images(direction: str, layout: int) -> None:
    """3 sequences of 7 steps: 21 windows a direction, and a last state of every sequence."""
    ways = 1 + (direction == "bidirectional")
    proto = model(
        [
            node("LSTM", "x w r", "y last", "lstm", hidden_size=6, direction=direction, layout=layout),
            node("Squeeze", "y way", "every") if ways == 1 else node("Identity", "y", "every"),
            node("ReduceMax", "last", "m", keepdims=0),
        ],
        [weight("w", ways, 24, 4), weight("r", ways, 24, 6), ints("way", 2 if layout else 1)],
        {"x": (3, 7, 4) if layout else (7, 3, 4)},
        ("every", "m"),
    )
    network = from_model(proto, "net.onnx", {})
    recurrences = [layer for layer in network.stages if layer.op == "recurrent"]
    assert [str(network.shapes[layer.name]) for layer in recurrences] == ["3 images of 6 x 7 x 1"] * ways
    assert [counts.macs(network, layer) for layer in recurrences] == [21 * 6 * 24] * ways
    assert "barrier" not in ops(network)


def test_outputs_that_nobody_reads_need_no_shape() -> None:
    """Of an operator without a rule: the caches of an attention over pages."""
    nodes = [node("PagedAttention", "x k", "y cache", "pages", "com.microsoft"), node("MatMul", "y w", "z")]
    proto = model(nodes, [weight("w", 8, 4)], {"x": (1, 6, 8), "k": (1, 6, 8)}, ("z",))
    with pytest.raises(UnsupportedError, match=r"output 'y' is not in the file: add the shape"):
        load(proto)
    proto.graph.value_info.append(info("y", 1, 6, 8))
    assert ops(load(proto)) == "input input barrier linear"


@pytest.mark.parametrize(("kind", "width"), [("UINT4", 32), ("UINT8", 16)])
def test_rows_of_a_table_of_few_bits(kind: str, width: int) -> None:
    """GatherBlockQuantized: 32 values of 4 bits, or two of them in a byte, for each of 5 tokens."""
    table = TensorProto(name="t", data_type=getattr(TensorProto, kind), dims=[50, width])
    look_up = node("GatherBlockQuantized", "t x s", "e", "rows", "com.microsoft", block_size=16, bits=4)
    proto = model(
        [look_up, node("MatMul", "e w")], [table, weight("s", 50, 2), weight("w", 32, 8)], {"x": (1, 5)}
    )
    network = load(proto)
    assert ops(network) == "input select linear"
    assert network.warnings == ()


def test_an_operator_with_weights_keeps_its_name_behind_another_barrier() -> None:
    """Softmax over the grid waits already for what the unknown operator waits for; --host names it."""
    nodes = [STEM, node("Softmax", "c", "s", axis=2), node("Own", "s m", "o", domain="acme")]
    nodes.append(node("Relu", "o"))
    proto = model(nodes, [W, weight("m", 3, 4)], value_info={"o": (1, 16, 12, 10)})
    network = load(proto)
    assert ops(network) == "input conv barrier barrier relu"
    assert [(item.name, item.weights) for item in network.unmodelled] == [("own", 12)]
    with pytest.raises(UnsupportedError, match=r"cannot be modelled: acme\.Own"):
        from_model(proto, "net.onnx", {})


RECURRENT = [("LSTM", 4, "forward"), ("GRU", 3, "bidirectional"), ("RNN", 1, "reverse")]


@pytest.mark.parametrize(("op", "gates", "direction"), RECURRENT)
def test_a_recurrent_layer_is_a_projection_and_a_recurrence(op: str, gates: int, direction: str) -> None:
    """docs/sources/model.md 11: per direction gates * 20 * 8 weights on any copies, gates * 20 * 20 on one.

    Forwards the recurrence ends one step behind the projection of 30 tokens, and the layer behind it one
    step later: 32. Backwards its first window needs the last token, and the token that it yields first is
    read last: the layer behind takes its 30 steps once the recurrence has ended, 1 + 30 + 30.
    """
    many = 2 if direction == "bidirectional" else 1
    rows = gates * 20
    constants = [
        weight("u", many, rows, 8), weight("r", many, rows, 20), weight("b", many, 2 * rows),
        ints("q", [0, 0, -1]), weight("m", 20 * many, 5),
    ]  # fmt: skip
    nodes = [
        node(op, "x u r b", "s h", hidden_size=20, direction=direction),
        node("Transpose", "s", "t", perm=[0, 2, 1, 3]), node("Reshape", "t q", "f"), node("MatMul", "f m"),
    ]  # fmt: skip
    network = load(model(nodes, constants, {"x": (30, 1, 8)}))
    assert (network.warnings, network.unmodelled, last(network)) == ((), (), ("linear", "5 x 30 x 1"))
    layers = [stage for stage in network.stages if stage.op == "recurrent"]
    assert [(stage.hidden, stage.gates) for stage in layers if isinstance(stage, Recurrent)] == [
        (20, gates)
    ] * many
    assert sum(weights(network, stage) for stage in network.stages) == many * rows * (8 + 20) + 20 * many * 5
    graph = StageGraph.build(network)
    alone = [stage.op == "recurrent" for stage in graph.stages]
    assert (graph.most_copies == 1).tolist() == alone
    steps = simulate(graph, np.ones(len(graph.stages), dtype=np.int64)).makespan
    assert steps == (32 if direction == "forward" else 61)


EINSUMS = [
    ("bthd,hdo->bto", (1, 6, 2, 4), (2, 4, 5), "linear", "5 x 6 x 1"),
    ("bti,iho->btho", (1, 6, 8), (8, 2, 3), "linear", "6 x 6 x 1"),
    ("...i,io->...o", (1, 6, 8), (8, 3), "linear", "3 x 6 x 1"),
    ("io,bti->bto", (8, 3), (1, 6, 8), "linear", "3 x 6 x 1"),
    ("bti,i->bti", (1, 6, 8), (8,), "activation", "8 x 6 x 1"),
]


@pytest.mark.parametrize(("equation", "first", "second", "op", "shape"), EINSUMS)
def test_einsum(equation: str, first: Any, second: Any, op: str, shape: str) -> None:
    """A product with constants is a linear layer along the letter that disappears."""
    data = first if len(first) > len(second) or first[0] == 1 else second
    names = "x k" if data is first else "k x"
    other = second if data is first else first
    stem = node("MatMul", "in s", "x", "stem")
    proto = model(
        [stem, node("Einsum", names, equation=equation)],
        [weight("s", data[-1], data[-1]), weight("k", *other)],
        {"in": data},
    )
    network = load(proto)
    kinds = [item.op for item in network.nodes]
    assert op in kinds
    assert "barrier" not in kinds
    assert last(network)[1] == shape


def test_einsum_of_two_computed_operands_is_attention() -> None:
    nodes = [
        node("MatMul", "x k", "a"), node("MatMul", "x q", "b"), node("Einsum", "a b", equation="bid,bjd->bij")
    ]  # fmt: skip
    network = load(model(nodes, [weight("k", 8, 4), weight("q", 8, 4)], {"x": (1, 6, 8)}))
    assert ops(network) == "input linear linear global_maxpool select select mul"
    assert last(network)[1] == "6 x 6 x 1"


def test_transposed_uses_share_weights_and_unused_owners_pass_them_on() -> None:
    nodes = [
        node("MatMul", "x w", "a", "first"), node("Transpose", "w", "v", perm=[1, 0]),
        node("MatMul", "x v", "b", "second"), node("MatMul", "b w", "y", "third"),
    ]  # fmt: skip
    square = [weight("w", 6, 6)]
    network = load(model(nodes, square, {"x": (1, 4, 6)}, outputs=("a", "y")))
    assert [stage.shares for stage in network.stages] == [None, "first", "first"]


def test_bodies_that_read_their_own_inputs_are_control_flow() -> None:
    """What a body of Loop or Scan takes is defined by the operator, not by a node of the graph."""
    end = helper.make_tensor_value_info("end", FLOAT, None)
    body = helper.make_graph([node("Relu", "begin", "end")], "body", [end], [end])
    body.input[0].name = "begin"
    with pytest.raises(UnsupportedError, match="control flow"):
        load(model([STEM, node("Loop", "c", body=body)], [W]))


PAIR = {"x": (1, 10, 64), "k": (1, 20, 64)}


IMAGE, ROWS, TABLE, PART = (1, 8, 4, 4), (1, 10, 64), (1, 64, 64), (1, 4, 5, 16)
TOKEN = (1, 1, 64)
K = "constant"
MICROSOFT: dict[
    str, Sequence[Any]
] = {  # ONNX Runtime's operators: dims of every input, K for what must be known
    "BiasAdd": [ROWS, (64,), ROWS],
    "BiasDropout": [ROWS, (64,), ROWS],
    "BiasGelu": [ROWS, (64,)],
    "BiasSoftmax": [(1, 4, 10, 10), (1, 1, 1, 10)],
    "DecoderMaskedMultiHeadAttention": [
        TOKEN,
        TOKEN,
        TOKEN,
        (1, 6),
        (1, 4, 1, 6),
        PART,
        PART,
        (1,),
        (1,),
        (1, 1, 5),
        (192,),
    ],
    "DecoderMaskedSelfAttention": [TOKEN, (K, 64, 192), (192,), (1, 6), (2, 1, 4, 5, 16), (1, 4, 1, 6), (1,)],
    "DynamicQuantizeMatMul": [ROWS, (K, 64, 8), (), (), (8,)],
    "Erfc": [IMAGE],
    "FastGelu": [ROWS, (64,)],
    "FusedConv": [IMAGE, (K, 6, 8, 1, 1), (6,), (1, 6, 4, 4)],
    "BipolarQuant": [IMAGE, ()],
    "EmbedLayerNormalization": [(1, 10), (1, 10), *[(K, 9, 64)] * 3, (64,), (64,), (1, 10), (1, 10)],
    "FusedGemm": [(1, 64), (K, 64, 8), (8,)],
    "FusedMatMul": [ROWS, TABLE],
    "FusedMatMulActivation": [ROWS, TABLE],
    "TransposeMatMul": [ROWS, TABLE],
    "GroupNorm": [IMAGE, (8,), (8,)],
    "GatherBlockQuantized": [(K, 50, 64), (1, 10), (50, 4), (50, 4)],
    "GroupQueryAttention": [ROWS, ROWS, ROWS, PART, PART, (1,), (1,)],
    "SparseAttention": [ROWS, ROWS, ROWS, PART, PART, (1, 5), (1, 5), (1,), (1,)],
    "Quant": [IMAGE, (), (), (K,)],
    "IntQuant": [IMAGE, (), (), (K,)],
    "FloatQuant": [IMAGE, (), (K,), (K,), (), ()],
    "DynamicQuantizeLSTM": [
        (5, 1, 16),
        (K, 1, 16, 32),
        (K, 1, 8, 32),
        (1, 64),
        (1,),
        (1, 1, 8),
        (1, 1, 8),
        (1, 24),
        (1,),
        (1,),
        (1,),
        (1,),
    ],
    "MultiThreshold": [IMAGE, (8, 15)],
    "SkipSimplifiedLayerNormalization": [ROWS, ROWS, (64,), (64,)],
    "Trunc": [IMAGE, (), (), (), (K,)],
    "MatMulIntegerToFloat": [ROWS, (K, 64, 8), (), (), (), (), (8,)],
    "MatMulNBits": [ROWS, (K, 8, 2, 16), (16,), (16,), (64,), (8,)],
    "MatMulBnb4": [ROWS, (K, 512), (16,)],
    "NhwcMaxPool": [IMAGE],
    "MultiHeadAttention": [ROWS, ROWS, ROWS, (192,), (10,), (1, 4, 10, 15), PART, PART],
    "PackedAttention": [(10, 64), (K, 64, 192), (192,), (1, 10), (2,), (1, 4, 10, 10)],
    "PackedMultiHeadAttention": [(10, 64), (10, 64), (10, 64), (192,), (1, 10), (2,), (1, 4, 10, 10)],
    "QAttention": [ROWS, (K, 64, 192), (192,), (), (), (1,), (), (), (2, 1, 4, 5, 16)],
    "QGemm": [(1, 64), (), (), (K, 64, 8), (), (), (8,), (), ()],
    "QLinearAdd": [IMAGE, (), (), IMAGE, (), (), (), ()],
    "QLinearAveragePool": [IMAGE, (), (), (), ()],
    "QLinearConcat": [(), (), IMAGE, (), (), IMAGE, (), ()],
    "QLinearGlobalAveragePool": [IMAGE, (), (), (), ()],
    "QLinearLeakyRelu": [IMAGE, (), (), (), ()],
    "QLinearMul": [IMAGE, (), (), IMAGE, (), (), (), ()],
    "QLinearSigmoid": [IMAGE, (), (), (), ()],
    "QLinearSoftmax": [IMAGE, (), (), (), ()],
    "QLinearWhere": [IMAGE, IMAGE, (), (), IMAGE, (), (), (), ()],
    "QuickGelu": [IMAGE],
    "SimplifiedLayerNormalization": [ROWS, (64,)],
    "SkipLayerNormalization": [ROWS, ROWS, (64,), (64,), (64,)],
}
STANDARD: dict[str, Sequence[Any]] = {  # standard operators whose inputs are not all alike
    "Attention": [(1, 4, 10, 16), PART, PART, (1, 4, 10, 10), PART, PART, (1,)],
    "BatchNormalization": [IMAGE, (8,), (8,), (8,), (8,)],
    "Clip": [IMAGE, (), ()],
    "Conv": [IMAGE, (K, 6, 8, 1, 1), (6,)],
    "ConvInteger": [IMAGE, (K, 6, 8, 1, 1), (), (6,)],
    "ConvTranspose": [IMAGE, (K, 8, 6, 2, 2), (6,)],
    "CumSum": [IMAGE, (K,)],
    "DequantizeLinear": [IMAGE, (8,), (8,)],
    "Dropout": [IMAGE, (), ()],
    "Einsum": [(1, 8), (1, 8)],
    "Gather": [IMAGE, (3,)],
    "Gemm": [(1, 64), (K, 64, 8), (8,)],
    "GroupNormalization": [IMAGE, (8,), (8,)],
    "InstanceNormalization": [IMAGE, (8,), (8,)],
    "LayerNormalization": [ROWS, (64,), (64,)],
    "MatMul": [ROWS, TABLE],
    "MatMulInteger": [ROWS, TABLE, (), ()],
    "PRelu": [IMAGE, (8, 1, 1)],
    "Pad": [IMAGE, (K, 8), (), (K, 4)],
    "QLinearConv": [IMAGE, (), (), (K, 6, 8, 1, 1), (6,), (6,), (), (), (6,)],
    "QLinearMatMul": [ROWS, (), (), TABLE, (), (), (), ()],
    "QuantizeLinear": [IMAGE, (8,), (8,)],
    "RMSNormalization": [ROWS, (64,)],
    "RotaryEmbedding": [(1, 4, 10, 16), (20, 8), (20, 8), (1, 10)],
    "RNN": [(5, 1, 16), (K, 1, 8, 16), (K, 1, 8, 8), (1, 16), (1,), (1, 1, 8)],
    "GRU": [(5, 1, 16), (K, 1, 24, 16), (K, 1, 24, 8), (1, 48), (1,), (1, 1, 8)],
    "CausalConvWithState": [(1, 8, 10), (K, 8, 1, 4), (8,), (1, 8, 3)],
    "LinearAttention": [ROWS, ROWS, ROWS, (1, 4, 16, 16), ROWS, (1, 10, 4)],
    "CumProd": [ROWS, (K, 1)],
    "LSTM": [(5, 1, 16), (K, 1, 32, 16), (K, 1, 32, 8), (1, 64), (1,), (1, 1, 8), (1, 1, 8), (1, 24)],
    "GatherElements": [IMAGE, IMAGE],
    "GatherND": [IMAGE, (3, 2)],
}
SHAPED = frozenset(
    "ConcatFromSequence Expand Reshape Resize SequenceAt SequenceConstruct SequenceEmpty SequenceErase "
    "SequenceInsert SequenceLength Slice Split SplitToSequence Squeeze Tile TopK "
    "Unsqueeze Upsample CastLike".split()
)
"""All their inputs but the first say what shape or type the result has: they must be known."""
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "DepthToSpace": {"blocksize": 2},
    "SpaceToDepth": {"blocksize": 2},
    "Einsum": {"equation": "bi,bi->b"},
    "MatMulNBits": {"K": 64, "N": 8, "bits": 4, "block_size": 32},
    "MatMulBnb4": {"K": 64, "N": 8, "block_size": 64},
    "MultiHeadAttention": {"num_heads": 4},
    "GroupQueryAttention": {"num_heads": 4, "kv_num_heads": 4},
    **{f"DecoderMasked{kind}Attention": {"num_heads": 4} for kind in ("MultiHead", "Self")},
    **{f"Packed{kind}Attention": {"num_heads": 4} for kind in ("MultiHead", "")},
    "QAttention": {"num_heads": 4},
    "SparseAttention": {"num_heads": 4},
    "QLinearAveragePool": {"kernel_shape": [2, 2]},
    **{op: {"kernel_shape": [2, 2]} for op in ("MaxPool", "AveragePool", "LpPool", "NhwcMaxPool")},
    **{op: {"hidden_size": 8} for op in ("RNN", "GRU", "LSTM", "DynamicQuantizeLSTM")},
    "LinearAttention": {"q_num_heads": 4, "kv_num_heads": 4},
}


@pytest.mark.parametrize("op", sorted(set(HANDLERS) - SHAPED))
def test_every_input_of_an_operator_is_an_edge(op: str) -> None:
    """All inputs that an operator may have are computed ones: each of them stands before its result."""
    schema = None if op in MICROSOFT else onnx.defs.get_schema(op)
    every = MICROSOFT[op] if schema is None else STANDARD.get(op, [IMAGE] * min(schema.max_input, 3))
    if schema is not None:
        every = every[:1] if op.startswith("Reduce") else every
    names = [f"v{at}" for at in range(len(every))]
    known = {name for name, dims in zip(names, every, strict=True) if dims[:1] == (K,)}
    inputs: dict[str, Dims] = {
        f"in_{n}": dims for n, dims in zip(names, every, strict=True) if n not in known
    }
    constants = [
        ints(name, [op.endswith(("Quant", "Trunc"))] * (dims[1] if len(dims) > 1 else 1))
        if len(dims) < 3
        else weight(name, *dims[1:])
        for name, dims in zip(names, every, strict=True)
        if name in known
    ]
    computed = [node("Sigmoid", f"in_{n}", n, f"s_{n}") for n in names if n not in known]
    domain = "" if schema is not None else "com.microsoft"
    opset = 23 if schema is None else max(23, schema.since_version)
    tested = node(op, " ".join(names), "y", "tested", domain, **ATTRIBUTES.get(op, {}))
    layer = node("Conv", "z w", "other", "layer")
    network = load(
        model(
            [*computed, tested, layer], [*constants, W], {**inputs, "z": IMAGE}, ("y", "other"), opset=opset
        )
    )
    assert {item.name for item in network.nodes if item.op == "input"} == {*inputs, "z"}


@pytest.mark.parametrize(
    ("op", "behind", "bits"),
    [("Quant", 1, 4), ("IntQuant", 1, 4), ("Trunc", 2, 4), ("BipolarQuant", 0, 1), ("FloatQuant", 1, 9)],
)
def test_qonnx_quantisers_give_the_bits_of_weights_and_inputs(op: str, behind: int, bits: int) -> None:
    """Bits are the fourth input of Quant, the fifth of Trunc, of FloatQuant a sign, exponent and mantissa.

    The shape is that of the first input.
    """
    more = "s " + "s " * behind + ("b" if behind else "")
    more = "s b b" if op == "FloatQuant" else more
    domain = "qonnx.custom_op.general"
    nodes = [
        node(op, f"w {more}", "wq", "wq", domain),
        node(op, f"x {more}", "xq", "xq", domain),
        node("Conv", "xq wq", name="conv"),
    ]
    network = load(model(nodes, [W, floats("s", 0.1), floats("b", 4.0)]))
    layer: Any = network.stages[0]
    assert (layer.weight_bits, layer.input_bits, last(network)) == (bits, bits, ("conv", "16 x 12 x 10"))


STORED = {"INT2": 2, "UINT2": 2, "INT4": 4, "UINT4": 4, "INT8": 8, "UINT8": 8, "INT16": 16, "UINT16": 16}
STORED |= {"FLOAT4E2M1": 4, "FLOAT8E4M3FN": 8, "FLOAT8E4M3FNUZ": 8, "FLOAT8E5M2": 8, "FLOAT8E5M2FNUZ": 8}
STORED |= {"FLOAT8E8M0": 8}


@pytest.mark.parametrize("kind", STORED)
def test_types_give_the_bits_that_they_are_stored_in(kind: str) -> None:
    """Of weights that are dequantised, by ONNX's operator or written out, and of quantised inputs."""
    if not hasattr(TensorProto, kind):
        pytest.skip(f"this onnx has no {kind}")
    number = getattr(TensorProto, kind)
    stored = TensorProto(name="v", data_type=number, dims=[8, 16])
    zero = TensorProto(name="z", data_type=number, dims=[])
    forms = {
        "operator": [node("DequantizeLinear", "v s", "w")],
        "written out": [node("Cast", "v", "f", to=FLOAT), node("Sub", "f s", "g"), node("Mul", "g s", "w")],
    }
    by_zero = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "d")]
    by_type = [node("QuantizeLinear", "x s", "q", output_dtype=number), node("DequantizeLinear", "q s", "d")]
    by_cast = [node("Cast", "x", "q", to=number), node("Cast", "q", "d", to=FLOAT)]
    for made, quantised in zip(
        [*forms.values(), forms["operator"]], (by_zero, by_type, by_cast), strict=True
    ):
        nodes = [*made, *quantised, node("MatMul", "d w")]
        network = load(model(nodes, [stored, zero, floats("s", 1.0)], {"x": (1, 6, 8)}, opset=23))
        (layer,) = network.stages
        assert (layer.weight_bits, layer.input_bits) == (STORED[kind], STORED[kind])


QUANTISERS = {  # domain, prefix of the operators, bits without a zero point
    "ONNX Runtime": ("com.microsoft", "", 8),
    "TensorRT, 8": ("trt", "TRT_FP8", 8),
    "TensorRT, 4": ("trt", "TRT_INT4", 4),
    "Vitis AI": ("com.vai.quantize", "Vitis", 8),
    "Quark": ("com.amd.quark", "Extended", 8),
    "any other": ("acme", "", 8),
}


@pytest.mark.parametrize("tool", QUANTISERS)
def test_quantisers_of_other_domains_are_those_of_onnx(tool: str) -> None:
    """Shapes pass, bits are those of the zero point, or of the operator: no node that waits, no warning."""
    domain, prefix, bits = QUANTISERS[tool]
    for zero in (True, False):
        given = "x s z" if zero else "x s"
        nodes = [
            node(f"{prefix}QuantizeLinear", given, "q", "q", domain),
            node(f"{prefix}DequantizeLinear", given.replace("x", "q"), "d", "d", domain),
            node(f"{prefix}DequantizeLinear", given.replace("x", "v"), "w", "w", domain),
            node("Conv", "d w"),
        ]
        stored = TensorProto(name="v", data_type=TensorProto.INT4, dims=[16, 8, 1, 1])
        zeros = TensorProto(name="z", data_type=TensorProto.INT16, dims=[])
        proto = model(nodes, [stored, zeros, floats("s", 1.0)])
        network = from_model(proto, "net.onnx", {})
        (layer,) = network.stages
        assert ops(network) == "input identity identity conv"
        assert (layer.weight_bits, layer.input_bits) == (4, 16 if zero else bits)
        assert network.warnings == ()
        assert proto.graph.node[0].domain == domain  # the file that was given is left as it was


def test_keys_and_values_of_earlier_calls() -> None:
    """8 heads, 32 tokens behind 1 earlier token: two products of 8 * 32 * 33 * 8; keys of 33 tokens."""
    query = node(
        "GroupQueryAttention", "x x2 x2 pk pv", "o k v", domain="com.microsoft", num_heads=8, kv_num_heads=2
    )
    nodes = [
        node("MatMul", "x n", "x2", "narrow"),
        query,
        node("MatMul", "o w", "y", "out"),
        node("Relu", "k", "z"),
    ]
    inputs: dict[str, Dims] = {"x": (1, 32, 64), "pk": (1, 2, 1, 8), "pv": (1, 2, 1, 8)}
    network = load(model(nodes, [weight("n", 64, 16), weight("w", 64, 64)], inputs, ("y", "z")))
    assert sum(getattr(item, "dynamic_macs", None) or 0 for item in network.nodes) == 2 * 8 * 32 * 33 * 8
    assert network.shapes["relu"].channels * network.shapes["relu"].pixels == 2 * 33 * 8


SHARED = {"past_present_share_buffer": 1}
FORMS: dict[str, Sequence[Any]] = {
    # ONNX Runtime's attention of 2 heads of 8, 5 tokens (1 in a decoder's step), 7 earlier, 11 elsewhere:
    # inputs, dims of those that are inputs of the graph, attributes; keys of a query; sizes of the results
    "keys of a cache": ("MultiHeadAttention", "q k v", {"k": (1, 2, 11, 8), "v": (1, 2, 11, 8)}, {}, 11, {}),
    "keys of tokens": ("MultiHeadAttention", "q k v", {"k": (1, 11, 16), "v": (1, 11, 16)}, {}, 11, {}),
    "packed keys and values": ("MultiHeadAttention", "q kv", {"kv": (1, 11, 2, 2, 8)}, {}, 11, {}),
    "packed all three": ("MultiHeadAttention", "q5", {}, {}, 5, {}),
    "past": (
        "MultiHeadAttention",
        "q q q - - - k v",
        {"k": (1, 2, 7, 8), "v": (1, 2, 7, 8)},
        {},
        12,
        {"b": 2 * 12 * 8, "c": 2 * 12 * 8, "d": 2 * 5 * 12},
    ),
    "past in a buffer": (
        "MultiHeadAttention",
        "q q q - - - k v seven",
        {"k": (1, 2, 20, 8), "v": (1, 2, 20, 8)},
        {},
        12,
        {"b": 2 * 20 * 8},
    ),
    "past and weights": (
        "Attention",
        "q w - - k",
        {"k": (2, 1, 2, 7, 8)},
        {},
        12,
        {"b": 2 * 2 * 12 * 8},
    ),
    "present and weights": ("Attention", "q w", {}, {}, 5, {"b": 2 * 2 * 5 * 8}),
    "a step": (
        "DecoderMaskedMultiHeadAttention",
        "t t t - - k v seven",
        {"k": (1, 2, 20, 8), "v": (1, 2, 20, 8)},
        SHARED,
        8,
        {"b": 2 * 20 * 8, "c": 2 * 20 * 8},
    ),
    "a step of any length": (
        "DecoderMaskedMultiHeadAttention",
        "t t t - - k v length",
        {"k": (1, 2, 20, 8), "v": (1, 2, 20, 8), "length": (1,)},
        SHARED,
        20,
        {},
    ),
    "a step on another text": (
        "DecoderMaskedMultiHeadAttention",
        "t k v",
        {"k": (1, 2, 11, 8), "v": (1, 2, 11, 8)},
        {},
        11,
        {},
    ),
    "a step with all three": ("DecoderMaskedMultiHeadAttention", "t3 - - - - k v", {"k": (1, 2, 7, 8),
        "v": (1, 2, 7, 8)}, {}, 8, {"b": 2 * 8 * 8}),
    "a step and weights": (
        "DecoderMaskedSelfAttention",
        "t w - - k - seven",
        {"k": (2, 1, 2, 20, 8)},
        SHARED,
        8,
        {"b": 2 * 2 * 20 * 8},
    ),
    "a buffer that the total fills in part": (
        "GroupQueryAttention",
        "t t t k v seven eight",
        {"k": (1, 2, 20, 8), "v": (1, 2, 20, 8)},
        {},
        8,
        {"b": 2 * 20 * 8, "c": 2 * 20 * 8},
    ),
    "the total is that of the earlier ones and the new one": (
        "GroupQueryAttention",
        "t t t k v seven eight",
        {"k": (1, 2, 7, 8), "v": (1, 2, 7, 8)},
        {},
        8,
        {"b": 2 * 8 * 8},
    ),
    "blocks of keys": (
        "SparseAttention",
        "q q q k v e e twelve e",
        {"k": (1, 2, 20, 8), "v": (1, 2, 20, 8), "e": (1, 5)},
        {},
        12,
        {"b": 2 * 20 * 8},
    ),
    "packed tokens": ("PackedMultiHeadAttention", "f f f - e e", {"e": (1, 5)}, {}, 5, {}),
    "packed tokens and weights": ("PackedAttention", "f w - e e", {"e": (1, 5)}, {}, 5, {}),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_attention(form: str) -> None:
    """Two products for each of 2 heads: queries times keys times 8; every result has its shape.

    Source: ONNX Runtime, page "Contrib Operators"; those that its CPU runs give these shapes there.
    """
    op, names, inputs, attributes, keys, results = FORMS[form]
    outputs = ["a", *"bcd"[: max((ord(name) - 97 for name in results), default=0)]]
    nodes = [
        node("MatMul", "x m", "q"),
        node("Gather", "q first", "t0", axis=1),
        node("Unsqueeze", "t0 one", "t"),
        node("Squeeze", "q zero", "f"),
        node("MatMul", "t m3", "t3"),
        node("MatMul", "q m3", "q3"),
        node("Reshape", "q3 parts", "q5"),
        node(op, names, " ".join(outputs), "attention", "com.microsoft", num_heads=2, **attributes),
        *[node("Relu", name, f"{name}_end", f"{name}_end") for name in outputs],
    ]
    constants = [weight("m", 16, 16), weight("m3", 16, 48), weight("w", 16, 48), ints("zero", [0])]
    constants += [ints("first", 0), ints("one", [1]), ints("parts", [1, 5, 2, 3, 8]), ints("seven", [7])]
    constants += [ints("eight", 8), ints("twelve", 12)]
    ends = [f"{name}_end" for name in outputs]
    network = load(model(nodes, constants, {"x": (1, 5, 16), **inputs}, ends))
    queries = 1 if names.startswith("t") else 5
    products = sum(getattr(item, "dynamic_macs", None) or 0 for item in network.nodes)
    assert products == 2 * 2 * queries * keys * 8
    for name, size in {"a": queries * 16, **results}.items():
        assert network.shapes[f"{name}_end"].channels * network.shapes[f"{name}_end"].pixels == size
    unknown = "reads all places of its buffer"
    assert any(unknown in text for text in network.warnings) == (form == "a step of any length")
    assert any("is taken as dense" in text for text in network.warnings) == (op == "SparseAttention")


def test_queries_keys_and_values_in_one_tensor() -> None:
    """8 + 2 + 2 heads of 8 in each of 32 tokens: two products of 8 * 32 * 32 * 8."""
    nodes = [
        node("MatMul", "x w", "p", "projections"),
        node("GroupQueryAttention", "p", "o", "a", "com.microsoft", num_heads=8, kv_num_heads=2),
        node("MatMul", "o v", name="out"),
    ]
    proto = model(nodes, [weight("w", 64, 96), weight("v", 64, 64)], {"x": (1, 32, 64)})
    network = load(proto)
    assert [weights(network, stage) for stage in network.stages] == [6144, 4096]
    assert sum(getattr(item, "dynamic_macs", None) or 0 for item in network.nodes) == 2 * 8 * 32 * 32 * 8
    proto.graph.initializer[0].dims[1] = 90
    with pytest.raises(NetworkError, match="do not make 1 x 32 x 90"):
        load(proto)


STACKS: dict[str, tuple[str, Dims, Dims, str]] = {
    "heads of one input": ("x v", (1, 10, 6), (4, 6, 5), "20 x 10 x 1"),
    "a broadcast axis": ("x v", (1, 1, 10, 6), (4, 6, 5), "20 x 1 x 10"),
    "matrices before the input": ("v x", (1, 6, 10), (4, 5, 6), "20 x 10 x 1"),
    "a batch of one matrix more": ("x v", (1, 10, 6), (1, 4, 6, 5), "20 x 10 x 1"),
}


@pytest.mark.parametrize("case", STACKS)
def test_a_stack_of_matrices_on_one_input_is_one_layer(case: str) -> None:
    """Four matrices of 6 x 5 weights read the same 10 tokens; the result has the shape that NumPy gives."""
    order, data, stack, shape = STACKS[case]
    network = load(model([node("MatMul", order), node("Relu", "y", "z")], [weight("v", *stack)], {"x": data},
                         ("z",)))  # fmt: skip
    (layer,) = network.stages
    assert weights(network, layer) == 4 * 6 * 5
    assert last(network) == ("relu", shape)
    assert "barrier" not in ops(network)


SEQUENCES = {  # c is 16 x 12 x 10; what is made of sequences of it, and its shape
    "joined": (
        [node("SequenceConstruct", "c c", "s"), node("ConcatFromSequence", "s", axis=1)],
        "32 x 12 x 10",
    ),
    "stacked": (
        [node("SequenceConstruct", "c c", "s"), node("ConcatFromSequence", "s", axis=1, new_axis=1)],
        "32 x 12 x 10",
    ),
    "inserted": (
        [
            node("Relu", "c", "r"),
            node("MaxPool", "c", "p", kernel_shape=[2, 2]),
            node("SequenceEmpty", "", "e"),
            node("SequenceInsert", "e c", "s1"),
            node("SequenceInsert", "s1 r", "s2"),
            node("SequenceInsert", "s2 p minus", "s3"),  # c p r
            node("SequenceErase", "s3 zero", "s4"),
            node("Identity", "s4", "s5"),
            node("SequenceAt", "s5 zero"),
        ],
        "16 x 11 x 9",
    ),
    "measured": (
        [
            node("SequenceConstruct", "c c c", "s"),
            node("SequenceLength", "s", "three"),
            node("Gather", "c three", axis=1),
        ],
        "1 x 12 x 10",
    ),
}


@pytest.mark.parametrize("case", SEQUENCES)
def test_sequences_that_are_made(case: str) -> None:
    nodes, shape = SEQUENCES[case]
    for item in nodes:
        if not item.name:
            item.name = item.output[0]
    network = load(model([STEM, *nodes], [W, ints("minus", -1), ints("zero", 0)]))
    assert last(network)[1] == shape
    assert network.warnings == ()


def test_sequences_do_not_vanish() -> None:
    """A sequence that is an output needs its layers; operators that take one are refused, or wait for it."""
    nodes = [STEM, node("SequenceConstruct", "c", "y")]
    assert ops(load(model(nodes, [W]))) == "input conv"
    taken = model([*nodes, node("Optional", "y", "z"), node("Relu", "x", "o")], [W], outputs=("z", "o"))
    with pytest.raises(UnsupportedError, match="takes a sequence"):
        from_model(taken, "net.onnx", {})
    assert ops(load(taken)) == "input conv barrier relu"


@pytest.mark.parametrize(("dims", "shape"), [((1, 4, 6, 8), "20 x 6 x 1"), ((1, 1, 4, 6, 8), "20 x 6 x 1")])
def test_a_matrix_for_each_head_is_a_grouped_layer(dims: Dims, shape: str) -> None:
    """4 heads of 6 tokens with 8 values, each times its own 8 x 5 weights, whatever axes the input has."""
    network = load(model([node("MatMul", "x m")], [weight("m", 4, 8, 5)], {"x": dims}))
    (layer,) = network.stages
    assert (weights(network, layer), str(network.shapes[layer.name])) == (160, shape)


def branch(name: str, *nodes: Any) -> Any:
    return helper.make_graph(list(nodes), name, [], [helper.make_empty_tensor_value_info(f"{name}_y")])


@pytest.mark.parametrize(("axis", "wanted", "op"), [(2, 12, "relu"), (2, 13, "activation"), (1, 8, "relu")])
def test_a_branch_that_the_shape_decides(axis: int, wanted: int, op: str) -> None:
    """The branch reads tensors of the graph around it, and a layer in it is a layer."""
    nodes = [
        node("Shape", "x", "dims"),
        node("Gather", "dims axis", "size"),
        node("Equal", "size wanted", "same"),
        helper.make_node(
            "If",
            ["same"],
            ["y"],
            name="choice",
            then_branch=branch("then", node("Conv", "x w", "k"), node("Relu", "k", "then_y")),
            else_branch=branch("else", node("Conv", "x w", "k"), node("Sigmoid", "k", "else_y")),
        ),
    ]
    network = load(model(nodes, [W, ints("axis", axis), ints("wanted", wanted)]))
    assert ops(network) == f"input conv {op}"


def test_shapes_in_external_data_are_named_and_the_advice_helps(tmp_path: Any) -> None:
    """They are never followed; saved as the message says, the file is read."""
    from rramalloc.importers import load as load_file

    path = tmp_path / "m.onnx"
    proto = model([STEM, node("Reshape", "c shape")], [weight("w", 16, 8, 1, 1), ints("shape", [1, 16, 120])])
    for tensor in proto.graph.initializer:
        tensor.raw_data = numpy_helper.to_array(tensor).tobytes()
        tensor.ClearField("int64_data")
    onnx.save(proto, path, save_as_external_data=True, size_threshold=0)
    with pytest.raises(UnsupportedError, match=r"external data.*size_threshold=1024"):
        load_file(path)
    onnx.save(onnx.load(path), path, save_as_external_data=True, size_threshold=1024)
    assert load_file(path).stages[0].op == "conv"


IN_OTHER_FORMS = {  # an operator on x; its dims, weights, inputs; shape, weights, MACs, products by hand
    "a quantised recurrence": (
        node("DynamicQuantizeLSTM", "x w r - - - - - s s s s", domain="com.microsoft", hidden_size=16),
        (10, 1, 8),
        {"w": (1, 8, 64), "r": (1, 16, 64), "s": (1,)},
        {},
        ("16 x 10 x 1", 8 * 64 + 16 * 64, 10 * (8 * 64 + 16 * 64), 0),
    ),
    "a causal convolution": (
        node("CausalConvWithState", "x w", "y"),
        (1, 8, 6),
        {"w": (8, 1, 4)},
        {},
        ("8 x 6 x 1", 32, 6 * 32, 0),
    ),
    "a causal convolution with a state": (
        node("CausalConvWithState", "x w - past", "y state"),
        (1, 8, 6),
        {"w": (8, 1, 4)},
        {"past": (1, 8, 3)},
        ("8 x 6 x 1", 32, 6 * 32, 0),
    ),
    "patches in three dimensions": (
        node("Conv", "x w", strides=[2, 2, 2]),
        (16, 3, 2, 2, 2),
        {"w": (8, 3, 2, 2, 2)},
        {},
        ("8 x 1 x 1", 8 * 24, 8 * 24, 0),
    ),
    "tubelets of a video": (
        node("Conv", "x w", strides=[2, 4, 4]),
        (1, 3, 5, 8, 12),
        {"w": (8, 3, 2, 4, 4)},
        {},
        ("2 images of 8 x 2 x 3", 8 * 96, 2 * 2 * 3 * 8 * 96, 0),
    ),
    "pixels in three dimensions, in groups": (
        node("Conv", "x w", group=2),
        (1, 4, 2, 3, 5),
        {"w": (6, 2, 1, 1, 1)},
        {},
        ("2 images of 6 x 3 x 5", 12, 30 * 12, 0),
    ),
    "linear attention": (
        node("LinearAttention", "x k v", q_num_heads=4, kv_num_heads=2, update_rule="gated"),
        (1, 5, 16),
        {},
        {"k": (1, 5, 8), "v": (1, 5, 12)},
        ("24 x 5 x 1", 0, 0, 5 * 4 * 6 * (4 + 2)),
    ),
    "linear attention that corrects": (
        node("LinearAttention", "x k v", q_num_heads=4, kv_num_heads=2, update_rule="delta"),
        (1, 5, 16),
        {},
        {"k": (1, 5, 8), "v": (1, 5, 12)},
        ("24 x 5 x 1", 0, 0, 5 * 4 * 6 * (4 + 2 * 2)),
    ),
    "a gate": (node("SwiGLU", "x k"), (1, 5, 16), {}, {"k": (1, 5, 16)}, ("5 x 16 x 1", 0, 0, 0)),
}


@pytest.mark.parametrize("case", IN_OTHER_FORMS)
def test_layers_in_other_forms(case: str) -> None:
    """A recurrence, a depthwise convolution, a linear layer on patches, a product, under other names."""
    tested, dims, stored, inputs, (shape, held, macs, products) = IN_OTHER_FORMS[case]
    layer = node("Conv", "z w0", "other", "layer")
    every = {"x": dims, "z": IMAGE, **inputs}
    initializers = [weight("w0", 6, 8, 1, 1), *(weight(name, *size) for name, size in stored.items())]
    network = load(model([tested, layer], initializers, every, ("y", "other"), opset=28))
    found = Coverage.of(network, [stage.name for stage in network.stages])
    (y,) = [node.name for node in network.nodes if node.name == tested.name]
    assert str(network.shapes[y]) == shape
    assert found.weights.on_arrays == held + 48
    assert found.macs.total == macs + products + 16 * 48
    assert (found.dynamic.macs if found.dynamic else 0) == products
