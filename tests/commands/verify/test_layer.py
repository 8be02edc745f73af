"""One layer through its arrays: by hand, and against loops for every mapping, storage and geometry."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import onnx
from commands.verify.naive import (
    convolved,
    hardware,
    layer_of,
    network,
    random_block,
    random_conv,
    random_hardware,
    random_transposed,
    task,
    transposed,
    verified,
)
from hypothesis import given, settings
from laws.strategies import randoms
from onnx import helper
from onnx.reference import ReferenceEvaluator

from rramalloc.choices import MAPPINGS
from rramalloc.commands.verify import reference
from rramalloc.commands.verify.crossbars import CrossbarStorage
from rramalloc.commands.verify.layer import ParallelWindow
from rramalloc.commands.verify.reference import Weights, Width
from rramalloc.mapping.blocks import Block, Part
from rramalloc.mapping.demand import block_arrays
from rramalloc.mapping.modes import BlockGrid, smallest_block
from rramalloc.network.network import Network
from rramalloc.network.node import Conv, Pool

SIZES = (1, 8, 40)  # times the lines of random arrays: from copies of many arrays to arrays of many copies


def test_by_hand_offset() -> None:
    """Weights -8, 7 and 3 of 4 bits in cells of 2: stored 0, 15, 11 as (low, high) slices."""
    machine, block = hardware(), Block(0, 0, 3, 2, (Part(0, 0, 0, 0, range(3), range(2)),))
    cells = CrossbarStorage.of(machine, "im2col").block(block, np.array([[[-8, 7, 3]]]), 0)
    assert cells.tolist() == [[0, 0], [3, 3], [3, 2]]


def test_parallel_window_by_hand() -> None:
    """3 x 3, block 2 x 2: 4 x 4 pixels; stride 2, dilation 3, kernel 2: two windows read 0, 2, 3 and 5."""
    conv = network([1, 8, 8], out_channels=1, kernel=3).stages[0]
    window = ParallelWindow.of(conv, BlockGrid(6, 6, (2, 2)))
    kernel = np.arange(1, 10).reshape(1, 1, 1, 3, 3)
    shifted = window.shifted(kernel).reshape(4, 4, 4)
    assert window.positions == 16
    assert shifted[0].tolist() == [[1, 2, 3, 0], [4, 5, 6, 0], [7, 8, 9, 0], [0, 0, 0, 0]]
    assert shifted[3].tolist() == [[0, 0, 0, 0], [0, 1, 2, 3], [0, 4, 5, 6], [0, 7, 8, 9]]
    conv = network([1, 8, 8], out_channels=1, kernel=[1, 2], stride=[1, 2], dilation=[1, 3]).stages[0]
    window = ParallelWindow.of(conv, BlockGrid(8, 3, (1, 2)))
    assert window.columns.pixels.tolist() == [0, 2, 3, 5]
    assert window.columns.meets.tolist() == [[0, 2], [1, 3]]
    assert (window.columns.origin, window.columns.step) == (0, 4)


@settings(max_examples=110, deadline=None)
@given(randoms)
def test_any_layer_equals_the_loops(random: Random) -> None:
    """In every mapping, block and storage, transposed or not: the arrays and the reference."""
    source, mapping = (
        random.choice((random_conv, random_transposed))(random),
        random.choice((*MAPPINGS, "sdk")),
    )
    (stage,) = source.stages
    block = random_block(random, source, stage, 7) if mapping == "sdk" else None
    positions = math.prod(stage.kernel if isinstance(stage, Conv) else stage.block_reach)
    machine = random_hardware(
        random, positions if mapping == "whole_kernel" else 2, random.choice(SIZES) if block else 1
    )
    weights = Weights(source, machine.precision.weight_bits, random.randint(0, 99)).of(stage)
    shape, width = source.shapes["c"], Width.of(machine.precision)
    draw = np.random.default_rng(random.randint(0, 99))
    tensor = draw.integers(width.low, width.high, size=source.shapes["in"], endpoint=True)
    expected = (convolved if isinstance(stage, Conv) else transposed)(stage, tensor, weights, shape)
    blocks = BlockGrid.of(stage, shape, block or smallest_block(stage)).total
    copies = random.choice((1, blocks, random.randint(1, blocks)))
    layer = layer_of(source, machine, mapping, copies, weights, block)
    assert np.array_equal(layer.sums(tensor), expected)
    assert np.array_equal(reference.convolved(stage, tensor, weights, shape), expected)
    if block:
        assert len(layer.arrays) == block_arrays(source, stage, machine, block).arrays(copies)


@settings(max_examples=60, deadline=None)
@given(randoms)
def test_every_cell_of_every_copy_matters(random: Random) -> None:
    """One cell that holds another value changes some sum, whatever array it is in."""
    source, mapping = random_conv(random), random.choice(MAPPINGS)
    conv, shape = source.stages[0], source.shapes["c"]
    machine = random_hardware(random, least_lines=9)
    weights = Weights(source, machine.precision.weight_bits, 0).of(conv)
    copies = random.randint(1, shape.pixels)
    layer = layer_of(source, machine, mapping, copies, weights)
    tensor = np.full(source.shapes["in"], 1)
    before = layer.sums(tensor)
    array = random.choice(layer.arrays)
    part = random.choice(array.block.parts)
    row, column = random.randrange(len(part.rows)), random.randrange(len(part.columns))
    array.cells[part.wordline + row, part.bitline + column] ^= 1
    changed = np.argwhere(layer.sums(tensor) != before)
    windows = changed[:, 1] * shape.width + changed[:, 2]
    outputs = part.group * (shape.channels // conv.groups) + part.columns[column] // len(
        layer.storage.factors
    )
    copy = array.placed.replica + part.copy
    assert set(windows % copies) <= {copy}
    assert set(changed[:, 0]) <= {outputs}
    position = part.rows[row] % (conv.kernel[0] * conv.kernel[1])
    assert len(changed) == reads_of(source, position, copy, copies)


def reads_of(source: Network, position: int, copy: int, copies: int) -> int:
    """Windows of a copy in which a kernel position meets the input and not its border."""
    conv, side = source.stages[0], source.shapes["in"][1:]
    shape, found = source.shapes["c"], 0
    for window in range(copy, shape.pixels, copies):
        at, kernel = divmod(window, shape.width), divmod(position, conv.kernel[1])
        met = [at[a] * conv.stride[a] - conv.pads[a] + kernel[a] * conv.dilation[a] for a in (0, 1)]
        found += all(0 <= met[a] < side[a] for a in (0, 1))
    return found


def onnx_pool(node: Pool, tensor: np.ndarray, source: Network) -> np.ndarray:
    """As operators of ONNX; the border is added first, so far that ceil_mode needs no rule of its own."""
    shape, fill = source.shapes["p"], -16.0 if node.op == "maxpool" else 0.0
    reach = [(shape[1 + a] - 1) * node.stride[a] + node.geometry.span(a) for a in (0, 1)]
    after = [max(0, reach[a] - node.pads[a] - tensor.shape[1 + a]) for a in (0, 1)]
    border = ((0, 0), (0, 0), *zip(node.pads[:2], after, strict=True))
    bordered = np.pad(tensor.astype(np.float64)[None], border, constant_values=fill)
    window = {"kernel_shape": node.kernel, "strides": node.stride, "dilations": node.dilation}
    if node.op == "maxpool":
        operator = helper.make_node("MaxPool", ["x"], ["y"], **window)
        return run_onnx(operator, {"x": bordered})
    ones = np.ones((len(tensor), 1, *node.kernel))
    operator = helper.make_node("Conv", ["x", "w"], ["y"], group=len(tensor), **window)
    return np.floor(run_onnx(operator, {"x": bordered, "w": ones}) / ones[0].size)


def run_onnx(operator: onnx.NodeProto, given: dict[str, np.ndarray]) -> np.ndarray:
    info = helper.make_tensor_value_info
    inputs = [info(name, onnx.TensorProto.DOUBLE, value.shape) for name, value in given.items()]
    graph = helper.make_graph([operator], "g", inputs, [info("y", onnx.TensorProto.DOUBLE, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    found: np.ndarray = ReferenceEvaluator(model).run(None, given)[0][0]
    return found


@settings(max_examples=60, deadline=None)
@given(randoms)
def test_any_pooling_is_that_of_onnx(random: Random) -> None:
    nodes = random_conv(random).to_dict()["nodes"]
    pool = {key: nodes[1][key] for key in ("kernel", "stride", "pads", "dilation")}
    pool |= {"name": "p", "op": random.choice(("maxpool", "avgpool")), "inputs": ["in"]}
    pool["ceil_mode"] = random.random() < 0.5
    source = Network.build("pool", [nodes[0], pool])
    tensor = np.random.default_rng(random.randint(0, 99)).integers(-16, 15, size=source.shapes["in"])
    node = source.nodes[1]
    assert isinstance(node, Pool)
    got = reference.node_output(
        node, [tensor], [source.shapes["in"]], source.shapes["p"], Weights(source, 4, 0), Width(5)
    )
    assert np.array_equal(got, onnx_pool(node, tensor, source))


def test_a_wide_layer_is_exact_in_single_and_double_precision() -> None:
    """Arrays of 128 rows, cells of 2 bits and inputs of 16 are within 2**24, of 3 bits are not."""
    source = network([40, 4, 4], out_channels=9, kernel=3, pads=1)
    for cell_bits, kind in ((2, np.float32), (3, np.float64)):
        machine = hardware((127, 128), weight_bits=16, cell_bits=cell_bits, bits=16)
        weights = Weights(source, 16, 1).of(source.stages[0])
        layer = layer_of(source, machine, "im2col", 3, weights)
        assert layer._type() is kind
        assert verified(task(source, {"c": 3}, machine), seed=1).verdict == "equal"
