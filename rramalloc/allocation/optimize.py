"""`optimize`: the one call from a network and a budget to a checked allocation."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from rramalloc.allocation.allocation import (
    Allocation,
    Arrays,
    EdgeDelay,
    KindOfArrays,
    Layer,
    LayerModes,
    Options,
    Placed,
    Progress,
    layer_bits,
)
from rramalloc.allocation.allocation_input import AllocationInput
from rramalloc.allocation.case import Case
from rramalloc.allocation.check import CheckedTiming, check_answer, recheck_bound
from rramalloc.allocation.goes_with import takes
from rramalloc.allocation.layer_bits import BitTable
from rramalloc.allocation.question import Question
from rramalloc.allocation.remedies import chip_words, more_chips
from rramalloc.choices import MAX_ARRAYS, ObjectiveName
from rramalloc.errors import (
    BudgetError,
    CapacityError,
    LimitError,
    SolverError,
    SpecError,
    TargetError,
    UnsupportedError,
    exact,
)
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.demand import (
    WeightMatrix,
    folds,
)
from rramalloc.mapping.mode import LayerArray, Mode, array_of
from rramalloc.mapping.modes import BlockGrid, smallest_block
from rramalloc.methods.method import proposed
from rramalloc.network.coverage import Coverage, name_some
from rramalloc.network.geometry import Pair
from rramalloc.network.network import Network
from rramalloc.network.node import Stage, TimedNode
from rramalloc.search import repair
from rramalloc.search.limited import limited, lowest, with_limits
from rramalloc.search.links import WithLinks
from rramalloc.search.menu import unlimited
from rramalloc.search.objective import (
    OBJECTIVES,
    FewestArrays,
    Latency,
    Objective,
    RepeatedLatency,
    capped_bound,
    gap_of,
)
from rramalloc.search.problem import Answer, Choice, Problem
from rramalloc.search.target import Target
from rramalloc.search.work import Work
from rramalloc.status import Status, Stopped, status_of, stopped_by
from rramalloc.timing.access import Absolute
from rramalloc.timing.figures import totals
from rramalloc.timing.metrics import Metrics
from rramalloc.timing.recurrence import recurrence
from rramalloc.timing.simulate import ExactTiming, copies_by_name
from rramalloc.timing.stage_graph import StageGraph


def optimize(case: Case, arrays: int, request: Question, stop: Work) -> Allocation:
    """Return the best number of copies of every layer within a budget of `arrays`.

    Raises BudgetError, TargetError, SpecError, UnknownNameError; SolverError if a method's allocation
    does not survive the check.  Source: docs/sources/model.md.
    """
    notes = list[str]()
    if request.takes_part and request.start is not None:
        fitting, notes = fitting_start(case, arrays, request.start)
        request = replace(request, start=fitting)
    objective, answer = solved(case, arrays, request, stop)
    if case.bits is not None:
        return _of_chosen_bits(case, case.bits, arrays, objective, request, stop, answer)
    allocation = checked_allocation(case, arrays, objective, request, stop, answer)
    return allocation.model_copy(update={"warnings": (*allocation.warnings, *notes)}) if notes else allocation


def solved(case: Case, arrays: int, request: Question, stop: Work) -> tuple[Objective, Answer]:
    """Return the objective of a run and its answer, which is not checked yet. Raises as `optimize`."""
    if request.objective != "arrays":
        case.check_numbers(arrays)
    try:
        problem = case.problem(arrays)
    except BudgetError as error:
        hardware = case.hardware
        lacks = [] if hardware.write is not None else ["[write]"]
        lacks += [] if hardware.compute_ns is not None else ["[timing]"]
        may_reload = takes("reload", "--reload", case, request) and (error.chip or not lacks)
        error.reload = lacks if may_reload else None
        raise
    except LimitError as error:
        _advise_on_limit(error, case, arrays, request, stop)
        raise
    objective = question(problem, request)
    try:
        answer = _answer(objective, request, stop)
        if isinstance(objective, WithLinks) and request.method != "auto":
            answer = objective.no_worse(answer, stop)
    except TargetError as error:
        chip = case.hardware.chip
        error.chip = problem.budget if chip is not None and arrays >= chip.arrays else None
        _advise(error, case, arrays, request, stop)
        raise
    except LimitError as error:
        _advise_on_limit(error, case, arrays, request, stop)
        raise
    return objective, answer


def question(problem: Problem, request: Question) -> Objective:
    """Return the objective of a request over a problem that begins with its start. Raises SpecError."""
    if request.start is None:
        return objective_of(problem, request)
    start = start_choice(problem, request.start)
    held = problem.held._replace(start=(start.modes, start.copies))
    return objective_of(replace(problem, held=held), request)


def _answer(objective: Objective, request: Question, stop: Work) -> Answer:
    """Return the answer of the method asked for, no worse than the start if there is one; as `propose`."""
    if request.start is not None:
        return _from_start(objective, request.start, request, stop)
    return propose(objective, request, stop)


_MOST_TRIES = 4
"""Numbers of arrays that are tried, each a quarter larger than the one before."""


def _succeeds(case: Case, arrays: int, request: Question, stop: Work) -> bool:
    """Return True if a call finds an allocation: make the same search."""
    if stop.out_of_time:
        return False
    try:
        _answer(question(case.problem(arrays, advise=False), request), request, stop.nested(stop.work))
    except (BudgetError, CapacityError, LimitError, SpecError, TargetError):
        return False
    return True


def _enough(case: Case, need: int, request: Question, stop: Work) -> tuple[int, str] | None:
    """Return arrays, `need` or more, with which a call succeeds, and the remedy; None if none does."""
    chip = case.hardware.chip
    for _ in range(_MOST_TRIES):
        short = chip is not None and need > chip.arrays
        larger = more_chips(case.hardware, need, lambda _: True) if short else None
        if _succeeds(case if larger is None else case.on(larger), need, request, stop):
            chips = "" if larger is None else f"{chip_words(larger)} and "
            return need, f"{chips}--arrays {need}"
        need += 1 + need // 4
    return None


def _advise(error: TargetError, case: Case, arrays: int, request: Question, stop: Work) -> None:
    """Add to the error a remedy that was tried by the same call, or that no number of arrays helps.

    With the arrays and chips that are enough, or with a target that is reached within the budget.
    """
    reached = error.reached
    error.reached = None
    if reached is not None and request.target.given:  # else the target is a limit of --at-most
        easier = replace(request, target=request.target.changed_to(reached))
        if _succeeds(case, arrays, easier, stop):
            error.reached = easier.target.value
    if stop.out_of_time:
        return
    try:
        # Links are left out: what the chips of the case do not hold has no places on them.
        alone = replace(case, placed=False).with_stages(case.stages)
        everything = question(unlimited(alone.problem(MAX_ARRAYS)), request)
        found = _answer(everything, request, stop.nested(stop.work))
    except TargetError as nowhere:
        if not everything.problem.resources.beyond(everything.problem.budget):
            error.hopeless, error.limit, error.least = nowhere.proven, nowhere.limit, nowhere.bound
    except (LimitError, SpecError):  # --at-most or the start holds it back
        return
    else:
        enough = _enough(case, found.choice.used, request, stop)
        error.need, error.remedy = enough or (None, "")


def _advise_on_limit(error: LimitError, case: Case, arrays: int, request: Question, stop: Work) -> None:
    """Add to the error a limit that can be kept, and the arrays that keep this one; both were tried."""
    remedies = []
    for value in dict.fromkeys((float(f"{error.least:.10g}"), error.least)):  # in few digits if they do
        higher = replace(case, at_most={**case.at_most, error.quantity: value}).with_stages(case.stages)
        if _succeeds(higher, arrays, request, stop):
            remedies.append(f"--at-most {error.quantity}={exact(value)}")
            break
    if error.quantity in ("latency_ns", "interval_ns") and not stop.out_of_time:
        others = {name: limit for name, limit in case.at_most.items() if name != error.quantity}
        target = Target(target_interval_ns=error.limit)
        if error.quantity == "latency_ns":
            target = Target(target_ns=error.limit)
        fewest = Question(objective="arrays", seed=request.seed, target=target)
        with contextlib.suppress(LimitError, SpecError, TargetError):
            alone = replace(case, at_most=others, placed=False).with_stages(case.stages)
            wide = alone.problem(MAX_ARRAYS)
            found = _answer(question(unlimited(wide), fewest), fewest, stop.nested(stop.work))
            if (enough := _enough(case, found.choice.used, request, stop)) is not None:
                remedies.append(enough[1])
    error.remedies = remedies


def _from_start(objective: Objective, given: AllocationInput, request: Question, stop: Work) -> Answer:
    """Return an answer that is no worse than the start of the request; without work, the start itself."""
    problem = objective.problem
    if problem.held.start is None:
        raise AssertionError("the problem begins with the start of the request")
    modes, copies = problem.held.start
    start = problem.choice(copies, modes)
    met = objective.allows(start)

    def alone() -> Answer:
        words = "the start as it is, against a bound that takes no search"
        return Answer(start, objective.bound(1, stop.nested(1)), words, stopped=stop.cut)

    if stop.work == 0:
        if not met:
            raise SpecError(given.where, "start: it misses the target; --work 0 looks no further")
        return alone()
    try:
        answer = propose(objective, request, stop)
    except (TargetError, LimitError) as error:
        if not met or error.proven:
            raise
        return alone()

    def rank(found: Choice) -> tuple[float, float, int]:
        """Return (value, tie, arrays), by which allocations are ranked."""
        return objective.value(found), objective.tie(found), found.arrays

    if met and rank(start) < rank(answer.choice):
        return replace(answer, choice=start, stopped=stop.cut)
    return answer


def fitting_start(case: Case, arrays: int, given: AllocationInput) -> tuple[AllocationInput, list[str]]:
    """Return the layers of an allocation that fit, all others with the fewest copies, and notes on these.

    Raises as `Case.problem`.
    """
    problem = case.problem(arrays)
    graph = problem.graph
    copies = dict[str, int]()
    blocks = dict[str, Pair]()
    anew = list[str]()
    for stage in np.flatnonzero(graph.weighted).tolist():
        name = graph.names[stage]
        copies[name] = int(problem.smallest[stage])
        block = given.blocks.get(name, graph.blocks[stage])
        if name in given.copies and _may_have(problem, stage, given.copies[name], block):
            copies[name] = given.copies[name]
            blocks[name] = block
        else:
            anew.append(name)
    unknown = [name for name in given.copies if name not in graph.names]
    notes = [
        f"start: {words}: {name_some(names)}"
        for words, names in (("begin with the fewest copies", anew), ("not in this network", unknown))
        if names
    ]
    blocks = {name: block for name, block in blocks.items() if problem.chooses_blocks}
    return replace(given, copies=copies, blocks=blocks, cycles={}), notes


def _may_have(problem: Problem, stage: int, copies: int, block: Pair) -> bool:
    """Return True if a stage may have `copies` copies, each of which computes a block of windows."""
    graph = problem.graph
    if block != graph.blocks[stage] and not problem.chooses_blocks:
        return False
    node = graph.stages[stage]
    try:
        windows = BlockGrid.of(node, graph.network.shapes[node.name], block).total
    except SpecError:
        return False
    most = min(windows, int(graph.most_copies[stage])) if block == graph.blocks[stage] else windows
    if problem.held.most is not None:
        most = min(most, int(problem.held.most[stage]))
    is_divisor = problem.divided(stage, Mode(*block)) % copies == 0
    return int(problem.smallest[stage]) <= copies <= most and is_divisor


def start_choice(problem: Problem, given: AllocationInput) -> Choice:
    """Return an allocation to begin with, by layer name.

    Raises SpecError for layers that are missing or unknown, and outside of budget or limits.
    """
    graph, where = problem.graph, given.where
    on_arrays = [name for name, weighted in zip(graph.names, graph.weighted, strict=True) if weighted]
    missing = [name for name in on_arrays if name not in given.copies]
    if missing:
        words = f"start: says nothing of {len(missing)} layers on arrays: {', '.join(missing)[:200]}"
        raise SpecError(where, f"{words}; give the copies of each, or optimize without --start")
    hardware = problem.storage.hardware
    modes = given.modes(graph, None if hardware is None else hardware.kinds)
    blocks = tuple(mode.block for mode in modes)
    if blocks != graph.blocks and not problem.chooses_blocks:
        raise SpecError(where, "start: its copies compute blocks of windows: use --mapping sdk")
    copies = copies_by_name(graph.in_blocks(blocks), given.copies, where)
    for stage, name in enumerate(graph.names):
        low, divided = int(problem.smallest[stage]), problem.divided(stage, modes[stage])
        if divided % int(copies[stage]):
            words = f"{name[:60]!r} has {copies[stage]} copies, --copies-divide wants divisors of {divided}"
            raise SpecError(where, f"start: {words}")
        high = None if problem.held.most is None else int(problem.held.most[stage])
        if copies[stage] < low or (high is not None and copies[stage] > high):
            wanted = f"{low}..{'' if high is None else high}"
            raise SpecError(where, f"start: {name[:60]!r} has {copies[stage]} copies, --copies says {wanted}")
    choice = problem.choice(copies, modes)
    if hardware is not None and hardware.kinds is not None and not problem.holds(copies, modes):
        words = "start: takes more arrays than the kinds have, or more area than --at-most allows"
        raise SpecError(where, f"{words}: raise them, or begin with a smaller one")
    if choice.arrays > problem.budget:
        taken = problem.arrays_of_stages(copies, choice.modes)
        most = graph.names[int(taken.argmax())]
        raise SpecError(
            where,
            f"start: takes {choice.arrays} arrays, the budget is {problem.budget}; {most[:60]!r} takes most, "
            f"{int(taken.max())}: use --arrays {choice.arrays}, or begin with a smaller one",
        )
    if problem.excess(choice):
        raise SpecError(where, "start: breaks a limit of --at-most: raise it, or begin with another one")
    return choice


def _of_chosen_bits(
    case: Case,
    table: BitTable,
    arrays: int,
    objective: Objective,
    request: Question,
    stop: Work,
    answer: Answer,
) -> Allocation:
    """Return the allocation of the network with the bits that an answer chose, checked as such.

    Its bound is of all choices of bits. Raises SolverError.
    """
    problem, modes = answer.choice.problem, answer.choice.modes
    pairs = zip(problem.graph.names, modes, strict=True)
    bits = {name: (mode.weight_bits, mode.input_bits) for name, mode in pairs if mode.weight_bits}
    chosen = case.with_bits(bits)
    fixed = chosen.problem(arrays)
    own_objective, bound = objective_of(fixed, request), answer.lower_bound
    if objective.unit != own_objective.unit and fixed.step_time is not None:
        bound /= fixed.step_time.compute_ns  # with given bits all steps are equal
    choice = fixed.choice(answer.choice.copies, tuple(Mode(*mode.block, kind=mode.kind) for mode in modes))
    allocation = checked_allocation(
        chosen,
        arrays,
        own_objective,
        request,
        stop,
        replace(answer, choice=choice, lower_bound=bound),
    )
    every = {stage.name: (stage.weight_bits or 0, stage.input_bits or 0) for stage in chosen.network.stages}
    limit = None if math.isinf(table.limit) else table.limit
    options = allocation.options.model_copy(update={"bits": table.choices, "sensitivity": limit})
    return allocation.model_copy(update={"sensitivity": table.sum_of(every), "options": options})


def propose(objective: Objective, request: Question, stop: Work) -> Answer:
    """Return the answer of the method asked for, made to fit, with a bound of the objective; not checked yet.

    Raises TargetError, SpecError, UnknownNameError, SolverError, UnsupportedError.
    """
    problem = objective.problem
    if request.method == "auto":
        return replace(objective.solve(stop, request.seed), stopped=stop.cut)
    answer = proposed(request.way, problem, stop, request.seed)
    choice = answer.choice
    _check_limits(problem, choice, request.method)
    in_steps = problem.one_block and problem.time_unit == "steps"
    # The bound of a method that knows one block is that of copies in equal steps.
    known = int(answer.lower_bound) if in_steps or choice.modes != problem.graph.modes else 1
    fitting = repair.fitting(problem, choice.copies, choice.modes)
    if fitting is not choice.copies:
        words = f"{answer.proof}; repaired: copies taken away until the rest fits"
        choice = problem.choice(fitting, choice.modes)
        _check_limits(problem, choice, request.method)
        answer = replace(answer, choice=choice, proof=words, repaired=True)
    if not objective.allows(choice):
        words = "does not keep to the limits of --at-most: raise them, or use --method auto"
        raise UnsupportedError(f"method {request.method!r}", words)
    return replace(answer, lower_bound=objective.bound(known, stop))


def _check_limits(problem: Problem, choice: Choice, method: str) -> None:
    """Raise UnsupportedError if a method gives copies that are not allowed."""
    if not problem.keeps_limits(choice.copies, choice.modes):
        limits = "--copies, --copies-divide or --at-most"
        words = f"does not keep to the limits of {limits}: leave them out, or use --method auto"
        raise UnsupportedError(f"method {method!r}", words)


def objective_of(problem: Problem, request: Question) -> Objective:
    """Return the objective of a request over a problem, under its limits. Raises SpecError."""
    if problem.placer is not None:
        return WithLinks(problem, partial(objective_of, request=request))
    objective: Objective
    sequences = problem.graph.network.sequences
    if sequences is not None:
        if request.inputs > 1:
            return limited(RepeatedLatency(problem, request.inputs))
        asked: ObjectiveName = "latency" if request.objective == "interval" else request.objective
        if sequences > 1 and request.target.is_of_interval:  # else the latency is the interval
            limits = lowest(problem.limits.at_most or {}, request.target.limits)
            problem = with_limits(problem, limits)
        request = replace(request, objective=asked, target=request.target.of_latency(sequences))
    match request.objective:
        case "arrays":
            objective = FewestArrays(problem, request.target)
        case "latency":
            objective = Latency(problem, request.inputs)
        case name:
            objective = OBJECTIVES[name](problem)
    return limited(objective)


class CheckedAnswer(NamedTuple):
    """An answer that was simulated again, with its objective, what is proven of it, and its sums.

    gap, status, stopped, proof say the same of value and lower_bound; coverage: what the proof is about.
    """

    checked: CheckedTiming
    value: float
    lower_bound: float
    gap: float
    status: Status
    stopped: Stopped
    proof: str
    coverage: Coverage
    absolute: Absolute
    metrics: Metrics | None


def checked_answer(
    objective: Objective, answer: Answer, arrays: int, method: str, stop: Work
) -> CheckedAnswer:
    """Return an answer that keeps to budget and limits, with a bound that holds. Raises SolverError."""
    problem = objective.problem
    checked = check_answer(problem, answer, arrays, method)
    timing, graph = checked.timing, checked.problem.graph
    value = objective.value_of(timing)
    if checked.problem.excess(checked.problem.choice(timing.copies, graph.modes, timing.makespan)):
        raise SolverError(f"{method} gave an allocation that breaks a limit: please report")
    bound = capped_bound(value, answer.lower_bound)
    recheck_bound(value, bound, objective.unit, method)
    gap, hardware = gap_of(value, bound), problem.storage.hardware
    units = () if hardware is None else on_units(hardware, graph)
    coverage = Coverage.of(graph.network, graph.names, units)
    return CheckedAnswer(
        checked,
        value,
        bound,
        gap,
        status_of(gap, bound),
        stopped_by(gap, answer.stopped, stop.gap),
        coverage.qualified(answer.proof),
        coverage,
        Absolute.of(checked.problem.step_time, timing),
        checked.problem.metrics(timing),
    )


def checked_allocation(
    case: Case,
    arrays: int,
    objective: Objective,
    request: Question,
    stop: Work,
    answer: Answer,
) -> Allocation:
    """Return the allocation of an answer to an objective, re-timed and re-checked. Raises SolverError.

    stop: what was charged to it is the work of the allocation.
    """
    problem, counted_s = objective.problem, stop.counted_s
    found = checked_answer(objective, answer, arrays, request.method, stop)
    checked, absolute, metrics = found.checked, found.absolute, found.metrics
    timing, graph = checked.timing, checked.problem.graph
    network, hardware = graph.network, case.hardware
    return Allocation(
        **case.about(units=on_units(hardware, graph)),
        options=Options.gather(
            stop,
            request.target,
            **case.options,
            inputs=request.inputs if request.inputs > 1 else None,
            start=None if request.start is None else request.start.bare,
        ),
        objective=request.objective,
        objective_value=found.value,
        objective_unit=objective.unit,
        method=request.method,
        seed=request.seed,
        work_s=None if counted_s is None else round(counted_s, 6),
        arrays=arrays_in_result(case, arrays, problem, checked),
        makespan=timing.makespan,
        interval=timing.interval,
        lower_bound=found.lower_bound,
        gap=found.gap,
        proof=found.proof,
        status=found.status,
        stopped=found.stopped,
        **absolute._asdict(),
        **totals(metrics, absolute, graph),
        layers=layers_in_result(
            timing,
            checked.demand.tolist(),
            checked.taken.tolist(),
            folds(network, graph.stages, hardware, case.mapping),
            hardware,
            metrics,
            in_blocks=problem.chooses_blocks,
        ),
        history=tuple(
            Progress(work_s=round(work_s, 6), makespan=best, lower_bound=bound)
            for work_s, best, bound in stop.history
        ),
        host=found.coverage.host,
        **placed_in_result(problem, answer.choice),
        warnings=case.warnings(arrays),
    )


def placed_in_result(problem: Problem, choice: Choice) -> dict[str, Any]:
    """Return the transfers of an allocation and the places that they follow from; empty without links."""
    if problem.placer is None:
        return {}
    found = problem.placer.placed(problem.choice(choice.copies, choice.modes))
    graph = found.choice.problem.graph
    delays = [
        EdgeDelay(producer=graph.names[p], consumer=graph.names[c], ticks=ticks)
        for (p, c), ticks in graph.lags.items()
    ]
    placed = Placed(
        rounds=problem.placer.placed_count,
        converged=found.is_hidden,
        transfer_ns=found.transfer_ns,
        delays=tuple(delays) or None,
    )
    return {"placed": placed, "places": found.places}


def arrays_in_result(case: Case, arrays: int, problem: Problem, checked: CheckedTiming) -> Arrays:
    """Return the arrays that are allowed, used and needed, in total and of every kind."""
    kinds = case.hardware.kinds
    if kinds is None:
        return Arrays(budget=arrays, used=checked.used, minimum=problem.minimum)
    used = checked.by_kind or {}
    by_kind = {kind.name: KindOfArrays(budget=kind.arrays, used=used[kind.name]) for kind in kinds}
    most = min(arrays, sum(kind.arrays or MAX_ARRAYS for kind in kinds))
    budget = None if most >= MAX_ARRAYS else most
    return Arrays(budget=budget, used=checked.used, minimum=None, by_kind=by_kind)


def kind_of(hardware: Hardware, mode: Mode) -> str | None:
    """Return the name of the kind of arrays of a mode, None where there is one kind."""
    return None if hardware.kinds is None else hardware.kinds[mode.kind].name


def on_units(hardware: Hardware, graph: StageGraph) -> list[str]:
    """Return the names of the layers whose modes are on digital units."""
    every = zip(graph.names, graph.modes, graph.weighted.tolist(), strict=True)
    processors = [of_kind.processor for of_kind in hardware.each_kind]
    return [name for name, mode, weighted in every if weighted and processors[mode.kind] is not None]


def on_units_of(hardware: Hardware, rows: Iterable[LayerModes]) -> set[str]:
    """Return the names of the layers that are on digital units in some of these rows."""
    units = {kind.name for kind in hardware.kinds or () if kind.processor is not None}
    return {layer for row in rows for layer, kind in (row.kind or {}).items() if kind in units}


def layers_in_result(
    timing: ExactTiming,
    demand: Sequence[int],
    taken: Sequence[int],
    sizes: Sequence[Pair] | None,
    hardware: Hardware,
    metrics: Metrics | None,
    *,
    in_blocks: bool,
    with_cycles: bool = False,
) -> tuple[Layer, ...]:
    """Return a row for each stage in network order.

    demand: arrays of one copy, taken: of all copies, sizes: of folds if any; in canonical order;
    in_blocks: whether rows have blocks, and how full the arrays are with them.
    """
    graph = timing.graph
    bits, modes = layer_bits(graph.stages, hardware), graph.modes
    with_cycles = with_cycles or graph.unit == "ticks"
    terms = recurrence(graph, timing.copies, timing.handoff, timing.cycles)
    return tuple(
        Layer(
            name=graph.names[stage],
            windows=graph.network.shapes[graph.names[stage]].pixels,
            arrays_per_copy=demand[stage],
            copies=copies,
            arrays=taken[stage],
            batches=int(timing.batches[stage]),
            normal_op=int(terms.normal_op[stage]),
            pre_op=int(terms.pre_op[stage]),
            tail=int(terms.tail[stage]),
            op=int(terms.op[stage]),
            start=int(timing.start[stage]),
            finish=int(timing.finish[stage]),
            fold=None if sizes is None else sizes[stage],
            block=graph.blocks[stage] if in_blocks else None,
            utilisation=utilisation(
                graph.network,
                graph.stages[stage],
                graph.blocks[stage],
                copies,
                taken[stage],
                array_of(hardware, graph.stages[stage], modes[stage]),
            )
            if in_blocks and taken[stage]
            else None,
            **bits.get(graph.names[stage], {}),
            kind=kind_of(hardware, modes[stage]) if graph.weighted[stage] else None,
            **(metrics.of_stage(stage) if metrics is not None and graph.weighted[stage] else {}),
            cycles=int(timing.cycles[stage]) if with_cycles else None,
        )
        for stage, copies in ((stage, int(timing.copies[stage])) for stage in graph.network_order)
    )


def utilisation(
    network: Network, stage: TimedNode, block: Pair, copies: int, arrays: int, own: LayerArray
) -> float:
    """Share of the cells of a stage's arrays that hold weights, with copies of a block; 0 without any."""
    if not isinstance(stage, Stage) or own.processor is not None:
        return 0.0
    unit, crossbar = smallest_block(stage), own.crossbar
    kernels = block[0] // unit[0] * (block[1] // unit[1])
    cells = copies * kernels * WeightMatrix.of(network, stage, own).cells
    return cells / (arrays * crossbar.wordlines * crossbar.bitlines)


def utilisation_of_all(problem: Problem, choice: Choice, hardware: Hardware) -> float:
    """Share of the cells of all arrays in use that hold weights."""
    graph, copies = problem.in_modes(choice.modes).graph, choice.copies.tolist()
    taken: list[int] = problem.storage.taken(graph.modes, choice.copies).tolist()
    shares = [
        utilisation(graph.network, stage, mode.block, count, arrays, array_of(hardware, stage, mode)) * arrays
        for stage, mode, count, arrays in zip(graph.stages, graph.modes, copies, taken, strict=True)
        if arrays
    ]
    return sum(shares) / sum(taken)
