"""Status: what a result's bound says of it (docs/sources/model.md 14)."""

from __future__ import annotations

from typing import Any, Literal

Status = Literal["optimal", "bounded", "feasible"]
"""optimal: nothing better exists; bounded: by how much at most it could be better; feasible: no bound."""


def status_of(gap: float | None, lower_bound: float | None) -> Status:
    """Return the status of a value; gap: its relative distance from the bound, None where there is none.

    A bound of 0 says nothing of a value above it.
    """
    if gap is None or lower_bound is None:
        return "feasible"
    if gap <= 0:
        return "optimal"
    return "bounded" if lower_bound > 0 else "feasible"


def of_fields(fields: dict[str, Any]) -> Status:
    """Return the status that the fields of a record before it give: the default of its field `status`."""
    return status_of(fields.get("gap"), fields.get("lower_bound"))
