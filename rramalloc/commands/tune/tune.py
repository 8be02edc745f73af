"""`tune`: the allocation that is best in the user's own simulator.

The search proposes, the simulator decides. Near-optimal allocations of several objectives come first; then a
model calibrated on all answers so far proposes, round by round, what promises most.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any, Unpack, cast

import numpy as np

from rramalloc.allocation.allocation import Allocation
from rramalloc.allocation.case import ArraysLike, Case
from rramalloc.allocation.case_arguments import AllocationArguments, CaseArguments
from rramalloc.allocation.goes_with import check, check_command
from rramalloc.allocation.optimize import checked_allocation, objective_of, on_units, propose
from rramalloc.allocation.question import Question
from rramalloc.choices import AtMostLike, CopiesLike, Divided
from rramalloc.commands.tune.answers import Answers, SimulatorAnswer, subject
from rramalloc.commands.tune.calibration import Calibration, spearman
from rramalloc.commands.tune.proposals import Neighbourhood, Start, proposals, starting_allocations
from rramalloc.commands.tune.simulators import (
    TOOLS,
    Chooser,
    ExportedTool,
    Interruptible,
    Simulator,
    checked_figure,
    simulator_named,
)
from rramalloc.commands.tune.tuning import Judged, ModelError, OwnChoice, TuneOptions, Tuning
from rramalloc.errors import RramallocError, SimulatorError
from rramalloc.hardware.tables import CrossbarLike
from rramalloc.importers import NetworkLike
from rramalloc.progress import followed
from rramalloc.records import check_range
from rramalloc.search.menu import in_kinds_of
from rramalloc.search.problem import Answer as Proposal
from rramalloc.search.problem import Problem
from rramalloc.search.work import CancelToken, Work
from rramalloc.timing.latency_table import LatencyTableLike
from rramalloc.timing.simulate import Copies, makespan_of
from rramalloc.units import number_of, rounded

_METHOD = "tune"
_SEARCH_WORK = 20  # units of search for each of the first allocations
_FIRST_SHARE = 0.25  # share of the evaluations that are made before there is a model
_LEAST_FIRST = 8  # fewest evaluations before there is a model
_HOPELESS = 10  # failures in a row from the first on after which a simulator is given up
_LEAST_FITTED = 5  # figures; below, neighbours of the best are proposed without a model
_ASKED_AGAIN = 4  # best allocations that a simulator which does not repeat itself evaluates again
_TIMES = 3  # evaluations of each of these allocations
_LEFT_OUT_FOLDS = 5  # of the cross-validation of the model
_POLL_S = 0.1  # between two looks at whether the user interrupts
_GRACE_S = 5.0  # extra time for an evaluation that keeps its own time limit

CopiesKey = tuple[int, ...]
TuneProgress = Callable[[int, int, float | None], None]
"""Called with (evaluations done, evaluations in all, best figure) after every answer."""


@dataclass(slots=True, eq=False)
class _Candidate:
    """An allocation that is judged, in the order of questions."""

    copies: Copies
    origin: str
    expected: float | None
    answers: list[SimulatorAnswer]

    @property
    def figures(self) -> list[float]:
        return [answer.figure for answer in self.answers if answer.figure is not None]

    @property
    def failures(self) -> list[str]:
        return [answer.failure or "no reason" for answer in self.answers if answer.figure is None]

    @property
    def figure(self) -> float | None:
        """The median of its figures; None if it failed or has no answer."""
        return statistics.median(self.figures) if self.figures and not self.failures else None


def tune(
    network: NetworkLike,
    arrays: ArraysLike,
    simulator: str | Simulator,
    *,
    evaluations: int = 100,
    jobs: int = 1,
    seed: int = 0,
    store: str | os.PathLike[str] | None = None,
    timeout_s: float = 600.0,
    tool_paths: Sequence[str] = (),
    crossbar: CrossbarLike | None = None,
    fold: bool = False,
    latency_table: LatencyTableLike | None = None,
    copies: CopiesLike | None = None,
    copies_divide: Divided | None = None,
    at_most: AtMostLike | None = None,
    placed: bool = False,
    on_progress: TuneProgress | None = None,
    progress: bool = True,
    cancel: CancelToken | None = None,
    **given: Unpack[AllocationArguments],
) -> Tuning:
    """Find the allocation that is best in your simulator: the search proposes, the simulator judges.

    Parameters
    ----------
    network
        A Network, a file, or the name of a shipped network.
    arrays
        The budget: a number, "x2" for twice the minimum, or the numbers of kinds, {"small": 512}.
    simulator
        A tool with options for its run.py ("pimsyn", "pimcomp --mode high-throughput"), a command with
        `{allocation}` that prints the figure as its last line, or an object with `name` and
        `evaluate(network, allocation)`. Lower figures are better.
    evaluations
        Answers after which the search ends; those that the store has count too.
    jobs
        Evaluations at a time, which are proposed together: the result depends on it.
    seed
        Of what the search draws.
    store
        SQLite file that keeps every answer; the same call goes on from it.
    timeout_s
        Seconds for one evaluation.
    tool_paths
        Folders of the sources of a tool; left out, the environment variable RRAMALLOC_TOOL names them.
    hardware
        A Hardware, a file, a dict of its form, or a preset; left out, that which the tool counts arrays with.
    mapping
        Layout of weights on arrays; left out, that which the tool counts arrays with.
    crossbar
        Wordlines and bitlines of an array, "256x256" or (256, 256), instead of the hardware's.
    fc
        Who computes linear layers on a single pixel: the "host", or arrays ("crossbar").
    host
        Layers that are left to the host, by name or pattern.
    fold
        Fold filters first, with mapping "kernel_split".
    latency_table
        Measured step times for the searches that propose: a LatencyTable, a file, or a dict of its form.
    copies
        Copies of layers that are held or limited, by name or pattern: {"conv1": 4, "conv*": "2..8"}.
    copies_divide
        Of what copies must be a divisor: windows of a row of the output ("width"), or all ("windows").
    at_most
        Limits of area_um2, energy_pj, power_mw, latency_ns and interval_ns: {"area_um2": "2mm2"}.
    placed
        Count transfer between the tiles of a placement in what is proposed; the simulator gets the places.
    on_progress
        Called with (evaluations done, evaluations in all, best figure) after every answer.
    progress
        Show a line in a notebook.
    cancel
        Set its `interrupted` to end early with the best so far.

    Returns
    -------
    Tuning
        The best allocation, every allocation that was judged, and how well the model explains the simulator.

    Raises
    ------
    SimulatorError
        The simulator gave no figure for any allocation.
    RramallocError
        BudgetError, FileError, SpecError, UnknownNameError, UnsupportedError.
    """
    check_range("evaluations", evaluations, 1, 10**6)
    check_range("jobs", jobs, 1, 1024)
    check_range("seed", seed, 0, 2**53)
    check_range("timeout_s", timeout_s, 1e-3, 10**7)
    judge = simulator
    if isinstance(judge, str):
        judge = simulator_named(judge, tool_paths=tool_paths, timeout_s=timeout_s)
    tool = TOOLS[judge.tool] if isinstance(judge, ExportedTool) else None
    every: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    every |= {"crossbar": crossbar, "fold": fold, "latency_table": latency_table}
    every |= {"copies": copies, "copies_divide": copies_divide, "at_most": at_most}
    if tool is not None:
        every = {"hardware": tool.hardware(), "mapping": tool.mapping} | every
    case = Case.of(network, cast("CaseArguments", every), placed=placed)
    check_command("tune", "tune", case, Question(placed=placed))
    if tool is not None:
        check(f"simulator {judge.name!r}", "case -kinds", case)
    case, size = case.with_numbers(arrays)
    case.check_numbers(size)
    effort = {"evaluations": evaluations, "jobs": jobs, "seed": seed}
    asked = TuneOptions(**case.options, simulator=judge.name, timeout_s=timeout_s, **effort)
    kept_as = judge.kept_as if isinstance(judge, ExportedTool) else judge.name
    about = subject(case.network, case.hardware, case.mapping, kept_as, placed=placed)
    with Answers(store, about) as answers, followed(on_progress, progress, progress_words) as tell:
        tuner = Tuner(case, size, asked, judge, answers, cancel or CancelToken(), tell)
        return tuner.run()


def progress_words(done: int, total: int, best: float | None) -> str:
    """Return the line of `tune`."""
    best_so_far = "none yet" if best is None else rounded(best)
    return f"{done} of {number_of(total, 'evaluation')}, best {best_so_far}"


def chosen_copies(problem: Problem, choice: OwnChoice) -> Copies:
    """Return the copies of all stages in a tool's choice, within each stage's limits, not the budget."""
    copies = np.array([choice.copies.get(name, 1) for name in problem.graph.names], dtype=np.int64)
    clipped: Copies = np.clip(copies, problem.smallest, problem.largest)
    return clipped


@dataclass(eq=False)
class Tuner:
    """State of one run: the allocations and the answers about them so far."""

    case: Case
    arrays: int
    options: TuneOptions
    simulator: Simulator
    answers: Answers
    cancel: CancelToken
    on_progress: TuneProgress | None = None
    asked: int = 0
    deterministic: bool | None = None
    warnings: list[str] = field(default_factory=list)
    candidates: dict[CopiesKey, _Candidate] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.network, self.hardware = self.case.network, self.case.hardware
        self.problem: Problem = self.case.problem(self.arrays)
        self._kinds = list[int]()
        if self.hardware.kinds is not None:
            request = Question(seed=self.options.seed)
            share = Work(work=_SEARCH_WORK, cancel=self.cancel)
            modes = propose(objective_of(self.problem, request), request, share).choice.modes
            self.problem = in_kinds_of(self.problem, modes)
            self._kinds = [mode.kind for mode in modes]
            words = "copies are tuned, on the kinds of arrays that the search chose for the latency"
            self.warnings.append(words)
        # Judged allocations are placed apart from those of the search: their places follow from their copies.
        self._placed = replace(self.problem, placer=self.case.with_stages(self.case.stages).placer)
        self._near = Neighbourhood(self.problem, self.options.seed)

    @property
    def left(self) -> int:
        """Evaluations that may still be asked for; none once the run is interrupted."""
        return 0 if self.cancel.interrupted else self.options.evaluations - self.asked

    def run(self) -> Tuning:
        """Simulate, calibrate and propose until the evaluations are used up; return the result."""
        tools_choice = self._own_choice()
        self._ask(self._first(tools_choice))
        self._ask_again()
        while self.left > self._reserved:
            proposed = self._propose(min(self.options.jobs, self.left - self._reserved))
            if not proposed:
                break  # there is no other allocation within the budget
            self._ask(proposed)
        if self.deterministic is False:
            self._reevaluate_leaders()
        return self._result(tools_choice)

    # Allocations to judge ---------------------------------------------------------------------------------

    def _own_choice(self) -> OwnChoice | None:
        """Return the tool's own choice, None if it makes none."""
        if not isinstance(self.simulator, Chooser):
            return None
        try:
            return self.simulator.choose(self.network, self.hardware, self.arrays)
        except InterruptedError:
            return None
        except RramallocError as error:
            self.warnings.append(f"{self.simulator.name} makes no choice of its own: {error}"[:300])
            return None

    def _first(self, tools_choice: OwnChoice | None) -> list[_Candidate]:
        """Return the first candidates: results of searches, and neighbours."""
        count = min(max(_LEAST_FIRST, round(_FIRST_SHARE * self.options.evaluations)), self.left)
        found: dict[CopiesKey, _Candidate] = {}

        def add(start: Start) -> None:
            origin, copies = start
            if len(found) < count:
                found.setdefault(tuple(copies.tolist()), _Candidate(copies, origin, None, []))

        starts = starting_allocations(
            self.problem, lambda: Work(work=_SEARCH_WORK, cancel=self.cancel), self.options.seed
        )
        for start in islice(starts, 1):
            add(start)
        centres: list[Copies] = []
        if tools_choice is not None:
            start = self._nearest(tools_choice)
            add(start)
            centres.append(start[1])
        searched = count // 2 if centres else count
        for start in starts:
            if self.cancel.interrupted or len(found) >= searched:
                break
            add(start)
        centres = centres or [candidate.copies for candidate in found.values()]
        for _ in range(20 * count):  # the budget may allow fewer than `count` different allocations
            add(("around these", self._near.near(centres[self._near.choose(len(centres))])))
        return list(found.values())

    def _nearest(self, tools_choice: OwnChoice) -> Start:
        """Return the tool's own choice, with fewer copies where it does not fit the budget."""
        origin = f"own choice of {self.simulator.name}"
        copies = chosen_copies(self.problem, tools_choice)
        if self.problem.is_allowed(copies):
            return origin, copies
        self.warnings.append(
            f"the choice of {self.simulator.name} takes {self.problem.arrays(copies)} arrays as they "
            f"are counted here: it is no candidate, but with fewer copies"
        )
        return f"{origin}, lowered", self._near.fitted(copies)

    def _propose(self, count: int) -> list[_Candidate]:
        """Propose allocations of highest expected improvement, or neighbours of the best without a model."""
        ranked = self._ranked()
        if len(ranked) < _LEAST_FITTED:
            centres = [candidate.copies for candidate in ranked or self.candidates.values()]
            near = (self._near.near(centres[self._near.choose(len(centres))]) for _ in range(200))
            fresh = {key: copies for copies in near if (key := tuple(copies.tolist())) not in self.candidates}
            return [_Candidate(copies, "around these", None, []) for copies in [*fresh.values()][:count]]
        best = float(np.log(max(ranked[0].figure or 0.0, 1e-300)))
        copies = [candidate.copies for candidate in ranked]
        calibration = self._calibrated(ranked)
        found = proposals(calibration, self._near, copies, best, self.candidates, count)
        return [_Candidate(copies, "calibration", expected, []) for copies, expected in found]

    def _calibrated(self, answered: Sequence[_Candidate]) -> Calibration:
        copies, figures = (
            [candidate.copies for candidate in answered],
            [candidate.figure or 0.0 for candidate in answered],
        )
        return Calibration.fit(self.problem.graph, copies, figures)

    def _ranked(self) -> list[_Candidate]:
        """Return the candidates that have a figure, the best first."""
        done = [
            (candidate.figure, key)
            for key, candidate in self.candidates.items()
            if candidate.figure is not None
        ]
        return [self.candidates[key] for _, key in sorted(done)]

    # Questions and answers --------------------------------------------------------------------------------

    @property
    def _reserved(self) -> int:
        """Evaluations reserved to repeat the best, if the simulator is not deterministic."""
        if self.deterministic is not False:
            return 0
        return min((_ASKED_AGAIN + 1) * (_TIMES - 1), self.options.evaluations // 3)

    def _ask_again(self) -> None:
        """Evaluate the best allocation again: equal figures show that the simulator is deterministic."""
        ranked = self._ranked()
        if ranked and self.left > 0 and self.options.evaluations > _LEAST_FIRST:
            self._ask([ranked[0]])
            first, *again = [answer.figure for answer in ranked[0].answers]
            if again:
                self.deterministic = again[0] == first
            if again and not self.deterministic:
                self.warnings.append(
                    f"{self.simulator.name} gives different figures for the same allocation: {first} and "
                    f"{'none' if again[0] is None else again[0]}; the best are asked again, and medians count"
                )

    def _reevaluate_leaders(self) -> None:
        """Evaluate the best and the first allocation again, so that medians decide instead of luck."""
        ranked = self._ranked()
        first = next(iter(self.candidates.values()))
        chosen = {id(candidate): candidate for candidate in (*ranked[:_ASKED_AGAIN], first)}
        for _ in range(_TIMES):
            again = [candidate for candidate in chosen.values() if len(candidate.answers) < _TIMES]
            self._ask(again[: self.left])

    def _ask(self, questions: Sequence[_Candidate]) -> None:
        """Evaluate candidates, `jobs` at a time, unless the store has their answers."""
        waiting: list[_Candidate] = []
        for candidate in questions:
            self.candidates.setdefault(tuple(candidate.copies.tolist()), candidate)
            known = self.answers.get(
                candidate.copies.tolist() + self._kinds, len(candidate.answers), self.options.timeout_s
            )
            if known is None:
                waiting.append(candidate)
            else:
                self._take(candidate, known)
        for candidate, answer in self._evaluated(waiting):
            key = candidate.copies.tolist() + self._kinds
            kept = self.answers.keep(key, len(candidate.answers), answer)
            self._take(candidate, kept)
        if self.asked >= _HOPELESS and not self._ranked():
            self._give_up()

    def _take(self, candidate: _Candidate, answer: SimulatorAnswer) -> None:
        candidate.answers.append(answer)
        self.asked += 1
        if self.on_progress is not None:
            ranked = self._ranked()
            self.on_progress(self.asked, self.options.evaluations, ranked[0].figure if ranked else None)

    def _evaluated(self, questions: Sequence[_Candidate]) -> Iterator[tuple[_Candidate, SimulatorAnswer]]:
        """Yield each candidate with its answer as it arrives; leave out those that an interruption ends.

        Threads are not waited for at the end: one that hangs must not keep the program alive.
        """
        done: SimpleQueue[tuple[int, SimulatorAnswer | None]] = SimpleQueue()
        begun: dict[int, float] = {}
        waiting = deque(enumerate(questions))
        limit_s = self.options.timeout_s + _GRACE_S
        while (waiting or begun) and not self.cancel.interrupted:
            while waiting and len(begun) < self.options.jobs:
                number, candidate = waiting.popleft()
                begun[number] = time.monotonic()
                question = number, self._allocation(candidate.copies), done
                threading.Thread(target=self._evaluate, args=question, daemon=True).start()
            for number in [number for number, since in begun.items() if time.monotonic() - since > limit_s]:
                del begun[number]
                words = f"no answer within {self.options.timeout_s:g} s"
                yield questions[number], SimulatorAnswer(None, words, self.options.timeout_s)
            with contextlib.suppress(Empty):
                number, answer = done.get(timeout=_POLL_S)
                if begun.pop(number, None) is not None and answer is not None:
                    yield questions[number], answer
        if self.cancel.interrupted and isinstance(self.simulator, Interruptible):
            self.simulator.interrupt()

    def _evaluate(
        self, number: int, allocation: Allocation, done: SimpleQueue[tuple[int, SimulatorAnswer | None]]
    ) -> None:
        """Evaluate one allocation, in a thread of its own, and put (number, answer) into `done`."""
        begun = time.monotonic()
        answer: SimulatorAnswer | None
        try:
            answer = SimulatorAnswer(checked_figure(self.simulator.evaluate(self.network, allocation)))
        except InterruptedError:
            answer = None
        except SimulatorError as error:
            late = time.monotonic() - begun >= self.options.timeout_s
            answer = SimulatorAnswer(None, str(error), self.options.timeout_s if late else None)
        except Exception as error:  # noqa: BLE001 - a simulator is other people's code
            answer = SimulatorAnswer(None, f"{type(error).__name__}: {error}"[:300])
        done.put((number, answer))

    def _give_up(self) -> None:
        """Raise SimulatorError with the reason of the first failure."""
        first = next(
            (why for candidate in self.candidates.values() for why in candidate.failures), "no reason"
        )
        words = f"simulator {self.simulator.name[:200]!r} failed on all of {self.asked} allocations: {first}"
        raise SimulatorError(f"{words}; run it by hand on an allocation from `rramalloc optimize -o`")

    # The result -------------------------------------------------------------------------------------------

    def _allocation(self, copies: Copies) -> Allocation:
        """Return an allocation with everything that its file holds."""
        stop = Work(work=0, cancel=self.cancel)
        request = Question(method=_METHOD, seed=self.options.seed)
        objective = objective_of(self._placed, request)
        bound, choice = objective.bound(1, stop), self._placed.choice(copies)
        proposal = Proposal(choice, bound, "none: chosen by a simulator", stopped=stop.cut)
        return checked_allocation(self.case, self.arrays, objective, request, stop, proposal)

    def _result(self, tools_choice: OwnChoice | None) -> Tuning:
        ranked = self._ranked()
        if not ranked:
            if self.cancel.interrupted:
                raise KeyboardInterrupt
            self._give_up()
        settled = [
            candidate
            for candidate in ranked
            if self.deterministic is not False or len(candidate.answers) >= _TIMES
        ]
        best = (settled or ranked)[0]
        allocation = self._allocation(best.copies)
        answered = [candidate for candidate in self.candidates.values() if candidate.answers]
        judged = tuple(self._judged(number, candidate) for number, candidate in enumerate(answered, start=1))
        failures = [candidate.failure for candidate in judged if candidate.failure is not None]
        if failures:
            words = f"{len(failures)} allocations failed in the simulator, the first: {failures[0]}"
            self.warnings.append(words)
        return Tuning(
            **self.case.about(units=on_units(self.hardware, self.problem.graph)),
            options=self.options,
            arrays=self.case.most_arrays(self.arrays),
            own=tools_choice,
            before=next(iter(self.candidates.values())).figure,
            figure=best.figure or 0.0,
            allocation=allocation,
            evaluations=self.asked,
            failed=sum(len(candidate.failures) for candidate in answered),
            deterministic=self.deterministic,
            model=self._model(ranked),
            judged=judged,
            warnings=(*allocation.warnings, *self.warnings),
        )

    def _judged(self, number: int, candidate: _Candidate) -> Judged:
        graph, figures, copies = self.problem.graph, candidate.figures, candidate.copies.tolist()
        timed = self._placed.timed(self._placed.choice(candidate.copies)).graph
        return Judged(
            number=number,
            origin=candidate.origin,
            figure=candidate.figure,
            expected=candidate.expected,
            failure=next(iter(candidate.failures), None),
            answers=len(candidate.answers),
            spread=max(figures) - min(figures) if len(figures) > 1 else None,
            arrays=self.problem.choice(candidate.copies).used,
            makespan=makespan_of(timed, candidate.copies),
            copies={graph.names[stage]: copies[stage] for stage in graph.network_order},
        )

    def _model(self, ranked: Sequence[_Candidate]) -> ModelError | None:
        """Return the error of the last model, with cross-validation over parts of the answers."""
        if len(ranked) < 2 * _LEFT_OUT_FOLDS:
            return None
        calibration = self._calibrated(ranked)
        figures = [candidate.figure or 0.0 for candidate in ranked]
        predicted = np.zeros(len(ranked))
        for fold in range(_LEFT_OUT_FOLDS):
            kept = [place for place in range(len(ranked)) if place % _LEFT_OUT_FOLDS != fold]
            left = [place for place in range(len(ranked)) if place % _LEFT_OUT_FOLDS == fold]
            partial = self._calibrated([ranked[at] for at in kept])
            predicted[left] = partial.predict([ranked[at].copies for at in left])
        errors = np.log(np.maximum(figures, 1e-300) / np.maximum(predicted, 1e-300))
        names, clocks = self.problem.graph.names, calibration.clocks[calibration.form]
        return ModelError(
            form=calibration.form,
            answers=len(ranked),
            residual=calibration.residual,
            left_out=float(np.sqrt((errors**2).mean())),
            spearman=spearman(figures, predicted.tolist()),
            fixed=clocks.fixed,
            batch=dict(zip(names, clocks.batch.tolist(), strict=True)),
            per_copy=dict(zip(names, clocks.per_copy.tolist(), strict=True)),
        )
