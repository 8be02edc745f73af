"""`export`: the one call from an allocation to the files of another tool."""

from __future__ import annotations

from typing import Unpack

from rramalloc.allocation.allocation import NetworkId
from rramalloc.allocation.allocation_input import AllocationLike, read_allocation
from rramalloc.choices import AllocationArguments
from rramalloc.commands.export.bundle import Export
from rramalloc.commands.export.discovery import target_function
from rramalloc.commands.export.subject import Subject
from rramalloc.commands.place.placement import PlacementLike, as_placement
from rramalloc.errors import UnsupportedError
from rramalloc.importers import NetworkLike, network_of
from rramalloc.network.network import Network


def export(
    network: NetworkLike,
    allocation: AllocationLike,
    target: str,
    *,
    placement: PlacementLike | None = None,
    **given: Unpack[AllocationArguments],
) -> Export:
    """Return an allocation as the files of another tool.

    Nothing is written before `Export.save`.

    Parameters
    ----------
    network : a Network, a file, or the name of a shipped network
    allocation : an Allocation, its file, or copies by layer name
    target : the tool, or csv, json; `discovery.target_names` lists them
    placement : of the allocation, for csv and json
    given : as in AllocationArguments, instead of what the placement or the allocation says

    Returns
    -------
    Export : the files, and what the tool rounds, ignores or counts in another way

    Raises
    ------
    RramallocError : UnsupportedError for what the tool cannot express, FileError, SpecError, MisplacedError,
        UnknownNameError
    """
    source = network_of(network, given)
    return export_subject(subject_of(source, allocation, placement, given), target)


def export_subject(subject: Subject, target: str) -> Export:
    """Return the files of one target. Raises UnknownNameError, and as the target UnsupportedError."""
    bundle = target_function(target)(subject)
    if not bundle.blocks:
        subject.refuse_modes(target)
    if subject.placement is not None and not bundle.places:
        raise UnsupportedError(
            "placement", f"{target} places arrays itself; leave --placement out, or use --to csv or json"
        )
    return Export.of(target, NetworkId.of(subject.network), bundle)


def subject_of(
    network: Network,
    allocation: AllocationLike,
    placement: PlacementLike | None = None,
    given: AllocationArguments | None = None,
) -> Subject:
    """Return the subject of an export. Raises RramallocError as `export`."""
    placed = None if placement is None else as_placement(placement)
    source = read_allocation(allocation).made_for(network)
    if placed is not None:
        own = placed.options
        source = source.changed(hardware=placed.hardware, mapping=own.mapping, fc=own.fc, host=own.host)
    source = source.with_arguments(network, given or {})
    if source.options.mapping != "sdk":
        source.without_blocks(network, f"mapping {source.options.mapping!r}")
    return Subject.build(network, source, placed)
