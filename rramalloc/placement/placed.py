"""`optimize --placed`: optimise, place, and optimise again with the transfer time of that placement.

Transfer time: how long a step's outputs take from the tiles that compute them to those that read them.

In a step each copy of a stage yields one pixel (a transposed convolution stride_h x stride_w), which goes to
every consumer. With all stages busy, a link
carries what all edges send over it in one step; an edge needs

    transfer_ns = hops of its longest route, each with its hop_ns + max over its links of load / bandwidth

and a stage as long as the slowest of its edges. It runs beside the access to memory
(docs/sources/model.md 7): the step lasts as long as the slower of them, or the computation. The load of the
slowest link is taken to grow with the stage's own copies, so that a search can trade copies for time; at the
replication that was placed the time is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Chip, Hardware
from rramalloc.network.network import Network
from rramalloc.placement.arrange import DEFAULT_WORK, Arrangement, arrange, chip_of
from rramalloc.placement.flows import Spread
from rramalloc.placement.links import Loads, routes
from rramalloc.placement.mesh import Ints
from rramalloc.results.allocation import Allocation, Placed
from rramalloc.results.optimize import Request, checked_allocation, make_problem, propose
from rramalloc.search.objective import LatencyNs
from rramalloc.search.problem import Candidate, Problem, Stop
from rramalloc.timing.access import StepTime, Transfer
from rramalloc.timing.simulate import makespan_of
from rramalloc.units import duration


def check_transfer(hardware: Hardware) -> None:
    """Raise SpecError unless the hardware gives all times and bandwidths that transfer needs."""
    chip, where = chip_of(hardware), f"hardware {hardware.name[:60]!r}"
    needed = ["hop_ns_tile", "bandwidth_tile_gb_s"]
    if chip.chips != (1, 1):
        needed += ["hop_ns_chip", "bandwidth_chip_gb_s"]
    missing = [name for name in needed if getattr(chip, name) is None]
    if missing:
        raise SpecError(where, f"[chip] has no {' and no '.join(missing)}, which transfer time needs")


def transfer(found: Arrangement, replication: Ints, hardware: Hardware) -> Transfer:
    """The transfer time of every stage of a placement. Raises SpecError if a number is missing."""
    check_transfer(hardware)
    chip, spread, flows = chip_of(hardware), found.layout.spread, found.flows
    loads = Loads.total(spread, flows, flows.pixel_bytes * flows.block_pixels * replication[flows.producer])
    fixed, per_copy = np.zeros((2, flows.stages))
    slowest = np.zeros(flows.stages)
    for edge, (p, c) in enumerate(zip(flows.producer.tolist(), flows.consumer.tolist(), strict=True)):
        queue_ns = 0.0
        for route in routes(spread, flows, edge):
            used = route.of(loads.of_key[route.key])[route.pairs > 0]
            gb_s = chip.bandwidth_tile_gb_s if route.key is not None else chip.bandwidth_chip_gb_s
            queue_ns = max(queue_ns, float(used.max(initial=0.0)) / (gb_s or 1.0))
        way_ns = _longest_ns(spread, p, c, chip)
        if way_ns + queue_ns > slowest[p]:
            slowest[p] = way_ns + queue_ns
            fixed[p], per_copy[p] = way_ns, queue_ns / int(replication[p])
    return Transfer(fixed, per_copy)


def _longest_ns(spread: Spread, producer: int, consumer: int, chip: Chip) -> float:
    """Time of the hops between the two tiles of two stages that are farthest apart."""
    one, other = spread.entries[producer][0], spread.entries[consumer][0]
    longest = 0.0
    for mine in np.unique(one[:, :2], axis=0):
        for yours in np.unique(other[:, :2], axis=0):
            a = one[(one[:, :2] == mine).all(axis=1), 2:]
            b = other[(other[:, :2] == yours).all(axis=1), 2:]
            between = int(np.abs(mine - yours).sum())
            tiles = _apart(a, b) if not between else int(a.sum(axis=1).max() + b.sum(axis=1).max())
            longest = max(longest, tiles * (chip.hop_ns_tile or 0.0) + between * (chip.hop_ns_chip or 0.0))
    return longest


def _apart(one: Ints, other: Ints) -> int:
    """Most hops between two sets of tiles of a mesh, by the four corners of the Manhattan distance."""
    found = 0
    for sign in (1, -1):
        a, b = one[:, 0] + sign * one[:, 1], other[:, 0] + sign * other[:, 1]
        found = max(found, int(a.max() - b.min()), int(b.max() - a.min()))
    return found


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
    measured step times, for mapping "sdk", or for an objective other than latency; else as `optimize`.
    """
    check_transfer(hardware)
    if hardware.timing is None and request.measured is None:
        reason = "has no [timing] and there is no latency table: transfer is compared with the time of a step"
        raise SpecError(f"hardware {hardware.name[:60]!r}", reason)
    if request.objective != "latency":
        raise SpecError("placed", f"is for objective 'latency', the objective is {request.objective!r}")
    if request.mapping.mapping == "sdk":
        raise SpecError(
            "placed",
            "is for copies of one window each: with mapping 'sdk' what a copy sends depends on its block, "
            "which the search chooses; use --mapping im2col, or optimize without --placed",
        )
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
    proof = f"latency bound {duration(bound_ns)} without transfer: {rounds[0].candidate.proof}"
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
