"""Rows of a comparison: what methods proposed, simulated and checked, and set against each other."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from dataclasses import dataclass

from rramalloc.errors import SolverError
from rramalloc.results.check import recheck, recheck_placement
from rramalloc.results.comparison import Row
from rramalloc.search.objective import Objective, within
from rramalloc.search.problem import Candidate
from rramalloc.timing.published import ChainLayer, published
from rramalloc.timing.recurrence import recurrence
from rramalloc.timing.simulate import Timing, simulate

REFERENCE = "auto"
"""The method that ratios are to."""


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
