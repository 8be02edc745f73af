"""Quantities and names: their units, and how tables, pages and messages show them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Literal

TimeUnit = Literal["steps", "ticks"]
"""Unit of makespans; ticks where stages have their own clocks."""
Unit = Literal["steps", "ticks", "ns", "arrays", "pJ", "pJ ns", "um2"]
"""Unit of values and bounds of objectives; ticks where stages have their own clocks."""
LONGEST_NAME = 60  # characters of a name before its middle is cut
LONGEST_LINE = 240  # characters of a line before its middle is cut

_SCALES_OF = {
    "ns": (("s", 1e9, 1e9), ("ms", 1e6, 1e6), ("us", 1e3, 1e3)),
    "pJ": (("J", 1e12, 1e12), ("mJ", 1e9, 1e9), ("uJ", 1e6, 1e6), ("nJ", 1e3, 1e3)),
    "pJ ns": (
        ("J s", 1e21, 1e21),
        ("mJ s", 1e18, 1e18),
        ("uJ s", 1e15, 1e15),
        ("nJ s", 1e12, 1e12),
        ("pJ s", 1e9, 1e9),
        ("fJ s", 1e6, 1e6),
        ("aJ s", 1e3, 1e3),
    ),
    "um2": (("mm2", 1e6, 1e4),),
    "s": (("s", 1.0, 1.0), ("ms", 1e-3, 1e-3), ("us", 1e-6, 1e-6), ("ns", 1e-9, 0.0)),
}
"""Other units of a unit: how many of it each is, and from which value on it is shown."""
THOUSANDTHS = "thousandths"
"""Style of numbers that are compared with each other: three digits behind the point."""
LEAST_SHARE = 1e-4  # below this a share is only said to be less than 0.01 %
_EXACT = 2**53  # from here on floats do not tell neighbouring integers apart
_AMOUNT = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?) *(%|[a-zA-Z/]*2?)", re.ASCII)
_TIMES_NS = {"ns": "1", "us": "1e3", "ms": "1e6", "s": "1e9", "min": "60e9", "h": "3600e9"}
_SCALES = {
    "s": _TIMES_NS,
    "ns": _TIMES_NS,
    "": {"": "1", "%": "0.01"},
    "um2": {"um2": "1", "mm2": "1e6", "cm2": "1e8"},
    "pJ": {"pJ": "1", "nJ": "1e3", "uJ": "1e6", "mJ": "1e9", "J": "1e12"},
    "mW": {"mW": "1", "uW": "1e-3", "W": "1e3"},
    "inputs/s": {"inputs/s": "1", "k": "1e3", "M": "1e6", "G": "1e9"},
}
"""Units that a number in a unit may be given in, with their sizes."""


_UNITS = {"ns": "ns", "per_s": "inputs/s", "gb_s": "GB/s", "s": "s", "pj": "pJ", "um2": "um2", "edp": "pJ ns"}
_UNITS |= dict.fromkeys(("utilisation", "share", "gap", "saving"), "share")
_UNITS["ratio"] = THOUSANDTHS
"""Unit or style of a field by the end of its name, longer ends first."""
_WORDS = {"edp": "EDP", "tops": "TOPS", "tops_per_w": "TOPS/W"}
_ENDING = re.compile(rf"(?:^|[_.])({'|'.join(_UNITS)})$")


def unit_of(field: str) -> str:
    """Return the unit of a field, by the end of its name; "" if it has none."""
    ending = _ENDING.search(field)
    return _UNITS[ending[1]] if ending else ""


def words_of(field: str) -> str:
    """Return the words of a field without its unit: "weight bits", "energy", "EDP"."""
    return _WORDS.get(field) or re.sub("_(pj|um2|ns|per_s|gb_s|s)$", "", field).replace("_", " ")


def amount(text: str, unit: str) -> float:
    """Return a number in `unit`, one of _SCALES ("" of a share), given in it or another: "5ms", "1%", "2mm2".

    Raises ValueError.
    """
    scales = _SCALES[unit]
    found = _AMOUNT.fullmatch(text.strip().replace("\u00b5", "u").replace("\u03bc", "u"))
    if found is None or (found[2] or unit) not in scales:
        known = f"a number of {unit}, or one with {', '.join(scales)}: 5{[*scales][1]}"
        known = known if unit else "a share: 0.01 or 1%"
        raise ValueError(f"must be {known}, got {text[:LONGEST_NAME]!r}")
    return float(Decimal(found[1]) * Decimal(scales[found[2] or unit]) / Decimal(scales[unit]))


def steps(value: int, unit: str = "step") -> str:
    """ "1 step", "4,009 steps"; unit: "tick" where stages have their own clocks."""
    return counted(value, unit)


def duration(value_ns: float) -> str:
    """Return a time in the unit that reads best, with four figures: "366.4 us"."""
    return _scaled(value_ns, "ns")


def span(seconds: float) -> str:
    """Return how long something takes that a user waits for: "75.0 s", "12 min" or "3.4 h"."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def energy(value_pj: float) -> str:
    """Return an energy in the unit that reads best: "12.34 uJ"."""
    return _scaled(value_pj, "pJ")


def edp(value: float) -> str:
    """Return the product of an energy in pJ and a time in ns in the unit that reads best: "27.25 nJ s"."""
    return _scaled(value, "pJ ns")


def area(value_um2: float) -> str:
    """Return an area: "62.5 mm2", from a hundredth of 1 mm2 on."""
    return _scaled(value_um2, "um2")


def _scaled(value: float, unit: str) -> str:
    shown, factor = scale_of(unit, value)
    return f"{rounded(value / factor)} {shown}"


def scale_of(unit: str, value: float) -> tuple[str, float]:
    """Return the unit in which a value reads best, and how many of `unit` it is: ("us", 1e3) for 5,000 ns."""
    for shown, factor, least in _SCALES_OF.get(unit, ()):
        if value >= least:
            return shown, factor
    return unit, 1.0


def share(part: float) -> str:
    """Return a share of 1 in per cent: "12.3 %"; only 0 is shown as 0, and only 1 as 100."""
    if 0 < part < LEAST_SHARE:
        return "< 0.01 %"
    shown = f"{100 * part:.3g}" if part < 1 else rounded(100 * part)
    return "> 99.9 %" if shown == "100" and part < 1 else f"{shown} %"


def rounded(value: float) -> str:
    """Return four figures of a number: "87,310,000", "0.0123"."""
    return f"{float(f'{value:.4g}'):,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def count(value: float) -> str:
    """Return a number without a unit: a whole one in full, any other with four figures."""
    return plain_quantity(value, "")


def size(value_bytes: float) -> str:
    """Return bytes in the unit that reads best."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value_bytes >= factor:
            return f"{value_bytes / factor:,.1f} {unit}"
    return f"{value_bytes:,.0f} bytes"


def quantity(value: float, unit: str, *, plain: bool = False) -> str:
    """Return a number in its unit: "4,009 steps", "53.2 us"; plain: "4009 steps", for a terminal."""
    if unit in _CONTINUOUS:
        return _CONTINUOUS[unit](value)
    if not is_exact(value):
        return f"{rounded(value)} {unit}".strip()
    if not unit:
        return str(int(value)) if plain else f"{int(value):,}"
    return (number_of if plain else counted)(int(value), unit.removesuffix("s"))


def is_exact(value: float) -> bool:
    """Return True for a whole number, all digits of which are known."""
    return isinstance(value, int) or (value.is_integer() and abs(value) < _EXACT)


def plain_quantity(value: float, unit: str) -> str:
    """Return the same for a terminal: "4009 steps", "1200 arrays", "53.2 us"."""
    return quantity(value, unit, plain=True)


def one_line(text: str, longest: int = LONGEST_LINE) -> str:
    """Return a text from a file as a line can show it: printable, and cut in the middle if it is long."""
    text = text if text.isprintable() else repr(text)[1:-1]
    if len(text) <= longest:
        return text
    return text[: longest - longest // 2 - 3] + "..." + text[-(longest // 2) :]


def printable(text: str, mark: str = "?") -> str:
    """Return a text without control characters: a name from a file cannot move the cursor or break lines."""
    return text if text.isprintable() else "".join(c if c.isprintable() else mark for c in text)


def counted(number: int, noun: str) -> str:
    """Return "1 tile" or "1,024 tiles"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def number_of(number: int, noun: str) -> str:
    """Return the same for a terminal or a log: "1 tile" or "1024 tiles"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def quoted(method: str) -> str:
    """Return the name of a method within a sentence, where `none` would read as a negation."""
    return f'"{one_line(method, LONGEST_NAME)}"'


def _seconds(value_s: float) -> str:
    """Return a time in the unit that reads best."""
    return _scaled(value_s, "s")


_CONTINUOUS: Mapping[str, Callable[[float], str]] = {
    "ns": duration,
    "s": _seconds,
    "pJ": energy,
    "um2": area,
    "pJ ns": edp,
    "share": share,
    "bytes": size,
    "inputs/s": lambda per_s: f"{rounded(per_s)} inputs/s",
}
"""Function that shows a continuous quantity, by its unit."""
