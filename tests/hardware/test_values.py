"""Values of a hardware by dotted name (docs/sources/model.md 19)."""

from __future__ import annotations

from typing import Any

import pytest

import rramalloc
from rramalloc.errors import SpecError
from rramalloc.hardware.values import dotted_names, values_of

ISAAC = rramalloc.load_hardware("isaac")


def test_a_value_is_replaced_and_nothing_else() -> None:
    changed = ISAAC.with_values({"timing.adc_ns": 3.0, "timing.columns_per_adc": 64})
    assert changed.compute_ns == 16 * 3.0 * 64
    document = ISAAC.to_dict()
    document["timing"] |= {"adc_ns": 3.0, "columns_per_adc": 64}
    assert changed.to_dict() == document


def test_all_values_are_applied_before_any_is_checked() -> None:
    step = {"timing.step_ns": 5.0} | dict.fromkeys(
        ("timing.read_ns", "timing.dac_bits", "timing.adc_ns", "timing.columns_per_adc")
    )
    energy = dict.fromkeys(("energy.adc_um2", "energy.adc_pj"))
    assert ISAAC.with_values(step | energy).compute_ns == 5.0
    with pytest.raises(SpecError, match="step_ns is the whole step"):
        ISAAC.with_values({"timing.step_ns": 5.0})


def test_a_table_without_values_is_gone() -> None:
    plain = rramalloc.load_hardware("plain")
    timed = plain.with_values({"timing.step_ns": 5.0})
    assert timed.with_values({"timing.step_ns": None}) == plain


def test_a_value_that_is_set_is_no_longer_unconfirmed() -> None:
    hardware = rramalloc.load_hardware("isaac-todaes")
    assert "memory.reuse" in hardware.unconfirmed
    assert "memory.reuse" not in hardware.with_values({"memory.reuse": "full"}).unconfirmed


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"timing.colums_per_adc": 16}, "did you mean timing.columns_per_adc"),
        ({"name": "mine"}, "no value of a hardware is called 'name'"),
        ({"timing": 3}, "no value of a hardware is called 'timing'"),
        ({"timing.read_ns": "fast"}, r"timing\.read_ns"),
        ({"crossbar": "64x64", "crossbar.bitlines": 64}, "leave one of them out"),
        ({"crossbar": "64"}, "ROWSxCOLUMNS"),
        ({"crossbar": "64x64"}, r"128x128 in .* 64x64 has others: give energy\.area_um2 and energy\.read_pj"),
        ({"crossbar.wordlines": 64, "energy.area_um2": 200.0, "energy.read_pj": 9.0}, r"energy\.leakage_mw"),
    ],
)
def test_what_does_not_fit_is_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        ISAAC.with_values(values)


def test_texts_are_values_of_toml() -> None:
    texts = ["timing.clock=own", "chip.tiles=[2, 2]", "energy.read_pj=none", "timing.read_ns = 5.0"]
    expected = {"timing.clock": "own", "chip.tiles": [2, 2], "energy.read_pj": None, "timing.read_ns": 5.0}
    assert values_of(texts) == expected


@pytest.mark.parametrize("text", ["timing.read_ns", "=3", "Timing.read ns=3", "timing..x=1"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(SpecError, match=r"SECTION\.FIELD=VALUE"):
        values_of([text])
    with pytest.raises(SpecError, match="given twice"):
        values_of(["timing.read_ns=1", "timing.read_ns=2"])


def test_every_name_leads_to_a_value() -> None:
    names = dotted_names()
    assert {"crossbar.wordlines", "energy.adc_pj", "chip.tiles", "digital.ns_per_pixel"} <= set(names)
    for table, values in ISAAC.to_dict().items():
        if isinstance(values, dict):
            assert {f"{table}.{field}" for field in values} <= set(names)


def test_hardware_is_also_a_dict() -> None:
    of_dict = rramalloc.optimize("alexnet", 1500, hardware=ISAAC.to_dict(), work=1, progress=False)
    assert of_dict == rramalloc.optimize("alexnet", 1500, hardware="isaac", work=1, progress=False)
    with pytest.raises(SpecError, match=r"crossbar: this field is missing"):
        rramalloc.optimize("alexnet", 1500, hardware={"name": "nothing"}, work=1, progress=False)
