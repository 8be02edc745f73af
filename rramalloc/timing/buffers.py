"""Buffer demand: most pixels of a producer alive at once for one consumer (docs/sources/model.md 4)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from rramalloc.network.node import Node
from rramalloc.network.receptive import Table, last_user
from rramalloc.records import Record
from rramalloc.timing.access import BITS_PER_BYTE
from rramalloc.timing.critical_path import Steps
from rramalloc.timing.dependencies import as_timed
from rramalloc.timing.simulate import ExactTiming
from rramalloc.timing.stage_graph import StageGraph


class BufferedEdge(Record):
    """Most pixels of `producer` that are stored at once for `consumer`."""

    producer: str
    consumer: str
    buffer_pixels: Steps
    buffer_bytes: Annotated[int, Field(ge=0)]


def buffers(timing: ExactTiming, output_bits: int) -> tuple[BufferedEdge, ...]:
    """Return the buffer of every edge, consumers in canonical order; empty where edges are too many to list.

    A pixel occupies its place from the step that computes it to the step before the last one that reads it:
    the step of the last reader may use the place again. Source: docs/sources/model.md 4.
    """
    graph = timing.graph
    walk = _Walk(graph)
    result = []
    for consumer, stage in enumerate(graph.stages if graph.lists_all_edges else ()):
        users = walk.last_users(stage)
        for producer in sorted(users):
            pixels = _fullest(timing, producer, consumer, users[producer])
            size = -(-pixels * graph.channels(producer) * output_bits // BITS_PER_BYTE)
            names = {"producer": graph.names[producer], "consumer": stage.name}
            result.append(BufferedEdge(**names, buffer_pixels=pixels, buffer_bytes=size))
    return tuple(result)


def _fullest(timing: ExactTiming, producer: int, consumer: int, users: Table) -> int:
    """Return the most pixels of a producer alive at once; users: last block that needs each pixel, or -1."""
    last, computed = users.ravel(), timing.graph.grids[producer].numbers().ravel()
    used = last >= 0
    if not used.any():
        return 0
    born = timing.of_stage(producer)[computed[used] // timing.copies[producer]]
    freed = timing.of_stage(consumer)[last[used] // timing.copies[consumer]]
    if (timing.cycles > 1).any():
        # Batches may last millions of ticks: sort the moments of change, in place of a counter for each tick.
        moments = np.unique(np.concatenate([born, freed]))
        born, freed = np.searchsorted(moments, born), np.searchsorted(moments, freed)
    begin, steps = int(born.min()), int(freed.max() - born.min()) + 1
    # +1 where a pixel is computed, -1 where it is read last: the running sum is the fill of the buffer.
    change = np.bincount(born - begin, minlength=steps) - np.bincount(freed - begin, minlength=steps)
    return int(np.cumsum(change).max(initial=0))


class _Walk:
    """Trace the last readers of pixels from a stage back to its producers, through digital nodes."""

    def __init__(self, graph: StageGraph) -> None:
        self._network = graph.network
        self._stage = {name: stage for stage, name in enumerate(graph.names)}
        self._grids = dict(zip(graph.names, graph.grids, strict=True))
        self._position = {node.name: place for place, node in enumerate(graph.network.nodes)}

    def last_users(self, stage: Node) -> dict[int, Table]:
        """Return by producer stage the last block of `stage` that needs each of its pixels, -1 for none."""
        tables: dict[str, Table] = {}
        self._push(stage, self._grids[stage.name].numbers().astype(np.int32), tables)
        users: dict[int, Table] = {}
        for node in self._between(stage):
            table = tables.pop(node.name)
            if node.name not in self._stage:
                self._push(as_timed(self._network, node, self._stage), table, tables)
            elif table.max() >= 0:
                users[self._stage[node.name]] = table
        return users

    def _push(self, node: Node, table: Table, tables: dict[str, Table]) -> None:
        """Update the tables of a node's inputs: the last reader of each pixel over all paths seen."""
        for name in node.inputs:
            pushed = last_user(node, table, self._network.shapes[name])
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
