"""Strategy: a resource configuration table, which says how every task is split in space; JSON or CSV."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, FailFast, Field, TypeAdapter

from rramalloc.csv_rows import check_columns, csv_lines, named_cells
from rramalloc.errors import SpecError
from rramalloc.files import CSV_LIMIT_BYTES, parse_json, read_json, read_text, write_json
from rramalloc.network.node import Name
from rramalloc.records import Record, as_tuple, brief, from_list, parse
from rramalloc.studies.strategies.chip import MAX_UNITS

FORMAT: Literal["rramalloc-strategy/1"] = "rramalloc-strategy/1"
EVERY = "*"
"""The task name that stands for all tasks without an entry of their own."""
COLUMNS = ("task", "subtask", "compute", "storage", "share", "idle")
_NEEDED = ("task", "compute", "storage")


def _marks(value: Any) -> Any:
    """Also {"compute": [3], "storage": [4]} for ["C3", "D4"]."""
    if isinstance(value, dict) and value.keys() <= {"compute", "storage"}:
        kinds = (("C", value.get("compute", [])), ("D", value.get("storage", [])))
        if all(isinstance(ids, list) for _, ids in kinds):
            return tuple(f"{kind}{unit}" for kind, ids in kinds for unit in ids)
    return as_tuple(value)


UnitId = int | Annotated[str, Field(pattern="^[CD]_?[0-9]{1,18}$", max_length=20)]
"""1, 2, ...; as text C1 is a compute unit, D1 a storage unit."""
UnitIds = Annotated[
    tuple[UnitId, ...],
    FailFast(),
    from_list(list[UnitId]),
    Field(max_length=MAX_UNITS),
]
IdleIds = Annotated[
    tuple[UnitId, ...],
    FailFast(),
    BeforeValidator(_marks, json_schema_input_type=list[UnitId] | dict[str, list[int]]),
    Field(max_length=2 * MAX_UNITS),
]


class SubtaskEntry(Record):
    """A part of a task: its compute units, its storage units, and its share of the task's windows.

    share: left out everywhere in a task, the windows are dealt out evenly; idle: units that no subtask of
    this task uses, on purpose; an entry with nothing else is no subtask.
    """

    compute: UnitIds = ()
    storage: UnitIds = ()
    share: float | None = None
    idle: IdleIds = ()

    @property
    def only_marks(self) -> bool:
        """Whether this is no subtask."""
        return bool(self.idle) and not self.compute and not self.storage and self.share is None


Entries = Annotated[
    tuple[SubtaskEntry, ...],
    FailFast(),
    from_list(list[SubtaskEntry]),
    Field(max_length=2 * MAX_UNITS),
]


class Strategy(Record):
    """How every task is split in space. tasks: entries by layer, "*" for all others; idle: in every task.

    Source: SYSTEMS.md 1.
    """

    format: Literal["rramalloc-strategy/1"] = FORMAT
    name: Name | None = None
    tasks: dict[Name, Entries]
    idle: IdleIds = ()

    def to_dict(self) -> dict[str, Any]:
        """The document of the strategy file."""
        return {"format": self.format} | self.model_dump(mode="json", exclude_defaults=True)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the strategy file whole or not at all. Raises FileError."""
        write_json(path, self.to_dict())


_STRATEGY: TypeAdapter[Strategy] = TypeAdapter(Strategy)


def load_strategy(path: str | os.PathLike[str]) -> Strategy:
    """The strategy in a JSON or CSV file; without a name of its own it has that of the file.

    Raises FileError, SpecError.
    """
    where = os.fspath(path)
    if Path(where).suffix.lower() == ".csv":
        document: Any = {"tasks": _tasks(read_text(path, CSV_LIMIT_BYTES), where)}
    else:
        document = read_json(path)
        if isinstance(document, dict) and document.get("format") != FORMAT:
            got = brief(document.get("format"))
            raise SpecError(where, f"format: must be {FORMAT!r}, got {got}")
    strategy = parse(_STRATEGY, document, where)
    return strategy if strategy.name else strategy.model_copy(update={"name": Path(where).stem or where})


def _tasks(text: str, where: str) -> dict[str, list[dict[str, Any]]]:
    """Entries by task from a table with one row per subtask."""
    header: list[str] = []
    tasks: dict[str, list[dict[str, Any]]] = {}
    for place, cells in csv_lines(text, where):
        if not header:
            header = _header(cells, place)
            continue
        row = named_cells(header, cells, place)
        _add(tasks.setdefault(row["task"], []), row, place)
    if not header:
        raise SpecError(where, f"is empty; the first line is the header {','.join(COLUMNS)}")
    return tasks


def _header(cells: list[str], place: str) -> list[str]:
    check_columns(cells, place, COLUMNS)
    for column in _NEEDED:
        if column not in cells:
            raise SpecError(place, f"column {column!r} is missing; the columns are {','.join(COLUMNS)}")
    return cells


def _add(entries: list[dict[str, Any]], row: dict[str, str], place: str) -> None:
    entry: dict[str, Any] = {
        column: [_unit(word) for word in row[column].replace(";", " ").split()]
        for column in ("compute", "storage", "idle")
        if column in row
    }
    if row.get("share"):
        share = parse_json(row["share"], f"{place}: column 'share'")
        if isinstance(share, bool) or not isinstance(share, int | float):
            raise SpecError(place, f"column 'share': must be a number, got {brief(row['share'])}")
        entry["share"] = share
    number = row.get("subtask", "")
    expected = str(1 + sum(1 for other in entries if other["compute"] or other["storage"]))
    if number and (entry["compute"] or entry["storage"]) and number != expected:
        raise SpecError(
            place, f"column 'subtask': must be {expected}, the next of its task, got {brief(number)}"
        )
    entries.append(entry)


def _unit(word: str) -> int | str:
    return int(word) if re.fullmatch(r"-?[0-9]{1,18}", word) else word
