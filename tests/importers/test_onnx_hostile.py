"""Damaged and malicious ONNX files: an error of this package, never a traceback, a hang or much memory."""

from __future__ import annotations

import contextlib
import itertools
import random
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx.defs
import pytest
from importers.onnx_parts import FLOAT, info, ints
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from rramalloc.errors import FileError, RramallocError, SpecError, UnsupportedError
from rramalloc.importers.onnx import from_model, read

OPERATORS = sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain})


def weight(name: str, *dims: int) -> Any:
    return TensorProto(name=name, data_type=FLOAT, dims=dims)


def good() -> Any:
    """Every kind of field that the reader looks at."""
    nodes = [
        helper.make_node("Pad", ["x", "p"], ["d"]),
        helper.make_node("Conv", ["d", "w"], ["c"], name="conv", strides=[2, 2], auto_pad="SAME_UPPER"),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["m"], kernel_shape=[2, 2], pads=[1, 1, 0, 0]),
        helper.make_node("Constant", [], ["k"], value=ints("k", 0, -1)),
        helper.make_node("Shape", ["m"], ["s"]),
        helper.make_node("Slice", ["s", "zero", "two"], ["h"]),
        helper.make_node("ConstantOfShape", ["h"], ["f"]),
        helper.make_node("Reshape", ["m", "k"], ["v"]),
        helper.make_node("Gemm", ["v", "g"], ["y"], transB=1),
    ]
    constants = [weight("w", 4, 3, 3, 3), ints("p", 0, 0, 1, 1, 0, 0, 1, 1), ints("zero", 0), ints("two", 2)]
    constants.append(weight("g", 10, 100))
    graph = helper.make_graph(nodes, "g", [info("x", "N", 3, 8, 8)], [info("y", "N", 10)], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])


def set_(path: str, value: Any) -> Any:
    """Change a field: "graph.node[1].input[0]"."""

    def change(model: Any) -> None:
        exec(f"model.{path} = value", {"model": model, "value": value})  # noqa: S102

    return change


def call(code: str) -> Any:
    def change(model: Any) -> None:
        exec(code, {"model": model, "helper": helper, "weight": weight, "info": info, "ints": ints})  # noqa: S102

    return change


MUTATIONS = {
    "no nodes": call("del model.graph.node[:]"),
    "no outputs": call("del model.graph.output[:]"),
    "no inputs": call("del model.graph.input[:]"),
    "no opset": call("del model.opset_import[:]"),
    "opset 0": set_("opset_import[0].version", 0),
    "opset huge": set_("opset_import[0].version", 2**62),
    "unknown output": set_("graph.output[0].name", "nowhere"),
    "undefined tensor": set_("graph.node[1].input[0]", "nowhere"),
    "missing input": call("del model.graph.node[1].input[1]"),
    "empty input": set_("graph.node[1].input[1]", ""),
    "no input at all": call("del model.graph.node[2].input[:]"),
    "defined twice": set_("graph.node[2].output[0]", "c"),
    "output is an input": set_("graph.node[2].output[0]", "x"),
    "cycle": set_("graph.node[1].input[0]", "r"),
    "self loop": set_("graph.node[2].input[0]", "r"),
    "negative weight": set_("graph.initializer[0].dims[0]", -4),
    "zero weight": set_("graph.initializer[0].dims[0]", 0),
    "huge weight": set_("graph.initializer[0].dims[0]", 10**18),
    "huge channels": set_("graph.initializer[0].dims[0]", 2**31 - 1),
    "weight of rank 0": call("del model.graph.initializer[0].dims[:]"),
    "wrong channels": set_("graph.initializer[0].dims[1]", 5),
    "huge input": set_("graph.input[0].type.tensor_type.shape.dim[2].dim_value", 10**18),
    "large input": set_("graph.input[0].type.tensor_type.shape.dim[2].dim_value", 2**31 - 1),
    "no channels": set_("graph.input[0].type.tensor_type.shape.dim[1].dim_value", 0),
    "sequence input": call("model.graph.input[0].type.sequence_type.elem_type.tensor_type.elem_type = 1"),
    "many axes": call("model.graph.input[0].type.CopyFrom(helper.make_tensor_type_proto(1, [1] * 1000))"),
    "raw_data too short": set_("graph.initializer[1].raw_data", b"1234567"),
    "raw_data too long": set_("graph.initializer[1].raw_data", bytes(2**20)),
    "pads missing": set_("graph.initializer[1].raw_data", b""),
    "pads huge": call("model.graph.initializer[1].CopyFrom(ints('p', *[2**62] * 8))"),
    "pads negative": call("model.graph.initializer[1].CopyFrom(ints('p', *[-(2**62)] * 8))"),
    "pads odd": call("model.graph.initializer[1].CopyFrom(ints('p', 1, 2, 3))"),
    "strides zero": set_("graph.node[1].attribute[1].ints[0]", 0),
    "strides negative": set_("graph.node[1].attribute[1].ints[0]", -1),
    "strides long": call("model.graph.node[1].attribute[1].ints.extend([1] * 1000)"),
    "strides no integers": set_("graph.node[1].attribute[1].type", AttributeProto.FLOATS),
    "auto_pad unknown": set_("graph.node[1].attribute[0].s", b"\xff\xfe"),
    "kernel_shape zero": set_("graph.node[3].attribute[0].ints[0]", 0),
    "kernel_shape huge": set_("graph.node[3].attribute[0].ints[0]", 2**62),
    "kernel_shape missing": call("del model.graph.node[3].attribute[:]"),
    "pool pads negative": set_("graph.node[3].attribute[1].ints[0]", -1),
    "reshape elsewhere": call("model.graph.node[4].attribute[0].t.CopyFrom(ints('k', 7, 11))"),
    "reshape two open": call("model.graph.node[4].attribute[0].t.CopyFrom(ints('k', -1, -1))"),
    "reshape overflow": call("model.graph.node[4].attribute[0].t.CopyFrom(ints('k', 2**62, 2**62))"),
    "reshape unreadable": call("model.graph.node[4].attribute[0].t.data_location = 1"),
    "gemm mismatch": set_("graph.initializer[4].dims[1]", 99),
    "concat of nothing": call("model.graph.node[2].op_type = 'Concat'; del model.graph.node[2].input[:]"),
    "unknown operator": set_("graph.node[2].op_type", "Frobnicate"),
    "no operator": set_("graph.node[2].op_type", ""),
    "long operator": set_("graph.node[2].op_type", "R" * 10**6),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_mutation(mutation: str) -> None:
    model = good()
    MUTATIONS[mutation](model)
    with pytest.raises(SpecError) as caught:
        from_model(model, "bad.onnx", {})
    assert str(caught.value).startswith("bad.onnx")
    assert len(str(caught.value)) < 1000


BOMBS = {
    "ConstantOfShape": [helper.make_node("ConstantOfShape", ["big"], ["t"])],
    "Range": [helper.make_node("Range", ["zero", "huge", "one"], ["t"])],
    "Range without end": [helper.make_node("Range", ["zero", "huge", "zero"], ["t"])],
    "Expand": [helper.make_node("Expand", ["one", "big"], ["t"])],
    "Tile": [helper.make_node("Tile", ["one", "huge"], ["t"])],
    "division": [helper.make_node("Div", ["one", "zero"], ["t"])],
    "outer sum": [
        helper.make_node("Range", ["zero", "many", "one"], ["a"]),
        helper.make_node("Unsqueeze", ["a", "one"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["t"]),
    ],
    "outer gather": [
        helper.make_node("Range", ["zero", "many", "one"], ["a"]),
        helper.make_node("Mul", ["a", "zero"], ["z"]),
        helper.make_node("Unsqueeze", ["a", "zero1"], ["b"]),
        helper.make_node("Gather", ["b", "z"], ["t"]),
    ],
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_constants_do_not_explode(bomb: str) -> None:
    """Shapes that a few bytes blow up to 10^18 elements are not computed."""
    scalars = {"zero": 0, "one": 1, "huge": 10**18, "many": 60_000}
    constants = [
        numpy_helper.from_array(np.array(value, dtype=np.int64), name) for name, value in scalars.items()
    ]
    constants += [ints("big", 10**9, 10**9), ints("zero1", 0), weight("w", 4, 3, 1, 1)]
    nodes = [
        *BOMBS[bomb],
        helper.make_node("Reshape", ["x", "t"], ["c"]),
        helper.make_node("Conv", ["c", "w"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [info("x", 1, 3, 8, 8)], [info("y", 1, 4, 8, 8)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(SpecError):
        from_model(model, "bomb.onnx", {})
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kilobytes


def test_deep_chain() -> None:
    """No recursion over the graph: 20,000 operators in a row."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["t0"])]
    nodes += [helper.make_node("Relu", [f"t{k}"], [f"t{k + 1}"]) for k in range(20_000)]
    graph = helper.make_graph(
        nodes, "g", [info("x", 1, 3, 8, 8)], [info("t20000")], [weight("w", 4, 3, 1, 1)]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    assert len(from_model(model, "deep.onnx", {}).nodes) == 20_002


def unfolding(kind: str, depth: int) -> Any:
    """One convolution behind functions that call each other twice, or loops in loops, some kB of them."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    constants = [ints("trip", 10), numpy_helper.from_array(np.array(True), "go"), weight("w", 4, 3, 1, 1)]
    constants[0].ClearField("dims")
    nodes, functions = [helper.make_node("Relu", ["x0"], ["y0"])], list[Any]()
    if "function" in kind:
        large = numpy_helper.from_array(np.zeros(2**20, np.uint8), "large")
        first = {
            "functions": nodes,
            "empty functions": [],
            "functions of many bytes": [helper.make_node("Constant", [], ["k"], value=large), *nodes],
        }[kind]
        names = ["x0", "x0" if kind == "empty functions" else "y0"]
        functions = [helper.make_function("f", "F0", names[:1], names[1:], first, opsets)]
        for level in range(1, depth):
            calls = [helper.make_node(f"F{level - 1}", [a], [b], domain="f") for a, b in ("am", "mb")]
            functions.append(helper.make_function("f", f"F{level}", ["a"], ["b"], calls, opsets))
        nodes = [helper.make_node(f"F{depth - 1}", ["x"], ["z"], domain="f")]
    for level in range(depth if "function" not in kind else 0):
        outer = f"x{level + 1}" if level < depth - 1 else "x"
        made = f"y{level + 1}" if level < depth - 1 else "z"
        state = [info(f"x{level}", 1, 3, 8, 8)]
        ends = [helper.make_empty_tensor_value_info(f"y{level}")]
        if kind == "scans":
            state = [*state, helper.make_tensor_value_info(f"n{level}", TensorProto.INT64, [])]
            ends.append(helper.make_empty_tensor_value_info(f"m{level}"))
            steps = [helper.make_node("Identity", [f"n{level}"], [f"m{level}"])]
            body = helper.make_graph([*nodes, *steps], f"b{level}", state, ends)
            nodes = [
                helper.make_node("Scan", [outer, "row"], [made, f"o{level}"], body=body, num_scan_inputs=1)
            ]
        elif kind == "branches in loops" and level % 2:
            branch = helper.make_graph(nodes, f"b{level}", [], ends)
            nodes = [
                helper.make_node("Identity", [outer], [f"x{level}"]),
                helper.make_node("If", ["go"], [made], then_branch=branch, else_branch=branch),
            ]
        else:
            begin = [
                helper.make_tensor_value_info(f"i{level}", TensorProto.INT64, []),
                helper.make_tensor_value_info(f"c{level}", TensorProto.BOOL, []),
            ]
            going = [helper.make_node("Identity", [f"c{level}"], [f"d{level}"])]
            ends = [helper.make_empty_tensor_value_info(f"d{level}"), *ends]
            body = helper.make_graph([*going, *nodes], f"b{level}", [*begin, *state], ends)
            nodes = [helper.make_node("Loop", ["trip", "go", outer], [made], body=body)]
    nodes = [*nodes, helper.make_node("Conv", ["z", "w"], ["y"])]
    constants.append(ints("row", *range(10)))
    graph = helper.make_graph(
        nodes, "g", [info("x", 1, 3, 8, 8)], [helper.make_empty_tensor_value_info("y")], constants
    )
    return helper.make_model(graph, opset_imports=opsets, functions=functions)


@pytest.mark.parametrize(
    ("kind", "depth"),
    [
        ("functions", 17),
        ("functions", 40),
        ("empty functions", 30),
        ("functions of many bytes", 10),
        ("loops", 4),
        ("loops", 16),
        ("branches in loops", 9),
    ],
)
def test_files_that_unfold_are_refused_by_a_count(kind: str, depth: int) -> None:
    model = unfolding(kind, depth)
    with pytest.raises(UnsupportedError, match=r"operators.*export the model"):
        from_model(model, "unfolds.onnx", {})


@pytest.mark.parametrize(("kind", "depth"), [("functions", 8), ("loops", 2), ("loops", 3), ("scans", 9)])
def test_files_that_unfold_a_little_are_read(kind: str, depth: int) -> None:
    """128 calls; 100 and 1,000 rounds; a scan is followed a few times, whatever its length."""
    assert len(from_model(unfolding(kind, depth), "unfolds.onnx", {}).stages) == 1


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    with pytest.raises(FileError, match="no such file"):
        read(path, {})
    with pytest.raises(FileError, match="folder"):
        read(tmp_path, {})
    for content in (b"", b"\x00", b"PK\x03\x04 not a model", b"{}", b"\xff" * 1000):
        path.write_bytes(content)
        with pytest.raises(RramallocError, match=r"net\.onnx"):
            read(path, {})


def test_every_truncation_and_random_change(tmp_path: Path) -> None:
    content = good().SerializeToString()
    path = tmp_path / "net.onnx"
    rng = random.Random(1)
    variants = [content[:length] for length in range(0, len(content), 7)]
    for _ in range(400):
        changed = bytearray(content)
        for _ in range(rng.randint(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        variants.append(bytes(changed))
    variants += [rng.randbytes(rng.randint(1, 300)) for _ in range(100)]
    start = time.monotonic()
    for variant in variants:
        path.write_bytes(variant)
        with contextlib.suppress(RramallocError):
            read(path, {})
    assert time.monotonic() - start < 120


TEXTS = (
    "", "constant", "reflect", "wrap", "linear", "SAME_UPPER", "bij,bjk->bik", "...i,ij->...j", "bti,bti",
    "ii->i", "a->", "->", "reverse", "bidirectional", "half_pixel", "DCR",
)  # fmt: skip
WHOLE = (
    "axis", "group", "blocksize", "hidden_size", "layout", "num_heads", "q_num_heads", "kv_num_heads",
    "keepdims", "transA", "transB", "N", "K", "bits", "batch_dims", "ceil_mode", "num_groups", "allowzero",
)  # fmt: skip
LISTS = (
    "axes", "kernel_shape", "strides", "pads", "dilations", "perm", "split", "starts", "ends",
    "output_padding", "output_shape", "qkv_hidden_sizes",
)  # fmt: skip


def test_what_is_derived_does_not_double_with_every_operator() -> None:
    """Chains of every operator of ONNX, each of which reads the result before it as often as it can."""
    schemas = [onnx.defs.get_schema(name, 17) for name in OPERATORS if onnx.defs.has(name, 17)]
    used_kb = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() // 1024
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, ((used_kb + 400_000) * 1024, before[1]))
    try:
        for schema, start in itertools.product(schemas, ("one", "four", "x")):
            count = min(max(schema.min_input, 2), schema.max_input)
            given = {"axis": 0} if "axis" in schema.attributes else {}
            names = [start, *(f"v{number}" for number in range(50))]
            nodes = [helper.make_node(schema.name, [name] * count, [after], **given)
                     for name, after in itertools.pairwise(names)]  # fmt: skip
            nodes.append(helper.make_node("Add", ["x", names[-1]], ["y"]))
            constants = [ints("one", 1), helper.make_tensor("four", TensorProto.INT64, [2, 2], [1] * 4)]
            graph = helper.make_graph(nodes, "g", [info("x", 1, 3, 4, 4)], [info("y")], constants)
            with contextlib.suppress(RramallocError):
                from_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), "m", {})
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_an_operator_with_more_inputs_than_it_takes_is_refused() -> None:
    nodes = [helper.make_node("Constant", ["x"], ["c"]), helper.make_node("Relu", ["c"], ["y"])]
    graph = helper.make_graph(nodes, "g", [info("x", 1, 3, 4, 4)], [info("y")])
    with pytest.raises(SpecError, match="inputs: it takes 0 at most, got 1"):
        from_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), "m", {})
