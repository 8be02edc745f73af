"""Latency tables, `rramalloc-latency/1`: measured latencies of layers on a device, in JSON and CSV.

Source: docs/sources/companions.md 4; docs/sources/model.md 7 for what a table means for a step.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, TypeAdapter, model_validator

from rramalloc.choices import OverheadMethod
from rramalloc.csv_rows import csv_cell, csv_rows, unescaped
from rramalloc.errors import MissingLatencyError, SpecError
from rramalloc.files import CSV_LIMIT_BYTES, read_json, read_text, to_json, write_text
from rramalloc.frozen import FrozenDict
from rramalloc.hardware.tables import MAX_VALUE, NonNegative, Text
from rramalloc.network.network import Network
from rramalloc.network.node import Node
from rramalloc.records import Record, brief, check_format, fault, from_list, parse
from rramalloc.result import ResultRecord
from rramalloc.timing.measured_layer import MeasuredLayer, parameters_of, parameters_text
from rramalloc.units import counted

if TYPE_CHECKING:
    import pandas as pd

FORMAT: Literal["rramalloc-latency/1"] = "rramalloc-latency/1"
MAX_ROWS = 100_000  # rows of a table: far above any network's layers, it bounds the time to read a file
Flag = Literal["below_noise", "negative", "unsteady"]
"""Doubts about a measured latency, see LatencyRow."""
Ns = Annotated[float, Field(ge=-MAX_VALUE, le=MAX_VALUE)]
DATE = r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"
Date = Annotated[str, Field(pattern=DATE)]
Flags = Annotated[tuple[Flag, ...], from_list(list[Flag])]


class Overhead(Record):
    """Time outside the processor: a_ns_per_byte * input_bytes + b_ns_per_byte * output_bytes + c_ns.

    r2: share of the variance of the runs that it explains; runs: auxiliary layers it was fitted on.
    """

    a_ns_per_byte: float
    b_ns_per_byte: float
    c_ns: float
    r2: float
    runs: Annotated[int, Field(ge=0)]

    def ns(self, input_bytes: float, output_bytes: float) -> float:
        """Return the overhead of one run [ns]."""
        return self.a_ns_per_byte * input_bytes + self.b_ns_per_byte * output_bytes + self.c_ns


class LatencyRow(MeasuredLayer):
    """The latency of one layer, for one input.

    latency_ns: of all windows of the layer; noise_ns: its standard error; spread_ns: of single runs of layer
    and auxiliary layer (1.4826 * median absolute deviation); n: runs; median_ns: of the runs, overhead and
    auxiliary layer included; low_ns, high_ns: the least and the largest latency that any correction and any
    kind of auxiliary layer gives; method: how the overhead was taken off; date: as the user gave it;
    flags: "below_noise" if latency_ns is under twice noise_ns, "negative" if it is below 0, "unsteady" if
    the runs ended before their median was as certain as asked for.
    Raises SpecError for a negative latency without its flag.
    """

    latency_ns: Ns
    spread_ns: NonNegative | None = None
    noise_ns: NonNegative | None = None
    n: Annotated[int, Field(ge=1)] | None = None
    median_ns: NonNegative | None = None
    low_ns: Ns | None = None
    high_ns: Ns | None = None
    device: Text | None = None
    method: OverheadMethod | None = None
    date: Date | None = None
    flags: Flags = ()

    @model_validator(mode="after")
    def _no_silent_negative(self) -> Self:
        if self.latency_ns < 0 and "negative" not in self.flags:
            raise fault("latency_ns: a negative latency needs the flag 'negative'")
        return self

    @property
    def flag_text(self) -> str:
        """Flags separated by blanks."""
        return " ".join(self.flags)


class LatencyTable(ResultRecord):
    """Latencies of layers on one device or several, each layer once.

    overhead: the fit they rest on, None if there was none; warnings: what to mistrust.
    Raises SpecError if a layer is listed twice.
    """

    rows_in = "rows"

    format: Literal["rramalloc-latency/1"] = FORMAT
    overhead: Overhead | None = None
    rows: Annotated[
        tuple[LatencyRow, ...], from_list(list[LatencyRow]), Field(min_length=1, max_length=MAX_ROWS)
    ]
    warnings: Annotated[tuple[str, ...], from_list(list[str])] = ()

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len(self.by_text) < len(self.rows):
            seen: set[str] = set()
            for row in self.rows:
                if row.text in seen:
                    raise fault(f"rows: {row.text[:200]} stands twice")
                seen.add(row.text)
        return self

    @cached_property
    def by_text(self) -> FrozenDict[str, LatencyRow]:
        """Row by the text of its layer, the key of a table."""
        return FrozenDict({row.text: row for row in self.rows})

    @cached_property
    def sha256(self) -> str:
        """Hash of overhead and rows, equal for JSON and CSV."""
        # Warnings are left out, as CSV has no place for them.
        return hashlib.sha256(to_json(self.to_dict() | {"warnings": []}).encode()).hexdigest()

    def find(self, network: Network, node: Node) -> LatencyRow | None:
        """Return the row of a node, None if it was not measured."""
        return self.by_text.get(MeasuredLayer.of(network, node).text)

    def lookup(self, network: Network, nodes: Sequence[Node]) -> list[LatencyRow]:
        """Return the row of each node. Raises MissingLatencyError naming all nodes that have none."""
        rows = [(node, self.find(network, node)) for node in nodes]
        missing = [(node.name, MeasuredLayer.of(network, node).text) for node, row in rows if row is None]
        if missing:
            raise MissingLatencyError(missing)
        return [row for _, row in rows if row is not None]

    def to_dict(self) -> dict[str, Any]:
        """Return the document of the latency file, without fields that have no value."""
        document = self.model_dump(mode="json")
        rows = [{name: value for name, value in row.items() if value is not None} for row in document["rows"]]
        return document | {"rows": rows}

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each layer, its parameters as one text."""
        import pandas as pd

        return pd.DataFrame([cells(row) for row in self.rows])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table as CSV if the name ends with .csv, else as JSON. Raises FileError."""

        write_text(path, csv_text(self) if _is_csv(path) else to_json(self.to_dict()))

    def _headline(self) -> tuple[str, str]:
        return "latency table", counted(len(self.rows), "measured layer")


_TABLE: TypeAdapter[LatencyTable] = TypeAdapter(LatencyTable)


LatencyTableLike = LatencyTable | Mapping[str, Any] | str | os.PathLike[str]


def as_latency_table(table: LatencyTableLike) -> LatencyTable:
    """Return the table itself, that of a dict of its file's form, or the one that `load_latency_table` reads.

    Raises FileError, SpecError.
    """
    if isinstance(table, LatencyTable):
        return table
    if isinstance(table, Mapping):
        return parse(_TABLE, dict(table), "latency_table")
    return load_latency_table(table)


def load_latency_table(path: str | os.PathLike[str]) -> LatencyTable:
    """Read a latency table.

    Parameters
    ----------
    path
        A file as `rramalloc latency` writes it: CSV if its name ends with .csv, else JSON.

    Returns
    -------
    LatencyTable
        One row a measured layer.

    Raises
    ------
    RramallocError
        FileError, SpecError.
    """

    where = os.fspath(path)
    document = read_csv_document(where) if _is_csv(path) else read_json(path)
    check_format(document, FORMAT, where, " as `rramalloc latency` writes it")
    return parse(_TABLE, document, where)


def _is_csv(path: str | os.PathLike[str]) -> bool:
    return os.fspath(path).lower().endswith(".csv")


NEEDED = ("operator", "shape", "parameters", "latency_ns")
"""Columns that a CSV file must have."""
COLUMNS = ("format", *LatencyRow.model_fields, *Overhead.model_fields)
_TEXTS = ("operator", "device", "method", "date")
_NUMBERS = tuple(name for name in COLUMNS if name not in (*NEEDED[:3], *_TEXTS, "format", "flags"))


def cells(row: LatencyRow) -> dict[str, Any]:
    """Return a row with shape, parameters and flags as texts."""
    shape = "x".join(map(str, row.shape))
    texts = {"shape": shape, "parameters": parameters_text(row.parameters), "flags": row.flag_text}
    return row.model_dump() | texts


def csv_text(table: LatencyTable) -> str:
    """Return the table as a CSV file."""
    overhead = {} if table.overhead is None else table.overhead.model_dump()
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in table.rows:
        made = {"format": FORMAT} | cells(row) | overhead
        writer.writerow({name: csv_cell(value) for name, value in made.items()})
    return text.getvalue()


def read_csv_document(where: str) -> dict[str, Any]:
    """Return the JSON document of a table in CSV; only the columns in NEEDED must be there.

    Raises FileError; SpecError with line and column.
    """
    rows, overheads = [], []
    for place, cells_of_row in csv_rows(read_text(where, CSV_LIMIT_BYTES), where, COLUMNS, NEEDED):
        row = {name: cell for name, cell in cells_of_row.items() if cell}
        if row.get("format", FORMAT) != FORMAT:
            raise SpecError(f"{place}: column 'format'", f"must be {FORMAT!r}")
        given = [name for name in _NUMBERS if name in row or name == "latency_ns"]
        numbers = {name: number(row, name, place) for name in given}
        # Counts of runs must be integers, which a CSV may write as 20.0.
        numbers |= {name: int(numbers[name]) for name in ("n", "runs") if numbers.get(name, 0.5).is_integer()}
        # Every row repeats the overhead of the whole table: they must agree, and the first one is kept.
        overheads.append({name: numbers.pop(name) for name in Overhead.model_fields if name in given})
        texts = {name: unescaped(row[name]) for name in _TEXTS if name in row}
        rows.append(_layer(row, place) | numbers | texts | {"flags": row.get("flags", "").split()})
    if any(overhead != overheads[0] for overhead in overheads):
        raise SpecError(
            where, "the columns of the overhead (a_ns_per_byte ... runs) must be equal in all rows"
        )
    return {"format": FORMAT, "overhead": overheads[0] or None if overheads else None, "rows": rows}


def _layer(row: dict[str, str], place: str) -> dict[str, Any]:
    """Return shape and parameters of a row, operator left empty. Raises SpecError."""
    parts = row.get("shape", "").split("x")
    if not all(part.isascii() and part.isdigit() and len(part) <= 12 for part in parts):
        words = f"must be CHANNELSxHEIGHTxWIDTH, got {brief(row.get('shape', ''))}"
        raise SpecError(f"{place}: column 'shape'", words)
    try:
        parameters = parameters_of(row.get("parameters", ""))
    except ValueError as error:
        raise SpecError(f"{place}: column 'parameters'", str(error)) from None
    return {"operator": "", "shape": [int(part) for part in parts], "parameters": parameters}


def number(row: dict[str, str], column: str, place: str) -> float:
    """Return the finite number in a cell. Raises SpecError."""
    text = row.get(column, "")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise SpecError(f"{place}: column {column!r}", f"must be a number, got {brief(text)}")
    return value
