"""`compare`: every method on the same problem, each allocation simulated and checked, none believed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from collections.abc import Mapping as MappingOf
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from rramalloc.compiled import clock
from rramalloc.errors import SolverError, SpecError, UnsupportedError
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.options import DEFAULT_MAPPING, MappingOptions
from rramalloc.methods.registry import METHODS, method_named
from rramalloc.network.coverage import Coverage
from rramalloc.network.network import Network
from rramalloc.results.allocation import NetworkId
from rramalloc.results.comparison import REFERENCE, CompareOptions, Comparison, Row, Skipped
from rramalloc.results.optimize import Request, counting_warnings, hardware_warnings, make_problem, propose
from rramalloc.results.recheck import recheck, recheck_placement
from rramalloc.search.objective import Latency, Objective, within
from rramalloc.search.problem import DEFAULT_WORK, Candidate, Problem, Stop
from rramalloc.timing.published import ChainLayer, chain_layers, published
from rramalloc.timing.recurrence import recurrence
from rramalloc.timing.simulate import Timing, simulate
from rramalloc.version import __version__

_INTERRUPTED = "interrupted before it was ready"

CompareProgress = Callable[[int, str, int, int], None]
"""Called with (budget, method, runs before it, runs in all) when a method begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """Which methods compete and on what terms.

    methods: None for all that are compared by default; seeds: runs of each seeded method, from `seed` on;
    work, time_limit_s: of every single run; clock: whether time is measured too.
    """

    mapping: MappingOptions = DEFAULT_MAPPING
    methods: Sequence[str] | None = None
    seed: int = 0
    seeds: int = 5
    work: int = DEFAULT_WORK
    time_limit_s: float | None = None
    clock: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Methods that compete, each once, `auto` first. Raises SpecError, UnknownNameError."""
        chosen = self.methods
        if chosen is None:
            chosen = [name for name in METHODS if method_named(name).compared]
        for name in chosen:
            method_named(name)
        if not chosen:
            raise SpecError("methods", "name at least one method to compare")
        return tuple(sorted(dict.fromkeys(chosen), key=lambda name: name != REFERENCE))


@dataclass(slots=True)
class Ending:
    """Ends a comparison from outside (Ctrl-C): what runs is told to stop, and nothing else begins."""

    _interrupted: bool = False
    _running: list[Stop] = field(default_factory=list)

    @property
    def interrupted(self) -> bool:
        """Whether the end was asked for; to be set."""
        return self._interrupted

    @interrupted.setter
    def interrupted(self, asked: bool) -> None:
        self._interrupted = asked
        for stop in self._running:
            stop.interrupted = asked

    def stop(self, contest: Contest, cores: int | None) -> Stop:
        """The stop of one run, which ends with this."""
        made = Stop(work=contest.work, time_limit_s=contest.time_limit_s, cores=cores)
        self._running.append(made)
        made.interrupted = self._interrupted
        return made


def compare(
    network: Network, hardware: Hardware, arrays: Sequence[int], contest: Contest, ending: Ending,
    on_progress: CompareProgress | None = None,
) -> Comparison:  # fmt: skip
    """All methods at every budget. A method that does not apply or finds nothing is told under `skipped`.

    Interrupted, it has what was ready by then. Raises BudgetError, PlacementError, TileError, SpecError,
    UnknownNameError before anything runs; SolverError if an allocation does not survive the check.
    """
    methods = contest.names
    objectives = [Latency(make_problem(network, hardware, budget, contest.mapping)) for budget in arrays]
    chain = _chain(network)
    rows: list[Row] = []
    skipped: list[Skipped] = []
    total = len(methods) * len(objectives)
    for place, (budget, objective) in enumerate(zip(arrays, objectives, strict=True)):
        ready: dict[str, Runs] = {}
        for number, method in enumerate(methods, start=place * len(methods)):
            if on_progress is not None and not ending.interrupted:
                on_progress(budget, method, number, total)
            begun = clock()
            try:
                found = _candidates(objective.problem, method, contest, ending)
            except (UnsupportedError, SolverError) as error:
                skipped.append(Skipped(arrays=budget, method=method, reason=str(error)))
                continue
            clock_s = (clock() - begun) / len(found) if contest.clock else None
            ready[method] = judged(objective, budget, method, found, clock_s)
        rows += rows_of(network.name, budget, objective, ready, chain)
    if not rows and not ending.interrupted:
        raise UnsupportedError(network.where, f"no method gave an allocation: {skipped[0].reason}")
    coverage = Coverage.of(network, objectives[0].problem.graph.names)
    return Comparison(
        rramalloc_version=__version__,
        network=NetworkId.of(network),
        hardware=hardware,
        options=CompareOptions(
            **dict(contest.mapping), methods=methods, seed=contest.seed, seeds=contest.seeds,
            work=contest.work, time_limit_s=contest.time_limit_s,
        ),
        objective=Latency.name,
        objective_unit=objectives[0].unit,
        rows=tuple(row.model_copy(update={"proof": coverage.qualified(row.proof)}) for row in rows),
        skipped=tuple(skipped),
        coverage=coverage,
        warnings=(
            *network.warnings, *hardware_warnings(hardware, max(arrays)),
            *counting_warnings(network, objectives[0].problem.graph, hardware, contest.mapping, max(arrays)),
            *_surprises(rows, methods),
        ),
    )  # fmt: skip


def _candidates(problem: Problem, method: str, contest: Contest, ending: Ending) -> list[Candidate]:
    """What a method proposes, with every seed if it has any. Raises SolverError, UnsupportedError."""
    count = contest.seeds if method_named(method).seeded else 1

    def run(seed: int) -> Candidate:
        if ending.interrupted:
            raise SolverError(_INTERRUPTED)
        request = Request(mapping=contest.mapping, method=method, seed=seed)
        stop = ending.stop(contest, cores=1 if count > 1 else None)
        found = propose(problem, request, stop)
        if stop.interrupted and method != REFERENCE:
            raise SolverError(_INTERRUPTED)
        return found

    if count == 1:
        return [run(contest.seed)]
    with ThreadPoolExecutor(min(count, os.cpu_count() or 1)) as pool:
        return list(pool.map(run, range(contest.seed, contest.seed + count)))


def _chain(network: Network) -> tuple[ChainLayer, ...]:
    """The layers as the published recurrence sees them, none if it does not cover the network."""
    try:
        return chain_layers(network)
    except UnsupportedError:
        return ()


def _surprises(rows: Sequence[Row], methods: Sequence[str]) -> list[str]:
    """What a reader must know of the ratios: against what they are, and where `auto` is not the best."""
    there = {row.arrays for row in rows if row.method == REFERENCE}
    words = [
        f"{row.arrays} arrays: {row.method} is faster than {REFERENCE}, ratio {row.ratio:.4f}"
        for row in rows
        if row.arrays in there and row.ratio < 1
    ]
    if rows and not {row.arrays for row in rows} <= there:
        why = "was not compared" if REFERENCE not in methods else "has no row at every budget"
        words.append(f"{REFERENCE} {why}: ratios are to the best of the methods compared there")
    return words


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One run of a method, simulated. score: the objective."""

    candidate: Candidate
    timing: Timing
    score: float
    used: int

    @property
    def key(self) -> tuple[float, int, list[int]]:
        """Better runs first, without ties between different allocations."""
        return self.score, self.used, self.timing.replication.tolist()


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """All runs of a method at a budget, the best first; clock_s: measured, per run, None if it was not."""

    runs: Sequence[Run]
    clock_s: float | None

    @property
    def middle(self) -> Run:
        """The median run, the better of two."""
        return self.runs[(len(self.runs) - 1) // 2]


def judged(
    objective: Objective, budget: int, method: str, found: Sequence[Candidate], clock_s: float | None
) -> Runs:
    """What a method proposed, simulated and checked. Raises SolverError for what does not hold."""
    runs = [_judged(objective, budget, method, candidate) for candidate in found]
    return Runs(sorted(runs, key=lambda run: run.key), clock_s)


def _judged(objective: Objective, budget: int, method: str, found: Candidate) -> Run:
    problem = objective.problem
    timing = simulate(problem.graph, found.replication)
    recheck(timing, problem.arrays_of_stages(timing.replication).tolist(), budget, found.lower_bound, method)
    if problem.tiles is not None:
        recheck_placement(problem.tiles, problem.demand, timing.replication, method)
    return Run(found, timing, objective.value(timing), problem.arrays(timing.replication))


def rows_of(
    network: str, budget: int, objective: Objective, found: MappingOf[str, Runs], chain: Sequence[ChainLayer]
) -> list[Row]:
    """The rows of one budget: the reference first, then the fastest first.

    chain: the layers as the published recurrence sees them, none if it does not cover the network.
    Raises SolverError if a bound that one method proved is above what another one reached.
    """
    if not found:
        return []
    reference = found.get(REFERENCE)
    base = reference.middle.score if reference else min(runs.middle.score for runs in found.values())
    bound = _bound(objective, found)
    rows = [_row(network, budget, objective, name, runs, chain, base, bound) for name, runs in found.items()]
    return sorted(rows, key=lambda row: (row.method != REFERENCE, row.ratio, row.makespan, row.method))


def _bound(objective: Objective, found: MappingOf[str, Runs]) -> float:
    """The best bound of the objective that any run proved. Raises SolverError if another run is below it."""
    every = ((run.candidate, name) for name, runs in found.items() for run in runs.runs)
    bound, prover = max((objective.bound(candidate), name) for candidate, name in every)
    least, fastest = min((runs.runs[0].score, name) for name, runs in found.items())
    bound = within(least, bound)
    if least < bound:
        reached = f"{fastest} takes {least:.17g}"
        raise SolverError(
            f"{prover} claims no less than {bound:.17g} {objective.unit}, yet {reached}; please report"
        )
    return bound


def _row(
    network: str, budget: int, objective: Objective, method: str, found: Runs, chain: Sequence[ChainLayer],
    base: float, bound: float,
) -> Row:  # fmt: skip
    problem, run = objective.problem, found.middle
    graph = problem.graph
    timing, makespan = run.timing, run.timing.makespan
    step_ns = None if problem.step_time is None else problem.step_time.step_ns(timing.replication)
    copies = dict(zip(graph.names, timing.replication.tolist(), strict=True))
    seconds = run.candidate.seconds
    return Row(
        network=network,
        arrays=budget,
        method=method,
        makespan=makespan,
        interval=timing.interval,
        used=run.used,
        ratio=run.score / base,
        seconds=None if seconds is None else round(seconds, 6),
        clock_s=None if found.clock_s is None else round(found.clock_s, 6),
        objective_value=run.score,
        lower_bound=bound,
        gap=(run.score - bound) / run.score,
        recurrence=recurrence(graph, timing.replication).steps,
        published=published(chain, [copies[layer.name] for layer in chain]).steps if chain else None,
        step_ns=step_ns,
        latency_ns=None if step_ns is None else makespan * step_ns,
        repaired=run.candidate.repaired,
        runs=len(found.runs),
        best=found.runs[0].timing.makespan,
        median=makespan,
        worst=found.runs[-1].timing.makespan,
        proof=run.candidate.proof,
        replication={graph.names[stage]: copies[graph.names[stage]] for stage in graph.network_order},
    )
