"""`rramalloc explain`: the bottlenecks of an allocation, and remedies."""

from __future__ import annotations

from typing import Annotated, Unpack

import typer

from rramalloc.allocation.case_arguments import AllocationArguments
from rramalloc.choices import Divided, ExplainedObjective
from rramalloc.cli.interrupt import end
from rramalloc.cli.live_line import SearchLine
from rramalloc.cli.output import deliver
from rramalloc.cli.parameters import PLACED, Format, Help, described, parse_budget, passed
from rramalloc.errors import SpecError

EXPLAIN: Help = {
    "arrays": ("N|xF", "Budget to find an allocation for; or --allocation.", parse_budget),
    "hardware": ("FILE|PRESET", "The allocation's, or plain."),
    "mapping": (None, "The allocation's, or im2col."),
    "fc": (None, "The allocation's, or host."),
    "objective": (None, "What faster means; the allocation's, or latency."),
    "placed": PLACED,
    "speedup": ("X", "Also find the arrays, or the change of the hardware, that are X times as fast."),
    "what_if": ("FIELD=VALUE", "Try this change of the hardware, not those of the list; can be repeated."),
    "no_what_if": (None, "Try no change of the hardware, which saves several searches."),
    "work": ("N", "Most units of every search, 0.05 s of a core each."),
}


@described(EXPLAIN, problem="arrays", goal="objective placed speedup what_if no_what_if")
def command(
    network: str,
    *,
    arrays: str | None = None,
    allocation: str | None = None,
    crossbar: str | None = None,
    fold: Annotated[
        bool | None,
        typer.Option("--fold/--no-fold", help="The allocation's, or not."),
    ] = None,
    latency_table: str | None = None,
    copies: list[str] | None = None,
    copies_divide: Divided | None = None,
    at_most: list[str] | None = None,
    objective: ExplainedObjective | None = None,
    placed: bool = False,
    speedup: float | None = None,
    what_if: list[str] | None = None,
    no_what_if: bool = False,
    seed: int = 0,
    work: int = 100,
    time_limit_s: float | None = None,
    output_format: Format = "table",
    output: str | None = None,
    quiet: bool = False,
    **shared: Unpack[AllocationArguments],
) -> None:
    """Say what holds an allocation back, which points of the front are next to it, and what faster takes.

    Example: rramalloc explain alexnet --arrays 400 --speedup 2
    """
    given = locals()
    if no_what_if:
        if what_if:
            raise SpecError("what_if", "is given beside --no-what-if, which tries no change: leave one out")
        given["what_if"] = ()
    from rramalloc.commands.explain.explain import explain as run_explain
    from rramalloc.search.work import Work, interruptible

    stop = Work(work=work, time_limit_s=time_limit_s)
    with SearchLine(quiet=quiet) as line, interruptible(stop):
        made = run_explain(
            **passed(given, run_explain),
            stop=stop,
            on_progress=lambda what, best, bound: line.update(best, bound, what),
        )
    deliver(made, given)
    end(stop, line, shown="the searches ended early", quiet=quiet)
