"""Names by which other files and tools call values of a hardware, and the values that they mean here."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rramalloc.records import brief

SAME: Mapping[str, str] = {
    "act_bits": "precision.input_bits",
    "activation_bits": "precision.input_bits",
    "adc_latency_ns": "timing.adc_ns",
    "adc_time_ns": "timing.adc_ns",
    "arrays_per_core": "chip.arrays_per_tile",
    "bit_lines": "crossbar.bitlines",
    "bits_per_cell": "crossbar.cell_bits",
    "cell_precision": "crossbar.cell_bits",
    "cols": "crossbar.bitlines",
    "columns": "crossbar.bitlines",
    "columns_shared_per_adc": "timing.columns_per_adc",
    "crossbars_per_tile": "chip.arrays_per_tile",
    "cycle_ns": "timing.step_ns",
    "dac_resolution": "timing.dac_bits",
    "latency_ns": "timing.step_ns",
    "num_tiles": "chip.tiles",
    "read_energy_pj": "energy.read_pj",
    "read_latency_ns": "timing.read_ns",
    "read_time_ns": "timing.read_ns",
    "rows": "crossbar.wordlines",
    "step_time_ns": "timing.step_ns",
    "tile_count": "chip.tiles",
    "tiles_per_chip": "chip.tiles",
    "w_bits": "precision.weight_bits",
    "wbits": "precision.weight_bits",
    "word_lines": "crossbar.wordlines",
    "xbars_per_tile": "chip.arrays_per_tile",
}
"""Other names of the same value."""
_RESULT = "it is a result: give the {0} of a read of an array, {1}; `optimize` gives {2}"
RESULTS: Mapping[str, str] = {
    **dict.fromkeys(
        ("tops_w", "tops_per_w", "tops_watt", "gops_w", "gops_per_w", "energy_efficiency"),
        _RESULT.format("energy", "read_pj in [energy]", "tops_per_w"),
    ),
    **dict.fromkeys(("tops", "gops", "peak_tops"), _RESULT.format("time", "read_ns in [timing]", "tops")),
}
"""Names of results, which hardware files cannot set, each with the values that decide it."""
_ADCS = ("adcs_per_array", "adcs_per_crossbar", "adcs", "num_adcs", "n_adcs", "adc_count")
_LEVELS = ("levels", "cell_levels", "conductance_levels", "levels_per_cell")
_UNITS: Mapping[str, tuple[str, float]] = {
    "ps": ("ns", 1e-3),
    "us": ("ns", 1e3),
    "ms": ("ns", 1e6),
    "s": ("ns", 1e9),
    "fj": ("pj", 1e-3),
    "nj": ("pj", 1e3),
    "uj": ("pj", 1e6),
    "mj": ("pj", 1e9),
    "nm2": ("um2", 1e-6),
    "mm2": ("um2", 1e6),
    "nw": ("mw", 1e-6),
    "uw": ("mw", 1e-3),
    "w": ("mw", 1e3),
    "mb_s": ("gb_s", 1e-3),
    "gbps": ("gb_s", 0.125),
    "gbit_s": ("gb_s", 0.125),
}
"""Units that end a name, each with the unit of hardware files and the factor that converts to it."""
_PERIODS: Mapping[str, float] = {"ghz": 1.0, "mhz": 1e3, "gsps": 1.0, "msps": 1e3}
"""Period [ns] of a frequency of 1 in each unit."""

_MOST = 1e300  # no value of a hardware is as large, and floats hold it in any unit
_UNIT_WORDS: Mapping[str, str] = {"ghz": "GHz", "mhz": "MHz", "gsps": "GS/s", "msps": "MS/s"}


class Meant(NamedTuple):
    """Value of a hardware file that a foreign name stands for.

    dotted: its dotted name, "" for a result, which cannot be set; words: how it follows, for a message.
    """

    dotted: str
    value: object
    words: str = ""

    @property
    def in_file(self) -> str:
        """Instruction in words: the line to write in a hardware file."""
        if not self.dotted:
            return self.words
        table, _, field = self.dotted.partition(".")
        return f"{self.words}write {field} = {_text(self.value)} in [{table}]"

    @property
    def as_option(self) -> str:
        """Instruction in words: the value to write behind `--set`."""
        if not self.dotted:
            return self.words
        return f"{self.words}write {self.dotted}={_text(self.value)}"


def meant_by(name: str, value: object, bitlines: object, known: frozenset[str]) -> Meant | None:
    """Return the value of hardware files that a foreign name stands for, None for an unknown name.

    Parameters
    ----------
    name
        Name of the field, without its table.
    value
        Its value.
    bitlines
        Columns of an array of this hardware.
    known
        Dotted names that there are.
    """
    plain = name.lower().replace("-", "_")
    if plain in RESULTS:
        return Meant("", None, RESULTS[plain])
    if plain in SAME:
        return Meant(SAME[plain], value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _MOST:
        return None
    if plain in _ADCS and isinstance(bitlines, int) and not isinstance(bitlines, bool) and bitlines > 0:
        words = f"{value:g} ADCs for {bitlines} bitlines of an array are {bitlines}/{value:g} columns each: "
        return Meant("timing.columns_per_adc", math.ceil(bitlines / value), words)
    if plain in _LEVELS and value >= 2:
        words = f"{value:g} levels are log2({value:g}) bits: "
        return Meant("crossbar.cell_bits", math.ceil(math.log2(value)), words)
    return next((meant for meant in _in_other_units(plain, float(value), known)), None)


def _in_other_units(name: str, value: float, known: frozenset[str]) -> Iterator[Meant]:
    """Yield the value of the same name in another unit, and the period that a frequency stands for."""
    for ending, (unit, factor) in _UNITS.items():
        if name.endswith(f"_{ending}"):
            in_unit = f"{name.removesuffix(ending)}{unit}"
            matches = [dotted for dotted in sorted(known) if dotted.partition(".")[2] == in_unit]
            if matches:
                yield Meant(matches[0], _rounded(value * factor))
    for ending, period_ns in _PERIODS.items():
        if name.endswith(f"_{ending}"):
            field = "adc_ns" if "adc" in name or ending.endswith("sps") else "read_ns"
            words = f"one of {value:g} {_UNIT_WORDS[ending]} lasts {_rounded(period_ns / value):g} ns: "
            yield Meant(f"timing.{field}", _rounded(period_ns / value), words)


def _rounded(value: float) -> float:
    return float(f"{value:.10g}")


def _text(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else brief(value)


def meant_by_document(document: Mapping[str, Any], known: frozenset[str]) -> Iterator[tuple[str, Meant]]:
    """Yield the foreign names in a document, each with the value of hardware files that it stands for.

    known: dotted names of values, and names of what stands above the tables.
    """
    crossbar = document.get("crossbar")
    bitlines = crossbar.get("bitlines") if isinstance(crossbar, Mapping) else None
    for table, values in document.items():
        fields = values if isinstance(values, Mapping) else {"": values}
        for field, value in fields.items():
            dotted = f"{table}.{field}" if field else table
            meant = None if dotted in known else meant_by(str(field or table), value, bitlines, known)
            if meant is not None:
                yield dotted, meant
