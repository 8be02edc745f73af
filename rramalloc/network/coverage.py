"""Coverage: the part of a network file that a result covers (docs/sources/model.md 14)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from pydantic import Field

from rramalloc.network.counts import macs, weights
from rramalloc.network.network import Network, natural_key
from rramalloc.network.node import Approximation, Barrier, Input, Stage, Unmodelled, Whole
from rramalloc.records import Record
from rramalloc.units import share

_MOST_NAMES = 3  # names in a sentence before "and N more"
_SHOWN_TENTHS = 1000  # a share in tenths of a per cent


class OnArrays(Record):
    """Weights or multiply-accumulates on arrays, out of all in the file; total: None where not determined."""

    on_arrays: int
    total: int | None


class DynamicProducts(Record):
    """Multiply-accumulates of products of two computed tensors, as attention has them: never on arrays.

    share: of all multiply-accumulates, None where their total is not determined; nodes: that do them.
    """

    macs: int
    share: float | None
    nodes: tuple[str, ...]


class Coverage(Record):
    """Share of a network file on arrays, left to the host, approximated, or free.

    Lists are in an order that does not depend on the file's.

    weights: without biases, normalisation factors and look-up tables, each counted once however many nodes
    use it; macs: multiply-accumulates for one input, products of two computed tensors among them; dynamic:
    these products, None where there are none; stored_again: weights that several stages share and
    that are stored for each of them; host: weight layers left to the host, untimed; unmodelled: operators
    with weights that no stage stands for; approximated: nodes that stand for an operator only approximately;
    precomputed: layers that work on constants alone, which no total counts;
    barriers: nodes that wait for all pixels of their inputs, where those come one by one, layers left to the
    host among them; timed_digital:
    digital nodes to which the hardware gives a time; free_digital: all others, which take none;
    digital: weight layers on units without arrays, in some row where a result has several allocations.
    """

    weights: OnArrays
    macs: OnArrays
    dynamic: DynamicProducts | None = None
    stored_again: int
    host: tuple[str, ...]
    unmodelled: tuple[Unmodelled, ...]
    approximated: tuple[Approximation, ...]
    precomputed: tuple[Unmodelled, ...] = ()
    barriers: tuple[str, ...]
    timed_digital: tuple[str, ...] = ()
    free_digital: tuple[str, ...]
    digital: tuple[str, ...] = Field((), exclude_if=lambda names: not names)

    @classmethod
    def of(cls, network: Network, stages: Collection[str], units: Collection[str] = ()) -> Coverage:
        """Return the coverage of `network` with the weight layers named in `stages` on arrays.

        Digital nodes among them are timed. units: those of the layers that are on digital units instead.
        """
        timed = set(stages)
        placed = [stage for stage in network.stages if stage.name in timed and stage.name not in units]
        by_owner = {stage.shares or stage.name: weights(network, stage) for stage in network.stages}
        distinct = sum(by_owner[owner] for owner in {stage.shares or stage.name for stage in placed})
        missing = [item.macs for item in network.unmodelled if item.macs is not None]
        nodes = network.canonical_nodes
        dynamic = {node.name: count for node in nodes if (count := getattr(node, "dynamic_macs", None))}
        products, total = sum(dynamic.values()), None
        if len(missing) == len(network.unmodelled):
            total = sum(macs(network, stage) for stage in network.stages) + sum(missing) + products
        held = sum(by_owner.values()) + sum(item.weights for item in network.unmodelled)
        share_of_all = total and products / total
        digital = [node.name for node in nodes if not isinstance(node, Input | Stage)]
        position = {node.name: number for number, node in enumerate(nodes)}

        def place(item: Unmodelled | Approximation) -> tuple[object, ...]:
            return position.get(item.name, len(nodes)), natural_key(item.name), item.operator

        return cls(
            weights=OnArrays(on_arrays=distinct, total=held),
            macs=OnArrays(on_arrays=sum(macs(network, stage) for stage in placed), total=total),
            dynamic=DynamicProducts(macs=products, share=share_of_all, nodes=tuple(dynamic))
            if dynamic
            else None,
            stored_again=sum(weights(network, stage) for stage in placed) - distinct,
            host=tuple(node.name for node in nodes if isinstance(node, Stage) and node.name not in timed),
            unmodelled=tuple(sorted(network.unmodelled, key=place)),
            approximated=tuple(sorted(network.approximations, key=place)),
            precomputed=tuple(sorted(network.precomputed, key=place)),
            barriers=_waiting(network, timed),
            timed_digital=tuple(name for name in digital if name in timed),
            free_digital=tuple(name for name in digital if name not in timed),
            digital=tuple(node.name for node in nodes if isinstance(node, Stage) and node.name in units),
        )

    @property
    def complete(self) -> bool:
        """Whether all weights and products of the file are on arrays or units, for every layer with some."""
        lost = any(item.weights for item in self.unmodelled)
        return not lost and not self.host and self.dynamic is None

    @property
    def extent(self) -> str:
        """Part of the network that a proof is about: " for the layers on arrays", empty if all of it.

        Which layers these are, and their part of all, is said by `summary`.
        """
        units = " and digital units" if self.digital else ""
        return "" if self.complete else f" for the layers on arrays{units}"

    def qualified(self, proof: str) -> str:
        """Return a proof in words, with the part of the network that it is about if that is not all."""
        for claim in ("proven optimal", "proven best"):
            proof = proof.replace(claim, f"{claim}{self.extent}", 1)
        return proof

    @property
    def summary(self) -> str:
        """Coverage in one line of words."""
        macs = "" if self.macs.total is None else f"{_percent(self.macs)} of the MACs and "
        words = [f"{macs}{_percent(self.weights)} of the weights on arrays"]
        if self.dynamic:
            part = self.dynamic.share
            of_all = "" if part is None else f", {share(part)} of all"
            words.append(f"dynamic, products of computed tensors: {self.dynamic.macs:,} MACs{of_all}")
        if self.digital:
            words.append(f"on digital units: {name_some(self.digital)}")
        if self.host:
            words.append(f"on the host: {name_some(self.host)}")
        if self.unmodelled:
            lost_weights = (
                f"{item.name} ({item.operator}: {item.weights:,} weights)" for item in self.unmodelled
            )
            words.append(f"not modelled: {name_some(lost_weights)}")
        lost = {item.name for item in self.unmodelled}
        counts = Counter(item.operator for item in self.approximated if item.name not in lost)
        if counts:
            words.append(f"approximated: {name_some(f'{counts[name]} x {name}' for name in counts)}")
        if self.timed_digital:
            words.append(f"digital nodes with a time of their own: {name_some(self.timed_digital)}")
            if self.free_digital:
                words.append(f"taken as free: {name_some(self.free_digital)}")
        if self.precomputed:
            made = sum(item.weights for item in self.precomputed)
            words.append(f"computed beforehand, from constants alone: layers with {made:,} weights")
        if self.stored_again:
            words.append(f"{self.stored_again:,} weights stored again for layers that share them")
        return "; ".join(words)


def _waiting(network: Network, timed: Collection[str]) -> tuple[str, ...]:
    """Return the barriers, layers on the host among them, with an input whose pixels come one by one."""
    at_once: set[str] = set()
    waiting: list[str] = []
    for node in network.canonical_nodes:
        inputs_at_once = bool(node.inputs) and at_once.issuperset(node.inputs)
        is_left = isinstance(node, Stage) and node.name not in timed
        at_one_pixel = is_left and network.input_shape(node).grid == (1, 1)
        if (isinstance(node, Barrier) or is_left) and not inputs_at_once and not at_one_pixel:
            waiting.append(node.name)
        digital = not isinstance(node, Input | Stage)
        shape, is_whole = network.shapes[node.name], isinstance(node, Whole) or is_left
        is_at_once = shape.pixels == 1 or (is_whole and shape.images == 1)
        if is_at_once or (digital and inputs_at_once):
            at_once.add(node.name)
    return tuple(waiting)


def _percent(share: OnArrays) -> str:
    """Return a share rounded down, so that an incomplete one never reads 100 %."""
    if not share.total or share.on_arrays == share.total:
        return "100 %"
    tenths = share.on_arrays * _SHOWN_TENTHS // share.total
    return f"{tenths / 10:g} %" if tenths or not share.on_arrays else "less than 0.1 %"


def name_some(names: Iterable[str]) -> str:
    """Return the first of these names, and how many more there are."""
    listed = [name if len(name) <= 60 else f"{name[:57]}..." for name in names]
    more = len(listed) - _MOST_NAMES
    return ", ".join(listed[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
