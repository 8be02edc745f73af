"""StageGraph: the stages of a network, the blocks that each computes and the blocks that each depends on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.errors import SpecError, UnsupportedError
from rramalloc.mapping.mode import Mode, ModeOfEach
from rramalloc.mapping.modes import BlockGrid, smallest_block
from rramalloc.mapping.options import DEFAULT_MAPPING, MappingOptions
from rramalloc.ndarrays import Ints
from rramalloc.network.geometry import Pair
from rramalloc.network.network import Network
from rramalloc.network.node import Input, Recurrent, Stage, TimedNode
from rramalloc.network.receptive import PixelTable, last_user
from rramalloc.rounding import EXACTLY
from rramalloc.timing.dependencies import Edge, Extent, trace
from rramalloc.units import TimeUnit

STAGE_LIMIT = 2**14
"""Limit of stages of a network: it bounds the time of one pass over all of them."""
WINDOW_LIMIT = 2**25
"""Limit of windows of all stages together: it bounds the memory and time of one simulation."""
MOST_CYCLES = 2**36
"""Limit of ticks of a batch: times of WINDOW_LIMIT batches stay below 2^61, within 64 bits."""


class BatchTicks(NamedTuple):
    """Ticks of a batch by its number of copies: the larger of computing and memory access.

    compute: ticks of computing with 1, 2 ... copies, the last value for all more; it rises where copies
    share an array, of which more lines are read until it is full; per_copy: ticks of access of one copy.
    """

    compute: tuple[int, ...]
    per_copy: float

    def of(self, copies: Ints) -> Ints:
        """Return the ticks of a batch with these copies, int64."""
        compute = np.array(self.compute, dtype=np.int64)[np.minimum(copies, len(self.compute)) - 1]
        # A whole number of ticks may come out 1e-16 of itself too large: EXACTLY keeps it.
        access = np.ceil(self.per_copy * copies * EXACTLY)
        ticks: Ints = np.maximum(compute, access.astype(np.int64))
        return ticks


STEP = BatchTicks((1,), 0.0)
"""Ticks of a batch of stages that all step together: one step."""
Clocks = Callable[[int, Mode], BatchTicks]
"""Function that gives the ticks of a batch by the number of a stage and its mode."""


def one_step(stage: int, mode: Mode) -> BatchTicks:  # noqa: ARG001
    """Return the ticks of a batch if all stages step together; see `Clocks`."""
    return STEP


class FlatEdges(NamedTuple):
    """Blocks and edges of a graph in a form for compiled code, edges grouped by consumer.

    windows: int64, blocks of each stage. Edges pointer[i] ... pointer[i + 1] - 1 enter stage i; edge e
    comes from producer[e] and its table of needed blocks starts at need[offset[e]], one entry per block
    of the consumer: the last block of the producer that its blocks 0 ... w need, -1 while none is needed.
    Source: docs/sources/model.md 5, need(p, i, w).

    If blocks are still to be chosen (`StageGraph.flat_extents`), extents take the place of these tables.
    height, width: int64, the grid of each stage in pixels, of all images; image: height of one; every extent
    of an edge is an edge of its own, with rows of its producer from table[row[e]] on and columns from
    table[column[e]] on (see Extent). With tables they are None, and the code about them is not compiled.

    lag: int64, ticks from the finish of a batch of the producer until the consumer can use its pixels.
    """

    windows: Ints
    pointer: npt.NDArray[np.int32]
    producer: npt.NDArray[np.int32]
    lag: Ints
    offset: Ints = np.zeros(0, dtype=np.int64)
    need: npt.NDArray[np.int32] = np.zeros(0, dtype=np.int32)
    height: Any = None
    width: Any = None
    image: Any = None
    row: Any = None
    column: Any = None
    table: Any = None

    @property
    def consumer(self) -> Ints:
        """Stage that each edge enters, int64."""
        return np.repeat(np.arange(len(self.windows)), np.diff(self.pointer))

    @property
    def last_consumer(self) -> Ints:
        """Last stage that reads each stage, itself if none does, int64."""
        last = np.arange(len(self.windows))
        np.maximum.at(last, self.producer, self.consumer)
        return last

    def of(self, edge: int, consumer: int) -> npt.NDArray[np.int32]:
        """Return the needed blocks of one edge into `consumer`."""
        return self.need[self.offset[edge] : self.offset[edge] + self.windows[consumer]]


class StateRead(NamedTuple):
    """State that stage `state` writes and `layer` reads when the next input comes.

    first: int64 (rows of all images, width) of the state, the first block of the layer that reads each pixel,
    -1 where none does.
    """

    state: int
    layer: int
    first: Ints


def _joined(tables: Sequence[PixelTable]) -> tuple[Ints, PixelTable]:
    """Return (place where each table begins, all distinct tables in one, with one more entry at the end)."""
    distinct = {id(table): table for table in tables}
    begin = dict(zip(distinct, np.cumsum([0, *map(len, distinct.values())]).tolist(), strict=False))
    places = np.array([begin[id(table)] for table in tables], dtype=np.int64)
    return places, np.concatenate([*distinct.values(), np.zeros(1, dtype=np.int32)])


@dataclass(frozen=True, eq=False)
class StageGraph:
    """Stages, edges and clocks of a network, as timing and search read them.

    stages: in canonical order, producers first, the same for every order of nodes in the file; weight layers,
    and with own clocks digital nodes that have a rate: stages without arrays, of one copy;
    grids: how each stage's output is cut into blocks, [1, 1] unless modes say otherwise;
    every_edge: traces `edges` when they are first asked for, as networks with many merges have very many;
    binding: the edges that suffice for exact timing, the others follow from them;
    clocks: ticks of a batch of every stage; unit: what times count, ticks where stages have their own clocks;
    lags: ticks of transfer by (producer, consumer), 0 for those left out; array_kinds: number of the kind of
    arrays of every stage, the first of all if left out;
    """

    network: Network
    stages: tuple[TimedNode, ...]
    grids: tuple[BlockGrid, ...]
    every_edge: Callable[[], tuple[Edge, ...]]
    binding: tuple[Edge, ...]
    clocks: Clocks = one_step
    unit: TimeUnit = "steps"
    lags: MappingOf[Pair, int] = field(default_factory=dict)
    array_kinds: tuple[int, ...] = ()
    _in_blocks: dict[tuple[Pair, ...], StageGraph] = field(default_factory=dict, repr=False)
    _needed: dict[tuple[object, ...], npt.NDArray[np.int32]] = field(default_factory=dict, repr=False)

    @classmethod
    def build(
        cls, network: Network, options: MappingOptions = DEFAULT_MAPPING, rated: Collection[str] = ()
    ) -> StageGraph:
        """Return the graph of a network, without the layers that the options leave to the host.

        rated: operators of digital nodes that are stages too, which only own clocks can time.
        Raises UnsupportedError if no stage is left, or for too many stages or windows; SpecError if the
        options name a layer that the network does not have. Source: docs/sources/model.md 2 and 4.
        """
        stages: tuple[TimedNode, ...] = options.timed_stages(network)
        if not stages and network.stages:
            more = " or put linear layers on a single pixel on arrays, too, with --fc crossbar"
            raise UnsupportedError(
                network.where,
                "has no stage: all weight layers are left to the host, leave one of them out of --host"
                f"{'' if options.fc == 'crossbar' else more}",
            )
        if not stages:
            raise UnsupportedError(network.where, "has no stage: no convolution and no linear layer")
        stages += tuple(
            node for node in network.nodes if node.op in rated and not isinstance(node, Input | Stage)
        )
        if len(stages) > STAGE_LIMIT:
            raise UnsupportedError(
                network.where,
                f"has {len(stages)} layers to be timed, the limit is {STAGE_LIMIT}; "
                "allocate parts of it one by one",
            )
        pixels = sum(network.shapes[node.name].pixels for node in stages)
        if pixels > WINDOW_LIMIT:
            raise UnsupportedError(
                network.where,
                f"its stages have {pixels} windows together, the limit is {WINDOW_LIMIT}; "
                "use a smaller input shape",
            )
        names = {stage.name for stage in stages}
        left = [name for pair in network.states.items() for name in pair if name not in names]
        if left:
            words = "is left to the host, where no state is timed: leave its state out, or put it on arrays"
            raise SpecError("states", f"{left[0][:60]!r} {words}")
        return cls._traced(network, names)

    @classmethod
    def _traced(cls, network: Network, names: Collection[str]) -> StageGraph:
        """Return the graph of the nodes with these names, with all edges between them."""
        nodes = network.canonical_nodes
        ordered = tuple(node for node in nodes if node.name in names and not isinstance(node, Input))
        index = {node.name: position for position, node in enumerate(ordered)}
        binding = trace(network, nodes, index, only_binding=True)
        every_edge = cache(partial(trace, network, nodes, index, only_binding=False))
        if all(len(node.inputs) < 2 for node in nodes):  # a chain, where no edge implies another one
            every_edge = cache(lambda: binding)
        grids = tuple(BlockGrid.of(node, network.shapes[node.name], smallest_block(node)) for node in ordered)
        return cls(network, ordered, grids, every_edge, binding)

    @cached_property
    def weighted(self) -> npt.NDArray[np.bool_]:
        """Whether each stage has weights on arrays; the others are digital nodes."""
        return np.array([isinstance(stage, Stage) for stage in self.stages])

    @cached_property
    def kinds(self) -> tuple[int, ...]:
        """Number of the first stage that is equal to each stage but for its name and producers."""
        first, kinds = dict[object, int](), self.network.kinds
        keys = [(kinds[name], grid.block) for name, grid in zip(self.names, self.grids, strict=True)]
        return tuple(first.setdefault(key, number) for number, key in enumerate(keys))

    @cached_property
    def layers(self) -> tuple[Stage, ...]:
        """The stages with weights, in canonical order."""
        return tuple(stage for stage in self.stages if isinstance(stage, Stage))

    @cached_property
    def on_arrays(self) -> StageGraph:
        """The graph of the stages with weights alone, and of the transfers between them."""
        if self.weighted.all():
            return self
        number = np.flatnonzero(self.weighted).tolist()
        graph = self._traced(self.network, {self.names[stage] for stage in number})
        clocks = self.clocks
        return replace(
            graph,
            grids=tuple(self.grids[stage] for stage in number),
            clocks=lambda stage, block: clocks(number[stage], block),
            unit=self.unit,
            _in_blocks={},
            _needed={},
        )

    def in_blocks(self, blocks: Sequence[Pair]) -> StageGraph:
        """Return the same stages, each with its output cut into blocks (height, width) of windows.

        Raises SpecError for a block that its stage cannot have. Source: docs/sources/model.md 10.
        """
        if len(blocks) != len(self.stages):
            raise SpecError("block", f"has {len(blocks)} values for {len(self.stages)} stages")
        chosen = tuple(blocks)
        if chosen == tuple(grid.block for grid in self.grids):
            return self
        if chosen not in self._in_blocks:
            grids = tuple(
                BlockGrid.of(stage, self.network.shapes[stage.name], block)
                for stage, block in zip(self.stages, chosen, strict=True)
            )
            self._in_blocks.clear()  # one is kept: graphs are large
            self._in_blocks[chosen] = replace(self, grids=grids, _in_blocks={}, _needed={})
        return self._in_blocks[chosen]

    def timed(self, clocks: Clocks) -> StageGraph:
        """Return the same stages with clocks of their own."""
        return replace(self, clocks=clocks, unit="ticks", _in_blocks={}, _needed={})

    def delayed(self, lags: MappingOf[Pair, int]) -> StageGraph:
        """Return the same stages with these ticks of transfer."""
        return replace(self, lags=lags, _in_blocks={}, _needed={})

    def of_network(self, network: Network) -> StageGraph:
        """Return the same graph for a network that differs only in the bits of its layers."""
        nodes = {node.name: node for node in network.nodes if not isinstance(node, Input)}
        stages = tuple(nodes[name] for name in self.names)
        return replace(self, network=network, stages=stages, _in_blocks={})

    @cached_property
    def windows(self) -> Ints:
        """Blocks of each stage, int64: its output pixels where blocks are [1, 1]."""
        return np.array([grid.total for grid in self.grids], dtype=np.int64)

    @cached_property
    def most_copies(self) -> Ints:
        """Copies of each stage that compute at once, int64: its blocks, or 1 if recurrent or digital."""
        alone = np.array([isinstance(stage, Recurrent) for stage in self.stages]) | ~self.weighted
        return np.where(alone, 1, self.windows)

    @cached_property
    def blocks(self) -> tuple[Pair, ...]:
        """Block (height, width) of each stage."""
        return tuple(grid.block for grid in self.grids)

    @cached_property
    def modes(self) -> ModeOfEach:
        """Mode of each stage: its block and the kind of its arrays, its own bits."""
        kinds = self.array_kinds or (0,) * len(self.grids)
        return tuple(Mode(*grid.block, kind=kind) for grid, kind in zip(self.grids, kinds, strict=True))

    def in_modes(self, modes: Sequence[Mode]) -> StageGraph:
        """Return the same stages with these blocks and kinds of arrays. Raises SpecError as `in_blocks`."""
        graph = self.in_blocks([mode.block for mode in modes])
        kinds = tuple(mode.kind for mode in modes)
        if not any(kinds) and not graph.array_kinds:  # all of the first kind: the same graph, with its caches
            return graph
        return replace(graph, array_kinds=kinds, _in_blocks={}, _needed={})

    def batch_ticks(self, copies: Ints, modes: Sequence[Mode] | None = None) -> Ints:
        """Return the ticks of a batch of every stage with these copies.

        copies: of every stage, or a row of them for every allocation; modes: of every stage, those of
        the graph if left out.
        """
        clocks = [self.clocks(stage, block) for stage, block in enumerate(modes or self.modes)]
        ticks = [clock.of(copies[..., stage]) for stage, clock in enumerate(clocks)]
        return np.stack(ticks, axis=-1) if ticks else np.zeros(copies.shape, dtype=np.int64)

    def channels(self, stage: int) -> int:
        """Return the output channels of a stage."""
        return self.network.shapes[self.names[stage]].channels

    def sent_pixels(self, edge: Edge) -> int:
        """Return the pixels that the producer of an edge sends: all up to the last one that is needed."""
        return edge.last_pixel(self.grids[edge.producer].width) + 1

    def lag(self, edge: Edge) -> int:
        """Return the ticks of transfer from the finish of a batch until the consumer can use its pixels."""
        return self.lags.get((edge.producer, edge.consumer), 0)

    @property
    def edges(self) -> tuple[Edge, ...]:
        """Every (producer, consumer) pair that exchanges pixels, grouped by consumer.

        The binding ones stand for all where these are too many.
        """
        return self.every_edge() or self.binding

    @cached_property
    def incoming(self) -> list[list[tuple[int, int, npt.NDArray[np.int32]]]]:
        """Producer, ticks of transfer and what each block needs, of all edges into every stage."""
        each: list[list[tuple[int, int, npt.NDArray[np.int32]]]] = [[] for _ in self.stages]
        for edge in self.edges:
            each[edge.consumer].append((edge.producer, self.lag(edge), self.needed(edge)))
        return each

    @property
    def lists_all_edges(self) -> bool:
        """Whether `edges` holds all edges; if there are more than EDGE_LIMIT it holds the binding ones."""
        return not self.binding or bool(self.every_edge())

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the stages, in canonical order."""
        return tuple(stage.name for stage in self.stages)

    @cached_property
    def state_reads(self) -> tuple[StateRead, ...]:
        """The states of the network: read through the window of their layer, or at its own output pixels.

        Source: docs/sources/model.md 8.
        """
        reads = list[StateRead]()
        for state, layer in self.network.states.items():
            reader = self.names.index(layer)
            source = self.network.input_shape(self.stages[reader])
            first = self.grids[reader].numbers()
            if self.network.shapes[state].extent == source.extent:
                most = self.grids[reader].total - 1  # the last user by numbers that fall is the first one
                falling = (most - first).astype(np.int32)
                users = last_user(self.stages[reader], falling, source, self.network.shapes[layer])
                first = np.where(users < 0, -1, most - users.astype(np.int64))
            reads.append(StateRead(self.names.index(state), reader, first))
        return tuple(reads)

    @cached_property
    def network_order(self) -> tuple[int, ...]:
        """Numbers of the stages in the order of the network file, which results follow."""
        position = {stage.name: index for index, stage in enumerate(self.network.nodes)}
        return tuple(sorted(range(len(self.stages)), key=lambda index: position[self.names[index]]))

    @cached_property
    def flat_edges(self) -> FlatEdges:
        """All edges, for the recurrence and the buffers."""
        return self._flat(self.edges)

    @cached_property
    def flat_binding(self) -> FlatEdges:
        """The edges that decide the exact timing."""
        return self._flat(self.timing_edges)

    @cached_property
    def flat_extents(self) -> FlatEdges:
        """The edges that decide the exact timing, as extents, for any blocks."""
        edges = [(edge, extent) for edge in self.timing_edges for extent in edge.extents]
        places, table = _joined([table for _, extent in edges for table in extent])
        rows, columns = places.reshape(-1, 2).T.copy()
        return FlatEdges(
            windows=self.windows,
            pointer=_pointers([edge.consumer for edge, _ in edges], len(self.stages)),
            producer=np.array([edge.producer for edge, _ in edges], dtype=np.int32),
            lag=self._lags([edge for edge, _ in edges]),
            height=np.array([grid.height for grid in self.grids], dtype=np.int64),
            width=np.array([grid.width for grid in self.grids], dtype=np.int64),
            image=np.array([grid.image_height for grid in self.grids], dtype=np.int64),
            row=rows,
            column=columns,
            table=table,
        )

    @property
    def timing_edges(self) -> tuple[Edge, ...]:
        """Edges that timing must check: the transitive reduction, or all edges if transfers have lags."""
        return self.edges if self.lags else self.binding

    def _lags(self, edges: Sequence[Edge]) -> Ints:
        return np.array([self.lag(edge) for edge in edges], dtype=np.int64)

    def needed(self, edge: Edge) -> npt.NDArray[np.int32]:
        """Return the last block of the producer that blocks 0 ... w of the consumer need, -1 for none."""
        consumer, producer = self.grids[edge.consumer], self.grids[edge.producer]
        # Tables are cached objects (dependencies.py): their ids tell equal ones without comparing entries.
        key = (tuple((id(extent.rows), id(extent.columns)) for extent in edge.extents), consumer, producer)
        if key not in self._needed:
            self._needed[key] = needed_blocks(edge.extents, consumer, producer)
        return self._needed[key]

    def _flat(self, edges: Sequence[Edge]) -> FlatEdges:
        """Return these edges, grouped by consumer, with their tables of needed blocks."""
        offset, need = _joined([self.needed(edge) for edge in edges])
        return FlatEdges(
            windows=self.windows,
            pointer=_pointers([edge.consumer for edge in edges], len(self.stages)),
            producer=np.array([edge.producer for edge in edges], dtype=np.int32),
            lag=self._lags(edges),
            offset=offset,
            need=need,
        )


def needed_blocks(
    extents: Sequence[Extent], consumer: BlockGrid, producer: BlockGrid
) -> npt.NDArray[np.int32]:
    """Return for every w the last producer block that consumer blocks 0 ... w need, or -1."""
    need = np.full((consumer.rows, consumer.columns), -1, dtype=np.int32)
    for extent in extents:
        rows = extent.rows[consumer.last_pixels(0)]
        columns = extent.columns[consumer.last_pixels(1)]
        numbers = (producer.block_of(0, rows) * producer.columns)[:, None] + producer.block_of(1, columns)
        needed = (rows >= 0)[:, None] & (columns >= 0)
        need = np.maximum(need, np.where(needed, numbers, -1).astype(np.int32))
    # Blocks start in order, so block w waits for all that earlier ones need.
    return np.maximum.accumulate(need.ravel())


def _pointers(consumers: Sequence[int], stages: int) -> npt.NDArray[np.int32]:
    """Return the place at which the edges of each stage begin among edges grouped by consumer."""
    counts = np.bincount(np.array(consumers, dtype=np.int64), minlength=stages)
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
