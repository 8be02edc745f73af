"""What is known of an allocation that a user hands over: an object, its file, or copies by layer name."""

from __future__ import annotations

import os
from collections.abc import Mapping as MappingOf
from types import MappingProxyType
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from rramalloc.errors import SpecError
from rramalloc.files import read_json
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.demand import Mapping
from rramalloc.records import brief, parse
from rramalloc.results.allocation import FORMAT, Allocation, BareReplication, NetworkId
from rramalloc.timing.measured_steps import MeasuredSteps

AllocationLike = Allocation | MappingOf[str, int] | str | os.PathLike[str]
_HARDWARE: TypeAdapter[Hardware] = TypeAdapter(Hardware)
_MEASURED: TypeAdapter[MeasuredSteps] = TypeAdapter(MeasuredSteps)
_REPLICATION: TypeAdapter[BareReplication] = TypeAdapter(BareReplication)
_SHOWN = 200


class Saved(NamedTuple):
    """Copies by layer name, and what a whole allocation says beside.

    hardware, measured: None, options (mapping, fc): empty, fold: False for bare copies; network: for which it
    was made, None for bare copies and where a file does not say.
    """

    replication: dict[str, int]
    hardware: Hardware | None = None
    options: MappingOf[str, str] = MappingProxyType({})
    fold: bool = False
    measured: MeasuredSteps | None = None
    network: NetworkId | None = None

    def folds(self, mapping: Mapping | None) -> bool:
        """Whether filters are folded first; mapping: instead of the allocation's, if given."""
        return self.fold and mapping in (None, "kernel_split")


def saved(allocation: AllocationLike, origin: str = "allocation") -> tuple[Saved, str]:
    """What an allocation says, and how messages call it: its file, or `origin`.

    Raises FileError, SpecError.
    """
    if isinstance(allocation, Allocation):
        options = allocation.options
        chosen = {"mapping": options.mapping, "fc": options.fc}
        whole = Saved(
            allocation.replication, allocation.hardware, chosen, options.fold, options.latency_table,
            allocation.network,
        )  # fmt: skip
        return whole, origin
    if isinstance(allocation, MappingOf):
        return Saved(dict(allocation)), origin
    return _saved_of(read_json(allocation), os.fspath(allocation)), os.fspath(allocation)


def _saved_of(document: object, where: str) -> Saved:
    if not isinstance(document, dict):
        raise SpecError(where, f"must be an allocation or {{'replication': ...}}, got {brief(document)}")
    if "replication" in document:
        return Saved(parse(_REPLICATION, document, where).replication)
    if document.get("format") != FORMAT:
        got = brief(document.get("format"))
        raise SpecError(where, f"format: must be {FORMAT!r}, or give 'replication' alone; got {got}")
    return Saved(_of_layers(document, where), *_context(document, where), _made_for(document))


def _made_for(document: dict[str, Any]) -> NetworkId | None:
    network = document.get("network")
    if not isinstance(network, dict) or not isinstance(network.get("sha256"), str):
        return None
    return NetworkId(name=str(network.get("name"))[:_SHOWN], sha256=network["sha256"])


def _of_layers(document: dict[str, Any], where: str) -> dict[str, int]:
    layers = document.get("layers")
    if not isinstance(layers, list):
        raise SpecError(where, f"layers: must be a list, got {brief(layers)}")
    copies: dict[str, Any] = {}
    for index, layer in enumerate(layers):
        name = layer.get("name") if isinstance(layer, dict) else None
        if not isinstance(name, str) or "replication" not in layer:
            raise SpecError(where, f"layers[{index}]: needs 'name' and 'replication', got {brief(layer)}")
        if name in copies:
            raise SpecError(where, f"layers[{index}]: {brief(name)} stands twice")
        copies[name] = layer["replication"]
    return parse(_REPLICATION, {"replication": copies}, where).replication


def _context(
    document: dict[str, Any], where: str
) -> tuple[Hardware | None, dict[str, str], bool, MeasuredSteps | None]:
    """Hardware, options (mapping, fc), fold and step times of an allocation file, as far as it has them."""
    hardware, options = document.get("hardware"), document.get("options")
    found = None if hardware is None else parse(_HARDWARE, hardware, f"{where}: hardware")
    if options is None:
        return found, {}, False, None
    if not isinstance(options, dict):
        raise SpecError(where, f"options: must be an object, got {brief(options)}")
    kept = {name: options[name] for name in ("mapping", "fc") if name in options}
    for name, value in kept.items():
        if not isinstance(value, str):
            raise SpecError(where, f"options.{name}: must be a text, got {brief(value)}")
    fold = options.get("fold", False)
    if not isinstance(fold, bool):
        raise SpecError(where, f"options.fold: must be true or false, got {brief(fold)}")
    steps = options.get("latency_table")
    measured = None if steps is None else parse(_MEASURED, steps, f"{where}: options.latency_table")
    return found, kept, fold, measured
