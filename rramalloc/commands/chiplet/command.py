"""`rramalloc chiplet`: inference cost on a topology of chiplets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from rramalloc.choices import FullyConnected, Mapping
from rramalloc.cli import complete
from rramalloc.cli.group import Command, Group
from rramalloc.cli.interrupt import end, interruptible
from rramalloc.cli.live_line import LiveLine
from rramalloc.cli.output import print_lines, print_part, print_result, table_of, warn
from rramalloc.cli.parameters import Format, Help, Value, described, passed
from rramalloc.units import count, counted, duration, plain_quantity, share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rramalloc.commands.chiplet.chiplet_optimize import ChipletSchedule
    from rramalloc.commands.chiplet.cost import ChipletCost

COST: Help = {
    "sources": (
        Value("FILE...|NETWORK", completion=complete.networks),
        "Descriptions, or a network with --allocation and --placement.",
    ),
    "allocation": ("FILE", "Allocation of NETWORK."),
    "placement": ("FILE", "Placement of that allocation."),
}
OPTIMIZE: Help = {
    "source": (
        Value("FILE|NETWORK", completion=complete.networks),
        "A description, or with --hardware a network.",
    ),
    "hardware": ("FILE|PRESET", "Describe NETWORK on the tiles of this hardware's [chip]."),
    "description": (Value("FILE", writes="file"), "Write the description, with the schedule in it."),
}
_SPARE = ("routing", "communication", "compute")
_COSTS = table_of(
    "group, operator, compute, communication, routing, cost", texts="operator", spare=" ".join(_SPARE)
)
_SCHEDULED = table_of(
    "group, operator, strategy, units, first, compute, communication, routing, cost",
    texts="operator strategy first",
    spare=f"first {' '.join(_SPARE)}",
)
_COMPARED = table_of(
    "description=name, groups, in groups=computed, between, total, unit, ratio", texts="name unit"
)
_SEQUENTIAL = ", sequential: one group after the other, with the transfers between them"
_PIPELINED = ", all stages at the same time, without transfers between tiles: what `optimize` counts"


app = typer.Typer(cls=Group, no_args_is_help=True)


@app.callback()
def _chiplet() -> None:
    """Compute or minimise the cost of inference on chiplets.

    Example: rramalloc chiplet cost schedule.json
    """


@app.command(cls=Command)
@described(COST, problem="placement")
def cost(
    sources: list[str],
    *,
    allocation: str | None = None,
    placement: str | None = None,
    latency_table: str | None = None,
    input_shapes: list[str] | None = None,
    input_values: list[str] | None = None,
    output_format: Format = "table",
    output: str | None = None,
    quiet: bool = False,
) -> None:
    """Compute the cost of a description, or of an allocation as it is placed; of several, side by side.

    Example: rramalloc chiplet cost schedule.json
    """
    given = locals()
    from rramalloc.commands.chiplet.cost import chiplet_compare as run_chiplet_compare
    from rramalloc.commands.chiplet.cost import chiplet_cost as run_chiplet_cost

    if len(sources) > 1:
        if any(value is not None for value in (allocation, placement, latency_table)):
            raise typer.BadParameter("--allocation, --placement and --latency-table are for one network")
        compared = run_chiplet_compare(sources)
        if output is not None:
            compared.save(output)
        print_result(compared.to_dict, _COMPARED, compared.descriptions, output_format, quiet=quiet)
        warn(compared.warnings, quiet=quiet)
        return
    costs = run_chiplet_cost(**passed(given, run_chiplet_cost), source=sources[0])
    if output is not None:
        costs.save(output)
    if print_result(costs.to_dict, _COSTS, costs.rows(), output_format, quiet=quiet):
        _summary(costs, quiet=quiet)
    warn(costs.warnings, quiet=quiet)


@app.command(cls=Command)
@described(OPTIMIZE, output="description")
def optimize(
    source: str,
    *,
    hardware: str | None = None,
    crossbar: str | None = None,
    set_values: list[str] | None = None,
    mapping: Mapping = "im2col",
    fc: FullyConnected = "host",
    host: list[str] | None = None,
    seed: int = 0,
    work: int = 100,
    time_limit_s: float | None = None,
    input_shapes: list[str] | None = None,
    input_values: list[str] | None = None,
    output_format: Format = "table",
    output: str | None = None,
    description: str | None = None,
    quiet: bool = False,
) -> None:
    """Find groups, partitions and submeshes of least cost, with a lower bound.

    Example: rramalloc chiplet optimize vgg11 --hardware isaac -o schedule.json
    """
    given = locals()
    from rramalloc.commands.chiplet.chiplet_optimize import chiplet_optimize as run_chiplet_optimize
    from rramalloc.files import write_json
    from rramalloc.search.work import Work

    stop = Work(work=work, time_limit_s=time_limit_s)
    with LiveLine(quiet=quiet) as line, interruptible(stop):
        schedule = run_chiplet_optimize(
            **passed(given, run_chiplet_optimize),
            stop=stop,
            on_progress=lambda best, bound: line.show(f"best {count(best)}, bound {count(bound)}"),
        )
    if output is not None:
        schedule.save(output)
    if description is not None:
        write_json(description, schedule.description.to_dict())
    rows, below = schedule.rows(), _found(schedule)
    print_result(schedule.to_dict, _SCHEDULED, rows, output_format, below, quiet=quiet)
    warn(schedule.warnings, quiet=quiet)
    end(stop, line, quiet=quiet)


def _found(schedule: ChipletSchedule) -> Iterator[tuple[str, str]]:
    cost, unit = schedule.cost, schedule.cost.unit
    if schedule.description.name is not None:
        yield "network", schedule.description.name
    yield "total", f"{plain_quantity(schedule.total, unit)} in {counted(len(cost.groups), 'group')}"
    yield "between", f"{plain_quantity(sum(cost.between), unit)} of it"
    yield "lower bound", plain_quantity(schedule.lower_bound, unit)
    yield "gap", f"{share(schedule.gap)} from optimal at most"
    yield "proof", schedule.proof
    for baseline in schedule.baselines:
        yield baseline.name, f"{plain_quantity(baseline.total, unit)}, {baseline.ratio:.3f} times as much"
    yield "options", f"{schedule.options:,} strategies with their submeshes, of all operators"
    yield "search", f"{duration(1e9 * schedule.work_s)} of work on a reference core"


def _summary(cost: ChipletCost, *, quiet: bool) -> None:
    typer.echo()
    fields = ("communication", "routing", "cost")
    rows = [(edge.source, edge.to, *(count(getattr(edge, field)) for field in fields)) for edge in cost.edges]
    print_part(("from", "to", *fields), rows, ("from", "to"), _SPARE, quiet=quiet)
    groups = f"{plain_quantity(cost.computed, cost.unit)} in {len(cost.groups)} groups"
    between, total = (plain_quantity(each, cost.unit) for each in (sum(cost.between), cost.total))
    lines = [("groups", groups), ("between", between), ("total", total)]
    if cost.pipelined is not None:
        pipelined = plain_quantity(cost.pipelined, cost.unit)
        lines[2:] = [("total", f"{total}{_SEQUENTIAL}"), ("pipelined", f"{pipelined}{_PIPELINED}")]
    print_lines(lines)
