"""`evaluate`: strategies of any origin side by side, from files and objects."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np

from rramalloc.allocation.allocation_input import AllocationInput, AllocationLike, read_allocation
from rramalloc.choices import FullyConnected, Mapping, NetworkArguments
from rramalloc.commands.evaluate.evaluation import Evaluation, Proposal, ProposedLayer, evaluate_strategies
from rramalloc.commands.evaluate.strategy import (
    Split,
    Strategy,
    StrategyPlan,
    Subtask,
    check_capacity,
    load_strategy,
    plan_of,
)
from rramalloc.commands.evaluate.tasks import LayerTask, check_task_names, tasks_of
from rramalloc.errors import BudgetError, SpecError
from rramalloc.hardware.hardware import Hardware, Precision
from rramalloc.hardware.loader import DEFAULT_PRESET, HardwareLike, as_hardware
from rramalloc.hardware.performance import ChipPerformance
from rramalloc.importers import NetworkLike, network_of
from rramalloc.mapping.demand import demands
from rramalloc.mapping.options import DEFAULT_MAPPING, MappingOptions
from rramalloc.network.network import Network
from rramalloc.records import check_range
from rramalloc.search.sequential import LeastSum, StageChoices, useful_copies
from rramalloc.search.work import Work
from rramalloc.timing.measured_steps import LatencyTableLike, measured_steps
from rramalloc.timing.stage_graph import timed_stages


def plan_of_copies(
    name: str,
    copies: MappingOf[str, int],
    demand: Sequence[int],
    tasks: Sequence[LayerTask],
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
    need = sum(count * each for count, each in zip(counts, demand, strict=True))
    if need > chip.processors:
        raise SpecError(
            where, f"takes {need} arrays, the chip has {chip.processors} processors: each array is one"
        )
    splits, first = [], 1
    for task, count, each in zip(tasks, counts, demand, strict=True):
        split = _split(task, count, each, first, chip)
        check_capacity(split, task, chip, f"{where}: task {task.name[:60]!r}", keeps_weights=False)
        splits.append(split)
        first += count * each
    return StrategyPlan(name, where, tuple(splits), divides_anew=False)


def _split(task: LayerTask, copies: int, demand: int, first: int, chip: ChipPerformance) -> Split:
    """Return the consecutive units for each copy, from compute unit `first` on; all of them where nothing is
    stored."""
    each, more = divmod(chip.storage_units, copies)
    subtasks, stored = [], 1
    for copy, share in enumerate(task.even_shares(copies, "windows")):
        begin, held = first + copy * demand, each + (copy < more)
        compute = range(begin, begin + demand) if demand else range(1, chip.processors + 1)
        storage = range(stored, stored + held)
        subtasks.append(Subtask(compute, storage, share, "windows", chip.rates(compute, storage)))
        stored += held
    return tuple(subtasks)


StrategyLike = Strategy | str | os.PathLike[str]


def listed(items: Any) -> list[Any]:
    """Return a list or tuple as a list; anything else, such as a path, as a list of one."""
    return list(items) if isinstance(items, list | tuple) else [items]


class Given(NamedTuple):
    """An allocation with the name that its strategy gets."""

    name: str
    source: AllocationInput


def given_allocations(allocations: Sequence[AllocationLike]) -> list[Given]:
    """Return the allocations with names: that of the file, with its folder where two files have the same
    name."""
    named = []
    for number, allocation in enumerate(allocations, 1):
        source = read_allocation(allocation, f"allocation {number}")
        named.append(Given(source.where, source))
    stems = [Path(given.name).stem or given.name for given in named]
    counts = Counter(stems)
    return [
        given._replace(name=stem) if counts[stem] == 1 else given
        for given, stem in zip(named, stems, strict=True)
    ]


def _demands(
    network: Network, tasks: Sequence[LayerTask], hardware: Hardware, options: MappingOptions
) -> list[int]:
    """Return the arrays of one copy of every task; 0 for operators without weights."""
    stages = {stage.name: stage for stage in timed_stages(network, options.fc)}
    layers = [stages[task.name] for task in tasks if task.is_layer]
    needs = iter(demands(network, layers, hardware, options))
    return [next(needs) if task.is_layer else 0 for task in tasks]


def propose(
    tasks: Sequence[LayerTask], demand: Sequence[int], chip: ChipPerformance, arrays: int
) -> tuple[Proposal, StrategyPlan]:
    """Return the replication of least total time with at most `arrays` arrays. demand: of one copy of each
    task.

    Times are separable, so a choice per layer under one budget: exact (`rramalloc.search.sequential`).
    """
    name = f"best of {arrays} arrays"
    useful = [_useful(task, each, chip, arrays) for task, each in zip(tasks, demand, strict=True)]
    minimum = sum(copies[0] * each for copies, each in zip(useful, demand, strict=True))
    if minimum > arrays:
        needs = [(task.name, each) for task, each in zip(tasks, demand, strict=True) if each]
        raise BudgetError(minimum, arrays, needs)
    lengths = [len(copies) for copies in useful]
    flat = np.concatenate([np.array(copies, dtype=np.int64) for copies in useful])
    each = np.repeat(np.array(demand, dtype=np.int64), lengths)
    least = np.repeat(np.array([copies[0] for copies in useful], dtype=np.int64), lengths)
    costs = np.array(
        [_time_ns(task, count, chip) for task, counts in zip(tasks, useful, strict=True) for count in counts]
    )
    first = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    choices = StageChoices(first, flat, (flat - least) * each, costs, arrays - minimum)
    spread = float(costs.sum()) / len(costs)
    chosen, proven = LeastSum(choices, Work(), step=max(1e-9, 1e-6 * spread)).run()
    copies = dict(zip((task.name for task in tasks), flat[chosen].tolist(), strict=True))
    plan = plan_of_copies(name, copies, demand, tasks, chip, name)
    layers = tuple(
        ProposedLayer(
            name=task.name,
            demand=need,
            replication=copies[task.name],
            arrays=need * copies[task.name],
            time_ns=_time_ns(task, copies[task.name], chip),
        )
        for task, need in zip(tasks, demand, strict=True)
        if need
    )
    return Proposal(
        budget=arrays,
        used=sum(layer.arrays for layer in layers),
        time_ns=math.fsum(costs[chosen].tolist()),
        proven=proven,
        layers=layers,
    ), plan


def _time_ns(task: LayerTask, copies: int, chip: ChipPerformance) -> float:
    return task.terms(task.even_shares(copies, "windows")[0], "windows", chip.own_rates).total_ns


def _useful(task: LayerTask, demand: int, chip: ChipPerformance, arrays: int) -> list[int]:
    """Return the copies at which the time of a task changes and whose storage holds their data. Raises
    SpecError."""
    most = max(1, min(task.windows, chip.storage_units, arrays // demand if demand else 1))
    every = useful_copies(task.windows).tolist()
    fitting = [copies for copies in every if copies <= most and _holds(task, copies, chip)]
    if not fitting:
        raise SpecError(
            f"arrays: task {task.name[:60]!r}",
            f"its input and output do not fit the {chip.storage_units} storage units of {chip.unit_bytes} "
            f"bytes in any number of copies: the chip needs more memory",
        )
    return fitting


def _holds(task: LayerTask, copies: int, chip: ChipPerformance) -> bool:
    """Return True if storage dealt out evenly holds the input and output of every copy, larger
    shares first."""
    each, more = divmod(chip.storage_units, copies)
    shares = task.even_shares(copies, "windows")
    large = task.windows % copies or copies
    for share, held in ((shares[0], each + (large <= more)), (shares[-1], each)):
        if task.need_bytes(share, "windows", keeps_weights=False) > held * chip.unit_bytes:
            return False
    return True


def common_fc(given: Sequence[Given], fc: FullyConnected | None) -> FullyConnected:
    """Return where classifiers run: as asked, or as all allocations say, or on the host. Raises SpecError."""
    if fc is not None:
        return fc
    asked = {allocation.source.options.fc for allocation in given}
    if len(asked) > 1:
        raise SpecError(
            "fc", "the allocations were made with both 'host' and 'crossbar': say which with --fc"
        )
    return "crossbar" if "crossbar" in asked else "host"


def common_precision(hardware: Sequence[Hardware], given: Sequence[Given]) -> Precision:
    """Return the bits of the values that all hardware has in common. Raises SpecError."""
    for machine, allocation in zip(hardware, given, strict=False):
        if machine.precision != hardware[0].precision:
            raise SpecError(
                allocation.source.where,
                f"its hardware {machine.name!r} has another precision than {hardware[0].name!r} of "
                f"{given[0].source.where}: bytes must be the same in all strategies, say which with "
                f"--hardware",
            )
    return hardware[0].precision


def evaluate(
    network: NetworkLike,
    chip: ChipPerformance | HardwareLike | None = None,
    *,
    strategies: StrategyLike | Sequence[StrategyLike] = (),
    allocations: AllocationLike | Sequence[AllocationLike] = (),
    units: tuple[int, int] | None = None,
    arrays: int | None = None,
    crossbar: str | None = None,
    mapping: Mapping | None = None,
    fc: FullyConnected | None = None,
    latency_table: LatencyTableLike | None = None,
    **reading: Unpack[NetworkArguments],
) -> Evaluation:
    """Compare strategies side by side, layer after layer: load matrix, performance matrix, and the best there
    is.

    Parameters
    ----------
    chip
        Hardware with [units], or the units alone; None for the hardware of the allocations.
    strategies, allocations
        Objects or files, one or many.
    units
        (compute, storage) units of which all ways of sharing them out are enumerated, in classes of equal
        time. The best way of every task is composed to a strategy.
    arrays
        Budget of replicas that keep their arrays: the replication of least time is found.
    crossbar, mapping, fc
        Those of the allocations unless given.
    latency_table
        Measured times of a window of the weight layers, instead of ns_per_byte.

    Raises
    ------
    RramallocError
        BudgetError, FileError, SpecError, UnknownNameError, UnsupportedError.
    """
    check_range("arrays", arrays, 1, 2**53)
    given = given_allocations(listed(allocations))
    asked = None if chip is None or isinstance(chip, ChipPerformance) else as_hardware(chip)
    machines = _machines(given, asked, crossbar)
    parameters = chip if isinstance(chip, ChipPerformance) else _units(machines)
    tables = [
        (strategy, f"strategy {number}")
        if isinstance(strategy, Strategy)
        else (load_strategy(strategy), os.fspath(strategy))
        for number, strategy in enumerate(listed(strategies), 1)
    ]
    source = network_of(network, reading)
    chosen_fc = common_fc(given, fc)
    for allocation in given:
        allocation.source.without_blocks(source, "a strategy")
    options = [allocation.source.options.changed(mapping=mapping, fc=chosen_fc) for allocation in given] or [
        DEFAULT_MAPPING.changed(mapping=mapping, fc=chosen_fc)
    ]
    if not (tables or given or units or arrays):
        reason = "there are none: give strategies, allocations, units to enumerate or a budget of arrays"
        raise SpecError("strategies", reason)
    precision = common_precision(machines, given)
    measured = measured_steps(latency_table, source, chosen_fc, machines[0])
    tasks = tasks_of(source, parameters, precision, chosen_fc, machines[0], measured)
    if arrays is not None and options[0].mapping == "sdk":
        reason = "'sdk' has copies that compute blocks of windows, which are not proposed: use 'im2col'"
        raise SpecError("mapping", reason)
    plans = [plan_of(table, tasks, parameters, where) for table, where in tables]
    for (origin, own), machine, chosen in zip(given, machines, options, strict=False):
        demand = _demands(source, tasks, machine, chosen)
        plans.append(plan_of_copies(origin, own.replication, demand, tasks, parameters, own.where))
    proposal = None
    if arrays is not None:
        demand = _demands(source, tasks, machines[0], options[0])
        proposal, plan = propose(tasks, demand, parameters, arrays)
        plans.append(plan)
    return evaluate_strategies(
        source, parameters, precision, tasks, chosen_fc, plans, units=units, proposal=proposal
    )


def _units(machines: Sequence[Hardware]) -> ChipPerformance:
    """Return the [units] of the hardware. Raises SpecError."""
    if machines[0].units is None:
        raise SpecError(
            f"hardware {machines[0].name[:60]!r}",
            "needs [units]: processors, storage_units, unit_bytes, bandwidth_in_gb_s and bandwidth_out_gb_s "
            "(docs/sources/companions.md 1)",
        )
    return machines[0].units


def _machines(given: Sequence[Given], hardware: Hardware | None, crossbar: str | None) -> list[Hardware]:
    """Return the hardware of every allocation, or of none: the given one, or its own, or the default."""
    if hardware is not None:
        return [as_hardware(hardware, crossbar)] * max(1, len(given))
    own = [allocation.source.hardware for allocation in given] or [as_hardware(DEFAULT_PRESET)]
    return [as_hardware(machine, crossbar) for machine in own]
