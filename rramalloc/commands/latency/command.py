"""`rramalloc latency`: measure layers on a device, fit its overhead, estimate networks."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rramalloc.choices import AuxiliaryLayer, OverheadMethod
from rramalloc.cli import EXIT_INTERRUPTED, complete
from rramalloc.cli.group import Command, Group
from rramalloc.cli.live_line import LiveLine
from rramalloc.cli.output import deliver, note, print_json, print_view_as, warn, written
from rramalloc.cli.parameters import (
    Format,
    Help,
    OptionValue,
    described,
    parse_input_shapes,
    parse_input_values,
)

if TYPE_CHECKING:
    from collections.abc import Mapping as MappingOf

    from rramalloc.timing.latency_table import LatencyTable


class AuxiliaryChoice(StrEnum):
    """Choices of an auxiliary layer, as choices.AuxiliaryLayer: Typer has no lists of literals."""

    avgpool = "avgpool"
    conv1x1 = "conv1x1"
    conv3x3 = "conv3x3"


_DEVICES = complete.one_of("onnxruntime", "simulated", "replay:")
MEASURE: Help = {
    "auxiliary": (
        "avgpool|conv1x1|conv3x3",
        "Layer behind the timed one; several: all of them. Default: avgpool.",
    ),
    "layer": ("NAME", "Time only this layer, or these."),
    "device": (
        OptionValue("DEVICE", completion=_DEVICES),
        "onnxruntime, simulated[:NAME=VALUE,...] or replay:FILE.csv.",
    ),
    "method": (None, "Take off the fitted overhead, the auxiliary layer's own time, or both."),
    "date": ("YYYY-MM-DD", "Put into every row."),
    "output": ("TABLE", "The table: .json or .csv."),
    "samples": (
        OptionValue("FILE", writes="file"),
        "File that keeps every time. Left out: TABLE.samples.jsonl.",
    ),
    "width": (OptionValue("W", unit=""), "Relative width of a median's 95% interval to reach."),
    "least": ("N", "Executions of each run at least."),
    "most": ("N", "Executions of each run at most."),
}
FIT: Help = {
    **MEASURE,
    "measurements": ("MEASUREMENTS", "Samples that `measure` kept."),
    "output": ("TABLE", "Write the table: .json or .csv."),
}
ESTIMATE: Help = {"table": ("TABLE", "A latency table, .json or .csv.")}


app = typer.Typer(
    cls=Group,
    help="Time layers on a device that can only be timed from outside.\n\n"
    "Example: rramalloc latency measure squeezenet --device simulated -o t.json",
    no_args_is_help=True,
)


@app.command(cls=Command)
@described(
    MEASURE, problem="device auxiliary layer threads", search="method width least most", output="samples date"
)
def measure(
    network: str,
    *,
    output: str,
    device: str = "onnxruntime",
    auxiliary: list[AuxiliaryChoice] | None = None,
    layer: list[str] | None = None,
    method: OverheadMethod | None = None,
    samples: str | None = None,
    width: float = 0.02,
    least: int = 20,
    most: int = 400,
    threads: Annotated[
        int, typer.Option("--threads", metavar="N", min=1, max=1024, help="Threads of ONNX Runtime.")
    ] = 1,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, help="Seed of the order, and of simulated noise.")
    ] = 0,
    date: str | None = None,
    input_shapes: list[str] | None = None,
    input_values: list[str] | None = None,
    output_format: Format = "table",
    quiet: bool = False,
) -> None:
    """Time every distinct layer; the same command goes on where it was stopped.

    Example: rramalloc latency measure squeezenet --device simulated -o t.json
    """
    given = locals()
    from rramalloc.commands.latency.device import open_device
    from rramalloc.commands.latency.fit import check_date, fit_latency
    from rramalloc.commands.latency.measure import Repetition, measure_latency
    from rramalloc.importers import load

    check_date(date)
    effort = Repetition(width=width, least=least, most=most)
    source = load(network, parse_input_shapes(input_shapes), input_values=parse_input_values(input_values))
    timed = open_device(device, source, threads=threads, seed=seed)
    kept = samples or f"{output}.samples.jsonl"
    try:
        with LiveLine(quiet=quiet) as line:
            measured = measure_latency(
                source,
                timed,
                kept,
                auxiliary=_kinds(auxiliary),
                layers=layer or (),
                effort=effort,
                seed=seed,
                on_progress=lambda now: line.show(
                    f"{now.done} of {now.runs} runs measured, {now.executions} executions"
                ),
            )
    except KeyboardInterrupt:
        note(f"interrupted: every time so far is kept in {kept}, the same command goes on from there")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    for run, reason in measured.refused:
        note(f"not measured: {run[:100]}: {reason}", quiet=quiet)
    note(f"{measured.executions} executions timed now, all are in {kept}", quiet=quiet)
    _deliver(fit_latency(kept, method=method, date=date), given)


@app.command(cls=Command)
@described(MEASURE, problem="auxiliary layer")
def plan(
    network: str,
    *,
    auxiliary: list[AuxiliaryChoice] | None = None,
    layer: list[str] | None = None,
    input_shapes: list[str] | None = None,
    input_values: list[str] | None = None,
    output_format: Format = "csv",
) -> None:
    """List what a measurement times, one run a line: to be timed elsewhere and replayed.

    Example: rramalloc latency plan squeezenet
    """
    from rramalloc.commands.latency.plan import MeasurePlan
    from rramalloc.commands.latency.view import plan_view
    from rramalloc.importers import load

    source = load(network, parse_input_shapes(input_shapes), input_values=parse_input_values(input_values))
    planned = MeasurePlan.of(source, _kinds(auxiliary), layer or ())
    if output_format == "json":
        print_json(planned.to_dict())
    else:
        print_view_as(plan_view(planned), output_format)


@app.command(cls=Command)
@described(FIT, search="method", output="date")
def fit(
    measurements: str,
    *,
    method: OverheadMethod | None = None,
    date: str | None = None,
    output: str | None = None,
    output_format: Format = "table",
    quiet: bool = False,
) -> None:
    """Fit the overhead of the device and the latency of each layer to samples.

    Example: rramalloc latency fit t.json.samples.jsonl --method subtract
    """
    given = locals()
    from rramalloc.commands.latency.fit import fit_latency

    _deliver(fit_latency(measurements, method=method, date=date), given)


@app.command(cls=Command)
@described(ESTIMATE, problem="table")
def estimate(
    network: str,
    *,
    table: str,
    input_shapes: list[str] | None = None,
    input_values: list[str] | None = None,
    output_format: Format = "table",
    output: str | None = None,
    quiet: bool = False,
) -> None:
    """Sum up the times of a network's layers, beside the measured one if the table has it.

    Example: rramalloc latency estimate squeezenet --table t.json
    """
    given = locals()
    from rramalloc.commands.latency.estimate import estimate_latency
    from rramalloc.importers import load
    from rramalloc.timing.latency_table import load_latency_table

    source = load(network, parse_input_shapes(input_shapes), input_values=parse_input_values(input_values))
    deliver(estimate_latency(source, load_latency_table(table)), given)


def _kinds(auxiliary: list[AuxiliaryChoice] | None) -> tuple[AuxiliaryLayer, ...]:
    return tuple(kind.value for kind in auxiliary or [AuxiliaryChoice.avgpool])


def _deliver(table: LatencyTable, given: MappingOf[str, Any]) -> None:
    """Deliver a table; its CSV is the file that is read back, with the overhead."""
    from rramalloc.timing.latency_table import csv_text

    if given["output_format"] != "csv":
        deliver(table, given)
        return
    with written([] if given["output"] is None else [partial(table.save, given["output"])]):
        typer.echo(csv_text(table), nl=False)
        warn(table.warnings, quiet=given["quiet"])
