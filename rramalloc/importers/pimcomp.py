"""Reader of the network JSON that the PIMCOMP and PIMSYN compilers exchange (PEERS.md).

PIMSYN writes a list of nodes, PIMCOMP wraps it as {"node_list": [...]}; a node names its `provider` nodes.
"""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath
from typing import Any

from pydantic import TypeAdapter

from rramalloc.errors import NetworkError, SpecError
from rramalloc.importers.pimcomp_node import PimcompNode
from rramalloc.importers.pimcomp_ops import OPERATIONS, needs_flatten, unknown
from rramalloc.network.geometry import Shape
from rramalloc.network.network import MAX_NODES, Network
from rramalloc.network.node import Flatten, Node, ShapeFault
from rramalloc.records import parse

_NODE: TypeAdapter[Node] = TypeAdapter(Node)


def recognises(document: object) -> bool:
    """Is a parsed JSON document a PIMSYN list or a PIMCOMP object with `node_list`?"""
    return isinstance(document, list) or (isinstance(document, dict) and "node_list" in document)


def from_document(document: object, where: str) -> Network:
    """A network from a parsed document; every stated `output_dim` is checked against the inferred shape.

    Raises SpecError (node and field), NetworkError.
    """
    nodes = _parsed(document, where)
    known = {node.name: node for node in nodes}
    taken = set(known)
    records: list[Node] = []
    unknown_operations: Counter[str] = Counter()
    for node in nodes:
        providers = [_provider(node, name, known) for name in node.providers]
        rule = OPERATIONS.get(node.operation, unknown)
        if rule is unknown:
            unknown_operations[node.operation] += 1
        fields = {"name": node.name} | rule(node, providers)
        names, shapes = list(node.providers), [provider.shape for provider in providers]
        if needs_flatten(node, providers):
            flat = Flatten(name=_free_name(f"{node.name}_flatten", taken), inputs=tuple(names))
            records.append(flat)
            names, shapes = [flat.name], [Shape(shapes[0].channels * shapes[0].pixels, 1, 1)]
        records.append(_checked(node, fields | ({"inputs": names} if names else {}), shapes))
    return Network.build(
        PurePath(where).stem or "network",
        records,
        source="PIMCOMP / PIMSYN network JSON",
        where=where,
        warnings=_warnings(unknown_operations),
    )


def _parsed(document: object, where: str) -> list[PimcompNode]:
    entries = document.get("node_list") if isinstance(document, dict) else document
    if not isinstance(entries, list) or not entries:
        raise SpecError(f"{where}: node_list", "must be a list of at least one node")
    if len(entries) > MAX_NODES:
        raise NetworkError(where, f"has {len(entries)} nodes, the limit is {MAX_NODES}")
    nodes = [PimcompNode.parse(entry, f"{where}: node {index}") for index, entry in enumerate(entries)]
    seen: set[str] = set()
    for node in nodes:
        if node.name in seen:
            raise node.fault("name", "the name is used twice; names must be unique")
        seen.add(node.name)
    return nodes


def _provider(node: PimcompNode, name: str, known: dict[str, PimcompNode]) -> PimcompNode:
    if name not in known:
        raise node.fault("provider", f"no node is named {name[:60]!r}")
    return known[name]


def _free_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _warnings(unknown_operations: Counter[str]) -> list[str]:
    return [
        f"operation {operation[:60]!r} is not known: {count} node(s) wait for all pixels of their inputs"
        for operation, count in sorted(unknown_operations.items())
    ]


def _checked(node: PimcompNode, fields: dict[str, Any], inputs: list[Shape]) -> Node:
    """The record of a node, whose output on the stated inputs is the stated one. Raises SpecError."""
    record = parse(_NODE, fields, node.place)
    shape = record.output_shape(inputs)
    if isinstance(shape, ShapeFault):
        raise node.fault(shape.field, shape.reason)
    if shape != node.shape:
        raise node.fault("output_dim", f"must be {_dims(shape)}, got {_dims(node.shape)}")
    return record


def _dims(shape: Shape) -> str:
    return f"[1, {shape.channels}, {shape.height}, {shape.width}]"
