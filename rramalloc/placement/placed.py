"""`optimize --placed`: optimise, place, and optimise again with the transfer time of that placement."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.network.network import Network
from rramalloc.placement.arrange import DEFAULT_WORK, arrange
from rramalloc.placement.transfer import check_transfer, transfer
from rramalloc.results.allocation import Allocation, Placed
from rramalloc.results.optimize import Request, checked_allocation, make_problem, propose
from rramalloc.search.objective import LatencyNs
from rramalloc.search.problem import Candidate, Problem, Stop
from rramalloc.timing.access import StepTime, Transfer
from rramalloc.timing.simulate import makespan_of

MOST_ROUNDS = 8


@dataclass(frozen=True, slots=True, eq=False)
class _Round:
    """A candidate, the step time of its own placement, and its latency with it."""

    candidate: Candidate
    step_time: StepTime
    latency_ns: float


def optimize_placed(
    network: Network, hardware: Hardware, arrays: int, request: Request, stop: Stop
) -> Allocation:
    """The best replication when outputs must also reach the tiles that read them.

    Every round optimises with the transfer times of the placement before it (the first with none), and
    places the result; it ends when a round changes nothing, or returns to an earlier one, or after
    MOST_ROUNDS. The round of least latency is kept. The bound is that of the first round: transfer cannot
    make anything faster. Work and gap of `stop` are those of each round.
    Raises SpecError if the hardware lacks [chip] or one of its times or bandwidths, or [timing] without
    measured step times, or for an objective other than latency; else as `optimize`.
    """
    check_transfer(hardware)
    if hardware.timing is None and request.measured is None:
        reason = "has no [timing] and there is no latency table: transfer is compared with the time of a step"
        raise SpecError(f"hardware {hardware.name[:60]!r}", reason)
    if request.objective != "latency":
        raise SpecError("placed", f"is for objective 'latency', the objective is {request.objective!r}")
    problem = make_problem(network, hardware, arrays, request.mapping, measured=request.measured)
    rounds: list[_Round] = []
    known: Transfer | None = None
    converged = False
    while len(rounds) < MOST_ROUNDS:
        stop.history.clear()
        candidate = propose(_with(problem, known), request, stop)
        same = [np.array_equal(candidate.replication, each.candidate.replication) for each in rounds]
        if any(same):
            converged = same[-1]
            break
        rounds.append(_placed(problem, candidate, hardware, request.seed))
        known = rounds[-1].step_time.transfer
        if stop.out_of_time:
            break
    best = min(rounds, key=lambda each: each.latency_ns)
    bound_ns = LatencyNs(problem).bound(rounds[0].candidate)
    proof = f"latency bound {bound_ns:.6g} ns without transfer: {rounds[0].candidate.proof}"
    found = replace(best.candidate, objective_bound=bound_ns, proof=proof)
    timed = replace(problem, step_time=best.step_time)
    allocation = checked_allocation(network, hardware, arrays, timed, request, stop, found)
    told = Placed(rounds=len(rounds), converged=converged, transfer_ns=_transfer_ns(problem, best))
    return allocation.model_copy(update={"placed": told})


def _with(problem: Problem, known: Transfer | None) -> Problem:
    if problem.step_time is None:
        raise AssertionError("checked before")
    return replace(problem, step_time=replace(problem.step_time, transfer=known))


def _placed(problem: Problem, candidate: Candidate, hardware: Hardware, seed: int) -> _Round:
    copies = candidate.replication
    found = arrange(problem.graph, problem.demand, copies, hardware, work=DEFAULT_WORK, seed=seed)
    step_time = _with(problem, transfer(found, copies, hardware)).step_time
    if step_time is None:
        raise AssertionError("checked before")
    return _Round(candidate, step_time, makespan_of(problem.graph, copies) * step_time.step_ns(copies))


def _transfer_ns(problem: Problem, best: _Round) -> dict[str, float]:
    """Transfer time by layer, in network order."""
    graph, known = problem.graph, best.step_time.transfer
    if known is None:
        raise AssertionError("every round is placed")
    transfer_ns = known.of_stages(best.candidate.replication).tolist()
    return {graph.names[stage]: transfer_ns[stage] for stage in graph.network_order}
