"""Quantities and names: their units, and how tables, pages and messages show them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Literal

Unit = Literal["steps", "ticks", "ns", "arrays", "pJ", "pJ ns", "um2"]
"""Of values and bounds of objectives; ticks where stages have their own clocks."""
LONGEST_NAME, LONGEST_LINE = 60, 240
"""Characters of a name, and of a line, beyond which it is cut."""

_AMOUNT = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?) *(%|[a-z]*)", re.ASCII)
_TIMES_NS = {"ns": "1", "us": "1e3", "ms": "1e6", "s": "1e9", "min": "60e9", "h": "3600e9"}


def amount(text: str, unit: str) -> float:
    """Return a number in `unit` ("s", "ns"; "" of a share), given in it or in another: "10", "500ms", "1%".

    Raises ValueError.
    """
    scales = _TIMES_NS if unit else {"": "1", "%": "0.01"}
    found = _AMOUNT.fullmatch(text.strip().replace("\u00b5", "u").replace("\u03bc", "u"))
    if found is None or (found[2] or unit) not in scales:
        known = (
            f"a number of {unit}, or one with {', '.join(scales)}: 500ms" if unit else "a share: 0.01 or 1%"
        )
        raise ValueError(f"must be {known}, got {text[:LONGEST_NAME]!r}")
    return float(Decimal(found[1]) * Decimal(scales[found[2] or unit]) / Decimal(scales[unit]))


def steps(value: int, unit: str = "step") -> str:
    """ "1 step", "4,009 steps"; unit: "tick" where stages have their own clocks."""
    return counted(value, unit)


def duration(value_ns: float) -> str:
    """A time in the unit that reads best, with four figures: 366.4 us."""
    return _scaled(value_ns, (("s", 1e9), ("ms", 1e6), ("us", 1e3)), "ns")


def _scaled(value: float, units: Iterable[tuple[str, float]], smallest: str) -> str:
    for unit, factor in units:
        if value >= factor:
            return f"{rounded(value / factor)} {unit}"
    return f"{value:.4g} {smallest}"


def energy(value_pj: float) -> str:
    """An energy in the unit that reads best, with four figures: 12.34 uJ."""
    return _scaled(value_pj, (("J", 1e12), ("mJ", 1e9), ("uJ", 1e6), ("nJ", 1e3)), "pJ")


def area(value_um2: float) -> str:
    """An area: 62.5 mm2."""
    return _scaled(value_um2, (("mm2", 1e6),), "um2")


def share(part: float) -> str:
    """A share of 1 in per cent: 12.3 %; a share above 0 is never shown as 0."""
    if 0 < part < 0.0005:
        return "< 0.1 %"
    return "0 %" if part == 0 else f"{part:.1%}".replace("%", " %")


def rounded(value: float) -> str:
    """Four figures of a large number: 87,310,000."""
    return f"{float(f'{value:.4g}'):,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def size(value_bytes: float) -> str:
    """Bytes in the unit that reads best."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value_bytes >= factor:
            return f"{value_bytes / factor:,.1f} {unit}"
    return f"{value_bytes:,.0f} bytes"


def quantity(value: float, unit: str) -> str:
    """The value or bound of an objective: "4,009 steps", "1,200 arrays", "53.2 us"."""
    return _continuous(value, unit) or counted(int(value), unit.removesuffix("s"))


def plain_quantity(value: float, unit: str) -> str:
    """The same for a terminal: "4009 steps", "1200 arrays", "53.2 us"."""
    return _continuous(value, unit) or number_of(int(value), unit.removesuffix("s"))


def _continuous(value: float, unit: str) -> str:
    """A value whose unit is not one of counts, empty for one that is."""
    shown = {"ns": duration, "pJ": energy, "um2": area}
    if unit in shown:
        return shown[unit](value)
    return f"{value:.4g} {unit}" if unit == "pJ ns" else ""


def one_line(text: str, longest: int = LONGEST_LINE) -> str:
    """A text from a file as a line can show it: printable, and cut in the middle if it is long."""
    text = text if text.isprintable() else repr(text)[1:-1]
    if len(text) <= longest:
        return text
    return text[: longest - longest // 2 - 3] + "..." + text[-(longest // 2) :]


def printable(text: str, mark: str = "?") -> str:
    """Text without control characters: a name from a file cannot move the cursor or break a line."""
    return text if text.isprintable() else "".join(c if c.isprintable() else mark for c in text)


def counted(number: int, noun: str) -> str:
    """As "1 tile" or "1,024 tiles"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def number_of(number: int, noun: str) -> str:
    """The same for a terminal or a log: "1 tile" or "1024 tiles"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def quoted(method: str) -> str:
    """The name of a method within a sentence, where `none` would read as a negation."""
    return f'"{one_line(method, LONGEST_NAME)}"'
