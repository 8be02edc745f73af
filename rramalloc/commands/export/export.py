"""`export`: the one call from an allocation to the files of another tool."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Unpack, cast

from rramalloc.allocation.allocation import NetworkId
from rramalloc.allocation.allocation_input import AllocationLike, read_case
from rramalloc.allocation.case import Case
from rramalloc.allocation.case_arguments import AllocationArguments
from rramalloc.allocation.goes_with import check_command
from rramalloc.commands.export.bundle import CheckedTool, Export, ExportCheck
from rramalloc.commands.export.discovery import ExportTarget, target_function, target_name, target_names
from rramalloc.commands.export.subject import LISTED, Subject, is_taken
from rramalloc.commands.place.placement import PlacementLike, as_placement
from rramalloc.errors import PluginError, UnsupportedError
from rramalloc.importers import NetworkLike

OF_LAYERS = ("neurosim",)
"""Tools that read a list of layers, in place of a graph."""


def export(
    network: NetworkLike,
    allocation: AllocationLike,
    to: str | ExportTarget,
    *,
    placement: PlacementLike | None = None,
    layers_only: bool = False,
    **given: Unpack[AllocationArguments],
) -> Export:
    """Write an allocation for PIMCOMP, PIMSYN, MNSIM, NeuroSim, or as CSV or JSON for any other tool.

    Nothing is written before `Export.save`.

    Parameters
    ----------
    network
        A Network, a file, or the name of a shipped network.
    allocation
        An Allocation, its file, or how layers run by name: copies, {"conv1": 4}.
    to
        The tool, or "csv", "json", or a function of yours from a Subject to a Bundle (docs/plugin.md).
    placement
        A Placement or its file, of the allocation, for csv and json; it says hardware and mapping unless they
        are given.
    layers_only
        For "neurosim": the layers of any network, of which what joins them takes no time there.

    Returns
    -------
    Export
        The files, and what the tool rounds, ignores or counts in another way.

    Raises
    ------
    UnsupportedError
        The tool cannot express it.
    RramallocError
        FileError, SpecError, MisplacedError, UnknownNameError, PluginError.
    """
    subject = subject_of(network, allocation, placement, given)
    if layers_only and target_name(to) not in OF_LAYERS:
        words = f"{target_name(to)} is told how layers are joined; only a list of layers can leave that out"
        raise UnsupportedError("layers_only", words, ["leave it out", f"export to {' or '.join(OF_LAYERS)}"])
    return export_subject(replace(subject, layers_only=layers_only), to)


def export_check(
    network: NetworkLike,
    allocation: AllocationLike,
    *,
    placement: PlacementLike | None = None,
    **given: Unpack[AllocationArguments],
) -> ExportCheck:
    """Return the tools that take an allocation, and the reasons of the others.

    Parameters
    ----------
    network
        A Network, a file, or the name of a shipped network.
    allocation
        An Allocation, its file, or how layers run by name: copies, {"conv1": 4}.
    placement
        A Placement or its file, of the allocation.

    Returns
    -------
    ExportCheck
        Every target, with the reason for which it takes the allocation not.

    Raises
    ------
    RramallocError
        FileError, SpecError, MisplacedError for what no target takes.
    """
    subject = subject_of(network, allocation, placement, given)
    tools = list[CheckedTool]()
    for name in target_names():
        remarks = 0
        reason = ""
        try:
            remarks = len(export_subject(subject, name).remarks)
        except (UnsupportedError, PluginError) as error:
            reason = str(error).removesuffix(f": {LISTED}")
        tools.append(CheckedTool(name=name, taken=not reason, remarks=remarks, reason=reason))
    return ExportCheck(network=NetworkId.of(subject.network), tools=tuple(tools))


def export_subject(subject: Subject, target: str | ExportTarget) -> Export:
    """Return the files of one target. Raises UnknownNameError, and as the target UnsupportedError."""
    make = target_function(target)
    name = target_name(target)
    try:
        bundle = make(subject)
        if not bundle.blocks:
            subject.check_tool(name)
    except UnsupportedError:
        if not subject.is_plain and not is_taken(make, subject.plain.without_chip):
            make(subject.plain)  # what it refuses with any mapping, bits and chip comes first
        raise
    if subject.placement is not None and not bundle.places:
        remedies = "leave --placement out", "use --to csv or json"
        raise UnsupportedError("placement", f"{name} places arrays itself", remedies)
    source = subject.source
    case = Case(subject.network, subject.hardware, subject.options, source.measured)
    case = case.with_stages(subject.graph)
    said = {"not_counted": case.not_counted(links=bool(source.transfer_ns)), "warnings": source.left_out}
    return Export.of(name, NetworkId.of(subject.network), bundle).model_copy(update=said)


def subject_of(
    network: NetworkLike,
    allocation: AllocationLike,
    placement: PlacementLike | None = None,
    given: AllocationArguments | None = None,
) -> Subject:
    """Return the subject of an export. Raises RramallocError as `export`."""
    placed = None if placement is None else as_placement(placement)
    every: dict[str, Any] = {} if placed is None else {"hardware": placed.hardware}
    if placed is not None:
        every |= {name: getattr(placed.options, name) for name in ("mapping", "fc", "host")}
    every |= {name: value for name, value in (given or {}).items() if value is not None}
    case, source = read_case(network, allocation, cast("AllocationArguments", every))
    source.made_for(case.network)
    check_command("export", "export", case)
    if source.options.mapping != "sdk":
        source.without_blocks(case.network, f"mapping {source.options.mapping!r}")
    return Subject.build(case.network, source, placed)
