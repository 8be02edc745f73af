"""PIMSYN: the arrays it has, its own count of them, and what its script is given (docs/sources/peers.md)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from commands.export.nets import machine, residual, subject

from rramalloc.commands.export.bundle import Bundle
from rramalloc.commands.export.targets import pimsyn
from rramalloc.errors import UnsupportedError


def settings_of(bundle: Bundle) -> dict[str, Any]:
    written: dict[str, Any] = json.loads({file.name: file.text for file in bundle.files}["allocation.json"])
    return written


@pytest.mark.parametrize("size", [(64, 64), (256, 512)])
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
