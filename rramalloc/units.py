"""Quantities in words: times, bytes, shares and counts as tables, pages and messages show them."""

from __future__ import annotations

from rramalloc.shown import counted


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
