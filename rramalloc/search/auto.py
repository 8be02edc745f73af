"""`auto`: best makespan under exact timing with a proven bound, improving until proof or end of work.

Over copies, and with mapping `sdk` over blocks and copies, both from a menu. One side (improve.py) looks for
faster allocations, the other (bound/) raises the lower bound. They take turns, or work side
by side where there are two cores. After every turn they exchange incumbent and lower bound; where both are
equal, it is proven optimal. A turn sees nothing of the other side's turn, so that the answer is the same on
one core and on two.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from rramalloc.errors import BudgetError
from rramalloc.search.bound.mode_prover import OVERTIME_S
from rramalloc.search.bound.provers import has_boxes, prover_of
from rramalloc.search.bound.turns import LowerSide, ProofTurn
from rramalloc.search.cores import cores
from rramalloc.search.improve import Improver
from rramalloc.search.kernels.slots import NO_SLOTS, Slots
from rramalloc.search.menu import Menu, copies_alone, on_each_kind
from rramalloc.search.problem import Answer, Choice, Problem
from rramalloc.search.resources import Cost
from rramalloc.search.ties import lower_budgets, trim, with_fewest_arrays
from rramalloc.search.work import REASONS, Work
from rramalloc.status import Stopped
from rramalloc.timing.simulate import Copies

_FIRST_TURN_S = 0.02  # length of the first turn: short, since both sides improve fast at first
_GROWTH = 1.5  # ratio of successive turns
_LONGEST_TURN_S = 0.5  # longest turn, unless a proof takes longer
_CLIMB_SHARE = 0.1
"""Part of the work that the climb from the fewest arrays may take."""
_STALLED_TURNS = 2  # turns as long as the last one that must pass at least before a search ends so
_PROGRESS = 1 / 6
"""Part of the gap that a higher bound must close to count as progress."""


class _Course(NamedTuple):
    """Division of the work allowed between the parts of a search.

    share: of the search; plain: of the search of copies alone before it; stalled: it ends when so much closes
    too little of the gap, None if it does not; over: what is branched on, in words.
    """

    share: float
    plain: float
    stalled: float | None
    over: str

    @classmethod
    def of(cls, problem: Problem) -> _Course:
        """Return the course of a search over copies alone, or over modes of a chain or a network."""
        if problem.one_block:
            clocks = problem.time_unit == "ticks"
            return _COPIES._replace(over="copies in their own clocks") if clocks else _COPIES
        return _BRANCHES if len(problem.graph.edges) >= len(problem.demand) else _CHAIN


_COPIES = _Course(share=1.0, plain=0.0, stalled=None, over="exact timing")
_BRANCHES = _Course(share=2.0, plain=0.2, stalled=1.2, over="modes")
"""Bounds over modes of networks with branches rise late, so the search gets twice the work."""
_CHAIN = _Course(share=0.3, plain=0.04, stalled=0.15, over="modes")
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


def solve(problem: Problem, stop: Work, seed: int) -> Answer:
    """Minimise the exact makespan. Same problem, work, gap and seed give the same answer.

    Source: docs/sources/model.md 4, 6, 8 and 10; bounds as in bound/ and kernels/.
    """
    return solve_to_target(problem, stop, seed, 0)


def solve_to_target(
    problem: Problem,
    stop: Work,
    seed: int,
    target: int,
    *,
    menu: Menu | None = None,
    warm_start: WarmStart = COLD_START,
) -> Answer:
    """Solve until an allocation takes at most `target` steps or none can be as fast; 0: no target.

    menu: the modes that are allowed, all of them if left out.
    """
    search = AutoSearch(problem, stop, seed, target, menu or Menu.of(problem), warm_start)
    search.run()
    words = search.words()
    if (
        search.course.stalled is None
        and target == 0
        and search.bound >= search.best.makespan
        and not stop.out_of_time
    ):
        best, proven = with_fewest_arrays(problem, search.menu, search.best, stop)
        words += "; no other is as fast with fewer arrays" if proven else ""
    else:
        best = trim(problem, search.menu, search.best, stop)
    return Answer(best, search.bound, words)


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


@dataclass(eq=False)
class AutoSearch:
    """The incumbent and the lower bound of one problem, and the two sides that improve them.

    target: a makespan that is good enough, 0 for none; stop: is charged for all that is done.
    """

    problem: Problem
    stop: Work
    seed: int
    target: int
    menu: Menu
    warm_start: WarmStart = COLD_START
    improver: Improver = field(init=False)
    prover: LowerSide | None = field(default=None, init=False)
    best: Choice = field(init=False)
    bound: int = field(default=1, init=False)
    course: _Course = field(init=False)
    _begun_s: float = field(init=False)
    _improved_s: float = field(default=0.0, init=False)
    _improved_bound: int = field(default=1, init=False)
    _turn_s: float = field(default=0.0, init=False)
    _improving: Work = field(init=False)
    _proving: Work = field(init=False)

    def __post_init__(self) -> None:
        self.improver = Improver(self.problem, self.menu, self.seed, self.warm_start.slots)
        self._improving, self._proving = (self.stop.nested(self.stop.work) for _ in range(2))
        self._begun_s, self.course = self.stop.spent_s, _Course.of(self.problem)

    def run(self) -> None:
        """Start with the smallest interval, then take turns."""
        prover = self._begin()
        if prover is None:
            return
        turn_s, proof_s = _FIRST_TURN_S, prover.first_s
        with _second_core(self.stop.cores) as pool:
            while not self._done():
                left_s = self.allowed_s - self.spent_s - proof_s
                search_s = max(turn_s, min(proof_s, left_s + OVERTIME_S))
                searching = self.best, max(self.bound, self.target), search_s, self._improving
                improving = None if pool is None else pool.submit(self.improver.run, *searching)
                proved = prover.run(self.bound, self.best.makespan, turn_s, left_s, self._proving)
                improved = self.improver.run(*searching) if improving is None else improving.result()
                proof_s = self._proving.taken()
                self._end_turn(improved, proved, proof_s + self._improving.taken())
                turn_s = min(_GROWTH * turn_s, _LONGEST_TURN_S)

    def _begin(self) -> LowerSide | None:
        """Return the side of the bounds after first allocations and bounds; None if the time is up."""
        problem, menu = self.problem, self.menu
        self.best = menu.choice(problem, menu.smallest)
        self.bound = max(self.warm_start.lower_bound, menu.smallest_interval(problem))
        starts = [menu.cheapest(menu.smallest_interval(problem))[0]]
        if self.warm_start.copies is not None:
            starts.append(menu.state(problem.choice(self.warm_start.copies)))
        given = problem.start_within
        if given is not None:
            self._update(given)
            starts.append(menu.state(given))
        for start in starts:
            self._update(menu.choice(problem, start))
        self._report()
        if self.stop.out_of_time:
            return None
        climb_s = 0.0 if self.warm_start.copies is not None else _CLIMB_SHARE * self.allowed_s
        self._try_kinds()
        self._try_plain()
        if self.stop.out_of_time:
            return None
        self.prover = prover = prover_of(problem, menu)
        # Lower corners of boxes just above the bound are nearly feasible, so they are good starts.
        self.bound, corners = prover.root(self.bound, self.best.makespan, self.stop)
        for corner in corners:
            self._update(corner)
        starts += [menu.state(corner) for corner in corners]
        self.improver.begin_at(starts, climb_s)
        if self.course.plain:  # the first targets of a proof over modes are parts of the makespan
            for found in self.improver.run_starts(self._improving):
                self.stop.charge(self._improving.taken())
                self._update(found)
        self._report()
        self._improved_s = self.spent_s
        return prover

    def _end_turn(self, improved: Choice, proved: ProofTurn, seconds: float) -> None:
        """Keep what both sides found in `seconds` of work."""
        self.stop.charge(seconds)
        self._turn_s = seconds
        for found in (improved, *proved.found):
            self._update(found)
        self.bound = max(self.bound, min(proved.bound, self.best.makespan))
        self._report()
        gap = self.best.makespan - self._improved_bound
        # A bound that creeps up by less than this part of the gap does not keep a search over modes alive.
        if self.bound - self._improved_bound >= _PROGRESS * gap > 0:
            self._improved_s, self._improved_bound = self.spent_s, self.bound

    def _update(self, found: Choice) -> None:
        """Make it the incumbent if it is better and keeps to the budgets."""
        if found.key < self.best.key and self.problem.holds(found.copies, found.modes):
            # Only a shorter makespan counts as progress: fewer arrays at equal time do not close the gap.
            if found.makespan < self.best.makespan:
                self._improved_s = self.spent_s
            self.best = found

    def _report(self) -> None:
        """Note incumbent and bound where one of them is new."""
        self.stop.report(self.spent_s, self.best.makespan, self.bound)

    def _try_kinds(self) -> None:
        """Begin with the answers of the same search on every kind of arrays alone, which several never miss.

        Their work is not taken from that for all kinds.
        """
        if self.target or self.problem.is_limited:
            return
        for _, alone in on_each_kind(self.problem):
            share = self.stop.nested(self.stop.work)
            found = solve(alone, share, self.seed).choice
            self.stop.charge(share.spent_s)
            self._begun_s += share.spent_s
            self._update(self.problem.choice(found.copies, found.modes))

    def _try_plain(self) -> None:
        """Begin with the answer of the same search without modes, so that modes never make it slower.

        Block and copies of that answer are in every menu. Its work is not taken from that for modes.
        """
        if not self.course.plain or self.problem.is_limited:
            return
        alone = copies_alone(self.problem)
        if alone is not None:
            share = self.stop.nested(max(1, round(self.course.plain * self.stop.work)))
            plain = solve_to_target(alone[0], share, self.seed, self.target, menu=alone[1])
            self.stop.charge(share.spent_s)
            self._begun_s += share.spent_s
            self._update(self.problem.choice(plain.choice.copies, plain.choice.modes))

    @property
    def spent_s(self) -> float:
        """Seconds of work of this search, without those of the search of copies alone before it."""
        return self.stop.spent_s - self._begun_s

    @property
    def allowed_s(self) -> float:
        """Seconds of work that the search may take."""
        return self.course.share * self.stop.work_s

    @property
    def _stalled(self) -> bool:
        if self.course.stalled is None:
            return False
        least_s = max(self.course.stalled * self.stop.work_s, _STALLED_TURNS * self._turn_s)
        return self.spent_s - self._improved_s >= least_s

    def _done(self) -> bool:
        """Return True if the search is to end."""
        spent_s = self.spent_s / self.course.share
        return self._stalled or self.stop.ends(self.best.makespan, self.bound, self.target, spent_s)

    def words(self) -> str:
        """Return the proof of the bound and the reason why the search ended, in words."""
        why = self.stop.reason(self.best.makespan, self.bound)
        if why == REASONS[Stopped.WORK] and self._stalled:
            why = "bounded, stopped when more work brought hardly more"
        nodes = 0 if self.prover is None else self.prover.nodes
        return f"{why}: branch and bound over {self.course.over}, {nodes} nodes"


def _second_core(allowed: int | None) -> ThreadPoolExecutor | nullcontext[None]:
    """Return a thread for one side of a search if there is a core for it and it may be used."""
    return ThreadPoolExecutor(1) if cores(allowed) > 1 else nullcontext()
