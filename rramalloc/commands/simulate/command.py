"""`rramalloc simulate`: exact timing of an allocation."""

from __future__ import annotations

from typing import Annotated, Unpack

import typer

from rramalloc.allocation.case_arguments import AllocationArguments
from rramalloc.choices import Handoff
from rramalloc.cli.output import check_columns, deliver
from rramalloc.cli.parameters import (
    EFFICIENCY,
    Format,
    Help,
    LatexUnits,
    Value,
    described,
    passed,
)

SIMULATE: Help = {
    "handoff": (None, "Step in which a pixel can be used: next or same."),
    "rate": (Value("R", unit="inputs/s"), "Energy and power of a chip that is asked for R inputs/s."),
    "efficiency": EFFICIENCY,
}


@described(SIMULATE, problem="handoff rate", output="efficiency")
def command(
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
    rate: float | None = None,
    efficiency: bool = False,
    output_format: Format = "table",
    columns: str | None = None,
    caption: str | None = None,
    label: str | None = None,
    units: LatexUnits = "siunitx",
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
    from rramalloc.allocation.simulation import TimedLayer
    from rramalloc.importers import load

    check_columns(columns, TimedLayer, "busy")
    given["network"] = load(**passed(given, load))
    result = api.simulate(**passed(given, api.simulate))
    deliver(result, given, "timeline", known={"efficiency": efficiency}, network=given["network"])
