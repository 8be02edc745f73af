"""Strategy: a resource configuration table, which says how every task is split in space; JSON or CSV.

A plan is a strategy worked out for the tasks of one network, checked by the rules of such tables.
Source: docs/sources/companions.md 1.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, FailFast, Field, TypeAdapter

from rramalloc.commands.evaluate.tasks import LayerTask, SplitBy, check_task_names
from rramalloc.csv_rows import csv_rows
from rramalloc.errors import SpecError
from rramalloc.files import CSV_LIMIT_BYTES, parse_json, read_json, read_text, write_json
from rramalloc.hardware.performance import MAX_UNITS, ChipPerformance, Rates
from rramalloc.network.node import Name
from rramalloc.records import Record, as_tuple, brief, check_format, from_list, parse

FORMAT: Literal["rramalloc-strategy/1"] = "rramalloc-strategy/1"
EVERY = "*"
"""The task name that stands for all tasks without an entry of their own."""
COLUMNS = ("task", "subtask", "compute", "storage", "share", "split", "idle")
_NEEDED = ("task", "compute", "storage")


def _marks(value: Any) -> Any:
    """Return ("C3", "D4") for {"compute": [3], "storage": [4]}, another value as a tuple."""
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
    """A part of a task: its compute units, its storage units, and its share of the task.

    share: left out everywhere in a task, windows or output channels are dealt out evenly; split: what is
    dealt out, the same for all subtasks of a task; idle: units that no subtask of this task uses, on
    purpose; an entry with nothing else is no subtask.
    """

    compute: UnitIds = ()
    storage: UnitIds = ()
    share: float | None = None
    split: SplitBy = "windows"
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
    """Split of every task in space. tasks: entries by layer, "*" for all others; idle: in every task.

    Source: docs/sources/companions.md 1.
    """

    format: Literal["rramalloc-strategy/1"] = FORMAT
    name: Name | None = None
    tasks: dict[Name, Entries]
    idle: IdleIds = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the document of the strategy file."""
        return {"format": self.format} | self.model_dump(mode="json", exclude_defaults=True)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole strategy file; an error leaves no file. Raises FileError."""
        write_json(path, self.to_dict())


_STRATEGY: TypeAdapter[Strategy] = TypeAdapter(Strategy)


def load_strategy(path: str | os.PathLike[str]) -> Strategy:
    """Read the strategy in a JSON or CSV file; one without a name takes that of the file.

    Raises FileError, SpecError.
    """
    where = os.fspath(path)
    if Path(where).suffix.lower() == ".csv":
        document: Any = {"tasks": _tasks(read_text(path, CSV_LIMIT_BYTES), where)}
    else:
        document = read_json(path)
        if isinstance(document, dict):
            check_format(document, FORMAT, where)
    strategy = parse(_STRATEGY, document, where)
    return strategy if strategy.name else strategy.model_copy(update={"name": Path(where).stem or where})


def _tasks(text: str, where: str) -> dict[str, list[dict[str, Any]]]:
    """Return the entries by task from a table with one row per subtask."""
    tasks: dict[str, list[dict[str, Any]]] = {}
    for place, row in csv_rows(text, where, COLUMNS, _NEEDED):
        _add(tasks.setdefault(row["task"], []), row, place)
    return tasks


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
    if row.get("split"):
        entry["split"] = row["split"]
    number = row.get("subtask", "")
    expected = str(1 + sum(1 for other in entries if other["compute"] or other["storage"]))
    if number and (entry["compute"] or entry["storage"]) and number != expected:
        raise SpecError(
            place, f"column 'subtask': must be {expected}, the next of its task, got {brief(number)}"
        )
    entries.append(entry)


def _unit(word: str) -> int | str:
    return int(word) if re.fullmatch(r"-?[0-9]{1,18}", word) else word


class Subtask(NamedTuple):
    """A part of a task: ids of its units, from 1, its share of the task, and the rates of its routes."""

    compute: Sequence[int]
    storage: Sequence[int]
    share: Fraction
    split: SplitBy
    rates: Rates


Split = tuple[Subtask, ...]


@dataclass(frozen=True, slots=True)
class StrategyPlan:
    """A strategy worked out. splits: the subtasks of every task, in execution order; where: its origin;
    divides_anew: whether units are free to be divided in another way in the next task.
    """

    name: str
    where: str
    splits: tuple[Split, ...]
    divides_anew: bool = True


def check_capacity(
    split: Split, task: LayerTask, chip: ChipPerformance, where: str, *, keeps_weights: bool
) -> None:
    """Raise SpecError for a subtask whose storage cannot hold its data."""
    for number, subtask in enumerate(split, 1):
        need = task.need_bytes(subtask.share, subtask.split, keeps_weights=keeps_weights)
        have = len(subtask.storage) * chip.unit_bytes
        if need > have:
            what = "input, output and weights" if keeps_weights else "input and output"
            raise SpecError(
                f"{where}, subtask {number}",
                f"needs {need} bytes for its {what}, its {len(subtask.storage)} storage units of "
                f"{chip.unit_bytes} bytes hold {have}: give it {-(-need // chip.unit_bytes)} storage units, "
                f"a smaller share or larger units",
            )


_ROUNDING = 1e-5
"""Distance from 1 that shares written as decimal fractions may have in sum."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """One of the two kinds of units and how many the chip has."""

    field: Literal["compute", "storage"]
    letter: str
    count: int
    limit: str


class _Part(NamedTuple):
    """A checked subtask: ids of its units, and its share if the strategy gives one."""

    compute: tuple[int, ...]
    storage: tuple[int, ...]
    share: Fraction | None
    split: SplitBy


def plan_of(
    strategy: Strategy, tasks: Sequence[LayerTask], chip: ChipPerformance, where: str
) -> StrategyPlan:
    """Return the strategy worked out for every task.

    Within a task subtasks have units of their own, together all of them but those marked idle; shares sum
    to 1; storage holds the data. Raises SpecError for the first rule that is broken, naming task and unit.
    Source: docs/sources/companions.md 1.
    """
    check_task_names((name for name in strategy.tasks if name != EVERY), tasks, f"{where}: tasks")
    checked: dict[str, tuple[_Part, ...]] = {}
    splits = []
    for task in tasks:
        key = task.name if task.name in strategy.tasks else EVERY
        place = f"{where}: task {task.name[:60]!r}"
        if key not in strategy.tasks:
            raise SpecError(place, f"has no entry: add one, or {EVERY!r} for all tasks without their own")
        if key not in checked:
            checked[key] = _checked(strategy.tasks[key], strategy.idle, chip, place)
        split = _split(checked[key], task, chip)
        check_capacity(split, task, chip, place, keeps_weights=True)
        splits.append(split)
    return StrategyPlan(strategy.name or where, where, tuple(splits))


def _checked(
    entries: tuple[SubtaskEntry, ...], idle: tuple[UnitId, ...], chip: ChipPerformance, place: str
) -> tuple[_Part, ...]:
    """Return the subtasks among the entries, once their units obey the rules."""
    subtasks = tuple(entry for entry in entries if not entry.only_marks)
    if not subtasks:
        raise SpecError(place, "has no subtask: a task needs at least one, with compute and storage units")
    kinds = (
        _Kind("compute", "C", chip.processors, "processors"),
        _Kind("storage", "D", chip.storage_units, "storage_units"),
    )
    owners = [_owners(subtasks, kind, place) for kind in kinds]
    marked = [mark for entry in entries for mark in entry.idle] + list(idle)
    rest = _idle(marked, kinds, owners, place)
    for kind, owner, unused in zip(kinds, owners, rest, strict=True):
        _check_all_used(kind, owner, unused, place)
    _check_shares(subtasks, place)
    if len({subtask.split for subtask in subtasks}) > 1:
        raise SpecError(place, "some subtasks are split by windows, others by outputs: split all alike")
    return tuple(_part(subtask) for subtask in subtasks)


def _owners(subtasks: tuple[SubtaskEntry, ...], kind: _Kind, place: str) -> dict[int, int]:
    """Return the number of the subtask that has each unit. Raises SpecError for unknown and doubly given
    units."""
    owners: dict[int, int] = {}
    for number, subtask in enumerate(subtasks, 1):
        units: tuple[UnitId, ...] = getattr(subtask, kind.field)
        if not units:
            raise SpecError(f"{place}, subtask {number}", f"has no {kind.field} unit: it needs at least one")
        for unit in units:
            index = _number(unit, kind, f"{place}, subtask {number}: {kind.field}")
            if index in owners:
                other = owners[index]
                both = "twice" if other == number else f"to subtask {other} as well"
                raise SpecError(
                    f"{place}, subtask {number}",
                    f"{kind.field} unit {kind.letter}{index} is given {both}: a unit belongs to one subtask",
                )
            owners[index] = number
    return owners


def _number(unit: UnitId, kind: _Kind, where: str) -> int:
    """Return the number of a unit, written 3 or C3. Raises SpecError unless the chip has it."""
    if isinstance(unit, str) and unit[0] != kind.letter:
        raise SpecError(
            where, f"{unit} is no {kind.field} unit; these are {kind.letter}1, {kind.letter}2, ..."
        )
    number = _bare(unit)
    if not 1 <= number <= kind.count:
        raise SpecError(
            where,
            f"unit {brief(unit)} does not exist: the chip has {kind.letter}1 to {kind.letter}{kind.count} "
            f"({kind.limit} = {kind.count})",
        )
    return number


def _idle(
    marked: Sequence[UnitId], kinds: Sequence[_Kind], owners: Sequence[dict[int, int]], place: str
) -> list[set[int]]:
    """Return the units of each kind that are marked idle; a plain number stands for the units of both kinds.

    Raises SpecError for a mark of no unit, or only of units that a subtask has.
    """
    idle: list[set[int]] = [set() for _ in kinds]
    for mark in marked:
        if isinstance(mark, int):
            own = [number for number, kind in enumerate(kinds) if 1 <= mark <= kind.count]
        else:
            own = [number for number, kind in enumerate(kinds) if mark[0] == kind.letter]
            _number(mark, kinds[own[0]], f"{place}: idle")
        if not own:
            units = " or ".join(f"{kind.letter}1 to {kind.letter}{kind.count}" for kind in kinds)
            raise SpecError(f"{place}: idle", f"unit {brief(mark)} does not exist: the chip has {units}")
        unit, kind, owner = _bare(mark), kinds[own[0]], owners[own[0]]
        if all(unit in owners[number] for number in own):
            raise SpecError(
                f"{place}: idle",
                f"{kind.field} unit {kind.letter}{unit} is marked idle, but subtask {owner[unit]} "
                "has it: take it from one of them",
            )
        for number in own:
            idle[number].add(unit)
    return idle


def _check_all_used(kind: _Kind, owners: dict[int, int], idle: set[int], place: str) -> None:
    """Check that every unit has a subtask or is marked idle."""
    used = len(owners.keys() | idle)
    if used < kind.count:
        first = next(unit for unit in range(1, kind.count + 1) if unit not in owners and unit not in idle)
        raise SpecError(
            place,
            f"{kind.field} unit {kind.letter}{first} is left over, {kind.count - used} in all "
            f"({kind.limit} = {kind.count}): give every unit to a subtask, or mark it idle",
        )


def _check_shares(subtasks: tuple[SubtaskEntry, ...], place: str) -> None:
    shares = [subtask.share for subtask in subtasks]
    for number, share in enumerate(shares, 1):
        where = f"{place}, subtask {number}: share"
        if share is None and any(other is not None for other in shares):
            raise SpecError(where, "is missing: give the shares of all subtasks of a task, or none")
        if share is not None and not 0 < share <= 1:
            raise SpecError(where, f"must be above 0 and at most 1, got {share!r}")
    total = math.fsum(share for share in shares if share is not None)
    if shares[0] is not None and abs(total - 1) > _ROUNDING:
        raise SpecError(place, f"the shares of its {len(shares)} subtasks must sum to 1, got {total:.6g}")


def _part(subtask: SubtaskEntry) -> _Part:
    share = None if subtask.share is None else Fraction(repr(subtask.share))
    return _Part(tuple(map(_bare, subtask.compute)), tuple(map(_bare, subtask.storage)), share, subtask.split)


def _split(parts: tuple[_Part, ...], task: LayerTask, chip: ChipPerformance) -> Split:
    even = task.even_shares(len(parts), _split_of(parts[0].split, task))
    return tuple(
        Subtask(
            part.compute,
            part.storage,
            share if part.share is None else part.share,
            _split_of(part.split, task),
            chip.rates(part.compute, part.storage),
        )
        for part, share in zip(parts, even, strict=True)
    )


def _split_of(split: SplitBy, task: LayerTask) -> SplitBy:
    """Return the split of a task; operators without weights need only their own channels, so they split by
    windows."""
    return split if task.is_layer else "windows"


def _bare(unit: UnitId) -> int:
    """Return 3 for 3, C3, C_3 and D3."""
    return unit if isinstance(unit, int) else int(unit[1:].lstrip("_"))
