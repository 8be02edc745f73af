"""JSON Schemas of all file formats, made from the records that read and write them."""

from __future__ import annotations

from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from rramalloc.errors import UnknownNameError
from rramalloc.room import rooms

if TYPE_CHECKING:
    from rramalloc.records import Record

_CORE = {
    "network": "rramalloc.network.network:NetworkDocument",
    "hardware": "rramalloc.hardware.hardware:Hardware",
    "allocation": "rramalloc.allocation.allocation:Allocation",
    "bare-allocation": "rramalloc.allocation.allocation:BareAllocation",
    "simulation": "rramalloc.allocation.simulation:Simulation",
    "inspection": "rramalloc.allocation.inspection:Inspection",
    "latency": "rramalloc.timing.latency_table:LatencyTable",
}
"""Record of every format that is not of a command: "module:name"."""


@cache
def record_homes() -> dict[str, str]:
    """Return the record of every format as "module:name"."""
    found = dict(_CORE)
    for room in rooms().values():
        found |= {name: room.full(record) for name, record in room.records.items()}
    return found


def schema_names() -> tuple[str, ...]:
    """Return the names of all file formats."""
    return tuple(record_homes())


def record_of(name: str) -> type[Record]:
    """Return the record of a file format. Raises UnknownNameError."""
    if name not in record_homes():
        raise UnknownNameError("schema", name, schema_names())
    kind: type[Record] = resolve_name(record_homes()[name])
    return kind


def json_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a file format. Raises UnknownNameError."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | record_of(name).model_json_schema()
