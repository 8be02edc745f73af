"""The Python API: one function per command, arguments as plain values, results as typed objects."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping as MappingOf
from dataclasses import replace
from typing import Any, Unpack, cast

from rramalloc.allocation.allocation import Allocation
from rramalloc.allocation.allocation_input import AllocationLike, read_allocation, read_case
from rramalloc.allocation.case import ArraysLike, Case, searched
from rramalloc.allocation.case_arguments import (
    AllocationArguments,
    MappedArguments,
    TargetArguments,
)
from rramalloc.allocation.goes_with import check_command, check_question
from rramalloc.allocation.inspection import Inspection, inspect_network
from rramalloc.allocation.optimize import optimize as optimize_case
from rramalloc.allocation.question import Question, target_of
from rramalloc.allocation.simulation import Simulation, simulate_network
from rramalloc.choices import HANDOFFS, Handoff, NetworkArguments, NodeNames, ObjectiveName, shown_by
from rramalloc.errors import SpecError
from rramalloc.files import write_json
from rramalloc.hardware.loader import as_hardware
from rramalloc.hardware.preset_files import DEFAULT_PRESET
from rramalloc.hardware.tables import CrossbarLike
from rramalloc.importers import NetworkLike, network_of
from rramalloc.methods.method import MethodLike
from rramalloc.methods.registry import method_names, method_of
from rramalloc.network.network import Network
from rramalloc.progress import followed, of_search
from rramalloc.reading import network_of_sizing, sizing_in
from rramalloc.records import check_known, check_range
from rramalloc.search.work import Progress, Work, raising_late
from rramalloc.timing.latency_table import LatencyTableLike


def optimize(
    network: NetworkLike,
    arrays: ArraysLike | None = None,
    *,
    objective: ObjectiveName | None = None,
    method: MethodLike = "auto",
    inputs: int = 1,
    start: AllocationLike | None = None,
    partial_start: bool = False,
    bits: str | os.PathLike[str] | None = None,
    bits_layers: str | os.PathLike[str] | None = None,
    sensitivity: float | None = None,
    gap: float = 0.0,
    on_progress: Progress | None = None,
    progress: bool = True,
    stop: Work | None = None,
    **given: Unpack[TargetArguments],
) -> Allocation:
    """Find the best number of copies of every layer for a number of arrays.

    Parameters
    ----------
    network
        A Network, a file, or the name of a shipped network. Or the JSON that `size` wrote for one network:
        its chip, mapping and limits hold unless others are given.
    arrays
        A number, "x2" for twice the minimum, {"small": 512} of kinds, or None for all that the chip of
        `hardware` has.
    objective
        What is minimised: "latency" if left out, or "interval", "arrays", "energy", "edp", "sequential".
    method
        Name of a method, or a function of yours (problem, work, seed) -> Answer (docs/plugin.md).
    inputs
        How many stream through; objective "latency" is then the time of all.
    start
        An allocation to begin with, which the answer is never worse than; with work=0 it is the answer.
    partial_start
        Take what of the start fits by name, after a network changed; the rest begins with the fewest copies.
    bits
        A CSV of layer, weight_bits, input_bits and sensitivity, from which the bits of every layer are
        chosen. Or a file with one choice for every layer: a quantised network, or a policy of CIM-AQ (.npy).
        The allocation keeps them: calls that read it take the network as it was.
    bits_layers
        The YAML with the sizes of the layers of a policy of CIM-AQ.
    sensitivity
        Limit of the sum of sensitivities to the bits that are chosen.
    gap
        Relative distance from the bound that is good enough.
    on_progress
        Called with (best, bound) whenever one of them improves.
    progress
        Show a line in a notebook.
    stop
        Replaces work, time_limit_s, gap, on_progress and progress; its `interrupted` ends the search, and so
        does Ctrl-C, which is raised once the best so far is in its `best`.

    Returns
    -------
    Allocation
        Copies of every layer, their exact timing, and the largest distance from the optimum.

    Raises
    ------
    BudgetError
        The budget does not hold every layer once.
    TargetError
        No allocation within the budget reaches the target.
    RramallocError
        FileError, SpecError, UnknownNameError, UnsupportedError; SolverError and PluginError where a method's
        answer does not survive the check.

    Examples
    --------
    >>> allocation = optimize("vgg16", arrays=1024)
    >>> allocation.makespan, allocation.lower_bound
    (4009, 4009)
    """
    if (sizing := sizing_in(network)) is not None:
        network, arrays = _on_sized_chip(sizing, arrays, given)
    seed, limits = searched(given)
    wanted = target_of(given)
    placed = given.get("placed", False)
    objective = objective or ("arrays" if wanted.given else "latency")
    check_known("objective", objective, shown_by("optimize"))
    own = None
    if isinstance(method, str):
        check_known("method", method, method_names())
        named = method
    else:
        own = method_of(method)
        named = own.name
    check_range("gap", gap, 0, 1)
    check_range("sensitivity", sensitivity, 0, 1e300)
    begun = None if start is None else read_allocation(start, "start")
    if begun is not None:
        network = begun.network_of(network, given)
    elif partial_start:
        raise SpecError("partial_start", "says how a start is taken, and none is given: give start")
    asked = Question(
        objective=objective,
        method=named,
        own=own,
        seed=seed,
        target=wanted,
        inputs=inputs,
        start=begun,
        takes_part=partial_start,
        placed=placed,
        bits=bits,
    )
    case = Case.of(network, given, placed=placed)
    check_command("optimize", "optimize", case, asked)
    check_question(case, asked)
    case, most = case.with_numbers(arrays)
    if bits is not None:
        from rramalloc.allocation.bit_policy import read_bits

        table = read_bits(bits, bits_layers, case.network, case.hardware.precision)
        case = case.choosing(table.with_limit(math.inf if sensitivity is None else sensitivity))
    elif sensitivity is not None or bits_layers is not None:
        name = "sensitivity" if bits_layers is None else "bits_layers"
        raise SpecError(name, "goes with the choices of --bits FILE, which is not given")
    if stop is not None:
        stop.best = None
        with raising_late(stop):
            stop.best = found = optimize_case(case, most, asked, stop)
        return found
    with followed(on_progress, progress, of_search) as callback:
        return optimize_case(case, most, asked, replace(limits, gap=gap, on_progress=callback))


_MAPPED = ("mapping", "fold", "fc", "host")
"""Arguments of the mapping, one of which may change what another one says."""


def _on_sized_chip(
    sizing: Any, arrays: ArraysLike | None, given: TargetArguments
) -> tuple[Network, ArraysLike | None]:
    """Return the network and the arrays of a result of `size`.

    given: gets its chip and what it was sized with, where the call gives none. With another hardware that is
    without measured times and places, which are of the chip.
    Raises SpecError for several networks.
    """
    if len(sizing.networks) > 1:
        words = "hold several: give one, with --hardware of the chip that `size -o chip.toml` writes"
        raise SpecError("networks", words)
    (own,) = sizing.networks
    said, every = own.allocation.options, cast("dict[str, Any]", given)
    mapped = dict(said.changed(**{name: every.get(name) for name in _MAPPED}))
    every |= {name: mapped[name] for name in _MAPPED}
    names = ["copies", "copies_divide", "at_most"]
    if every.get("hardware", DEFAULT_PRESET) is DEFAULT_PRESET:
        every["hardware"] = sizing.chip.hardware
        names += ["latency_table", "placed"]
    known = {name: getattr(said, name) for name in names if every.get(name) is None}
    every |= {name: value for name, value in known.items() if value is not None}
    machine = as_hardware(every["hardware"])
    if arrays is None and machine.chip is None and machine.kinds is None:
        arrays = sizing.chip.arrays
    return read_allocation(own.allocation).network_of(network_of_sizing(own), given), arrays


def inspect(network: NetworkLike, **given: Unpack[MappedArguments]) -> Inspection:
    """Show stages, windows, arrays per copy, utilisation of the arrays, and the smallest budget.

    Parameters
    ----------
    network
        A Network, a file, or the name of a shipped network.

    Returns
    -------
    Inspection
        One row a stage, with the arrays of a copy and how much of them is used.

    Raises
    ------
    RramallocError
        FileError, SpecError, UnknownNameError, UnsupportedError.
    """
    case = Case.of(network, given)
    check_command("inspect", "inspect", case)
    return inspect_network(case)


def simulate(
    network: NetworkLike,
    allocation: AllocationLike,
    *,
    crossbar: CrossbarLike | None = None,
    fold: bool | None = None,
    handoff: Handoff = "next",
    latency_table: LatencyTableLike | None = None,
    rate: float | None = None,
    **given: Unpack[AllocationArguments],
) -> Simulation:
    """Time an allocation exactly: start, finish and stalls of every stage, buffers, and the bottleneck.

    Hardware, mapping and fc are those of the allocation unless given.

    Parameters
    ----------
    network
        A Network, a file, or the name of a shipped network.
    allocation
        An Allocation, its file, or how layers run by name: copies, {"conv1": 4}, or {"copies": {"conv1":
        4}, "block": {"conv1": (2, 2)}, "cycles": {"conv1": 3}}, where block are windows that a copy computes
        in a step, and cycles ticks that a batch lasts.
    crossbar
        Wordlines and bitlines of an array, "256x256" or (256, 256), instead of the hardware's.
    fold
        Whether filters are folded; that of the allocation unless a mapping is given.
    handoff
        Whether a computed pixel can be used in the "next" or in the "same" step.
    latency_table
        Measured step times: a LatencyTable, a file, or a dict of its form; those of the allocation unless
        this or a hardware is given.
    rate
        Inputs a second that the chip is asked for, at most its throughput: energy and power are of that rate.

    Returns
    -------
    Simulation
        Start and finish of every stage, stalls, buffers and the critical path.

    Raises
    ------
    RramallocError
        FileError, SpecError, UnknownNameError, UnsupportedError.
    """
    origin = "copies" if isinstance(allocation, MappingOf) else "allocation"
    case, what = read_case(
        network, allocation, given, origin=origin, crossbar=crossbar, fold=fold, latency_table=latency_table
    )
    check_known("handoff", handoff, HANDOFFS)
    check_range("rate", rate, 1e-300, 1e300)
    check_command("simulate", "simulate", case)
    return simulate_network(case, what, handoff=handoff, rate_per_s=rate)


def convert(
    network: NetworkLike,
    path: str | os.PathLike[str],
    *,
    names: NodeNames = "module",
    **given: Unpack[NetworkArguments],
) -> Network:
    """Write a network (ONNX, PIMCOMP/PIMSYN JSON, layer table, shipped) as network JSON.

    Parameters
    ----------
    network
        A Network, a file, or the name of a shipped network.
    path
        The file to write.
    names
        How nodes of an ONNX file are named: after PyTorch's modules ("module"), or as in the file ("onnx").

    Returns
    -------
    Network
        The network that was written.

    Raises
    ------
    RramallocError
        FileError, SpecError, UnknownNameError, UnsupportedError.
    """
    source = network_of(network, given, names)
    write_json(path, source.to_dict())
    return source
