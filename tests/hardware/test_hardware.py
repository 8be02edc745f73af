"""The records of a hardware description, made in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import load_hardware
from rramalloc.hardware.performance import ChipPerformance
from rramalloc.hardware.tables import Chip, Counting, Crossbar, Energy, Memory, Precision, Timing

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("fields", "input_bits", "step_ns"),
    [
        ({"step_ns": 1600}, 16, 1600.0),
        ({"read_ns": 100.0, "dac_bits": 1}, 16, 1600.0),
        ({"read_ns": 100.0, "dac_bits": 3}, 8, 300.0),
        ({"read_ns": 100.0, "dac_bits": 1, "adc_ns": 0.5, "columns_per_adc": 128}, 8, 800.0),
        ({"read_ns": 10.0, "dac_bits": 2, "adc_ns": 1.0, "columns_per_adc": 128}, 8, 4 * 128.0),
    ],
)
def test_compute_ns(fields: dict[str, Any], input_bits: int, step_ns: float) -> None:
    crossbar = Crossbar(wordlines=128, bitlines=128, cell_bits=2)
    assert Timing(**fields).compute_ns(input_bits, crossbar) == step_ns


def test_with_crossbar_keeps_everything_else() -> None:
    isaac = load_hardware("isaac")
    other = isaac.with_crossbar(256, 64)
    assert other.crossbar == Crossbar(wordlines=256, bitlines=64, cell_bits=2)
    changed = {"crossbar": None, "unconfirmed": None}  # energy and area are those of arrays of another size
    assert other.to_dict() | changed == isaac.to_dict() | changed
    assert set(other.unconfirmed) - set(isaac.unconfirmed) == {
        "energy.read_pj",
        "energy.leakage_mw",
        "energy.area_um2",
    }
    with pytest.raises(SpecError, match="wordlines"):
        isaac.with_crossbar(0, 64)


def test_to_dict_leaves_out_what_is_not_given() -> None:
    document = load_hardware("isaac").to_dict()
    assert document["timing"] == {
        "read_ns": 100.0,
        "dac_bits": 1,
        "adc_ns": 0.78125,
        "columns_per_adc": 128,
    }
    of_chip = {"arrays_per_tile": 96, "tiles": [16, 8], "chips": [1, 1], "bandwidth_chip_gb_s": 6.4}
    assert document["chip"] == of_chip
    assert "memory" not in document
    assert "pj_per_byte" not in document["energy"]
    assert "energy" not in load_hardware("plain").to_dict()


@pytest.mark.parametrize(
    "table", [Crossbar, Precision, Timing, Memory, Chip, Energy, Counting, ChipPerformance, Hardware]
)
def test_every_field_has_a_row_in_the_documentation(table: Any) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "hardware.md").read_text(encoding="utf-8")
    for name in table.model_fields:
        assert f"`{name}`" in page or f"`[{name}]`" in page, name
