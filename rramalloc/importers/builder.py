"""The network that an importer builds: nodes with unique names, and operators modelled only in part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from rramalloc.errors import NetworkError, SpecError, UnsupportedError
from rramalloc.network.geometry import Shape
from rramalloc.network.network import MAX_NAME, Network
from rramalloc.network.node import (
    KINDS,
    Approximation,
    Barrier,
    ConvTranspose,
    Node,
    Pixelwise,
    Recurrent,
    ShapeError,
    Stage,
    Unmodelled,
)
from rramalloc.units import counted

_LONGEST_MORE = 900  # letters, of what was left out
_MOST_SHOWN = 5  # operators in a message
_COMPOSITE = ("MultiheadAttention", "torch.nn.modules.transformer.", "torch.nn.modules.container.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopWork:
    """Weights and multiply-accumulates of some layers.

    held: (identity, count) of their weights, each once; macs: with these weights, None if not determined;
    products: multiply-accumulates of two computed tensors.
    """

    held: frozenset[tuple[str, int]] = frozenset()
    macs: int | None = 0
    products: int = 0

    @property
    def weights(self) -> int:
        """Number of all weights."""
        return sum(count for _, count in self.held)

    def followed_by(self, other: LoopWork) -> LoopWork:
        """Return the sum of both; weights that both use count once."""
        macs = None if self.macs is None or other.macs is None else self.macs + other.macs
        products = self.products + other.products
        return LoopWork(held=self.held | other.held, macs=macs, products=products)

    def times(self, count: int) -> LoopWork:
        """Return the work of `count` repetitions with the same weights."""
        macs = None if self.macs is None else count * self.macs
        return LoopWork(held=self.held, macs=macs, products=count * self.products)


class GraphBuilder:
    """Builder of a network: nodes in order, with their shapes.

    taken: names that only `add` with exactly that name may use.
    """

    def __init__(self, where: str, taken: Iterable[str] = ()) -> None:
        self.where = where
        self.nodes: list[Node] = []
        self.shapes: MutableMapping[str, Shape] = {}
        self._count: dict[str, int] = dict.fromkeys(taken, 0)
        self._owners: dict[tuple[str, int], str] = {}
        self._notes: list[tuple[Sequence[str], Approximation | Unmodelled]] = []
        self._chosen: dict[str, list[str]] = {}
        self._advice: dict[str, None] = {}
        self._precomputed: list[Unmodelled] = []

    def unique(self, name: str) -> str:
        """Reserve and return a name that no node has: the name itself, or with a number."""
        name = stem = name[:MAX_NAME] or "node"
        while name in self._count:
            self._count[stem] += 1
            name = f"{stem}_{self._count[stem]}"
        self._count[name] = 0
        return name

    def reserve(self, names: Iterable[str]) -> None:
        """Keep names for `add` with exactly these."""
        for name in names:
            self._count.setdefault(name, 0)

    def is_taken(self, name: str) -> bool:
        """Return True if a node has the name, or it is reserved."""
        return name in self._count

    def work(self) -> LoopWork:
        """Return the weights and multiply-accumulates of all nodes."""
        lost = [note for _, note in self._notes if isinstance(note, Unmodelled)]
        stored = {owner: key for key, owner in self._owners.items()}
        held = {(item.name, item.weights) for item in lost}
        macs, products = 0, 0
        for node in self.nodes:
            if not isinstance(node, Stage):
                products += getattr(node, "dynamic_macs", None) or 0
                continue
            source = self.shapes[node.inputs[0]]
            count = node.weight_count(node.hidden if isinstance(node, Recurrent) else source.channels)
            read = source if isinstance(node, ConvTranspose) else self.shapes[node.name]
            held |= {(stored.get(node.name, (node.name,))[0], count)} if node.shares is None else set()
            macs += count * read.pixels
        return LoopWork(held=frozenset(held), macs=None if lost else macs, products=products)

    def add(
        self,
        name: str,
        op: str,
        inputs: Sequence[str],
        place: str,
        *,
        weights: str | None = None,
        **fields: Any,
    ) -> Shape:
        """Append a node and return its shape.

        place: operator of the file, for messages; weights: what identifies the constant weights of a stage:
        a later stage with the same ones shares them. Raises NetworkError if fields or shapes are not allowed.
        """
        try:
            node = KINDS[op](name=name, op=op, **({"inputs": tuple(inputs)} if inputs else {}), **fields)
            sources = [self.shapes[source] for source in inputs]
            shape: Shape = node.output_shape(sources)
        except SpecError as error:
            raise NetworkError(place, error.reason) from None
        except ShapeError as error:
            raise NetworkError(place, str(error)) from None
        if weights is not None:
            owner = self._owners.setdefault((weights, node.weight_count(sources[0].channels)), name)
            node = node if owner == name else node.model_copy(update={"shares": owner})
        self.nodes.append(node)
        self.shapes[name] = shape
        return shape

    def approximate(self, names: Sequence[str], operator: str, treatment: str) -> None:
        """Record that nodes stand for an operator only approximately."""
        made = Approximation(name=names[0], operator=operator[:100], treatment=treatment)
        self._notes.append((names, made))

    def leave_out(
        self,
        names: Sequence[str],
        operator: str,
        weights: int,
        macs: int | None = None,
        *,
        stored: str = "",
        advice: str = "",
    ) -> None:
        """Record an operator with constant weights that no stage stands for; names: of nodes in its place.

        stored: tensor of the file that holds the weights, which count once; advice: for an error.
        """
        if advice:
            self._advice[advice] = None
        if stored and stored in self._chosen:
            self._chosen[stored] += names
            return
        if stored:
            names = self._chosen[stored] = list(names)
        made = Unmodelled(name=names[0], operator=operator[:100], weights=weights, macs=macs)
        self._notes.append((names, made))

    def precompute(self, name: str, operator: str, weights: int, macs: int | None) -> None:
        """Record a layer that works on constants alone; name: of the operator in the file."""
        item = Unmodelled(name=name[:MAX_NAME] or "node", operator=operator[:100], weights=weights, macs=macs)
        self._precomputed.append(item)

    def network(
        self,
        name: str,
        source: str,
        *,
        is_lifted: Callable[[str], bool],
        warnings: Iterable[str],
        outputs: Collection[str],
    ) -> Network:
        """Return the network of the nodes that `outputs` need.

        is_lifted: True for the name of a layer that may be left out. Raises UnsupportedError for other
        operators with weights that are not modelled, and if no stage is left; SpecError, NetworkError.
        """
        named = {names[0] for names, note in self._notes if isinstance(note, Unmodelled)}
        nodes, joined = _joined_barriers(needed(self.nodes, outputs), named.union(outputs))
        kept, notes = {node.name for node in nodes}, list[Approximation | Unmodelled]()
        held = {weights for (weights, _), owner in self._owners.items() if owner in kept}
        on_arrays = [names for stored, names in self._chosen.items() if stored in held]
        for names, note in self._notes:
            if any(names is layer_names for layer_names in on_arrays):  # tied to a layer
                continue
            first = next((joined.get(name, name) for name in names if joined.get(name, name) in kept), None)
            notes += [] if first is None else [note.model_copy(update={"name": first})]
        unmodelled = [note for note in notes if isinstance(note, Unmodelled)]
        approximations = [note for note in notes if isinstance(note, Approximation)]
        refused = [note for note in unmodelled if not is_lifted(note.name)]
        if refused:
            raise UnsupportedError(self.where, "; ".join([_refusal(refused), *self._advice]))
        if not any(isinstance(node, Stage) for node in nodes):
            reason = "holds neither a convolution nor a linear layer with constant weights"
            left = {f"{item.operator} {item.name[:60]!r} {item.treatment}": None for item in approximations}
            more = "".join(f"; {text}" for text in left if "is left out" in text)
            raise UnsupportedError(self.where, reason + more[:_LONGEST_MORE])
        return Network.build(
            name,
            nodes,
            source=source,
            where=self.where,
            warnings=(*warnings, *warnings_of(approximations)),
            unmodelled=unmodelled,
            approximations=approximations,
            precomputed=self._precomputed,
        )


def _joined_barriers(nodes: Sequence[Node], outputs: Collection[str]) -> tuple[list[Node], dict[str, str]]:
    """Return the nodes without barriers that add no wait, and the kept barrier for each one that is left out.

    A barrier adds no wait behind another one if only pixelwise nodes lie between. outputs: nodes that stay.
    """
    readers = Counter(name for node in nodes for name in set(node.inputs))
    by_name: dict[str, Node] = {}
    renamed: dict[str, str] = {}
    joined: dict[str, str] = {}
    for node in nodes:
        if any(name in renamed for name in node.inputs):
            node = node.model_copy(update={"inputs": tuple(renamed.get(name, name) for name in node.inputs)})
        if isinstance(node, Barrier) and len(node.inputs) == 1 and node.name not in outputs:
            chain = by_name[node.inputs[0]]
            while isinstance(chain, Pixelwise) and readers[chain.name] == 1 and chain.name not in outputs:
                chain = by_name[chain.inputs[0]]
            if isinstance(chain, Barrier) and readers[chain.name] == 1 and chain.name not in outputs:
                made = {
                    "shape": node.shape,
                    "images": node.images,
                    "mixes_images": chain.mixes_images or node.mixes_images or chain.images != node.images,
                    "dynamic_macs": (chain.dynamic_macs or 0) + (node.dynamic_macs or 0) or None,
                }
                by_name[chain.name] = chain.model_copy(update=made)
                renamed[node.name] = node.inputs[0]
                joined[node.name] = chain.name
                readers[node.inputs[0]] = readers[node.name]
                continue
        by_name[node.name] = node
    return list(by_name.values()), joined


def module_name(path: str, kind: str, operator: str) -> str:
    """Return `features.0` for the call of a PyTorch layer, `layer1.0.add` for one in a larger module."""
    if kind.startswith("torch.nn.modules.") and not any(part in kind for part in _COMPOSITE):
        return path
    return f"{path}.{operator}"


def _refusal(unmodelled: Sequence[Unmodelled]) -> str:
    first, more = unmodelled[:_MOST_SHOWN], len(unmodelled) - _MOST_SHOWN
    total = sum(item.weights for item in unmodelled)
    in_all = f", {total:,} weights in all" if len(unmodelled) > 1 else ""
    shown = ", ".join(f"{item.operator} {item.name[:60]!r} ({item.weights:,} weights)" for item in first)
    shown += f" and {more} more" if more > 0 else ""
    return (
        f"holds operators whose weights cannot be modelled{in_all}: {shown}; to take them as "
        f"barriers without arrays, which every result then says, give --allow-partial, or "
        f"--host with their names"
    )


def warnings_of(approximations: Iterable[Approximation]) -> list[str]:
    """Return one line for each kind of approximation."""
    names: dict[tuple[str, str], list[str]] = {}
    for item in approximations:
        names.setdefault((item.operator, item.treatment), []).append(item.name)
    return [
        f"operator {operator} ({counted(len(nodes), 'node')}, first {nodes[0][:200]!r}) {treatment}"
        for (operator, treatment), nodes in names.items()
    ]


def needed(nodes: Sequence[Node], outputs: Iterable[str]) -> list[Node]:
    """Return the nodes that `outputs` need; the next node that shares a dropped node's weights owns them."""
    by_name = {node.name: node for node in nodes}
    reached: set[str] = set()
    pending = list(outputs)
    while pending:
        name = pending.pop()
        if name not in reached:
            reached.add(name)
            pending.extend(by_name[name].inputs)
    kept: list[Node] = []
    heirs: dict[str, str | None] = {}
    for node in nodes:
        if node.name in reached:
            owner = node.shares if isinstance(node, Stage) else None
            if owner is not None and owner not in reached:
                node = node.model_copy(update={"shares": heirs.get(owner)})
                heirs.setdefault(owner, node.name)
            kept.append(node)
    return kept
