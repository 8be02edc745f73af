"""What each array of a copy holds: as many blocks as the demand says, every weight exactly once."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings
from laws.strategies import randoms

from rramalloc.choices import MAPPINGS
from rramalloc.hardware.tables import Crossbar
from rramalloc.mapping.blocks import blocks
from rramalloc.mapping.demand import WeightMatrix, demand
from rramalloc.mapping.modes import largest_block, smallest_block
from rramalloc.network.network import Network
from rramalloc.timing.stage_graph import StageGraph


def matrix(positions: int, inputs: int, outputs: int, slices: int = 1, groups: int = 1) -> WeightMatrix:
    return WeightMatrix(
        positions=positions, inputs=inputs, outputs=outputs, columns=outputs * slices, groups=groups
    )


def array(wordlines: int, bitlines: int) -> Crossbar:
    return Crossbar(wordlines=wordlines, bitlines=bitlines, cell_bits=1)


def numbers(found: list) -> list[tuple[int, int, int, int]]:
    return [(block.row_block, block.column_block, block.rows, block.columns) for block in found]


@settings(max_examples=300, deadline=None)
@given(randoms)
def test_blocks_are_the_demand_and_hold_every_weight_once(random: Random) -> None:
    """docs/sources/model.md 3: demand, rows and columns within the array; equal numbers mean equal values."""
    positions, inputs, outputs = random.choice((1, 2, 4, 9)), random.randint(1, 12), random.randint(1, 8)
    groups, slices = random.choice((1, 1, 2, 3, 7)), random.choice((1, 2))
    weights = matrix(positions, inputs, outputs, slices, groups)
    crossbar = array(random.randint(1, 40), random.randint(1, 12))
    for mapping in MAPPINGS:
        if mapping == "whole_kernel" and positions > crossbar.wordlines:
            continue
        found = blocks(weights, crossbar, mapping)
        assert len(found) == demand(weights, crossbar, mapping, "here")
        assert len({(block.row_block, block.column_block) for block in found}) == len(found)
        times = np.zeros((groups, positions * inputs, outputs * slices), dtype=int)
        inputs_of: dict[int, set] = {}
        outputs_of: dict[int, set] = {}
        for block in found:
            cells = np.zeros((crossbar.wordlines, crossbar.bitlines), dtype=int)
            for part in block.parts:
                times[
                    part.group,
                    part.rows.start : part.rows.stop : part.rows.step,
                    part.columns.start : part.columns.stop,
                ] += 1
                cells[part.wordline : part.wordline + len(part.rows), part.bitline :][
                    :, : len(part.columns)
                ] += 1
            assert cells.max() == 1
            assert cells.sum() == sum(len(part.rows) * len(part.columns) for part in block.parts)
            assert (cells.any(axis=1).sum(), cells.any(axis=0).sum()) == (block.rows, block.columns)
            rows = {(part.group, row) for part in block.parts for row in part.rows}
            columns = {(part.group, column) for part in block.parts for column in part.columns}
            assert inputs_of.setdefault(block.row_block, rows) == rows
            assert outputs_of.setdefault(block.column_block, columns) == columns
        assert (times == 1).all()


def test_the_largest_block_is_the_smallest_that_covers_the_output() -> None:
    """docs/sources/model.md 3: blocks of a transposed convolution are aligned to its stride and pads.

    10 x 14 pixels that begin at 1 within blocks of 2 x 2 take 12 x 16; 5 x 7 pixels of any convolution 5 x 7.
    """
    nodes = [
        {"name": "in", "op": "input", "shape": [1, 5, 7]},
        {
            "name": "up",
            "op": "conv_transpose",
            "inputs": ["in"],
            "out_channels": 1,
            "kernel": 4,
            "stride": 2,
            "pads": 1,
        },
        {
            "name": "down",
            "op": "conv",
            "inputs": ["up"],
            "out_channels": 1,
            "kernel": 3,
            "stride": 2,
            "pads": 1,
        },
    ]
    graph = StageGraph.build(Network.build("both", nodes))
    for node, grid, expected in zip(graph.stages, graph.grids, ((12, 16), (5, 7)), strict=True):
        unit, largest = smallest_block(node), largest_block(node, graph.network.shapes[node.name])
        assert largest == expected
        assert grid.recut(largest).total == 1
        assert grid.recut((largest[0] - unit[0], largest[1])).total == 2
        assert grid.recut((largest[0], largest[1] - unit[1])).total == 2
