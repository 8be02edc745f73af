"""`evaluate`: strategies of any origin side by side, from files and objects."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from rramalloc.allocation.allocation_input import AllocationInput, AllocationLike, read_allocation
from rramalloc.allocation.case import Case
from rramalloc.allocation.goes_with import check_command
from rramalloc.allocation.question import Question
from rramalloc.choices import FullyConnected, HostLike, Mapping, NetworkArguments, ValuesLike
from rramalloc.commands.evaluate.evaluation import Evaluation, Proposal, ProposedLayer, evaluate_strategies
from rramalloc.commands.evaluate.strategy import (
    Strategy,
    StrategyPlan,
    check_capacity,
    load_strategy,
    plan_of,
)
from rramalloc.commands.evaluate.tasks import LayerTask, check_task_names, tasks_of
from rramalloc.errors import BudgetError, SpecError
from rramalloc.files import as_utf8
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.kinds import Kind
from rramalloc.hardware.loader import HardwareLike, as_hardware
from rramalloc.hardware.performance import ChipPerformance
from rramalloc.hardware.preset_files import DEFAULT_PRESET
from rramalloc.hardware.values import values_of
from rramalloc.importers import NetworkLike, network_of
from rramalloc.mapping.demand import demands
from rramalloc.mapping.modes import breakpoints
from rramalloc.mapping.options import DEFAULT_MAPPING, MappingOptions
from rramalloc.ndarrays import Floats, Ints
from rramalloc.records import brief, check_range
from rramalloc.rounding import SAME_SUM
from rramalloc.search.knapsack import Knapsack, least_sum
from rramalloc.search.work import Work
from rramalloc.timing.latency_table import LatencyTableLike
from rramalloc.timing.measured_steps import MeasuredSteps, measured_steps


def plan_of_copies(
    name: str,
    copies: MappingOf[str, int],
    tasks: Sequence[LayerTask],
    demand: Sequence[int],
    chip: ChipPerformance,
    where: str,
) -> StrategyPlan:
    """Return the strategy that an allocation means; layers without an entry in `copies` have one.

    demand: compute units (arrays) of one copy of each task. Arrays hold the weights of their own layer, so
    every layer has units of its own and all others are idle in its task; the storage units are dealt out
    evenly among the copies and hold inputs and outputs only.
    Raises SpecError if there are too few units, or for copies below 1 or above the windows.
    An operator without weights has no arrays, demand 0: it runs in one subtask on all units.
    Source: docs/sources/companions.md 1.
    """
    check_task_names(copies, tasks, where)
    counts = [copies.get(task.name, 1) for task in tasks]
    for task, count in zip(tasks, counts, strict=True):
        place = f"{where}: task {task.name[:60]!r}"
        if not 1 <= count <= task.windows:
            raise SpecError(place, f"its copies must be from 1 to its {task.windows} windows, got {count}")
        if count > chip.storage_units:
            raise SpecError(
                place,
                f"has {count} copies, the chip has {chip.storage_units} storage units: each copy needs one",
            )
    need = sum(count * arrays for count, arrays in zip(counts, demand, strict=True))
    if need > chip.processors:
        raise SpecError(
            where, f"takes {need} arrays, the chip has {chip.processors} processors: each array is one"
        )
    splits = []
    first = 1
    for task, count, arrays in zip(tasks, counts, demand, strict=True):
        held, more, units, stored = *divmod(chip.storage_units, count), [], 1
        for copy in range(count):
            begin = first + copy * arrays
            end = stored + held + (copy < more)
            compute = range(begin, begin + arrays) if arrays else range(1, chip.processors + 1)
            units.append((compute, range(stored, end)))
            stored = end
        split = task.split_among(units, "windows", chip)
        check_capacity(split, task, chip, f"{where}: task {task.name[:60]!r}", keeps_weights=False)
        splits.append(split)
        first += count * arrays
    return StrategyPlan(name, where, splits.__getitem__, divides_anew=False)


StrategyLike = Strategy | str | os.PathLike[str]


def _listed(items: Any) -> list[Any]:
    """Return a list or tuple as a list, anything else, such as a path, as a list with that item."""
    return list(items) if isinstance(items, list | tuple) else [items]


def _named(allocations: Sequence[AllocationInput]) -> list[str]:
    """Return the names of their strategies: of the file, with its folder where two are called the same."""
    stems = [as_utf8(Path(allocation.where).stem or allocation.where) for allocation in allocations]
    return [
        stem if stems.count(stem) == 1 else allocation.where
        for allocation, stem in zip(allocations, stems, strict=True)
    ]


EngineTasks = tuple[Sequence[LayerTask], Sequence[int]]
"""The tasks of a network as a kind of arrays or digital units computes them, and the arrays of one copy of
each, 0 of operators without weights."""


def _on_each_kind(
    case: Case, chip: ChipPerformance, options: MappingOptions, measured: MeasuredSteps | None = None
) -> list[EngineTasks]:
    """Return the tasks of a case on every kind that its hardware has; options: of the layout of weights."""
    each = list[EngineTasks]()
    stages = {stage.name: stage for stage in options.timed_stages(case.network)}
    for own in case.hardware.each_kind:
        tasks = tasks_of(case.network, chip, own.precision, case.mapping, own, measured)
        layers = [stages[task.name] for task in tasks if task.is_layer]
        needs = iter(demands(case.network, layers, own, options))
        each.append((tasks, [next(needs) if task.is_layer else 0 for task in tasks]))
    return each


def _on_kinds(each: Sequence[EngineTasks], kinds: MappingOf[str, int]) -> EngineTasks:
    """Return the tasks and demands on the kind of every layer by name."""
    at = [kinds.get(task.name, 0) for task in each[0][0]]
    tasks = [each[kind][0][place] for place, kind in enumerate(at)]
    return tasks, [each[kind][1][place] for place, kind in enumerate(at)]


def _kinds_of(allocation: AllocationInput, case: Case, each: Sequence[EngineTasks]) -> dict[str, int]:
    """Return the kind of every layer of an allocation. Raises SpecError where there are too few of one."""
    kinds = case.hardware.kinds
    if kinds is None and not allocation.kinds:
        return {}
    modes = allocation.modes(case.stages, kinds)
    of_layers = {name: mode.kind for name, mode in zip(case.stages.names, modes, strict=True)}
    used = np.zeros(len(each), dtype=np.int64)
    for task, arrays in zip(*_on_kinds(each, of_layers), strict=True):
        used[of_layers.get(task.name, 0)] += arrays * allocation.copies.get(task.name, 1)
    for kind, arrays in zip(kinds or (), used.tolist(), strict=True):
        if arrays > (kind.arrays or arrays):
            words = f"takes {arrays} of kind {kind.name!r}, the chip has {kind.arrays}"
            raise SpecError(allocation.where, f"{words}: give fewer copies, or another kind")
    return of_layers


def propose_copies(
    each: Sequence[EngineTasks], kinds: Sequence[Kind], chip: ChipPerformance, arrays: int
) -> tuple[Proposal, StrategyPlan]:
    """Return the kinds and copies of least total time with at most `arrays` arrays.

    each: the tasks on every kind; kinds: none where there is one, whose arrays are limited, too.
    Times are separable, so a choice per layer under these budgets: exact (`rramalloc.search.knapsack`).
    """
    limits = [kind.arrays or arrays for kind in kinds]
    names = [task.name for task in each[0][0]]
    costs, taken, choices = list[Floats](), list[Ints](), list[list[tuple[int, int]]]()
    for place, task in enumerate(each[0][0]):
        some = [
            (kind, count)
            for kind, (tasks, demand) in enumerate(each if task.is_layer else each[:1])
            for count in _useful(tasks[place], demand[place], chip, min([arrays, *limits[kind : kind + 1]]))
        ]
        times = [(each[kind][0][place], task.even_shares(count, "windows")[0]) for kind, count in some]
        needs = np.array([count * each[kind][1][place] for kind, count in some])[:, None]
        is_of = [[True, *(kind == number for number in range(len(kinds)))] for kind, _ in some]
        choices.append(some)
        costs.append(np.array([own.terms(share, "windows", chip.own_rates).total_ns for own, share in times]))
        taken.append(needs * np.array(is_of))
    least = [(name, int(own[:, 0].min())) for name, own in zip(names, taken, strict=True)]
    if (minimum := sum(own for _, own in least)) > arrays:
        raise BudgetError(minimum, arrays, [(name, own) for name, own in least if own])
    options = Knapsack.of(costs, taken, [arrays, *limits], SAME_SUM)
    chosen, _, proven = least_sum(options, Work())
    if (options.amounts[chosen].sum(axis=0) > options.room).any():
        words = "no kinds of all layers were found that keep to the arrays of each"
        raise SpecError("arrays", f"{words}: give a kind more arrays")
    picked = [some[at] for some, at in zip(choices, chosen - options.first[:-1], strict=True)]
    name = f"best of {arrays} arrays"
    tasks, demand = _on_kinds(each, dict(zip(names, (kind for kind, _ in picked), strict=True)))
    counts = dict(zip(names, (count for _, count in picked), strict=True))
    plan = plan_of_copies(name, counts, tasks, demand, chip, name)
    times_ns = options.costs[chosen].tolist()
    layers = tuple(
        ProposedLayer(
            name=layer,
            arrays_per_copy=need,
            copies=count,
            arrays=need * count,
            time_ns=time_ns,
            kind=kinds[kind].name if kinds else None,
        )
        for layer, (kind, count), need, time_ns in zip(names, picked, demand, times_ns, strict=True)
        if need
    )
    used = sum(layer.arrays for layer in layers)
    return Proposal(budget=arrays, used=used, time_ns=math.fsum(times_ns), proven=proven, layers=layers), plan


def _useful(task: LayerTask, demand: int, chip: ChipPerformance, arrays: int) -> list[int]:
    """Return the copies at which a task's time changes and that storage can hold. Raises SpecError."""
    most = max(1, min(task.windows, chip.storage_units, arrays // demand if demand else 1))
    every = breakpoints(task.windows, task.windows).tolist()
    fitting = [copies for copies in every if copies <= most and _holds(task, copies, chip)]
    if not fitting:
        raise SpecError(
            f"arrays: task {task.name[:60]!r}",
            f"its input and output do not fit the {chip.storage_units} storage units of {chip.unit_bytes} "
            f"bytes in any number of copies: the chip needs more memory",
        )
    return fitting


def _holds(task: LayerTask, copies: int, chip: ChipPerformance) -> bool:
    """Return True if storage dealt out evenly holds the data of every copy, larger shares first."""
    units, more = divmod(chip.storage_units, copies)
    shares = task.even_shares(copies, "windows")
    large = task.windows % copies or copies
    for share, held in ((shares[0], units + (large <= more)), (shares[-1], units)):
        if task.need_bytes(share, "windows", keeps_weights=False) > held * chip.unit_bytes:
            return False
    return True


def _in_common(
    given: Sequence[AllocationInput], fc: FullyConnected | None, host: HostLike | None
) -> MappingOptions:
    """Return the common options: `fc` and `host` as given, else those of all allocations, which must agree.

    Raises SpecError.
    """
    asked = [allocation.options.changed(fc=fc, host=host) for allocation in given]
    asked = asked or [DEFAULT_MAPPING.changed(fc=fc, host=host)]
    for name in ("fc", "host"):
        one, *others = dict.fromkeys(getattr(options, name) for options in asked)
        if others:
            both = f"{brief(one)} and {brief(others[0])}"
            raise SpecError(name, f"the allocations were made with both {both}: say which with --{name}")
    return asked[0]


def _check_precision(machines: Sequence[Hardware], given: Sequence[AllocationInput]) -> None:
    """Raise SpecError unless all hardware has the bits of the values in common."""
    for machine, allocation in zip(machines, given, strict=False):
        if machine.precision != machines[0].precision:
            raise SpecError(
                allocation.where,
                f"its hardware {machine.name!r} has another precision than {machines[0].name!r} of "
                f"{given[0].where}: bytes must be the same in all strategies, say which with --hardware",
            )


def evaluate(
    network: NetworkLike,
    chip: ChipPerformance | HardwareLike | None = None,
    *,
    strategies: StrategyLike | Sequence[StrategyLike] = (),
    allocations: AllocationLike | Sequence[AllocationLike] = (),
    units: tuple[int, int] | None = None,
    arrays: int | None = None,
    crossbar: str | None = None,
    set_values: ValuesLike | None = None,
    mapping: Mapping | None = None,
    fc: FullyConnected | None = None,
    host: HostLike | None = None,
    latency_table: LatencyTableLike | None = None,
    placed: bool = False,
    **reading: Unpack[NetworkArguments],
) -> Evaluation:
    """Time many ways to share a chip out among layers that run one after the other, and find the best.

    Parameters
    ----------
    network
        A Network, a file, or the name of a shipped network.
    chip
        Hardware with [units] (a Hardware, a file, a dict of its form, a preset), or the units alone; None for
        the hardware of the allocations.
    strategies
        Strategies or their files, one or many.
    allocations
        Allocations, their files or copies by layer name, one or many.
    units
        (compute, storage) units of which all ways of sharing them out are enumerated, in classes of equal
        time. The best way of every task is composed to a strategy.
    arrays
        Budget of copies that keep their arrays: those of least time are found.
    crossbar
        Wordlines and bitlines of an array, "256x256", instead of the hardware's.
    set_values
        Values of the hardware that are replaced: {"timing.columns_per_adc": 16}, or ["timing.adc_ns=2"].
    mapping
        Layout of weights on arrays, instead of that of the allocations.
    fc
        Who computes linear layers on a single pixel, instead of what the allocations say.
    host
        Layers that are left to the host, instead of those of the allocations.
    latency_table
        Measured times of a window of the weight layers, instead of ns_per_byte: a LatencyTable, a file, or a
        dict of its form.
    placed
        Refused: one layer hands its output to the next through storage units, whose bandwidths count.

    Returns
    -------
    Evaluation
        The matrices, and the fastest strategy.

    Raises
    ------
    RramallocError
        BudgetError, FileError, SpecError, UnknownNameError, UnsupportedError.
    """
    check_range("arrays", arrays, 1, 2**53)
    alone = isinstance(chip, ChipPerformance)
    if alone and any(name.startswith("units.") for name in values_of(set_values)):
        raise SpecError("--set", "changes [units], which are given by themselves: give their hardware")
    given = [
        read_allocation(allocation, f"allocation {n}") for n, allocation in enumerate(_listed(allocations), 1)
    ]
    machines = [as_hardware(allocation.hardware, crossbar, set_values) for allocation in given]
    if chip is not None and not isinstance(chip, ChipPerformance):
        machines = [as_hardware(chip, crossbar, set_values)] * max(1, len(given))
    machines = machines or [as_hardware(DEFAULT_PRESET, crossbar, set_values)]
    source = network_of(network, reading)
    for allocation in given:
        source = allocation.network_of(source, reading)
    for allocation in given:
        if allocation.network is not None and source.is_of(allocation.network.sha256):
            allocation.made_for(source)
    common = _in_common(given, fc, host)
    options = [allocation.options.changed(mapping=mapping, fc=fc, host=host) for allocation in given]
    options = options or [common.changed(mapping=mapping)]
    for machine, chosen in zip(machines, options, strict=False):
        own = chosen if arrays is not None else common
        check_command("evaluate", "evaluate", Case(source, machine, own), Question(placed=placed))
    parameters = chip if isinstance(chip, ChipPerformance) else machines[0].units
    if parameters is None:
        raise SpecError(
            f"hardware {machines[0].name[:60]!r}",
            "needs [units]: processors, storage_units, unit_bytes, bandwidth_in_gb_s and bandwidth_out_gb_s "
            "(docs/sources/companions.md 1)",
        )
    tables = [
        (strategy, f"strategy {number}")
        if isinstance(strategy, Strategy)
        else (load_strategy(strategy), os.fspath(strategy))
        for number, strategy in enumerate(_listed(strategies), 1)
    ]
    for allocation in given:
        allocation.without_blocks(source, "a strategy")
    if not (tables or given or units or arrays):
        reason = "there are none: give strategies, allocations, units to enumerate or a budget of arrays"
        raise SpecError("strategies", reason)
    _check_precision(machines, given)
    precision = machines[0].precision
    measured = measured_steps(latency_table, source, common, machines[0])
    first = Case(source, machines[0], common)
    engines = _on_each_kind(first, parameters, options[0], measured)
    tasks = tuple(engines[0][0])
    if (tables or units) and any(tuple(own) != tasks for own, _ in engines):
        words = "compute units of a table and of units to enumerate have no kind, and kinds differ in time"
        raise SpecError("strategies", f"{words}: give allocations or arrays, or a hardware with one kind")
    plans = [plan_of(table, tasks, parameters, where) for table, where in tables]
    proposal = None
    for name, allocation, machine, chosen in zip(_named(given), given, machines, options, strict=False):
        each = _on_each_kind(first.on(machine), parameters, chosen, measured)
        kinds = _kinds_of(allocation, Case(source, machine, chosen), each)
        plans.append(
            plan_of_copies(name, allocation.copies, *_on_kinds(each, kinds), parameters, allocation.where)
        )
    if arrays is not None:
        proposal, plan = propose_copies(engines, machines[0].kinds or (), parameters, arrays)
        plans.append(plan)
    made = evaluate_strategies(
        source, parameters, precision, tasks, common, plans, units=units, proposal=proposal
    )
    found = {"set_values": machines[0].set_values}
    found |= {"not_counted": Case(source, machines[0], common, measured).not_counted()}
    document = made.document.model_copy(update=found)
    return replace(made, document=document)
