"""Network: a checked directed acyclic graph of nodes with their shapes."""

from __future__ import annotations

import hashlib
import heapq
import json
import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import accumulate, chain, count
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import FailFast, Field, TypeAdapter

from rramalloc.errors import NetworkError, SpecError, suggestion
from rramalloc.frozen import FrozenDict
from rramalloc.network.geometry import MAX_EXTENT, MAX_PIXELS, Shape
from rramalloc.network.node import (
    MOST_NODE_BITS,
    Approximation,
    Input,
    Linear,
    Name,
    Node,
    Recurrent,
    Reduce,
    ShapeError,
    Stage,
    Unmodelled,
)
from rramalloc.records import Record, brief, check, dict_by_name, from_list, is_whole, parse
from rramalloc.result import Result
from rramalloc.units import counted

if TYPE_CHECKING:
    import pandas as pd

FORMAT: Literal["rramalloc-network/1"] = "rramalloc-network/1"
MAX_NODES = 200_000  # nodes of one file: far above any real network, it bounds time and memory
MAX_NAME = 900
"""Characters of a node's name with which the names of nodes that this package adds for it begin."""
FEEDS_BACK = "reads one token and its caches come back longer: the next input waits for this one's output"
MOST_SEQUENCES = 2**20  # sequences that take turns: far above any batch of a server
MAX_WEIGHTS = 2**46
"""Most weights of all stages together: keeps array counts within 64 bits, for any array and precision."""
_ALL_ON_ARRAYS = (
    "all weight layers are linear layers on a single pixel: on the arrays, not on the host, "
    "unless --host names them"
)
Nodes = Annotated[list[Node], FailFast()]
"""Only the first faulty node is reported: a file can hold millions."""
_BEYOND = "unmodelled", "approximations", "precomputed"
_NODES: TypeAdapter[dict[str, list[Node]]] = TypeAdapter(dict[str, Nodes])


class NetworkDocument(Record):
    """The network JSON file: nodes in any order, and the operators that they do not model, or not exactly."""

    format: Literal["rramalloc-network/1"]
    name: Name
    source: str = ""
    nodes: Nodes
    unmodelled: Annotated[tuple[Unmodelled, ...], from_list(list[Unmodelled])] = ()
    approximations: Annotated[tuple[Approximation, ...], from_list(list[Approximation])] = ()
    precomputed: Annotated[tuple[Unmodelled, ...], from_list(list[Unmodelled])] = ()
    feeds_back: bool = Field(False, exclude_if=operator.not_)
    states: dict[Name, Name] | None = Field(None, exclude_if=operator.not_)


_DOCUMENT: TypeAdapter[NetworkDocument] = TypeAdapter(NetworkDocument)


@dataclass(frozen=True, repr=False)
class Network(Result):
    """A CNN as the allocation sees it. Build it with `Network.build`, which checks everything.

    nodes: producers before consumers, file order kept wherever it allows that;
    shapes: output shape of every node; warnings: what an importer assumed or ignored;
    where: the file it came from, as messages name it; unmodelled: operators of that file whose weights no
    stage stands for; approximations: nodes that stand for an operator only approximately; precomputed: layers
    of that file that work on constants alone, computed once beforehand, on no arrays; sequences: that take
    turns where the next input of each needs this one's output, as the tokens of a decoder do, None where
    inputs come from outside; has_caches: whether inputs are outputs of the input before, which may mean that;
    states: the layer that reads what each of these stages writes when the next input comes.
    """

    name: str
    source: str
    nodes: tuple[Node, ...]
    shapes: FrozenDict[str, Shape]
    warnings: tuple[str, ...] = ()
    where: str = field(default="", compare=False)
    unmodelled: tuple[Unmodelled, ...] = ()
    approximations: tuple[Approximation, ...] = ()
    precomputed: tuple[Unmodelled, ...] = ()
    sequences: int | None = None
    has_caches: bool = False
    states: FrozenDict[str, str] = field(default_factory=FrozenDict)

    @classmethod
    def from_document(cls, document: Any, where: str) -> Network:
        """Return the network of a parsed network JSON file. Raises SpecError, NetworkError."""
        checked = parse(_DOCUMENT, document, where)
        more_fields = {name: getattr(checked, name) for name in _BEYOND}
        network = cls.build(checked.name, checked.nodes, source=checked.source, where=where, **more_fields)
        return network.in_turns(True if checked.feeds_back else None, None, checked.states)

    @classmethod
    def build(
        cls,
        name: str,
        nodes: Iterable[Node | Mapping[str, Any]],
        *,
        source: str = "",
        where: str | None = None,
        warnings: Iterable[str] = (),
        unmodelled: Iterable[Unmodelled] = (),
        approximations: Iterable[Approximation] = (),
        precomputed: Iterable[Unmodelled] = (),
    ) -> Network:
        """Check nodes (records or their JSON form) in any order and infer all shapes.

        where: how messages name the file. Raises SpecError for a field, NetworkError for the graph.
        """
        place = where if where is not None else name
        if not isinstance(nodes, Iterable):
            raise SpecError(place, f"must have a list of nodes, got {brief(nodes)}")
        items = list(nodes)
        if len(items) > MAX_NODES:
            raise NetworkError(place, f"has {len(items)} nodes, the limit is {MAX_NODES}")
        checked = check(_NODES, {"nodes": items}, place)["nodes"]
        _check_names(checked, place)
        ordered, shapes = _shapes(topological(checked, place), place)
        _check_weights(ordered, shapes, place)
        network = cls(name, source, tuple(ordered), shapes, tuple(warnings), place, tuple(unmodelled))
        network = replace(network, approximations=tuple(approximations), precomputed=tuple(precomputed))
        if network.only_classifiers:
            return replace(network, warnings=(*network.warnings, _ALL_ON_ARRAYS))
        return network

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields without cached properties: networks are sent to other processes."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """Nodes with constant weights, in network order."""
        return tuple(node for node in self.nodes if isinstance(node, Stage))

    @cached_property
    def consumers(self) -> FrozenDict[str, tuple[str, ...]]:
        """Names of the nodes that read each node, once for each of their inputs."""
        consumers: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for node in self.nodes:
            for name in node.inputs:
                consumers[name].append(node.name)
        return FrozenDict({name: tuple(readers) for name, readers in consumers.items()})

    @cached_property
    def only_classifiers(self) -> bool:
        """Whether all stages are linear layers on a single pixel: then none is left to the host."""
        return bool(self.stages) and all(map(self.is_classifier, self.stages))

    def is_classifier(self, node: Node) -> bool:
        """Return True for a linear layer on a single pixel, wherever it is computed."""
        return isinstance(node, Linear) and self.shapes[node.name].pixels == 1

    @cached_property
    def kinds(self) -> FrozenDict[str, str]:
        """Name of the first node that is equal to each node but for its name and producers."""
        first: dict[object, str] = {}
        found: dict[str, str] = {}
        for node in self.nodes:
            shapes = tuple(self.shapes[name] for name in (*node.inputs, node.name))
            alike = node.model_copy(update={"name": "", "inputs": ()}), shapes
            found[node.name] = first.setdefault(alike, node.name)
        return FrozenDict(found)

    def input_shape(self, node: Node) -> Shape:
        """Return the shape of a node's first input. Raises SpecError if it has none here."""
        try:
            return self.shapes[node.inputs[0]]
        except (AttributeError, IndexError, KeyError, TypeError):
            raise SpecError(self.name, f"has no node with inputs {brief(node)}") from None

    @cached_property
    def canonical_nodes(self) -> tuple[Node, ...]:
        """Topological order that does not depend on the file: the smallest ready name first, 2 before 10."""
        return tuple(
            topological(self.nodes, self.name, lambda index, node: (natural_key(node.name), node.name))
        )

    @cached_property
    def sha256(self) -> str:
        """Hash of the graph, equal for every file format and order of nodes that yield it.

        Without `shares` and `dynamic_macs`, which do not change what is computed when.
        """
        return self._hash(without=())

    @cached_property
    def plain_sha256(self) -> str:
        """Hash of the graph without the bits of its layers: the same network whatever bits are chosen."""
        return self._hash(without=("weight_bits", "input_bits"))

    def _hash(self, without: Sequence[str]) -> str:
        dumps = [_dump(node, everything=False) for node in self.canonical_nodes]
        document = [{key: dump[key] for key in dump if key not in without} for dump in dumps]
        text = json.dumps(document, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def is_of(self, sha256: str) -> bool:
        """Return True if a hash in a file is of this network, with or without the bits of its layers."""
        return isinstance(sha256, str) and sha256 in (self.plain_sha256, self.sha256)

    def with_bits(self, bits: Mapping[str, tuple[int, int]]) -> Network:
        """Return the same network with other (weight bits, input bits) of some weight layers, by name.

        Raises SpecError.
        """
        for name, pair in dict_by_name(bits, "bits").items():
            is_pair = isinstance(pair, tuple | list) and len(pair) == 2
            if not is_pair or not all(is_whole(number, 1, MOST_NODE_BITS) for number in pair):
                words = f"{brief(name)}: must be two numbers of bits from 1 to {MOST_NODE_BITS}"
                raise SpecError("bits", f"{words}, got {brief(pair)}")
        nodes = [
            node.model_copy(update=dict(zip(("weight_bits", "input_bits"), bits[node.name], strict=True)))
            if isinstance(node, Stage) and node.name in bits
            else node
            for node in self.nodes
        ]
        return replace(self, nodes=tuple(nodes))

    def in_turns(
        self, feeds_back: bool | None, sequences: int | None, states: Mapping[str, str] | None = None
    ) -> Network:
        """Return the network with or without feedback from its output to its next input; None keeps either.

        sequences: number of sequences that take turns; None: 1 if the network feeds back; states: the layer
        that reads what a stage has written for the input before, by the stage. Raises SpecError.
        Source: docs/sources/model.md 8.
        """
        if states is not None:
            return self._with_states(states).in_turns(feeds_back, sequences)
        if not isinstance(feeds_back, bool | None):
            raise SpecError("feeds_back", f"must be True, False or None, got {brief(feeds_back)}")
        turns = self.sequences if feeds_back is None else 1 if feeds_back else None
        if sequences is not None:
            if turns is None:
                words = "take turns in a network whose next input needs this one's output: add feeds_back"
                raise SpecError("sequences", words)
            if not is_whole(sequences, 1, MOST_SEQUENCES):
                raise SpecError("sequences", f"must be from 1 to {MOST_SEQUENCES}, got {brief(sequences)}")
            turns = sequences
        if turns == self.sequences and feeds_back is None:
            return self
        notes = tuple(text for text in self.warnings if turns is not None or text != FEEDS_BACK)
        return replace(
            self, sequences=turns, has_caches=self.has_caches and feeds_back is None, warnings=notes
        )

    def _with_states(self, states: Mapping[str, str]) -> Network:
        """Return the network with these states in place of its own. Raises SpecError."""
        stages = {stage.name: stage for stage in self.stages}
        for state, layer in dict_by_name(states, "states").items():
            for name in (state, layer):
                if not isinstance(name, str) or name not in stages:
                    hint = suggestion(name, [*stages]) if isinstance(name, str) else ""
                    words = f"no weight layer is called {brief(name)}{'; ' if hint else ''}{hint}"
                    raise SpecError("states", words)
            if isinstance(stages[layer], Recurrent):
                words = "is a recurrence, which keeps its states inside: name a convolution or a linear layer"
                raise SpecError("states", f"{layer[:60]!r} {words}")
            written = self.shapes[state]
            read = self.input_shape(stages[layer])
            if written.extent not in (read.extent, self.shapes[layer].extent):
                raise SpecError(
                    "states",
                    f"{state[:60]!r} writes {written}, but {layer[:60]!r} reads {read} and writes "
                    f"{self.shapes[layer]}: "
                    "name a stage and a layer with the same images, height and width",
                )
        return replace(self, states=FrozenDict(states))

    def to_dict(self) -> dict[str, Any]:
        """Return the document of the network JSON format, `rramalloc-network/1`."""
        document: dict[str, Any] = {"format": FORMAT, "name": self.name, "source": self.source}
        if self.sequences is not None:
            document["feeds_back"] = True
        if self.states:
            document["states"] = dict(self.states)
        document["nodes"] = [_dump(node, everything=True) for node in self.nodes]
        for key in _BEYOND:
            if getattr(self, key):
                document[key] = [item.model_dump(mode="json") for item in getattr(self, key)]
        return document

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each node: name, op, inputs, its output's channels, height, width and images."""
        import pandas as pd

        rows = [
            (
                node.name,
                node.op,
                ", ".join(node.inputs),
                *self.shapes[node.name],
                self.shapes[node.name].images,
            )
            for node in self.nodes
        ]
        return pd.DataFrame(rows, columns=["name", "op", "inputs", *Shape._fields, "images"])

    def _headline(self) -> tuple[str, str]:
        return self.name, f"{counted(len(self.nodes), 'node')}, {len(self.stages):,} with weights"


def names_like(option: str, pattern: str, names: Collection[str], kind: str) -> list[str]:
    """Return [pattern] if it is a name, else the names that it matches.

    Raises SpecError, naming the option and the kind of what has the names, if there is none.
    """
    found = [pattern] if pattern in names else [name for name in names if fnmatchcase(name, pattern)]
    if not found:
        hint = suggestion(pattern, [*names])
        raise SpecError(option, f"no {kind} is called {pattern[:60]!r}{'; ' if hint else ''}{hint}")
    return found


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key with numbers compared as numbers: conv2 before conv10."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return tuple((0, int(p), "") if p[0] in "0123456789" and len(p) < 1000 else (1, 0, p) for p in parts)


def topological(
    nodes: Iterable[Node], where: str, key: Callable[[int, Node], Any] = lambda index, node: index
) -> list[Node]:
    """Return producers before consumers; among ready nodes the one with the smallest key comes first.

    Raises NetworkError for unknown inputs and cycles.
    """
    items = list(nodes)
    position = {node.name: index for index, node in enumerate(items)}
    for node in items:
        for producer in node.inputs:
            if producer not in position:
                raise NetworkError(_place(where, node), f"inputs: no node is named {producer[:60]!r}")
    needs = [{position[producer] for producer in node.inputs} for node in items]
    keys = [(key(index, node), index) for index, node in enumerate(items)]
    return [items[index] for index in sorted_by_needs(needs, keys, lambda index: _place(where, items[index]))]


def sorted_by_needs(
    needs: Sequence[Collection[int]], keys: Sequence[Any], place: Callable[[int], str]
) -> list[int]:
    """Return a topological order of items; of ready ones the one with the smallest key comes first.

    keys: all different; place: what messages call an item. Raises NetworkError for a cycle.
    """
    consumers: list[list[int]] = [[] for _ in needs]
    for index, producers in enumerate(needs):
        for producer in producers:
            consumers[producer].append(index)
    waiting = [len(producers) for producers in needs]
    heap = [(keys[index], index) for index, left in enumerate(waiting) if not left]
    heapq.heapify(heap)
    order = []
    while heap:
        order.append(heapq.heappop(heap)[1])
        for consumer in consumers[order[-1]]:
            waiting[consumer] -= 1
            if not waiting[consumer]:
                heapq.heappush(heap, (keys[consumer], consumer))
    if len(order) < len(needs):
        stuck = next(index for index, left in enumerate(waiting) if left)
        raise NetworkError(place(stuck), "is on a cycle or behind one; a network has no cycles")
    return order


def _check_names(nodes: list[Node], where: str) -> None:
    seen: set[str] = set()
    for node in nodes:
        if node.name in seen:
            raise NetworkError(_place(where, node), "the name is used twice; names must be unique")
        seen.add(node.name)
    if not any(isinstance(node, Input) for node in nodes):
        raise NetworkError(where, "nodes: there is no node with op 'input'")


def _shapes(nodes: list[Node], where: str) -> tuple[list[Node], FrozenDict[str, Shape]]:
    """Return the nodes with their output shapes; a recurrence without its input projection gets one."""
    shapes: dict[str, Shape] = {}
    names = {node.name for node in nodes}
    pending, ordered = nodes[::-1], list[Node]()
    while pending:
        node = pending.pop()
        if isinstance(node, Recurrent) and len(node.inputs) == 1:
            projection = _projection(node, shapes[node.inputs[0]], names)
            if projection is not None:
                pending.append(node.model_copy(update={"inputs": (projection.name,)}))
                node = projection
        if not isinstance(node, Input) and node.single and len(node.inputs) > 1:
            raise NetworkError(
                _place(where, node), f"inputs: {node.op} takes one input, got {len(node.inputs)}"
            )
        try:
            sources = [shapes[name] for name in node.inputs]
            shape = node.output_shape(sources)
            # The same network has the same hash, whether its file repeats what is inherited or not.
            if node.images is not None and _inherits(node, sources, shape):
                node = node.model_copy(update={"images": None})
        except ShapeError as error:
            raise NetworkError(_place(where, node), str(error)) from None
        if shape.pixels > MAX_PIXELS or shape.channels > MAX_EXTENT:
            raise NetworkError(
                _place(where, node),
                f"its output would be {shape}; limits: {MAX_PIXELS} pixels, {MAX_EXTENT} channels",
            )
        shapes[node.name] = shape
        ordered.append(node)
    return ordered, FrozenDict(shapes)


def _inherits(node: Node, sources: list[Shape], shape: Shape) -> bool:
    """Return True if the node has the same output where its `images` are left out."""
    try:
        return not isinstance(node, Reduce) and shape == node.model_copy(
            update={"images": None}
        ).output_shape(sources)
    except ShapeError:
        return False


def _projection(node: Recurrent, source: Shape, names: set[str]) -> Linear | None:
    """Return the input projection of a recurrence, a linear layer onto all gates; None if it has one."""
    if source.channels == node.outputs:
        return None
    stem, shared = f"{node.name[:MAX_NAME]}/projection", f"{node.shares}/projection"
    name = next(name for name in chain([stem], (f"{stem}_{n}" for n in count(2))) if name not in names)
    names.add(name)
    return Linear(
        name=name,
        inputs=node.inputs,
        out_features=node.outputs,
        weight_bits=node.weight_bits,
        input_bits=node.input_bits,
        shares=shared if node.shares and shared in names else None,
    )


def _check_weights(nodes: list[Node], shapes: Mapping[str, Shape], where: str) -> None:
    stages = {node.name: node for node in nodes if isinstance(node, Stage)}
    counts = {name: node.weight_count(shapes[node.inputs[0]].channels) for name, node in stages.items()}
    totals = accumulate(counts.values())
    for (name, node), total in zip(stages.items(), totals, strict=True):
        if node.shares is not None:
            owner = stages.get(node.shares)
            if owner is None or owner.shares is not None or counts[owner.name] != counts[name]:
                raise NetworkError(
                    _place(where, node),
                    f"shares: must name a weight layer with {counts[name]} weights of its own, "
                    f"got {node.shares[:60]!r}",
                )
        if total > MAX_WEIGHTS:
            outputs = "out_features" if isinstance(node, Linear) else "out_channels"
            raise NetworkError(
                _place(where, node),
                f"{outputs}: makes {counts[name]} weights, {total} with the layers before it; "
                f"the limit of a network is {MAX_WEIGHTS}",
            )


def _place(where: str, node: Node) -> str:
    return f"{where}: node {node.name[:60]!r} ({node.op})"


def _dump(node: Node, *, everything: bool) -> dict[str, Any]:
    """Return the fields of a node as JSON; everything: also those that no time depends on."""
    fields: dict[str, Any] = {"name": node.name, "op": node.op}
    if not isinstance(node, Input):
        fields["inputs"] = list(node.inputs)
    fields |= node.parameters()
    for key in ("shares", "dynamic_macs") if everything else ():
        if getattr(node, key, None) is not None:
            fields[key] = getattr(node, key)
    return fields
