"""`rramalloc latency`: measure layers on a device, fit its overhead, estimate networks."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from rramalloc.choices import AuxiliaryLayer, OverheadMethod
from rramalloc.cli import EXIT_INTERRUPTED, complete, parameters
from rramalloc.cli.group import Command, Group
from rramalloc.cli.live_line import LiveLine
from rramalloc.cli.output import (
    note,
    print_csv,
    print_json,
    print_lines,
    print_result,
    print_table,
    time_cell,
    warn,
)
from rramalloc.units import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rramalloc.studies.latency.estimate import LatencyEstimate
    from rramalloc.studies.latency.measure import MeasureProgress
    from rramalloc.timing.latency_table import LatencyTable

_COLUMNS = {
    "layer": "name",
    "operator": "operator",
    "latency": "latency_ns",
    "share": "share",
    "flags": "flag_text",
}
_SPARE = ("spread", "noise", "n", "shape", "flags")


class AuxiliaryChoice(StrEnum):
    """As choices.AuxiliaryLayer: Typer has no lists of literals."""

    avgpool = "avgpool"
    conv1x1 = "conv1x1"
    conv3x3 = "conv3x3"


Auxiliary = Annotated[
    list[AuxiliaryChoice] | None,
    typer.Option("--auxiliary", help="Layer behind the timed one; several: all of them. Default: avgpool."),
]
Layers = Annotated[
    list[str] | None, typer.Option("--layer", metavar="NAME", help="Time only this layer, or these.")
]
DeviceText = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="DEVICE",
        autocompletion=complete.devices,
        help="onnxruntime, simulated[:NAME=VALUE,...] or replay:FILE.csv.",
    ),
]
Method = Annotated[
    OverheadMethod | None,
    typer.Option("--method", help="Take off the fitted overhead, the auxiliary layer's own time, or both."),
]
Date = Annotated[str | None, typer.Option("--date", metavar="YYYY-MM-DD", help="Put into every row.")]
TableFile = Annotated[
    str | None, typer.Option("-o", "--output", metavar="TABLE", help="Write the table: .json or .csv.")
]
NewTable = Annotated[str, typer.Option("-o", "--output", metavar="TABLE", help="The table: .json or .csv.")]
Samples = Annotated[
    str | None,
    typer.Option("--samples", metavar="FILE", help="Keeps every time; default: TABLE.samples.jsonl."),
]
Width = Annotated[
    float, typer.Option("--width", metavar="W", help="Relative width of a median's 95% interval to reach.")
]
Least = Annotated[int, typer.Option("--least", metavar="N", help="Executions of each run at least.")]
Most = Annotated[int, typer.Option("--most", metavar="N", help="Executions of each run at most.")]
Threads = Annotated[int, typer.Option("--threads", metavar="N", min=1, max=1024, help="Of ONNX Runtime.")]
Seed = Annotated[
    int, typer.Option("--seed", metavar="N", min=0, help="Of the order, and of simulated noise.")
]

app = typer.Typer(
    cls=Group,
    help="Latency of layers on a device that can only be timed from outside.\n\n"
    "Example: rramalloc latency measure squeezenet -o t.json",
    no_args_is_help=True,
)


@app.command("measure", cls=Command)
def measure(
    network: parameters.NetworkArgument,
    *,
    output: NewTable,
    device: DeviceText = "onnxruntime",
    auxiliary: Auxiliary = None,
    layer: Layers = None,
    method: Method = None,
    samples: Samples = None,
    width: Width = 0.02,
    least: Least = 20,
    most: Most = 400,
    threads: Threads = 1,
    seed: Seed = 0,
    date: Date = None,
    input_shape: parameters.InputShape = None,
    output_format: parameters.OutputFormat = "table",
    quiet: parameters.Quiet = False,
) -> None:
    """Time every distinct layer; the same command goes on where it was stopped.

    Example: rramalloc latency measure squeezenet --device onnxruntime -o t.json
    """
    from rramalloc.importers import load
    from rramalloc.studies.latency.device import open_device
    from rramalloc.studies.latency.fit import check_date, fit_latency
    from rramalloc.studies.latency.measure import Repetition, measure_latency

    check_date(date)
    effort = Repetition(width=width, least=least, most=most)
    source = load(network, parameters.parse_input_shapes(input_shape))
    timed = open_device(device, source, threads=threads, seed=seed)
    kept = samples or f"{output}.samples.jsonl"
    try:
        with LiveLine(quiet=quiet) as line:
            measured = measure_latency(
                source, timed, kept, auxiliary=_kinds(auxiliary), layers=layer or (), effort=effort,
                seed=seed,
                on_progress=lambda progress: line.show(_progress(progress)),
            )  # fmt: skip
    except KeyboardInterrupt:
        note(f"interrupted: every time so far is kept in {kept}, the same command goes on from there")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    for run, reason in measured.refused:
        note(f"not measured: {run[:100]}: {reason}", quiet=quiet)
    note(f"{measured.executions} executions timed now, all are in {kept}", quiet=quiet)
    table = fit_latency(kept, method=method, date=date)
    table.save(output)
    _print(table, output_format, quiet=quiet)


@app.command("plan", cls=Command)
def plan(
    network: parameters.NetworkArgument,
    *,
    auxiliary: Auxiliary = None,
    layer: Layers = None,
    input_shape: parameters.InputShape = None,
    output_format: parameters.OutputFormat = "csv",
) -> None:
    """What a measurement times, one run a line: to be timed elsewhere and replayed.

    Example: rramalloc latency plan squeezenet
    """
    from rramalloc.importers import load
    from rramalloc.studies.latency.plan import MeasurePlan

    source = load(network, parameters.parse_input_shapes(input_shape))
    planned = MeasurePlan.of(source, _kinds(auxiliary), layer or ())
    columns = ("run", "input_bytes", "output_bytes")
    rows = [(run.text, run.input_bytes, run.output_bytes) for run in planned.runs]
    if output_format == "json":
        print_json(planned.to_dict())
    elif output_format == "csv":
        print_csv(columns, rows)
    else:
        print_table(columns, rows, columns[:1], spare=columns[:0:-1])


@app.command("fit", cls=Command)
def fit(
    measurements: Annotated[str, typer.Argument(metavar="MEASUREMENTS", help="Samples that `measure` kept.")],
    method: Method = None,
    date: Date = None,
    output: TableFile = None,
    output_format: parameters.OutputFormat = "table",
    quiet: parameters.Quiet = False,
) -> None:
    """Overhead of the device and latency of each layer from samples.

    Example: rramalloc latency fit t.json.samples.jsonl --method subtract
    """
    from rramalloc.studies.latency.fit import fit_latency

    table = fit_latency(measurements, method=method, date=date)
    if output is not None:
        table.save(output)
    _print(table, output_format, quiet=quiet)


@app.command("estimate", cls=Command)
def estimate(
    network: parameters.NetworkArgument,
    *,
    table: Annotated[str, typer.Option("--table", metavar="TABLE", help="A latency table, .json or .csv.")],
    input_shape: parameters.InputShape = None,
    output_format: parameters.OutputFormat = "table",
    output: parameters.Output = None,
    quiet: parameters.Quiet = False,
) -> None:
    """The time of a network as the sum of its layers, beside the measured one if the table has it.

    Example: rramalloc latency estimate squeezenet --table t.json
    """
    from rramalloc.files import write_json
    from rramalloc.importers import load
    from rramalloc.studies.latency.estimate import estimate_latency
    from rramalloc.timing.latency_table import load_latency_table

    source = load(network, parameters.parse_input_shapes(input_shape))
    estimated = estimate_latency(source, load_latency_table(table))
    if output is not None:
        write_json(output, estimated.to_dict())
    texts = ("layer", "operator", "flags")
    if print_result(
        estimated.to_dict, _COLUMNS, estimated.layers, output_format, texts, spare=texts[:0:-1], quiet=quiet
    ):
        typer.echo()
        print_lines(_total(estimated))
    warn(estimated.warnings, quiet=quiet)


def _kinds(auxiliary: list[AuxiliaryChoice] | None) -> tuple[AuxiliaryLayer, ...]:
    return tuple(kind.value for kind in auxiliary or [AuxiliaryChoice.avgpool])


def _progress(progress: MeasureProgress) -> str:
    return f"{progress.done} of {progress.runs} runs measured, {progress.executions} executions"


def _print(table: LatencyTable, output_format: parameters.Format, *, quiet: bool) -> None:
    from rramalloc.timing.latency_table import csv_text

    if output_format == "json":
        print_json(table.to_dict())
    elif output_format == "csv":
        typer.echo(csv_text(table), nl=False)
    else:
        names = ("operator", "shape", "parameters", "latency", "noise", "spread", "n", "flags")
        rows = (
            (row.operator, row.shape, row.brief_parameters, time_cell(row.latency_ns),
             time_cell(row.noise_ns), time_cell(row.spread_ns), row.n, " ".join(row.flags))
            for row in table.rows
        )  # fmt: skip
        texts = ("operator", "parameters", "flags")
        print_table(names, rows, texts, spare=_SPARE, quiet=quiet)
        typer.echo()
        print_lines(_summary(table))
    warn(table.warnings, quiet=quiet)


def _summary(table: LatencyTable) -> Iterator[tuple[str, str]]:
    first = table.rows[0]
    yield "device", str(first.device)
    yield "method", str(first.method)
    if first.date is not None:
        yield "date", first.date
    overhead = table.overhead
    if overhead is not None:
        yield "a", f"{overhead.a_ns_per_byte:.6g} ns per byte in"
        yield "b", f"{overhead.b_ns_per_byte:.6g} ns per byte out"
        yield "c", f"{duration(overhead.c_ns)} a run"
        yield "R^2", f"{overhead.r2:.6f} over {overhead.runs} auxiliary layers alone"


def _total(estimated: LatencyEstimate) -> Iterator[tuple[str, str]]:
    yield "network", f"{estimated.network.name}, {len(estimated.layers)} layers"
    yield "estimate", f"{duration(estimated.total_ns)}, the sum of all layers"
    if estimated.measured_ns is None or estimated.error is None:
        yield "measured", "not in the table"
    else:
        yield "measured", f"{duration(estimated.measured_ns)}, the whole network"
        yield "error", f"{estimated.error:+.2%} of the measured time"
