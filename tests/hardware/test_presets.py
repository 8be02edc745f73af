"""The presets: their values, what is unconfirmed, and a stated origin of every number."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import NamedTuple

import pytest

from rramalloc.api import optimize
from rramalloc.hardware.components import array_area_nm2, array_leakage_mw
from rramalloc.hardware.loader import as_hardware, load_hardware

pytestmark = pytest.mark.quick


class Expected(NamedTuple):
    """array: wordlines, bitlines; stored: columns of a weight, wordlines of an input, arrays of a block;
    arrays: of the chip.
    """

    array: tuple[int, int]
    cell_bits: int
    weight_bits: int
    stored: tuple[int, int, int]
    step_ns: float | None
    arrays: int | None


PRESETS = {
    # ceil(weight bits / cell bits) slices in columns or arrays, polarities twice (docs/sources/model.md 3)
    "plain": Expected((128, 128), 16, 16, (1, 1, 1), None, None),
    "isaac": Expected((128, 128), 2, 16, (8, 1, 1), 16 * 100.0, 8 * 12 * 128),
    "isaac-todaes": Expected((128, 128), 16, 16, (1, 1, 1), 21 * 100.0, 72 * 120),
    "puma": Expected((128, 128), 2, 16, (1, 1, 8), 16 * 100.0, 2 * 8 * 8 * 168),
    "raella": Expected((512, 512), 3, 8, (3, 1, 1), 8 * 100.0, None),
    "prime": Expected((256, 256), 4, 8, (2, 1, 2), None, None),
    "pipelayer": Expected((128, 128), 4, 16, (4, 1, 2), 16 * 29.31, None),
    "neurram": Expected((256, 256), 4, 4, (1, 2, 1), 22 * 270.0 + 12 * 300.0 + 2 * 300.0, 48),
    "hermes": Expected((256, 256), 4, 4, (1, 1, 1), 133.0, 64),
    "mnsim": Expected((256, 256), 1, 8, (1, 1, 8 * 2), 9 * 3.16, 2 * 2 * 16 * 64 * 64),
    "neurosim": Expected((128, 128), 1, 8, (8, 1, 1), None, None),
    "pimcomp": Expected((128, 128), 16, 16, (1, 1, 1), 200.0, 9216),
}


@pytest.mark.parametrize("name", PRESETS)
def test_preset(name: str) -> None:
    expected, hardware = PRESETS[name], load_hardware(name)
    crossbar, precision = hardware.crossbar, hardware.precision
    assert hardware.name == name
    assert (crossbar.wordlines, crossbar.bitlines) == expected.array
    assert crossbar.cell_bits == expected.cell_bits
    assert precision.weight_bits == expected.weight_bits
    stored = hardware.columns_per_weight, hardware.wordlines_per_input, hardware.arrays_per_block
    assert stored == expected.stored
    assert hardware.compute_ns == pytest.approx(expected.step_ns)
    assert (hardware.chip.arrays if hardware.chip else None) == expected.arrays


@pytest.mark.parametrize("name", PRESETS)
def test_every_value_of_a_preset_states_its_origin(name: str) -> None:
    """Beside each number is a comment, or above it."""
    folder = Path(load_hardware.__code__.co_filename).parent / "presets"
    lines = (folder / f"{name}.toml").read_text(encoding="utf-8").splitlines()
    tables = lines[next(number for number, line in enumerate(lines) if line.startswith("[")) :]
    for above, line in itertools.pairwise(tables):
        if "=" in line and not line.startswith("#"):
            assert "#" in line or above.startswith("#"), line


class Tile(NamedTuple):
    """What a paper says of a tile: power in mW with every array read without pause, area in mm2."""

    arrays: int
    power_mw: float
    area_mm2: float


@pytest.mark.parametrize(
    ("name", "tile"), [("isaac", Tile(96, 330.0, 0.372)), ("puma", Tile(128, 373.8, 0.479))]
)
def test_power_and_area_of_a_published_tile(name: str, tile: Tile) -> None:
    """A read of a whole array of 301 pJ in 100 ns is 3.01 mW; with 0.4255 mW 96 of them take 329.8 mW."""
    hardware = load_hardware(name)
    energy, timing, chip = hardware.energy, hardware.timing, hardware.chip
    assert energy is not None
    assert timing is not None
    assert chip is not None
    assert chip.arrays_per_tile == tile.arrays
    array, area_nm2, leakage_mw = hardware.crossbar, array_area_nm2(hardware), array_leakage_mw(hardware)
    assert area_nm2 is not None
    assert leakage_mw is not None
    values = (energy.read_pj, energy.adc_pj, energy.row_pj, energy.periphery_um2, timing.read_ns)
    read_pj, adc_pj, row_pj, periphery_um2, read_ns = (value or 0.0 for value in values)
    whole_pj = read_pj + array.bitlines * adc_pj + array.wordlines * row_pj
    power_mw = tile.arrays * (whole_pj / read_ns + leakage_mw)
    assert power_mw == pytest.approx(tile.power_mw, rel=0.02)
    area_mm2 = (tile.arrays * area_nm2 / 1e6 + periphery_um2) / 1e6
    assert area_mm2 == pytest.approx(tile.area_mm2, rel=0.02)


LINKS_GB_S = {
    "isaac": (None, 6.4),  # table I: HyperTransport; the clock of the routers is not given
    "isaac-todaes": (12.8, None),  # table 3, between tiles
    "puma": (32 / 8 / 1.0, 32 / 5.0),  # flits of 32 bits in cycles of 1 ns; 16 values of 2 bytes in 5 ns
    "mnsim": (20 / 8, None),  # 20 Gbps between tiles
    "pimcomp": (8.0, 6.4),  # LINK_bandwidth, Hyper_Transport_bandwidth
    "neurram": (None, None),  # cores have no network
    "hermes": (None, None),  # what its links carry is not given
}


@pytest.mark.parametrize("name", LINKS_GB_S)
def test_links_of_a_preset_are_those_of_its_source(name: str) -> None:
    chip = load_hardware(name).chip
    assert chip is not None
    assert (chip.bandwidth_tile_gb_s, chip.bandwidth_chip_gb_s) == LINKS_GB_S[name]
    assert (chip.hop_ns_tile, chip.hop_ns_chip) == (None, None)  # no source gives the time of a hop
    assert chip.times_links == (LINKS_GB_S[name][0] is not None)  # all have one chip
    two = as_hardware(name, None, {"chip.chips": 2}).chip
    assert two is not None
    assert two.times_links == any(LINKS_GB_S[name])


@pytest.mark.parametrize("name", ["isaac-todaes", "puma", "mnsim", "pimcomp"])
def test_presets_with_links_are_placed_and_say_what_takes_no_time(name: str) -> None:
    found = optimize("autoencoder", "x1.5", hardware=name, placed=True, work=1)
    assert found.places
    assert found.not_counted == ("hop_ns_tile of [chip]: it is not given, so that it takes no time",)


def test_an_array_of_isaac_takes_what_its_table_says() -> None:
    """A read of 51 pJ, 128 conversions of 200 pJ in sum, 128 wordlines of 50 pJ in sum: 301 pJ."""
    hardware = load_hardware("isaac")
    assert hardware.energy is not None
    assert hardware.energy.adc_pj == 200 / 128
    assert hardware.energy.row_pj == 50 / 128
    assert hardware.energy.read_pj == 301 - 200 - 50
    assert array_area_nm2(hardware) == 1640 * 10**6
    assert hardware.compute_ns == 1600.0
