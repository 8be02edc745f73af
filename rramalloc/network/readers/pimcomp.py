"""Reader of the network JSON that the PIMCOMP and PIMSYN compilers exchange (PEERS.md).

PIMSYN writes a list of nodes, PIMCOMP wraps it as {"node_list": [...]}; a node names its `provider` nodes.
"""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath
from typing import Any

from rramalloc.errors import NetworkError, SpecError
from rramalloc.network.geometry import Shape
from rramalloc.network.network import MAX_NODES, Network
from rramalloc.network.readers.pimcomp_node import PimcompNode
from rramalloc.network.readers.pimcomp_ops import OPERATIONS, needs_flatten, unknown


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
    items: list[dict[str, Any]] = []
    unknown_operations: Counter[str] = Counter()
    for node in nodes:
        providers = [_provider(node, name, known) for name in node.providers]
        rule = OPERATIONS.get(node.operation, unknown)
        if rule is unknown:
            unknown_operations[node.operation] += 1
        item: dict[str, Any] = {"name": node.name} | rule(node, providers)
        if node.providers:
            item["inputs"] = list(node.providers)
        if needs_flatten(node, providers):
            flat = _free_name(f"{node.name}_flatten", taken)
            items.append({"name": flat, "op": "flatten", "inputs": item["inputs"]})
            item["inputs"] = [flat]
        items.append(item)
    network = Network.build(
        PurePath(where).stem or "network",
        items,
        source="PIMCOMP / PIMSYN network JSON",
        where=where,
        warnings=_warnings(unknown_operations),
    )
    _check_shapes(network, nodes)
    return network


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


def _check_shapes(network: Network, nodes: list[PimcompNode]) -> None:
    for node in nodes:
        inferred = network.shapes[node.name]
        if inferred != node.shape:
            raise node.fault("output_dim", f"must be {_dims(inferred)}, got {_dims(node.shape)}")


def _dims(shape: Shape) -> str:
    return f"[1, {shape.channels}, {shape.height}, {shape.width}]"
