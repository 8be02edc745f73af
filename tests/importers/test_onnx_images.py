"""Images that a model folds into a batch: views, windows, frames, regions (docs/sources/model.md 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from importers.onnx_parts import info, ints, weight
from onnx import TensorProto, helper

from rramalloc.importers.onnx import from_model
from rramalloc.network import counts
from rramalloc.network.coverage import Coverage
from rramalloc.network.network import Network


def node(op: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), output.split(), name=output.split()[0], **attributes)


def load(nodes: Sequence[Any], stored: Sequence[Any], opset: int = 18, **inputs: Sequence[int]) -> Network:
    graph = helper.make_graph(
        [*nodes, node("Identity", nodes[-1].output[0], "out")],
        "graph",
        [info(name, *dims) for name, dims in inputs.items()],
        [helper.make_empty_tensor_value_info("out")],
        list(stored),
    )
    return from_model(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]), "net.onnx", {}
    )


def moves(network: Network) -> list[str]:
    """Nodes that move pixels or wait for them, with the images that each makes."""
    ops = ("barrier", "regrid", "take", "concat", "reduce", "select", "upsample", "maxpool")
    return [f"{item.op} {network.shapes[item.name].images}" for item in network.nodes if item.op in ops]


KERNEL = weight("w", 4, 4, 3, 3)
SAME = {"pads": [1, 1, 1, 1]}
CUT = [
    node("Reshape", "x six", "a"),
    node("Transpose", "a", "b", perm=[0, 2, 4, 1, 3, 5]),
    node("Reshape", "b cut", "c"),
    node("Conv", "c w", "d", **SAME),
]
SPACE_AND_TIME = ["regrid 1", "regrid 64", "regrid 1", "regrid 3", "maxpool 3", "regrid 1", "regrid 16"]
FORMS: dict[str, tuple[list[Any], list[Any], Sequence[int], tuple[int, str, list[str]]]] = {
    # operators on x; constants; dims of x; windows of the first layer, shape of the last node, and moves
    "windows of an image": (
        [
            *CUT,
            node("Reshape", "d apart", "e"),
            node("Transpose", "e", "f", perm=[0, 3, 1, 4, 2, 5]),
            node("Reshape", "f whole", "g"),
            node("Add", "g x", "h"),
            node("Conv", "h w", "y", **SAME),
        ],
        [
            ints("six", 1, 4, 2, 4, 3, 4),
            ints("cut", 6, 4, 4, 4),
            ints("apart", 1, 2, 3, 4, 4, 4),
            ints("whole", 1, 4, 8, 12),
        ],
        (1, 4, 8, 12),
        (96, "4 x 8 x 12", ["regrid 6", "regrid 6", "regrid 1"]),
    ),
    "windows of pixels apart": (
        [
            node("Reshape", "x six", "a"),
            node("Transpose", "a", "b", perm=[0, 3, 5, 1, 2, 4]),
            node("Reshape", "b cut", "c"),
            node("Conv", "c w", "y", **SAME),
        ],
        [ints("six", 1, 4, 4, 2, 4, 3), ints("cut", 6, 4, 4, 4)],
        (1, 4, 8, 12),
        (96, "6 images of 4 x 4 x 4", ["regrid 6"]),
    ),
    "frames of a video, and their mean": (
        [
            node("Reshape", "x frames", "a"),
            node("Conv", "a w", "b", **SAME),
            node("GlobalAveragePool", "b", "c"),
            node("Reshape", "c vectors", "d"),
            node("ReduceMean", "d one", "y", keepdims=0),
        ],
        [ints("frames", 5, 4, 8, 8), ints("vectors", 1, 5, 4), ints("one", 1)],
        (1, 5, 4, 8, 8),
        (5 * 64, "4 x 1 x 1", ["reduce 1"]),
    ),
    "difference of frames": (
        [
            node("Reshape", "x frames", "a"),
            node("Conv", "a w", "b", **SAME),
            node("Slice", "b one five zero", "c"),
            node("Slice", "b zero four zero", "d"),
            node("Sub", "c d", "e"),
            node("Conv", "e w", "y", **SAME),
        ],
        [ints("frames", 5, 4, 8, 8), ints("zero", 0), ints("one", 1), ints("four", 4), ints("five", 5)],
        (1, 5, 4, 8, 8),
        (5 * 64, "4 images of 4 x 8 x 8", ["take 4", "take 4"]),
    ),
    "a shift in time": (
        [
            node("Reshape", "x frames", "a"),
            node("Conv", "a w", "b", **SAME),
            node("Slice", "b one five zero", "c"),
            node("Slice", "b zero one zero", "d"),
            node("Concat", "c d", "e", axis=0),
            node("Conv", "e w", "y", **SAME),
        ],
        [ints("frames", 5, 4, 8, 8), ints("zero", 0), ints("one", 1), ints("five", 5)],
        (1, 5, 4, 8, 8),
        (5 * 64, "5 images of 4 x 8 x 8", ["take 4", "take 1", "concat 5"]),
    ),
    "all frames at once": (
        [
            node("Reshape", "x frames", "a"),
            node("Conv", "a w", "b", **SAME),
            node("Reshape", "b stacked", "c"),
            node("Conv", "c w20", "y", **SAME),
        ],
        [ints("frames", 5, 4, 8, 8), ints("stacked", 1, 20, 8, 8), weight("w20", 3, 20, 3, 3)],
        (1, 5, 4, 8, 8),
        (5 * 64, "3 x 8 x 8", ["select 1"]),
    ),
    "a video, in space and in time": (
        [
            node("Conv", "x w1x3x3", "a", pads=[0, 1, 1, 0, 1, 1], strides=[1, 2, 2]),
            node("Conv", "a w3x1x1", "b", pads=[1, 0, 0, 1, 0, 0], strides=[2, 1, 1]),
            node("MaxPool", "b", "c", kernel_shape=[1, 2, 2], strides=[1, 2, 2]),
            node("AveragePool", "c", "y", kernel_shape=[2, 1, 1], strides=[1, 1, 1]),
        ],
        [weight("w1x3x3", 8, 4, 1, 3, 3), weight("w3x1x1", 6, 8, 3, 1, 1)],
        (1, 4, 6, 16, 16),
        (6 * 64, "16 images of 6 x 2 x 1", SPACE_AND_TIME),
    ),
    "every other frame": (
        [node("Conv", "x w1x3x3", "y", pads=[0, 1, 1, 0, 1, 1], strides=[2, 1, 1])],
        [weight("w1x3x3", 8, 4, 1, 3, 3)],
        (1, 4, 6, 8, 8),
        (3 * 64, "3 images of 8 x 8 x 8", ["take 3"]),
    ),
    "channels become images": (
        [
            node("Conv", "x w", "a", **SAME),
            node("Reshape", "a apart", "b"),
            node("MaxPool", "b", "c", kernel_shape=[2, 2], strides=[2, 2]),
            node("Conv", "c w1", "y", **SAME),
        ],
        [ints("apart", 4, 1, 8, 8), weight("w1", 2, 1, 3, 3)],
        (1, 4, 8, 8),
        (64, "4 images of 2 x 4 x 4", ["select 4", "maxpool 4"]),
    ),
    "a convolution along time": (
        [
            node("Reshape", "x frames", "a"),
            node("Conv", "a w", "b", **SAME),
            node("Transpose", "b", "c", perm=[2, 3, 1, 0]),
            node("Reshape", "c pixels", "d"),
            node("Conv", "d wt", "y"),
        ],
        [ints("frames", 5, 4, 2, 3), ints("pixels", 6, 4, 5), weight("wt", 2, 4, 3)],
        (1, 5, 4, 2, 3),
        (5 * 6, "6 images of 2 x 3 x 1", ["regrid 1", "regrid 6"]),
    ),
    "attention between frames, at every pixel": (
        [
            node("Reshape", "x frames", "a"),
            node("Conv", "a w", "b", **SAME),
            node("Transpose", "b", "q", perm=[2, 3, 0, 1]),
            node("Transpose", "b", "k", perm=[2, 3, 1, 0]),
            node("MatMul", "q k", "s"),
            node("Softmax", "s", "p", axis=-1),
            node("MatMul", "p q", "y"),
        ],
        [ints("frames", 5, 4, 2, 3)],
        (1, 5, 4, 2, 3),
        (5 * 6, "", []),
    ),
    "a gate of every frame": (
        [
            node("Reshape", "x frames", "a"),
            node("Conv", "a w", "b", **SAME),
            node("GlobalAveragePool", "b", "c"),
            node("Conv", "c w1x1", "d"),
            node("Sigmoid", "d", "e"),
            node("Mul", "b e", "y"),
        ],
        [ints("frames", 5, 4, 8, 8), weight("w1x1", 4, 4, 1, 1)],
        (1, 5, 4, 8, 8),
        (5 * 64, "5 images of 4 x 8 x 8", []),
    ),
    "what all frames share": (
        [
            node("Reshape", "x frames", "a"),
            node("Conv", "a w", "b", **SAME),
            node("ReduceMax", "b zero", "c", keepdims=1),
            node("Conv", "c w", "d", **SAME),
            node("Add", "b d", "y"),
        ],
        [ints("frames", 5, 4, 8, 8), ints("zero", 0)],
        (1, 5, 4, 8, 8),
        (5 * 64, "5 images of 4 x 8 x 8", ["reduce 1"]),
    ),
    "vectors of frames": (
        [
            node("Reshape", "x frames", "a"),
            node("Conv", "a w", "b", strides=[3, 3]),
            node("Flatten", "b", "c"),
            node("Gemm", "c m", "d"),
            node("Reshape", "d every", "e"),
            node("Gemm", "e last", "y"),
        ],
        [ints("frames", 5, 4, 6, 6), ints("every", 1, 40), weight("m", 16, 8), weight("last", 40, 3)],
        (1, 5, 4, 6, 6),
        (5 * 4, "3 x 1 x 1", ["maxpool 5", "select 5"]),
    ),
}


@pytest.mark.parametrize("case", FORMS)
def test_forms_of_images(case: str) -> None:
    nodes, stored, dims, (first, shape, expected) = FORMS[case]
    network = load(nodes, [KERNEL, *stored], x=dims)
    assert counts.windows(network, network.stages[0]) == first
    if shape:
        assert str(network.shapes["out"]) == shape
        assert moves(network) == expected
        assert network.warnings == ()


def test_regions_of_a_detector_are_images() -> None:
    """10 regions of 7 x 7, whose number the file fixes, through a head of its own."""
    nodes = [
        node("Conv", "x w", "a", **SAME),
        node("RoiAlign", "a rois of", "b", output_height=7, output_width=7),
        node("Conv", "b w", "c", **SAME),
        node("ConvTranspose", "c up", "d", strides=[2, 2]),
        node("Flatten", "c", "e"),
        node("Gemm", "e m", "f"),
        node("ReduceMax", "d", "g", keepdims=0),
        node("Add", "f g", "y"),
    ]
    stored = [KERNEL, weight("up", 4, 2, 2, 2), weight("m", 196, 5)]
    stored.append(helper.make_tensor("of", TensorProto.INT64, [10], [0] * 10))
    network = load(nodes, stored, x=(1, 4, 16, 16), rois=(10, 4))
    by_name = {layer.name: counts.windows(network, layer) for layer in network.stages}
    assert by_name == {"a": 256, "c": 490, "d": 10 * 14 * 14, "f": 10}
    found = Coverage.of(network, list(by_name))
    assert found.macs.total == 256 * 144 + 490 * 144 + 490 * 4 * 8 + 10 * 196 * 5


def test_recurrences_along_both_axes_of_a_grid() -> None:
    """Rows and columns of 6 x 5 in turn: sequences are images, and pixels move back to the grid."""
    nodes = [
        node("Conv", "x w", "c", **SAME),
        node("Transpose", "c", "a", perm=[0, 2, 3, 1]),
        node("Squeeze", "a zero", "rows"),
        node("GRU", "rows wx r", "down", hidden_size=4),
        node("Squeeze", "down one", "b"),
        node("Transpose", "b", "d", perm=[1, 0, 2]),
        node("GRU", "d wx r2", "along", hidden_size=4),
        node("Squeeze", "along one", "e"),
        node("Transpose", "e", "f", perm=[2, 1, 0]),
        node("Unsqueeze", "f zero", "g"),
        node("Conv", "g w", "y", **SAME),
    ]
    stored = [KERNEL, ints("zero", 0), ints("one", 1), weight("wx", 1, 12, 4)]
    stored += [weight("r", 1, 12, 4), weight("r2", 1, 12, 4)]
    network = load(nodes, stored, x=(1, 4, 6, 5))
    shapes = [str(network.shapes[item.name]) for item in network.stages if item.op == "recurrent"]
    assert shapes == ["5 images of 4 x 6 x 1", "6 images of 4 x 5 x 1"]
    assert str(network.shapes["y"]) == "4 x 6 x 5"
    assert [move.split()[0] for move in moves(network)] == ["regrid"] * 4
