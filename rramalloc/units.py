"""Quantities and names: their units, and how tables, pages and messages show them."""

from __future__ import annotations

from typing import Literal

Unit = Literal["steps", "ns", "arrays"]
LONGEST_NAME, LONGEST_LINE = 60, 240
"""Characters of a name, and of a line, beyond which it is cut."""


def steps(value: int) -> str:
    """ "1 step", "4,009 steps"."""
    return counted(value, "step")


def duration(value_ns: float) -> str:
    """A time in the unit that reads best, with four figures: 366.4 us."""
    for unit, factor in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if value_ns >= factor:
            return f"{rounded(value_ns / factor)} {unit}"
    return f"{value_ns:.4g} ns"


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
    return duration(value) if unit == "ns" else counted(int(value), unit.removesuffix("s"))


def plain_quantity(value: float, unit: str) -> str:
    """The same for a terminal: "4009 steps", "1200 arrays", "53.2 us"."""
    return duration(value) if unit == "ns" else number_of(int(value), unit.removesuffix("s"))


def one_line(text: str, longest: int = LONGEST_LINE) -> str:
    """A text from a file as a line can show it: printable, and cut in the middle if it is long."""
    text = text if text.isprintable() else repr(text)[1:-1]
    if len(text) <= longest:
        return text
    return text[: longest - longest // 2 - 3] + "..." + text[-(longest // 2) :]


def counted(number: int, noun: str) -> str:
    """As "1 tile" or "1,024 tiles"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def number_of(number: int, noun: str) -> str:
    """The same for a terminal or a log: "1 tile" or "1024 tiles"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def quoted(method: str) -> str:
    """The name of a method within a sentence, where `none` would read as a negation."""
    return f'"{one_line(method, LONGEST_NAME)}"'
