"""Transfers over a placement: what stages send each other, and the partial sums within their copies.

One model for all that asks: the traffic and links of `place` (which `layout` minimises), what `--placed` adds
to the time of a step or an edge, and the cost on chiplets.
An array yields its column block's part of the outputs. The arrays of a column block hold one row block each,
or a slice or polarity of one: a tile adds up what its own arrays yield, and its partial sum travels to the
tile of the last row block. Results leave from there for the units of the reader, evenly over all pairs of an
array that sends and a unit that receives. A unit is a row block of a copy: its arrays, in all column blocks
and planes, read the same inputs, which are sent to each of its tiles, over each link once. Routes are those
of `Mesh`: XY routing, between chips by way of tile (0, 0) of both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rramalloc.commands.place.layout import Flows, Layout, Sent
from rramalloc.commands.place.links import (
    HeldArrays,
    LinkCaps,
    LinkKey,
    LinkRoute,
    Loads,
    Readers,
    distinct,
    routes,
    single_routes,
)
from rramalloc.commands.place.mesh import Hops, chip_of, hops_apart
from rramalloc.commands.place.placement import PlacedArray
from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.blocks import Block
from rramalloc.mapping.mode import Mode
from rramalloc.mapping.tiles import Site
from rramalloc.ndarrays import Floats, Ints
from rramalloc.network.geometry import Pair
from rramalloc.rounding import EXACTLY
from rramalloc.timing.access import StepTime, Transfer
from rramalloc.timing.simulate import simulate
from rramalloc.timing.stage_graph import BatchTicks, Clocks, StageGraph


@dataclass(eq=False)
class TileRoute:
    """Traffic between tiles.

    shares: equal parts of what it carries; find_routes: yields its links, and how many shares go over each;
    find_hops: yields hops inside chips, between them, and so many pairs of arrays.
    """

    shares: int
    find_routes: Callable[[], Iterable[LinkRoute]]
    find_hops: Callable[[], Iterable[tuple[Ints, Ints, Ints]]]

    @cached_property
    def routes(self) -> tuple[LinkRoute, ...]:
        """Its links by XY routing."""
        return tuple(self.find_routes())

    def mean_hops(self, chip_hop: float) -> float:
        """Return the mean of the hops of a byte, those between chips weighted, each link of a unit's way
        once."""
        within, between = (
            sum(int(route.pairs.sum()) for route in self.routes if (route.key is None) is apart)
            for apart in (False, True)
        )
        return (within + chip_hop * between) / max(self.shares, 1)

    def onto(self, loads: Loads, size_bytes: float) -> None:
        """Add the load of its links for `size_bytes` bytes."""
        for route in self.routes:
            loads.add(route, size_bytes / self.shares)

    def hops(self) -> Hops:
        """Return the hops over all pairs of arrays that something is sent between."""
        found = np.zeros(3, dtype=np.int64)
        for inside, between, pairs in self.find_hops():
            found += ((inside * pairs).sum(), (between * pairs).sum(), pairs[inside + between > 0].sum())
        return Hops(*found.tolist())

    def longest_ns(self, inside_ns: float, between_ns: float) -> float:
        """Time of the hops of the pair that is farthest apart."""
        return max(
            float((inside * inside_ns + between * between_ns).max(initial=0.0))
            for inside, between, _ in self.find_hops()
        )

    def slowest_ns(self, loads: Loads, tile_gb_s: float | None, chip_gb_s: float | None) -> float:
        """Return the time [ns] of the slowest link on the route for its load; unlimited links take none."""
        slowest = 0.0
        for route in self.routes:
            gb_s = tile_gb_s if route.key is not None else chip_gb_s
            if gb_s is not None:
                carried = route.of(loads.of_key[route.key])[route.pairs > 0]
                slowest = max(slowest, float(carried.max(initial=0.0)) / gb_s)
        return slowest


class Endpoints(NamedTuple):
    """Tiles that receive the inputs of a stage and send its results, and the route of partial sums."""

    receives: Readers
    sends: HeldArrays
    sums: TileRoute

    @classmethod
    def of(cls, held: Iterable[tuple[int, Block | PlacedArray, Site]]) -> Endpoints:
        """Return the ends of the arrays of one stage: the copy, what an array holds of it, and its tile."""
        sent = Sent.of(held)
        moved: dict[tuple[Site, Site], list[int]] = {}
        for (target, sources), (blocks, columns) in sent.sums.items():
            for source in sources:
                both = moved.setdefault((source, target), [0, 0])
                both[0] += blocks
                both[1] += columns
        table = _table([(*source, *target, *both) for (source, target), both in sorted(moved.items())], 10)
        rows = [(unit, *at, n) for unit, (tiles, n) in enumerate(sent.units.items()) for at in tiles]
        receiving, sending = _table(rows, 6), _table([(*at, n) for at, n in sorted(sent.sends.items())], 5)
        readers = Readers(receiving[:, 0], receiving[:, 1:5], receiving[:, 5])
        sums = _partial_sums(table[:, :4], table[:, 4:8], *table[:, 8:].T)
        return cls(readers, HeldArrays(sending[:, :4], sending[:, 4]), sums)


def _table(rows: Sequence[tuple[int, ...]], wide: int) -> Ints:
    return np.array(rows, dtype=np.int64).reshape(-1, wide)


def _results(source: HeldArrays, target: Readers) -> TileRoute:
    """Return the route of results, spread evenly over pairs of a sending array and a receiving unit."""

    def hops() -> Iterator[tuple[Ints, Ints, Ints]]:
        sites, which = distinct(target.place)
        units = np.bincount(which, target.weight).astype(np.int64)
        for site, count in zip(source.sites, source.held.tolist(), strict=True):
            yield *hops_apart(site, sites), count * units

    return TileRoute(int(source.held.sum()) * target.units, lambda: routes(source, target), hops)


def _partial_sums(source: Ints, target: Ints, blocks: Ints, columns: Ints) -> TileRoute:
    """Return the route of partial sums from tiles to those where they are added, shape (k, 4) both.

    blocks, columns: int64 (k,), of so many column blocks, with so many columns together, which are shares.
    """
    hops = (*hops_apart(source, target), blocks)
    return TileRoute(int(columns.sum()), lambda: single_routes(source, target, columns), lambda: [hops])


@dataclass(frozen=True, eq=False)
class TileRoutes:
    """All that the stages of a placement send: the partial sums of every stage, the results of every flow."""

    flows: Flows
    copies: Ints
    sums: tuple[TileRoute, ...]
    results: tuple[TileRoute, ...]

    @classmethod
    def of(
        cls, arrays: Iterable[PlacedArray], names: Sequence[str], flows: Flows, copies: Ints
    ) -> TileRoutes:
        """Return all routes. names, copies: of the stages."""
        of_layer: dict[str, list[tuple[int, PlacedArray, Site]]] = {name: [] for name in names}
        for array in arrays:
            of_layer[array.layer].append((array.replica, array, (*array.chip, *array.tile)))
        return cls._between([Endpoints.of(held) for held in of_layer.values()], flows, copies)

    @classmethod
    def of_layout(cls, layout: Layout) -> TileRoutes:
        """Return all routes of the arrays of a layout."""
        pieces = layout.pieces
        of_stage: list[list[tuple[int, Block, Site]]] = [[] for _ in pieces.held]
        for stage, replica, site, blocks in layout.contents():
            of_stage[stage] += [(replica, block, site) for block in blocks]
        copies = np.array([each.copies for each in pieces.held], dtype=np.int64)
        return cls._between([Endpoints.of(held) for held in of_stage], pieces.flows, copies)

    @classmethod
    def _between(cls, endpoints: Sequence[Endpoints], flows: Flows, copies: Ints) -> TileRoutes:
        edges = zip(flows.producer.tolist(), flows.consumer.tolist(), strict=True)
        results = tuple(_results(endpoints[p].sends, endpoints[c].receives) for p, c in edges)
        return cls(flows, copies, tuple(own.sums for own in endpoints), results)

    def __iter__(self) -> Iterator[TileRoute]:
        return iter((*self.sums, *self.results))

    @property
    def sender(self) -> Ints:
        """The stage that sends each of them."""
        return np.concatenate([np.arange(len(self.sums)), self.flows.producer])

    @property
    def receiver(self) -> Ints:
        """The stage that each of them goes to."""
        return np.concatenate([np.arange(len(self.sums)), self.flows.consumer])

    @property
    def input_bytes(self) -> Floats:
        """Bytes that each carries per input of the network."""
        of_column = self.flows.column_bytes * self.flows.blocks / self.copies
        return np.concatenate([of_column * self._columns, self.flows.size_bytes])

    @property
    def batch_bytes(self) -> Floats:
        """Bytes that each carries per batch of its sender."""
        pixels = self.flows.block_pixels * self.copies[self.flows.producer]
        return np.concatenate([self.flows.column_bytes * self._columns, self.flows.pixel_bytes * pixels])

    def byte_hops(self, chip_hop: float) -> float:
        """Return the bytes x hops of all routes per input of the network."""
        hops = [route.mean_hops(chip_hop) for route in self]
        return math.fsum((self.input_bytes * hops).tolist())

    @property
    def _columns(self) -> Ints:
        return np.array([route.shares for route in self.sums], dtype=np.int64)

    def loads(self, size_bytes: Floats) -> Loads:
        """Return the loads of all links if each route carries its number of bytes."""
        loads = Loads()
        for route, size in zip(self, size_bytes.tolist(), strict=True):
            route.onto(loads, size)
        return loads


def times_transfer(hardware: Hardware) -> bool:
    """Return True if the chip gives hops or links a time; what it does not give takes none.

    Raises SpecError without [chip].
    """
    return bool(chip_of(hardware).given_links)


def check_transfer(hardware: Hardware) -> None:
    """Raise SpecError unless the hardware gives a time of a hop or the bandwidth of a link."""
    if not times_transfer(hardware):
        names = " or ".join(chip_of(hardware).link_fields)
        reason = f"[chip] has no {names}, of which transfer time needs one"
        raise SpecError(f"hardware {hardware.name[:60]!r}", reason)


class Delay(NamedTuple):
    """Delay of a route.

    hops_ns: time of the hops of its longest path; queue_ns: time in which its busiest link carries what all
    stages send over it in one batch each; busy: part of the time that this takes, above 1 if it cannot.
    """

    hops_ns: float
    queue_ns: float
    busy: float

    @property
    def ns(self) -> float:
        """Time from the end of a batch to the arrival of its pixels."""
        return self.hops_ns + self.queue_ns


def delays(tile_routes: TileRoutes, hardware: Hardware, rates: Loads | None = None) -> list[Delay]:
    """Return the delays of all routes in their order; results leave once the partial sums are there.

    rates: bytes a ns over every link with all stages at work, None where nothing is asked of how busy it is.
    Raises SpecError if the hardware lacks a number.
    """
    check_transfer(hardware)
    chip, sent = chip_of(hardware), tile_routes.batch_bytes
    inside, between = chip.hop_ns_tile or 0.0, chip.hop_ns_chip or 0.0
    bandwidths = chip.bandwidth_tile_gb_s, chip.bandwidth_chip_gb_s
    loads = tile_routes.loads(sent)
    found = [
        Delay(
            route.longest_ns(inside, between),
            route.slowest_ns(loads, *bandwidths),
            0.0 if rates is None else route.slowest_ns(rates, *bandwidths),
        )
        for route in tile_routes
    ]
    for at, p in enumerate(tile_routes.flows.producer.tolist(), len(tile_routes.sums)):
        (hops_ns, queue_ns, busy), sums = found[at], found[p]
        found[at] = Delay(hops_ns + sums.hops_ns, queue_ns + sums.queue_ns, max(busy, sums.busy))
    return found


def transfer(tile_routes: TileRoutes, hardware: Hardware, every: Sequence[Delay] | None = None) -> Transfer:
    """Return the transfer time of every stage of a placement: the slowest of its delays.

    every: the delays of all routes, if they are known.
    """
    slowest = [Delay(0.0, 0.0, 0.0)] * len(tile_routes.copies)
    for p, delay in zip(tile_routes.sender.tolist(), every or delays(tile_routes, hardware), strict=True):
        slowest[p] = max(slowest[p], delay, key=lambda each: each.ns)
    per_copy = [each.queue_ns / int(copies) for each, copies in zip(slowest, tile_routes.copies, strict=True)]
    return Transfer(np.array([each.hops_ns for each in slowest]), np.array(per_copy))


@dataclass(frozen=True, eq=False)
class _Slower:
    """Clocks that are slowed down by links."""

    clocks: Clocks
    factors: Floats

    def __call__(self, stage: int, mode: Mode) -> BatchTicks:
        ticks, factor = self.clocks(stage, mode), float(self.factors[stage])
        compute = tuple(math.ceil(each * factor * EXACTLY) for each in ticks.compute)
        return BatchTicks(compute, ticks.per_copy * factor)


class TransferTimes(NamedTuple):
    """Times of an allocation with the transfers of a placement.

    graph, step_time: that give them; transfer_ns: of every stage; factor: of the quantity that is minimised,
    to what it is without transfers; parts: of the time of a batch that transfers of every stage take, with
    own clocks at least 1, its busiest link; busiest: part that the busiest link takes, its chip or None,
    start and end; routes, delays: of all that is sent.
    """

    graph: StageGraph
    step_time: StepTime
    latency_ns: float
    interval_ns: float
    transfer_ns: Floats
    factor: float
    parts: Floats
    busiest: tuple[float, LinkKey, Pair, Pair]
    routes: TileRoutes
    delays: Sequence[Delay]

    @property
    def slowest(self) -> float:
        """The largest of the parts."""
        return float(self.parts.max())

    def caps(self, part: float) -> LinkCaps:
        """Return what links may be loaded so that transfers take `part` of the time that they do."""
        if self.graph.unit == "ticks":  # whose edges are delayed by loads of any size
            return LinkCaps({}, part * self.busiest[0])
        sender, sums = self.routes.sender, len(self.routes.sums)
        hops_ns, queue_ns, _ = np.array(self.delays).T
        queue_ns[sums:] -= queue_ns[sender[sums:]]
        is_result = np.repeat([0, 1], [sums, len(sender) - sums])
        most_ns, far_ns = np.zeros((2, sums)), np.zeros(sums)
        np.maximum.at(most_ns, (is_result, sender), queue_ns)
        np.maximum.at(far_ns, sender, hops_ns)
        aim_ns, caps = part * float((most_ns.sum(axis=0) + far_ns).max()), Loads()
        batch_ns = aim_ns / (part * self.slowest)
        # sums and results of a stage are shortened by the same part
        whole = most_ns.sum(axis=0) / np.maximum(aim_ns - far_ns, EXACTLY - 1) * batch_ns
        with np.errstate(divide="ignore", invalid="ignore"):
            least = (whole / most_ns)[is_result, sender]
        for route, own in zip(self.routes, least.tolist(), strict=True):
            for links in route.routes:
                caps.at_least(links, own)
        return LinkCaps(caps.of_key, part * self.slowest)


@dataclass(frozen=True, eq=False)
class TransferTimer:
    """Times an allocation with the transfers of any placement of it.

    With a common step the step grows with the slowest transfer; with own clocks transfers delay edges, and a
    stage one of whose links is too busy slows down. graph, copies: of all stages, also digital ones that have
    rates; of_interval: whether the interval is minimised, in place of the latency.
    """

    graph: StageGraph
    copies: Ints
    step_time: StepTime
    hardware: Hardware
    of_interval: bool = False

    @cached_property
    def _number(self) -> Ints:
        return np.flatnonzero(self.graph.weighted)

    @cached_property
    def placed_copies(self) -> Ints:
        """Copies of the stages that have arrays."""
        return self.copies[self._number]

    @cached_property
    def batch_ns(self) -> Floats:
        """Time of a batch of each of them, in which links must carry what it sends."""
        ticks = self.graph.on_arrays.batch_ticks(self.placed_copies)
        found: Floats = ticks.astype(np.float64) * self.step_time.step_ns(self.copies)
        return found

    @cached_property
    def alone(self) -> tuple[float, float]:
        """Latency and interval [ns] without transfers."""
        return self._measured(self.graph, self.step_time)

    def _measured(self, graph: StageGraph, step_time: StepTime) -> tuple[float, float]:
        timing, step_ns = simulate(graph, self.copies), step_time.step_ns(self.copies)
        return timing.makespan * step_ns, timing.interval * step_ns

    def of_routes(self, routes: TileRoutes) -> TransferTimes:
        """Return the times with these routes between tiles."""
        rates = routes.loads(routes.batch_bytes / self.batch_ns[routes.sender])
        every = delays(routes, self.hardware, rates)
        if self.graph.unit == "steps":
            known = transfer(routes, self.hardware, every)
            fixed, per_copy = np.zeros((2, len(self.copies)))
            fixed[self._number], per_copy[self._number] = known.fixed_ns, known.ns_per_copy
            known = Transfer(fixed, per_copy)
            transfer_ns = known.of_stages(self.copies)
            graph, step_time = self.graph, replace(self.step_time, transfer=known)
            parts = transfer_ns / self.step_time.step_ns(self.copies)
        else:
            graph, transfer_ns, parts = self._delayed(routes, every)
            step_time = self.step_time
        latency_ns, interval_ns = self._measured(graph, step_time)
        factor = interval_ns / self.alone[1] if self.of_interval else latency_ns / self.alone[0]
        return TransferTimes(
            graph,
            step_time,
            latency_ns,
            interval_ns,
            transfer_ns,
            factor,
            parts,
            self._busiest(rates),
            routes,
            every,
        )

    def _busiest(self, rates: Loads) -> tuple[float, LinkKey, Pair, Pair]:
        """Return the part of a batch that the busiest link takes with all stages at work, and that link."""
        chip = chip_of(self.hardware)
        parts = Loads()
        for key, each in rates.of_key.items():
            gb_s = chip.bandwidth_chip_gb_s if key is None else chip.bandwidth_tile_gb_s
            parts.of_key[key] = each / (gb_s or math.inf)
        return max(parts.listed(), key=lambda link: link[0], default=(0.0, None, (0, 0), (0, 0)))

    def _delayed(self, routes: TileRoutes, every: Sequence[Delay]) -> tuple[StageGraph, Floats, Floats]:
        """Return the graph with own clocks, transfer times of stages, and their slow-downs."""
        slower, transfer_ns = np.ones(len(self.copies)), np.zeros(len(self.copies))
        for p, delay in zip(self._number[routes.sender].tolist(), every, strict=True):
            slower[p], transfer_ns[p] = max(slower[p], delay.busy), max(transfer_ns[p], delay.ns)
        flows, tick_ns = routes.flows, self.hardware.tick_ns
        ends = zip(self._number[flows.producer].tolist(), self._number[flows.consumer].tolist(), strict=True)
        lags = {
            edge: math.ceil(delay.ns / tick_ns * EXACTLY)
            for edge, delay in zip(ends, every[len(routes.sums) :], strict=True)
        }
        graph = self.graph.timed(_Slower(self.graph.clocks, slower))
        return graph.delayed(_of_edges(graph, lags)), transfer_ns, slower


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
