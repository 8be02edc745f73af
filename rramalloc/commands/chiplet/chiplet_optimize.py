"""`chiplet_optimize`: the schedule of least cost on chiplets that a search finds, beside a lower bound.

Source: docs/sources/companions.md 2, the goal of the method.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from statistics import median_low
from typing import TYPE_CHECKING, Literal, NamedTuple

from rramalloc.choices import FullyConnected, Mapping
from rramalloc.commands.chiplet.cost import SCHEDULE, ChipletCost, described_cost, read_description
from rramalloc.commands.chiplet.describe import describe_network
from rramalloc.commands.chiplet.description import Description
from rramalloc.commands.chiplet.places import Submesh
from rramalloc.commands.chiplet.schedule_bound import lower_bound
from rramalloc.commands.chiplet.schedule_problem import ScheduleProblem
from rramalloc.commands.chiplet.schedule_search import GroupSchedule, Progress, ScheduleSearch
from rramalloc.errors import SolverError, SpecError
from rramalloc.hardware.loader import CrossbarLike, HardwareLike, as_hardware
from rramalloc.importers import InputShapes, NetworkLike, as_network
from rramalloc.network.network import Network
from rramalloc.records import Record, check_effort
from rramalloc.result import ResultRecord, frame_of
from rramalloc.search.problem import DEFAULT_WORK, Stop
from rramalloc.units import counted
from rramalloc.version import __version__

if TYPE_CHECKING:
    import pandas as pd

_RANDOM = 21  # random schedules whose median is shown
_EQUAL = 1e-6  # relative difference that rounding may make between the search and the cost of its schedule
_PROVEN = "proven optimal: it costs as much as the lower bound"
_BOUNDED = "bounded: heaviest path or all units in use, with the edges, by a bucket pass"


class ScheduleBaseline(Record):
    """Another way to schedule.

    total: its cost; ratio: to the schedule that was found.
    """

    name: str
    total: float
    ratio: float


class ChipletSchedule(ResultRecord):
    """A schedule on chiplets: groups of operators, their strategies and submeshes, and what it costs.

    description: with the schedule in it, as `chiplet cost` reads it; cost: of it, in detail; lower_bound: no
    schedule costs less;
    gap: (total - lower_bound) / total; options: strategies with their submeshes, of all operators;
    left_out: submeshes that were not looked at, as there are too many; baselines: other schedules of the
    same description; seconds: of work on a reference core.
    """

    format: Literal["rramalloc-chiplet-schedule/1"] = SCHEDULE
    rramalloc_version: str
    description: Description
    cost: ChipletCost
    total: float
    lower_bound: float
    gap: float
    proof: str
    baselines: tuple[ScheduleBaseline, ...]
    options: int
    left_out: int
    seed: int
    work: int
    seconds: float
    warnings: tuple[str, ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """One row per operator: group (from 0), operator, strategy, units, first, last, and its cost."""
        return frame_of(self.rows(), ScheduledOperator._fields)

    def rows(self) -> list[ScheduledOperator]:
        """Operators in the order of their groups."""
        rows = []
        for number, (names, costs) in enumerate(zip(self.description.groups, self.cost.groups, strict=True)):
            for name in names:
                operator, cost = self.description.operators[name], costs.operators[name]
                called = operator.strategies
                strategy = str(operator.strategy) if called is None else called[operator.strategy]
                submesh = Submesh.of(operator)
                size = None if submesh is None else submesh.size(self.description.chip.units)
                ends = _unit(operator.first), _unit(operator.last)
                rows.append(ScheduledOperator(number, name, strategy, size, *ends, **dict(cost)))
        return rows

    def _headline(self) -> tuple[str, str]:
        groups, gap = counted(len(self.cost.groups), "group"), f"at most {self.gap:.2%} from optimal"
        return self.description.name or "", f"{self.total:,.6g} {self.cost.unit} in {groups}, {gap}"


class ScheduledOperator(NamedTuple):
    """An operator of a schedule. first, last: unit as "chiplet row,column / row,column"."""

    group: int
    operator: str
    strategy: str
    units: int | None
    first: str | None
    last: str | None
    compute: float
    communication: float
    routing: float
    cost: float


def _unit(unit: tuple[tuple[int, int], tuple[int, int]] | None) -> str | None:
    return None if unit is None else " / ".join(f"{row},{column}" for row, column in unit)


def describe(
    source: Description | NetworkLike,
    hardware: HardwareLike | None,
    crossbar: CrossbarLike | None = None,
    mapping: Mapping = "im2col",
    fc: FullyConnected = "host",
    input_shapes: InputShapes | None = None,
) -> tuple[Description, str, tuple[str, ...]]:
    """A description, its name in messages, and what was assumed in it; generated if there is a hardware."""
    if hardware is None:
        if isinstance(source, Network):
            raise SpecError("hardware", "a network needs a hardware with [chip]; a description has its own")
        if isinstance(source, Description):
            return source, "description", ()
        return read_description(source), os.fspath(source), ()
    if isinstance(source, Description):
        raise SpecError("hardware", "a description has a chip of its own: give no hardware")
    network = as_network(source, input_shapes)
    described = describe_network(network, as_hardware(hardware, crossbar), mapping, fc)
    return described.description, network.where, described.warnings


def chiplet_optimize(
    source: Description | NetworkLike,
    *,
    hardware: HardwareLike | None = None,
    crossbar: CrossbarLike | None = None,
    mapping: Mapping = "im2col",
    fc: FullyConnected = "host",
    seed: int = 0,
    work: int = DEFAULT_WORK,
    time_limit_s: float | None = None,
    input_shapes: InputShapes | None = None,
    on_progress: Progress | None = None,
    stop: Stop | None = None,
) -> ChipletSchedule:
    """Find groups, strategies and submeshes of least cost, with a lower bound and baselines.

    Parameters
    ----------
    source
        A description or its file, or with `hardware` a network.
    hardware
        With [chip] and [timing]: the description is generated for its tiles.
    work
        Units of search, 0.05 s each on a reference core.
    stop
        Replaces work and time_limit_s; its `interrupted` ends the search with the best so far.

    Returns
    -------
    ChipletSchedule
        Its cost is computed anew by `chiplet_cost`'s code.

    Raises
    ------
    RramallocError
        FileError, SpecError, UnsupportedError; SolverError if cost and search disagree.
    """
    check_effort(seed, work, time_limit_s)
    description, where, assumed = describe(source, hardware, crossbar, mapping, fc, input_shapes)
    problem = ScheduleProblem.of(description, where)
    ending = stop or Stop(work=work, time_limit_s=time_limit_s)
    search, least = ScheduleSearch(problem, ending, seed), lower_bound(problem)
    starts, others = _starts(problem, search)
    search.spent_s = 0.0
    schedule = search.improve(starts, ending.work_s, least, on_progress)
    total = search.total(schedule)
    scheduled = problem.described(schedule.groups, schedule.chosen)
    cost = described_cost(scheduled, where)
    if abs(cost.total - total) > _EQUAL * max(1.0, cost.total):
        raise SolverError(f"the search counts {total}, the schedule costs {cost.total}; please report")
    bound = min(least, cost.total)
    return ChipletSchedule(
        rramalloc_version=__version__,
        description=scheduled,
        cost=cost,
        total=cost.total,
        lower_bound=bound,
        gap=(cost.total - bound) / cost.total if cost.total else 0.0,
        proof=_PROVEN if total <= least * (1 + 1e-9) else _BOUNDED,
        baselines=tuple(
            ScheduleBaseline(name=name, total=each, ratio=each / cost.total if cost.total else 1.0)
            for name, each in others.items()
        ),
        options=problem.count,
        left_out=problem.places.left_out,
        seed=seed,
        work=ending.work,
        seconds=search.spent_s,
        warnings=(*assumed, *cost.warnings, *_warnings(problem)),
    )


def _warnings(problem: ScheduleProblem) -> Sequence[str]:
    warnings = []
    if problem.fixed:
        some = ", ".join(name[:60] for name in problem.fixed[:4])
        warnings.append(
            f"{counted(len(problem.fixed), 'operator')} stay where they are described, as edges list pairs "
            f"of units: {some}"
        )
    if problem.places.left_out:
        warnings.append(
            f"{problem.places.left_out:,} submeshes were left out, evenly: schedule and bound are of "
            f"{len(problem.places.submeshes):,}"
        )
    return warnings


def _starts(problem: ScheduleProblem, search: ScheduleSearch) -> tuple[list[GroupSchedule], dict[str, float]]:
    """Schedules to search from, and what those cost that need no search."""
    described = problem.start()
    starts = [] if described is None else [GroupSchedule(*described)]
    if described is None:
        alone = search.greedy(alone=True)
    else:
        alone = GroupSchedule([[v] for v in problem.order], list(described[1]))
    greedy = search.greedy()
    others = {} if described is None else {"as described": search.total(starts[0])}
    some = [search.random_schedule() for _ in range(_RANDOM)]
    others["one group an operator"] = search.total(alone)
    others["random"] = median_low(search.total(each) for each in some)
    others["greedy"] = search.total(greedy)
    return [*starts, alone, greedy], others
