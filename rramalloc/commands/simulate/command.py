"""`rramalloc simulate`: exact timing of an allocation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Unpack

import typer

from rramalloc.choices import AllocationArguments, Handoff
from rramalloc.cli.output import (
    coverage_line,
    energy_lines,
    print_lines,
    print_part,
    print_result,
    table_of,
    warn,
)
from rramalloc.cli.parameters import OF_ALLOCATION, Format, Help, described, passed
from rramalloc.units import duration, number_of

if TYPE_CHECKING:
    from rramalloc.allocation.simulation import Simulation

_TABLE = table_of(
    "layer=name, windows, kind, arrays_per_copy, block, copies, arrays, batches, cycles, start, finish, "
    "stall=stall_steps, fold, utilisation, energy_pj, area_um2",
    texts="name kind",
    spare="area_um2 energy_pj windows arrays_per_copy batches fold utilisation arrays start copies",
)
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
    if output is not None:
        result.save(output)
    if figure is not None:
        result.plot.timeline(figure, given["network"])
    if print_result(result.to_dict, _TABLE, result.layers, output_format, quiet=quiet):
        typer.echo()
        _show(result, quiet=quiet)
    warn(result.warnings, quiet=quiet)


def _show(result: Simulation, *, quiet: bool) -> None:
    """Print the buffers and the summary below the table of layers."""
    unit = result.time_unit
    edges = [(edge.producer, edge.consumer, edge.buffer_pixels, edge.buffer_bytes) for edge in result.edges]
    names = ("producer", "consumer", "buffer pixels", "buffer bytes")
    print_part(names, edges, names[:2], names[2:3], quiet=quiet)
    lines = [
        ("arrays", str(result.arrays)),
        ("makespan", number_of(result.makespan, unit)),
        ("interval", f"{number_of(result.interval, unit)} between inputs when inputs stream"),
    ]
    models = f"tight {number_of(result.recurrence, unit)}"
    models += "" if result.published is None else f", published {number_of(result.published, 'step')}"
    lines.append(("recurrences", models))
    if result.latency_ns is not None and result.unit_ns is not None:
        lines.append(("latency", f"{duration(result.latency_ns)}, {duration(result.unit_ns)} a {unit}"))
    lines += energy_lines(result)
    lines.append(("critical path", result.critical_path_text))
    lines += coverage_line(result.coverage)
    print_lines(lines)
