"""What is left out, on demand or since data says how much there is, by name (docs/sources/model.md 14)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest
from importers.onnx_parts import info, ints, weight
from onnx import TensorProto, helper, numpy_helper

import rramalloc
from rramalloc.errors import UnsupportedError
from rramalloc.importers.onnx import from_model
from rramalloc.network.coverage import Coverage
from rramalloc.network.network import Network


def node(op: str, inputs: str, outputs: str, name: str = "", domain: str = "", **attributes: Any) -> Any:
    takes, makes = (["" if part == "-" else part for part in text.split()] for text in (inputs, outputs))
    return helper.make_node(op, takes, makes, name=name or op.lower(), domain=domain, **attributes)


def model(
    nodes: Sequence[Any], stored: Sequence[Any], dims: Sequence[int] = (1, 3, 8, 8), **more: Any
) -> Any:
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [info("x", *dims), *(info(name, *axes) for name, axes in more.items())],
        [helper.make_empty_tensor_value_info("y")],
        list(stored),
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("acme", 1)]
    return helper.make_model(graph, opset_imports=opsets)


def covered(network: Network) -> Coverage:
    return Coverage.of(network, [stage.name for stage in network.stages])


FIRST = node("Conv", "x w", "c", "first")  # 3 -> 4 channels, 1 x 1: 12 weights, 768 products on 8 x 8
STORED = [weight("w", 4, 3, 1, 1), weight("k", 5, 4, 3, 3), weight("k3", 5, 4, 3, 3, 3)]
STORED += [weight("m", 4, 6), ints("deep", 1, 4, 4, 4, 4), ints("vectors", -1, 4)]
STORED += [ints("one", 1)]
PICKED = [
    node("GlobalAveragePool", "c", "g"),
    node("Flatten", "g", "r"),
    node("ArgMax", "r", "i", axis=1, keepdims=0),
]
REFUSED = {  # what cannot be expressed, called lost; its weights and products, and what the message says
    "three dimensions": (
        [node("Reshape", "c deep", "d"), node("Conv", "d k3", "y", "lost")],
        540,
        540 * 8,
        "3-D",
    ),
    "an unknown shape": ([node("Own", "c m", "y", "lost", "acme")], 24, None, "is not known"),
    "weights of data": (
        [node("Gather", "w3 i", "w4"), node("MatMul", "r w4", "y", "lost")],
        96,
        None,
        "experts",
    ),
    "rows that data picks": (
        [
            node("Reshape", "c vectors", "v"),
            node("ReduceSum", "v one", "s", keepdims=0),
            node("NonZero", "s", "places", "filter"),
            node("Gather", "v places", "picked"),
            node("MatMul", "picked m", "y", "lost"),
        ],
        24,
        None,
        "decided by data: 24 weights",
    ),
    "matrices that data picks": (
        [
            *PICKED,
            node("NonZero", "r", "places", "filter"),
            node("Gather", "w3 places", "some", "lost"),
            node("MatMul", "r some", "y"),
        ],
        96,
        None,
        "decided by data: 96 weights .* all experts work on all tokens",
    ),
}


@pytest.mark.parametrize("way", ["allow_partial", "host"])
@pytest.mark.parametrize("case", REFUSED)
def test_every_refusal_of_a_layer_is_lifted(case: str, way: str) -> None:
    """By one path, whatever its reason; its weights count, and it stands among what is approximated."""
    nodes, held, macs, reason = REFUSED[case]
    picks = PICKED if case == "weights of data" else []
    proto = model([FIRST, *picks, *nodes], [*STORED, weight("w3", 4, 4, 6)])
    with pytest.raises(UnsupportedError, match=reason):
        from_model(proto, "net.onnx", {})
    lifted: dict[str, Any] = {"allow_partial": True} if way == "allow_partial" else {"host": "lo*"}
    found = covered(from_model(proto, "net.onnx", {}, **lifted))
    assert (found.weights.on_arrays, found.weights.total) == (12, 12 + held)
    assert [item.name for item in found.unmodelled] == ["lost"]
    if macs is not None:
        assert found.macs.total == 768 + macs


def test_a_layer_left_to_the_host_is_named_in_a_result(tmp_path: Path) -> None:
    """From the option to the coverage: neither the reader nor the case refuses it."""
    nodes, *_ = REFUSED["three dimensions"]
    onnx.save(model([FIRST, *nodes], STORED), tmp_path / "net.onnx")
    found = rramalloc.inspect(tmp_path / "net.onnx", host="lost")
    assert "lost (Conv: 540 weights)" in found.coverage.summary


def boxes(*after: Any) -> Any:
    """Boxes and scores of 8 x 8 places, of which a suppression keeps some."""
    nodes = [
        FIRST,
        node("Reshape", "c four", "boxes"),
        node("Conv", "x w1", "s", "score"),
        node("Reshape", "s one_by_one", "scores"),
        node("NonMaxSuppression", "boxes scores most", "kept", "nms"),
        *after,
    ]
    stored = [weight("w1", 1, 3, 1, 1), ints("four", 1, -1, 4), ints("one_by_one", 1, 1, 64), ints("most", 5)]
    stored += [numpy_helper.from_array(np_axis, name) for name, np_axis in AXES.items()]
    return model(nodes, [*STORED, *stored])


AXES = {name: numpy_helper.to_array(ints(name, at)) for name, at in (("two", 2), ("three", 3), ("zero", 0))}


def test_what_follows_a_choice_by_data_without_weights_is_left_out_by_name() -> None:
    """The layers in front of it count: 4 x 3 and 1 x 3 weights on 64 pixels."""
    tail = [
        node("Slice", "kept two three one", "column"),
        node("Squeeze", "column one", "places"),
        node("Squeeze", "boxes zero", "rows"),
        node("Gather", "rows places", "y", "pick"),
    ]
    network = from_model(boxes(*tail), "net.onnx", {})
    found = covered(network)
    assert (found.weights.total, found.macs.total) == (15, 15 * 64)
    assert {item.operator for item in found.approximated} == {
        "NonMaxSuppression",
        "Slice",
        "Squeeze",
        "Gather",
    }
    assert network.shapes.keys() >= {"first", "score"}
    with pytest.raises(UnsupportedError, match="decided by data: 24 weights work on these") as caught:
        from_model(boxes(*tail[:3], node("Gather", "rows places", "p"), node("MatMul", "p m", "y")), "n", {})
    assert "expert" not in str(caught.value)


def test_an_empty_name_of_an_output_is_none() -> None:
    """Two recurrences whose last states nobody reads, and a factor of stored values with a missing input."""
    nodes = [
        node("GRU", "x W R", "a -", "one", hidden_size=4),
        node("Squeeze", "a one", "b"),
        node("GRU", "b W R", "c -", "two", hidden_size=4),
        node("Clip", "table - top", "factors"),
        node("Squeeze", "c one", "d"),
        node("MatMul", "d factors", "y", "last"),
    ]
    stored = [weight("W", 1, 12, 4), weight("R", 1, 12, 4), weight("table", 4, 6), ints("one", 1)]
    stored.append(helper.make_tensor("top", TensorProto.FLOAT, [], [1.0]))
    network = from_model(model(nodes, stored, (5, 1, 4)), "net.onnx", {})
    assert covered(network).weights.total == 2 * 48 + 24
    assert network.stages[-1].name == "last"
