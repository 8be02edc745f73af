"""`evaluate`: strategies of any origin side by side, from files and objects."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rramalloc.choices import FC_CHOICES, MAPPINGS, FullyConnected, Mapping
from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Hardware, Precision
from rramalloc.hardware.loader import DEFAULT_PRESET, HardwareLike, as_hardware
from rramalloc.importers import InputShapes, NetworkLike, as_network
from rramalloc.mapping.demand import demands
from rramalloc.network.network import Network
from rramalloc.records import check_known
from rramalloc.results.allocation_input import AllocationInput, AllocationLike, read_allocation
from rramalloc.studies.strategies.chip import ChipPerformance, load_chip
from rramalloc.studies.strategies.enumeration import Progress
from rramalloc.studies.strategies.evaluation import DEFAULT_LIMIT, Evaluation, Planner, evaluate_strategies
from rramalloc.studies.strategies.strategy import (
    Split,
    Strategy,
    StrategyPlan,
    Subtask,
    check_capacity,
    load_strategy,
    plan_of,
)
from rramalloc.studies.strategies.tasks import LayerTask, check_task_names
from rramalloc.timing.stage_graph import timed_stages


def plan_of_copies(
    name: str,
    copies: MappingOf[str, int],
    demand: Sequence[int],
    tasks: Sequence[LayerTask],
    chip: ChipPerformance,
    where: str,
) -> StrategyPlan:
    """The strategy that an allocation amounts to; layers without an entry in `copies` have one.

    demand: compute units (arrays) of one copy of each task. Arrays hold the weights of their own layer, so
    every layer has units of its own and all others are idle in its task; the storage units are dealt out
    evenly among the copies and hold inputs and outputs only.
    Raises SpecError if there are too few units, or for copies below 1 or above the windows.
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
        split = _split(task, count, each, first, chip.storage_units)
        check_capacity(split, task, chip, f"{where}: task {task.name[:60]!r}", keeps_weights=False)
        splits.append(split)
        first += count * each
    return StrategyPlan(name, where, tuple(splits))


def _split(task: LayerTask, copies: int, demand: int, first: int, storage_units: int) -> Split:
    """Consecutive units for each copy, from compute unit `first` on."""
    each, more = divmod(storage_units, copies)
    subtasks, stored = [], 1
    for copy, share in enumerate(task.even_shares(copies)):
        begin, held = first + copy * demand, each + (copy < more)
        subtasks.append(Subtask(range(begin, begin + demand), range(stored, stored + held), share))
        stored += held
    return tuple(subtasks)


StrategyLike = Strategy | str | os.PathLike[str]


def listed(items: Any) -> list[Any]:
    """A list or tuple as a list; anything else, such as a path, as a list of one."""
    return list(items) if isinstance(items, list | tuple) else [items]


class Given(NamedTuple):
    """An allocation with the name that its strategy gets."""

    name: str
    source: AllocationInput


def strategy_planner(strategy: StrategyLike, number: int, chip: ChipPerformance) -> Planner:
    """A strategy or its file. number: which one it is, as a name for one that has none."""
    if isinstance(strategy, Strategy):
        table, where = strategy, f"strategy {number}"
    else:
        table, where = load_strategy(strategy), os.fspath(strategy)

    def plan(tasks: Sequence[LayerTask]) -> StrategyPlan:
        return plan_of(table, tasks, chip, where)

    return plan


def given_allocations(allocations: Sequence[AllocationLike]) -> list[Given]:
    """Allocations with names: that of the file, with its folder where two files have the same name."""
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


def allocation_planner(
    given: Given,
    network: Network,
    chip: ChipPerformance,
    hardware: Hardware,
    mapping: Mapping | None,
    fc: FullyConnected,
) -> Planner:
    """An allocation on its own hardware. mapping: instead of the allocation's."""
    given.source.without_blocks(network, "a strategy")
    options = given.source.options.changed(mapping=mapping, fc=fc)

    def plan(tasks: Sequence[LayerTask]) -> StrategyPlan:
        need = demands(network, timed_stages(network, fc), hardware, options)
        return plan_of_copies(given.name, given.source.replication, need, tasks, chip, given.source.where)

    return plan


def common_fc(given: Sequence[Given], fc: FullyConnected | None) -> FullyConnected:
    """Where classifiers run: as asked, or as all allocations say, or on the host. Raises SpecError."""
    if fc is not None:
        return fc
    asked = {allocation.source.options.fc for allocation in given}
    if len(asked) > 1:
        raise SpecError(
            "fc", "the allocations were made with both 'host' and 'crossbar': say which with --fc"
        )
    return "crossbar" if "crossbar" in asked else "host"


def common_precision(hardware: Sequence[Hardware], given: Sequence[Given]) -> Precision:
    """Bits of the values that all hardware has in common. Raises SpecError."""
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
    chip: ChipPerformance | str | os.PathLike[str],
    *,
    strategies: StrategyLike | Sequence[StrategyLike] = (),
    allocations: AllocationLike | Sequence[AllocationLike] = (),
    units: tuple[int, int] | None = None,
    limit: int = DEFAULT_LIMIT,
    hardware: HardwareLike | None = None,
    crossbar: str | None = None,
    mapping: Mapping | None = None,
    fc: FullyConnected | None = None,
    input_shapes: InputShapes | None = None,
    allow_partial: bool = False,
    on_progress: Progress | None = None,
) -> Evaluation:
    """Strategies side by side, layer after layer: load matrix, performance matrix, and the best of them.

    chip: its performance parameters, or their TOML file; strategies, allocations: objects or files, one or
    many; units: (compute, storage) units of which all ways of sharing them out are enumerated, the first
    `limit` of them; hardware, crossbar, mapping, fc: those of the allocations unless given;
    allow_partial: take operators whose weights cannot be modelled as barriers.
    Raises RramallocError.  Source: docs/sources/companions.md 1.
    """
    for kind, name, known in (("mapping", mapping, MAPPINGS), ("fc", fc, FC_CHOICES)):
        if name is not None:
            check_known(kind, name, known)
    parameters = chip if isinstance(chip, ChipPerformance) else load_chip(chip)
    tables = [
        strategy_planner(strategy, number, parameters)
        for number, strategy in enumerate(listed(strategies), 1)
    ]
    given = given_allocations(listed(allocations))
    source = as_network(network, input_shapes, allow_partial=allow_partial)
    chosen_fc, machines = common_fc(given, fc), _machines(given, hardware, crossbar)
    allocated = [
        allocation_planner(allocation, source, parameters, machine, mapping, chosen_fc)
        for allocation, machine in zip(given, machines, strict=False)
    ]
    if not (tables or allocated or units):
        raise SpecError("strategies", "there are none: give strategies, allocations or units to enumerate")
    return evaluate_strategies(
        source, parameters, common_precision(machines, given), chosen_fc, [*tables, *allocated],
        units=units, limit=limit, on_progress=on_progress,
    )  # fmt: skip


def _machines(given: Sequence[Given], hardware: HardwareLike | None, crossbar: str | None) -> list[Hardware]:
    """Hardware of every allocation, or of none: what was asked for, or its own, or the default."""
    if hardware is not None:
        return [as_hardware(hardware, crossbar)] * max(1, len(given))
    own = [allocation.source.machine or DEFAULT_PRESET for allocation in given] or [DEFAULT_PRESET]
    return [as_hardware(machine, crossbar) for machine in own]
