"""A segment of a network as a network of its own, with inputs for what earlier segments computed."""

from __future__ import annotations

from collections.abc import Collection

from rramalloc.network.network import Network
from rramalloc.network.node import Input, Node, Stage


def segment_network(network: Network, timed: Collection[str], chosen: Collection[str], name: str) -> Network:
    """The network of the stages `chosen` and of the digital nodes before them.

    timed: all stages; what one of the others computes is an input, buffered outside and there from the start
    (docs/sources/model.md 13).
    """
    nodes = {node.name: node for node in network.nodes}
    kept: dict[str, Node] = {}
    pending = list(chosen)
    while pending:
        node = nodes[pending.pop()]
        if node.name in kept:
            continue
        if node.name in timed and node.name not in chosen:
            node = Input(name=node.name, shape=tuple(network.shapes[node.name]))
        elif isinstance(node, Stage):
            node = node.model_copy(update={"shares": None})
        kept[node.name] = node
        pending += node.inputs
    return Network.build(
        name,
        [kept[node.name] for node in network.nodes if node.name in kept],
        source=network.source,
        where=network.where,
        approximations=[each for each in network.approximations if each.name in kept],
    )
