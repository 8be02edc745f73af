"""`optimize`: the one call from a network and a budget to a checked allocation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from rramalloc.allocation.allocation import (
    Allocation,
    Arrays,
    Layer,
    NetworkId,
    Options,
    Progress,
    layer_bits,
)
from rramalloc.allocation.check import check_candidate, recheck_bound
from rramalloc.choices import ObjectiveName
from rramalloc.errors import BudgetError, SpecError, TargetError
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.demand import (
    ModeArrays,
    WeightMatrix,
    demands,
    folds,
    row_block_widths,
    stored_classifiers,
)
from rramalloc.mapping.modes import smallest_block
from rramalloc.mapping.options import DEFAULT_MAPPING, MappingOptions
from rramalloc.mapping.tiles import Tiles
from rramalloc.methods.registry import method_named
from rramalloc.network.coverage import Coverage
from rramalloc.network.geometry import Pair
from rramalloc.network.network import Network
from rramalloc.network.node import Stage
from rramalloc.records import brief
from rramalloc.search import repair
from rramalloc.search.objective import OBJECTIVES, FewestArrays, Objective, gap_of, root_bound, within
from rramalloc.search.problem import Candidate, Problem, Stop
from rramalloc.timing.access import Absolute, StepTime
from rramalloc.timing.clocks import timed_graph
from rramalloc.timing.measured_steps import MeasuredSteps
from rramalloc.timing.metrics import EnergyModel, Metrics, left_out, totals
from rramalloc.timing.recurrence import recurrence
from rramalloc.timing.simulate import ExactTiming
from rramalloc.timing.stage_graph import StageGraph
from rramalloc.version import __version__

MAX_ARRAYS = 2**40


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to optimise for. target_steps or target_ns is needed with objective "arrays".

    measured: step times instead of those of the hardware.
    """

    mapping: MappingOptions = DEFAULT_MAPPING
    objective: ObjectiveName = "latency"
    method: str = "auto"
    seed: int = 0
    target_steps: int | None = None
    target_ns: float | None = None
    measured: MeasuredSteps | None = None


def optimize(network: Network, hardware: Hardware, arrays: int, request: Request, stop: Stop) -> Allocation:
    """The best replication of every layer of `network` within a budget of `arrays`.

    Raises BudgetError, TargetError, SpecError, UnknownNameError; SolverError if a method's allocation
    does not survive the check.  Source: docs/sources/model.md.
    """
    try:
        problem = make_problem(network, hardware, arrays, request.mapping, measured=request.measured)
    except BudgetError as error:
        lacks = [f"[{table}]" for table in ("write", "timing") if getattr(hardware, table) is None]
        plain = hardware.counting is None and request.mapping == request.mapping.changed(fold=False)
        error.reload = lacks if plain and (error.chip or not lacks) else None
        raise
    try:
        candidate = propose(problem, request, stop)
    except TargetError as error:
        whole = make_problem(network, hardware, MAX_ARRAYS, request.mapping, graph=problem.graph)
        error.chip = problem.budget if whole.budget == problem.budget else None
        raise
    return checked_allocation(hardware, arrays, problem, request, stop, candidate)


def make_problem(
    network: Network,
    hardware: Hardware,
    arrays: int,
    mapping: MappingOptions = DEFAULT_MAPPING,
    *,
    graph: StageGraph | None = None,
    measured: MeasuredSteps | None = None,
) -> Problem:
    """The search problem of a network on a hardware: with chips, what can be placed on them.

    graph: of this network and fc, if it is there already; measured: as in Request.
    Raises BudgetError, TileError, PlacementError, SpecError.
    """
    check_arrays(arrays)
    graph = timed_graph(network, hardware, mapping, measured, graph)
    demand = np.array(demands(network, graph.stages, hardware, mapping), dtype=np.int64)
    _check_chips(graph, hardware, demand)
    budget = _left_by_classifiers(graph, hardware, mapping, demand, arrays)
    problem = Problem(graph, demand, budget, StepTime.of(graph, hardware, measured))
    if hardware.energy is not None:
        problem = replace(problem, energy=EnergyModel(graph, hardware, mapping))
    if mapping.mapping == "sdk":
        problem = replace(problem, modes=ModeArrays(network, graph.stages, hardware))
    if hardware.chip is None:
        return problem
    tiles = Tiles.of(hardware.chip)
    if not hardware.chip.straddle:
        problem = replace(problem, tiles=tiles)
    return replace(problem, budget=min(budget, tiles.usable(demand[graph.weighted])))


def check_arrays(arrays: int) -> None:
    """Raise SpecError unless so many arrays can be asked for."""
    if isinstance(arrays, bool) or not 1 <= arrays <= MAX_ARRAYS:
        raise SpecError("arrays", f"must be from 1 to {MAX_ARRAYS}, got {brief(arrays)}")


def _check_chips(graph: StageGraph, hardware: Hardware, demand: npt.NDArray[np.int64]) -> None:
    """Raise BudgetError if one copy of every stage needs more arrays than the chips have."""
    chip, need = hardware.chip, int(demand.sum())
    if chip is not None and need > chip.arrays:
        layers = [(graph.names[stage], int(demand[stage])) for stage in graph.network_order]
        raise BudgetError(need, chip.arrays, layers, chip=chip.arrays_per_chip)


def _left_by_classifiers(
    graph: StageGraph, hardware: Hardware, mapping: MappingOptions, demand: npt.NDArray[np.int64], arrays: int
) -> int:
    """The budget of the stages: what [counting] leaves of the arrays. Raises BudgetError."""
    network = graph.network
    if hardware.counting is None:
        return arrays
    if (most := certain_arrays(network, hardware)) is not None:
        arrays = min(arrays, most)
    stored = stored_classifiers(network, graph.stages, hardware, mapping)
    need = int(demand.sum()) + sum(stored.values())
    if need > arrays:
        by_name = dict(zip(graph.names, demand.tolist(), strict=True)) | stored
        layers = [(stage.name, by_name[stage.name]) for stage in network.stages if stage.name in by_name]
        raise BudgetError(need, arrays, layers)
    return arrays - sum(stored.values())


def certain_arrays(network: Network, hardware: Hardware) -> int | None:
    """Arrays that are sure to find a place where tiles are filled first fit; None if all can be used."""
    widths = row_block_widths(network, hardware)
    if widths is None or hardware.chip is None:
        return None
    return Tiles(hardware.chip.tile_count, hardware.chip.arrays_per_tile).certain(set(widths.values()))


def propose(problem: Problem, request: Request, stop: Stop) -> Candidate:
    """What the method asked for comes to, made to fit; its makespan is not checked yet.

    Raises TargetError, SpecError, UnknownNameError, SolverError, UnsupportedError.
    """
    objective = objective_of(problem, request)
    if request.method == "auto" or not objective.by_methods:
        return objective.solve(stop, request.seed)
    method = method_named(request.method)
    if method.sees_digital:
        candidate = method.solve(problem, stop, request.seed)
    else:
        candidate = method.solve(problem.on_arrays, stop, request.seed)
        if problem.on_arrays is not problem:
            candidate = candidate.with_digital(problem.graph)
    in_steps = problem.one_block and problem.time_unit == "steps"
    if candidate.blocks is None and not in_steps:  # its bound is that of copies in equal steps
        candidate = replace(candidate, lower_bound=1)
    bound = root_bound(problem, stop, candidate.lower_bound)
    fitting = repair.fitting(problem, candidate.replication, candidate.blocks)
    if fitting is not candidate.replication:
        words = f"{candidate.proof}; repaired: copies taken away until the rest fits"
        candidate = replace(candidate, replication=fitting, proof=words, repaired=True)
    return replace(candidate, lower_bound=bound)


def objective_of(problem: Problem, request: Request) -> Objective:
    """What a request minimises over a problem."""
    if request.objective == "arrays":
        return FewestArrays(problem, request.target_steps, request.target_ns)
    return OBJECTIVES[request.objective](problem)


def checked_allocation(
    hardware: Hardware, arrays: int, problem: Problem, request: Request, stop: Stop, candidate: Candidate
) -> Allocation:
    """What a method proposes, re-timed and re-checked. Raises SolverError."""
    checked = check_candidate(problem, candidate, arrays, request.method)
    timing, graph = checked.timing, checked.problem.graph
    network = graph.network
    objective, absolute = objective_of(problem, request), Absolute.of(checked.problem.step_time, timing)
    value = objective.value_of(timing)
    bound = within(value, objective.bound(candidate, stop))
    recheck_bound(value, bound, objective.unit, request.method)
    coverage = Coverage.of(network, graph.names)
    metrics = checked.problem.metrics(timing)
    return Allocation(
        rramalloc_version=__version__,
        network=NetworkId.of(network),
        hardware=hardware,
        options=Options.gather(request.mapping, stop, request, latency_table=request.measured),
        objective=request.objective,
        objective_value=value,
        objective_unit=objective.unit,
        method=request.method,
        seed=request.seed,
        seconds=None if candidate.seconds is None else round(candidate.seconds, 6),
        arrays=Arrays(budget=arrays, used=checked.used, minimum=problem.minimum),
        makespan=timing.makespan,
        interval=timing.interval,
        lower_bound=bound,
        gap=gap_of(value, bound),
        proof=coverage.qualified(candidate.proof),
        **absolute._asdict(),
        **totals(metrics),
        layers=layers_of(
            timing,
            checked.demand.tolist(),
            checked.taken.tolist(),
            folds(network, graph.stages, hardware, request.mapping),
            hardware,
            metrics,
            in_blocks=problem.modes is not None,
        ),
        history=tuple(
            Progress(seconds=round(seconds, 6), makespan=best, lower_bound=bound)
            for seconds, best, bound in stop.history
        ),
        host=coverage.host,
        coverage=coverage,
        warnings=input_warnings(graph, hardware, request.mapping, arrays, request.measured),
    )


def hardware_warnings(hardware: Hardware, arrays: int) -> tuple[str, ...]:
    """What is assumed of the hardware, for a budget of `arrays`."""
    warnings = [*left_out(hardware)]
    if hardware.write is not None:
        warnings.append(
            f"hardware {hardware.name}: all weights are in the arrays from the start; what [write] says "
            f"counts with `optimize --reload` alone"
        )
    if hardware.unconfirmed:
        warnings.append(f"hardware {hardware.name}: not confirmed: {', '.join(hardware.unconfirmed)}")
    if hardware.chip is not None and arrays > hardware.chip.arrays:
        warnings.append(
            f"hardware {hardware.name}: the budget of {arrays} arrays is more than the "
            f"{hardware.chip.arrays} that its chips have; no more than those are used"
        )
    return tuple(warnings)


def input_warnings(
    graph: StageGraph,
    hardware: Hardware,
    mapping: MappingOptions,
    arrays: int,
    measured: MeasuredSteps | None,
) -> tuple[str, ...]:
    """What is assumed of network, hardware and measurement, and what [counting] takes of `arrays`."""
    network = graph.network
    warnings = [*network.warnings, *hardware_warnings(hardware, arrays)]
    warnings += () if measured is None else measured.warnings
    stored = stored_classifiers(network, graph.stages, hardware, mapping)
    if stored:
        warnings.append(
            f"hardware {hardware.name}: {sum(stored.values())} arrays of the budget are for layers left to "
            f"the host, which it stores all the same: {', '.join(stored)[:200]}"
        )
    most = certain_arrays(network, hardware)
    if most is not None and arrays > most:
        warnings.append(
            f"hardware {hardware.name}: no more than {most} arrays are used: so many find a place in its "
            f"tiles whatever the order in which they are filled"
        )
    return tuple(warnings)


def layers_of(
    timing: ExactTiming, demand: Sequence[int], taken: Sequence[int], sizes: Sequence[Pair] | None,
    hardware: Hardware, metrics: Metrics | None, *, in_blocks: bool, with_cycles: bool = False,
) -> tuple[Layer, ...]:  # fmt: skip
    """One row per stage in network order.

    demand: arrays of one copy, taken: of all copies, sizes: of folds if any; in canonical order;
    in_blocks: whether rows have blocks, and how full the arrays are with them.
    """
    graph = timing.graph
    bits = layer_bits(graph.stages, hardware)
    with_cycles = with_cycles or graph.clocks is not None
    terms = recurrence(graph, timing.replication, timing.handoff, timing.cycles)
    return tuple(
        Layer(
            name=graph.names[stage],
            windows=graph.network.shapes[graph.names[stage]].pixels,
            demand=int(demand[stage]),
            replication=int(timing.replication[stage]),
            arrays=int(taken[stage]),
            batches=int(timing.batches[stage]),
            normal_op=int(terms.normal_op[stage]),
            pre_op=int(terms.pre_op[stage]),
            tail=int(terms.tail[stage]),
            op=int(terms.op[stage]),
            start=int(timing.start[stage]),
            finish=int(timing.finish[stage]),
            fold=None if sizes is None else sizes[stage],
            block=graph.blocks[stage] if in_blocks else None,
            utilisation=utilisation(graph, stage, int(timing.replication[stage]), int(taken[stage]), hardware)
            if in_blocks and taken[stage]
            else None,
            **bits.get(graph.names[stage], {}),
            **(metrics.of_stage(stage) if metrics is not None and graph.weighted[stage] else {}),
            cycles=int(timing.cycles[stage]) if with_cycles else None,
        )
        for stage in graph.network_order
    )


def utilisation(graph: StageGraph, stage: int, copies: int, arrays: int, hardware: Hardware) -> float:
    """Share of the cells of a stage's arrays that hold weights, with copies of its block; 0 without any."""
    node, block = graph.stages[stage], graph.blocks[stage]
    if not isinstance(node, Stage):
        return 0.0
    unit = smallest_block(node)
    kernels = block[0] // unit[0] * (block[1] // unit[1])
    crossbar = hardware.crossbar
    cells = copies * kernels * WeightMatrix.of(graph.network, node, hardware).cells
    return cells / (arrays * crossbar.wordlines * crossbar.bitlines)


def utilisation_of_all(problem: Problem, candidate: Candidate, hardware: Hardware) -> float:
    """Share of the cells of all arrays in use that hold weights."""
    graph, copies = problem.in_blocks(candidate.blocks).graph, candidate.replication
    taken: list[int] = problem.arrays_of_stages(copies, graph.blocks).tolist()
    cells = [
        utilisation(graph, stage, int(copies[stage]), arrays, hardware) * arrays
        for stage, arrays in enumerate(taken)
    ]
    return sum(cells) / sum(taken)
