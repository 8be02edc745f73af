"""`export`: the one call from an allocation to the files of another tool."""

from __future__ import annotations

from rramalloc.allocation.allocation import NetworkId
from rramalloc.allocation.allocation_input import AllocationLike, read_allocation
from rramalloc.choices import FullyConnected, Mapping
from rramalloc.commands.export.bundle import Export
from rramalloc.commands.export.discovery import target_function
from rramalloc.commands.export.subject import Subject
from rramalloc.commands.place.placement import PlacementLike, as_placement
from rramalloc.errors import UnsupportedError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import HardwareLike, as_hardware
from rramalloc.importers import InputShapes, NetworkLike, as_network
from rramalloc.network.network import Network


def export(
    network: NetworkLike,
    allocation: AllocationLike,
    target: str,
    *,
    placement: PlacementLike | None = None,
    hardware: HardwareLike | None = None,
    mapping: Mapping | None = None,
    fc: FullyConnected | None = None,
    input_shapes: InputShapes | None = None,
    allow_partial: bool = False,
) -> Export:
    """An allocation as the files of another tool.

    Nothing is written before `Export.save`.

    Parameters
    ----------
    network : a Network, a file, or the name of a shipped network
    allocation : an Allocation, its file, or copies by layer name
    target : the tool, or csv, json; `discovery.target_names` lists them
    placement : of the allocation, for csv and json
    hardware, mapping, fc : instead of those of the placement or of the allocation
    input_shapes : of dynamic inputs, by name
    allow_partial : take operators whose weights cannot be modelled as barriers

    Returns
    -------
    Export : the files, and what the tool rounds, ignores or counts in another way

    Raises
    ------
    RramallocError : UnsupportedError for what the tool cannot express, FileError, SpecError, MisplacedError,
        UnknownNameError
    """
    source = as_network(network, input_shapes, allow_partial=allow_partial)
    machine = None if hardware is None else as_hardware(hardware)
    subject = subject_of(source, allocation, placement=placement, hardware=machine, mapping=mapping, fc=fc)
    return export_subject(subject, target)


def export_subject(subject: Subject, target: str) -> Export:
    """The files of one target. Raises UnknownNameError, UnsupportedError for what the tool cannot express."""
    bundle = target_function(target)(subject)
    if not bundle.blocks:
        subject.refuse_modes(target)
    if subject.placement is not None and not bundle.places:
        raise UnsupportedError(
            "placement", f"{target} places arrays itself; leave --placement out, or use --to csv or json"
        )
    return Export.of(target, NetworkId.of(subject.network), bundle)


def subject_of(
    network: Network, allocation: AllocationLike, *, hardware: Hardware | None = None,
    mapping: Mapping | None = None, fc: FullyConnected | None = None,
    placement: PlacementLike | None = None,
) -> Subject:  # fmt: skip
    """What is exported. Raises FileError, SpecError, MisplacedError, UnknownNameError, UnsupportedError."""
    placed = None if placement is None else as_placement(placement)
    if placed is not None:
        hardware = hardware or placed.hardware
        mapping, fc = mapping or placed.options.mapping, fc or placed.options.fc
    source = read_allocation(allocation).made_for(network)
    source = source.changed(hardware=hardware, mapping=mapping, fc=fc)
    if source.options.mapping != "sdk":
        source.without_blocks(network, f"mapping {source.options.mapping!r}")
    return Subject.build(network, source, placed)
