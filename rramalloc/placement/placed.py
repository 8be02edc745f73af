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

Where stages have their own clocks, the transfer of an edge is a delay instead: its pixels reach the consumer
transfer_ns after their batch has ended (docs/sources/model.md 11). A stage one of whose links is asked for
more bytes than it carries in the time of the batches slows down until the link keeps up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Chip, Hardware
from rramalloc.network.geometry import Pair
from rramalloc.network.network import Network
from rramalloc.placement.arrange import DEFAULT_WORK, Arrangement, arrange, chip_of
from rramalloc.placement.flows import Spread
from rramalloc.placement.links import Loads, routes
from rramalloc.placement.mesh import Ints
from rramalloc.results.allocation import Allocation, EdgeDelay, Placed
from rramalloc.results.optimize import Request, checked_allocation, make_problem, propose
from rramalloc.search.objective import LatencyNs, Makespan
from rramalloc.search.problem import Candidate, Problem, Stop
from rramalloc.timing.access import Transfer
from rramalloc.timing.simulate import makespan_of
from rramalloc.timing.stage_graph import EXACTLY, BatchTicks, StageGraph
from rramalloc.units import plain_quantity


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
    ways, flows = EdgeTransfers.of(found, replication, hardware), found.flows
    fixed, per_copy = np.zeros((2, flows.stages))
    slowest = np.zeros(flows.stages)
    for p, way_ns, queue_ns in zip(flows.producer.tolist(), ways.way_ns, ways.queue_ns, strict=True):
        if way_ns + queue_ns > slowest[p]:
            slowest[p] = way_ns + queue_ns
            fixed[p], per_copy[p] = way_ns, queue_ns / int(replication[p])
    return Transfer(fixed, per_copy)


@dataclass(frozen=True, eq=False)
class EdgeTransfers:
    """Transfers of the edges of a placement, in the order of its flows.

    way_ns: hops of the longest route; queue_ns: time in which the busiest link on the way carries what all
    edges send over it in one batch each; busy: part of the time that it takes up, above 1 if it cannot.
    """

    way_ns: list[float]
    queue_ns: list[float]
    busy: list[float]

    @classmethod
    def of(
        cls, found: Arrangement, replication: Ints, hardware: Hardware, batch_ns: Floats | None = None
    ) -> EdgeTransfers:
        """batch_ns: time of a batch of every stage, None where nothing is asked of how busy a link is.

        Raises SpecError if the hardware lacks a number.
        """
        check_transfer(hardware)
        chip, spread, flows = chip_of(hardware), found.layout.spread, found.flows
        sent = flows.pixel_bytes * flows.block_pixels * replication[flows.producer]
        loads = Loads.total(spread, flows, sent)
        rates = None if batch_ns is None else Loads.total(spread, flows, sent / batch_ns[flows.producer])
        ways: list[tuple[float, float, float]] = []
        for edge, (p, c) in enumerate(zip(flows.producer.tolist(), flows.consumer.tolist(), strict=True)):
            queue_ns, busy = 0.0, 0.0
            for route in routes(spread, flows, edge):
                used = route.pairs > 0
                gb_s = chip.bandwidth_tile_gb_s if route.key is not None else chip.bandwidth_chip_gb_s
                carried = route.of(loads.of_key[route.key])[used]
                queue_ns = max(queue_ns, float(carried.max(initial=0.0)) / (gb_s or 1.0))
                if rates is not None:
                    carried = route.of(rates.of_key[route.key])[used]
                    busy = max(busy, float(carried.max(initial=0.0)) / (gb_s or 1.0))
            ways.append((_longest_ns(spread, p, c, chip), queue_ns, busy))
        return cls([way for way, _, _ in ways], [queue for _, queue, _ in ways], [busy for *_, busy in ways])


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
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class _Round:
    """A candidate, the problem with the transfers of its own placement, and its latency with them.

    transfer_ns: of every stage; known: what the next round is optimised with.
    """

    candidate: Candidate
    problem: Problem
    latency_ns: float
    transfer_ns: list[float]
    known: Transfer | Delays


@dataclass(frozen=True, eq=False)
class Delays:
    """Transfers where stages have their own clocks.

    lags: ticks by (producer, consumer); slower: by how much every stage slows down, 1 where links keep up.
    """

    lags: dict[Pair, int]
    slower: Floats

    def of(self, problem: Problem) -> Problem:
        """The problem with these transfers."""
        graph = problem.graph
        clocks = None if graph.clocks is None else _Slower(graph.clocks, self.slower)
        return replace(problem, graph=graph.timed(clocks, self.lags))


@dataclass(frozen=True, eq=False)
class _Slower:
    """Clocks that are slowed down by links."""

    clocks: Callable[[int, Pair], BatchTicks]
    factors: Floats

    def __call__(self, stage: int, block: Pair) -> BatchTicks:
        ticks, factor = self.clocks(stage, block), float(self.factors[stage])
        return BatchTicks(math.ceil(ticks.least * factor * EXACTLY), ticks.per_copy * factor)


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
    known: Transfer | Delays | None = None
    converged = False
    while len(rounds) < MOST_ROUNDS:
        stop.history.clear()
        candidate = propose(_with(problem, known), request, stop)
        same = [np.array_equal(candidate.replication, each.candidate.replication) for each in rounds]
        if any(same):
            converged = same[-1]
            break
        rounds.append(_placed(problem, candidate, hardware, request.seed))
        known = rounds[-1].known
        if stop.out_of_time:
            break
    best = min(rounds, key=lambda each: each.latency_ns)
    objective = LatencyNs(problem) if problem.graph.clocks is None else Makespan(problem)
    bound = objective.bound(rounds[0].candidate)
    words = plain_quantity(bound, objective.unit)
    proof = f"latency bound {words} without transfer: {rounds[0].candidate.proof}"
    found = replace(best.candidate, objective_bound=bound, proof=proof)
    allocation = checked_allocation(network, hardware, arrays, best.problem, request, stop, found)
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


def _of_edges(graph: StageGraph, lags: dict[Pair, int]) -> dict[Pair, int]:
    """Lags between stages on arrays as those of the edges between all stages.

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


def _with(problem: Problem, known: Transfer | Delays | None) -> Problem:
    if known is None:
        return problem
    if isinstance(known, Delays):
        return known.of(problem)
    if problem.step_time is None:
        raise AssertionError("checked before")
    return replace(problem, step_time=replace(problem.step_time, transfer=known))


def _placed(problem: Problem, candidate: Candidate, hardware: Hardware, seed: int) -> _Round:
    """Place a candidate and time it with the transfers of that placement."""
    copies, tick_ns = candidate.replication, hardware.tick_ns
    placed = problem.on_arrays
    number = np.flatnonzero(problem.graph.weighted)
    own = copies[number]
    found = arrange(placed.graph, placed.demand, own, hardware, work=DEFAULT_WORK, seed=seed)
    ticks = placed.graph.batch_ticks(own)
    known: Transfer | Delays
    if ticks is None:
        known = transfer(found, copies, hardware)
        transfer_ns = known.of_stages(copies).tolist()
    else:
        ways = EdgeTransfers.of(found, own, hardware, ticks.astype(np.float64) * tick_ns)
        lags, slower, slowest = dict[Pair, int](), np.ones(len(copies)), np.zeros(len(copies))
        producers, consumers = number[found.flows.producer].tolist(), number[found.flows.consumer].tolist()
        for p, c, way_ns, queue_ns, busy in zip(
            producers, consumers, ways.way_ns, ways.queue_ns, ways.busy, strict=True
        ):
            lags[p, c] = math.ceil((way_ns + queue_ns) / tick_ns * EXACTLY)
            slower[p] = max(slower[p], busy)
            slowest[p] = max(slowest[p], way_ns + queue_ns)
        known, transfer_ns = Delays(_of_edges(problem.graph, lags), slower), slowest.tolist()
    timed = _with(problem, known)
    if timed.step_time is None:
        raise AssertionError("checked before")
    latency_ns = makespan_of(timed.graph, copies) * timed.step_time.step_ns(copies)
    return _Round(candidate, timed, latency_ns, transfer_ns, known)
