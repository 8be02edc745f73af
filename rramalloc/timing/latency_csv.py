"""Latency tables as CSV: one row a layer, the fitted overhead repeated in each."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from typing import Any

from rramalloc.csv_rows import check_columns, csv_lines, named_cells
from rramalloc.errors import SpecError
from rramalloc.files import CSV_LIMIT_BYTES, read_text
from rramalloc.records import brief
from rramalloc.timing.latency_table import FORMAT, LatencyRow, LatencyTable
from rramalloc.timing.measured_layer import parameters_of, parameters_text

NEEDED = ("operator", "shape", "parameters", "latency_ns")
_FLOATS = ("latency_ns", "spread_ns", "noise_ns", "median_ns")
_TEXTS = ("device", "method", "date")
_OVERHEAD = ("a_ns_per_byte", "b_ns_per_byte", "c_ns", "r2")
COLUMNS = (
    "format", "operator", "shape", "parameters", "latency_ns", "spread_ns", "noise_ns", "n", "median_ns",
    "device", "method", "date", "flags", *_OVERHEAD, "runs",
)  # fmt: skip


def cells(row: LatencyRow) -> dict[str, Any]:
    """A row with shape, parameters and flags as texts."""
    texts = {
        "shape": "x".join(str(extent) for extent in row.shape),
        "parameters": parameters_text(row.parameters),
        "flags": " ".join(row.flags),
    }
    return row.model_dump() | texts


def csv_text(table: LatencyTable) -> str:
    """The table as a CSV file."""
    overhead = {} if table.overhead is None else table.overhead.model_dump()
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in table.rows:
        writer.writerow({"format": FORMAT} | cells(row) | overhead)
    return text.getvalue()


def read_csv_document(where: str) -> dict[str, Any]:
    """The JSON document of a table in CSV; only the columns in NEEDED must be there.

    Raises FileError; SpecError with line and column.
    """
    rows, overheads = [], []
    for place, row in csv_rows(where, NEEDED, COLUMNS):
        if row.pop("format", FORMAT) != FORMAT:
            raise SpecError(f"{place}: column 'format'", f"must be {FORMAT!r}")
        overheads.append(_overhead(row, place))
        rows.append(_row(row, place))
    if any(overhead != overheads[0] for overhead in overheads):
        raise SpecError(
            where, "the columns of the overhead (a_ns_per_byte ... runs) must be equal in all rows"
        )
    return {"format": FORMAT, "overhead": overheads[0] if overheads else None, "rows": rows}


def csv_rows(
    where: str, needed: tuple[str, ...], known: tuple[str, ...]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Place and cells of every row of a CSV file with a header; cells that are empty are left out.

    Raises FileError, SpecError.
    """
    header: list[str] = []
    for place, found in csv_lines(read_text(where, CSV_LIMIT_BYTES), where):
        if header:
            row = named_cells(header, found, place)
            yield place, {name: cell for name, cell in row.items() if cell}
        else:
            header = found
            _check_header(header, place, needed, known)
    if not header:
        raise SpecError(where, f"is empty; the first line is a header with {','.join(needed)}")


def layer_fields(row: dict[str, str], place: str, prefix: str = "") -> dict[str, Any]:
    """operator, shape and parameters of a row as fields of a MeasuredLayer. Raises SpecError."""
    shape = row.get(f"{prefix}shape", "")
    parts = shape.split("x")
    if not all(part.isascii() and part.isdigit() and len(part) <= 12 for part in parts):
        words = f"must be CHANNELSxHEIGHTxWIDTH, got {brief(shape)}"
        raise SpecError(f"{place}: column '{prefix}shape'", words)
    try:
        parameters = parameters_of(row.get(f"{prefix}parameters", ""))
    except ValueError as error:
        raise SpecError(f"{place}: column '{prefix}parameters'", str(error)) from None
    operator = row.get(f"{prefix}operator", "")
    return {"operator": operator, "shape": [int(part) for part in parts], "parameters": parameters}


def number(row: dict[str, str], column: str, place: str) -> float:
    """The finite number in a cell. Raises SpecError."""
    text = row.get(column, "")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise SpecError(f"{place}: column {column!r}", f"must be a number, got {brief(text)}")
    return value


def _check_header(header: list[str], place: str, needed: tuple[str, ...], known: tuple[str, ...]) -> None:
    check_columns(header, place, known)
    missing = [name for name in needed if name not in header]
    if missing:
        raise SpecError(place, f"column {missing[0]!r} is missing; needed are {','.join(needed)}")


def _row(row: dict[str, str], place: str) -> dict[str, Any]:
    fields = layer_fields(row, place)
    if "latency_ns" not in row:
        raise SpecError(f"{place}: column 'latency_ns'", "is empty, a number is needed")
    fields |= {name: number(row, name, place) for name in _FLOATS if name in row}
    if "n" in row:
        fields["n"] = _whole(row, "n", place)
    fields |= {name: row[name] for name in _TEXTS if name in row}
    return fields | {"flags": row.get("flags", "").split()}


def _overhead(row: dict[str, str], place: str) -> dict[str, Any] | None:
    if not any(name in row for name in (*_OVERHEAD, "runs")):
        return None
    return {name: number(row, name, place) for name in _OVERHEAD} | {"runs": _whole(row, "runs", place)}


def _whole(row: dict[str, str], column: str, place: str) -> int:
    text = row.get(column, "")
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise SpecError(f"{place}: column {column!r}", f"must be a whole number, got {brief(text)}")
    return int(text)
