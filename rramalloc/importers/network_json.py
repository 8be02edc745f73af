"""Reader of the network JSON format, `rramalloc-network/1`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import TypeAdapter

from rramalloc.network.network import Network, Nodes
from rramalloc.network.node import Name
from rramalloc.records import Record, parse


class NetworkDocument(Record):
    """The file as it stands: nodes in any order, shapes are (channels, height, width)."""

    format: Literal["rramalloc-network/1"]
    name: Name
    source: str = ""
    nodes: Nodes


_DOCUMENT: TypeAdapter[NetworkDocument] = TypeAdapter(NetworkDocument)


def from_document(document: Any, where: str) -> Network:
    """A network from a parsed JSON document. Raises SpecError, NetworkError."""
    checked = parse(_DOCUMENT, document, where)
    return Network.build(checked.name, checked.nodes, source=checked.source, where=where)
