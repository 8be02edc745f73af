"""Modes through the arrays: shifted kernels of any block compute what the windows one by one do."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from commands.verify.naive import (
    convolved,
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
from laws.strategies import ALL_PIXELS, ANY, by_name, random_network, random_replication, randoms

from rramalloc.commands.verify.layer import ParallelWindow
from rramalloc.commands.verify.reference import Weights, Width
from rramalloc.mapping.demand import block_arrays
from rramalloc.mapping.modes import BlockGrid
from rramalloc.network.network import Network
from rramalloc.network.node import Conv
from rramalloc.timing.stage_graph import StageGraph

SIZES = (1, 8, 40)
"""Times the lines of random arrays: from copies of many arrays to arrays of many copies."""


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


def any_layer(random: Random) -> tuple[Network, Any]:
    source = random_conv(random) if random.random() < 0.7 else random_transposed(random)
    return source, source.stages[0]


@settings(max_examples=400, deadline=None)
@given(randoms)
def test_any_mode_of_any_layer_is_equal(random: Random) -> None:
    source, stage = any_layer(random)
    block = random_block(random, source, stage, 7)
    machine = random_hardware(random, times=random.choice(SIZES))
    weights = Weights(source, machine.precision.weight_bits, random.randint(0, 99)).of(stage)
    shape, width = source.shapes["c"], Width.of(machine.precision)
    draw = np.random.default_rng(random.randint(0, 99))
    tensor = draw.integers(width.low, width.high, size=source.shapes["in"], endpoint=True)
    naive = convolved if isinstance(stage, Conv) else transposed
    blocks = BlockGrid.of(stage, shape, block).total
    copies = random.choice((1, blocks, random.randint(1, blocks)))
    layer = layer_of(source, machine, "sdk", copies, weights, block)
    needed = block_arrays(source, stage, machine, block)
    assert len(layer.arrays) == needed.arrays(copies)
    assert np.array_equal(layer.sums(tensor), naive(stage, tensor, weights, shape))


@settings(max_examples=150, deadline=None)
@given(randoms)
def test_any_network_in_any_modes_is_equal(random: Random) -> None:
    """Values, and no window read before its inputs are there, with every stage in blocks of its own."""
    source = random_network(
        random, nodes=7, extent=6, ops=(*ANY, *ALL_PIXELS, "conv_transpose", "conv_transpose")
    )
    plain = StageGraph.build(source, random.choice(("host", "crossbar")))
    chosen = [random_block(random, source, stage) for stage in plain.stages]
    blocks = dict(zip(plain.names, chosen, strict=True))
    graph = plain.in_blocks(chosen)
    copies = by_name(graph, random_replication(random, graph))
    fc = "crossbar" if set(copies) == {stage.name for stage in source.stages} else "host"
    what = task(source, copies, random_hardware(random, 8, random.choice(SIZES)), "sdk", fc=fc, blocks=blocks)
    result = verified(what, seed=random.randint(0, 9))
    assert result.verdict == "equal", result.difference
