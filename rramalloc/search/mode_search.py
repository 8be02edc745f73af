"""`auto` over modes: a block and copies for every stage, with a lower bound over all modes.

Of the two sides (turns.py) one anneals the arrays that shorter makespans take until they fit the budget, the
other refutes targets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product

import numpy as np
from typing_extensions import override

from rramalloc.search import auto
from rramalloc.search.kernels.anneal import Cooling, generator
from rramalloc.search.kernels.mode_moves import (
    MenuTables,
    State,
    anneal_arrays,
    grow_modes,
    rebalance_modes,
    shorten,
)
from rramalloc.search.menu import Menu
from rramalloc.search.mode_bound import TIGHT_ROUNDS, Left, ModeBounder, Rows
from rramalloc.search.problem import SECONDS_PER_WORK, Blocks, Candidate, Problem, Stop
from rramalloc.search.prove import FINEST, Prover
from rramalloc.search.turns import ProofTurn, TimedAllocation, TwoSidedSearch
from rramalloc.timing.kernel import NEXT_STEP, Shapes, batch_starts
from rramalloc.timing.simulate import Replication

_FIRST_TURN_S = 0.05
_NS_PER_BATCH = 4.0
"""Of a batch timed: a count of work, not a clock."""
_COOLINGS = ((0.2, 0.05, 4000), (0.1, 0.02, 500), (0.05, 0.01, 1000))
"""Annealing runs in turn: first and last temperature, as parts of the mean arrays of a stage, and changes of
every stage. Long hot runs suit deep networks, short and cold ones small budgets; a dozen others on 12
networks were up to 1 % slower."""
_AMBITION, _LEAST_AMBITION = 0.02, 1e-4
"""Part of the makespan that a run saves at most, and at least unless that is a step."""
_WEIGHTS, _ROUNDS = (0.5, 0.25, 1.0), 30
"""Weights of the newest room in successive rebalancings, and their rounds."""
_SPREADS, _SMALLEST_COUNT_S = (0.0, 0.1, 0.3, 0.6), 2e-4
"""How far a start is perturbed: batches times 1 - spread ... 1 + spread; least time of a trial."""
_REBALANCING = 0.25
"""Part of a turn for perturbed starts."""
_FEWEST_CHANGES, _NS_PER_STAGE, _IDLE_S = 200, 50.0, 0.01
"""Changes of an annealing run at least; what one takes for each stage, until runs tell; and what counts for a
run that no copies can begin."""
_CLIMB_SHARE = 0.1
"""Part of the work that the climb from the fewest arrays may take."""
_STALLED, _STALLED_CHAIN, _STALLED_TURNS = 1.2, 0.15, 2
"""The search ends when so much of the work allowed has closed too little of the gap: networks with branches,
and chains; and so many turns as long as the last one at least."""
_MODES, _MODES_CHAIN, _PLAIN, _PLAIN_CHAIN = 2.0, 0.3, 0.2, 0.04
"""Parts of the work allowed, of networks with branches and of chains, whose bounds close early or never: for
modes, and for the search without modes that comes before."""
_PROGRESS = 1 / 6
"""Part of the gap that a higher bound must close to count as progress."""
_OVERTIME_S = 2.0
"""What the last target may take beyond the work allowed before its rounds end early."""
_NODE_ROUNDS, _LEAF_WAYS = 2, 64
_FIRST_TARGET, _COARSE = 0.85, 64
"""Part of the makespan that is the first target, and parts of it to which targets are bisected."""


def solve(problem: Problem, stop: Stop, seed: int, target: int = 0, menu: Menu | None = None) -> Candidate:
    """Minimise the exact makespan over all modes; ends early once an allocation takes at most `target` steps.

    menu: the modes that are allowed, all of them if left out. Source: docs/sources/model.md 10.
    """
    search = ModeSearch(problem, stop, seed, target, menu or Menu.of(problem))
    search.run()
    best = search.trimmed()
    return Candidate(
        best.copies, search.bound, search.words(), search.spent_s + search.plain_s, blocks=best.blocks
    )


@dataclass(eq=False)
class ModeSearch(TwoSidedSearch):
    """The search for modes from a menu."""

    menu: Menu
    plain_s: float = 0.0
    _improved_s: float = 0.0
    _improved_bound: int = 1
    _turn_s: float = 0.0
    _first_proof_s: float = 0.0

    def __post_init__(self) -> None:
        self.timer = Timer(self.problem, self.menu)
        self.improver = self._modes = ModeImprover(self.problem, self.menu, self.timer, self.seed)
        of_copies = self.problem.modes is None and self.menu.unrestricted
        if of_copies:
            self.prover = Prover(self.problem)
        else:
            self.prover = prover = ModeProver(self.problem, self.menu, self.timer)
            self._first_proof_s = prover.first_s

    def run(self) -> None:
        """Start with the cheapest modes, the search without modes and climbs, then take turns."""
        steps = self.menu.least_interval(lambda _, arrays: arrays <= self.problem.budget)
        even, _ = self.menu.cheapest(steps)
        self.best, self.bound = self.timer.allocation(even), steps
        if not self.fits(self.best):
            self.best = self.timer.allocation(self._smallest())
        self._try_plain()
        starts = []
        for tables in self._modes.tables:
            starts.append(self._modes.climb(tables, self._smallest(), _CLIMB_SHARE * self.allowed_s))
            starts += [self._modes.rebalance(tables, even, weight) for weight in _WEIGHTS]
        for found, seconds in starts:
            self.spent_s += seconds
            self.keep(found)
        self.report()
        self._improved_s = self.spent_s
        self.take_turns(_FIRST_TURN_S)

    @override
    def begin_turn(self, turn_s: float, proof_s: float) -> tuple[float, float]:
        """The improver works as long as a proof that took longer than its turn."""
        proof_s = max(proof_s, self._first_proof_s)
        self._first_proof_s = 0.0
        left_s = self.allowed_s - self.spent_s - proof_s
        return max(turn_s, min(proof_s, left_s + _OVERTIME_S)), left_s

    @override
    def end_turn(self, improved: TimedAllocation, proved: ProofTurn, seconds: float) -> None:
        super().end_turn(improved, proved, seconds)
        self._turn_s = seconds
        gap = self.best.makespan - self._improved_bound
        if self.bound - self._improved_bound >= _PROGRESS * gap > 0:
            self._improved_s, self._improved_bound = self.spent_s, self.bound

    @override
    def keep(self, found: TimedAllocation) -> None:
        before = self.best.makespan
        super().keep(found)
        if self.best.makespan < before:
            self._improved_s = self.spent_s

    def _try_plain(self) -> None:
        """Begin with the answer of the same search without modes, so that modes never make it slower.

        Block and copies of that answer are in every menu. Its work is not taken from that for modes.
        """
        if self.menu.unrestricted and self.problem.modes is not None:
            work = max(1, round((_PLAIN if self._branches else _PLAIN_CHAIN) * self.stop.work))
            alone = replace(self.stop, work=work, on_progress=None, history=[])
            search = auto.solve_to_target if self.problem.graph.clocks is None else solve
            plain = search(replace(self.problem, modes=None), alone, self.seed, self.target)
            self.plain_s = plain.seconds or 0.0
            self.keep(self.timer.of_blocks(self.problem.graph.blocks, plain.replication))

    def _smallest(self) -> State:
        return self.menu.cheapest(2**60)[0]

    @cached_property
    def _branches(self) -> bool:
        return len(self.problem.graph.edges) >= len(self.problem.demand)

    @cached_property
    def _share(self) -> float:
        """Part of the work allowed that is for modes."""
        if self.problem.modes is None:
            return 1.0
        return _MODES if self._branches else _MODES_CHAIN

    @property
    @override
    def allowed_s(self) -> float:
        return self._share * self.stop.work * SECONDS_PER_WORK

    @property
    def _stalled(self) -> bool:
        if self.problem.modes is None:
            return False
        share = _STALLED if self._branches else _STALLED_CHAIN
        least_s = max(share * self.stop.work * SECONDS_PER_WORK, _STALLED_TURNS * self._turn_s)
        return self.spent_s - self._improved_s >= least_s

    @override
    def done(self) -> bool:
        spent_s = self.spent_s / self._share
        return self._stalled or self.stop.ends(self.best.makespan, self.bound, self.target, spent_s)

    def words(self) -> str:
        """What the bound rests on, and why the search ended."""
        why = self.stop.reason(self.best.makespan, self.bound) or (
            "bounded, stopped when more work brought hardly more"
            if self._stalled
            else "bounded, stopped after the work allowed"
        )
        over = "copies in their own clocks" if self.problem.modes is None else "modes"
        return f"{why}: branch and bound over {over}, {self.prover.nodes} nodes"

    def trimmed(self) -> TimedAllocation:
        """The best allocation with arrays taken away stage by stage as long as the makespan does not grow."""
        best = self.best
        order = np.argsort(-self.problem.arrays_of_stages(best.copies, best.blocks), kind="stable")
        for stage in order.tolist():
            for cheaper in self.menu.cheaper(stage, best.blocks[stage], int(best.copies[stage])):
                blocks, copies = list(best.blocks), best.copies.copy()
                blocks[stage], copies[stage] = cheaper
                trial = self.timer.of_blocks(tuple(blocks), copies)
                if trial.makespan > best.makespan or trial.arrays >= best.arrays or not self.fits(trial):
                    break
                best = trial
        return best


@dataclass(eq=False)
class Timer:
    """Exact timing of modes of one problem."""

    problem: Problem
    menu: Menu

    def __post_init__(self) -> None:
        grids = self.problem.graph.grids
        dtype = np.int32 if self.problem.graph.clocks is None else np.int64
        self._starts = np.empty(sum(grid.height * grid.width for grid in grids), dtype=dtype)
        self._first = np.empty(len(grids) + 1, dtype=np.int64)

    def allocation(self, state: State) -> TimedAllocation:
        """The allocation of a state of the search."""
        return self.of_blocks(self.menu.blocks_of(state), state.copies.copy())

    def of_blocks(self, blocks: Blocks, copies: Replication) -> TimedAllocation:
        """An allocation with its makespan and arrays."""
        graph = self.problem.graph
        shapes = Shapes.of(tuple(grid.recut(block) for grid, block in zip(graph.grids, blocks, strict=True)))
        starts, first = self._starts.copy(), self._first.copy()  # both sides of a search may ask at once
        ticks = graph.batch_ticks(copies, blocks)
        makespan = int(batch_starts(graph.flat_extents, shapes, ticks, copies, NEXT_STEP, starts, first))
        return TimedAllocation(blocks, copies, makespan, self.problem.arrays(copies, blocks))


@dataclass(eq=False)
class ModeImprover:
    """Rebalances and anneals; what it draws goes on from turn to turn."""

    problem: Problem
    menu: Menu
    timer: Timer
    seed: int
    _runs: int = 0
    _ambition: float = _AMBITION

    def __post_init__(self) -> None:
        self._change_s = 1e-9 * _NS_PER_STAGE * len(self.problem.demand)
        self._rng = generator(self.seed)
        self._draw = np.random.Generator(np.random.PCG64(self.seed))
        self.tables = [self.menu.tables(self.problem.budget, low=low) for low in (False, True)]
        self._edges = self.problem.graph.flat_extents

    def rebalance(self, tables: MenuTables, start: State, weight: float) -> tuple[TimedAllocation, float]:
        """The best allocation on the way to a balance of all stages' slack, and the seconds counted."""
        current = State(start.block.copy(), start.copies.copy())
        best = State(start.block.copy(), start.copies.copy())
        _, batches = rebalance_modes(self._edges, tables, _ROUNDS, weight, current, best)
        return self.timer.allocation(best), 1e-9 * _NS_PER_BATCH * batches

    def climb(self, tables: MenuTables, start: State, seconds: float) -> tuple[TimedAllocation, float]:
        """The best allocation on a climb along critical chains, and the seconds counted."""
        current = State(start.block.copy(), start.copies.copy())
        best = State(start.block.copy(), start.copies.copy())
        most = int(seconds * 1e9 / _NS_PER_BATCH)
        _, batches = grow_modes(self._edges, tables, current, best, most)
        return self.timer.allocation(best), 1e-9 * _NS_PER_BATCH * batches

    def run(
        self, best: TimedAllocation, enough: int, seconds: float, stop: Stop
    ) -> tuple[TimedAllocation, float]:
        """A better allocation or `best`, and the seconds counted: perturb and rebalance, then anneal."""
        spent, found = 0.0, best
        while spent < _REBALANCING * seconds and found.makespan > enough and not stop.out_of_time:
            trial, took = self._restart(found)
            spent += took + _SMALLEST_COUNT_S
            if trial.key < found.key and self.problem.holds(trial.copies, trial.blocks):
                found = trial
        while spent < seconds and found.makespan > enough and not stop.out_of_time:
            trial, took = self._anneal(found, enough, seconds - spent)
            spent += took + _SMALLEST_COUNT_S
            if trial.key < found.key and self.problem.holds(trial.copies, trial.blocks):
                found = trial
        return found, spent

    def _restart(self, near: TimedAllocation) -> tuple[TimedAllocation, float]:
        """Rebalance from near an allocation, on the staircases of all blocks or of the lowest."""
        start, weight = self._perturbed(near), _WEIGHTS[int(self._draw.integers(len(_WEIGHTS)))]
        return self.rebalance(self.tables[int(self._draw.integers(2))], start, weight)

    def _perturbed(self, start: TimedAllocation) -> State:
        """The cheapest modes for lengths near those of an allocation, each changed by a random factor."""
        spread = _SPREADS[int(self._draw.integers(len(_SPREADS)))]
        factors = 1 - spread + 2 * spread * self._draw.random(len(start.copies))
        grids = zip(self.problem.graph.grids, start.blocks, strict=True)
        totals = np.array([grid.recut(block).total for grid, block in grids], dtype=np.int64)
        ticks = self.problem.graph.batch_ticks(start.copies, start.blocks)
        length = -(-totals // start.copies) * (1 if ticks is None else ticks)
        length = np.floor(length * factors + 0.5).astype(np.int64)
        return self.menu.with_length(np.maximum(length, 1))

    def _anneal(self, best: TimedAllocation, enough: int, seconds: float) -> tuple[TimedAllocation, float]:
        """Shorten the best allocation whatever arrays that takes, and anneal them until they fit."""
        target = max(enough, min(best.makespan - 1, int(best.makespan * (1 - self._ambition))))
        current = self.menu.state(best.blocks, best.copies)
        makespan, shorten_ns = shorten(self._edges, self.tables[0], target, current)
        if makespan > target:
            self._ambition = max(self._ambition / 2, _LEAST_AMBITION)
            return best, _IDLE_S
        hot, cold, changes = _COOLINGS[self._runs % len(_COOLINGS)]
        self._runs += 1
        mean = self.problem.budget / len(current.copies)
        rounds = min(max(_FEWEST_CHANGES, int(seconds / self._change_s)), changes * len(current.copies))
        fewest = State(current.block.copy(), current.copies.copy())
        cooling = Cooling(rounds, hot * mean, cold * mean, target)
        anneal_ns = anneal_arrays(self._edges, self.tables[0], cooling, self._rng, current, fewest)
        self._change_s = 1e-9 * anneal_ns / rounds
        found = self.timer.allocation(fewest)
        fits = found.arrays <= self.problem.budget
        wanted = self._ambition * (1.5 if fits else 0.5)
        self._ambition = min(max(wanted, _LEAST_AMBITION), _AMBITION)
        return (found if fits else best), 1e-9 * (shorten_ns + anneal_ns)


@dataclass(eq=False)
class _Tightening:
    """A target whose rounds may be spread over turns. left: after the last round; round_s: its seconds."""

    target: int
    rounds: Iterator[Left]
    left: Left = field(init=False)
    round_s: float = 0.0

    def next_round(self) -> Left | None:
        """Another round, None after the last one."""
        left = next(self.rounds, None)
        if left is not None:
            self.left, self.round_s = left, left.seconds
        return left


@dataclass(eq=False)
class ModeProver:
    """The `LowerSide` of one problem with modes."""

    problem: Problem
    menu: Menu
    timer: Timer
    nodes: int = 0
    _found: list[TimedAllocation] = field(default_factory=list)
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

    def run(self, bound: int, makespan: int, seconds: float, left_s: float, stop: Stop) -> ProofTurn:
        """As `LowerSide.run`."""
        spent, self._found = 0.0, []
        most_s = min(seconds, left_s)
        if self._under_way is not None and self._under_way.target >= makespan:
            self._under_way = None
        while bound < makespan and not stop.out_of_time and not self._found:
            if spent >= most_s and not self._last_turn(left_s - spent):
                break
            target = self._target(bound, makespan) if self._under_way is None else self._under_way.target
            if target is None:
                break
            if target in self._open:
                reached, took = self._branch(target, most_s - spent)
            else:
                reached, took = self._tighten(target)
            bound, spent = max(bound, reached), spent + took
        if self._under_way is not None and spent - left_s >= _OVERTIME_S:
            bound = max(bound, self._learn(self._under_way))
        return ProofTurn(bound, tuple(self._found), spent)

    def _last_turn(self, left_s: float) -> bool:
        """Whether a target is under way that no other turn has time for: its rounds end in this one."""
        return self._under_way is not None and -_OVERTIME_S < left_s < self._under_way.round_s

    def _tighten(self, target: int) -> tuple[int, float]:
        """Another round of a target, or the first one: (bound, 0 before its end, seconds counted)."""
        if self._under_way is None:
            self.nodes += 1
            rounds = self._bounder.tightening(self._known(target), target, TIGHT_ROUNDS if self._fine else 1)
            self._under_way = _Tightening(target, rounds)
        left = self._under_way.next_round()
        return (self._learn(self._under_way), 0.0) if left is None else (0, left.seconds)

    def _learn(self, ended: _Tightening) -> int:
        """The bound that a target gives: above it, or where it resists that of what is left."""
        self._under_way, target, left = None, ended.target, ended.left
        if left.rows is None:
            self._stride *= 2
            return target + 1
        self._rows[target] = left.rows
        self._resisting.append(target)
        return min(target, math.ceil(left.bound))

    def _target(self, bound: int, makespan: int) -> int | None:
        """The next target between bound and incumbent.

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
        grain = 0 if self.problem.graph.clocks is None else max(self._grain, makespan // FINEST)
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

    def _branch(self, target: int, seconds: float) -> tuple[int, float]:
        """Go on with branch and bound of one target: (bound, 0 unless it is refuted, seconds counted).

        seconds: that it may take, about.
        """
        stack, spent = self._open[target], 0.0
        while stack and (spent < seconds or spent == 0.0) and not self._found:
            self.nodes += 1
            left = self._bounder.tighten(stack.pop(), target, _NODE_ROUNDS)
            spent += left.seconds + 1e-4
            if left.rows is None:
                continue
            self._look(left.rows, target)
            if self._found:
                stack.append(left.rows)
                break
            if all(len(own) == 1 for own in left.rows):
                if not self._leaf(left.rows, target):
                    self._doubted.add(target)
            else:
                stack.extend(self._split(left))
        refuted = not stack and target not in self._doubted
        self._grain = 2 * max(self._grain, 1) if refuted else 0
        return target + 1 if refuted else 0, spent

    def _look(self, rows: Rows, target: int) -> None:
        """Time the allocation of the cheapest modes of a box; one that meets the target is found."""
        blocks, copies = [], []
        for i, own in enumerate(rows):
            modes = self.menu.stages[i].modes
            row = int(own[np.lexsort((modes.length[own], modes.arrays[own]))[0]])
            blocks.append((int(modes.tall[row]), int(modes.wide[row])))
            copies.append(int(modes.low[row]))
        found = self.timer.of_blocks(tuple(blocks), np.array(copies, dtype=np.int64))
        if found.makespan <= target and self.problem.holds(found.copies, found.blocks):
            self._found.append(found)

    def _leaf(self, rows: Rows, target: int) -> bool:
        """Whether no copies of these single modes meet the target; one that does is found."""
        modes = [self.menu.stages[i].modes for i in range(len(rows))]
        blocks = tuple(
            (int(own.tall[row[0]]), int(own.wide[row[0]])) for own, row in zip(modes, rows, strict=True)
        )
        ranges = [
            range(int(own.low[row[0]]), int(own.high[row[0]]) + 1)
            for own, row in zip(modes, rows, strict=True)
        ]
        if math.prod(map(len, ranges)) > _LEAF_WAYS:
            return False
        for copies in product(*ranges):
            found = self.timer.of_blocks(blocks, np.array(copies, dtype=np.int64))
            if found.makespan <= target and found.arrays <= self.problem.budget:
                if not self.problem.holds(found.copies, found.blocks):
                    return False
                self._found.append(found)
                return True
        return True

    def _split(self, left: Left) -> list[Rows]:
        """Cut a box at the weighted mean arrays of the stage whose arrays are most undecided."""
        rows, labelling, weights = left.rows, left.labelling, left.weights
        if rows is None or labelling is None or weights is None:
            return []
        chosen, most, cut = -1, -1.0, 0.0
        for i, own in enumerate(rows):
            if len(own) < 2:
                continue
            size = int(labelling.modes.size[i])
            arrays, weight = labelling.arrays[i, :size].astype(np.float64), weights[i, :size]
            mean = float((arrays * weight).sum())
            spread = float((np.abs(arrays - mean) * weight).sum())
            stake = spread + 1e-3 * float(np.ptp(self.menu.stages[i].modes.arrays[own])) + 1e-6 * len(own)
            if stake > most:
                chosen, most, cut = i, stake, mean
        modes, own = self.menu.stages[chosen].modes, rows[chosen]
        arrays_of = modes.arrays[own]
        below = arrays_of <= cut
        if below.all() or not below.any():
            order = np.lexsort((modes.length[own], arrays_of))
            below = np.zeros(len(own), dtype=np.bool_)
            below[order[: len(own) // 2]] = True
        return [
            tuple(own[part] if i == chosen else other for i, other in enumerate(rows))
            for part in (~below, below)
        ]
