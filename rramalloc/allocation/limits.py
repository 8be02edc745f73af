"""Limits that a user holds: `conv1=4`, `conv*=2..8`, `area_um2=2mm2` (docs/sources/model.md 15)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from rramalloc.choices import MAX_ARRAYS, AtMostLike, CopiesLike
from rramalloc.errors import SpecError
from rramalloc.mapping.modes import divisors
from rramalloc.network.network import names_like
from rramalloc.records import brief, check_known, text_of
from rramalloc.timing.stage_graph import StageGraph
from rramalloc.units import amount

CopyLimits = Mapping[str, tuple[int, int]]
"""The fewest and the most copies of layers, by name."""
UNITS = {
    "area_um2": "um2",
    "energy_pj": "pJ",
    "power_mw": "mW",
    "latency_ns": "ns",
    "interval_ns": "ns",
}
"""Unit of every quantity that may be limited."""
_RANGE = re.compile(r"([0-9]{1,12})?(\.\.)?([0-9]{1,12})?")
_EXAMPLES = "a number such as 4, or a range such as 2..8, 2.. or ..8"


def copy_limits(given: CopiesLike | None, graph: StageGraph) -> CopyLimits:
    """Return the limits of every layer that is named; several of one layer hold together.

    Raises SpecError for a name or pattern that no layer has, copies that a layer cannot have, and limits
    that contradict each other.
    """
    limits: dict[str, tuple[int, int]] = {}
    weighted = dict.fromkeys(stage.name for stage in graph.layers)
    most = dict(zip(graph.names, graph.most_copies.tolist(), strict=True))
    for pattern, low, high in _pairs(given):
        for name in names_like("copies", pattern, weighted, "layer on arrays"):
            if low > most[name]:
                raise SpecError("copies", f"{name[:60]!r} can have 1 to {most[name]} copies, got {low}")
            before = limits.get(name, (1, most[name]))
            wanted = (low, min(high, most[name]))
            both = max(before[0], wanted[0]), min(before[1], wanted[1])
            if both[0] > both[1]:
                words = f"{name[:60]!r} is to have {before[0]}..{before[1]} and {low}..{wanted[1]} copies"
                raise SpecError("copies", f"{words}: no number is in both")
            limits[name] = both
    return limits


def divisors_within(low: int, high: int, total: int, name: str) -> tuple[int, int]:
    """Return the least and the largest divisor of `whole` from low to high. Raises SpecError for none."""
    among = [count for count in divisors(total) if low <= count <= high]
    if not among:
        words = f"{name[:60]!r} is to have {low}..{high} copies that divide {total}: no number does"
        raise SpecError("copies_divide", words)
    return among[0], among[-1]


def _pairs(given: CopiesLike | None) -> Iterable[tuple[str, int, int]]:
    """Yield pattern, fewest and most copies of every limit. Raises SpecError."""
    for pattern, wanted in named_values("copies", "LAYER=N or LAYER=A..B such as conv1=4", given):
        if isinstance(wanted, Sequence) and not isinstance(wanted, str) and len(wanted) == 2:
            wanted = "..".join(map(text_of, wanted))
        match = _RANGE.fullmatch(text_of(wanted).strip())
        low, dots, high = match.groups() if match else ("0", None, None)
        least = int(low) if low else 1
        most = int(high) if high else MAX_ARRAYS if dots else least
        if not (low or high) or not 1 <= least <= most:
            raise SpecError("copies", f"{pattern[:60]!r}: must be {_EXAMPLES}, got {brief(wanted)}")
        yield pattern, least, most


def at_most_of(given: AtMostLike | None) -> dict[str, float]:
    """Return the limit of every quantity that is named; of several the lowest. Raises SpecError."""
    limits = dict[str, float]()
    for name, value in named_values("at_most", "QUANTITY=X such as area_um2=2mm2", given):
        check_known("quantity", name, tuple(UNITS))
        try:
            limit = amount(str(value), UNITS[name])
        except ValueError as error:
            raise SpecError("at_most", f"{name}: {error}") from None
        if not 0 < limit < 1e300:
            raise SpecError("at_most", f"{name}: must be more than 0, got {brief(value)}")
        limits[name] = min(limit, limits.get(name, limit))
    return limits


def named_values(
    option: str, form: str, given: Mapping[str, object] | Iterable[str] | None
) -> Iterable[tuple[str, object]]:
    """Yield name and value of a mapping, or of texts NAME=VALUE. Raises SpecError."""
    if isinstance(given, Mapping):
        yield from given.items()
        return
    for text in given or ():
        name, equals, value = text.rpartition("=")
        if not equals or not name:
            raise SpecError(option, f"must be {form}, got {brief(text)}")
        yield name.strip(), value
