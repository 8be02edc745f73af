"""Buffer demand: most pixels of a producer alive at once for one consumer (docs/sources/model.md 4)."""

from __future__ import annotations

from functools import cache
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from rramalloc.ndarrays import Ints
from rramalloc.network.node import Node
from rramalloc.network.receptive import PixelTable, image_ranges, last_user
from rramalloc.records import Record, Steps, absent
from rramalloc.timing.access import BITS_PER_BYTE
from rramalloc.timing.dependencies import as_timed
from rramalloc.timing.simulate import ExactTiming
from rramalloc.timing.stage_graph import StageGraph

_NONE: Ints = np.zeros(0, dtype=np.int64)


class BufferedEdge(Record):
    """Most pixels of `producer` that are stored at once for `consumer`.

    buffer_pixels, buffer_bytes: of one input; stream_pixels: of inputs that follow each other at the
    interval, None in files of older versions.
    """

    producer: str
    consumer: str
    buffer_pixels: Steps
    buffer_bytes: Annotated[int, Field(ge=0)]
    stream_pixels: Steps | None = Field(None, exclude_if=absent)


class BufferTotals(Record):
    """Most bytes that all producers together store at once, each pixel once however many edges read it.

    total_bytes: of one input; stream_total_bytes: of inputs that follow each other at the interval.
    """

    total_bytes: Annotated[int, Field(ge=0)]
    stream_total_bytes: Annotated[int, Field(ge=0)]


class Buffers(NamedTuple):
    """Buffers of every edge, and of all together; totals: None where edges are too many to list."""

    edges: tuple[BufferedEdge, ...]
    totals: BufferTotals | None


NO_BUFFERS = Buffers((), None)


def buffers(timing: ExactTiming, output_bits: int) -> Buffers:
    """Return the buffer of every edge, consumers in canonical order, and the totals.

    A pixel occupies its place from the step that computes it to the step before the last one that reads it:
    the step of the last reader may use the place again. Source: docs/sources/model.md 4.
    """
    graph = timing.graph
    if not graph.lists_all_edges:
        return NO_BUFFERS
    walk = _Walk(graph)
    edges = []
    last_read = dict[int, Ints]()  # by producer, when each of its pixels is read last; -1: never
    # By stage, the batch that computes each of its pixels.
    computed = cache(lambda stage: timing.graph.grids[stage].numbers().ravel() // timing.copies[stage])
    for consumer, stage in enumerate(graph.stages):
        reads = timing.of_stage(consumer)
        users = walk.last_users(stage)
        for producer in sorted(users):
            last = users[producer].ravel()
            used = last >= 0
            reading = last // timing.copies[consumer]
            changes = _changes(timing.of_stage(producer), computed(producer)[used], reads, reading[used])
            pixels = _most(changes)
            size = -(-pixels * graph.channels(producer) * output_bits // BITS_PER_BYTE)
            edges.append(
                BufferedEdge(
                    producer=graph.names[producer],
                    consumer=stage.name,
                    buffer_pixels=pixels,
                    buffer_bytes=size,
                    stream_pixels=_most(changes, timing.interval),
                )
            )
            freed = np.where(used, reads[reading], -1)
            last_read[producer] = np.maximum(last_read.get(producer, freed), freed)
    alive = [_NONE]
    moments = [_NONE]
    for producer, freed in last_read.items():
        used = freed >= 0
        ends, end = np.unique(freed[used], return_inverse=True)
        changes = _changes(timing.of_stage(producer), computed(producer)[used], ends, end)
        alive.append(changes.alive * graph.channels(producer) * output_bits)
        moments.append(changes.moments)
    together = _Changes(np.concatenate(moments), np.concatenate(alive))
    totals = BufferTotals(
        total_bytes=-(-_most(together) // BITS_PER_BYTE),
        stream_total_bytes=-(-_most(together, timing.interval) // BITS_PER_BYTE),
    )
    return Buffers(tuple(edges), totals)


class _Changes(NamedTuple):
    """Moments, in any order, at which the number of stored pixels or bits changes, and each change."""

    moments: Ints
    alive: Ints


def _changes(starts: Ints, born: Ints, ends: Ints, end: Ints) -> _Changes:
    """Return how many pixels are computed and freed at each moment.

    starts: moments of the batches that compute them; born: index in it of each pixel's batch; ends: moments
    at which pixels are freed; end: index in it of each pixel's.
    """
    alive = np.bincount(born, minlength=len(starts)), -np.bincount(end, minlength=len(ends))
    return _Changes(np.concatenate([starts, ends]).astype(np.int64), np.concatenate(alive))


def _most(changes: _Changes, period: int | None = None) -> int:
    """Return the most that is stored at once; period: of inputs that follow each other, None for one input.

    In a stream the inputs are shifted by whole periods, so moments count modulo the period.
    """
    moments, alive, begin = changes.moments, changes.alive, 0
    if period is not None:
        # What lives from a to b is alive at ceil(b / period) - ceil(a / period) multiples of the period.
        begin = -int((alive * -(-moments // period)).sum())
        moments = moments % period
        alive = np.where(moments == 0, 0, alive)
    order = np.argsort(moments, kind="stable")
    moments = moments[order]
    level = np.cumsum(alive[order])
    is_last = np.append(
        moments[1:] != moments[:-1], True
    )  # of its moment: others are on the way to its level
    return begin + int(level[is_last[: len(level)]].max(initial=0))


class _Walk:
    """Trace the last readers of pixels from a stage back to its producers, through digital nodes."""

    def __init__(self, graph: StageGraph) -> None:
        self._network = graph.network
        self._stage = {name: stage for stage, name in enumerate(graph.names)}
        self._grids = dict(zip(graph.names, graph.grids, strict=True))
        self._position = {node.name: place for place, node in enumerate(graph.network.nodes)}

    def last_users(self, stage: Node) -> dict[int, PixelTable]:
        """Return by producer stage the last block of `stage` that needs each of its pixels, -1 for none."""
        tables: dict[str, PixelTable] = {}
        self._push(stage, self._grids[stage.name].numbers().astype(np.int32), tables)
        users: dict[int, PixelTable] = {}
        for node in self._between(stage):
            table = tables.pop(node.name)
            if node.name not in self._stage:
                self._push(as_timed(self._network, node, self._stage), table, tables)
            elif table.max() >= 0:
                users[self._stage[node.name]] = table
        return users

    def _push(self, node: Node, table: PixelTable, tables: dict[str, PixelTable]) -> None:
        """Update the tables of a node's inputs: the last reader of each pixel over all paths seen."""
        shapes, output = [self._network.shapes[name] for name in node.inputs], self._network.shapes[node.name]
        for position, name in enumerate(node.inputs):
            images = image_ranges(node, shapes, position, output)
            pushed = last_user(node, table, shapes[position], output, images)
            tables[name] = np.maximum(tables[name], pushed) if name in tables else pushed

    def _between(self, stage: Node) -> list[Node]:
        """Return the digital nodes that lead to `stage` and the stages that feed them, consumers first."""
        between: set[int] = set()
        pending = [self._position[name] for name in stage.inputs]
        while pending:
            place = pending.pop()
            if place not in between:
                between.add(place)
                node = self._network.nodes[place]
                if node.name not in self._stage:
                    pending.extend(self._position[name] for name in node.inputs)
        return [self._network.nodes[place] for place in sorted(between, reverse=True)]
