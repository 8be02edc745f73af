"""The lower side of `auto` over modes: targets refuted by priced paths, and branch and bound over modes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from rramalloc.search import cost
from rramalloc.search.bound.box_prover import FINEST
from rramalloc.search.bound.labels import TIGHT_ROUNDS, ModeBounder, Rows
from rramalloc.search.bound.places import Places
from rramalloc.search.bound.turns import ProofTurn
from rramalloc.search.menu import Menu
from rramalloc.search.problem import Choice, Problem
from rramalloc.search.work import Work

_NODE_ROUNDS = 2  # rounds of tightening at a node of branch and bound
_LEAF_WAYS = 64  # allocations of a box up to which each is timed
_FIRST_TARGET = 0.85  # of the makespan: the first target
_COARSE = 64  # parts of the makespan to which targets are bisected


@dataclass(eq=False)
class _Tightening:
    """A target whose rounds may be spread over turns. left: after the last round."""

    target: int
    rounds: Iterator[Rows | None]
    left: Rows | None

    def next_round(self) -> bool:
        """Go on with the next round; return False if there is none."""
        for left in self.rounds:
            self.left = left
            return True
        return False


@dataclass(eq=False)
class ModeProver:
    """The `LowerSide` of one problem with modes.

    _fine: whether targets get several rounds, as they do once one has resisted; _stride: between targets, in
    ticks; _grain: ticks above the bound that the next target branched on may have, twice as many after each
    that was refuted; _resisting: targets that resisted since `_fine`, of each of which `_rows` holds what is
    left; _open: boxes left of targets that are branched on; _doubted: those with a box of single modes that
    is neither refuted nor met; _under_way: the target whose rounds go on.
    """

    # In the same work the program proved 242, 150 and 464 steps of three networks, after labels 231, 142 and
    # 451.
    begins_with_program = True

    problem: Problem
    menu: Menu
    nodes: int = 0
    _found: list[Choice] = field(default_factory=list)
    _fine: bool = False
    _stride: int = 1
    _grain: int = 0
    _resisting: list[int] = field(default_factory=list)
    _under_way: _Tightening | None = None

    def __post_init__(self) -> None:
        self._bounder = ModeBounder(self.problem, self.menu)
        self._rows: dict[int, Rows] = {}
        self._open: dict[int, list[Rows]] = {}
        self._doubted: set[int] = set()

    @property
    def first_s(self) -> float:
        """Seconds that the first target takes at least, counted."""
        return self._bounder.label_all_s

    def exchange(self, program: Places, stop: Work) -> bool:
        """Leave both sides the modes that neither refutes of the program's target; False if none are left."""
        pairs = zip(self._known(program.target), program.entries, strict=True)
        self._rows[program.target] = tuple(np.intersect1d(own, left) for own, left in pairs)
        return program.keep_entries(self._rows[program.target])

    def root(self, known: int, makespan: int, stop: Work) -> tuple[int, tuple[Choice, ...]]:
        """Return the bound and no allocation: this side knows no other."""
        return known, ()

    def run(self, bound: int, makespan: int, seconds: float, left_s: float, stop: Work) -> ProofTurn:
        """Raise the bound, as `LowerSide.run`."""
        begun_s, self._found = stop.spent_s, []
        most_s = min(seconds, left_s)
        if self._under_way is not None and self._under_way.target >= makespan:
            self._under_way = None
        while bound < makespan and not stop.out_of_time and not self._found:
            spent = stop.spent_s - begun_s
            if spent >= most_s:
                break
            target = self._target(bound, makespan) if self._under_way is None else self._under_way.target
            if target is None:
                break
            if target in self._open:
                bound = max(bound, self._branch(target, most_s - spent, stop))
            else:
                bound = max(bound, self._tighten(target, stop))
        return ProofTurn(bound, tuple(self._found))

    def _tighten(self, target: int, stop: Work) -> int:
        """Run the next round of a target; return the lower bound, 0 while the rounds go on."""
        if self._under_way is None:
            self.nodes += 1
            rows, rounds = self._known(target), TIGHT_ROUNDS if self._fine else 1
            self._under_way = _Tightening(target, self._bounder.tightening(rows, target, stop, rounds), rows)
        more = self._under_way.next_round()
        return 0 if more else self._learn(self._under_way)

    def _learn(self, ended: _Tightening) -> int:
        """Return the bound that a target gives, 0 if it resists."""
        self._under_way, target = None, ended.target
        if ended.left is None:
            self._stride *= 2
            return target + 1
        self._rows[target] = ended.left
        self._resisting.append(target)
        return 0

    def _target(self, bound: int, makespan: int) -> int | None:
        """Return the next target between bound and incumbent.

        With few labels from the first target upwards until one resists, which bounds the rest; then in
        growing strides from that bound and by bisection; the bound itself is branched on.
        """
        if not self._fine and self._resisting:
            self._fine, self._stride, self._resisting = True, max(1, makespan // _COARSE), []
        resisting = [target for target in self._resisting if target >= bound]
        if not self._fine:
            wanted = int(_FIRST_TARGET * makespan)
            return wanted if wanted >= bound else (bound + makespan - 1) // 2
        if not resisting:
            return min(bound + self._stride, makespan - 1)
        if min(resisting) - bound > makespan // _COARSE:
            return (bound + min(resisting)) // 2
        grain = 0 if self.problem.time_unit == "steps" else max(self._grain, makespan // FINEST)
        target = min(bound + grain, makespan - 1)
        near = [known for known in resisting if known <= target]
        if not near:
            return target
        target = max(near)
        if target in self._doubted:
            return None
        self._open.setdefault(target, [self._rows[target]])
        return target

    def _known(self, target: int) -> Rows:
        above = [known for known in self._rows if known >= target]
        return self._rows[min(above)] if above else self._bounder.everything

    def _branch(self, target: int, seconds: float, stop: Work) -> int:
        """Go on with branch and bound of one target: the bound, 0 unless it is refuted.

        seconds: that it may take, about.
        """
        stack, begun_s = self._open[target], stop.spent_s
        while stack and (stop.spent_s - begun_s < seconds or stop.spent_s == begun_s) and not self._found:
            self.nodes += 1
            left = self._bounder.tighten(stack[-1], target, stop, _NODE_ROUNDS)
            stop.charge(cost.MODE_NODE * len(self.menu.stages))
            if stop.out_of_time:  # in the middle of it perhaps
                break
            stack.pop()
            if left is None:
                continue
            self._look(left, target)
            is_leaf = all(len(own) == 1 for own in left)
            if is_leaf and not self._found and not self._leaf(left, target):
                self._doubted.add(target)
            if self._found:  # the box stays open: it is no proof that nothing meets the target
                stack.append(left)
                break
            if not is_leaf:
                stack.extend(self._split(left))
        refuted = not stack and target not in self._doubted
        self._grain = 2 * max(self._grain, 1) if refuted else 0
        return target + 1 if refuted else 0

    def _look(self, rows: Rows, target: int) -> None:
        """Time the allocation of the cheapest modes of a box; one that meets the target is found."""
        blocks, copies = [], []
        for i, own in enumerate(rows):
            stage = self.menu.stages[i]
            priced = stage.priced(self.menu.axes, self.menu.prices)[own]
            row = int(own[np.lexsort((stage.length[own], priced))[0]])
            blocks.append(stage.mode(row))
            copies.append(int(stage.low[row]))
        found = self.problem.choice(np.array(copies, dtype=np.int64), tuple(blocks))
        if found.makespan <= target and self.problem.holds(found.copies, found.modes):
            self._found.append(found)

    def _leaf(self, rows: Rows, target: int) -> bool:
        """Return True if no copies of these single modes meet the target; else find copies that do."""
        every = [self.menu.stages[i] for i in range(len(rows))]
        blocks = tuple(own.mode(int(row[0])) for own, row in zip(self.menu.stages, rows, strict=True))
        ranges = [
            range(int(own.low[row[0]]), int(own.high[row[0]]) + 1)
            for own, row in zip(every, rows, strict=True)
        ]
        if math.prod(map(len, ranges)) > _LEAF_WAYS:
            return False
        for copies in product(*ranges):
            found = self.problem.choice(np.array(copies, dtype=np.int64), blocks)
            if found.makespan <= target and self.problem.holds(found.copies, found.modes):
                self._found.append(found)
                return True
        return True

    def _split(self, rows: Rows) -> list[Rows]:
        """Cut a box at the mean of the stage whose arrays, or amounts of an axis, are most undecided."""
        chosen, most, budget = -1, -1.0, self.problem.budget
        values = np.zeros(0, dtype=np.int64)
        for i, own in enumerate(rows):
            if len(own) < 2:
                continue
            stage = self.menu.stages[i]
            every = [(stage.arrays[own], 1.0)]
            every += [(stage.amounts(axis)[own], budget / max(axis.limit, 1)) for axis in self.menu.axes]
            for amounts, scale in every:
                spread = float(np.abs(amounts - amounts.mean()).mean())
                stake = scale * (spread + 1e-3 * float(np.ptp(amounts))) + 1e-6 * len(own)
                if stake > most:
                    chosen, most, values = i, stake, amounts
        own = rows[chosen]
        below = values <= values.mean()
        if below.all() or not below.any():
            order = np.lexsort((self.menu.stages[chosen].length[own], values))
            below = np.zeros(len(own), dtype=np.bool_)
            below[order[: len(own) // 2]] = True
        return [
            tuple(own[part] if i == chosen else other for i, other in enumerate(rows))
            for part in (~below, below)
        ]
