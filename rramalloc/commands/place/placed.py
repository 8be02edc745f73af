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
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rramalloc.allocation.allocation import Allocation, EdgeDelay, Placed
from rramalloc.allocation.case import Case
from rramalloc.allocation.optimize import checked_allocation, objective_of, propose
from rramalloc.allocation.question import Question
from rramalloc.commands.place.arrange import arrange
from rramalloc.commands.place.place import StoredNetwork
from rramalloc.commands.place.transfer import TransferTimer, check_transfer
from rramalloc.errors import SpecError
from rramalloc.rounding import SAME_SUM
from rramalloc.search.enumeration import every_choice
from rramalloc.search.objective import Latency
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work
from rramalloc.status import Stopped
from rramalloc.units import Unit, plain_quantity

MOST_ROUNDS = 8  # of optimising and placing, where they do not repeat earlier
MOST_PLACED = 150  # allocations of a small problem that are placed, about 40 ms each
_PLACING_S = 5e-5  # for an array, until a placement was timed: measured with 20,000 and 60,000 of them
_MOST_PLACING = 0.75  # of a limit of time that is kept for a placement
_WORK_OF_EACH = 4  # units of its placement
_LEADERS = 6  # of them that are placed again, with as much work as pays
_FIRST = 0.7  # of the work, for the first search for copies
_LATER = 0.1  # of the work, for each search with the transfers of a placement


class _Round(NamedTuple):
    """The answer, the problem and latency with the transfers of its placement, and those of every stage.

    is_hidden: whether they take no time beside the rest.
    """

    answer: Answer
    problem: Problem
    latency_ns: float
    transfer_ns: list[float]
    is_hidden: bool


def optimize_placed(case: Case, arrays: int, request: Question, stop: Work) -> Allocation:
    """Return the best copies when outputs must also reach the tiles that read them.

    Every round optimises with the transfer times of the placement before it (the first with none), and
    places the result, which moves arrays until transfers take as little as can be found. It ends when they
    take no time beside the rest, when a round changes nothing or returns to an earlier one, or when the work
    is used up. Of a small problem each allocation is placed that may be the fastest. The round of least
    latency is kept. The bound is that of the first round: transfer cannot make anything faster.
    Raises SpecError if the hardware lacks [chip] or one of its times or bandwidths, or [timing] without
    measured step times; else as `optimize`.
    """
    hardware = case.hardware
    check_transfer(hardware)
    if hardware.timing is None and case.measured is None:
        reason = "has no [timing] and there is no latency table: transfer is compared with the time of a step"
        raise SpecError(f"hardware {hardware.name[:60]!r}", reason)
    problem = case.problem(arrays)
    rounds = list[_Round]()
    converged, counted_s = False, 0.0
    if request.method == "auto":
        rounds, converged = _all_that_may_be_faster(case, problem, request.seed, stop)
    limit_s, placing_s = stop.time_limit_s, _PLACING_S * problem.budget
    while not converged and len(rounds) < MOST_ROUNDS:
        if rounds and counted_s >= stop.work_s:
            break
        stop.history.clear()
        within = rounds[-1].problem if rounds else problem
        turn = replace(stop, work=_part_of(stop.work, first=not rounds), spent_s=0.0)
        if limit_s is not None:  # the search leaves time to place what it finds
            placing_s = min(placing_s, _MOST_PLACING * limit_s)
            if rounds and stop.seconds + placing_s >= limit_s:
                break
            turn.time_limit_s = limit_s - placing_s
        answer = propose(objective_of(within, request), request, turn)
        counted_s, stop.counts = counted_s + turn.spent_s, turn.counts
        same = [np.array_equal(answer.choice.copies, each.answer.choice.copies) for each in rounds]
        if any(same):
            converged = same[-1]
            break
        begun_s = stop.seconds
        rounds.append(_placed(case, problem, answer, request.seed, stop))
        placing_s = stop.seconds - begun_s
        converged = rounds[-1].is_hidden
        if converged or stop.out_of_time:
            break
    stop.charge(counted_s)
    best = min(rounds, key=lambda each: (each.latency_ns, each.answer.choice.arrays))
    unit: Unit = "ns" if problem.time_unit == "steps" else problem.time_unit
    bound = rounds[0].answer.lower_bound
    bound = Latency(problem).in_ns(bound) if unit == "ns" else bound
    words = plain_quantity(bound, unit)
    how = rounds[0].answer.proof
    if not best.is_hidden:  # what is proven is the bound
        how = how.removeprefix("proven optimal: ")
    proof = f"latency bound {words} without transfer: {how}"
    # Steps of a later round are bounded for the transfers that its search began with, not for its own.
    objective = objective_of(best.problem, request)
    found = replace(best.answer, lower_bound=bound, proof=proof)
    stopped = stop.cut if stop.out_of_time or not stop.work else rounds[0].answer.stopped
    found = replace(found, stopped=stopped)
    allocation = checked_allocation(case, arrays, objective, request, stop, found, with_links=True)
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
    return allocation.model_copy(update={"placed": placed})


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
            break
        if len(rounds) == MOST_PLACED or stop.out_of_time:
            return [], False
        answer = Answer(every[at], least, words, stopped=Stopped.PROOF)
        rounds.append(_placed(case, problem, answer, seed, stop, _WORK_OF_EACH))
        best_ns = min(best_ns, rounds[-1].latency_ns)
    leaders = sorted(rounds, key=lambda each: each.latency_ns)[:_LEADERS]
    again = [_placed(case, problem, each.answer, seed, stop) for each in leaders if not each.is_hidden]
    return [*rounds, *again], True


def _part_of(work: int, *, first: bool) -> int:
    """Return the units of work of a search for copies."""
    return min(work, max(1, round(work * (_FIRST if first else _LATER))))


def _placed(
    case: Case, problem: Problem, answer: Answer, seed: int, stop: Work, work: int | None = None
) -> _Round:
    """Place an answer and time it with the transfers of that placement."""
    hardware, copies = case.hardware, answer.choice.copies
    if problem.step_time is None:
        raise AssertionError("checked before")
    timer = TransferTimer(problem.graph, copies, problem.step_time, hardware)
    placed = problem.on_arrays.graph
    held = StoredNetwork.of_copies(placed, timer.placed_copies, hardware, case.mapping).held
    times = arrange(placed, held, hardware, work=work, seed=seed, stop=stop, timer=timer).times
    if times is None:
        raise AssertionError("a timer was given")
    timed = replace(problem, graph=times.graph, step_time=times.step_time)
    is_hidden = times.factor <= 1 + SAME_SUM
    return _Round(answer, timed, times.latency_ns, times.transfer_ns.tolist(), is_hidden)
