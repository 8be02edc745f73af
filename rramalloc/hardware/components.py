"""Area and leakage of an array with its converters (docs/sources/model.md 12)."""

from __future__ import annotations

from rramalloc.hardware.tables import HardwareTables

NM2_PER_UM2 = 10**6
"""Areas are counted in whole nm2, so that sums, limits and ties are exact."""


def in_nm2(area_um2: float) -> int:
    """Return an area in nm2, rounded to the nearest whole number."""
    return round(area_um2 * NM2_PER_UM2)


def adcs_of_array(hardware: HardwareTables) -> int:
    """Return the ADCs of one array, 0 where the hardware does not say how many columns share one."""
    timing = hardware.timing
    if timing is None or timing.columns_per_adc is None:
        return 0
    return -(-hardware.crossbar.bitlines // timing.columns_per_adc)


def array_area_nm2(hardware: HardwareTables) -> int | None:
    """Return the area of one array with its ADCs in nm2; None where the hardware does not give it."""
    energy = hardware.energy
    if energy is None or energy.area_um2 is None:
        return None
    return in_nm2(energy.area_um2 + adcs_of_array(hardware) * (energy.adc_um2 or 0.0))


def in_tiles_nm2(hardware: HardwareTables, used: int, arrays_nm2: int) -> int:
    """Return the area in nm2 of `used` arrays and of the periphery of the fewest tiles that hold them."""
    chip, energy = hardware.chip, hardware.energy
    if chip is None or energy is None:
        return arrays_nm2
    tiles = -(-used // chip.arrays_per_tile)
    return arrays_nm2 + tiles * periphery_nm2(hardware)


def periphery_nm2(hardware: HardwareTables) -> int:
    """Return the area in nm2 of a tile beside its arrays, 0 where it is not given."""
    energy = hardware.energy
    return 0 if hardware.chip is None or energy is None else in_nm2(energy.periphery_um2 or 0.0)


def array_leakage_mw(hardware: HardwareTables) -> float | None:
    """Return the leakage of one array with its ADCs; None where the hardware does not give it."""
    energy = hardware.energy
    if energy is None or energy.leakage_mw is None:
        return None
    return energy.leakage_mw + adcs_of_array(hardware) * (energy.adc_mw or 0.0)
