"""Old result files: former names of fields, and the function that replaces them by today's names.

Version 2 of the formats calls what is stored several times `copies` (before: `replication`), the arrays of
one copy `arrays_per_copy` (`demand`), and counted work `work_s` (`seconds`).
"""

from __future__ import annotations

from typing import Any

from rramalloc.status import status_of

Renamed = dict[str, Any]
"""New names by old ones, of fields and words, and by the name of a field what was renamed in its value."""

_COPIES: Renamed = {"replication": "copies"}
_WORK: Renamed = {"seconds": "work_s"}
_LAYER: Renamed = _COPIES | {"demand": "arrays_per_copy"}
_LAYERS: Renamed = {"layers": _LAYER}
_ARRAYS: Renamed = {"demand_before": "arrays_before", "demand_after": "arrays_after"}
_START: Renamed = {"options": {"start": _COPIES}}
_ALLOCATION: Renamed = _WORK | _START | _LAYERS | {"history": _WORK}
_NEIGHBOUR: Renamed = {"point": _COPIES}
_RENAMED: dict[str, Renamed] = {
    "allocation": _ALLOCATION,
    "simulation": _LAYERS,
    "inspection": _LAYERS,
    "comparison": {"rows": _COPIES | _WORK},
    "pareto": _WORK | {"points": _COPIES},
    "explanation": _LAYERS | dict.fromkeys(("cheaper", "faster", "speedup"), _NEIGHBOUR),
    "tuning": {"own": _COPIES, "judged": _COPIES, "allocation": _ALLOCATION},
    "reload": _WORK | _START | {"segments": {"allocation": _ALLOCATION}},
    "sweep": {"rows": _WORK},
    "size": _WORK | {"networks": {"allocation": _ALLOCATION}, "status": {"proven": "optimal"}},
    "placement": _LAYERS,
    "verification": _LAYERS,
    "export": _LAYERS,
    "evaluation": {"proposal": _LAYERS},
    "network-fold": _ARRAYS | {"layers": _ARRAYS},
    "chiplet-schedule": _WORK,
}
_FORMATS = {f"rramalloc-{name}/1": f"rramalloc-{name}/2" for name in _RENAMED if name != "size"}
"""Formats of today by those of version 1; `size` is younger than the old names in a release."""


def upgraded(document: Any) -> Any:
    """Return a result's document in today's names; other documents are returned unchanged.

    A bare allocation has no format: `{"replication": ...}` becomes `{"copies": ...}`.
    """
    if not isinstance(document, dict):
        return document
    format_ = document.get("format")
    if format_ is None:
        return _renamed(document, _COPIES)
    name = str(format_).removeprefix("rramalloc-").removesuffix("/1")
    return _renamed(document, _RENAMED.get(name, {}))


def upgraded_row(row: Any) -> Any:
    """Return a row of a sweep in today's names, with its status.

    Rows that a folder keeps have no format of their own.
    """
    row = _renamed(row, _WORK)
    if isinstance(row, dict) and isinstance(gap := row.get("gap"), int | float):
        bound = row.get("lower_bound")
        row.setdefault("status", status_of(gap, bound if isinstance(bound, int | float) else None))
    return row


def _renamed(value: Any, renamed: Renamed) -> Any:
    """Return a value of a document with new names; a field that stands there under both keeps its old name,
    which its record then refuses."""
    if isinstance(value, list):
        return [_renamed(item, renamed) for item in value]
    if isinstance(value, str):
        return renamed.get(value, value)
    if not isinstance(value, dict) or not renamed:
        return value
    document = {}
    for name, inner in value.items():
        change = renamed.get(name)
        if isinstance(change, str) and change not in value:
            document[change] = inner
        elif isinstance(change, dict):
            document[name] = _renamed(inner, change)
        else:
            document[name] = inner
    format_ = document.get("format")
    if isinstance(format_, str):
        document["format"] = _FORMATS.get(format_, format_)
    return document
