"""`rramalloc chiplet`: inference cost on a topology of chiplets."""

from __future__ import annotations

from typing import Any

import typer

from rramalloc.cli import complete
from rramalloc.cli.group import Command, Group
from rramalloc.cli.interrupt import end
from rramalloc.cli.live_line import LiveLine
from rramalloc.cli.output import deliver
from rramalloc.cli.parameters import Help, OptionValue, described, of_call, passed
from rramalloc.units import count

COST: Help = {
    "source": (
        OptionValue("FILE...|NETWORK", completion=complete.networks),
        "Descriptions, or a network with --allocation and --placement.",
    ),
    "allocation": ("FILE", "Allocation of NETWORK."),
    "placement": ("FILE", "Placement of that allocation."),
}
OPTIMIZE: Help = {
    "source": (
        OptionValue("FILE|NETWORK", completion=complete.networks),
        "A description, or with --hardware a network.",
    ),
    "hardware": ("FILE|PRESET", "Describe NETWORK on the tiles of this hardware's [chip]."),
    "description": (OptionValue("FILE", writes="file"), "Write the description, with the schedule in it."),
}


app = typer.Typer(
    cls=Group,
    help="Compute or minimise the cost of inference on chiplets.\n\n"
    "Example: rramalloc chiplet cost schedule.json",
    no_args_is_help=True,
)


@app.command(cls=Command)
@described(COST, problem="placement")
@of_call(
    "rramalloc.commands.chiplet.cost:chiplet_cost",
    example="Example: rramalloc chiplet cost schedule.json",
)
def cost(given: dict[str, Any], source: list[str]) -> None:
    """Run `chiplet_cost`, or `chiplet_compare` for several descriptions."""
    from rramalloc.commands.chiplet.cost import chiplet_compare as run_chiplet_compare
    from rramalloc.commands.chiplet.cost import chiplet_cost as run_chiplet_cost

    if len(source) > 1:
        if any(given[name] is not None for name in ("allocation", "placement", "latency_table")):
            raise typer.BadParameter("--allocation, --placement and --latency-table are for one network")
        deliver(run_chiplet_compare(source), given)
        return
    given["source"] = source[0]
    deliver(run_chiplet_cost(**passed(given, run_chiplet_cost)), given)


@app.command(cls=Command)
@described(OPTIMIZE, output="description")
@of_call(
    "rramalloc.commands.chiplet.chiplet_optimize:chiplet_optimize",
    example="Example: rramalloc chiplet optimize vgg11 --hardware isaac -o schedule.json",
)
def optimize(given: dict[str, Any], *, quiet: bool, description: str | None = None) -> None:
    """Run `chiplet_optimize`, and write the description with its schedule."""
    from rramalloc.commands.chiplet.chiplet_optimize import chiplet_optimize as run_chiplet_optimize
    from rramalloc.files import write_json
    from rramalloc.search.work import Work, interruptible

    stop = Work(work=given["work"], time_limit_s=given["time_limit_s"])
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
