"""`optimize --placed`: optimise, place, and optimise again with the transfer time of that placement.

Transfer time: how long a step's outputs take from the tiles that compute them to those that read them.

In a step each copy of a stage yields one pixel (a transposed convolution stride_h x stride_w), which goes to
every consumer, after the partial sums of copies that lie in several tiles (`transfer`). With all stages busy,
a link carries what all edges and partial sums send over it in one step. Partial sums, and then results, need

    transfer_ns = hops of the longest route, each with its hop_ns + max over its links of load / bandwidth.

A stage needs as long as the slowest of its edges. It runs beside the access to memory
(docs/sources/model.md 7): the step lasts as long as the slower of them, or the computation. The load of the
slowest link is taken to grow with the stage's own copies, so that a search can trade copies for time; at the
copies that were placed the time is exact.

Where stages have their own clocks, the transfer of an edge is a delay instead: its pixels reach the consumer
transfer_ns after their batch has ended (docs/sources/model.md 11). A stage one of whose links is asked for
more bytes than it carries in the time of the batches slows down until the link keeps up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from rramalloc.allocation.allocation import Allocation, EdgeDelay, Placed, left_uncounted
from rramalloc.allocation.case import Case
from rramalloc.allocation.optimize import Request, checked_allocation, distance, objective_of, propose
from rramalloc.commands.place.arrange import PLACEMENT_WORK, arrange
from rramalloc.commands.place.place import StoredNetwork, assembled
from rramalloc.commands.place.transfer import TileRoutes, check_transfer, delays, transfer
from rramalloc.errors import SpecError
from rramalloc.mapping.mode import Mode
from rramalloc.ndarrays import Floats
from rramalloc.network.coverage import Coverage
from rramalloc.network.geometry import Pair
from rramalloc.rounding import EXACTLY
from rramalloc.search.enumeration import every_choice
from rramalloc.search.objective import Latency
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work
from rramalloc.status import Stopped
from rramalloc.timing.simulate import makespan_of
from rramalloc.timing.stage_graph import BatchTicks, Clocks, StageGraph
from rramalloc.units import Unit, plain_quantity

MOST_ROUNDS = 8  # of optimising and placing, where they do not repeat earlier
_PLACING_S = 5e-5  # for an array, until a placement was timed: measured with 20,000 and 60,000 of them
_MOST_PLACING = 0.75  # of a limit of time that is kept for a placement
MOST_PLACED = 150  # allocations of a small problem that are placed, about 20 ms each


class _Round(NamedTuple):
    """The answer, the problem and latency with the transfers of its placement, and those of every stage."""

    answer: Answer
    problem: Problem
    latency_ns: float
    transfer_ns: list[float]


@dataclass(frozen=True, eq=False)
class _Slower:
    """Clocks that are slowed down by links."""

    clocks: Clocks
    factors: Floats

    def __call__(self, stage: int, mode: Mode) -> BatchTicks:
        ticks, factor = self.clocks(stage, mode), float(self.factors[stage])
        compute = tuple(math.ceil(each * factor * EXACTLY) for each in ticks.compute)
        return BatchTicks(compute, ticks.per_copy * factor)


def optimize_placed(case: Case, arrays: int, request: Request, stop: Work) -> Allocation:
    """Return the best copies when outputs must also reach the tiles that read them.

    Every round optimises with the transfer times of the placement before it (the first with none), and
    places the result; it ends when a round changes nothing, or returns to an earlier one, or after
    MOST_ROUNDS. Of a small problem each allocation is placed that may be the fastest. The round of least
    latency is kept. The bound is that of the first round: transfer cannot make anything faster. Work and gap
    of `stop` are those of each round.
    Raises SpecError if the hardware lacks [chip] or one of its times or bandwidths, or [timing] without
    measured step times, for mapping "sdk", or for an objective other than latency; else as `optimize`.
    """
    hardware = case.of_one_kind("--placed").hardware
    check_transfer(hardware)
    if hardware.timing is None and case.measured is None:
        reason = "has no [timing] and there is no latency table: transfer is compared with the time of a step"
        raise SpecError(f"hardware {hardware.name[:60]!r}", reason)
    if request.objective != "latency":
        raise SpecError("placed", f"is for objective 'latency', the objective is {request.objective!r}")
    if case.mapping.mapping == "sdk":
        raise SpecError(
            "placed",
            "is for copies of one window each: with mapping 'sdk' what a copy sends depends on its block, "
            "which the search chooses; use --mapping im2col, or optimize without --placed",
        )
    problem = case.problem(arrays)
    rounds = list[_Round]()
    converged, counted_s = False, 0.0
    if request.method == "auto":
        rounds, converged = _all_that_may_be_faster(case, problem, request.seed, stop)
    limit_s, placing_s = stop.time_limit_s, _PLACING_S * problem.budget
    while not converged and len(rounds) < MOST_ROUNDS:
        stop.history.clear()
        counted_s += stop.taken()
        within = rounds[-1].problem if rounds else problem
        if limit_s is not None:  # the search leaves time to place what it finds
            placing_s = min(placing_s, _MOST_PLACING * limit_s)
            if rounds and stop.seconds + placing_s >= limit_s:
                break
            stop.time_limit_s = limit_s - placing_s
        try:
            answer = propose(objective_of(within, request), request, stop)
        finally:
            stop.time_limit_s = limit_s
        same = [np.array_equal(answer.choice.copies, each.answer.choice.copies) for each in rounds]
        if any(same):
            converged = same[-1]
            break
        begun_s = stop.seconds
        rounds.append(_placed(case, problem, answer, request.seed, stop))
        placing_s = stop.seconds - begun_s
        if stop.out_of_time:
            break
    stop.charge(counted_s)
    best = min(rounds, key=lambda each: (each.latency_ns, each.answer.choice.arrays))
    unit: Unit = "ns" if problem.time_unit == "steps" else problem.time_unit
    bound = rounds[0].answer.lower_bound
    bound = Latency(problem).in_ns(bound) if unit == "ns" else bound
    words = plain_quantity(bound, unit)
    proof = f"latency bound {words} without transfer: {rounds[0].answer.proof}"
    # Steps of a later round are bounded for the transfers that its search began with, not for its own.
    objective = objective_of(best.problem, request)
    found = replace(best.answer, lower_bound=bound, proof=proof)
    stopped = rounds[0].answer.stopped
    if distance(objective, found) <= 0:
        stopped = Stopped.PROOF
    elif stop.out_of_time:
        stopped = stop.cut
    elif stopped is Stopped.PROOF:  # of the time without transfer
        stopped = Stopped.EXHAUSTED
    found = replace(found, stopped=stopped)
    allocation = checked_allocation(case, arrays, objective, request, stop, found)
    graph = problem.graph
    transfer_ns = {
        graph.names[stage]: best.transfer_ns[stage] for stage in graph.network_order if graph.weighted[stage]
    }
    delays = [
        EdgeDelay(producer=graph.names[p], consumer=graph.names[c], ticks=ticks)
        for (p, c), ticks in best.problem.graph.lags.items()
    ]
    placed = Placed(
        rounds=len(rounds), converged=converged, transfer_ns=transfer_ns, delays=tuple(delays) or None
    )
    coverage = Coverage.of(case.network, graph.names)
    counted = left_uncounted(hardware, coverage, with_links=True)
    return allocation.model_copy(update={"placed": placed, "not_counted": counted})


def _all_that_may_be_faster(case: Case, problem: Problem, seed: int, stop: Work) -> tuple[list[_Round], bool]:
    """Place the allocations of a small problem, those that are fastest without transfer first.

    Returns the placed ones, and whether all others take longer than the best of these even without transfer;
    none where the problem is not small, or too many would have to be placed.
    """
    every = every_choice(problem, stop)
    if every is None:
        return [], False
    latency, rounds, best_ns = Latency(problem), list[_Round](), math.inf
    values = [latency.value(found) for found in every]
    least, words = min(values), f"all {len(every)} allocations timed, each placed that may be faster"
    for at in sorted(range(len(every)), key=lambda at: (values[at], every[at].arrays)):
        if latency.in_ns(values[at]) >= best_ns:
            return rounds, True
        if len(rounds) == MOST_PLACED or stop.out_of_time:
            return [], False
        answer = Answer(every[at], least, words, stopped=Stopped.PROOF)
        rounds.append(_placed(case, problem, answer, seed, stop))
        best_ns = min(best_ns, rounds[-1].latency_ns)
    return rounds, True


def _of_edges(graph: StageGraph, lags: dict[Pair, int]) -> dict[Pair, int]:
    """Return the lags between stages on arrays as those of the edges between all stages.

    A digital node with a rate has no tile of its own: what leaves it is as late as the slowest transfer to
    its consumer from a stage on arrays that it got pixels of.
    """
    origins: list[set[int]] = [set() for _ in graph.stages]
    found: dict[Pair, int] = {}
    for edge in graph.edges:  # grouped by consumer, producers first
        p, c = edge.producer, edge.consumer
        sent = {p} if graph.weighted[p] else origins[p]
        origins[c] |= sent
        if graph.weighted[c]:
            found[p, c] = max((lags.get((origin, c), 0) for origin in sent), default=0)
    return found


def _placed(case: Case, problem: Problem, answer: Answer, seed: int, stop: Work) -> _Round:
    """Place an answer and time it with the transfers of that placement."""
    hardware, copies, tick_ns = case.hardware, answer.choice.copies, case.hardware.tick_ns
    graph, placed, step_time = problem.graph, problem.on_arrays.graph, problem.step_time
    if step_time is None:
        raise AssertionError("checked before")
    number = np.flatnonzero(graph.weighted)
    own = copies[number]
    stored = StoredNetwork.of_copies(placed, own, hardware, case.mapping)
    found = arrange(placed, stored.held, hardware, work=PLACEMENT_WORK, seed=seed, stop=stop)
    routes = TileRoutes.of(assembled(found.layout, placed.names), placed.names, found.flows, own)
    if placed.unit == "steps":
        known = transfer(routes, hardware)
        transfer_ns = known.of_stages(copies)
        timed = replace(problem, step_time=replace(step_time, transfer=known))
    else:
        every = delays(routes, hardware, placed.batch_ticks(own).astype(np.float64) * tick_ns)
        slower, transfer_ns = np.ones(len(copies)), np.zeros(len(copies))
        for p, delay in zip(number[routes.sender].tolist(), every, strict=True):
            slower[p], transfer_ns[p] = max(slower[p], delay.busy), max(transfer_ns[p], delay.ns)
        endpoints = zip(
            *(number[end].tolist() for end in (found.flows.producer, found.flows.consumer)), strict=True
        )
        lags = {
            edge: math.ceil(delay.ns / tick_ns * EXACTLY)
            for edge, delay in zip(endpoints, every[len(routes.sums) :], strict=True)
        }
        clocks = _Slower(graph.clocks, slower)
        timed = replace(problem, graph=graph.timed(clocks).delayed(_of_edges(graph, lags)))
    latency_ns = makespan_of(timed.graph, copies) * (timed.step_time or step_time).step_ns(copies)
    return _Round(answer, timed, latency_ns, transfer_ns.tolist())
