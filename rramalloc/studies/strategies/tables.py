"""Tables: strategies from files, checked by the rules of resource configuration tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

from rramalloc.errors import SpecError
from rramalloc.records import brief
from rramalloc.studies.strategies.chip import ChipPerformance
from rramalloc.studies.strategies.plan import Plan, Split, Subtask, check_capacity
from rramalloc.studies.strategies.strategy import EVERY, Strategy, SubtaskEntry, UnitId
from rramalloc.studies.strategies.tasks import Task, check_task_names

_ROUNDING = 1e-5
"""How far shares written as decimal fractions may be from 1 together."""


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


def plan_of(strategy: Strategy, tasks: Sequence[Task], chip: ChipPerformance, where: str) -> Plan:
    """Work a strategy out for every task.

    Within a task subtasks have units of their own, together all of them but those marked idle; shares sum
    to 1; storage holds the data. Raises SpecError for the first rule that is broken, naming task and unit.
    Source: SYSTEMS.md 1.
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
        split = _split(checked[key], task)
        check_capacity(split, task, chip, place, keeps_weights=True)
        splits.append(split)
    return Plan(strategy.name or where, where, tuple(splits))


def _checked(
    entries: tuple[SubtaskEntry, ...], idle: tuple[UnitId, ...], chip: ChipPerformance, place: str
) -> tuple[_Part, ...]:
    """The subtasks among the entries, once their units obey the rules."""
    subtasks = tuple(entry for entry in entries if not entry.only_marks)
    if not subtasks:
        raise SpecError(place, "has no subtask: a task needs at least one, with compute and storage units")
    kinds = (
        _Kind("compute", "C", chip.processors, "processors"),
        _Kind("storage", "D", chip.storage_units, "storage_units"),
    )
    owners = [_owners(subtasks, kind, place) for kind in kinds]
    marked = [mark for entry in entries for mark in entry.idle] + list(idle)
    rest = [_idle(marked, kind, place) for kind in kinds]
    _check_marks(marked, kinds, owners, place)
    for kind, owner, unused in zip(kinds, owners, rest, strict=True):
        _check_all_used(kind, owner, unused, place)
    _check_shares(subtasks, place)
    return tuple(_part(subtask) for subtask in subtasks)


def _owners(subtasks: tuple[SubtaskEntry, ...], kind: _Kind, place: str) -> dict[int, int]:
    """Number of the subtask that has each unit. Raises SpecError for unknown and doubly given units."""
    owners: dict[int, int] = {}
    for number, subtask in enumerate(subtasks, 1):
        units: tuple[UnitId, ...] = getattr(subtask, kind.field)
        if not units:
            raise SpecError(f"{place}, subtask {number}", f"has no {kind.field} unit: it needs at least one")
        for unit in units:
            found = _number(unit, kind, f"{place}, subtask {number}: {kind.field}")
            if found in owners:
                other = owners[found]
                both = "twice" if other == number else f"to subtask {other} as well"
                raise SpecError(
                    f"{place}, subtask {number}",
                    f"{kind.field} unit {kind.letter}{found} is given {both}: a unit belongs to one subtask",
                )
            owners[found] = number
    return owners


def _number(unit: UnitId, kind: _Kind, where: str) -> int:
    """The number of a unit, written 3 or C3. Raises SpecError unless the chip has it."""
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


def _idle(marked: Sequence[UnitId], kind: _Kind, place: str) -> set[int]:
    """Units of a kind that may be unused; a plain number stands for the units of both kinds."""
    units: set[int] = set()
    for mark in marked:
        if isinstance(mark, int):
            if 1 <= mark <= kind.count:
                units.add(mark)
        elif mark[0] == kind.letter:
            units.add(_number(mark, kind, f"{place}: idle"))
    return units


def _check_marks(
    marked: Sequence[UnitId], kinds: Sequence[_Kind], owners: Sequence[dict[int, int]], place: str
) -> None:
    """A marked unit exists and is unused; of a plain number, the unit of at least one kind."""
    for mark in marked:
        own = [(kind, owner) for kind, owner in zip(kinds, owners, strict=True) if _may_be(mark, kind)]
        if not own:
            told = " or ".join(f"{kind.letter}1 to {kind.letter}{kind.count}" for kind in kinds)
            raise SpecError(f"{place}: idle", f"unit {brief(mark)} does not exist: the chip has {told}")
        number = _bare(mark)
        if all(number in owner for _, owner in own):
            kind, owner = own[0]
            raise SpecError(
                f"{place}: idle",
                f"{kind.field} unit {kind.letter}{number} is marked idle, but subtask {owner[number]} "
                "has it: take it from one of them",
            )


def _may_be(mark: UnitId, kind: _Kind) -> bool:
    return 1 <= mark <= kind.count if isinstance(mark, int) else mark[0] == kind.letter


def _check_all_used(kind: _Kind, owners: dict[int, int], idle: set[int], place: str) -> None:
    """Every unit has a subtask or is marked idle."""
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
    return _Part(tuple(map(_bare, subtask.compute)), tuple(map(_bare, subtask.storage)), share)


def _split(parts: tuple[_Part, ...], task: Task) -> Split:
    even = task.even_shares(len(parts))
    return tuple(
        Subtask(part.compute, part.storage, share if part.share is None else part.share)
        for part, share in zip(parts, even, strict=True)
    )


def _bare(unit: UnitId) -> int:
    """3 for 3, C3, C_3 and D3."""
    return unit if isinstance(unit, int) else int(unit[1:].lstrip("_"))
