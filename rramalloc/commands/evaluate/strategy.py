"""Strategy: a resource configuration table, which says how every task is split in space; JSON or CSV.

A plan is a strategy worked out for the tasks of one network, checked by the rules of such tables.
Source: docs/sources/companions.md 1.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import FailFast, Field, TypeAdapter

from rramalloc.commands.evaluate.tasks import LayerTask, SplitBy, TaskSplit, check_task_names
from rramalloc.csv_rows import csv_rows
from rramalloc.errors import SpecError
from rramalloc.files import CSV_LIMIT_BYTES, as_utf8, parse_json, read_json, read_text, write_json
from rramalloc.hardware.performance import MAX_UNITS, ChipPerformance
from rramalloc.network.node import Name
from rramalloc.records import Record, brief, check_format, from_list, parse

FORMAT: Literal["rramalloc-strategy/1"] = "rramalloc-strategy/1"
EVERY = "*"
"""The task name that stands for all tasks without an entry of their own."""
STRATEGY_COLUMNS = ("task", "subtask", "compute", "storage", "share", "split", "idle")
_NEEDED = ("task", "compute", "storage")


UnitId = int | Annotated[str, Field(pattern="^[CD]_?[0-9]{1,18}$", max_length=20)]
"""1, 2, ...; as text C1 is a compute unit, D1 a storage unit."""
UnitIds = Annotated[tuple[UnitId, ...], FailFast(), from_list(list[UnitId]), Field(max_length=2 * MAX_UNITS)]


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
    idle: UnitIds = ()

    @property
    def only_marks(self) -> bool:
        """Whether this is no subtask."""
        return bool(self.idle) and not self.compute and not self.storage and self.share is None


StrategyEntries = Annotated[
    tuple[SubtaskEntry, ...], FailFast(), from_list(list[SubtaskEntry]), Field(max_length=2 * MAX_UNITS)
]


class Strategy(Record):
    """Split of every task in space. tasks: entries by layer, "*" for all others; idle: in every task.

    Source: docs/sources/companions.md 1.
    """

    format: Literal["rramalloc-strategy/1"] = FORMAT
    name: Name | None = None
    tasks: dict[Name, StrategyEntries]
    idle: UnitIds = ()

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
    file = as_utf8(Path(where).stem or where)
    return strategy if strategy.name else strategy.model_copy(update={"name": file})


def _tasks(text: str, where: str) -> dict[str, list[dict[str, Any]]]:
    """Return the entries by task from a table with one row per subtask."""
    tasks: dict[str, list[dict[str, Any]]] = {}
    for place, row in csv_rows(text, where, STRATEGY_COLUMNS, _NEEDED):
        entries = tasks.setdefault(row["task"], [])
        entry: dict[str, Any] = {
            column: [_unit(word) for word in row[column].replace(";", " ").split()]
            for column in ("compute", "storage", "idle")
            if column in row
        }
        if row.get("share"):
            entry["share"] = parse_json(row["share"], f"{place}: column 'share'")
        if row.get("split"):
            entry["split"] = row["split"]
        number = row.get("subtask", "")
        expected = str(1 + sum(1 for other in entries if other["compute"] or other["storage"]))
        if number not in ("", expected) and (entry["compute"] or entry["storage"]):
            reason = f"must be {expected}, the next of its task, got {brief(number)}"
            raise SpecError(place, f"column 'subtask': {reason}")
        entries.append(entry)
    return tasks


def _unit(word: str) -> int | str:
    return int(word) if re.fullmatch(r"-?[0-9]{1,18}", word) else word


@dataclass(frozen=True, slots=True)
class StrategyPlan:
    """A strategy worked out. split: the subtasks of a task, by its number in execution order; where: its
    origin; divides_anew: whether units are free to be divided in another way in the next task; alike: whether
    all tasks are split in the same way.
    """

    name: str
    where: str
    split: Callable[[int], TaskSplit]
    divides_anew: bool = True
    alike: bool = False


def check_capacity(
    split: TaskSplit, task: LayerTask, chip: ChipPerformance, where: str, *, keeps_weights: bool
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


def plan_of(
    strategy: Strategy, tasks: Sequence[LayerTask], chip: ChipPerformance, where: str
) -> StrategyPlan:
    """Return the strategy worked out for every task.

    Within a task subtasks have units of their own, together all of them but those marked idle; shares sum
    to 1; storage holds the data. Raises SpecError for the first rule that is broken, naming task and unit.
    Source: docs/sources/companions.md 1.
    """
    check_task_names((name for name in strategy.tasks if name != EVERY), tasks, f"{where}: tasks")
    checked: dict[str, tuple[SubtaskEntry, ...]] = {}
    splits = []
    for task in tasks:
        key = task.name if task.name in strategy.tasks else EVERY
        place = f"{where}: task {task.name[:60]!r}"
        if key not in strategy.tasks:
            raise SpecError(place, f"has no entry: add one, or {EVERY!r} for all tasks without their own")
        if key not in checked:
            checked[key] = _checked(strategy.tasks[key], strategy.idle, chip, place)
        parts = checked[key]
        shares = [Fraction(repr(part.share)) for part in parts if part.share is not None]
        split = task.split_among(
            [(tuple(map(_number, part.compute)), tuple(map(_number, part.storage))) for part in parts],
            parts[0].split,
            chip,
            shares or None,
        )
        check_capacity(split, task, chip, place, keeps_weights=True)
        splits.append(split)
    return StrategyPlan(strategy.name or where, where, splits.__getitem__)


_OFF_ONE = 1e-5
"""Difference from 1 that the sum of shares may have: decimal fractions such as 0.33333 are rounded."""


class _Kind(NamedTuple):
    """One of the two kinds of units; limit: field of the chip with their number; owners: their subtasks."""

    letter: str
    field: Literal["compute", "storage"]
    limit: Literal["processors", "storage_units"]
    most: int
    owners: dict[int, int]

    def named(self, unit: int) -> str:
        return f"{self.field} unit {self.letter}{unit}"

    def number(self, unit: UnitId, where: str) -> int:
        """Return the number of a unit, written 3 or C3. Raises SpecError unless the chip has it."""
        if isinstance(unit, str) and unit[0] != self.letter:
            others = f"{self.letter}1, {self.letter}2, ..."
            raise SpecError(where, f"{unit} is no {self.field} unit; these are {others}")
        number = _number(unit)
        if not 1 <= number <= self.most:
            raise SpecError(
                where,
                f"unit {brief(unit)} does not exist: the chip has {self.letter}1 to "
                f"{self.letter}{self.most} ({self.limit} = {self.most})",
            )
        return number


def _checked(
    entries: tuple[SubtaskEntry, ...], idle: tuple[UnitId, ...], chip: ChipPerformance, place: str
) -> tuple[SubtaskEntry, ...]:
    """Return the subtasks among the entries. Raises SpecError where their units break a rule of `plan_of`."""
    subtasks = tuple(entry for entry in entries if not entry.only_marks)
    if not subtasks:
        raise SpecError(place, "has no subtask: a task needs at least one, with compute and storage units")
    kinds = (
        _Kind("C", "compute", "processors", chip.processors, {}),
        _Kind("D", "storage", "storage_units", chip.storage_units, {}),
    )
    for kind in kinds:
        for number, subtask in enumerate(subtasks, 1):
            _give(kind, number, getattr(subtask, kind.field), f"{place}, subtask {number}")
    unused = _idle([mark for entry in entries for mark in entry.idle] + list(idle), kinds, f"{place}: idle")
    for kind in kinds:
        left = set(range(1, kind.most + 1)) - kind.owners.keys() - unused[kind.letter]
        if left:
            raise SpecError(
                place,
                f"{kind.named(min(left))} is left over, {len(left)} in all ({kind.limit} = {kind.most}): "
                "give every unit to a subtask, or mark it idle",
            )
    _check_shares(subtasks, place)
    if len({subtask.split for subtask in subtasks}) > 1:
        raise SpecError(place, "some subtasks are split by windows, others by outputs: split all alike")
    return subtasks


def _give(kind: _Kind, number: int, units: tuple[UnitId, ...], where: str) -> None:
    """Enter units as those of a subtask. Raises SpecError for unknown and doubly given units."""
    if not units:
        raise SpecError(where, f"has no {kind.field} unit: it needs at least one")
    for unit in units:
        index = kind.number(unit, f"{where}: {kind.field}")
        if index in kind.owners:
            other = kind.owners[index]
            both = "twice" if other == number else f"to subtask {other} as well"
            raise SpecError(where, f"{kind.named(index)} is given {both}: a unit belongs to one subtask")
        kind.owners[index] = number


def _idle(marked: Sequence[UnitId], kinds: Sequence[_Kind], where: str) -> dict[str, set[int]]:
    """Return the units of each kind that are marked idle; a plain number stands for the units of both kinds.

    Raises SpecError for a mark of no unit, or only of units that a subtask has.
    """
    idle: dict[str, set[int]] = {kind.letter: set() for kind in kinds}
    for mark in marked:
        if isinstance(mark, int):
            meant = [kind for kind in kinds if 1 <= mark <= kind.most]
        else:
            meant = [kind for kind in kinds if mark[0] == kind.letter]
            meant[0].number(mark, where)
        if not meant:
            units = " or ".join(f"{kind.letter}1 to {kind.letter}{kind.most}" for kind in kinds)
            raise SpecError(where, f"unit {brief(mark)} does not exist: the chip has {units}")
        unit = _number(mark)
        if all(unit in kind.owners for kind in meant):
            raise SpecError(
                where,
                f"{meant[0].named(unit)} is marked idle, but subtask {meant[0].owners[unit]} "
                "has it: take it from one of them",
            )
        for kind in meant:
            idle[kind.letter].add(unit)
    return idle


def _check_shares(subtasks: tuple[SubtaskEntry, ...], place: str) -> None:
    shares = [subtask.share for subtask in subtasks]
    for number, share in enumerate(shares, 1):
        where = f"{place}, subtask {number}: share"
        if share is None and any(other is not None for other in shares):
            raise SpecError(where, "is missing: give the shares of all subtasks of a task, or none")
        if share is not None and not 0 < share <= 1:
            raise SpecError(where, f"must be above 0 and at most 1, got {share!r}")
    total = math.fsum(share for share in shares if share is not None)
    if shares[0] is not None and abs(total - 1) > _OFF_ONE:
        raise SpecError(place, f"the shares of its {len(shares)} subtasks must sum to 1, got {total:.6g}")


def _number(unit: UnitId) -> int:
    """Return the number of a unit: 3 of 3, C3, C_3 and D3."""
    return unit if isinstance(unit, int) else int(unit[1:].lstrip("_"))
