"""Lists called by the dotted names of values of the hardware (docs/sources/model.md 19)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from commands.sweep.tiny import network, rows_of

import rramalloc
from rramalloc.commands.sweep.rows import COLUMNS
from rramalloc.commands.sweep.spec import Grid, read_spec
from rramalloc.errors import SpecError
from rramalloc.files import read_toml

HARDWARE = """
name = "m"
source = "test"
crossbar = {wordlines = 16, bitlines = 16, cell_bits = 1}
precision = {weight_bits = 1, input_bits = 4, output_bits = 16, signed = "offset"}
timing = {read_ns = 5.0, dac_bits = 1, adc_ns = 1.0, columns_per_adc = 16}
energy = {read_pj = 10.0, area_um2 = 100.0}
"""
SIZES = {"crossbars": ["16x16", "32x32"], "energy.area_um2": [100.0, 300.0], "energy.read_pj": [10.0, 10.0]}


@pytest.fixture
def hardware(tmp_path: Path) -> str:
    (tmp_path / "m.toml").write_text(HARDWARE)
    (tmp_path / "tiny.json").write_text(network())
    return str(tmp_path / "m.toml")


def points(hardware: str, **lists: Any) -> list[Any]:
    spec = {"networks": "alexnet", "arrays": 9, "hardware": hardware} | lists
    return [*Grid.read(read_spec(spec)[0], "sweep", "").points()]


SPELLED = [
    ("crossbars", "crossbar", ["16x16"]),
    ("cell_bits", "crossbar.cell_bits", [1, 2]),
    ("weight_bits", "precision.weight_bits", [1, 2]),
    ("dac_bits", "timing.dac_bits", [1, 2]),
    ("columns_per_adc", "timing.columns_per_adc", [4, 8]),
    ("rows_per_read", "timing.rows_per_read", [4, 8]),
    ("clock", "timing.clock", ["shared", "own"]),
]


@pytest.mark.quick
@pytest.mark.parametrize(("own", "dotted", "values"), SPELLED)
def test_a_list_with_a_name_of_its_own_is_a_spelling(
    own: str, dotted: str, values: list[Any], hardware: str
) -> None:
    spelled, named = points(hardware, **{own: values}), points(hardware, **{dotted: values})
    assert [point.case.hardware_json for point in spelled] == [point.case.hardware_json for point in named]
    assert "set_values" not in spelled[0].case.hardware_json
    assert not {point.key for point in spelled} & {point.key for point in named}


@pytest.mark.quick
def test_sizes_of_arrays_are_tied_to_their_area(hardware: str) -> None:
    each = points(hardware, **SIZES, zip=[[*SIZES]])
    found = [(point.case.hardware.crossbar.size, point.case.hardware.energy.area_um2) for point in each]
    assert found == [("16x16", 100.0), ("32x32", 300.0)]
    message = r"energy\.area_um2 and energy\.read_pj of that size.* as lists that zip ties"
    for name in ("crossbars", "crossbar"):
        with pytest.raises(SpecError, match=message):
            points(hardware, **{name: SIZES["crossbars"]})


@pytest.mark.quick
def test_values_come_and_go(hardware: str) -> None:
    """Lists that fit only together make a hardware, and "none" takes a value away."""
    adc = {"timing.adc_ns": ["none"], "timing.columns_per_adc": ["none"]}
    assert points(hardware, **adc)[0].case.hardware.compute_ns == 4 * 5.0
    memory = {"memory.bandwidth_gb_s": 1.0, "memory.reuse": "row", "memory.scope": ["per_layer", "shared"]}
    scopes = [point.case.hardware.memory.scope for point in points(hardware, **memory)]
    assert scopes == ["per_layer", "shared"]
    ticks = points(
        hardware,
        **{"timing.clock": ["own", "shared"], "timing.tick_ns": [2.0, "none"]},
        zip=[["timing.clock", "timing.tick_ns"]],
    )
    assert [point.case.hardware.own_clock for point in ticks] == [True, False]


@pytest.mark.quick
def test_tables_of_toml_are_dotted_names(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text('networks = "a"\narrays = 1\ntiming.adc_ns = [1, 2]\n"chip.tiles" = [[1, 2], [2, 2]]')
    spec = read_spec(path)[0]
    assert spec.dotted == ("timing.adc_ns", "chip.tiles")
    assert spec.describe_size() == "4 points: 2 timing.adc_ns x 2 chip.tiles"
    assert read_spec(spec.model_dump(mode="json", exclude_none=True))[0] == spec
    assert "timing" in read_toml(path)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("lists", "told"),
    [
        ({"timing.adc_nss": [1]}, "timing.adc_nss: this field is not known, did you mean timing.adc_ns"),
        ({"timing.dac_bits": [1], "dac_bits": [1]}, "are lists of the same value"),
        ({"timing.adc_ns": [1, 1]}, "stands twice"),
        ({"timing.adc_ns": []}, "at least 1"),
        ({"chip.tiles": [[1, 2], [1, 2]]}, "stands twice"),
        (
            {"timing.adc_ns": [1, 2], "zip": [["timing.adc_ns", "arrays"]]},
            "timing.adc_ns has 2, arrays has 1",
        ),
        ({"zip": [["timing.adc_ns", "arrays"]]}, "zip: 'timing.adc_ns' is no list"),
    ],
)
def test_refused(lists: dict[str, Any], told: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_spec({"networks": "a", "arrays": 1} | lists)
    assert told in str(caught.value)


def test_rows_have_columns_of_dotted_names(hardware: str, tmp_path: Path) -> None:
    """A step is 4 * max(5, adc_ns * 16) ns; one copy of every layer."""
    lists = {"arrays": 60, "methods": "none", "timing.adc_ns": [0.5, 1], "chip.tiles": ["none"]}
    spec = {"networks": str(tmp_path / "tiny.json"), "hardware": hardware, **lists}
    result = rramalloc.sweep(spec, tmp_path / "out", jobs=1)
    rows = [*result.rows()]
    assert [*rows[0]] == [*COLUMNS, "timing.adc_ns", "chip.tiles"]
    assert [(row["timing.adc_ns"], row["step_ns"]) for row in rows] == [(0.5, 32.0), (1, 64.0)]
    assert [*pd.read_csv(tmp_path / "out/rows.csv").columns] == [*rows[0]]
    assert result.to_frame()["timing.adc_ns"].tolist() == [0.5, 1.0]
    assert result.plot.columns("timing.adc_ns", "step_ns") is not None
    again = rramalloc.sweep(spec | {"timing.adc_ns": [1, 2]}, tmp_path / "out", jobs=1)
    assert again.computed == 1
    assert [row["chip.tiles"] for row in again.rows()] == ["none", "none"]
    with pytest.raises(SpecError, match="no column of numbers"):
        again.plot.columns("chip.tiles", "step_ns")


def test_a_spelled_list_has_the_columns_of_all_rows(hardware: str, tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path / "tiny.json", arrays=60, hardware=hardware, methods="none", dac_bits=2)
    assert [*row] == [*COLUMNS]
