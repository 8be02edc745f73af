"""What users hand over, strategies and allocations in files or in memory, as planners of strategies."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Hardware, Precision
from rramalloc.mapping.demand import demands
from rramalloc.mapping.options import FullyConnected, Mapping
from rramalloc.network.network import Network
from rramalloc.results.allocation_input import AllocationInput, AllocationLike, read_allocation
from rramalloc.studies.strategies.allocated import plan_of_copies
from rramalloc.studies.strategies.chip import ChipPerformance
from rramalloc.studies.strategies.compute import Planner
from rramalloc.studies.strategies.plan import Plan
from rramalloc.studies.strategies.strategy import Strategy, load_strategy
from rramalloc.studies.strategies.tables import plan_of
from rramalloc.studies.strategies.tasks import Task
from rramalloc.timing.stage_graph import timed_stages

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

    def plan(tasks: Sequence[Task]) -> Plan:
        return plan_of(table, tasks, chip, where)

    return plan


def given_allocations(allocations: Sequence[AllocationLike]) -> list[Given]:
    """Allocations with names: that of the file, with its folder where two files have the same name."""
    found = []
    for number, allocation in enumerate(allocations, 1):
        source = read_allocation(allocation, f"allocation {number}")
        found.append(Given(source.where, source))
    stems = [Path(given.name).stem or given.name for given in found]
    counts = Counter(stems)
    return [
        given._replace(name=stem) if counts[stem] == 1 else given
        for given, stem in zip(found, stems, strict=True)
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
    options = given.source.options.changed(mapping=mapping, fc=fc)

    def plan(tasks: Sequence[Task]) -> Plan:
        need = demands(network, timed_stages(network, fc), hardware, options)
        return plan_of_copies(given.name, given.source.replication, need, tasks, chip, given.source.where)

    return plan


def common_fc(given: Sequence[Given], fc: FullyConnected | None) -> FullyConnected:
    """Where classifiers run: as asked, or as all allocations say, or on the host. Raises SpecError."""
    if fc is not None:
        return fc
    asked = {found.source.options.fc for found in given}
    if len(asked) > 1:
        raise SpecError(
            "fc", "the allocations were made with both 'host' and 'crossbar': say which with --fc"
        )
    return "crossbar" if "crossbar" in asked else "host"


def common_precision(hardware: Sequence[Hardware], given: Sequence[Given]) -> Precision:
    """Bits of the values that all hardware has in common. Raises SpecError."""
    for machine, found in zip(hardware, given, strict=False):
        if machine.precision != hardware[0].precision:
            raise SpecError(
                found.source.where,
                f"its hardware {machine.name!r} has another precision than {hardware[0].name!r} of "
                f"{given[0].source.where}: bytes must be the same in all strategies, say which with "
                f"--hardware",
            )
    return hardware[0].precision
