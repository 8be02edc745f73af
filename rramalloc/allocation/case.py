"""Case: a network on a hardware, made once for everything that is computed of it."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from rramalloc.allocation.allocation import NetworkId
from rramalloc.allocation.budgets import budget, budgets
from rramalloc.allocation.case_arguments import DEFAULTS, MappedArguments, SearchArguments, TargetArguments
from rramalloc.allocation.layer_bits import BitTable
from rramalloc.allocation.limits import CopyLimits, at_most_of, copy_limits, divisors_within
from rramalloc.allocation.remedies import of_budget
from rramalloc.choices import MAX_ARRAYS, Divided
from rramalloc.errors import BudgetError, SpecError
from rramalloc.hardware.components import NM2_PER_UM2, array_area_nm2
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import as_hardware
from rramalloc.importers import NetworkLike, network_of
from rramalloc.mapping.demand import (
    Storage,
    demands,
    least_arrays,
    once,
    row_block_widths,
    storage_of,
    stored_classifiers,
)
from rramalloc.mapping.mode import LayerArray, Mode, array_of
from rramalloc.mapping.options import DEFAULT_MAPPING, MappingOptions
from rramalloc.mapping.tiles import Site, Tiles
from rramalloc.methods.one_pass import one_pass_choices
from rramalloc.network.counts import weights
from rramalloc.network.coverage import Coverage, name_some
from rramalloc.network.network import Network
from rramalloc.network.node import Stage, TimedNode
from rramalloc.records import brief, check_effort
from rramalloc.room import load_from
from rramalloc.rounding import SAME_PRODUCT
from rramalloc.search.limited import OF_ARRAYS, lowest, whole
from rramalloc.search.problem import Choice, Held, Placer, Problem
from rramalloc.search.resources import MOST_PARTS, ONE_KIND, Alternative, Alternatives, Axis, Cost, Resources
from rramalloc.search.work import Work
from rramalloc.timing.access import StepTime
from rramalloc.timing.clocks import timed_graph
from rramalloc.timing.measured_steps import MeasuredSteps, measured_steps
from rramalloc.timing.metrics import EnergyModel, left_out
from rramalloc.timing.simulate import Copies
from rramalloc.timing.stage_graph import StageGraph
from rramalloc.version import __version__


def searched(given: SearchArguments) -> tuple[int, Work]:
    """Return the seed and the limits of work and time. Raises SpecError for numbers out of range."""
    every: TargetArguments = {**DEFAULTS, **given}
    check_effort(every["seed"], every["work"], every["time_limit_s"], most_seed=2**63 - 1)
    return every["seed"], Work(work=every["work"], time_limit_s=every["time_limit_s"])


ArraysLike = int | str | MappingOf[str, int]
"""A number of arrays, a factor of the minimum such as "x2", or the numbers of kinds."""
_PER_ARRAY = 1024  # cost of an array where kinds have no areas: prices are whole parts of it


@dataclass(frozen=True, eq=False)
class Case:
    """A network on a hardware.

    measured: the time of a step of every stage instead of the hardware's; copies, at_most: limits that a user
    holds; divide: of what copies must be a divisor; bits: that layers choose from; placed: whether transfers
    between the tiles of a placement count; taken: arrays that other networks hold in tiles of the chip, by
    row and column of chip and tile.
    """

    network: Network
    hardware: Hardware
    mapping: MappingOptions = DEFAULT_MAPPING
    measured: MeasuredSteps | None = None
    copies: CopyLimits = field(default_factory=dict)
    bits: BitTable | None = None
    at_most: MappingOf[str, float] = field(default_factory=dict)
    divide: Divided | None = None
    placed: bool = False
    taken: MappingOf[Site, int] = field(default_factory=dict)

    @classmethod
    def of(cls, network: NetworkLike, given: MappedArguments, *, placed: bool = False) -> Case:
        """Return the case that the arguments of a call describe. Raises RramallocError."""
        every: TargetArguments = {**DEFAULTS, **given}
        options = DEFAULT_MAPPING.changed(
            mapping=every["mapping"], fc=every["fc"], fold=every["fold"], host=every["host"]
        )
        source = network_of(network, given)
        machine = as_hardware(every["hardware"], every["crossbar"], every["set_values"])
        measured = measured_steps(every["latency_table"], source, options, machine)
        at_most, divide = at_most_of(every["at_most"]), every["copies_divide"]
        case = cls(source, machine, options, measured, at_most=at_most, divide=divide, placed=placed)
        if not every["copies"]:
            return case
        return replace(case, copies=copy_limits(every["copies"], case.stages)).with_stages(case.stages)

    def on(self, hardware: Hardware) -> Case:
        """Return the case on another hardware."""
        return replace(self, hardware=hardware).with_stages(self.stages)

    @property
    def options(self) -> dict[str, Any]:
        """What it says beyond network and hardware, by the names that files have for it (CaseOptions)."""
        sequences = self.network.sequences
        return {
            **dict(self.mapping),
            "latency_table": self.measured,
            "copies": dict(self.copies) or None,
            "copies_divide": self.divide,
            "at_most": dict(self.at_most) or None,
            "feeds_back": None if sequences is None else True,
            "sequences": sequences,
            "states": dict(self.network.states) or None,
            "placed": self.placed or None,
        }

    @cached_property
    def coverage(self) -> Coverage:
        """The part of its network that results are about."""
        return self._coverage_with(())

    def _coverage_with(self, units: Collection[str]) -> Coverage:
        """Return the coverage with these layers on digital units."""
        rated = (node.name for node in self.network.nodes if node.op in self.hardware.rated)
        return Coverage.of(self.network, (*self.stages.names, *rated), units)

    def not_counted(self, *, links: bool | None = None, writing: bool = False) -> tuple[str, ...]:
        """Return in words what times and energies of its results leave out, which it could have said.

        links, writing: whether transfers between placed tiles, and writing of weights, are counted; links as
        the case says if left out.
        Source: docs/sources/interface.md.
        """
        words, hardware, coverage = list[str](), self.hardware, self.coverage
        links = links or self.placed
        dynamic, rated = coverage.dynamic, hardware.digital is not None
        links = self.placed if links is None else links
        if hardware.chip is not None and not links and hardware.chip.times_links:
            words.append("links between tiles: optimize --placed counts them")
        if hardware.chip is not None and links:
            left = [name for name in hardware.chip.link_fields if name not in hardware.chip.given_links]
            words += [f"{name} of [chip]: it is not given, so that it takes no time" for name in left]
        if dynamic is not None and not set(dynamic.nodes) <= set(coverage.timed_digital):
            words.append(f"products of computed tensors, {dynamic.macs:,} MACs: no rate is given for them")
        if rated and coverage.free_digital:
            words.append(f"digital nodes without a rate: {name_some(coverage.free_digital)}")
        if hardware.energy is not None and hardware.energy.read_pj is not None:
            if dynamic is not None:
                words.append(f"energy of products of computed tensors, {dynamic.macs:,} MACs")
            digital = (*coverage.timed_digital, *coverage.free_digital)
            if rated and digital:
                words.append(f"energy of digital nodes: {name_some(digital)}")
        if hardware.write is not None and not writing:
            words.append("writing of weights: --reload counts it")
        if self.network.states and links and hardware.chip is not None and hardware.chip.times_links:
            words.append("transfer of states between tiles, from an input to the next one")
        if self.network.has_caches and self.network.sequences is None:
            words.append("caches: if the next input needs this one's output, --feeds-back")
        return tuple(words)

    def about(
        self, *, links: bool | None = None, writing: bool = False, units: Collection[str] = ()
    ) -> dict[str, Any]:
        """Return the fields of every result that follow from the case; see `not_counted`.

        units: layers that are on digital units, in some row where a result has several allocations.
        """
        return {
            "rramalloc_version": __version__,
            "network": NetworkId.of(self.network),
            "hardware": self.hardware,
            "coverage": self._coverage_with(units) if units else self.coverage,
            "not_counted": self.not_counted(links=links, writing=writing),
        }

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
    def _alternatives(self) -> Alternatives | None:
        """The kinds of arrays and the bits that its stages choose from, None where there is one of each."""
        if self.bits is None and self.hardware.kinds is None:
            return None
        graph, left = self.graph, dict[str, tuple[Alternative, ...]]()
        if self.bits is not None:
            _, left = self.bits.split(self.network, graph.names)
        of_stages = list[tuple[Alternative, ...]]()
        for stage in graph.stages:
            every = [
                alternative._replace(kind=kind)
                for kind in range(len(self.hardware.each_kind))
                for alternative in left.get(stage.name, (Alternative(),))
            ]
            own = tuple(each for each in every if isinstance(stage, Stage) and self._holds(stage, each.mode))
            if isinstance(stage, Stage) and not own:
                words = f"{stage.name[:60]!r} is larger than weight_bytes of every kind"
                raise SpecError("kinds", f"{words}: raise processor.weight_bytes, or give a kind of arrays")
            of_stages.append(own)
        return Alternatives(tuple(of_stages), graph.stages, self.hardware)

    def array_of(self, stage: TimedNode, mode: Mode) -> LayerArray:
        """Return the arrays, or digital units, of its kind that a stage uses in a mode."""
        return array_of(self.hardware, stage, mode)

    def _holds(self, stage: Stage, mode: Mode) -> bool:
        """Return True if a layer fits a digital unit of the kind of a mode, or that has arrays."""
        own = self.array_of(stage, mode)
        bits = weights(self.network, stage) * own.precision.weight_bits
        return own.processor is None or own.processor.holds(bits)

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
    def placer(self) -> Placer | None:
        """What places its allocations, None where links are not counted. Raises as `Placer`."""
        if not self.placed:
            return None
        placer: Placer = load_from("place", "placer:CasePlacer", "placed")(self)
        return placer

    def fixed(self, found: Choice) -> tuple[Case, Choice]:
        """Return the case with the bits that an allocation chose, and the allocation in it."""
        names, modes = found.problem.graph.names, found.modes
        bits = {
            name: (mode.weight_bits, mode.input_bits)
            for name, mode in zip(names, modes, strict=True)
            if mode.weight_bits
        }
        chosen = self.with_bits(bits)
        problem = chosen.problem(MAX_ARRAYS, advise=False)
        without_bits = tuple(Mode(*mode.block, kind=mode.kind) for mode in modes)
        return chosen, problem.choice(found.copies, without_bits)

    @cached_property
    def minimum(self) -> int:
        """Arrays with every stage stored once, and classifiers where [counting] says so."""
        return least_arrays(self.network, self.stages.stages, self.hardware, self.mapping)

    def budget(self, given: int | str | None) -> int:
        """Return the arrays that may be used; None: the chip's. Raises SpecError, UnsupportedError."""
        if isinstance(given, str):
            return budget(given, self.minimum)
        if given is not None:
            return given
        if self.hardware.chip is None:
            name = self.hardware.name
            raise SpecError("arrays", f"must be given, hardware {name!r} has no [chip] that gives them")
        return self.hardware.chip.arrays

    def with_numbers(self, arrays: ArraysLike | None) -> tuple[Case, int]:
        """Return the case and the arrays that may be used, of all kinds together where there are several.

        arrays: a number, "x2" for twice the minimum, None for those of the chip or of every kind, or the
        numbers of kinds, {"small": 512} or "small=512,large=64". Raises SpecError.
        """
        if self.hardware.kinds is None:
            if isinstance(arrays, MappingOf) or (isinstance(arrays, str) and "=" in arrays):
                words = f"hardware {self.hardware.name[:60]!r} has no [[kinds]] whose arrays could be named"
                raise SpecError("arrays", f"{words}: give a number")
            return self, self.budget(arrays)
        if arrays is None:
            return self, MAX_ARRAYS
        if isinstance(arrays, int) or (isinstance(arrays, str) and arrays.strip().isdecimal()):
            return self, int(arrays)
        changed = replace(self, hardware=self.hardware.with_arrays_of_kinds(arrays))
        return (changed.with_stages(self.stages) if "stages" in self.__dict__ else changed), MAX_ARRAYS

    def with_budgets(self, given: ArraysLike | Sequence[int | str] | None) -> tuple[Case, tuple[int, ...]]:
        """Return the case and the budgets of a list, each once; None or numbers of kinds are a single one.

        Raises SpecError, UnsupportedError.
        """
        if isinstance(given, Sequence) and not isinstance(given, str) and len(given) == 1:
            given = given[0]
        if given is None or isinstance(given, MappingOf) or (isinstance(given, str) and "=" in given):
            case, arrays = self.with_numbers(given)
            return case, (arrays,)
        if self.hardware.kinds is None:
            return self, budgets(given, self.minimum)
        return self, budgets(given, None)

    def most_arrays(self, arrays: int) -> int:
        """Return the most arrays that a budget and the numbers or the area of kinds leave."""
        if self.hardware.kinds is None:
            return arrays
        resources, budget = self.kinds_within(arrays)
        kinds = zip(self.hardware.kinds, resources.weights, strict=True)
        of_kinds = (kind.arrays or budget // weight for kind, weight in kinds)
        return min(arrays, sum(of_kinds), budget // min(resources.weights))

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
                bits = max(node.weight_bits or 0 for node in self.network.stages)
                free = replace(self, copies={}).with_stages(self.stages)
                error.remedies = of_budget(self.hardware, bits, arrays, error, self._store, free._store)
            raise

    def _store(self, hardware: Hardware, arrays: int) -> Problem:
        """Return the search problem on another hardware, without advice. Raises RramallocError."""
        return self.on(hardware).problem(arrays, advise=False)

    def _within(self, arrays: int) -> Problem:
        """Return the search problem, as `problem`."""
        network, hardware, mapping, graph = self.network, self.hardware, self.mapping, self.graph
        alternatives, step_time = self._alternatives, StepTime.of(graph, hardware, self.measured)
        every = [graph.stages] if alternatives is None else alternatives.every
        first = hardware.each_kind[0]
        arguments = [(network, stages, first, mapping) for stages in every]
        demand = np.array([demands(*of_fold) for of_fold in arguments], dtype=np.int64).min(axis=0)
        taken = np.array([once(*of_fold) for of_fold in arguments]).min(axis=0).tolist()
        storage = storage_of(network, every[0], hardware, mapping, self.divide)
        resources, left = ONE_KIND, arrays
        if alternatives is not None:
            step_time, alone = alternatives.step_time(step_time), None if mapping.mapping == "sdk" else demand
            storage = Storage(graph.stages, alone, network, hardware, self.divide, mapping, choices=True)
        if hardware.kinds is None:
            _check_chips(graph, hardware, taken)
            left = self._left_by_classifiers(taken, arrays)
        else:
            resources, left = self.kinds_within(arrays)
            storage = storage.with_weights(resources.weights)
        if self.bits is not None:
            nothing = (0,) * len(resources.weights)
            sensitivity = Axis("parts of the sensitivity", MOST_PARTS, nothing, per_part=1)
            resources = replace(resources, axes=(*resources.axes, sensitivity))
        if hardware.chip is not None and hardware.kinds is None:
            left = min(left, hardware.chip.arrays)
        problem = Problem(
            graph,
            demand,
            Cost(left),
            storage,
            step_time,
            energy=None if not hardware.has_energy else EnergyModel(graph, hardware, mapping),
            once=demand if hardware.kinds is None else np.zeros_like(demand),
            alternatives=alternatives,
            resources=resources,
            held=Held(*self._limits()),
            rules=one_pass_choices,
            placer=self.placer,
        )
        return whole(problem, self._at_most_in_turns)

    @property
    def _at_most_in_turns(self) -> MappingOf[str, float]:
        """Limits of quantities; that of an interval is also of the latency where the network feeds back."""
        longest_ns = self.at_most.get("interval_ns")
        sequences = self.network.sequences
        if sequences is None or longest_ns is None:
            return self.at_most
        # Of one sequence the busiest stage never takes longer than the latency.
        left = {name: limit for name, limit in self.at_most.items() if name != "interval_ns" or sequences > 1}
        return lowest(left, {"latency_ns": sequences * longest_ns})

    def check_numbers(self, arrays: int) -> None:
        """Raise SpecError if the arrays of a kind are unlimited: then no allocation is fastest."""
        free = [kind.name for kind in self.hardware.kinds or () if kind.arrays is None]
        if free and arrays >= MAX_ARRAYS and OF_ARRAYS.isdisjoint(self.at_most):
            words = f"nothing says how many arrays of kind {free[0]!r} there are: give its `arrays`"
            raise SpecError("arrays", f"{words}, --arrays {free[0]}=N, --arrays N, or --at-most area_um2=X")

    def kinds_within(self, arrays: int) -> tuple[Resources, Cost]:
        """Return the limits of every kind of arrays, and the budget of their total cost.

        An array costs its area where the hardware gives it for every kind, else each as much as any other.
        arrays: the most of all kinds together. Raises SpecError where nothing limits them.
        """
        hardware = self.hardware
        kinds, areas = hardware.kinds or (), [array_area_nm2(nm2kind) for nm2kind in hardware.each_kind]
        numbers, limit = [kind.arrays for kind in kinds], self.at_most.get("area_um2")
        by_area = None not in areas
        weights = tuple(nm2kind or 0 for nm2kind in areas) if by_area else (_PER_ARRAY,) * len(kinds)
        if limit is not None and not by_area:
            lacks = next(kind.name for kind, nm2kind in zip(kinds, areas, strict=True) if nm2kind is None)
            words = f"area_um2: the hardware gives no area of kind {lacks!r}: give it an energy.area_um2"
            raise SpecError("at_most", words)
        most = [min(number or arrays, arrays) for number in numbers]
        budget = sum(weight * number for weight, number in zip(weights, most, strict=True))
        axes = [
            Axis(f"arrays of kind {kind.name}", kind.arrays, tuple(int(nm2kind is kind) for nm2kind in kinds))
            for kind in kinds
            if kind.arrays is not None
        ]
        if arrays < MAX_ARRAYS:
            axes.append(Axis("arrays of all kinds", arrays, (1,) * len(kinds)))
        resources = Resources(weights, tuple(axes), "arrays", _PER_ARRAY)
        if by_area:
            resources = Resources(weights, tuple(axes), "um2", NM2_PER_UM2)
        budget = min(budget, resources.most)
        if limit is not None:
            budget = min(budget, math.floor(limit * NM2_PER_UM2 * (1 + SAME_PRODUCT)))
        return resources, Cost(budget)

    def warnings(self, arrays: int) -> tuple[str, ...]:
        """Return the assumptions about network, hardware and measurement, and the arrays of [counting]."""
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

    def _limits(self) -> tuple[Copies | None, Copies | None]:
        """Return the fewest and the most copies of every stage; None where nothing is held."""
        if not self.copies and self.divide is None:
            return None, None
        every = zip(self.graph.names, self.graph.most_copies.tolist(), strict=True)
        limits = [self.copies.get(name, (1, most)) for name, most in every]
        if self.divide is not None and self.mapping.mapping != "sdk":
            for stage, (grid, name) in enumerate(zip(self.graph.grids, self.graph.names, strict=True)):
                dividend = grid.columns if self.divide == "width" else grid.total
                low, high = limits[stage]
                limits[stage] = divisors_within(low, high, dividend, name)
        least, most = np.array(limits, dtype=np.int64).T
        return least, np.minimum(most, self.graph.most_copies)

    def _left_by_classifiers(self, taken: Sequence[int], arrays: int) -> int:
        """Return the budget of the stages: the arrays without those of [counting]. Raises BudgetError.

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
    """Return a lower bound of the arrays that find a place in tiles filled first fit; None if all do."""
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
    if hardware.chip is not None and hardware.kinds is None and arrays > hardware.chip.arrays:
        warnings.append(
            f"hardware {hardware.name}: the budget of {arrays} arrays is more than the "
            f"{hardware.chip.arrays} that its chips have; no more than those are used"
        )
    return tuple(warnings)
