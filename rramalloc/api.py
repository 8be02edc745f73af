"""The Python API: one function per command, arguments as plain values, results as typed objects."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from collections.abc import Mapping as MappingOf
from dataclasses import replace
from functools import partial

from rramalloc.allocation.allocation import Allocation
from rramalloc.allocation.allocation_input import AllocationLike, read_allocation
from rramalloc.allocation.budgets import budget_of
from rramalloc.allocation.inspection import Inspection, inspect_network
from rramalloc.allocation.optimize import Request
from rramalloc.allocation.optimize import optimize as optimize_network
from rramalloc.allocation.simulation import Simulation, simulate_network
from rramalloc.choices import (
    HANDOFFS,
    OBJECTIVES,
    FullyConnected,
    Handoff,
    Mapping,
    NodeNames,
    ObjectiveName,
)
from rramalloc.errors import SpecError
from rramalloc.files import write_json
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import DEFAULT_PRESET, CrossbarLike, HardwareLike, as_hardware
from rramalloc.importers import InputShapes, NetworkLike, as_network
from rramalloc.lazy import room
from rramalloc.mapping.options import DEFAULT_MAPPING
from rramalloc.methods.registry import method_names
from rramalloc.network.network import Network
from rramalloc.progress import followed, of_search
from rramalloc.records import check_effort, check_known, check_range
from rramalloc.search.objective import check_method
from rramalloc.search.problem import DEFAULT_WORK, Progress, Stop
from rramalloc.timing.measured_steps import LatencyTableLike, measured_steps


def optimize(
    network: NetworkLike,
    arrays: int | str | None = None,
    *,
    hardware: HardwareLike = DEFAULT_PRESET,
    crossbar: CrossbarLike | None = None,
    mapping: Mapping = "im2col",
    fold: bool = False,
    fc: FullyConnected = "host",
    objective: ObjectiveName = "latency",
    method: str = "auto",
    target: int | None = None,
    target_ns: float | None = None,
    latency_table: LatencyTableLike | None = None,
    placed: bool = False,
    bits: str | os.PathLike[str] | None = None,
    sensitivity: float | None = None,
    seed: int = 0,
    work: int = DEFAULT_WORK,
    time_limit_s: float | None = None,
    gap: float = 0.0,
    input_shapes: InputShapes | None = None,
    allow_partial: bool = False,
    on_progress: Progress | None = None,
    progress: bool = True,
    stop: Stop | None = None,
) -> Allocation:
    """The replication of every layer with the lowest latency for a budget of crossbar arrays.

    network: a Network, a file, or a shipped name ("vgg16"); arrays: a number, "x2" for twice the minimum, or
    None for all that the chip of `hardware` has; crossbar: "256x256" or (256, 256); fold: fold filters first,
    with mapping "kernel_split"; target: steps, target_ns: nanoseconds, one of them with objective "arrays";
    latency_table: measured step times, or their file; placed: count transfer between the tiles in which
    copies would be placed; bits: a CSV of layer, weight_bits, input_bits and sensitivity, from which bits of
    every layer are chosen with sensitivities of no more than `sensitivity` in sum (the allocation is then of
    the network with these bits, `network.with_bits(allocation.bits)`); work: units of search (0.05 s each on
    a reference core) before it ends without proof; gap: distance from the bound that is good enough;
    progress: show a line in a notebook; stop: replaces work, time_limit_s, gap, on_progress and progress;
    allow_partial: take operators whose weights cannot be modelled as barriers, as the coverage then says.
    Raises RramallocError: BudgetError, TargetError, FileError, SpecError, UnknownNameError, SolverError.

    >>> allocation = optimize("vgg16", arrays=1024)
    >>> allocation.makespan, allocation.lower_bound
    (4009, 4009)
    """
    options = DEFAULT_MAPPING.changed(mapping=mapping, fc=fc, fold=fold)
    check_known("objective", objective, OBJECTIVES)
    check_known("method", method, method_names())
    check_effort(seed, work, time_limit_s, most_seed=2**63 - 1)
    check_range("gap", gap, 0, 1)
    check_range("sensitivity", sensitivity, 0, 1e300)
    _check_objective(objective, method, target, target_ns)
    source = as_network(network, input_shapes, allow_partial=allow_partial)
    machine = as_hardware(hardware, crossbar)
    request = Request(
        mapping=options, objective=objective, method=method, seed=seed, target_steps=target,
        target_ns=target_ns, measured=measured_steps(latency_table, source, fc, machine),
    )  # fmt: skip
    most = budget_of(arrays, source, machine, options)
    run: Callable[[Network, Hardware, int, Request, Stop], Allocation] = optimize_network
    if placed:
        with room("place", "placed"):
            from rramalloc.commands.place.placed import optimize_placed as run
    if bits is not None:
        if placed or latency_table is not None or method != "auto" or objective in ("arrays", "sequential"):
            words = "chooses bits for latency, interval, energy or edp, with method auto and no more"
            raise SpecError("bits", f"{words}: leave out --placed, --latency-table and --target")
        from rramalloc.studies.layer_bits import BitTable, optimize_bits

        limit = math.inf if sensitivity is None else sensitivity
        run = partial(optimize_bits, table=BitTable.read(bits), most_sensitivity=limit)
    elif sensitivity is not None:
        raise SpecError("sensitivity", "is the limit for the choices of --bits FILE, which is not given")
    with followed(on_progress, progress and stop is None, of_search) as callback:
        ending = stop or Stop(work=work, time_limit_s=time_limit_s, gap=gap, on_progress=callback)
        return run(source, machine, most, request, ending)


def inspect(
    network: NetworkLike,
    *,
    hardware: HardwareLike = DEFAULT_PRESET,
    crossbar: CrossbarLike | None = None,
    mapping: Mapping = "im2col",
    fold: bool = False,
    fc: FullyConnected = "host",
    input_shapes: InputShapes | None = None,
    allow_partial: bool = False,
) -> Inspection:
    """Stages, windows, demand, utilisation and the smallest budget. Raises RramallocError."""
    options = DEFAULT_MAPPING.changed(mapping=mapping, fc=fc, fold=fold)
    source = as_network(network, input_shapes, allow_partial=allow_partial)
    return inspect_network(source, as_hardware(hardware, crossbar), options)


def simulate(
    network: NetworkLike,
    allocation: AllocationLike,
    *,
    hardware: HardwareLike | None = None,
    crossbar: CrossbarLike | None = None,
    mapping: Mapping | None = None,
    fold: bool | None = None,
    fc: FullyConnected | None = None,
    handoff: Handoff = "next",
    latency_table: LatencyTableLike | None = None,
    input_shapes: InputShapes | None = None,
    allow_partial: bool = False,
) -> Simulation:
    """Exact timing of an allocation: an Allocation, its file, or how layers run by name.

    By name: copies, {"conv1": 4}, or {"replication": {"conv1": 4}, "block": {"conv1": (2, 2)}, "cycles":
    {"conv1": 3}}: windows that a copy computes in a step, and ticks that a batch lasts.
    Hardware, mapping and fc are those of the allocation unless given, and so is fold unless a mapping is
    given; measured step times are the allocation's unless a latency_table or hardware is given.
    Raises RramallocError.
    """
    source = as_network(network, input_shapes, allow_partial=allow_partial)
    origin = "replication" if isinstance(allocation, MappingOf) else "allocation"
    own = read_allocation(allocation, origin)
    options = own.options.changed(mapping=mapping, fc=fc, fold=fold)
    check_known("handoff", handoff, HANDOFFS)
    machine = as_hardware(own.hardware if hardware is None else hardware, crossbar)
    known = own.measured if hardware is None else None
    measured = measured_steps(latency_table, source, options.fc, machine, known)
    if hardware is not None or crossbar is not None or latency_table is not None:
        own = own.changed(hardware=machine)  # delays of a placement hold on its hardware
    given = replace(own, machine=machine, options=options, measured=measured)
    return simulate_network(source, given, handoff=handoff)


def convert(
    network: NetworkLike,
    path: str | os.PathLike[str],
    input_shapes: InputShapes | None = None,
    *,
    allow_partial: bool = False,
    names: NodeNames = "module",
) -> Network:
    """Write any readable network as network JSON; returns it. Raises RramallocError.

    names: what nodes of an ONNX file are named after, PyTorch's modules or the file's own names.
    """
    source = as_network(network, input_shapes, allow_partial=allow_partial, names=names)
    write_json(path, source.to_dict())
    return source


def _check_objective(
    objective: ObjectiveName, method: str, target: int | None, target_ns: float | None
) -> None:
    check_range("target", target, 1, 2**53)
    check_range("target_ns", target_ns, 0, 1e300)
    if objective != "arrays" and (target is not None or target_ns is not None):
        raise SpecError("target", f"is for objective 'arrays' only, the objective is {objective!r}")
    check_method(objective, method)
