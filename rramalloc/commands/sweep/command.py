"""`rramalloc sweep`: networks x budgets x hardware x methods; resumable, here or on a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from rramalloc.choices import By
from rramalloc.cli import EXIT_INTERRUPTED
from rramalloc.cli.live_line import LiveLine
from rramalloc.cli.output import check_names, deliver, names_of, note, print_view_as, written
from rramalloc.cli.parameters import Format, Help, described, of_call, passed
from rramalloc.units import number_of
from rramalloc.view.view import with_columns

if TYPE_CHECKING:
    from rramalloc.commands.sweep.spec import Spec
    from rramalloc.commands.sweep.sweep import SweepResult


_LIVE_EVERY_S = 0.2  # between two changes of the line on a terminal
_PLAIN_EVERY_S = 10.0  # between two lines of progress in a file
SWEEP: Help = {
    "spec": ("SPEC.toml", "File of lists (networks, arrays, methods ...) to be combined."),
    "output": ("DIR", "Folder of the sweep: its database, and at the end its rows."),
    "scheduler": ("ADDRESS", "Dask scheduler to use, e.g. tcp://host:8786."),
    "rows": (None, "File with all rows: rows.csv or rows.parquet (needs pyarrow)."),
    "jobs": ("N", "Processes on this machine; default: one per core."),
    "plot": ("X,Y", "Columns of rows.csv that --figure draws."),
    "status": (None, "Only show how far the sweep in DIR is."),
}


@described(SWEEP, search="scheduler jobs", output="rows plot status")
@of_call(
    "rramalloc.commands.sweep.sweep:sweep",
    outputs="output_format columns caption label plain_units figure figure_width quiet",
    without="folder",
    example="Example: rramalloc sweep spec.toml -o sweep",
)
def command(
    given: dict[str, Any],
    spec: str,
    *,
    output: str,
    quiet: bool,
    output_format: Format,
    columns: str | None,
    figure: str | None,
    figure_width: int | None,
    plot: str = "arrays,makespan",
    by: By | None = None,
    status: bool = False,
) -> None:
    """Run `sweep`, or show how far it is."""
    from rramalloc.commands.sweep.spec import read_spec
    from rramalloc.commands.sweep.sweep import sweep as run_sweep
    from rramalloc.commands.sweep.sweep import sweep_status

    across, _, up = plot.partition(",")
    if not up:
        raise typer.BadParameter(f"--plot must be two columns such as arrays,latency_ns, got {plot[:60]!r}")
    if by is not None and across.strip() != "arrays":
        raise typer.BadParameter(f"--by draws over arrays: give --plot arrays,{up}, got {plot[:60]!r}")
    if status:
        deliver(sweep_status(output), given | {"output": None})
        return
    resolved = read_spec(spec)[0]
    check_names(columns, _known_columns(resolved, output_format, by))
    note(resolved.describe_size(), quiet=quiet)
    try:
        with LiveLine(quiet=quiet, every_s=_PLAIN_EVERY_S, live_every_s=_LIVE_EVERY_S) as line:
            result = run_sweep(
                **passed(given, run_sweep),
                folder=output,
                on_progress=lambda progress: line.show(progress.words),
            )
    except KeyboardInterrupt:
        note("interrupted: finished points are kept, the same command goes on from there")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    note(
        f"{number_of(result.computed, 'point')} computed, {result.points - result.computed} were there",
        quiet=quiet,
    )
    if result.failed:
        note(f"{number_of(result.failed, 'point')} failed; the rows say why, for example:", quiet=quiet)
        for reason in result.reasons():
            note(f"  {reason}", quiet=quiet)

    def draw() -> None:
        result.plot.columns(across.strip(), up.strip(), by=by, save=figure, width=figure_width)

    with written([] if figure is None else [draw]):
        chosen = None if columns is None else names_of(columns)
        if output_format == "json" or (output_format == "csv" and by is None):
            _print_rows(result, output_format, chosen)
            return
        view = result.view(by=by, of=up.strip())
        if chosen is not None:
            view = with_columns(view, chosen, None)
        latex = {"caption": given["caption"], "name": given["label"], "si": not given["plain_units"]}
        print_view_as(view, output_format, quiet=quiet, **latex)


def _known_columns(spec: Spec, output_format: Format, by: By | None) -> Iterable[str]:
    """Return the columns of the table that is printed."""
    from rramalloc.commands.sweep.rows import SweepSummary, columns_of_rows
    from rramalloc.methods.registry import method_names

    if by is not None:
        return "network", "arrays", *method_names()
    return columns_of_rows(spec) if output_format == "csv" else SweepSummary._fields


def _print_rows(result: SweepResult, output_format: Format, chosen: Sequence[str] | None) -> None:
    """Print all rows as CSV or JSON, one at a time in memory; chosen: columns of CSV."""
    if output_format == "csv":
        from rramalloc.commands.sweep.rows import columns_of_rows
        from rramalloc.commands.sweep.sweep import write_csv

        columns = chosen or [*columns_of_rows(result.document.spec)]
        write_csv(sys.stdout, ({name: row[name] for name in columns} for row in result.rows()), columns)
    else:
        sys.stdout.writelines(result.json_parts())
