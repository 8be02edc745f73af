"""Where slices and polarities lie: in columns, rows, arrays or unit cells (docs/sources/model.md 3)."""

from __future__ import annotations

from typing import Any

import pytest

from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.tables import Chip
from rramalloc.mapping.demand import demands
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.network import Network

pytestmark = pytest.mark.quick


def machine(slices: str, polarities: str | None) -> Hardware:
    """20 x 16 cells of 2 bits, 4-bit weights: 2 slices; one polarity where `polarities` is None."""
    crossbar: dict[str, Any] = {"wordlines": 20, "bitlines": 16, "cell_bits": 2, "slices": slices}
    signed = "offset" if polarities is None else "differential"
    precision = {"weight_bits": 4, "input_bits": 4, "output_bits": 4, "signed": signed}
    return Hardware(
        name="small",
        source="made for a test",
        crossbar=crossbar | ({} if polarities is None else {"polarities": polarities}),
        precision=precision,
        chip=Chip(arrays_per_tile=64, tiles=(16, 16), chips=(1, 1)),
    )


def network_of(name: str, nodes: list[dict[str, Any]]) -> Network:
    document = {"format": "rramalloc-network/1", "name": name, "source": "", "nodes": nodes}
    return Network.from_document(document, name)


def small() -> Network:
    """A convolution, a depthwise one, and one of 1 x 1."""
    nodes: list[dict[str, Any]] = [
        {"name": "input", "op": "input", "shape": [4, 5, 5]},
        {"name": "full", "op": "conv", "inputs": ["input"], "out_channels": 6, "kernel": 3, "pads": 1},
        {"name": "deep", "op": "conv", "inputs": ["full"], "out_channels": 6, "kernel": 3, "groups": 6},
        {"name": "point", "op": "conv", "inputs": ["deep"], "out_channels": 4, "kernel": 1},
    ]
    return network_of("small", nodes)


@pytest.mark.parametrize(
    ("slices", "polarities", "expected"),
    [
        ("columns", None, (2, 1, 1)),
        ("arrays", None, (1, 1, 2)),
        ("columns", "columns", (4, 1, 1)),
        ("columns", "rows", (2, 2, 1)),
        ("columns", "arrays", (2, 1, 2)),
        ("columns", "cells", (2, 1, 1)),
        ("arrays", "columns", (2, 1, 2)),
        ("arrays", "rows", (1, 2, 2)),
        ("arrays", "arrays", (1, 1, 4)),
        ("arrays", "cells", (1, 1, 2)),
    ],
)
def test_columns_rows_and_arrays_of_a_weight(
    slices: str, polarities: str | None, expected: tuple[int, int, int]
) -> None:
    hardware = machine(slices, polarities)
    assert (hardware.columns_per_weight, hardware.wordlines_per_input, hardware.arrays_per_block) == expected


@pytest.mark.parametrize(
    ("slices", "polarities", "mapping", "arrays"),
    [
        # full: 36 rows, 6 outputs; deep: 9 rows, 1 output, 6 groups; point: 6 rows, 4 outputs
        ("columns", "rows", "im2col", [4 * 1, 6, 1]),
        ("arrays", "columns", "im2col", [2 * 2, 3 * 2, 1 * 2]),
        ("arrays", "arrays", "im2col", [2 * 4, 3 * 4, 1 * 4]),
        ("arrays", "rows", "kernel_split", [9 * 2, 9 * 1 * 2, 1 * 2]),
        ("columns", "rows", "whole_kernel", [4, 6, 1]),
    ],
)
def test_demand(slices: str, polarities: str, mapping: Any, arrays: list[int]) -> None:
    network = small()
    hardware = machine(slices, polarities)
    assert demands(network, network.stages, hardware, MappingOptions(mapping=mapping)) == arrays
