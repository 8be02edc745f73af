"""`optimize --reload`: networks larger than the chip, in segments (docs/sources/model.md 13)."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Unpack

import numpy as np

from rramalloc.allocation.allocation import Arrays, Options
from rramalloc.allocation.budgets import MOST_INPUTS
from rramalloc.allocation.case import ArraysLike, Case, check_arrays, hardware_warnings, searched
from rramalloc.allocation.case_arguments import SearchArguments
from rramalloc.allocation.goes_with import check_command
from rramalloc.allocation.optimize import checked_allocation, objective_of
from rramalloc.allocation.question import Question
from rramalloc.commands.reload.cut_layers import cut_to_fit
from rramalloc.commands.reload.cut_search import CutSearch, SegmentBounds, shortest
from rramalloc.commands.reload.plan import OtherCuts, ReloadPlan, Segment
from rramalloc.commands.reload.writing import written_rows
from rramalloc.errors import SolverError, SpecError, UnsupportedError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.tables import Write
from rramalloc.importers import NetworkLike
from rramalloc.mapping.demand import least_arrays
from rramalloc.network.network import NetworkDocument
from rramalloc.progress import followed, of_search
from rramalloc.records import check_range
from rramalloc.search.objective import gap_of
from rramalloc.search.work import REASONS, Progress, Work
from rramalloc.status import Stopped
from rramalloc.timing.metrics import EnergyModel
from rramalloc.units import counted

MOST_CUT_STAGES = 2000
"""Stages that are cut into segments: bounds the memory for all pairs of a first and a last stage."""
_EQUAL = 1e-8  # part of a time below which two are the same but for rounding


def optimize_reload(
    network: NetworkLike,
    arrays: ArraysLike | None = None,
    *,
    inputs: int = 1,
    gap: float = 0.0,
    on_progress: Progress | None = None,
    progress: bool = True,
    stop: Work | None = None,
    **given: Unpack[SearchArguments],
) -> ReloadPlan:
    """Write and run a network in segments of layers, with the cuts and copies that take the least time.

    The hardware has [write] and [timing]; fold, limits and a latency table are refused.

    Parameters
    ----------
    network
        A Network, a file, or the name of a shipped network.
    arrays
        Crossbar arrays that there are: a number, "x0.5" for half of what the whole network needs, the numbers
        of kinds, or None for all that `hardware` has.
    inputs
        Inputs that run through a segment each time it is written.
    gap
        Relative distance from the bound that is good enough.
    on_progress
        Called with (best, bound) whenever one of them improves.
    progress
        Show a line in a notebook.
    stop
        Replaces work, time_limit_s, gap, on_progress and progress.

    Returns
    -------
    ReloadPlan
        Its time is from the best cuts found, its bound of all cuts of the layers in this order.

    Raises
    ------
    RramallocError
        SpecError, UnsupportedError, FileError; BudgetError if a layer does not fit; SolverError if an
        allocation does not survive the check.

    References
    ----------
    docs/sources/model.md 13.
    """
    seed, limits = searched(given)
    check_range("gap", gap, 0, 1)
    check_range("inputs", inputs, 1, MOST_INPUTS)
    case = Case.of(network, given)
    check_command("reload", "--reload", case)
    sequences = case.network.sequences
    if sequences is not None and inputs > sequences:
        words = f"must be at most the {counted(sequences, 'sequence')} that take turns, got {inputs}"
        raise SpecError("inputs", f"{words}: the next input of each needs its last output")
    source, options = case.network.in_turns(False, None), case.mapping
    case, budget = replace(case, network=source).with_numbers(arrays)
    machine, write = case.hardware, _checked(case)
    check_arrays(budget)
    case.check_numbers(budget)
    with followed(on_progress, progress and stop is None, of_search) as callback:
        ending = stop or replace(limits, gap=gap, on_progress=callback)
        graph = case.graph
        if len(graph.stages) > MOST_CUT_STAGES:
            raise UnsupportedError(
                source.where,
                f"has {len(graph.stages)} layers to be cut into segments, the limit is {MOST_CUT_STAGES}: "
                f"allocate parts of it one by one",
            )
        most = [kind.arrays or budget for kind in machine.kinds or ()] or [*machine.chip_arrays, budget][:1]
        together = [min(budget, number) for number in most]
        there = together[0] if machine.kinds is None else budget
        if machine.own_tiles is not None:
            each = zip(together, machine.arrays_per_tile, strict=True)
            together = [arrays // of_tile * of_tile for arrays, of_tile in each]
        engines = list(zip(machine.each_kind, together, strict=True))
        cut = cut_to_fit(source, {layer.name for layer in graph.layers}, engines, options)
        plain = machine.without_write  # what [write] says is used here
        named, request = options.naming(source), Question(seed=seed)
        of_network = replace(case, network=cut.network, hardware=plain, mapping=named)
        if not cut.parts:
            of_network = of_network.with_stages(case.stages)
        search = CutSearch(of_network, write, there, request, ending, inputs)
        if options.mapping == "sdk":
            copies = replace(of_network, mapping=named.changed(mapping="im2col")).with_stages(
                of_network.stages
            )
            search.alone = CutSearch(copies, write, there, request, ending.nested(ending.work), inputs)
            search.alone.run()
        search.run()
        return _plan(case, budget, cut.parts, search)


def _checked(case: Case) -> Write:
    """Return the hardware's [write]. Raises SpecError for options that segments cannot have."""
    hardware = case.hardware
    where = f"hardware {hardware.name[:60]!r}"
    if hardware.write is None:
        raise SpecError(where, "--reload needs the time to write weights: write_ns_per_row in [write]")
    if any(own.compute_ns is None for own in hardware.each_kind):
        raise SpecError(where, "--reload needs the time of a step in [timing]: writing takes ns, not steps")
    return hardware.write


def _plan(case: Case, given: int, parts: dict[str, int], search: CutSearch) -> ReloadPlan:
    """Return the best plan, every allocation of which is checked and timed anew.

    case: of the network before layers were cut into parts.
    """
    network, hardware = case.network, case.hardware
    segments, rows = [], 0
    best, bound_ns = shortest(search.values), shortest(search.bounds).ns
    is_proven = best.ns - bound_ns <= _EQUAL * best.ns
    stopped = search.stop.stopped(0.0 if is_proven else gap_of(best.ns, bound_ns))
    for cut in best.cuts:
        segment, written = _segment(search, cut, stopped)
        segments.append(segment)
        rows += written
    total_ns = sum(segment.time_ns for segment in segments)
    if abs(total_ns - best.ns) > _EQUAL * total_ns:
        raise SolverError(f"the search counts {best.ns} ns, the plan takes {total_ns}; please report")
    bound_ns = total_ns if is_proven else bound_ns
    each = [segment.allocation for segment in segments]
    units = [name for own in each if own.coverage is not None for name in own.coverage.digital]
    # A cut layer is on digital units if all its parts are.
    units += [
        name
        for name, number in parts.items()
        if sum(part.startswith(f"{name}/part") for part in units) == number
    ]
    about = case.about(writing=True, units=units)
    by_kind = {
        name: of_kind.model_copy(update={"used": max((own.arrays.by_kind or {})[name].used for own in each)})
        for name, of_kind in (each[0].arrays.by_kind or {}).items()
    }
    need = None if by_kind else least_arrays(network, case.graph.stages, hardware, case.mapping)
    budget = each[0].arrays.budget if by_kind else given
    others: list[tuple[Literal["greedy", "layers"], list[SegmentBounds]]] = [
        ("greedy", search.greedy), ("layers", search.layers),
    ]  # fmt: skip
    return ReloadPlan(
        **about,
        options=Options.gather(search.stop, search.request.target, **case.options),
        inputs=search.inputs,
        seed=search.request.seed,
        work_s=round(search.counted_s, 6),
        arrays=Arrays(
            budget=budget,
            used=max(own.arrays.used for own in each),
            minimum=need,
            by_kind=by_kind or None,
        ),
        total_ns=total_ns,
        per_input_ns=total_ns / search.inputs,
        throughput_per_s=1e9 * search.inputs / total_ns,
        lower_bound=bound_ns,
        gap=gap_of(total_ns, bound_ns),
        proof=about["coverage"].qualified(_proof(search, stopped, parts)),
        stopped=stopped,
        write_ns=sum(segment.write_ns for segment in segments),
        segments=tuple(segments),
        cut_layers=parts,
        other_cuts=tuple(
            OtherCuts(
                cuts=name, segments=len(cuts), total_ns=search.total_ns(cuts),
                ratio=search.total_ns(cuts) / total_ns,
            )
            for name, cuts in others
            if all(cut in search.searched for cut in cuts)
        ),
        **_energy(hardware, search, segments, rows),
        host=case.coverage.host,
        warnings=(
            *network.warnings,
            *case.mapping.host_notes(network),
            *hardware_warnings(search.case.hardware, given),
        ),
    )  # fmt: skip


def _segment(search: CutSearch, cut: SegmentBounds, stopped: Stopped) -> tuple[Segment, int]:
    """Return a segment of the plan, and the wordlines that it writes; stopped: why the search ended."""
    searched, names = search.searched[cut], search.graph.names
    problem, objective = searched.objective.problem, searched.objective
    part = problem.graph.network
    of_segment = replace(search.case, network=part, mapping=search.case.mapping.of_part(part))
    of_segment = of_segment.with_stages(problem.graph)
    own_stop, latency = search.stop.nested(search.stop.work), objective_of(problem, search.request)
    plain = replace(
        searched.answer,
        lower_bound=latency.bound(1, own_stop),
        proof="bounded: chosen for the time of writing and running, not for its latency",
    )
    plain = replace(plain, stopped=stopped)
    allocation = checked_allocation(of_segment, search.arrays, latency, search.request, own_stop, plain)
    timing = problem.timing(searched.answer.choice)
    if (timing.makespan, timing.interval) != (allocation.makespan, allocation.interval):
        raise SolverError("two simulations of a segment disagree; please report this network")
    written = objective.writing.wordlines(timing.graph.modes, timing.copies)
    write_ns, run_ns = (
        objective.writing.ns(written),
        objective.run_ns(problem.choice(timing.copies, timing.graph.modes, timing.makespan)),
    )
    segment = Segment(
        first=names[cut[0]],
        last=names[cut[1] - 1],
        stages=cut[1] - cut[0],
        arrays=allocation.arrays.used,
        makespan=allocation.makespan,
        interval=allocation.interval,
        write_ns=write_ns,
        run_ns=run_ns,
        time_ns=write_ns + run_ns,
        lower_bound=searched.bound_ns,
        network=NetworkDocument.model_validate_json(json.dumps(problem.graph.network.to_dict())),
        allocation=allocation,
    )
    return segment, written_rows(written)


def _proof(search: CutSearch, stopped: Stopped, parts: dict[str, int]) -> str:
    """Return the proof of the bound in words, and the reason why the search ended."""
    fixed = ", with the parts of cut layers as they are" if parts else ""
    searched, every = len(search.searched), sum(map(len, search.bounds))
    return (
        f"{REASONS[stopped]}: dynamic programming over all cuts of the "
        f"layers in this order{fixed}, {searched} of {every} segments searched"
    )


def _energy(
    hardware: Hardware, search: CutSearch, segments: Sequence[Segment], rows: int
) -> dict[str, float | None]:
    """Return the energy for one input in the mean by the names of its fields, what is not given None."""
    write_pj, inputs = search.write.write_pj, search.inputs
    model = EnergyModel(search.graph, hardware, search.case.mapping)
    ends = [end for _, end in shortest(search.values).cuts]
    moved_pj = model.crossing_bytes(ends) * (model.energy.pj_per_byte or 0.0)
    parts = [segment.allocation.dynamic_pj for segment in segments]
    given = [part for part in parts if part is not None]
    dynamic = math.fsum([*given, moved_pj]) if len(given) == len(parts) else None
    writing = None if write_pj is None else rows * write_pj / inputs
    static = None
    if model.leakage_mw is not None:
        used = [segment.allocation.arrays for segment in segments]
        of_kinds = np.array(
            [[own.used for own in each.by_kind.values()] if each.by_kind else [each.used] for each in used]
        )
        if model.energy.idle != "gated":
            of_kinds[:] = of_kinds.max(axis=0)
        leaking = [
            math.fsum(
                model.leaking_arrays(arrays, kind) * segment.time_ns
                for arrays, segment in zip(column.tolist(), segments, strict=True)
            )
            for kind, column in enumerate(of_kinds.T)
        ]
        static = sum(map(operator.mul, model.leakage_mw, leaking)) / inputs
    every = None
    if dynamic is not None and writing is not None and static is not None:
        every = dynamic + writing + static
    return {"dynamic_pj": dynamic, "write_pj": writing, "static_pj": static, "energy_pj": every}
