"""Transposed convolutions through the arrays, in the blocks of their stride and in larger ones."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import onnx
import pytest
from commands.verify.naive import (
    hardware,
    layer_of,
    random_block,
    random_hardware,
    random_transposed,
    transposed,
)
from hypothesis import given, settings
from laws.strategies import randoms
from onnx import helper, numpy_helper

import rramalloc
from rramalloc.choices import MAPPINGS
from rramalloc.commands.verify import reference
from rramalloc.commands.verify.reference import Weights, Width, weights_in
from rramalloc.importers import load
from rramalloc.mapping.modes import BlockGrid, smallest_block
from rramalloc.network.network import Network


@pytest.fixture(scope="module")
def network() -> Network:
    return Network.build(
        "decoder",
        [
            {"name": "in", "op": "input", "shape": [64, 4, 4]},
            {
                "name": "up",
                "op": "conv_transpose",
                "inputs": ["in"],
                "out_channels": 40,
                "kernel": 3,
                "stride": 2,
            },
            {"name": "out", "op": "conv", "inputs": ["up"], "out_channels": 3, "kernel": 1},
        ],
    )


@settings(max_examples=150, deadline=None)
@given(randoms)
def test_any_transposed_convolution_equals_the_loops(random: Random) -> None:
    """In every mapping and every block: the arrays and the reference."""
    source, mapping = random_transposed(random), random.choice(MAPPINGS)
    (conv,) = source.stages
    block = random_block(random, source, conv) if mapping == "sdk" else None
    positions = conv.block_reach[0] * conv.block_reach[1]
    machine = random_hardware(random, positions if mapping == "whole_kernel" else 2)
    weights = Weights(source, machine.precision.weight_bits, random.randint(0, 99)).of(conv)
    shape, width = source.shapes["c"], Width.of(machine.precision)
    draw = np.random.default_rng(random.randint(0, 99))
    tensor = draw.integers(width.low, width.high, size=source.shapes["in"], endpoint=True)
    expected = transposed(conv, tensor, weights, shape)
    blocks = BlockGrid.of(conv, shape, block or smallest_block(conv)).total
    copies = random.choice((1, blocks, random.randint(1, blocks)))
    assert np.array_equal(layer_of(source, machine, mapping, copies, weights, block).sums(tensor), expected)
    assert np.array_equal(reference.convolved(conv, tensor, weights, shape), expected)


def test_weights_of_an_onnx_file(tmp_path: Path) -> None:
    """(inputs, outputs of a group, kernel) in the file, and no kernel turned round."""
    weights = np.arange(4 * 3 * 2 * 3, dtype=np.float32).reshape(4, 3, 2, 3)
    info = helper.make_tensor_value_info
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], name="up", strides=[2, 1], group=2)
    graph = helper.make_graph(
        [node],
        "g",
        [info("x", 1, [1, 4, 3, 3])],
        [info("y", 1, [1, 6, 6, 5])],
        [numpy_helper.from_array(weights, "w")],
    )
    path = tmp_path / "up.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    found = weights_in(path, load(path))["up"]
    assert found.shape == (6, 2, 2, 3)
    assert found[4, 1].tolist() == weights[3, 1].tolist()  # output 1 and input 1 of the second group
    result = rramalloc.verify(path, {"up": 3}, hardware=hardware((16, 8)))
    assert (result.verdict, result.layers[0].weights) == ("equal", "file")
