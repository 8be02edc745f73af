"""The modes of a stage that write few wordlines, or take few arrays, for the time that they take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rramalloc.commands.reload.writing import Writing
from rramalloc.network.geometry import Pair
from rramalloc.search.menu import Modes, StageModes, modes_of
from rramalloc.search.problem import Problem
from rramalloc.timing.stage_graph import Ints


class Least(NamedTuple):
    """Of the modes that take no longer than some time: fewest arrays, and fewest wordlines.

    missing: 1 if there are none, else 0.
    """

    missing: int
    arrays: int
    rows: int


@dataclass(frozen=True, eq=False)
class Staircase:
    """All modes of a stage, the shortest first.

    arrays, rows: fewest of all modes up to each.
    """

    modes: Modes
    arrays: Ints
    rows: Ints

    @classmethod
    def of(cls, problem: Problem, writing: Writing, stage: int, most: int) -> Staircase:
        """Of the modes of a stage of a problem with up to `most` arrays."""
        listed = modes_of(problem, stage, most)
        rows = _rows(problem, writing, stage, listed)
        order = np.lexsort((rows, listed.modes.length))
        modes, rows = listed.modes.take(order), rows[order]
        return cls(modes, np.minimum.accumulate(modes.arrays), np.minimum.accumulate(rows))

    def least(self, longest: int) -> Least:
        """Of the modes that take no longer."""
        at = int(np.searchsorted(self.modes.length, longest, side="right")) - 1
        return Least(0, int(self.arrays[at]), int(self.rows[at])) if at >= 0 else Least(1, 0, 0)

    def near(self, length: int, steps: int) -> list[tuple[tuple[Pair, int], int]]:
        """Modes (block, copies) that write fewer wordlines than all faster ones, with their length.

        Those about as long as `length`: so many steps of the staircase in both directions.
        """
        falls = np.concatenate(([True], self.rows[1:] < self.rows[:-1]))
        rows = np.flatnonzero(falls)
        at = int(np.searchsorted(self.modes.length[rows], length))
        modes = self.modes.take(rows[max(0, at - steps) : at + steps + 1])
        blocks = zip(modes.tall.tolist(), modes.wide.tolist(), strict=True)
        return list(zip(zip(blocks, modes.low.tolist(), strict=True), modes.length.tolist(), strict=True))


def _rows(problem: Problem, writing: Writing, stage: int, listed: StageModes) -> Ints:
    """Wordlines that the copies of every mode take."""
    if problem.modes is None:
        return listed.modes.low * writing.least_rows[stage]
    bitlines = writing.hardware.crossbar.bitlines
    blocks = [problem.modes.of(stage, (int(tall), int(wide))) for tall, wide in listed.blocks[:, :2]]
    each = [
        own.rows * own.groups * own.arrays_per_block * (1 if own.sharing else -(-own.columns // bitlines))
        for own in blocks
    ]
    rows: Ints = listed.modes.low * np.array(each, dtype=np.int64)[listed.block]
    return rows
