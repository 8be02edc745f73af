"""`auto`: best makespan under exact timing with a proven bound, improving until proof or end of work.

Over copies, and with mapping `sdk` over blocks and copies, both from a menu: a branch and bound with a primal
heuristic. The heuristic (improve.py) looks for faster allocations, the dual side (bound/) raises the lower
bound; where incumbent and bound meet, the incumbent is optimal. It begins with what one-pass methods propose
(methods/one_pass.py). What a turn does follows from the work spent so far, never from the work allowed, which
only ends the search: so a longer search begins as a shorter one, and its answer is never worse. It departs
from the textbook (Land, Doig, *Econometrica* 28(3), 1960) in five places, which comments number below.

1. The two sides take turns of counted work, or work side by side where there are two cores. Neither sees
   anything of the other's turn, so that the answer is the same on one core and on two.
2. The dual side asks whether a target makespan can be met at all, and raises the bound where it is refuted
   (destructive improvement: Klein, Scholl, *European Journal of Operational Research* 112, 1999).
3. Searches of parts of the problem (one kind of arrays, copies alone) go along, beyond the work allowed:
   more freedom never makes an answer slower.
4. Over modes a search ends where more work has closed too little of the gap, and every search where bound
   and answer stand still.
5. At a proven makespan fewer arrays are sought.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from rramalloc.errors import BudgetError
from rramalloc.search.bound.provers import has_boxes, prover_of
from rramalloc.search.bound.turns import LowerSide
from rramalloc.search.cores import cores
from rramalloc.search.improve import Improver
from rramalloc.search.kernels.slots import NO_SLOTS, Slots
from rramalloc.search.kind_starts import kind_starts
from rramalloc.search.menu import Menu, copies_alone, on_each_kind
from rramalloc.search.problem import Answer, Choice, Problem
from rramalloc.search.resources import Cost
from rramalloc.search.ties import lower_budgets, trim, with_fewest_arrays
from rramalloc.search.work import REASONS, Work, planned_s
from rramalloc.status import Stopped
from rramalloc.timing.simulate import Copies

_FIRST_TURN_S = 0.02  # length of the first turn: short, since both sides improve fast at first
_GROWTH = 1.5  # ratio of successive turns
_LEAST_S = 0.1  # work of turns that first bounds leave to a search, whatever they took
_LONGEST_TURN_S = 0.5  # longest turn, unless a proof takes longer
_FIRST_PART_S = 0.05
"""Work of a search of copies alone before that over modes begins."""
_STARTS_S = 0.2  # most work of the starts of a search over modes before its first turn
_MOST_WORK = 2**40  # units of the search of a part, which goes as far as the whole one
_STALLED_TURNS = 2  # times the last turn: least work that must close too little before a search ends so
_STILL_S = 10.0  # counted work without a better bound or answer until a search ends: twice the default work
_STILL = 3.0  # the same as a multiple of the work until then: proofs of single targets take longer and longer
_PROGRESS = 1 / 6
"""Part of the gap that a higher bound must close to count as progress."""


class _Schedule(NamedTuple):
    """Division of the work between the parts of a search.

    share: what the search may take, as a part of the work allowed; plain: what the search of copies alone
    beside it takes, as a part of the work of the search; stalled: what may close too little of the gap until
    the search ends, as a part of the work allowed, None if it does not end so. over: what is branched on, in
    words.
    """

    share: float
    plain: float
    stalled: float | None
    over: str

    @classmethod
    def of(cls, problem: Problem) -> _Schedule:
        """Return the schedule of a search over copies alone, or over modes of a chain or a network."""
        if problem.one_block:
            clocks = problem.time_unit == "ticks"
            return _COPIES._replace(over="copies in their own clocks") if clocks else _COPIES
        return _BRANCHES if len(problem.graph.edges) >= len(problem.demand) else _CHAIN


_COPIES = _Schedule(share=1.0, plain=0.0, stalled=None, over="exact timing")
_BRANCHES = _Schedule(share=2.0, plain=0.1, stalled=1.2, over="modes")
"""Bounds over modes of networks with branches rise late, so the search gets twice the work."""
_CHAIN = _Schedule(share=0.3, plain=0.13, stalled=0.15, over="modes")
"""Bounds over modes of chains close early or never, so their search gets less."""


@dataclass(frozen=True, slots=True, eq=False)
class WarmStart:
    """Begin of a search: an allocation that fits, and a lower bound.

    slots: of an archive that keeps what is fastest for its number of arrays on the way.
    """

    copies: Copies | None = None
    lower_bound: int = 1
    slots: Slots = NO_SLOTS


COLD_START = WarmStart()
_TIE_S = 0.5
"""Most counted seconds of searches for fewer arrays over modes, where none is sure of a proof."""
_TIE_WORK = 4  # units of one of these searches


def solve(
    problem: Problem, stop: Work, seed: int, *, every: Callable[[Choice], object] | None = None
) -> Answer:
    """Minimise the exact makespan. Same problem, work, gap and seed give the same answer.

    every: called with each incumbent. Source: docs/sources/model.md 4, 6, 8 and 10; bounds as in bound/ and
    kernels/.
    """
    return solve_to_target(problem, stop, seed, 0, every=every)


def solve_to_target(
    problem: Problem,
    stop: Work,
    seed: int,
    target: int,
    *,
    menu: Menu | None = None,
    warm_start: WarmStart = COLD_START,
    every: Callable[[Choice], object] | None = None,
) -> Answer:
    """Solve until an allocation takes at most `target` steps or none can be as fast; 0: no target.

    menu: the modes that are allowed, all of them if left out; every: called with each incumbent.
    """
    search = AutoSearch(problem, stop, seed, target, menu or Menu.of(problem, stop), warm_start, every)
    state = search.run()
    best, proof = state.best, search.proof(state)
    # Departure 5. Boxes prove the fewest arrays themselves; of modes `solve_with_ties` seeks them.
    if (
        search.schedule.stalled is None
        and target == 0
        and state.bound >= best.makespan
        and not stop.out_of_time
    ):
        best, proven = with_fewest_arrays(problem, search.menu, best, stop)
        proof += "; no other is as fast with fewer arrays" if proven else ""
    else:
        best = trim(problem, search.menu, best, stop)
    return Answer(best, state.bound, proof)


def solve_with_ties(problem: Problem, stop: Work, seed: int) -> Answer:
    """Minimise the makespan, and of modes, too, the arrays at a proven makespan (docs/sources/model.md 8)."""
    answer = solve(problem, stop, seed)
    if has_boxes(problem) or answer.lower_bound < answer.choice.makespan:
        return answer  # boxes have their own proof of the fewest arrays

    def attempt(best: Choice, left_s: float) -> tuple[Choice | None, bool]:
        if left_s <= 0.0:
            return None, False
        share = stop.nested(_TIE_WORK)
        try:
            trial = solve_to_target(
                replace(problem, budget=Cost(best.arrays - 1)), share, seed, best.makespan
            )
        except BudgetError:  # no allocation has so few arrays
            return None, True
        finally:
            stop.charge(share.spent_s)
        if trial.choice.makespan > best.makespan:
            return None, trial.lower_bound > best.makespan
        return trial.choice, False

    best, proven = lower_budgets(answer.choice, problem.minimum, stop, _TIE_S, attempt)
    words = "; no other is as fast with fewer arrays" if proven else ""
    return replace(answer, choice=best, proof=answer.proof + words)


@dataclass(slots=True, eq=False)
class SearchState:
    """Incumbent and lower bound of a search, its progress, and the length of its turns.

    improving, proving: accounts of the two sides, which keep them from turn to turn; begun_s: work charged
    when the search began, with that of the searches of parts since; init_s: its work before the first turn;
    progress_s, progress_bound: its work and its bound at the last progress; turn_length_s: of the next turn;
    proof_s: work of the last proof turn; last_turn_s: of both sides in it; nodes: of branch and bound; parts:
    searches that go along.
    """

    best: Choice
    bound: int
    improving: Work
    proving: Work
    begun_s: float
    init_s: float = 0.0
    progress_s: float = 0.0
    progress_bound: int = 1
    turn_length_s: float = _FIRST_TURN_S
    proof_s: float = 0.0
    last_turn_s: float = 0.0
    nodes: int = 0
    parts: list[_Part] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Part:
    """The search of a part of a problem, which has `first_s` of work and `share` of that of the whole one."""

    search: AutoSearch
    share: float
    first_s: float
    charged_s: float = 0.0
    _state: SearchState | None = None

    def advance(self, spent_s: float, pool: ThreadPoolExecutor | None) -> Choice:
        """Begin, or take turns until its share of the work is spent; return the best allocation so far."""
        search = self.search
        state = self._state = self._state or search.init()
        while search.stop.spent_s < self.first_s + self.share * spent_s and not search.terminate(state):
            search.step(state, pool)
        return state.best


@dataclass(eq=False)
class AutoSearch:
    """The search of one problem, as init, step and terminate over a `SearchState`.

    target: a makespan that is good enough, 0 for none; stop: is charged for all that is done; every: called
    with each incumbent.
    """

    problem: Problem
    stop: Work
    seed: int
    target: int
    menu: Menu
    warm_start: WarmStart = COLD_START
    every: Callable[[Choice], object] | None = None

    def run(self) -> SearchState:
        """Start with the smallest interval, then take turns."""
        state = self.init()
        with ThreadPoolExecutor(1) if cores(self.stop.cores) > 1 else nullcontext() as pool:
            while not self.terminate(state):
                self.step(state, pool)
        self.stop.is_exhausted = self._stands_still(state)
        return state

    def init(self) -> SearchState:
        """Return the state after first allocations and bounds, or only allocations if the time is up."""
        problem, menu, stop = self.problem, self.menu, self.stop
        interval = menu.smallest_interval(problem, stop)
        bound = max(self.warm_start.lower_bound, interval)
        accounts = stop.nested(stop.work), stop.nested(stop.work)
        state = SearchState(menu.choice(problem, menu.smallest), bound, *accounts, stop.spent_s)
        starts = [menu.cheapest(interval)[0]]
        if self.warm_start.copies is not None:
            starts.append(menu.state(problem.choice(self.warm_start.copies)))
        for found in kind_starts(problem, stop):
            self._update(state, found)
            starts.append(menu.state(found))
        for start in starts:
            self._update(state, menu.choice(problem, start))
        proposed, quickest = problem.starts(stop), state.best
        for found in proposed:
            self._update(state, found)
        if state.best is not quickest:
            starts.append(menu.state(state.best))
        self._report(state)
        if not stop.out_of_time:
            state.parts = self._parts()
            self._advance_parts(state, None)
        if stop.out_of_time:
            return state
        # Lower corners of boxes just above the bound are nearly feasible, so they are good starts.
        state.bound, corners = self.prover.root(state.bound, state.best.makespan, stop)
        for corner in corners:
            self._update(state, corner)
        starts += [menu.state(corner) for corner in corners]
        self.improver.begin_at(starts, climbs=self.warm_start.copies is None)
        if self.schedule.plain:  # the first targets of a proof over modes are parts of the makespan
            for found in self.improver.run_starts(_STARTS_S, state.improving):
                stop.charge(state.improving.taken())
                self._update(state, found)
        self._report(state)
        state.init_s = state.progress_s = self._spent_s(state)
        state.proof_s = self.prover.first_s
        return state

    def step(self, state: SearchState, pool: ThreadPoolExecutor | None) -> None:
        """Run a turn of both sides, the heuristic in `pool` if there is one, and update the state."""
        # Departure 1: a turn begins with what both sides know, and ends when both have ended.
        self._advance_parts(state, pool)
        left_s = planned_s(self._spent_s(state))
        self.improver.plan_s = self._spent_s(state) + left_s
        search_s = max(state.turn_length_s, min(state.proof_s, left_s))
        searching = state.best, max(state.bound, self.target), search_s, state.improving
        future = None if pool is None else pool.submit(self.improver.run, *searching)
        proved = self.prover.run(state.bound, state.best.makespan, state.turn_length_s, left_s, state.proving)
        improved = self.improver.run(*searching) if future is None else future.result()
        state.proof_s = state.proving.taken()
        state.last_turn_s = state.proof_s + state.improving.taken()
        state.nodes = self.prover.nodes
        state.turn_length_s = min(_GROWTH * state.turn_length_s, _LONGEST_TURN_S)
        self.stop.charge(state.last_turn_s)
        for found in (improved, *proved.found):
            self._update(state, found)
        # What a proof rounds down leaves arrays: rebalanced, it is a start far from the incumbent.
        self.improver.begin_at([self.menu.state(found) for found in proved.found])
        state.bound = max(state.bound, min(proved.bound, state.best.makespan))
        self._report(state)
        gap = state.best.makespan - state.progress_bound
        # A bound that creeps up by less than this part of the gap does not keep a search over modes alive.
        if state.bound - state.progress_bound >= _PROGRESS * gap > 0:
            state.progress_s, state.progress_bound = self._spent_s(state), state.bound

    def terminate(self, state: SearchState) -> bool:
        """Return True if the search is to end."""
        # A turn is begun whole or not at all, and the next one takes as long as the last or longer.
        spent_s = self._spent_s(state) + state.last_turn_s / 4
        if spent_s - state.init_s < _LEAST_S:
            spent_s -= state.init_s
        return (
            self._has_stalled(state)
            or self._stands_still(state)
            or self.stop.ends(state.best.makespan, state.bound, self.target, spent_s / self.schedule.share)
        )

    def proof(self, state: SearchState) -> str:
        """Return the proof of the bound and the reason why the search ended, in words."""
        why = self.stop.reason(state.best.makespan, state.bound)
        if why == REASONS[Stopped.WORK] and self._has_stalled(state):
            why = "bounded, stopped when more work brought hardly more"
        return f"{why}: branch and bound over {self.schedule.over}, {state.nodes} nodes"

    @cached_property
    def schedule(self) -> _Schedule:
        """Division of the work."""
        return _Schedule.of(self.problem)

    @cached_property
    def improver(self) -> Improver:
        """The side that looks for faster allocations."""
        return Improver(self.problem, self.menu, self.seed, self.warm_start.slots)

    @cached_property
    def prover(self) -> LowerSide:
        """The side that raises the bound; departure 2."""
        return prover_of(self.problem, self.menu)

    def _parts(self) -> list[_Part]:
        """Return the same search on every kind of arrays alone, and without modes; departure 3."""
        problem, parts = self.problem, list[_Part]()
        if problem.is_limited:
            return parts

        def part(problem: Problem, menu: Menu, share: float, first_s: float) -> _Part:
            stop = self.stop.nested(_MOST_WORK)
            return _Part(AutoSearch(problem, stop, self.seed, self.target, menu), share, first_s)

        if not self.target:
            parts += [part(alone, Menu.of(alone), 1.0, 0.0) for _, alone in on_each_kind(problem)]
        plain = copies_alone(problem) if self.schedule.plain else None
        if plain is not None:
            parts.append(part(*plain, self.schedule.plain, _FIRST_PART_S))
        return parts

    def _advance_parts(self, state: SearchState, pool: ThreadPoolExecutor | None) -> None:
        """Go on with the searches of parts, and take their answers.

        Every menu has their blocks and copies, and their work is not taken from that for all.
        """
        for part in state.parts:
            best = part.advance(self._spent_s(state), pool)
            took_s = part.search.stop.spent_s - part.charged_s
            part.charged_s += took_s
            self.stop.charge(took_s)
            state.begun_s += took_s
            self._update(state, self.problem.choice(best.copies, best.modes))

    def _update(self, state: SearchState, found: Choice) -> None:
        """Make it the incumbent if it is better and keeps to the budgets."""
        if found.key < state.best.key and self.problem.holds(found.copies, found.modes):
            # Only a shorter makespan counts as progress: fewer arrays at equal time do not close the gap.
            if found.makespan < state.best.makespan:
                state.progress_s = self._spent_s(state)
            state.best = found
            if self.every is not None:
                self.every(found)

    def _report(self, state: SearchState) -> None:
        """Note incumbent and bound where one of them is new."""
        self.stop.report(self._spent_s(state), state.best.makespan, state.bound)

    def _spent_s(self, state: SearchState) -> float:
        """Return the seconds of work of this search, without those of the searches of parts."""
        return self.stop.spent_s - state.begun_s

    def _has_stalled(self, state: SearchState) -> bool:
        """Return True if the last turns closed too little of the gap; departure 4."""
        if self.schedule.stalled is None:
            return False
        least_s = max(self.schedule.stalled * self.stop.work_s, _STALLED_TURNS * state.last_turn_s)
        return self._spent_s(state) - state.progress_s >= least_s

    def _stands_still(self, state: SearchState) -> bool:
        """Return True if bound and answer have not moved for so long that more work is spent on nothing."""
        moved_s = self.stop.history[-1][0]
        return self._spent_s(state) - moved_s >= max(_STILL_S, _STILL * moved_s)
