"""Stored weights that are chosen, scaled or changed at run time (docs/sources/model.md 14): counted, named,
never on arrays. Numbers are products of the shapes in each case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from importers.onnx_parts import info, weight
from onnx import TensorProto, helper, numpy_helper

from rramalloc.errors import UnsupportedError
from rramalloc.importers.onnx import from_model
from rramalloc.network.coverage import Coverage
from rramalloc.network.network import Network

pytestmark = pytest.mark.quick

TOKENS, WIDE = 16, 8
FIRST = 8 * 8
"""Weights of the layer `fc0` that every case begins with."""


def ints(name: str, *values: int) -> TensorProto:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def node(op: str, inputs: str, output: str, domain: str = "", **attributes: Any) -> Any:
    names = ["" if part == "-" else part for part in inputs.split()]
    return helper.make_node(op, names, output.split(), name=output.split()[0], domain=domain, **attributes)


BEGIN = [
    node("MatMul", "x w0", "h"),  # 1 x 16 x 8
    node("ReduceMean", "h axes", "m", keepdims=1),  # 1 x 1 x 8
    node("ArgMax", "m", "i", axis=2, keepdims=0),  # 1 x 1
    node("ArgMax", "h", "token", axis=2, keepdims=0),  # 1 x 16
    node("Reshape", "i one", "place"),  # 1
    node("ReduceMean", "m last", "s", keepdims=1),  # 1 x 1 x 1
    node("Greater", "s zero", "flag"),
]
STORED = [
    weight("w0", 8, 8),
    ints("axes", 1),
    ints("last", 2),
    ints("one", 1),
    ints("zero1", 0),
    ints("axis0", 0),
    numpy_helper.from_array(np.zeros((1, 1, 1), np.float32), "zero"),
]


def made(nodes: Sequence[Any], stored: Sequence[Any] = (), opset: int = 21, **shapes: Sequence[int]) -> Any:
    graph = helper.make_graph(
        [*BEGIN, *nodes],
        "graph",
        [info("x", 1, TOKENS, WIDE)],
        [helper.make_empty_tensor_value_info("y")],
        [*STORED, *stored],
        value_info=[info(name, *dims) for name, dims in shapes.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("acme", 1)]
    return helper.make_model(graph, opset_imports=opsets)


def read(model: Any, *, allow_partial: bool = False) -> Network:
    return from_model(model, "net.onnx", {}, allow_partial=allow_partial)


def covered(network: Network) -> Coverage:
    return Coverage.of(network, [stage.name for stage in network.stages])


def check_left_out(model: Any, more: dict[str, int], on_arrays: int = FIRST) -> None:
    """Check the weights left out, by the tensor of the file that holds them, and the error without them."""
    coverage = covered(read(model, allow_partial=True))
    found = {
        item.operator.partition(" by ")[2].partition(",")[0]: item.weights for item in coverage.unmodelled
    }
    assert found == more
    assert coverage.weights.on_arrays == on_arrays
    assert coverage.weights.total == on_arrays + sum(more.values())
    for count in more.values():
        assert f"{count:,} weights" in coverage.summary
        with pytest.raises(UnsupportedError, match=rf"{count:,} weights.*--allow-partial"):
            read(model)


KINDS = {
    "Gather": ([node("Gather", "w i", "c", axis=0)], [("w", 4, 8, 6)], {"w": 192}),
    "Gather of a constant": (
        [
            helper.make_node("Constant", [], ["k"], value=weight("", 4, 8, 6)),
            node("Gather", "k i", "c", axis=0),
        ],
        [],
        {"k": 192},
    ),
    "Gather in the middle": (
        [node("Gather", "w place", "g", axis=1), node("Squeeze", "g one", "c")],
        [("w", 8, 4, 6)],
        {"w": 192},
    ),
    "GatherND": ([node("GatherND", "w place", "c")], [("w", 4, 8, 6)], {"w": 192}),
    "Slice": (
        [
            node("Add", "place one", "end"),
            node("Slice", "w place end axis0", "g"),
            node("Squeeze", "g axis0", "c"),
        ],
        [("w", 4, 8, 6)],
        {"w": 192},
    ),
    "Slice of rows": (
        [node("Add", "place eight", "end"), node("Slice", "w place end axis0", "c")],
        [("w", 32, 6)],
        {"w": 192},
    ),
    "Where": ([node("Where", "flag w v", "c")], [("w", 8, 6), ("v", 8, 6)], {"w": 48, "v": 48}),
    "scaled": ([node("Mul", "w s", "c")], [("w", 8, 6)], {"w": 48}),
    "scaled by input": (
        [node("Transpose", "m", "t", perm=[0, 2, 1]), node("Mul", "t w", "c")],
        [("w", 8, 6)],
        {"w": 48},
    ),
    "divided": ([node("Div", "w s", "c")], [("w", 8, 6)], {"w": 48}),
    "delta": (
        [node("MatMul", "m w1", "d0"), node("Reshape", "d0 shape", "d"), node("Add", "w d", "c")],
        [("w", 8, 6), ("w1", 8, 48)],
        {"w": 48},
    ),
    "delta of tokens": (
        [node("Transpose", "h", "ht", perm=[0, 2, 1]), node("MatMul", "ht h", "d"), node("Sub", "d w", "c")],
        [("w", 8, 8)],
        {"w": 64},
    ),
    "scale, then function": (
        [node("Mul", "w s", "g"), node("Tanh", "g", "c")],
        [("w", 8, 6)],
        {"w": 48},
    ),
    "sum of scaled": (
        [node("Mul", "w s", "g"), node("Add", "g v", "g1"), node("Relu", "g1", "c")],
        [("w", 8, 6), ("v", 8, 6)],
        {"w": 48, "v": 48},
    ),
    "changed and rounded": (
        [node("Add", "w s", "g"), node("Round", "g", "g1"), node("Clip", "g1", "c")],
        [("w", 8, 6)],
        {"w": 48},
    ),
    "normalised": ([node("Mul", "w s", "g"), node("LpNormalization", "g", "c")], [("w", 8, 6)], {"w": 48}),
    "quantised": (
        [node("Reshape", "s one", "scale"), node("DequantizeLinear", "q scale", "c")],
        [],
        {"q": 48},
    ),
    "moved": (
        [
            node("Mul", "w s", "g"),
            node("Cast", "g", "g1", to=TensorProto.FLOAT),
            node("Reshape", "g1 there", "g2"),
            node("Transpose", "g2", "g3", perm=[1, 0]),
            node("Unsqueeze", "g3 axis0", "g4"),
            node("Slice", "g4 zero1 eight last", "g5"),
            node("Squeeze", "g5 axis0", "c"),
        ],
        [("w", 6, 8)],
        {"w": 48},
    ),
    "summed over experts": (
        [
            node("Softmax", "m", "gates"),
            node("Reshape", "gates column", "column8"),
            node("Mul", "w column8", "g"),
            node("ReduceSum", "g axis0", "c", keepdims=0),
        ],
        [("w", 8, 8, 6)],
        {"w": 384},
    ),
    "concat": (
        [node("Mul", "w s", "g"), node("Mul", "v s", "g1"), node("Concat", "g g1", "c", axis=2)],
        [("w", 8, 6), ("v", 8, 2)],
        {"w": 48, "v": 16},
    ),
    "row as a matrix": (
        [node("Gather", "w i", "g"), node("Reshape", "g shape", "c")],
        [("w", 4, 48)],
        {"w": 192},
    ),
}
MORE = [
    ints("shape", 8, 6),
    ints("there", 6, 8),
    ints("column", 8, 1, 1),
    ints("eight", 8),
    numpy_helper.from_array(np.zeros((8, 6), np.int8), "q"),
]


@pytest.mark.parametrize("product", ["MatMul", "Einsum", "Gemm", "Conv", "left"])
@pytest.mark.parametrize("kind", KINDS)
def test_chosen_weights_count_in_front_of_every_product(kind: str, product: str) -> None:
    """A matrix of 8 x K, however it comes, is multiplied by tokens of 8."""
    nodes, stored, left_out = KINDS[kind]
    columns = {"delta of tokens": 8, "concat": 8}.get(kind, 6)
    ends = {
        "MatMul": [node("MatMul", "h c", "y")],
        "left": [
            node("Reshape", "c flat", "c2"),
            node("Transpose", "c2", "turned", perm=[1, 0]),
            node("Transpose", "h", "columns", perm=[0, 2, 1]),
            node("MatMul", "turned columns", "y"),
        ],
        "Einsum": [node("Reshape", "c flat", "c2"), node("Einsum", "h c2", "y", equation="bti,io->bto")],
        "Gemm": [
            node("Reshape", "h tokens", "h2"),
            node("Reshape", "c flat", "c2"),
            node("Gemm", "h2 c2", "y"),
        ],
        "Conv": [
            node("Transpose", "h", "image", perm=[0, 2, 1]),
            node("Reshape", "c flat", "c2"),
            node("Transpose", "c2", "c3", perm=[1, 0]),
            node("Unsqueeze", "c3 last", "kernel"),
            node("Conv", "image kernel", "y"),
        ],
    }
    shapes = [ints("flat", 8, columns), ints("tokens", TOKENS, WIDE)]
    model = made([*nodes, *ends[product]], [*(weight(*each) for each in stored), *MORE, *shapes])
    on_arrays = FIRST + (8 * 48 if kind == "delta" else 0)
    check_left_out(model, left_out, on_arrays)


LOOKED_UP = {
    "Gather": ([node("Gather", "w token", "r")], (32, 8)),
    "Gather of columns": (
        [node("Gather", "w token", "r0", axis=1), node("Transpose", "r0", "r", perm=[1, 2, 0])],
        (8, 32),
    ),
    "GatherND": ([node("Unsqueeze", "token last", "t1"), node("GatherND", "w t1", "r")], (32, 8)),
    "GatherElements": (
        [
            node("Unsqueeze", "token last", "t1"),
            node("Expand", "t1 shape", "t2"),
            node("Squeeze", "t2 axis0", "t3"),
            node("GatherElements", "w t3", "r0", axis=0),
            node("Unsqueeze", "r0 axis0", "r"),
        ],
        (32, 8),
    ),
    "Slice": ([node("Add", "place one", "end"), node("Slice", "w place end axis0", "r")], (32, 8)),
}


@pytest.mark.parametrize("use", ["Add", "scores", "Mul"])
@pytest.mark.parametrize("kind", LOOKED_UP)
def test_a_look_up_is_no_weight(kind: str, use: str) -> None:
    """Rows of a table, whatever is done with them: it counts nowhere, products with them are dynamic."""
    nodes, dims = LOOKED_UP[kind]
    ends = {
        "Add": [node("Add", "h r", "y")],
        "scores": [node("Transpose", "h", "ht", perm=[0, 2, 1]), node("MatMul", "r ht", "y")],
        "Mul": [node("Mul", "h r", "y0"), node("ReduceSum", "y0 last", "y")],
    }
    coverage = covered(read(made([*nodes, *ends[use]], [weight("w", *dims), ints("shape", 1, 16, 8)])))
    assert coverage.weights.total == coverage.weights.on_arrays == FIRST
    rows = 1 if kind == "Slice" else TOKENS
    assert coverage.dynamic is None or coverage.dynamic.macs == rows * 8 * TOKENS


def test_a_place_in_two_axes_is_a_look_up() -> None:
    """PyTorch writes `table[i, j]` as GatherND: of three axes a row is left, of two a number."""
    pairs = [node("Unsqueeze", "token last", "t1"), node("Concat", "t1 t1", "t2", axis=2)]
    for dims, end in (((16, 16, 8), "Add"), ((16, 16), "Cast")):
        last = [node("Add", "h r", "y")] if end == "Add" else [node("Cast", "r", "y", to=1)]
        coverage = covered(read(made([*pairs, node("GatherND", "w t2", "r"), *last], [weight("w", *dims)])))
        assert coverage.weights.total == FIRST


NO_WEIGHTS = {
    "positions": [node("Add", "h p", "a"), node("MatMul", "a w1", "y")],
    "positions, multiplied with themselves": [
        node("Add", "h p", "a"),
        node("Transpose", "a", "at", perm=[0, 2, 1]),
        node("MatMul", "a at", "y"),
    ],
    "positions of embeddings": [
        node("Gather", "table token", "r"),
        node("Add", "r p", "a"),
        node("Transpose", "h", "ht", perm=[0, 2, 1]),
        node("MatMul", "a ht", "y"),
    ],
    "rotation": [
        node("Neg", "h", "turned"),
        node("Mul", "h p", "a0"),
        node("Mul", "turned p1", "a1"),
        node("Add", "a0 a1", "a"),
        node("Transpose", "h", "ht", perm=[0, 2, 1]),
        node("MatMul", "a ht", "y"),
    ],
    "bias of scores": [
        node("Transpose", "h", "ht", perm=[0, 2, 1]),
        node("MatMul", "h ht", "scores"),
        node("Add", "scores square", "biased"),
        node("Softmax", "biased", "shares"),
        node("MatMul", "shares h", "y"),
    ],
    "positions twice": [
        node("Add", "h p", "a0"),
        node("MatMul", "a0 w0", "a1"),
        node("Add", "a1 a0", "a2"),
        node("Add", "a2 p1", "a"),
        node("MatMul", "a w1", "y"),
    ],
    "bias of every head": [
        node("Reshape", "h split", "q0"),
        node("Add", "q0 bias", "q1"),
        node("Transpose", "q1", "q2", perm=[0, 2, 1, 3]),
        node("Transpose", "q0", "k", perm=[0, 2, 3, 1]),
        node("MatMul", "q2 k", "y"),
    ],
    "decay": [
        node("Unsqueeze", "h behind", "h4"),
        node("Mul", "h4 rates", "d0"),
        node("Exp", "d0", "d"),
        node("MatMul", "d d", "y"),
    ],
    "registers": [node("Concat", "registers h", "a", axis=1), node("MatMul", "a w1", "y")],
    "a class as an image": [
        node("Gather", "labels i", "r"),
        node("Reshape", "r image", "a"),
        node("Conv", "a kernel", "y"),
    ],
}


SCALES = {  # of h, 1 x 16 x 8, or of its mean, a single token; x0: what is multiplied by its transpose
    "every head": ([node("Reshape", "h split", "q0"), node("Mul", "q0 bias", "x0")], "0 2 1 3"),
    "every head of one token": ([node("Reshape", "m split1", "q0"), node("Mul", "q0 bias", "x0")], "0 2 1 3"),
    "one head for all": (
        [node("Reshape", "h single", "q0"), node("Mul", "q0 bias8", "q1"), node("Relu", "q1", "x0")],
        "0 2 1 3",
    ),
    "groups": ([node("Reshape", "h split", "q0"), node("Div", "q0 groups", "x0")], "0 2 1 3"),
    "several mixes": ([node("Mul", "h mixes", "x0")], "0 1 2 3"),
    "decay": (
        [node("Exp", "rates", "w"), node("Reshape", "h outer", "q0"), node("Mul", "q0 w", "x0")],
        "0 1 2",
    ),
    "a null key": (
        [
            node("Reshape", "h split", "q0"),
            node("Transpose", "q0", "q1", perm=[0, 2, 1, 3]),
            node("Concat", "null q1", "k0", axis=2),
            node("Mul", "k0 key_scale", "x0"),
        ],
        "0 1 2 3",
    ),
}


@pytest.mark.parametrize("kind", SCALES)
def test_a_stored_scale_of_two_axes_is_no_weight(kind: str) -> None:
    """Normalisations of heads, mixes of RWKV, decays, a null key: all products are of computed tensors."""
    nodes, order = SCALES[kind]
    perm = [int(axis) for axis in order.split()]
    swapped = [*perm[:-2], perm[-1], perm[-2]]
    ends = [
        node("Transpose", "x0", "left", perm=perm),
        node("Transpose", "x0", "right", perm=swapped),
        node("MatMul", "left right", "y"),
    ]
    stored = [
        weight("bias", 2, 4),
        weight("bias8", 2, 1, 8),
        weight("groups", 2, 1),
        weight("mixes", 5, 1, 1, 8),
        weight("rates", 2, 8),
        weight("null", 1, 2, 1, 4),
        weight("key_scale", 2, 1, 4),
        ints("split", 1, 16, 2, 4),
        ints("split1", 1, 1, 2, 4),
        ints("single", 1, 1, 16, 8),
        ints("outer", 8, 2, 8),
    ]
    coverage = covered(read(made([*nodes, *ends], stored)))
    assert not coverage.unmodelled
    assert coverage.weights.total == FIRST


@pytest.mark.parametrize("kind", NO_WEIGHTS)
def test_stored_values_that_are_data(kind: str) -> None:
    """Position tables, rotations, biases and learned tokens change data: they are no weights of a product."""
    stored = [
        weight("p", 16, 8),
        weight("p1", 16, 8),
        weight("w1", 8, 4),
        weight("table", 32, 8),
        weight("rates", 8, 8),
        weight("square", 16, 16),
        weight("registers", 1, 4, 8),
        weight("labels", 8, 16),
        ints("image", 1, 1, 4, 4),
        ints("behind", 3),
        ints("split", 1, 16, 2, 4),
        weight("bias", 2, 4),
        weight("kernel", 2, 1, 3, 3),
    ]
    coverage = covered(read(made(NO_WEIGHTS[kind], stored)))
    assert not coverage.unmodelled
    assert coverage.weights.total == coverage.weights.on_arrays


def test_weights_that_are_chosen_twice_count_once() -> None:
    nodes = [
        node("Gather", "w i", "c"),
        node("Gather", "w token", "c1"),
        node("Unsqueeze", "h two", "h1"),
        node("MatMul", "h1 c1", "a0"),
        node("Squeeze", "a0 two", "a"),
        node("MatMul", "h c", "b"),
        node("Add", "a b", "y"),
    ]
    check_left_out(made(nodes, [weight("w", 4, 8, 6), ints("two", 2)]), {"w": 192})


def test_weights_of_a_layer_count_there_alone() -> None:
    nodes = [
        node("MatMul", "h w", "a"),
        node("Mul", "w s", "c"),
        node("MatMul", "h c", "b"),
        node("Add", "a b", "y"),
    ]
    coverage = covered(read(made(nodes, [weight("w", 8, 6)])))
    assert coverage.weights.total == coverage.weights.on_arrays == FIRST + 48


def test_all_experts_on_all_tokens_are_read() -> None:
    """The form that the message names: 4 experts of 8 x 6 on every token, weighted by their gates."""
    nodes = [
        node("MatMul", "h w", "each"),
        node("MatMul", "h gate", "g0"),
        node("Softmax", "g0", "g1"),
        node("Transpose", "g1", "g2", perm=[2, 1, 0]),
        node("Mul", "each g2", "weighed"),
        node("ReduceSum", "weighed axis0", "y", keepdims=0),
    ]
    coverage = covered(read(made(nodes, [weight("w", 4, 8, 6), weight("gate", 8, 4)])))
    assert coverage.weights.total == coverage.weights.on_arrays == FIRST + 192 + 32


EXPERTS = {
    "batched": [
        node("Gather", "w token", "c"),
        node("Unsqueeze", "h two", "h1"),
        node("MatMul", "h1 c", "y"),
    ],
    "grouped": [node("grouped_mm", "h w i", "y", "acme")],
    "eager": [
        node("Equal", "token one", "mine"),
        node("NonZero", "mine", "places"),
        node("Transpose", "places", "pairs", perm=[1, 0]),
        node("GatherND", "h pairs", "some"),
        node("Gather", "w expert", "w3"),
        node("MatMul", "some w3", "y"),
    ],
}


@pytest.mark.parametrize("form", EXPERTS)
def test_mixtures_of_experts_are_refused_with_the_form_that_is_read(form: str) -> None:
    model = made(EXPERTS[form], [weight("w", 4, 8, 6), ints("two", 2), ints("expert", 3)], y=(1, 16, 6))
    with pytest.raises(UnsupportedError, match=r"192 weights.*all experts work on all tokens"):
        read(model)


def test_the_total_of_all_experts_is_named() -> None:
    """Two stacks of 4 experts, of 8 x 6 and 6 x 8."""
    nodes = [
        node("Gather", "w i", "c"),
        node("MatMul", "h c", "a"),
        node("Gather", "v i", "d"),
        node("MatMul", "a d", "y"),
    ]
    with pytest.raises(UnsupportedError, match=r"cannot be modelled, 384 weights in all: .*all experts"):
        read(made(nodes, [weight("w", 4, 8, 6), weight("v", 4, 6, 8)]))


def test_advice_on_experts_stands_only_where_there_are_some() -> None:
    """A kernel that a style scales, and a known convolution of another domain, are none."""
    scaled = [node("Mul", "w s", "c"), node("Unsqueeze", "h axis0", "image"), node("Conv", "image c", "y")]
    unknown = [node("Blur", "h w", "y", "acme")]
    for nodes in (scaled, unknown):
        with pytest.raises(UnsupportedError, match="cannot be modelled: ") as caught:
            read(made(nodes, [weight("w", 4, 1, 3, 3)], y=(1, 16, 8)))
        assert "expert" not in str(caught.value)


def quantised(name: str, *dims: int) -> TensorProto:
    return numpy_helper.from_array(np.zeros(dims, np.uint8), name)


PACKED = {  # operators of ONNX Runtime whose weights of 4 bits lie in pairs in bytes; their number by hand
    "MatMulNBitsQkv": (
        node("MatMulNBitsQkv", "h - a sc a sc a sc", "y", "com.microsoft", K=8, Nq=32, Nkv=32, bits=4),
        [quantised("a", 32, 2, 2), weight("sc", 32, 2)],
        3 * 32 * 8,
    ),
    "QMoE": (
        node("QMoE", "h h a sc - b t", "y", "com.microsoft", k=2, expert_weight_bits=4),
        [quantised("a", 4, 16, 32), weight("sc", 4, 16), quantised("b", 4, 64, 8), weight("t", 4, 64)],
        4 * 16 * 64 + 4 * 64 * 16,
    ),
    "QMoE of 8 bits": (
        node("QMoE", "h h a sc - b t", "y", "com.microsoft", k=2, expert_weight_bits=8),
        [quantised("a", 4, 16, 64), weight("sc", 4, 16), quantised("b", 4, 64, 16), weight("t", 4, 64)],
        4 * 16 * 64 + 4 * 64 * 16,
    ),
}


@pytest.mark.parametrize("case", PACKED)
def test_packed_operators_count_weights_in_values(case: str) -> None:
    """Not in bytes, and without scales."""
    packed, stored, count = PACKED[case]
    coverage = covered(read(made([packed], stored, y=(1, 16, 8)), allow_partial=True))
    assert coverage.weights.total == FIRST + count


def test_a_stack_of_packed_experts_counts_in_values() -> None:
    """4 experts of 16 x 8 weights of 4 bits, looked up by a computed place."""
    nodes = [
        node("GatherBlockQuantized", "a i sc", "c", "com.microsoft", bits=4, gather_axis=0, block_size=16),
        node("Transpose", "c", "c2", perm=[0, 1, 3, 2]),
        node("MatMul", "h c2", "y"),
    ]
    model = made(nodes, [quantised("a", 4, 16, 4), weight("sc", 4, 16, 1)])
    assert covered(read(model, allow_partial=True)).weights.total == FIRST + 4 * 16 * 8
