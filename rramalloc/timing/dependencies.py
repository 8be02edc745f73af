"""Dependencies between stages: the rows and columns needed, composed through the digital nodes between."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np

from rramalloc.errors import UnsupportedError
from rramalloc.network.geometry import Shape
from rramalloc.network.network import Network
from rramalloc.network.node import (
    Barrier,
    ConvTranspose,
    Node,
    Ranged,
    Stage,
    Take,
    Upsample,
    Whole,
    Windowed,
)
from rramalloc.network.receptive import PixelTable, image_ranges, last_needed, pieces

TABLE_LIMIT_BYTES = 2**29  # memory of all tables of needed rows and columns
EDGE_LIMIT = 200_000  # edges that are listed in full; above it only the binding ones are kept
PULL_LIMIT = 2**20
"""Limit of (node, producer) pairs that are traced, far above any real network: it bounds the time."""
_LOOK_BACK = 128  # stages that pruning visits per producer: it may keep an implied edge, which is harmless
_PRUNING_WORK = 2**26  # table entries that all pruning may visit: it then stops, and keeps implied edges
_STEP_WORK = 1024  # table entries that take as long as the rest of one step back


class Extent(NamedTuple):
    """Pixels of a producer that each pixel of a grid needs: a product of rows and columns.

    rows, columns: int32, the last row of the producer that each row of the grid needs, and the last column
    that each of its columns needs; -1 for none.
    """

    rows: PixelTable
    columns: PixelTable

    def is_covered_by(self, other: Extent) -> bool:
        """Return True if `other` needs every pixel that this extent needs."""
        return bool((self.rows <= other.rows).all() and (self.columns <= other.columns).all())


Sources = dict[int, tuple[Extent, ...]]
"""Pixels of each producer stage that the pixels of a tensor need: the union of a few extents."""


@dataclass(frozen=True, slots=True, eq=False)
class Edge:
    """Stage `consumer` reads pixels of stage `producer`.

    extents: what it needs, as running maxima: rows[y] is the last row that rows 0 ... y need, columns alike.
    """

    producer: int
    consumer: int
    extents: tuple[Extent, ...]

    def last_pixel(self, width: int) -> int:
        """Return the last pixel that any consumer pixel needs, in raster order; width: of the producer."""
        return max(int(extent.rows[-1]) * width + int(extent.columns[-1]) for extent in self.extents)


def as_timed(network: Network, node: Node, stages: Container[str]) -> Node:
    """Return the barrier that stands for a weight layer left to the host, any other node as it is.

    stages: names of what is timed. Source: docs/sources/model.md 2.
    """
    if not isinstance(node, Stage) or node.name in stages:
        return node
    return Barrier(name=node.name, inputs=node.inputs, shape=network.shapes[node.name].as_tuple())


def trace(
    network: Network, nodes: Sequence[Node], index: Mapping[str, int], *, only_binding: bool
) -> tuple[Edge, ...]:
    """Return the edges between the stages numbered by `index`, grouped by consumer.

    only_binding: leave out edges that other edges imply, which gives the same timing. The list of all edges
    is empty if there are more than EDGE_LIMIT, as in networks with many merges.
    Raises UnsupportedError if the tables would take more than TABLE_LIMIT_BYTES or PULL_LIMIT is reached.
    """
    tracer, pruner = _Tracer(network), _Pruner()
    waiting = {name: len(readers) for name, readers in network.consumers.items()}
    sources: dict[str, Sources] = {}
    edges: list[Edge] = []
    incoming: list[list[Edge]] = [[] for _ in index]
    for node in (as_timed(network, node, index) for node in nodes):
        needed = tracer.pull(node, [sources[name] for name in node.inputs])
        for name in node.inputs:
            waiting[name] -= 1
            if not waiting[name]:
                sources.pop(name, None)
        if only_binding and len(node.inputs) > 1 and len(needed) > 1:
            needed = pruner.without_implied(needed, incoming)
        if node.name in index:
            stage = index[node.name]
            incoming[stage] = tracer.edges(needed, stage)
            edges.extend(incoming[stage])
            needed = {stage: (tracer.identity(network.shapes[node.name]),)}
        sources[node.name] = needed
        if not only_binding and tracer.entries > EDGE_LIMIT:
            return ()
    return tuple(edges)


def union(extents: Iterable[Extent]) -> tuple[Extent, ...]:
    """Return the extents without those whose pixels another one includes."""
    kept: list[Extent] = []
    for extent in extents:
        if not any(extent.is_covered_by(other) for other in kept):
            kept = [other for other in kept if not other.is_covered_by(extent)] + [extent]
    return tuple(kept)


def _rule(node: Node) -> object:
    """Return a key that is equal for nodes that read their inputs by the same rule."""
    if isinstance(node, Windowed | ConvTranspose):
        return isinstance(node, ConvTranspose), node.geometry
    if isinstance(node, Upsample):
        return node.scale, node.mode, node.coordinates
    if isinstance(node, Take):
        return node.rows, node.columns
    return node.op, getattr(node, "order", None)


class _Tracer:
    """Compose tables of needed rows and columns through nodes; caches make equal tables one object."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._tables: dict[
            tuple[object, ...], PixelTable
        ] = {}  # keys hold ids of tables, which must stay alive
        self._bytes = 0
        self.entries = 0

    def identity(self, shape: Shape) -> Extent:
        """Return the extent of a grid in which every pixel needs itself."""
        rows, columns = (
            self._once(("all", size), partial(np.arange, size, dtype=np.int32))
            for size in (shape.rows, shape.width)
        )
        return Extent(rows, columns)

    def pull(self, node: Node, inputs: Sequence[Sources]) -> Sources:
        """Return the pixels of each producer that a node's output pixels need, given those of its inputs."""
        output = self._network.shapes[node.name]
        shapes = [self._network.shapes[name] for name in node.inputs]
        result: Sources = {}
        for position, (shape, source) in enumerate(zip(shapes, inputs, strict=True)):
            # Output pixel (y, x) needs no other pixel than (y, x).
            keeps_pixels = not isinstance(node, Windowed | ConvTranspose | Ranged | Whole)
            same = keeps_pixels and shape.extent == output.extent
            if same and len(inputs) == 1:
                return source
            images = image_ranges(node, shapes, position, output)
            rule = _rule(node), images
            for stage, extents in source.items():
                self.entries += len(extents)
                if self.entries > PULL_LIMIT:
                    raise UnsupportedError(
                        self._network.where,
                        f"its nodes read stages in more than {PULL_LIMIT} ways: too many merges of too many "
                        "branches; allocate parts of it one by one",
                    )
                pulled = extents
                if parts := pieces(node, shape, output):
                    pulled = self._moved(extents, parts, (rule, shape.extent, output.extent))
                elif not same:
                    pulled = tuple(
                        Extent(
                            *(
                                self._once(
                                    (id(table), axis, rule, shape.extent, output.extent),
                                    partial(last_needed, node, axis, table, shape, output, images),
                                )
                                for axis, table in enumerate(extent)
                            )
                        )
                        for extent in extents
                    )
                known = result.get(stage)
                if known is None:
                    result[stage] = union(pulled) if len(pulled) > 1 else pulled
                # Equal tables are one object, so comparing ids suffices; most branches bring the same ones.
                elif [list(map(id, extent)) for extent in known] != [
                    list(map(id, extent)) for extent in pulled
                ]:
                    result[stage] = union((*known, *pulled))
        return result

    def _moved(
        self, extents: Iterable[Extent], parts: Sequence[tuple[PixelTable, PixelTable]], rule: object
    ) -> tuple[Extent, ...]:
        """Return the extents of an output of which each pixel takes one of the input, by one of the parts."""
        moved: dict[bytes, Extent] = {}
        for extent, (number, part) in product(extents, enumerate(parts)):
            rows, columns = (
                self._once((id(table), axis, rule, number), partial(_composed, index, table))
                for axis, (table, index) in enumerate(zip(extent, part, strict=True))
            )
            if rows.max() >= 0 and columns.max() >= 0:
                key = rows.tobytes()
                # Windows that are put together after they were cut: pixels of the same rows are one extent.
                before = moved.setdefault(key, Extent(rows, columns))
                moved[key] = Extent(before.rows, np.maximum(before.columns, columns))
        return tuple(
            Extent(*(self._once(("equal", table.tobytes()), partial(np.asarray, table)) for table in extent))
            for extent in moved.values()
        )

    def edges(self, sources: Sources, consumer: int) -> list[Edge]:
        """Return one edge for every producer that some window depends on."""
        edges = []
        for producer in sorted(sources):
            running = [
                Extent(
                    *(
                        self._once(("running", id(table)), partial(np.maximum.accumulate, table))
                        for table in extent
                    )
                )
                for extent in sources[producer]
            ]
            needed = union(extent for extent in running if extent.rows[-1] >= 0 and extent.columns[-1] >= 0)
            if needed:
                edges.append(Edge(producer, consumer, needed))
        return edges

    def _once(self, key: tuple[object, ...], make: Callable[[], PixelTable]) -> PixelTable:
        """Return the table of this key, which `make` computes the first time."""
        if key not in self._tables:
            table = make()
            self._bytes += table.nbytes
            if self._bytes > TABLE_LIMIT_BYTES:
                raise UnsupportedError(
                    self._network.where,
                    f"its tables of needed rows and columns take more than {TABLE_LIMIT_BYTES >> 20} MiB: "
                    "the grids are too large or too many; use a smaller input shape",
                )
            self._tables[key] = table
        return self._tables[key]


class _Pruner:
    """Leave out implied edges until a limit of work is reached: edges that are kept change no timing."""

    def __init__(self) -> None:
        self._work = _PRUNING_WORK

    def without_implied(self, sources: Sources, incoming: Sequence[Sequence[Edge]]) -> Sources:
        """Return the sources without producers whose pixels are always available before those of a later one.

        A batch of stage l that computes pixel q starts after all inputs that q and the pixels above and left
        of it need of l's producers. A pixel that waits for q need not also wait for what q implies.
        """
        kept = dict(sources)
        earliest = min(sources)
        for later in sorted(sources, reverse=True):
            # Nothing lies before the earliest producer, so it implies no other one.
            if later == earliest or later not in kept:
                continue
            for stage, implied in self._implied_by(later, kept[later], earliest, incoming).items():
                if stage != later and stage in kept:
                    left = tuple(
                        e for e in kept[stage] if not any(e.is_covered_by(other) for other in implied)
                    )
                    if left:
                        kept[stage] = left
                    else:
                        del kept[stage]
        return kept

    def _implied_by(
        self, later: int, extents: tuple[Extent, ...], earliest: int, incoming: Sequence[Sequence[Edge]]
    ) -> Sources:
        """Return the pixels of earlier stages that are finished before the pixels `extents` of `later`."""
        reached: Sources = {later: extents}
        pending = [-later]  # a heap of the latest first, so that each stage is complete when it is taken
        for _ in range(_LOOK_BACK):
            if not pending or self._work < 0:
                break
            stage = -heapq.heappop(pending)
            for edge in incoming[stage]:
                if edge.producer < earliest:
                    continue
                composed = [through(extent, needed) for extent in reached[stage] for needed in edge.extents]
                self._work -= sum(extent.rows.size + extent.columns.size + _STEP_WORK for extent in composed)
                if edge.producer not in reached:
                    heapq.heappush(pending, -edge.producer)
                reached[edge.producer] = union((*reached.get(edge.producer, ()), *composed))
        return reached


def through(first: Extent, then: Extent) -> Extent:
    """Return the composed extent: the pixels `then` that the pixels `first` of a stage between need."""
    return Extent(*(_composed(*tables) for tables in zip(first, then, strict=True)))


def _composed(first: PixelTable, then: PixelTable) -> PixelTable:
    """Return then[first], -1 where `first` needs nothing."""
    return np.where(first >= 0, then[np.maximum(first, 0)], np.int32(-1))
