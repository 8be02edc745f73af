"""Receptive fields against loops over single pixels (docs/sources/model.md 2)."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from laws.reference import needed_pixels, pixels
from laws.strategies import randoms
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from rramalloc.network.geometry import Shape, pooled_extent
from rramalloc.network.network import Network
from rramalloc.network.node import Conv, Node, Pool, Upsample
from rramalloc.network.receptive import PixelTable, last_needed, last_user


def by_user(node: Node, table: PixelTable, output: Shape, source: Shape) -> list[list[int]]:
    """Largest entry over the output pixels that need each input pixel, -1 for none."""
    found = [[-1] * source.width for _ in range(source.height)]
    for pixel in pixels(output):
        for y, x in needed_pixels(node, pixel, source):
            found[y][x] = max(found[y][x], int(table[pixel]))
    return found


def check(network: Network, node: Node, name: str, random: Random) -> None:
    source, output = network.shapes[name], network.shapes[node.name]
    entries = np.random.default_rng(random.randrange(2**32))
    for tables in (
        [entries.integers(0, 50, extent).astype(np.int32) for extent in source[1:]],
        [np.arange(extent, dtype=np.int32) for extent in source[1:]],
    ):
        rows, columns = (last_needed(node, axis, tables[axis], source, output) for axis in (0, 1))
        assert (rows.shape, columns.shape) == ((output.height,), (output.width,))
        for y, x in pixels(output):
            needed = needed_pixels(node, (y, x), source)
            if needed:
                assert rows[y] == max(tables[0][row] for row, _ in needed)
                assert columns[x] == max(tables[1][column] for _, column in needed)
            else:
                assert -1 in (rows[y], columns[x])
    table = entries.integers(-1, 50, (output.height, output.width)).astype(np.int32)
    rising = np.arange(output.pixels, dtype=np.int32).reshape(output.height, output.width)
    for each in (table, rising):
        pushed = last_user(node, each, source, output)
        assert pushed.tolist() == by_user(node, each, output, source)
        assert pushed.shape == (source.height, source.width)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["asymmetric", "half_pixel", "align_corners"])
@pytest.mark.parametrize(("extent", "factor"), [(1, 3), (2, 2), (5, 2), (4, 3), (6, 4)])
def test_interpolation_needs_what_onnx_reads(mode: str, coordinates: str, extent: int, factor: int) -> None:
    """An input pixel is needed where it changes the output of ONNX' reference evaluator."""
    node = helper.make_node(
        "Resize", ["x", "", "s"], ["y"], mode=mode, coordinate_transformation_mode=coordinates
    )
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xs"],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )  # fmt: skip
    run = ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))
    scales = np.array([1, 1, 1, factor], dtype=np.float32)
    reads = np.stack([
        np.abs(run.run(None, {"x": row.reshape(1, 1, 1, -1), "s": scales})[0].ravel()) > 1e-4
        for row in np.eye(extent, dtype=np.float32)
    ])  # fmt: skip
    upsample = Upsample(name="u", inputs=("x",), scale=(1, factor), mode=mode, coordinates=coordinates)
    found = [(int(used.min()), int(used.max())) for used in map(np.flatnonzero, reads.T)]
    assert upsample.needed(1, Shape(1, 1, extent)) == found


def _window(random: Random, op: str, extents: tuple[int, int]) -> dict[str, object]:
    """Any kernel, stride, padding and dilation that fits, also with holes between strides and taps."""
    kernel, stride, dilation, pads = [], [], [], [0, 0, 0, 0]
    for axis, extent in enumerate(extents):
        pads[axis], pads[axis + 2] = random.randint(0, 6), random.randint(0, 6)
        room = extent + pads[axis] + pads[axis + 2]
        dilation.append(random.randint(1, 5))
        kernel.append(random.randint(1, min(6, (room - 1) // dilation[-1] + 1)))
        stride.append(random.randint(1, 7))
    fields = {"out_channels": 1} if op == "conv" else {"ceil_mode": random.random() < 0.5}
    window = {"kernel": kernel, "stride": stride, "pads": pads, "dilation": dilation}
    return {"name": "n", "op": op, "inputs": ["in"], **window, **fields}


@settings(max_examples=400)
@given(random=randoms)
def test_windows_of_any_geometry(random: Random) -> None:
    extents = (random.randint(1, 12), random.randint(1, 12))
    node = _window(random, random.choice(("conv", "maxpool")), extents)
    network = Network.build("one", [{"name": "in", "op": "input", "shape": [1, *extents]}, node])
    built = network.nodes[1]
    assert isinstance(built, Conv | Pool)
    check(network, built, "in", random)


@pytest.mark.parametrize(
    ("extent", "span", "stride", "pads", "floor", "ceil"),
    [
        (5, 2, 2, (0, 0), 2, 3),
        (4, 2, 2, (0, 0), 2, 2),
        (112, 3, 2, (0, 0), 55, 56),
        # starts 0 2 4 on 3 + 1 + 1 = 5 padded: rounded up a third window would start at 4 >= 3 + 1: dropped
        (3, 2, 2, (1, 1), 2, 2),
        # starts 0 3: 3 < 3 + 1, kept (it covers input pixel 2)
        (3, 3, 3, (1, 0), 1, 2),
        (1, 1, 3, (0, 0), 1, 1),
        (1, 1, 1, (0, 2), 3, 1),
    ],
)
def test_extent_with_and_without_ceil_mode(
    extent: int, span: int, stride: int, pads: tuple[int, int], floor: int, ceil: int
) -> None:
    """docs/sources/interface.md: ceil_mode drops a last window that starts beyond input + leading pad."""
    assert pooled_extent(extent, span, stride, pads, ceil_mode=False) == floor
    if (extent + sum(pads) - span) % stride:
        assert pooled_extent(extent, span, stride, pads, ceil_mode=True) == ceil
