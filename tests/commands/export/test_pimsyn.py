"""PIMSYN: the arrays it has, its own count of them, and what its script is given (docs/sources/peers.md)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from commands.export.nets import conv, machine, network, residual, subject

from rramalloc.commands.export.bundle import Bundle
from rramalloc.commands.export.targets import pimsyn
from rramalloc.errors import UnsupportedError


def settings_of(bundle: Bundle) -> dict[str, Any]:
    written: dict[str, Any] = json.loads({file.name: file.text for file in bundle.files}["allocation.json"])
    return written


@pytest.mark.parametrize("size", [(128, 128), (256, 256), (512, 512)])
def test_sizes_of_its_table_are_taken(size: tuple[int, int]) -> None:
    assert settings_of(pimsyn.export(subject(residual(), hardware=machine(*size))))["size"] == size[0]


@pytest.mark.parametrize("size", [(64, 64), (128, 64), (256, 512), (1024, 1024)])
def test_other_sizes_are_refused_with_the_remedy(size: tuple[int, int]) -> None:
    with pytest.raises(UnsupportedError, match=r"has arrays of 128 x 128, .* with --crossbar"):
        pimsyn.export(subject(residual(), hardware=machine(*size)))


@pytest.mark.parametrize(
    ("cell_bits", "weight_bits", "resolution", "weight_res", "slices"),
    [(1, 8, 1, 8, 8), (2, 7, 2, 8, 4), (4, 8, 4, 8, 2), (3, 8, 4, 12, 3), (16, 16, 4, 4, 1)],
)
def test_a_weight_takes_as_many_cells_as_here(
    cell_bits: int, weight_bits: int, resolution: int, weight_res: int, slices: int
) -> None:
    """PIMSYN takes ceil(weight_res / resolution) cells a weight; it has resolutions 1, 2 and 4."""
    hardware = machine(128, 128, cell_bits=cell_bits, weight_bits=weight_bits)
    bundle = pimsyn.export(subject(residual(), hardware=hardware))
    written = settings_of(bundle)
    assert (written["resolution"], written["config"]["weight_res"]) == (resolution, weight_res)
    assert -(-weight_res // resolution) == slices
    assert any("no cells of" in remark.text for remark in bundle.remarks) == (resolution != cell_bits)


def test_arrays_are_those_of_its_design_space() -> None:
    """slices * ceil(rows / size) * ceil(columns / size) a copy; a classifier is stored once.

    c1 has 27 rows and 4 columns, c2 36 and 4, the classifier 64 and 10: one block each, of 2 slices.
    """
    bundle = pimsyn.export(subject(residual(), {"c1": 5, "c2": 3}, machine(128, 128)))
    written = settings_of(bundle)
    assert written["copies"] == {"c1": 5, "c2": 3, "fc": 1}
    assert written["arrays"] == {"c1": 10, "c2": 6, "fc": 2}
    assert any("stores 18 arrays" in remark.text for remark in bundle.remarks)


def test_groups_count_as_dense() -> None:
    """8 groups of 18 x 64, 2 to an array: 4 arrays; dense ceil(144 / 128) * ceil(512 / 128) = 8."""
    net = network(conv("c", "x", 512, groups=8), shape=(16, 8, 8))
    remarks = pimsyn.export(subject(net, hardware=machine(128, 128, cell_bits=8))).remarks
    texts = [remark.text for remark in remarks if remark.layer]
    assert texts == ["8 groups count as a dense convolution: 8 arrays a copy, not 4"]
