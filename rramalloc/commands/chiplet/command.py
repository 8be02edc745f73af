"""`rramalloc chiplet`: inference cost on a topology of chiplets."""

from __future__ import annotations

import typer

from rramalloc.choices import FullyConnected, Mapping
from rramalloc.cli import complete
from rramalloc.cli.group import Command, Group
from rramalloc.cli.interrupt import end
from rramalloc.cli.live_line import LiveLine
from rramalloc.cli.output import deliver
from rramalloc.cli.parameters import Format, Help, Value, described, passed
from rramalloc.units import count

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


app = typer.Typer(
    cls=Group,
    help="Compute or minimise the cost of inference on chiplets.\n\n"
    "Example: rramalloc chiplet cost schedule.json",
    no_args_is_help=True,
)


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
        deliver(run_chiplet_compare(sources), given)
        return
    deliver(run_chiplet_cost(**passed(given, run_chiplet_cost), source=sources[0]), given)


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
    from rramalloc.search.work import Work, interruptible

    stop = Work(work=work, time_limit_s=time_limit_s)
    with LiveLine(quiet=quiet) as line, interruptible(stop):
        schedule = run_chiplet_optimize(
            **passed(given, run_chiplet_optimize),
            stop=stop,
            on_progress=lambda best, bound: line.show(f"best {count(best)}, bound {count(bound)}"),
        )
    also = []
    if description is not None:
        also.append(lambda: write_json(description, schedule.description.to_dict()))
    deliver(schedule, given, also=also)
    end(stop, line, quiet=quiet)
