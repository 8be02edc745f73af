"""`rramalloc simulate`: exact timing of an allocation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rramalloc.choices import Handoff
from rramalloc.cli import parameters
from rramalloc.cli.output import print_lines, print_result, print_table, warn
from rramalloc.units import duration, number_of

if TYPE_CHECKING:
    from rramalloc.results.simulation import Simulation

_COLUMNS = {
    "layer": "name",
    "windows": "windows",
    "demand": "demand",
    "block": "block",
    "replication": "replication",
    "arrays": "arrays",
    "batches": "batches",
    "cycles": "cycles",
    "start": "start",
    "finish": "finish",
    "stall": "stall_steps",
    "fold": "fold",
    "utilisation": "utilisation",
    "energy [pJ]": "energy_pj",
    "area [um2]": "area_um2",
}
_SPARE = (
    "area [um2]",
    "energy [pJ]",
    "windows",
    "demand",
    "batches",
    "fold",
    "utilisation",
    "arrays",
    "start",
    "replication",
)


def simulate(
    network: parameters.NetworkArgument,
    allocation: parameters.AllocationFile,
    *,
    hardware: parameters.OwnHardware = None,
    crossbar: parameters.Crossbar = None,
    mapping: parameters.OwnMapping = None,
    fold: Annotated[
        bool | None, typer.Option("--fold/--no-fold", help="Instead of the allocation's.")
    ] = None,
    fc: parameters.OwnFc = None,
    shared: parameters.OwnShared = None,
    handoff: Annotated[
        Handoff, typer.Option("--handoff", help="Step in which a pixel can be used: next or same.")
    ] = "next",
    latency_table: parameters.LatencyTable = None,
    input_shape: parameters.InputShape = None,
    allow_partial: parameters.AllowPartial = False,
    output_format: parameters.OutputFormat = "table",
    output: parameters.Output = None,
    figure: parameters.Figure = None,
    quiet: parameters.Quiet = False,
) -> None:
    """Exact timing: start, finish and stalls of every stage, buffers, and what holds the network back.

    Example: rramalloc simulate vgg16 --allocation vgg16_1024.json
    """
    from rramalloc import api
    from rramalloc.chart import check_figure
    from rramalloc.files import write_json
    from rramalloc.importers import load

    check_figure(figure)
    source = load(network, parameters.parse_input_shapes(input_shape), allow_partial=allow_partial)
    result = api.simulate(
        source, allocation, hardware=hardware, crossbar=crossbar,
        mapping=mapping, fc=fc, shared=shared,
        handoff=handoff, fold=fold, latency_table=latency_table,
    )  # fmt: skip
    if output is not None:
        write_json(output, result.to_dict())
    if figure is not None:
        result.plot.timeline(save=figure)
    if print_result(
        result.to_dict, _COLUMNS, result.layers, output_format, ("layer",), spare=_SPARE, quiet=quiet
    ):
        typer.echo()
        _show(result, quiet=quiet)
    warn(result.warnings, quiet=quiet)


def _show(result: Simulation, *, quiet: bool) -> None:
    """Buffers and summary below the table of layers."""
    unit = result.time_unit
    edges = [(edge.producer, edge.consumer, edge.buffer_pixels, edge.buffer_bytes) for edge in result.edges]
    if edges:
        names = ("producer", "consumer", "buffer pixels", "buffer bytes")
        print_table(names, edges, names[:2], spare=names[2:3], whole="--format json", quiet=quiet)
        typer.echo()
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
    lines += parameters.energy_lines(result)
    lines.append(("critical path", result.critical_path_text))
    lines += parameters.coverage_line(result)
    print_lines(lines)
