"""Allocations as strategies: a layer's copies are its subtasks, the arrays of a copy its compute units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rramalloc.errors import SpecError
from rramalloc.studies.strategies.chip import ChipPerformance
from rramalloc.studies.strategies.plan import Plan, Split, Subtask, check_capacity
from rramalloc.studies.strategies.tasks import Task, check_task_names


def plan_of_copies(
    name: str,
    copies: Mapping[str, int],
    demand: Sequence[int],
    tasks: Sequence[Task],
    chip: ChipPerformance,
    where: str,
) -> Plan:
    """The strategy that an allocation amounts to; layers without an entry in `copies` have one.

    demand: compute units (arrays) of one copy of each task. Arrays hold the weights of their own layer, so
    every layer has units of its own and all others are idle in its task; the storage units are dealt out
    evenly among the copies and hold inputs and outputs only.
    Raises SpecError if there are too few units, or for copies below 1 or above the windows.
    Source: SYSTEMS.md 1.
    """
    check_task_names(copies, tasks, where)
    counts = [copies.get(task.name, 1) for task in tasks]
    for task, count in zip(tasks, counts, strict=True):
        place = f"{where}: task {task.name[:60]!r}"
        if not 1 <= count <= task.windows:
            raise SpecError(place, f"its copies must be from 1 to its {task.windows} windows, got {count}")
        if count > chip.storage_units:
            raise SpecError(
                place,
                f"has {count} copies, the chip has {chip.storage_units} storage units: each copy needs one",
            )
    need = sum(count * each for count, each in zip(counts, demand, strict=True))
    if need > chip.processors:
        raise SpecError(
            where, f"takes {need} arrays, the chip has {chip.processors} processors: each array is one"
        )
    splits, first = [], 1
    for task, count, each in zip(tasks, counts, demand, strict=True):
        split = _split(task, count, each, first, chip.storage_units)
        check_capacity(split, task, chip, f"{where}: task {task.name[:60]!r}", keeps_weights=False)
        splits.append(split)
        first += count * each
    return Plan(name, where, tuple(splits))


def _split(task: Task, copies: int, demand: int, first: int, storage_units: int) -> Split:
    """Consecutive units for each copy, from compute unit `first` on."""
    each, more = divmod(storage_units, copies)
    subtasks, stored = [], 1
    for copy, share in enumerate(task.even_shares(copies)):
        begin, held = first + copy * demand, each + (copy < more)
        subtasks.append(Subtask(range(begin, begin + demand), range(stored, stored + held), share))
        stored += held
    return tuple(subtasks)
