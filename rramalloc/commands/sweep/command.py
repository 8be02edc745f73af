"""`rramalloc sweep`: networks x budgets x hardware x methods; resumable, here or on a cluster."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from rramalloc.choices import RowsFormat
from rramalloc.cli import EXIT_INTERRUPTED
from rramalloc.cli.live_line import LiveLine
from rramalloc.cli.output import note, print_csv, print_json, print_lines, print_table
from rramalloc.cli.parameters import Format, Help, described, passed
from rramalloc.units import number_of, rounded, share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rramalloc.commands.sweep.rows import SweepStatus
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
def sweep(
    spec: str,
    *,
    output: str,
    scheduler: str | None = None,
    jobs: int | None = None,
    rows: RowsFormat = "csv",
    figure: str | None = None,
    plot: str = "arrays,makespan",
    status: bool = False,
    allow_partial: bool = False,
    output_format: Format = "table",
    quiet: bool = False,
) -> None:
    """Compute every combination of the lists in SPEC.toml; the same command goes on where it was stopped.

    Example: rramalloc sweep spec.toml -o sweep
    """
    given = locals()
    from rramalloc.commands.sweep.spec import read_spec
    from rramalloc.commands.sweep.sweep import sweep as run_sweep
    from rramalloc.commands.sweep.sweep import sweep_status

    across, _, up = plot.partition(",")
    if not up:
        raise typer.BadParameter(f"--plot must be two columns such as arrays,latency_ns, got {plot[:60]!r}")
    if status:
        _print_status(sweep_status(output), output_format)
        return
    note(read_spec(spec)[0].describe_size(), quiet=quiet)
    try:
        with LiveLine(quiet=quiet, every_s=_PLAIN_EVERY_S, live_every_s=_LIVE_EVERY_S) as line:
            result = run_sweep(
                **passed(given, run_sweep),
                folder=output,
                on_progress=lambda progress: line.show(_progress_words(progress)),
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
    if figure is not None:
        result.plot.columns(across.strip(), up.strip(), save=figure)
    _print_result(result, output_format, quiet=quiet)


def _print_result(result: SweepResult, output_format: Format, *, quiet: bool) -> None:
    if output_format == "table":
        columns = ("network", "method", "points", "failed", "best makespan")
        print_table(columns, result.summary(), columns[:2], spare=("points", "failed"), quiet=quiet)
    elif output_format == "csv":
        from rramalloc.commands.sweep.rows import columns_of_rows
        from rramalloc.commands.sweep.sweep import write_csv

        write_csv(sys.stdout, result.rows(), columns_of_rows(result.document.spec))
    else:
        sys.stdout.writelines(result.json_parts())


def _print_status(status: SweepStatus, output_format: Format) -> None:
    if output_format == "json":
        print_json(status.to_dict())
    elif output_format == "csv":
        document = status.to_dict()
        print_csv(list(document), [list(document.values())])
    else:
        print_lines(_lines(status))


def _lines(status: SweepStatus) -> Iterator[tuple[str, str]]:
    if status.name:
        yield "name", status.name
    yield "points", str(status.points)
    yield "done", f"{status.done} ({share(status.done / status.points)})"
    yield "failed", str(status.failed)
    if status.points_per_s is not None and status.left_s is not None:
        yield "rate", f"{rounded(status.points_per_s)} points/s"
        yield "time left", _duration(status.left_s)


def _progress_words(progress: SweepStatus) -> str:
    words = progress.words
    if progress.points_per_s is not None and progress.left_s is not None:
        words += f", {rounded(progress.points_per_s)} points/s, {_duration(progress.left_s)} left"
    return words


def _duration(seconds: float) -> str:
    """Return a duration as "75.0 s", "12 min" or "3.4 h"."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
