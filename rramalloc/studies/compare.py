"""`compare`: every method on the same problem, each allocation simulated and checked, none believed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
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
from rramalloc.results.comparison import CompareOptions, Comparison, Row, Skipped
from rramalloc.results.optimize import Request, counting_warnings, hardware_warnings, make_problem, propose
from rramalloc.search.objective import Latency
from rramalloc.search.problem import DEFAULT_WORK, Candidate, Problem, Stop
from rramalloc.studies.judged import REFERENCE, Runs, judged, rows_of
from rramalloc.timing.published import ChainLayer, chain_layers
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
