"""An allocation as users give it: an object, its file, or copies by layer name; and what it is of."""

from __future__ import annotations

import os
from collections.abc import Mapping as MappingOf
from typing import Any, NamedTuple

from rramalloc.allocation.allocation import Allocation, saved_of
from rramalloc.errors import SpecError, UnknownNameError
from rramalloc.files import read_json
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import DEFAULT_PRESET, load_hardware
from rramalloc.mapping.demand import MAPPINGS, Mapping
from rramalloc.network.network import Network
from rramalloc.timing.stage_graph import FullyConnected

AllocationLike = Allocation | MappingOf[str, int] | str | os.PathLike[str]


class Given(NamedTuple):
    """replication: copies by layer name; where: the allocation's file, as messages call it.

    fold: whether its filters are folded first, with mapping "kernel_split".
    """

    replication: MappingOf[str, int]
    hardware: Hardware
    mapping: Mapping
    fc: FullyConnected
    where: str
    fold: bool = False


def given(
    network: Network, allocation: AllocationLike, *, hardware: Hardware | None = None,
    mapping: Mapping | None = None, fc: FullyConnected | None = None,
) -> Given:  # fmt: skip
    """An allocation of `network`. Hardware, mapping and fc are its own unless given.

    Raises FileError, SpecError (also for an allocation of another network), UnknownNameError.
    """
    own, options, made_for, fold = None, dict[str, str](), None, False
    if isinstance(allocation, Allocation):
        where, copies, own = "allocation", allocation.replication, allocation.hardware
        options = {"mapping": allocation.options.mapping, "fc": allocation.options.fc}
        made_for, fold = allocation.network.model_dump(), allocation.options.fold
    elif isinstance(allocation, MappingOf):
        where, copies = "replication", dict(allocation)
    else:
        where, document = os.fspath(allocation), read_json(allocation)
        copies, own, options, fold, _ = saved_of(document, where)
        made_for = document.get("network")
    if isinstance(made_for, dict) and made_for.get("sha256") != network.sha256:
        name = str(made_for.get("name"))
        raise SpecError(
            where,
            f"was made for another network, {name[:60]!r}, not for {network.name[:60]!r} as it is given: "
            f'give that network, or only {{"replication": {{...}}}}',
        )
    mapped: Any = mapping or options.get("mapping", "im2col")
    computed: Any = fc or options.get("fc", "host")
    for kind, name, known in (("mapping", mapped, MAPPINGS), ("fc", computed, ("host", "crossbar"))):
        if name not in known:
            raise UnknownNameError(kind, name, known)
    machine = hardware or own or load_hardware(DEFAULT_PRESET)
    return Given(copies, machine, mapped, computed, where, fold and mapped == "kernel_split")
