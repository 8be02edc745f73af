"""`rramalloc place`: every array of every chip."""

from __future__ import annotations

from typing import Unpack

from rramalloc.allocation.case_arguments import AllocationArguments
from rramalloc.cli.output import deliver
from rramalloc.cli.parameters import OF_ALLOCATION, Format, Help, described, passed

PLACE: Help = {
    **OF_ALLOCATION,
    "work": ("N", "Units of improvement, about 0.01 s each; left out: as many as pay, 0: construction only."),
    "output": ("FILE", "Write the placement as JSON."),
}


@described(PLACE)
def command(
    network: str,
    *,
    allocation: str,
    latency_table: str | None = None,
    seed: int = 0,
    work: int | None = None,
    output_format: Format = "table",
    output: str | None = None,
    figure: str | None = None,
    figure_width: int | None = None,
    quiet: bool = False,
    **shared: Unpack[AllocationArguments],
) -> None:
    """Place an allocation: every block of every copy on an array of a tile of a chip, with little traffic.

    Example: rramalloc place alexnet --allocation a.json --hardware isaac
    """
    given = locals()
    from rramalloc.commands.place.place import place as run_place

    deliver(run_place(**passed(given, run_place)), given, "chip_map")
