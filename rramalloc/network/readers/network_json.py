"""Reader of the network JSON format, `rramalloc-network/1`."""

from __future__ import annotations

from typing import Any

from rramalloc.errors import SpecError
from rramalloc.network.network import FORMAT, Network
from rramalloc.records import brief

_FIELDS = {"format", "name", "source", "nodes"}


def from_document(document: Any, where: str) -> Network:
    """A network from a parsed JSON document. Raises SpecError, NetworkError."""
    if not isinstance(document, dict):
        raise SpecError(where, f"must be an object with 'format': {FORMAT!r}, got {brief(document)}")
    if document.get("format") != FORMAT:
        raise SpecError(where, f"format: must be {FORMAT!r}, got {brief(document.get('format'))}")
    unknown = sorted(set(document) - _FIELDS)
    if unknown:
        raise SpecError(where, f"{brief(unknown[0])}: this field is not known; {_listed()}")
    name, source, nodes = document.get("name"), document.get("source", ""), document.get("nodes")
    if not isinstance(name, str) or not name:
        raise SpecError(where, f"name: must be a non-empty text, got {brief(name)}")
    if not isinstance(source, str):
        raise SpecError(where, f"source: must be a text, got {brief(source)}")
    if not isinstance(nodes, list):
        raise SpecError(where, f"nodes: must be a list of nodes, got {brief(nodes)}")
    return Network.build(name, nodes, source=source, where=where)


def _listed() -> str:
    return "a network has " + ", ".join(sorted(_FIELDS))
