"""Transposed convolutions are placed and judged, and refused by what does not compute them."""

from __future__ import annotations

import pytest

import rramalloc
from rramalloc.errors import UnsupportedError
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


def test_placed(network: Network) -> None:
    """A block of 2 x 2 pixels reads 2 x 2: 4 * 64 rows, 4 * 40 columns of 16-bit weights in 2-bit cells."""
    allocation = rramalloc.optimize(network, arrays=5)
    placement = rramalloc.place(network, allocation, hardware="isaac")
    lines = {(a.row_block, a.column_block): (a.rows, a.columns) for a in placement.arrays if a.layer == "up"}
    assert sum(columns for (row, _), (_, columns) in lines.items() if row == 0) == 4 * 40 * 16 // 2
    assert {rows for rows, _ in lines.values()} == {128}


def test_refused(network: Network) -> None:
    allocation = rramalloc.optimize(network, arrays=5)
    with pytest.raises(UnsupportedError, match="node 'up': is a transposed convolution"):
        rramalloc.verify(network, allocation)
    for tool in ("pimcomp", "pimsyn", "mnsim", "neurosim"):
        with pytest.raises(UnsupportedError, match=r"conv_transpose|a convolution as its first layer"):
            rramalloc.export(network, allocation, tool)
