"""Plan: a strategy worked out for the tasks of one network, and the storage its subtasks need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from rramalloc.errors import SpecError
from rramalloc.studies.strategies.chip import ChipPerformance
from rramalloc.studies.strategies.tasks import Task


class Subtask(NamedTuple):
    """A part of a task: ids of its units, from 1, and its share of the task's windows."""

    compute: Sequence[int]
    storage: Sequence[int]
    share: Fraction


Split = tuple[Subtask, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A strategy worked out. splits: the subtasks of every task, in execution order; where: its origin."""

    name: str
    where: str
    splits: tuple[Split, ...]

    def largest_share(self, task: int) -> Fraction:
        """Share of the subtask that takes longest: run time is proportional to it."""
        return max(subtask.share for subtask in self.splits[task])


def check_capacity(
    split: Split, task: Task, chip: ChipPerformance, where: str, *, keeps_weights: bool
) -> None:
    """Raise SpecError for a subtask whose storage cannot hold its data.  Source: SYSTEMS.md 1."""
    for number, subtask in enumerate(split, 1):
        need = task.need_bytes(subtask.share, keeps_weights=keeps_weights)
        have = len(subtask.storage) * chip.unit_bytes
        if need > have:
            what = "input, output and weights" if keeps_weights else "input and output"
            raise SpecError(
                f"{where}, subtask {number}",
                f"needs {need} bytes for its {what}, its {len(subtask.storage)} storage units of "
                f"{chip.unit_bytes} bytes hold {have}: give it {-(-need // chip.unit_bytes)} storage units, "
                f"a smaller share or larger units",
            )
