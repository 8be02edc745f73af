"""Steepest descent on any objective: a stage gets more or fewer copies or another block, or two stages do.

The value of every neighbour is exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, product

from rramalloc.mapping.mode import Mode
from rramalloc.mapping.modes import divisors
from rramalloc.rounding import SAME_PRODUCT
from rramalloc.search import cost
from rramalloc.search.menu import Menu
from rramalloc.search.problem import Choice, Problem
from rramalloc.search.ranges import Incumbent
from rramalloc.search.work import Work
from rramalloc.timing.simulate import Copies

MOST_PAIRS = 3600
"""Pairs of stages that change together: all of 60 stages, as more take longer than a search."""
_MOST_STEPS = 200
"""Changes of one descent; the longest seen took 90."""
_WORTH_DESCENT = 1.2
"""Ratio to the best value up to which allocations are improved: others hardly ever end below it."""
_CHEAP_LOOK = 0.02
"""Share of the work spent and planned up to which evaluating all neighbours is cheap: then any allocation is
improved, and all blocks are tried."""
_OTHER_MODES = 12
"""Modes with other blocks of a stage that are tried, those with the fewest arrays."""
_SECONDS_PER_LOOK = 0.01
"""Work timed together before the clock is looked at, so that networks of 5,000 stages end in time."""


@dataclass(frozen=True, slots=True)
class Move:
    """A stage's new mode and copies, and the arrays that it takes more."""

    stage: int
    mode: Mode
    copies: int
    arrays: int


@dataclass(eq=False)
class Descent:
    """Neighbours of allocations of one problem, over a menu."""

    problem: Problem
    menu: Menu
    stop: Work

    def update(self, found: Choice, incumbent: Incumbent, most_s: float) -> None:
        """Propose an allocation and, if it is nearly as good as the incumbent, what a descent finds."""
        reached = incumbent.propose(found)
        if reached < incumbent.value * _WORTH_DESCENT or self._is_cheap:
            self.improve(found, incumbent, most_s)

    @property
    def _is_cheap(self) -> bool:
        """Whether timing all neighbours of an allocation, with as many pairs as are tried, is little work."""
        seconds = cost.NEIGHBOUR_BLOCK * len(self.problem.demand) * MOST_PAIRS
        return seconds <= _CHEAP_LOOK * self.stop.plan_s

    def improve(self, start: Choice, incumbent: Incumbent, most_s: float) -> None:
        """Go from neighbour to neighbour as long as one is better, for `most_s` counted seconds at most."""
        current, value, end_s = start, incumbent.value_of(start), self.stop.spent_s + most_s
        for _ in range(_MOST_STEPS):
            best, least = None, value * (1 - SAME_PRODUCT)
            for found in self.neighbours(current):
                if self.stop.out_of_time or self.stop.spent_s >= end_s:
                    return
                self.stop.charge(self.seconds(found, current))
                reached = incumbent.propose(found)
                if reached < least and self.problem.holds(found.copies, found.modes):
                    best, least = found, reached
            if best is None:
                break
            current, value = best, least

    def neighbours(self, found: Choice) -> Iterator[Choice]:
        """Return the allocations that fit and differ in one stage, or in two in opposite directions."""
        moves = list[Move]()
        for stage in range(len(found.copies)):
            if self.stop.out_of_time:
                return
            moves += self._moves(found, stage)
        more, fewer = ([m for m in moves if sign * m.arrays > 0] for sign in (1, -1))
        pairs = product(more, fewer) if len(more) * len(fewer) <= MOST_PAIRS else ()
        opposite = (pair for pair in pairs if pair[0].stage != pair[1].stage)
        changes: Iterator[tuple[Move, ...]] = chain(((move,) for move in moves), opposite)
        size = max(1, int(_SECONDS_PER_LOOK / (cost.NEIGHBOUR_STAGE * len(found.copies))))
        same = list[Copies]()
        for change in changes:
            if found.arrays + sum(move.arrays for move in change) > self.problem.budget:
                continue
            copies, modes = found.copies.copy(), list(found.modes)
            for move in change:
                copies[move.stage], modes[move.stage] = move.copies, move.mode
            if tuple(modes) != found.modes:
                yield self.problem.choice(copies, tuple(modes))
                continue
            same.append(copies)
            if len(same) == size:
                yield from self.problem.choices(same, found.modes)
                same = []
        yield from self.problem.choices(same, found.modes)

    def _moves(self, found: Choice, stage: int) -> Iterator[Move]:
        """Return a batch and a copy more and fewer of its block, and other blocks of its length or arrays."""
        problem, mode, copies = self.problem, found.modes[stage], int(found.copies[stage])
        total = problem.time.total(stage, mode)
        batches = -(-total // copies)
        length = batches * problem.ticks(stage, mode, copies)
        used = problem.arrays_of_stage(stage, mode, copies)
        fewer, more = -(-total // (batches + 1)), -(-total // max(batches - 1, 1))
        half, twice = -(-2 * total // max(batches, 1)), -(-total // (2 * batches))
        full = problem.storage.count(stage, mode).most_copies(used)  # copies that take no more arrays
        options = [(mode, count) for count in (copies + 1, copies - 1, fewer, more, half, twice, total, full)]
        if whole := problem.divided(stage, mode):
            options = [(mode, count) for count in divisors(whole)]
        options += self._other_modes(stage, mode, length, used)
        least, most = problem.copies_allowed(stage, mode)
        for other, count in dict.fromkeys(options):
            if other != mode:
                least, most = problem.copies_allowed(stage, other)
            kept, whole = min(max(count, least), most), problem.divided(stage, other)
            if whole and whole % kept:
                kept = math.gcd(whole, kept)
            if (other, kept) != (mode, copies) and kept >= least:
                yield Move(stage, other, kept, problem.arrays_of_stage(stage, other, kept) - used)

    def _other_modes(self, stage: int, mode: Mode, length: int, used: int) -> list[tuple[Mode, int]]:
        """Return modes with other blocks of the menu, those with the fewest arrays.

        Each with the copies for about a length, and with those that `used` arrays hold.
        """
        problem, blocks, arrays = self.problem, self.menu.blocks, self.problem.storage
        options = list[tuple[Mode, int]]()
        for number in range(int(self.menu.first[stage]), int(self.menu.first[stage + 1])):
            other, total = self.menu.mode(number), int(blocks.total[number])
            ticks = problem.ticks(stage, other, 1)
            if other != mode:
                longest = max(1, length // ticks)
                counts = [-(-total // batches) for batches in (longest, longest + 1)]
                counts += [min(full, total)] if (full := arrays.count(stage, other).most_copies(used)) else []
                if whole := problem.divided(stage, other):
                    counts = [max(d for d in divisors(whole) if d <= count) for count in counts]
                options += [(other, count) for count in counts]

        def size(option: tuple[Mode, int]) -> tuple[int, int]:
            # Of modes that take as many arrays, as in whole tiles, those that read fewer cost less energy.
            stored = arrays.count_stored(stage, option[0]).arrays(1)
            return problem.arrays_of_stage(stage, *option), stored * problem.time.total(stage, option[0])

        return sorted(dict.fromkeys(options), key=size)[: None if self._is_cheap else _OTHER_MODES]

    def seconds(self, found: Choice, current: Choice) -> float:
        """Return the work of timing an allocation near another one."""
        each = cost.NEIGHBOUR_STAGE if found.modes == current.modes else cost.NEIGHBOUR_BLOCK
        return each * len(found.copies)
