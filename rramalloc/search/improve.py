"""The upper side of `auto`: rebalancing, climbing, annealing and beams over a menu, all exactly timed.

Starts are rebalanced by the slack of every stage. Then the incumbent is shortened, whatever arrays that
takes, and changes of single stages save arrays as long as the shorter makespan holds, until the budget does.
Over modes, beams choose all stages anew for a shorter makespan, guided by each new incumbent.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from rramalloc.search import cost
from rramalloc.search.beam import BeamSearch, least_target
from rramalloc.search.kernels.beam import UNREACHED
from rramalloc.search.kernels.draws import generator
from rramalloc.search.kernels.moves import (
    ANNEAL,
    CLIMB,
    REBALANCE,
    SHORTEN,
    MenuTables,
    Run,
    Scratch,
    State,
    search,
)
from rramalloc.search.kernels.slots import NO_SLOTS, Slots
from rramalloc.search.menu import Menu
from rramalloc.search.problem import Choice, Problem
from rramalloc.search.work import Work

_COOLINGS = ((0.2, 0.05, 4000), (0.1, 0.02, 500), (0.05, 0.01, 1000))
"""Annealing runs, one after another: first and last temperature, as parts of the mean arrays of a stage, and
changes of every stage. Long hot runs suit deep networks, short and cold ones small budgets; a dozen others on
12 networks were up to 1 % slower."""
TARGET_REDUCTION = 0.02  # part of the makespan that a run tries to save: the first, and at most
LEAST_REDUCTION = 1e-4  # part of the makespan that a run tries to save at least, unless that is below a step
_LARGER_REDUCTION = 1.5  # factor of that part after a run that fits the budget
_SMALLER_REDUCTION = 0.5  # factor of that part after a run that does not
_WEIGHTS = (0.5, 0.25, 1.0)  # weights of the newest room in successive rebalancings
_ROUNDS = 30  # rounds of a rebalancing
_SPREADS = (0.0, 0.1, 0.3, 0.6)  # perturbation of a start: batches times 1 - spread ... 1 + spread
_SMALLEST_COUNT_S = 2e-4  # work charged for a trial at least
_REBALANCING = 0.25
"""Part of a turn for perturbed starts."""
_FEWEST_CHANGES = 200  # changes of an annealing run at least
_IDLE_S = 0.01  # work charged for a run that no copies can begin
_LONGEST_RUN_S = 1.0
"""Counted work of a climb or an annealing run at most, since neither looks at the clock."""
_LONGEST_BEAM_S = 2.0
"""Counted work of a beam at most, judged by the one before; 1 s leaves larger networks without beams."""
_NO_BUDGET = 2**60
_NEAR = (0.1, 0.3)
"""Greatest cost of the modes of beams above the cheapest: first, and once these miss the budget."""
_OVER_BUDGET = 0.05  # of the budget, by which a beam may pass it, to guide the next one
_BEAM_SHARE = 0.2  # of the work spent and planned, that one beam may take
_CLIMB_S = 0.02  # work of a part of a climb
_MOST_CLIMB_S = 0.5  # work of a climb
_BEAM_SMALLER_REDUCTION = 0.25  # as `_SMALLER_REDUCTION`, for beams


@dataclass(eq=False)
class _Beams:
    """Beams over modes for a shorter makespan than an incumbent's, until one step less misses the budget.

    target_reduction: part of the makespan that the next one is to save.
    """

    problem: Problem
    menu: Menu
    tables: MenuTables
    scratch: Scratch
    target_reduction: float = TARGET_REDUCTION
    _search: BeamSearch | None = None
    _incumbent: tuple[int, int] = (0, 0)
    _guide: Choice | None = None
    _step: int = 0
    _missed: bool = False
    _least: int = _NO_BUDGET

    def left_for(self, best: Choice, most_s: float) -> bool:
        """Return True if a beam for this incumbent is to be tried within the work left."""
        if best.key != self._incumbent:
            self._incumbent, self._guide, self._missed, self._least = best.key, None, False, _NO_BUDGET
        # The last beam failed at the least reduction: take dearer modes too, and begin anew.
        if self._missed and self._step + 1 < len(_NEAR):
            self._step, self._search, self._guide, self._missed = self._step + 1, None, None, False
            self.target_reduction = TARGET_REDUCTION
        return not self._missed and self.pays(best.makespan, most_s)

    def pays(self, longest: int, most_s: float) -> bool:
        """Return True if a beam is expected to take at most `most_s`; longest: no later target is longer."""
        return not self.problem.one_block and self._until(longest).expected_s <= most_s

    def next(self, best: Choice, enough: int, stop: Work) -> Choice | None:
        """Return a shorter allocation that may pass the budget a little, None if none is found."""
        budget, guide, last = self.problem.budget, self._guide or best, max(enough, best.makespan - 1)
        # A beam measures lateness from its guide, so it cannot aim further below it than it can measure.
        target = max(int(best.makespan * (1 - self.target_reduction)), least_target(guide.makespan), enough)
        target = min(target, last)
        trial = self.run(guide, target, int(budget * (1 + _OVER_BUDGET)), stop)
        if trial is not None and self.problem.holds(trial.copies, trial.modes):
            self.target_reduction = min(_LARGER_REDUCTION * self.target_reduction, TARGET_REDUCTION)
            return trial
        self.target_reduction = max(_BEAM_SMALLER_REDUCTION * self.target_reduction, LEAST_REDUCTION)
        self._missed = target == last and (trial is None or trial.arrays >= self._least)
        if trial is not None:
            self._guide, self._least = trial, min(self._least, trial.arrays)
        return trial

    def run(self, guide: Choice, target: int, most: int, stop: Work) -> Choice | None:
        """Return the fewest arrays found for a target, None if more than `most`."""
        state = self.menu.state(guide)
        arrays = self._until(target).run(state, target, most, stop)
        return self.menu.choice(self.problem, state) if arrays < UNREACHED else None

    def _until(self, longest: int) -> BeamSearch:
        """Return the search for targets that are no longer than the first one."""
        if self._search is None:
            edges, menu = self.problem.graph.flat_extents, self.menu
            self._search = BeamSearch(edges, menu, self.tables, self.scratch, longest, _NEAR[self._step])
        return self._search


@dataclass(eq=False)
class Improver:
    """Rebalances and anneals; what it draws goes on from turn to turn.

    slots: of an archive that keeps what is fastest for its number of arrays on the way, of copies alone;
    target_reduction: part of the makespan that the next run is to save; rebalancing: part of a turn for
    starts; plan_s: work spent and planned of the search that it belongs to.
    """

    problem: Problem
    menu: Menu
    seed: int
    slots: Slots = NO_SLOTS
    target_reduction: float = TARGET_REDUCTION
    rebalancing: float = _REBALANCING
    plan_s: float = 0.0
    _starts: deque[Callable[[Work], Choice]] = field(default_factory=deque)
    _runs: int = 0
    _beam_pace: float = math.inf
    _anneal_pace: float = math.inf

    def __post_init__(self) -> None:
        self._change_s = cost.CHANGE_OF_STAGE * len(self.problem.demand)
        self._rng = generator(self.seed)
        self._draw = np.random.Generator(np.random.PCG64(self.seed))
        staircases = (False, True) if self.menu.has_low_stairs else (False,)
        self._tables = [self.menu.tables(self.problem, self.slots, low=low) for low in staircases]
        self._edges = self.problem.graph.flat_extents
        self._scratch = Scratch.of(self._edges)
        self._beams = _Beams(self.problem, self.menu, self._tables[0], self._scratch)

    def begin_at(self, starts: Sequence[State], *, climbs: bool = False) -> None:
        """Set the first moves: rebalance these starts, then climb from the fewest arrays."""
        for tables in self._tables:
            for start in starts:
                self._starts.append(partial(self._rebalance, tables, start, _WEIGHTS[0]))
            if climbs:
                self._starts.append(partial(self._climb, tables, self.menu.smallest, _MOST_CLIMB_S))

    def run_starts(self, seconds: float, stop: Work) -> Iterator[Choice]:
        """Run the remaining starts of `begin_at` for about `seconds`, of which `stop` is charged.

        The caller may take what was charged meanwhile.
        """
        spent_s = 0.0
        while self._starts and spent_s < seconds and not stop.out_of_time:
            begun_s = stop.spent_s
            found = self._starts.popleft()(stop)
            spent_s += stop.spent_s - begun_s
            yield found

    def run(self, best: Choice, enough: int, seconds: float, stop: Work) -> Choice:
        """Return a better allocation or `best`; end early at `enough` steps. stop: is charged for it."""
        begun_s = stop.spent_s
        while (spent := stop.spent_s - begun_s) < seconds and best.makespan > enough and not stop.out_of_time:
            # Starts first: rebalancing from a perturbed allocation leaves the basin that annealing would stay
            # in.
            if spent < self.rebalancing * seconds:
                trial = self._starts.popleft()(stop) if self._starts else self._restart(best, stop)
            elif self._beam_pace >= self._anneal_pace and self._beams.left_for(
                best, min(_BEAM_SHARE * self.plan_s, _LONGEST_BEAM_S)
            ):
                trial = self._beam(best, enough, stop)
            else:
                trial = self._anneal(best, enough, seconds - spent, stop)
            stop.charge(_SMALLEST_COUNT_S)
            if trial.key < best.key and self.problem.holds(trial.copies, trial.modes):
                best = trial
        return best

    def fewer_arrays(self, found: Choice, target: int, enough: int, seconds: float, stop: Work) -> Choice:
        """Return an allocation with fewer arrays that meets a target, or `found`, which does.

        It ends early at `enough` arrays. stop: is charged for what is done.
        """
        begun_s, guided = stop.spent_s, 0
        while (spent := stop.spent_s - begun_s) < seconds and found.arrays > enough and not stop.out_of_time:
            if found.arrays != guided and self._beams.pays(target, min(seconds, _LONGEST_BEAM_S)):
                guided = found.arrays
                trial = self._beams.run(found, target, found.arrays - 1, stop) or found
            else:
                self._runs += 1
                current = self.menu.state(found)
                most_s = min(seconds - spent, _LONGEST_RUN_S)
                trial = self._save_arrays(current, target, enough, most_s, stop)
            stop.charge(_SMALLEST_COUNT_S)
            # A state that only stands for one outside of the menu may miss the target.
            fewer = trial.arrays < found.arrays and trial.makespan <= target
            if fewer and self.problem.holds(trial.copies, trial.modes):
                found = trial
        return found

    def _rebalance(self, tables: MenuTables, start: State, weight: float, stop: Work) -> Choice:
        """Return the best allocation on the way to a balance of all stages' slack."""
        best = _copy(start)
        run = Run(REBALANCE, rounds=_ROUNDS, weight=weight)
        self._search(tables, run, _copy(start), best, stop)
        return self.menu.choice(self.problem, best)

    def _climb(self, tables: MenuTables, current: State, left_s: float, stop: Work) -> Choice:
        """Return the best allocation on a part of a climb along critical chains; the next part is a start.

        left_s: of work for all parts.
        """
        best, most_s, begun_s = _copy(current), min(_CLIMB_S, left_s), stop.spent_s
        run = Run(CLIMB, most_work=int(most_s * 1e9 / cost.BATCH_NS))
        self._search(tables, run, current, best, stop)
        took_s = stop.spent_s - begun_s
        if most_s <= took_s < left_s:
            self._starts.append(partial(self._climb, tables, current, left_s - took_s))
        return self.menu.choice(self.problem, best)

    def _restart(self, near: Choice, stop: Work) -> Choice:
        """Run a rebalancing that starts near an allocation, on one of the staircases."""
        start, weight = self._perturbed(near), _WEIGHTS[int(self._draw.integers(len(_WEIGHTS)))]
        return self._rebalance(self._tables[int(self._draw.integers(len(self._tables)))], start, weight, stop)

    def _perturbed(self, start: Choice) -> State:
        """Return the cheapest modes for lengths of an allocation, each times a random factor."""
        spread = _SPREADS[int(self._draw.integers(len(_SPREADS)))]
        factors = 1 - spread + 2 * spread * self._draw.random(len(start.copies))
        length = self.problem.time.lengths(start.copies, start.modes)
        length = np.floor(length * factors + 0.5).astype(np.int64)
        return self.menu.with_length(np.maximum(length, 1))

    def _anneal(self, best: Choice, enough: int, seconds: float, stop: Work) -> Choice:
        """Shorten the best allocation whatever arrays that takes, and anneal them until they fit."""
        target = max(enough, min(best.makespan - 1, int(best.makespan * (1 - self.target_reduction))))
        found, current, begun_s = best, self.menu.state(best), stop.spent_s
        self._runs += 1
        seconds = min(seconds, _LONGEST_RUN_S)
        makespan = self._shorten(current, target, seconds, stop)
        # The target is met with too many arrays, and annealing now removes arrays while it stays met.
        if makespan <= target:
            trial = self._save_arrays(current, target, self.problem.budget, seconds, stop)
            if self.problem.holds(trial.copies, trial.modes):
                found = trial
        else:
            stop.charge(max(0.0, _IDLE_S - (stop.spent_s - begun_s)))
        target_reduction = self.target_reduction * (
            _SMALLER_REDUCTION if found is best else _LARGER_REDUCTION
        )
        self.target_reduction = min(max(target_reduction, LEAST_REDUCTION), TARGET_REDUCTION)
        self._anneal_pace = _pace(self._anneal_pace, best, found, stop.spent_s - begun_s)
        return found

    def _beam(self, best: Choice, enough: int, stop: Work) -> Choice:
        """Choose all stages anew for less time, and anneal the arrays if they pass the budget."""
        begun_s, trial = stop.spent_s, self._beams.next(best, enough, stop)
        if trial is not None and not self.problem.holds(trial.copies, trial.modes):
            self._runs += 1
            target, current = max(enough, best.makespan - 1), self.menu.state(trial)
            most_s = stop.spent_s - begun_s
            trial = self._save_arrays(current, target, self.problem.budget, most_s, stop)
        found = best if trial is None or not self.problem.holds(trial.copies, trial.modes) else trial
        self._beam_pace = _pace(self._beam_pace, best, found, stop.spent_s - begun_s)
        return found

    def _shorten(self, current: State, target: int, seconds: float, stop: Work) -> int:
        """Add arrays until a target is met: on critical chains in one run, on all stages in the next one.

        The first keeps more of the incumbent, the second leaves more to the annealing.
        """
        run = Run(SHORTEN, target)
        if self._runs % 2:
            run = Run(CLIMB, target, most_work=int(seconds * 1e9 / cost.BATCH_NS))
        tables = _with_budget(self._tables[0], _NO_BUDGET)
        return self._search(tables, run, current, _copy(current), stop)

    def _save_arrays(self, current: State, target: int, budget: int, seconds: float, stop: Work) -> Choice:
        """Anneal the arrays of a state that meets a target until they fit a budget."""
        stages, begun_s = len(current.copies), stop.spent_s
        hot, cold, changes = _COOLINGS[self._runs % len(_COOLINGS)]
        rounds = min(max(_FEWEST_CHANGES, int(seconds / self._change_s)), changes * stages)
        mean, fewest, tables = budget / stages, _copy(current), _with_budget(self._tables[0], budget)
        run = Run(ANNEAL, target, rounds, hot=hot * mean, cold=cold * mean)
        done = self._search(tables, run, current, fewest, stop)
        self._change_s = (stop.spent_s - begun_s) / max(1, done)
        return self.menu.choice(self.problem, fewest)

    def _search(self, tables: MenuTables, run: Run, current: State, best: State, stop: Work) -> int:
        """Run a compiled search: makespan, or changes tried."""
        result, spent_ns = search(self._edges, tables, run, self._rng, current, best, self._scratch)
        stop.charge(1e-9 * spent_ns)
        return result


def _with_budget(tables: MenuTables, budget: int) -> MenuTables:
    """Return the tables with another budget of cost; prices add as much to it as before."""
    axes = tables.axes
    if not len(axes.limit):
        return tables._replace(budget=budget)
    limits = np.array([budget, *axes.limit[1:]], dtype=np.int64)
    most = budget + tables.priced_above_cost
    return tables._replace(budget=most, axes=axes._replace(limit=limits))


def _pace(before: float, best: Choice, trial: Choice, seconds: float) -> float:
    """Return the makespan saved in a second over the last runs, infinite before the first."""
    saved = (best.makespan - trial.makespan) / (seconds + _SMALLEST_COUNT_S)
    return saved if before == math.inf else (before + saved) / 2


def _copy(state: State) -> State:
    return State(state.block.copy(), state.copies.copy())
