"""`explain`: the bottlenecks of an allocation, its neighbours on the front, and gains from other hardware."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Unpack

from rramalloc.allocation.allocation import CaseOptions
from rramalloc.allocation.allocation_input import AllocationLike, read_case
from rramalloc.allocation.case_arguments import AllocationArguments
from rramalloc.allocation.goes_with import check_command, check_option
from rramalloc.allocation.limits import copy_limits
from rramalloc.allocation.optimize import on_units
from rramalloc.allocation.question import Question
from rramalloc.api import optimize
from rramalloc.choices import (
    DEFAULT_WORK,
    AtMostLike,
    CopiesLike,
    Divided,
    ExplainedObjective,
    shown_by,
)
from rramalloc.commands.explain.explanation import Explanation
from rramalloc.commands.explain.neighbours import Neighbours
from rramalloc.commands.explain.step_parts import slowest_layer, step_layers
from rramalloc.commands.explain.what_if import ChangesLike, WhatIfs
from rramalloc.errors import SpecError
from rramalloc.hardware.tables import CrossbarLike
from rramalloc.importers import NetworkLike, network_of
from rramalloc.records import check_effort, check_known, check_range
from rramalloc.search.work import Tell, Work
from rramalloc.timing.access import Absolute
from rramalloc.timing.critical_path import critical_path, path_words
from rramalloc.timing.latency_table import LatencyTableLike

_FIRST_SHARE = 0.5  # of a limit of time, for the search of the allocation that is explained
_AT_MOST = "the points beside it, and what faster takes, need not keep to what --at-most limits"
_PLACED_AGAIN = "its file does not keep the places of its copies: for changes of links they are placed again"


def explain(
    network: NetworkLike,
    arrays: int | str | None = None,
    *,
    allocation: AllocationLike | None = None,
    speedup: float | None = None,
    what_if: ChangesLike | None = None,
    objective: ExplainedObjective | None = None,
    crossbar: CrossbarLike | None = None,
    fold: bool | None = None,
    latency_table: LatencyTableLike | None = None,
    copies: CopiesLike | None = None,
    copies_divide: Divided | None = None,
    at_most: AtMostLike | None = None,
    placed: bool = False,
    seed: int = 0,
    work: int = DEFAULT_WORK,
    time_limit_s: float | None = None,
    on_progress: Tell | None = None,
    stop: Work | None = None,
    **given: Unpack[AllocationArguments],
) -> Explanation:
    """Say what holds an allocation back, which points of the front are next to it, and what faster takes.

    Parameters
    ----------
    network
        A Network, a file, or the name of a shipped network.
    arrays
        A budget, for which an allocation is searched: a number, or "x2" for twice the minimum.
    allocation
        Instead of it an Allocation, its file, or copies by name. Its hardware, mapping, fc, fold, latency
        table, limits of copies and objective hold unless they are given.
    speedup
        A factor, for which the fewest arrays and the cheapest change of the hardware are searched.
    what_if
        Changes of the hardware, each a text as of --set or a dict of values; None for a list of fields, ()
        for none.
    objective
        What faster means: "latency" or "interval".
    crossbar
        Wordlines and bitlines of an array, "256x256" or (256, 256), instead of the hardware's.
    fold
        Whether filters are folded, with mapping "kernel_split".
    latency_table
        Measured step times: a LatencyTable, a file, or a dict of its form.
    copies
        Copies of layers that are held or limited, by name or pattern: {"conv1": 4, "conv*": "2..8"}.
    copies_divide
        Of what copies must be a divisor: windows of a row of the output ("width"), or all ("windows").
    at_most
        Limits of area_um2, energy_pj, power_mw, latency_ns and interval_ns, of the allocation searched for.
    placed
        Count transfer between the tiles in which copies of the allocation searched for would be placed.
    seed
        Of what every search draws.
    work
        Units of every search, 0.05 s each on a reference core.
    time_limit_s
        Seconds by the clock after which every search ends.
    on_progress
        Called with (what is searched, best, bound) whenever one of them improves.
    stop
        Replaces work and time_limit_s; its `interrupted` ends the search.

    Returns
    -------
    Explanation
        What holds back, the next points, and what changes of the hardware gain.

    Raises
    ------
    RramallocError
        BudgetError, FileError, SpecError, UnknownNameError.

    References
    ----------
    docs/sources/model.md 4, 7, 8 and 11.

    Examples
    --------
    >>> explain("alexnet", arrays=400).faster.point.arrays
    402
    """
    check_range("speedup", speedup, 1e-6, 1e6)
    check_effort(seed, work, time_limit_s)
    if objective is not None:
        check_known("objective", objective, shown_by("explain"))
    ending = stop or Work(work=work, time_limit_s=time_limit_s)
    is_given = allocation is not None
    if allocation is None:
        every: dict[str, Any] = {**given, "crossbar": crossbar, "fold": fold, "latency_table": latency_table}
        every |= {
            "copies": copies,
            "copies_divide": copies_divide,
            "objective": objective,
            "at_most": at_most,
            "placed": placed or None,
        }
        asked = {name: value for name, value in every.items() if value is not None}
        searching = ending.reporting_to(on_progress, "an allocation")
        if ending.time_limit_s is not None:  # the rest is for the points beside it and for the what-ifs
            searching = replace(searching, time_limit_s=_FIRST_SHARE * ending.time_limit_s)
        network = network_of(network, given)
        allocation = optimize(network, arrays, seed=seed, stop=searching, **asked)
        if searching is not ending:
            ending.charge(searching.spent_s)
        given, crossbar, fold, latency_table, copies, copies_divide = {}, None, None, None, None, None
    of_search = {"arrays": arrays, "at_most": at_most, "placed": placed or None}
    for name, value in of_search.items() if is_given else ():
        if value is not None:
            raise SpecError(name, "is for an allocation to be searched: leave it out beside allocation")
    case, given_allocation = read_case(
        network, allocation, given, crossbar=crossbar, fold=fold, latency_table=latency_table
    )
    source = case.network
    given_allocation.made_for(source)
    if given_allocation.cycles and not given_allocation.hardware.own_clock:
        reason = "has cycles, which only hardware with clocks of its own explains: leave cycles out"
        raise SpecError(given_allocation.where, reason)
    if given_allocation.blocks:
        given_allocation = given_allocation.changed(mapping="sdk")
    case = replace(case, mapping=given_allocation.options, divide=copies_divide or case.divide)
    if copies is not None:
        case = replace(case, copies=copy_limits(copies, case.stages))
    check_command("explain", "explain", case, Question(placed=placed))
    timing = given_allocation.timing(given_allocation.graph(source, case.stages))
    if objective is None:
        of_interval = given_allocation.objective == "interval" and source.sequences is None  # that take turns
        objective = "interval" if of_interval else "latency"
    if objective == "interval":
        check_option("interval", case)
    if source.sequences is not None:
        objective = "latency"
    absolute = Absolute.of(given_allocation.step_time(timing.graph), timing)
    beside = replace(case, placed=bool(given_allocation.transfer_ns)).with_stages(case.stages)
    neighbours = Neighbours.of(beside, timing, absolute, objective, ending, seed, on_progress)
    changes = WhatIfs(given_allocation, case, objective, ending, seed, on_progress)
    cheaper, faster = neighbours.cheaper(), neighbours.faster()
    sped = None if speedup is None else neighbours.speedup(speedup)
    what_ifs = changes.all(what_if)
    layers = step_layers(case, timing, given_allocation.transfer_ns, neighbours.taken)
    slowest = slowest_layer(layers)
    unit = timing.graph.unit.removesuffix("s")
    return Explanation(
        **case.about(links=bool(given_allocation.transfer_ns), units=on_units(case.hardware, timing.graph)),
        options=CaseOptions(**case.options),
        objective=objective,
        unit=neighbours.objective.unit,
        value=neighbours.value,
        seed=seed,
        work=ending.work,
        arrays=neighbours.arrays,
        makespan=timing.makespan,
        interval=timing.interval,
        step_ns=absolute.step_ns,
        tick_ns=absolute.tick_ns,
        latency_ns=absolute.latency_ns,
        slowest=slowest if absolute.step_ns is not None else None,
        critical_path_text=path_words(critical_path(timing), timing.makespan, unit),
        layers=layers,
        cheaper=cheaper,
        faster=faster,
        speedup=sped,
        speedup_change=None if speedup is None else changes.cheapest(speedup, what_ifs),
        what_if=what_ifs,
        kinds=changes.kinds(what_ifs),
        warnings=(
            *case.warnings(neighbours.arrays),
            *neighbours.left_out,
            *((_PLACED_AGAIN,) if given_allocation.transfer_ns and not given_allocation.places else ()),
            *given_allocation.left_out,
            *((_AT_MOST,) if given_allocation.at_most else ()),
        ),
    )
