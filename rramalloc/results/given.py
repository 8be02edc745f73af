"""An allocation as users give it: an object, its file, or copies by layer name; and what it is of."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from typing import Any, NamedTuple

from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import DEFAULT_PRESET, load_hardware
from rramalloc.mapping.demand import MAPPINGS, Mapping
from rramalloc.network.network import Network
from rramalloc.records import check_known
from rramalloc.results.saved import AllocationLike, Saved, saved
from rramalloc.timing.stage_graph import FC_CHOICES, FullyConnected


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
    own, where = saved(allocation)
    if own.network is not None and own.network.sha256 != network.sha256:
        raise SpecError(
            where,
            f"was made for another network, {own.network.name[:60]!r}, not for {network.name[:60]!r} as it "
            f'is given: give that network, or only {{"replication": {{...}}}}',
        )
    mapped, computed = chosen(own, mapping, fc)
    machine = hardware or own.hardware or load_hardware(DEFAULT_PRESET)
    return Given(own.replication, machine, mapped, computed, where, own.fold and mapped == "kernel_split")


def chosen(own: Saved, mapping: Mapping | None, fc: FullyConnected | None) -> tuple[Mapping, FullyConnected]:
    """Mapping and fc as given, else as the allocation says, else the usual ones. Raises UnknownNameError."""
    mapped: Any = mapping or own.options.get("mapping", "im2col")
    computed: Any = fc or own.options.get("fc", "host")
    check_known("mapping", mapped, MAPPINGS)
    check_known("fc", computed, FC_CHOICES)
    return mapped, computed
