"""`rramalloc simulate`: exact timing of an allocation."""

from __future__ import annotations

from typing import Any

from rramalloc.cli.output import check_columns, deliver
from rramalloc.cli.parameters import EFFICIENCY, LATEX, Help, OptionValue, described, of_call, passed

SIMULATE: Help = {
    "fold": (
        OptionValue("", option="--fold/--no-fold"),
        "Fold filters first, or not. Left out: as the allocation.",
    ),
    "handoff": (None, "Step in which a pixel can be used: next or same."),
    "rate": (OptionValue("R", unit="inputs/s"), "Energy and power of a chip that is asked for R inputs/s."),
    "efficiency": EFFICIENCY,
}


@described(SIMULATE, problem="handoff rate", output="efficiency")
@of_call(
    "rramalloc.api:simulate",
    outputs=LATEX,
    example="Example: rramalloc simulate alexnet --allocation a.json",
)
def command(given: dict[str, Any], *, efficiency: bool = False) -> None:
    """Run `simulate`, and draw the timeline of the network as it was read."""
    from rramalloc import api
    from rramalloc.allocation.simulation import TimedLayer
    from rramalloc.importers import load

    check_columns(given["columns"], TimedLayer, "busy")
    given["network"] = load(**passed(given, load))
    result = api.simulate(**passed(given, api.simulate))
    deliver(result, given, "timeline", known={"efficiency": efficiency}, network=given["network"])
