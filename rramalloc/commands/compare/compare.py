"""`compare`: every method on the same problem; each allocation is simulated and checked."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as MappingOf
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from typing import Unpack, cast

from rramalloc.allocation.case import ArraysLike, Case, searched
from rramalloc.allocation.case_arguments import SearchArguments
from rramalloc.allocation.check import CheckedTiming, check_answer, recheck_bound
from rramalloc.allocation.goes_with import check_command, check_question, fits
from rramalloc.allocation.optimize import objective_of, on_units_of, propose
from rramalloc.allocation.question import Question
from rramalloc.allocation.simulation import published_steps
from rramalloc.choices import DEFAULT_WORK, ComparedObjective, shown_by
from rramalloc.commands.compare.comparison import REFERENCE, CompareOptions, Comparison, Row, Skipped
from rramalloc.compiled import clock as now_s
from rramalloc.errors import BudgetError, PluginError, SolverError, SpecError, UnsupportedError
from rramalloc.importers import NetworkLike
from rramalloc.methods.registry import METHODS, method_named
from rramalloc.network.geometry import Pair
from rramalloc.network.network import Network
from rramalloc.progress import followed
from rramalloc.records import brief, check_known, check_range
from rramalloc.search.objective import Objective, capped_bound, gap_of
from rramalloc.search.problem import Answer
from rramalloc.search.work import CancelToken, Work
from rramalloc.status import stopped_by
from rramalloc.timing.access import Absolute
from rramalloc.timing.figures import totals
from rramalloc.timing.recurrence import recurrence
from rramalloc.units import number_of

MAX_SEEDS = 1000  # of one method at one budget
_INTERRUPTED = "interrupted before it was ready"

CompareProgress = Callable[[int, str, int, int], None]
"""Called with (budget, method, runs before it, runs in all) when a method begins."""


def compare(
    network: NetworkLike | Sequence[NetworkLike],
    arrays: ArraysLike | Sequence[int | str] | None = None,
    *,
    objective: ComparedObjective = "latency",
    inputs: int = 1,
    placed: bool = False,
    methods: Sequence[str] | None = None,
    seeds: int = 5,
    clock: bool = False,
    on_progress: CompareProgress | None = None,
    progress: bool = True,
    ending: CancelToken | None = None,
    **given: Unpack[SearchArguments],
) -> Comparison:
    """Run every method on the same networks and budgets: exact makespan, and ratio to the best.

    Parameters
    ----------
    network
        A Network, a file, or the name of a shipped network; or a list of such, each counted once.
    arrays
        2048, "x2" for twice the minimum or a list of such; None for those of the chip or of its kinds, or
        {"small": 512} of kinds.
    objective
        By what methods are judged: "latency", "energy" or "edp".
    inputs
        How many stream through; the latency is then the time of all.
    placed
        Count transfer between the tiles in which copies would be placed.
    methods
        Names; None for all that are compared by default.
    seeds
        Runs of each method that depends on its seed, of which the median is reported.
    clock
        Measure time too, which differs from run to run.
    on_progress
        Called with (arrays, method, runs before, runs in all) when a method begins.
    progress
        Show a line in a notebook.
    ending
        Set its `interrupted` to end early, with what is ready by then.
    work
        Units of search of every single run, 0.05 s each on a reference core.
    time_limit_s
        Seconds by the clock of every single run.

    Returns
    -------
    Comparison
        A row a network, budget and method; `skipped` lists methods that do not apply or find no allocation.

    Raises
    ------
    RramallocError
        BudgetError, FileError, SpecError, UnknownNameError before anything runs; SolverError if an allocation
        does not survive the check.
    """
    check_known("objective", objective, shown_by("compare"))
    check_range("seeds", seeds, 1, MAX_SEEDS)
    seed, limits = searched(given)
    is_list = isinstance(network, Sequence) and not isinstance(network, str)
    networks = cast("Sequence[NetworkLike]", network if is_list else [network])
    judged_by = Question(objective=objective, inputs=inputs, placed=placed)
    asked: dict[str, tuple[Case, tuple[int, ...], CompareOptions, list[Objective]]] = {}
    for one in networks:
        case, sizes = Case.of(one, given, placed=placed).with_budgets(arrays)
        for size in sizes:
            case.check_numbers(size)
        check_command("compare", "compare", case, judged_by)
        check_question(case, judged_by)
        try:
            judges = [
                objective_of(case.problem(size), Question(objective=objective, inputs=inputs))
                for size in sizes
            ]
        except BudgetError as error:
            error.network = case.network.name if len(networks) > 1 else ""
            raise
        options = CompareOptions(
            **case.options,
            methods=competitors(methods, case),
            seed=seed,
            seeds=seeds,
            work=limits.work,
            time_limit_s=limits.time_limit_s,
            inputs=inputs if inputs > 1 else None,
        )
        same = asked.setdefault(case.network.name, (case, sizes, options, judges))[0]
        if same.network.plain_sha256 != case.network.plain_sha256:
            raise SpecError(
                "networks", f"two are named {brief(same.network.name)}: name one of them otherwise"
            )
    _check_together([(case, options) for case, _, options, _ in asked.values()])
    cancel = ending or CancelToken()
    total = sum(len(sizes) * len(options.methods) for _, sizes, options, _ in asked.values())
    parts: list[Comparison] = []
    with followed(on_progress, progress, progress_words) as callback:
        done = 0
        for case, sizes, options, judges in asked.values():
            parts.append(
                _compared(case, sizes, judges, objective, options, cancel, callback, clock, done, total)
            )
            done += len(sizes) * len(options.methods)
    compared = parts[0] if len(parts) == 1 else _together(parts)
    if not compared.rows and not cancel.interrupted:
        reason = compared.skipped[0].reason
        raise UnsupportedError(case.network.where, f"no method gave an allocation: {reason}")
    return compared


def _check_together(asked: Sequence[tuple[Case, CompareOptions]]) -> None:
    """Raise SpecError unless all networks are asked the same, as one result has to say it."""
    if not asked:
        raise SpecError("networks", "name at least one network to compare")
    first, options = asked[0]
    for case, others in asked[1:]:
        alike = others.model_copy(update={"methods": options.methods})
        if alike != options or case.hardware != first.hardware:
            names = f"{brief(first.network.name)} and {brief(case.network.name)}"
            words = "feed back, or hold layers, kinds or times, in different ways: compare each on its own"
            raise SpecError("networks", f"{names} {words}")


def _together(parts: Sequence[Comparison]) -> Comparison:
    """Return the comparison of several networks, whose words say which they are about."""
    named = {part.network.name: part for part in parts if part.network is not None}
    methods = dict.fromkeys(method for part in parts for method in part.options.methods)
    covered = [
        f"{name}: {part.coverage.summary}"
        for name, part in named.items()
        if part.coverage is not None and not part.coverage.complete
    ]
    return parts[0].model_copy(
        update={
            "network": None,
            "networks": tuple(part.network for part in parts),
            "coverage": None,
            "options": parts[0].options.model_copy(update={"methods": tuple(methods)}),
            "rows": tuple(row for part in parts for row in part.rows),
            "skipped": tuple(
                left.model_copy(update={"network": name})
                for name, part in named.items()
                for left in part.skipped
            ),
            "not_counted": tuple(_said({name: part.not_counted for name, part in named.items()})),
            "warnings": (*covered, *_said({name: part.warnings for name, part in named.items()})),
        }
    )


def _said(by_network: MappingOf[str, Sequence[str]]) -> Iterator[str]:
    """Yield what is said of networks, once each, with the names of the networks unless it is said of all."""
    for words in dict.fromkeys(chain.from_iterable(by_network.values())):
        names = [name for name, said in by_network.items() if words in said]
        yield words if len(names) == len(by_network) else f"{', '.join(names)}: {words}"


def progress_words(arrays: int, method: str, done: int, total: int) -> str:
    """Return the line of `compare`."""
    return f"{done + 1}/{total}  {method} with {number_of(arrays, 'array')}"


def competitors(methods: Sequence[str] | None, case: Case) -> tuple[str, ...]:
    """Return the methods that compete, each once, `auto` first; None: all that are compared by default.

    Those by default go with the case. Raises SpecError, UnknownNameError.
    """
    if methods is None:
        compared = [method for method in map(method_named, METHODS) if method.compared]
        methods = [method.name for method in compared if fits(method, case)]
    for name in methods:
        method_named(name)
    if not methods:
        raise SpecError("methods", "name at least one method to compare")
    return tuple(sorted(dict.fromkeys(methods), key=lambda name: name != REFERENCE))


def _compared(
    case: Case, arrays: Sequence[int], objectives: Sequence[Objective],
    objective: ComparedObjective, options: CompareOptions,
    cancel: CancelToken, on_progress: CompareProgress | None, clock: bool, before: int, total: int,
) -> Comparison:  # fmt: skip
    network = case.network
    methods = options.methods
    rows: list[Row] = []
    skipped: list[Skipped] = []
    for place, (budget, judged) in enumerate(zip(arrays, objectives, strict=True)):
        shown = case.most_arrays(budget)
        by_method: dict[str, CheckedRuns] = {}
        for number, method in enumerate(methods, start=before + place * len(methods)):
            if on_progress is not None and not cancel.interrupted:
                on_progress(shown, method, number, total)
            begun_s = now_s()
            proposed = None
            try:
                request = Question(objective=objective, method=method, placed=case.placed)
                check_question(case, request)
                proposed = _answers(judged, request, options, cancel)
                clock_s = (now_s() - begun_s) / len(proposed) if clock else None
                by_method[method] = CheckedRuns.of(judged, budget, method, proposed, clock_s)
            except (UnsupportedError, SolverError, PluginError) as error:
                if proposed is not None and method in METHODS:
                    raise  # what a method of this package proposes must survive the check
                skipped.append(Skipped(arrays=shown, method=method, reason=str(error)))
        rows += rows_of(network, shown, judged, by_method)
    about = case.about(units=on_units_of(case.hardware, rows))
    return Comparison(
        **about,
        options=options,
        objective=objective,
        objective_unit=objectives[0].unit,
        rows=tuple(row.model_copy(update={"proof": about["coverage"].qualified(row.proof)}) for row in rows),
        skipped=tuple(skipped),
        warnings=(
            *case.warnings(max(arrays)),
            *_left_out(case, methods),
            *_limits(options),
            *_surprises(rows, methods),
        ),
    )


def _answers(
    objective: Objective, request: Question, options: CompareOptions, cancel: CancelToken
) -> list[tuple[Answer, float | None]]:
    """Return the answers of a method, one a seed if it has seeds, and the work of each.

    Raises SolverError, UnsupportedError.
    """
    count = options.seeds if method_named(request.method).seeded else 1

    def run(seed: int) -> tuple[Answer, float | None]:
        if cancel.interrupted:
            raise SolverError(_INTERRUPTED)
        cores = 1 if count > 1 else None
        stop = Work(work=options.work, time_limit_s=options.time_limit_s, cores=cores, cancel=cancel)
        answer = propose(objective, replace(request, seed=seed), stop)
        if stop.interrupted and request.method != REFERENCE:
            raise SolverError(_INTERRUPTED)
        return answer, stop.counted_s

    if count == 1:
        return [run(options.seed)]
    with ThreadPoolExecutor(min(count, os.cpu_count() or 1)) as pool:
        return list(pool.map(run, range(options.seed, options.seed + count)))


def _limits(options: CompareOptions) -> list[str]:
    """Return notes that the given limits of time and work are those of every single run."""
    of_time = [] if options.time_limit_s is None else [f"the time limit of {options.time_limit_s:g} s"]
    of_work = [] if options.work == DEFAULT_WORK else [f"the work of {options.work} units"]
    return [f"{limit} is of every single run, not of all together" for limit in of_time + of_work]


def _left_out(case: Case, methods: Sequence[str]) -> list[str]:
    """Return a note on methods that are left out by default because they do not go with the case."""
    if case.hardware.kinds is None or methods != competitors(None, case):
        return []
    one = competitors(None, case.on(case.hardware.each_kind[0]))
    left = [name for name in one if name not in methods]
    return [f"not compared, as they know of one kind of arrays: {', '.join(left)}"]


def _surprises(rows: Sequence[Row], methods: Sequence[str]) -> list[str]:
    """Return notes on `auto`: budgets at which it is not the best, or has no row."""
    ratio = {row.arrays: row.ratio for row in rows if row.method == REFERENCE}
    words = [
        f"{row.arrays} arrays: {row.method} beats {REFERENCE}, whose ratio is {ratio[row.arrays]:.4f}"
        for row in rows
        if row.ratio < ratio.get(row.arrays, 0.0)
    ]
    if rows and not {row.arrays for row in rows} <= set(ratio):
        why = "was not compared" if REFERENCE not in methods else "has no row at every budget"
        words.append(f"{REFERENCE} {why}: ratios are to the best of the methods compared there")
    return words


@dataclass(frozen=True, slots=True, eq=False)
class CheckedRun:
    """One run of a method. score: the objective of its answer, exact; counted_s: its work if counted."""

    answer: Answer
    checked: CheckedTiming
    score: float
    counted_s: float | None

    @property
    def makespan(self) -> int:
        """Exact steps."""
        return self.checked.timing.makespan

    @property
    def key(self) -> tuple[float, int, list[int], tuple[Pair, ...]]:
        """Better runs first, without ties between different allocations."""
        timing = self.checked.timing
        return self.score, self.checked.used, timing.copies.tolist(), timing.graph.blocks


@dataclass(frozen=True, slots=True, eq=False)
class CheckedRuns:
    """All runs of a method at a budget, the best first; clock_s: measured, per run, None if it was not."""

    runs: Sequence[CheckedRun]
    clock_s: float | None

    @classmethod
    def of(
        cls, objective: Objective, budget: int, method: str, proposed: Sequence[tuple[Answer, float | None]],
        clock_s: float | None,
    ) -> CheckedRuns:  # fmt: skip
        """Simulate and check the answers of a method. Raises SolverError if a check fails."""
        runs = []
        for answer, counted_s in proposed:
            checked = check_answer(objective.problem, answer, budget, method)
            value = objective.value_of(checked.timing)
            recheck_bound(value, capped_bound(value, answer.lower_bound), objective.unit, method)
            runs.append(CheckedRun(answer, checked, value, counted_s))
        return cls(sorted(runs, key=lambda run: run.key), clock_s)

    @property
    def middle(self) -> CheckedRun:
        """The median run, the better of two."""
        return self.runs[(len(self.runs) - 1) // 2]


def rows_of(
    network: Network, budget: int, objective: Objective, by_method: MappingOf[str, CheckedRuns]
) -> list[Row]:
    """Return the rows of one budget: the reference first, then the fastest first.

    Raises SolverError if a bound that one method proved is above what another one reached.
    """
    if not by_method:
        return []
    base = min(runs.middle.score for runs in by_method.values())
    bound = _bound(objective, by_method)
    rows = [_row(network, budget, name, runs, base, bound) for name, runs in by_method.items()]
    return sorted(rows, key=lambda row: (row.method != REFERENCE, row.ratio, row.makespan, row.method))


def _bound(objective: Objective, by_method: MappingOf[str, CheckedRuns]) -> float:
    """Return the best bound of the objective that any run proved. Raises SolverError if another run is below
    it."""
    every = ((run.answer, name) for name, runs in by_method.items() for run in runs.runs)
    bound, prover = max((answer.lower_bound, name) for answer, name in every)
    least, fastest = min((runs.runs[0].score, name) for name, runs in by_method.items())
    bound = capped_bound(least, bound)
    if least < bound:
        reached = f"{fastest} takes {least:.17g}"
        raise SolverError(
            f"{prover} claims no less than {bound:.17g} {objective.unit}, yet {reached}; please report"
        )
    return bound


def _row(network: Network, budget: int, method: str, runs: CheckedRuns, base: float, bound: float) -> Row:
    run = runs.middle
    timing = run.checked.timing
    absolute = Absolute.of(run.checked.problem.step_time, timing)
    gap = gap_of(run.score, bound)
    unpublished = run.checked.has_shifted_kernels or timing.graph.unit == "ticks"
    return Row.gather(
        absolute,
        run.checked,
        timing,
        run.answer,
        network=network.name,
        arrays=budget,
        method=method,
        ratio=run.score / base if base else 1.0 if run.score == base else math.inf,
        work_s=None if run.counted_s is None else round(run.counted_s, 6),
        clock_s=None if runs.clock_s is None else round(runs.clock_s, 6),
        objective_value=run.score,
        lower_bound=bound,
        gap=gap,
        stopped=stopped_by(gap, run.answer.stopped),
        recurrence=recurrence(timing.graph, timing.copies, timing.handoff, timing.cycles).steps,
        published=None if unpublished else published_steps(network, run.checked.copies),
        **totals(run.checked.problem.metrics(timing), absolute, timing.graph),
        runs=len(runs.runs),
        best=runs.runs[0].makespan,
        median=run.makespan,
        worst=runs.runs[-1].makespan,
        block=run.checked.blocks,
    )
