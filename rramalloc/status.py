"""Status of a result by its bound, and the reason why its search ended (docs/sources/model.md 14)."""

from __future__ import annotations

from enum import StrEnum
from typing import Any


class Status(StrEnum):
    """Quality of a result: proven optimal, with a bound of its distance from the optimum, or feasible."""

    OPTIMAL = "optimal"
    BOUNDED = "bounded"
    FEASIBLE = "feasible"


class Stopped(StrEnum):
    """Why a search ended.

    PROOF: value and bound meet; GAP: they are as close as was asked for; EXHAUSTED: it can do no more, as a
    baseline that ran through, or bound and answer stood still; WORK, TIME: what was allowed is used up;
    INTERRUPTED: the user ended it.
    """

    PROOF = "proof"
    GAP = "gap"
    EXHAUSTED = "exhausted"
    WORK = "work"
    TIME = "time"
    INTERRUPTED = "interrupted"


def status_of(gap: float | None, lower_bound: float | None) -> Status:
    """Return the status of a value; gap: its relative distance from the bound, None where there is none.

    A bound of 0 says nothing of a value above it.
    """
    if gap is None or lower_bound is None:
        return Status.FEASIBLE
    if gap <= 0:
        return Status.OPTIMAL
    return Status.BOUNDED if lower_bound > 0 else Status.FEASIBLE


def stopped_by(gap: float, ended: Stopped | None, near: float = 0.0) -> Stopped:
    """Return why a search ended, as its gap says it: PROOF where there is none, and nowhere else.

    ended: what ended it; PROOF may be of a model of its own; near: the gap that was good enough.
    """
    if gap <= 0:
        return Stopped.PROOF
    if gap <= near:
        return Stopped.GAP
    return Stopped.EXHAUSTED if ended in (None, Stopped.PROOF, Stopped.GAP) else ended


def of_fields(fields: dict[str, Any]) -> Status:
    """Return the status that the fields of a record before it give: the default of its field `status`."""
    return status_of(fields.get("gap"), fields.get("lower_bound"))
