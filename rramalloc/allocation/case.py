"""Case: a network on a hardware, made once for everything that is computed of it."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from rramalloc.allocation.budgets import budget, budgets
from rramalloc.allocation.layer_bits import BitTable
from rramalloc.allocation.limits import CopyLimits, at_most_of, copy_limits, divisors_within
from rramalloc.choices import DEFAULTS, MAX_ARRAYS, Divided, MappedArguments, SearchArguments
from rramalloc.errors import BudgetError, SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import as_hardware
from rramalloc.importers import NetworkLike, network_of
from rramalloc.mapping.demand import (
    ModeArrays,
    demands,
    least_arrays,
    modes_of_stages,
    once,
    row_block_widths,
    stored_classifiers,
)
from rramalloc.mapping.options import DEFAULT_MAPPING, MappingOptions
from rramalloc.mapping.tiles import Tiles
from rramalloc.network.network import Network
from rramalloc.records import brief, check_effort
from rramalloc.search.limited import under_limits
from rramalloc.search.menu import cheapest_of_each
from rramalloc.search.problem import Problem
from rramalloc.search.sensitivity import BitModes
from rramalloc.search.work import Work
from rramalloc.timing.access import StepTime
from rramalloc.timing.clocks import timed_graph
from rramalloc.timing.measured_steps import MeasuredSteps, measured_steps
from rramalloc.timing.metrics import EnergyModel, left_out
from rramalloc.timing.simulate import Replication
from rramalloc.timing.stage_graph import StageGraph


def searched(given: SearchArguments) -> tuple[int, Work]:
    """Return the seed, and how long is searched. Raises SpecError for numbers out of range."""
    every: SearchArguments = {**DEFAULTS, **given}
    check_effort(every["seed"], every["work"], every["time_limit_s"], most_seed=2**63 - 1)
    return every["seed"], Work(work=every["work"], time_limit_s=every["time_limit_s"])


@dataclass(frozen=True, eq=False)
class Case:
    """A network on a hardware.

    measured: the time of a step of every stage instead of the hardware's; copies, at_most: limits that a user
    holds; divide: of what copies must be a divisor; bits: that layers choose from.
    """

    network: Network
    hardware: Hardware
    mapping: MappingOptions = DEFAULT_MAPPING
    measured: MeasuredSteps | None = None
    copies: CopyLimits = field(default_factory=dict)
    bits: BitTable | None = None
    at_most: MappingOf[str, float] = field(default_factory=dict)
    divide: Divided | None = None

    @classmethod
    def of(cls, network: NetworkLike, given: MappedArguments) -> Case:
        """Return what the arguments of a call describe. Raises RramallocError."""
        every: SearchArguments = {**DEFAULTS, **given}
        options = DEFAULT_MAPPING.changed(
            mapping=every["mapping"], fc=every["fc"], fold=every["fold"], host=every["host"]
        )
        source = network_of(network, given)
        machine = as_hardware(every["hardware"], every["crossbar"], every["set_values"])
        measured = measured_steps(every["latency_table"], source, options, machine)
        at_most, divide = at_most_of(every["at_most"]), every["copies_divide"]
        case = cls(source, machine, options, measured, at_most=at_most, divide=divide)
        if not every["copies"]:
            return case
        return replace(case, copies=copy_limits(every["copies"], case.stages)).with_stages(case.stages)

    def on(self, hardware: Hardware) -> Case:
        """Return the case on another hardware."""
        return replace(self, hardware=hardware).with_stages(self.stages)

    @property
    def may_reload(self) -> bool:
        """Whether nothing is asked for that segments of layers, which are written in turn, cannot have."""
        limited = self.copies or self.divide or self.at_most or self.bits is not None
        return not (limited or self.mapping.fold or self.measured or self.hardware.counting)

    def with_bits(self, bits: MappingOf[str, tuple[int, int]]) -> Case:
        """Return the case of the network with these bits of weights and inputs, and none left to choose."""
        case = replace(self, network=self.network.with_bits(bits), bits=None)
        return case.with_stages(self.stages.of_network(case.network))

    def choosing(self, table: BitTable) -> Case:
        """Return the case with bits to choose; layers left to the host get the least sensitive ones.

        Raises SpecError.
        """
        host, _ = table.split(self.network, self.stages.names)
        case = self.with_bits(host)
        return replace(case, bits=table).with_stages(case.stages)

    @property
    def _bit_modes(self) -> BitModes | None:
        """The bits that its stages choose from, None where they are given."""
        if self.bits is None:
            return None
        graph = self.graph
        _, left = self.bits.split(self.network, graph.names)
        return BitModes(tuple(left.get(name, ()) for name in graph.names), graph.stages, self.hardware)

    def with_stages(self, stages: StageGraph) -> Case:
        """Return the same case with its stages, which were traced before."""
        case = replace(self)
        case.__dict__["stages"] = stages  # instead of what the cached property would trace
        return case

    @cached_property
    def stages(self) -> StageGraph:
        """Its stages, without clocks. Raises UnsupportedError."""
        return StageGraph.build(self.network, self.mapping)

    @cached_property
    def graph(self) -> StageGraph:
        """Its stages with their clocks, and the digital nodes that have rates. Raises as `timed_graph`."""
        return timed_graph(self.network, self.hardware, self.mapping, self.measured, self.stages)

    @cached_property
    def minimum(self) -> int:
        """Arrays with every stage stored once, and classifiers where [counting] says so."""
        return least_arrays(self.network, self.stages.stages, self.hardware, self.mapping)

    def budget(self, given: int | str | None) -> int:
        """Return the arrays that may be used; None: those of the chip. Raises SpecError."""
        if isinstance(given, str):
            return budget(given, self.minimum)
        if given is not None:
            return given
        if self.hardware.chip is None:
            name = self.hardware.name
            raise SpecError("arrays", f"must be given, hardware {name!r} has no [chip] that gives them")
        return self.hardware.chip.arrays

    def budgets(self, given: int | str | Sequence[int | str]) -> tuple[int, ...]:
        """Return the budgets of a list, each once. Raises SpecError."""
        return budgets(given, self.minimum)

    def problem(self, arrays: int, *, advise: bool = True) -> Problem:
        """Return the search problem within a budget and the arrays of the chips.

        advise: whether a BudgetError says what would help, which is tried.
        Raises BudgetError, LimitError, SpecError.
        """
        check_arrays(arrays)
        try:
            return self._within(arrays)
        except BudgetError as error:
            if advise:
                from rramalloc.allocation import remedies

                error.remedies = remedies.of_budget(self, arrays, error)
            raise

    def _within(self, arrays: int) -> Problem:
        """Return the search problem, as `problem`."""
        network, hardware, mapping, graph = self.network, self.hardware, self.mapping, self.graph
        bits, step_time = self._bit_modes, StepTime.of(graph, hardware, self.measured)
        every = [graph.stages] if bits is None else bits.every
        each = [(network, stages, hardware, mapping) for stages in every]
        sizes = np.array([demands(*own) for own in each], dtype=np.int64)
        demand, taken = sizes.min(axis=0), np.array([once(*own) for own in each]).min(axis=0).tolist()
        modes = modes_of_stages(*each[0], self.divide)
        if bits is not None:
            step_time, alone = bits.step_time(step_time), None if mapping.mapping == "sdk" else demand
            modes = ModeArrays(network, graph.stages, hardware, alone, self.divide, mapping)
        _check_chips(graph, hardware, taken)
        left = self._left_by_classifiers(taken, arrays)
        if hardware.chip is not None:
            left = min(left, hardware.chip.arrays)
        least, most = self._limits()
        problem = Problem(
            graph,
            demand,
            left,
            modes,
            step_time,
            least,
            most,
            energy=None if hardware.energy is None else EnergyModel(graph, hardware, mapping),
            once=demand,
            bits=bits,
        )
        if least is not None or not modes.is_chosen_freely:
            problem = replace(problem, once=cheapest_of_each(problem))
        return under_limits(problem, self.at_most)

    def warnings(self, arrays: int) -> tuple[str, ...]:
        """Return what is assumed of network, hardware and measurement, and what [counting] takes."""
        network, hardware = self.network, self.hardware
        warnings = [*network.warnings, *self.mapping.host_notes(network)]
        warnings += hardware_warnings(hardware, arrays)
        warnings += () if self.measured is None else self.measured.warnings
        stored = stored_classifiers(network, self.graph.stages, hardware, self.mapping)
        if stored:
            warnings.append(
                f"hardware {hardware.name}: {sum(stored.values())} arrays of the budget are for layers left "
                f"to the host, which it stores all the same: {', '.join(stored)[:200]}"
            )
        most = certain_arrays(network, hardware)
        if most is not None and arrays > most:
            warnings.append(
                f"hardware {hardware.name}: no more than {most} arrays are used: so many find a place in its "
                f"tiles whatever the order in which they are filled"
            )
        return tuple(warnings)

    def _limits(self) -> tuple[Replication | None, Replication | None]:
        """Return the fewest and the most copies of every stage; None where nothing is held."""
        if not self.copies and self.divide is None:
            return None, None
        every = zip(self.graph.names, self.graph.most_copies.tolist(), strict=True)
        limits = [self.copies.get(name, (1, most)) for name, most in every]
        if self.divide is not None and self.mapping.mapping != "sdk":
            for stage, (grid, name) in enumerate(zip(self.graph.grids, self.graph.names, strict=True)):
                whole = grid.columns if self.divide == "width" else grid.total
                low, high = limits[stage]
                limits[stage] = divisors_within(low, high, whole, name)
        least, most = np.array(limits, dtype=np.int64).T
        return least, np.minimum(most, self.graph.most_copies)

    def _left_by_classifiers(self, taken: Sequence[int], arrays: int) -> int:
        """Return the budget of the stages: what [counting] leaves of the arrays. Raises BudgetError.

        taken: arrays of one copy of every stage.
        """
        network, hardware, graph = self.network, self.hardware, self.graph
        if hardware.counting is None:
            return arrays
        if (most := certain_arrays(network, hardware)) is not None:
            arrays = min(arrays, most)
        stored = stored_classifiers(network, graph.stages, hardware, self.mapping)
        need = sum(taken) + sum(stored.values())
        if need > arrays:
            by_name = dict(zip(graph.names, taken, strict=True)) | stored
            layers = [(stage.name, by_name[stage.name]) for stage in network.stages if stage.name in by_name]
            raise BudgetError(need, arrays, layers)
        return arrays - sum(stored.values())


def check_arrays(arrays: int) -> None:
    """Raise SpecError unless `arrays` is a budget that can be asked for."""
    if isinstance(arrays, bool) or not 1 <= arrays <= MAX_ARRAYS:
        raise SpecError("arrays", f"must be from 1 to {MAX_ARRAYS}, got {brief(arrays)}")


def _check_chips(graph: StageGraph, hardware: Hardware, taken: Sequence[int]) -> None:
    """Raise BudgetError if one copy of every stage needs more arrays than the chips have.

    taken: arrays of one copy of every stage.
    """
    chip, need = hardware.chip, sum(taken)
    if chip is not None and need > chip.arrays:
        layers = [(graph.names[stage], taken[stage]) for stage in graph.network_order]
        raise BudgetError(need, chip.arrays, layers, chip=chip.arrays_per_chip)


def certain_arrays(network: Network, hardware: Hardware) -> int | None:
    """Arrays that are sure to find a place where tiles are filled first fit; None if all can be used."""
    widths = row_block_widths(network, hardware)
    if widths is None or hardware.chip is None:
        return None
    return Tiles(hardware.chip.tile_count, hardware.chip.arrays_per_tile).certain(set(widths.values()))


def hardware_warnings(hardware: Hardware, arrays: int) -> tuple[str, ...]:
    """Return the assumptions about the hardware for a budget of `arrays`."""
    warnings = [*left_out(hardware)]
    if hardware.write is not None:
        warnings.append(
            f"hardware {hardware.name}: all weights are in the arrays from the start; what [write] says "
            f"counts with `optimize --reload` alone"
        )
    if hardware.unconfirmed:
        warnings.append(f"hardware {hardware.name}: not confirmed: {', '.join(hardware.unconfirmed)}")
    if (chip := hardware.own_tiles) is not None:
        warnings.append(
            f'hardware {hardware.name}: a tile holds arrays of one layer (sharing = "layer"): a layer takes '
            f"whole tiles of {chip.arrays_per_tile} arrays, and all of them count, also those that stay empty"
        )
    if hardware.chip is not None and arrays > hardware.chip.arrays:
        warnings.append(
            f"hardware {hardware.name}: the budget of {arrays} arrays is more than the "
            f"{hardware.chip.arrays} that its chips have; no more than those are used"
        )
    return tuple(warnings)
