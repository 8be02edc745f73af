"""Limits of quantities beside the budget: `area_um2=2mm2`, `latency_ns=10us` (docs/sources/model.md 15)."""

from __future__ import annotations

from rramalloc.allocation.copy_limits import named_values
from rramalloc.choices import AtMostLike
from rramalloc.errors import SpecError
from rramalloc.records import brief, check_known
from rramalloc.units import amount

UNITS = {"area_um2": "um2", "energy_pj": "pJ", "power_mw": "mW", "latency_ns": "ns", "interval_ns": "ns"}
"""Unit of every quantity that may be limited."""


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
