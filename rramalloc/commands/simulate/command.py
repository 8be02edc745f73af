"""`rramalloc simulate`: exact timing of an allocation."""

from __future__ import annotations

from typing import Annotated, Unpack

import typer

from rramalloc.choices import AllocationArguments, Handoff
from rramalloc.cli.output import deliver
from rramalloc.cli.parameters import OF_ALLOCATION, Format, Help, described, passed

SIMULATE: Help = {
    **OF_ALLOCATION,
    "handoff": (None, "Step in which a pixel can be used: next or same."),
}


@described(SIMULATE, problem="handoff")
def simulate(
    network: str,
    *,
    allocation: str,
    crossbar: str | None = None,
    fold: Annotated[
        bool | None,
        typer.Option("--fold/--no-fold", help="Fold filters first, or not. Left out: as the allocation."),
    ] = None,
    handoff: Handoff = "next",
    latency_table: str | None = None,
    output_format: Format = "table",
    output: str | None = None,
    figure: str | None = None,
    figure_width: int | None = None,
    quiet: bool = False,
    **shared: Unpack[AllocationArguments],
) -> None:
    """Time an allocation exactly: start, finish and stalls of every stage, buffers, and the bottleneck.

    Example: rramalloc simulate alexnet --allocation a.json
    """
    given = locals()
    from rramalloc import api
    from rramalloc.importers import load

    given["network"] = load(**passed(given, load))
    result = api.simulate(**passed(given, api.simulate))
    deliver(result, given, "timeline", network=given["network"])
