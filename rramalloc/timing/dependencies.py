"""The windows that stages need of each other, composed through the digital nodes between them."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rramalloc.errors import UnsupportedError
from rramalloc.network.geometry import Shape
from rramalloc.network.network import Network
from rramalloc.network.node import Barrier, Conv, ConvTranspose, Flatten, GlobalPool, Node, Pool, Upsample
from rramalloc.network.receptive import Table, last_needed

TABLE_LIMIT_BYTES = 2**29
EDGE_LIMIT = 200_000
PULL_LIMIT = 2**20
"""Tables of (node, producer) pairs that may be looked at; far above any real network, it bounds the time."""
_LOOK_BACK = 128
_PRUNING_WORK = 2**28
_STEP_WORK = 4096
"""Pixels that take as long as one step of the look back without its pixels."""

Sources = dict[int, Table]
"""Per producer stage: the last of its windows that each pixel of a tensor needs, -1 for none."""


@dataclass(frozen=True, slots=True, eq=False)
class Edge:
    """Stage `consumer` reads pixels of stage `producer`.

    need: int32, the last window of the producer that windows 0 ... w of the consumer need (a running
    maximum; -1 while none is needed).  Source: docs/sources/model.md 5, need(p, i, w).
    """

    producer: int
    consumer: int
    need: npt.NDArray[np.int32]


def trace(
    network: Network, nodes: Sequence[Node], index: Mapping[str, int], *, only_binding: bool
) -> tuple[Edge, ...]:
    """Edges between the stages numbered by `index`, grouped by consumer.

    only_binding: leave out edges that other edges imply. All edges of a network with many merges can be
    too many to hold; then the result is empty and the binding ones, which give the same timing, serve.
    Raises UnsupportedError if the tables would take more than TABLE_LIMIT_BYTES or PULL_LIMIT is reached.
    """
    tracer, pruner = _Tracer(network), _Pruner()
    waiting = _consumers_left(nodes)
    sources: dict[str, Sources] = {}
    edges: list[Edge] = []
    incoming: list[list[Edge]] = [[] for _ in index]
    for node in nodes:
        found = tracer.pull(node, [sources[name] for name in node.inputs])
        for name in node.inputs:
            waiting[name] -= 1
            if not waiting[name]:
                sources.pop(name, None)
        if only_binding and len(node.inputs) > 1 and len(found) > 1:
            found = pruner.without_implied(found, incoming)
        if node.name in index:
            stage = index[node.name]
            incoming[stage] = tracer.edges(found, stage)
            edges.extend(incoming[stage])
            found = {stage: tracer.identity(network.shapes[node.name])}
        sources[node.name] = found
        if not only_binding and tracer.entries > EDGE_LIMIT:
            return ()
    return tuple(edges)


class _Tracer:
    """Pulls tables through nodes; equal work is done once, so equal tables are one object."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._pulled: dict[tuple[Any, ...], Table] = {}
        self._running: dict[int, npt.NDArray[np.int32]] = {}
        self._kept: list[Table] = []  # the caches are keyed by id: their tables must stay alive
        self._bytes = 0
        self.entries = 0

    def identity(self, shape: Shape) -> Table:
        """Every window needs itself."""
        key = (shape.height, shape.width)
        if key not in self._pulled:
            table = np.arange(shape.pixels, dtype=np.int32).reshape(key)
            self._pulled[key] = self._keep(table)
        return self._pulled[key]

    def pull(self, node: Node, inputs: Sequence[Sources]) -> Sources:
        """The sources of a node's output pixels from those of its inputs."""
        output = self._network.shapes[node.name]
        if len(inputs) == 1 and _keeps_pixels(node) and self._network.input_shape(node) == output:
            return inputs[0]
        result: Sources = {}
        for source in inputs:
            self.entries += len(source)
            if self.entries > PULL_LIMIT:
                raise UnsupportedError(
                    self._network.where,
                    f"its nodes read stages in more than {PULL_LIMIT} ways: too many merges of too many "
                    "branches; allocate parts of it one by one",
                )
            for stage, table in source.items():
                pulled = self._pull(node, table, output)
                known = result.get(stage)
                if known is None or known is pulled:
                    result[stage] = pulled
                else:
                    result[stage] = self._keep(np.maximum(known, pulled))
        return result

    def edges(self, sources: Sources, consumer: int) -> list[Edge]:
        """One edge per producer of which any window is needed."""
        edges = []
        for producer in sorted(sources):
            table = sources[producer]
            if id(table) not in self._running:
                self._running[id(table)] = self._keep(np.maximum.accumulate(table.ravel()))
            need = self._running[id(table)]
            if need[-1] >= 0:
                edges.append(Edge(producer, consumer, need))
        return edges

    def _pull(self, node: Node, table: Table, output: Shape) -> Table:
        rule: object = node.op
        if isinstance(node, Conv | ConvTranspose | Pool):
            rule = (isinstance(node, ConvTranspose), node.geometry)
        elif isinstance(node, Upsample):
            rule = (node.scale, node.mode, node.coordinates)
        key = (id(table), rule, output.height, output.width)
        if key not in self._pulled:
            pulled = last_needed(node, table, output)
            self._pulled[key] = pulled if pulled is table else self._keep(pulled)
        return self._pulled[key]

    def _keep(self, table: Table) -> Table:
        self._bytes += table.nbytes
        if self._bytes > TABLE_LIMIT_BYTES:
            raise UnsupportedError(
                self._network.where,
                f"its tables of needed windows take more than {TABLE_LIMIT_BYTES >> 20} MiB: "
                "the grids are too large or too many; use a smaller input shape",
            )
        self._kept.append(table)
        return table


def _consumers_left(nodes: Sequence[Node]) -> dict[str, int]:
    count = {node.name: 0 for node in nodes}
    for node in nodes:
        for name in node.inputs:
            count[name] += 1
    return count


def _keeps_pixels(node: Node) -> bool:
    return not isinstance(node, Conv | ConvTranspose | Pool | Upsample | GlobalPool | Flatten | Barrier)


class _Pruner:
    """Leaves out what other edges imply, as long as its work lasts: edges too many change no timing."""

    def __init__(self) -> None:
        self._work = _PRUNING_WORK

    def without_implied(self, sources: Sources, incoming: Sequence[Sequence[Edge]]) -> Sources:
        """Drop producers whose windows have finished anyway before those of a later producer.

        A batch of stage l that computes window w starts after everything that window w of l needs, so a
        pixel that waits for w of l need not also wait for windows of an earlier stage that w implies.
        """
        kept = dict(sources)
        earliest = min(sources)
        for later in sorted(sources, reverse=True):
            if later == earliest or later not in kept:
                continue
            for stage, implied in self._implied_by(later, kept[later], earliest, incoming).items():
                if stage != later and stage in kept and bool((implied >= kept[stage]).all()):
                    del kept[stage]
        return kept

    def _implied_by(
        self, later: int, table: Table, earliest: int, incoming: Sequence[Sequence[Edge]]
    ) -> Sources:
        """Windows of earlier stages that must have finished before the windows in `table` of `later`."""
        reached: Sources = {later: table}
        pending = [-later]
        for _ in range(_LOOK_BACK):
            if not pending or self._work < 0:
                break
            stage = -heapq.heappop(pending)
            windows = reached[stage]
            for edge in incoming[stage]:
                if edge.producer < earliest:
                    continue
                self._work -= windows.size + _STEP_WORK
                need = np.where(windows >= 0, edge.need[np.maximum(windows, 0)], np.int32(-1))
                if edge.producer in reached:
                    reached[edge.producer] = np.maximum(reached[edge.producer], need)
                else:
                    reached[edge.producer] = need
                    heapq.heappush(pending, -edge.producer)
        return reached
