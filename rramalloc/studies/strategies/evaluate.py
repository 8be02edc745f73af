"""`evaluate`: strategies of any origin side by side, from what the user hands over."""

from __future__ import annotations

import os
from collections.abc import Sequence

from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import DEFAULT_PRESET, HardwareLike, as_hardware
from rramalloc.importers import InputShapes, NetworkLike, as_network
from rramalloc.mapping.options import FC_CHOICES, MAPPINGS, FullyConnected, Mapping
from rramalloc.records import check_known
from rramalloc.results.allocation_input import AllocationLike
from rramalloc.studies.strategies.chip import ChipPerformance, load_chip
from rramalloc.studies.strategies.compute import DEFAULT_LIMIT, evaluate_strategies
from rramalloc.studies.strategies.evaluation import Evaluation
from rramalloc.studies.strategies.inputs import (
    Given,
    StrategyLike,
    allocation_planner,
    common_fc,
    common_precision,
    given_allocations,
    listed,
    strategy_planner,
)
from rramalloc.studies.strategies.source import Progress


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
    on_progress: Progress | None = None,
) -> Evaluation:
    """Strategies side by side, layer after layer: load matrix, performance matrix, and the best of them.

    chip: its performance parameters, or their TOML file; strategies, allocations: objects or files, one or
    many; units: (compute, storage) units of which all ways of sharing them out are enumerated, the first
    `limit` of them; hardware, crossbar, mapping, fc: those of the allocations unless given.
    Raises RramallocError.  Source: SYSTEMS.md 1.
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
    source = as_network(network, input_shapes)
    chosen_fc, machines = common_fc(given, fc), _machines(given, hardware, crossbar)
    allocated = [
        allocation_planner(found, source, parameters, machine, mapping, chosen_fc)
        for found, machine in zip(given, machines, strict=False)
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
    own = [found.source.machine or DEFAULT_PRESET for found in given] or [DEFAULT_PRESET]
    return [as_hardware(machine, crossbar) for machine in own]
