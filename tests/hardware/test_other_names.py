"""Names of other tools in a hardware file or --set: refused, with the value of ours that they mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rramalloc.errors import SpecError
from rramalloc.hardware.loader import as_hardware, load_hardware
from rramalloc.hardware.tables import mesh_of

CHIP: dict[str, Any] = {
    "crossbar": {"wordlines": 128, "bitlines": 128, "cell_bits": 2},
    "precision": {"weight_bits": 8, "input_bits": 8, "output_bits": 8, "signed": "offset"},
    "timing": {"read_ns": 100.0, "dac_bits": 1, "adc_ns": 1.0, "columns_per_adc": 16},
    "chip": {"arrays_per_tile": 8, "tiles": [4, 4]},
    "energy": {"area_um2": 100.0},
}


@pytest.mark.parametrize(
    ("table", "name", "value", "told"),
    [
        (
            "timing",
            "adcs_per_array",
            8,
            "of an array are 128/8 columns each: write columns_per_adc = 16 in [timing]",
        ),
        ("timing", "adcs", 3, "128/3 columns each: write columns_per_adc = 43 in [timing]"),
        ("crossbar", "num_adcs", 128, "write columns_per_adc = 1 in [timing]"),
        ("crossbar", "levels", 16, "16 levels are log2(16) bits: write cell_bits = 4 in [crossbar]"),
        ("crossbar", "rows", 64, "write wordlines = 64 in [crossbar]"),
        ("array", "cols", 64, "write bitlines = 64 in [crossbar]"),
        ("crossbar", "bits_per_cell", 4, "write cell_bits = 4 in [crossbar]"),
        ("timing", "read_us", 0.1, "write read_ns = 100.0 in [timing]"),
        ("timing", "frequency_mhz", 10, "one of 10 MHz lasts 100 ns: write read_ns = 100.0 in [timing]"),
        ("timing", "adc_gsps", 1.28, "one of 1.28 GS/s lasts 0.78125 ns: write adc_ns = 0.78125 in [timing]"),
        ("energy", "area_mm2", 0.0001, "write area_um2 = 100.0 in [energy]"),
        ("energy", "read_nj", 1.5, "write read_pj = 1500.0 in [energy]"),
        ("energy", "leakage_uw", 5, "write leakage_mw = 0.005 in [energy]"),
        ("memory", "bandwidth_gbps", 64, "write bandwidth_gb_s = 8.0 in [memory]"),
        ("chip", "num_tiles", 64, "write tiles = 64 in [chip]"),
        ("chip", "xbars_per_tile", 96, "write arrays_per_tile = 96 in [chip]"),
        ("precision", "activation_bits", 8, "write input_bits = 8 in [precision]"),
    ],
)
def test_what_a_name_of_others_means(table: str, name: str, value: object, told: str) -> None:
    document = {**CHIP, table: {**CHIP.get(table, {}), name: value}}
    with pytest.raises(SpecError) as caught:
        as_hardware(document)
    assert str(caught.value).startswith(f"hardware: {table}.{name}: this field is not known; ")
    assert str(caught.value).endswith(told)


def test_the_remedies_work() -> None:
    """What 8 ADCs for an array mean takes the time that it should: 16 conversions of 1 ns, 8 bits."""
    wrong = {**CHIP, "timing": {"read_ns": 1.0, "dac_bits": 1, "adc_ns": 1.0, "adcs_per_array": 8}}
    with pytest.raises(SpecError, match=r"write columns_per_adc = 16 in \[timing\]"):
        as_hardware(wrong)
    right = as_hardware(
        {**CHIP, "timing": {"read_ns": 1.0, "dac_bits": 1, "adc_ns": 1.0, "columns_per_adc": 16}}
    )
    assert right.compute_ns == 16.0 * 8


def test_set_says_it_too() -> None:
    isaac = load_hardware("isaac")
    with pytest.raises(SpecError, match=r"'timing.adcs_per_array'; .* write timing.columns_per_adc=16$"):
        isaac.with_values({"timing.adcs_per_array": 8})
    with pytest.raises(SpecError, match=r"write energy.area_um2=100.0$"):
        as_hardware("isaac", set_values=["energy.area_mm2=0.0001"])


@pytest.mark.parametrize("value", [0, -1, True, "8", None, [8], float("inf"), float("nan")])
def test_what_means_nothing_is_only_refused(value: object) -> None:
    with pytest.raises(SpecError, match=r"timing.adcs_per_array: this field is not known|adcs_per_array"):
        as_hardware({**CHIP, "timing": {**CHIP["timing"], "adcs_per_array": value}})


@pytest.mark.parametrize(
    ("tiles", "mesh"),
    [
        *((64, (8, 8)), (12, (3, 4)), (1, (1, 1)), (2, (1, 2)), (128, (8, 16)), (140, (10, 14))),
        *((137, (11, 13)), (5, (2, 3)), (7, (2, 4)), (10, (3, 4)), (3, (1, 3)), (13, (3, 5))),
    ],
)
def test_a_number_of_tiles_is_a_nearly_square_mesh(tiles: int, mesh: tuple[int, int]) -> None:
    hardware = as_hardware({**CHIP, "chip": {"arrays_per_tile": 8, "tiles": tiles}})
    assert hardware.chip is not None
    assert hardware.chip.tiles == tiles  # the number itself is kept
    assert mesh_of(tiles) == mesh
    assert hardware.chip.chips == (1, 1)
    assert hardware.chip.arrays == 8 * tiles
    assert as_hardware(hardware.to_dict()) == hardware
    assert as_hardware("isaac", set_values={"chip.tiles": tiles}).chip.tiles == tiles  # type: ignore[union-attr]


@pytest.mark.parametrize("tiles", [0, -4, 2**40, True, 1.5, "64", [8], [8, 8, 8], [0, 8]])
def test_tiles_that_are_no_mesh(tiles: object) -> None:
    with pytest.raises(SpecError, match="tiles"):
        as_hardware({**CHIP, "chip": {"arrays_per_tile": 8, "tiles": tiles}})


@pytest.mark.parametrize("name", ["tops_w", "TOPS_per_W", "gops_w", "energy_efficiency"])
def test_a_result_is_answered_with_what_it_follows_from(name: str, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(f"[crossbar]\nwordlines = 128\nbitlines = 128\n[energy]\n{name} = 10.0\n")
    with pytest.raises(SpecError, match=r"it is a result: give the energy of a read of an array, read_pj in"):
        as_hardware(str(path))
    with pytest.raises(SpecError, match=r"read_pj in \[energy\]; `optimize` gives tops_per_w"):
        as_hardware("isaac", set_values=[f"energy.{name.lower()}=10"])
