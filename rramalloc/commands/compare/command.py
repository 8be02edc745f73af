"""`rramalloc compare`: every method side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

import typer

from rramalloc.choices import ComparedObjective, SearchArguments
from rramalloc.cli import complete
from rramalloc.cli.interrupt import end, interruptible
from rramalloc.cli.live_line import LiveLine
from rramalloc.cli.output import (
    coverage_line,
    hardware_words,
    mapping_words,
    note,
    print_csv,
    print_json,
    print_lines,
    print_table,
)
from rramalloc.cli.parameters import SECONDS, Format, Help, Value, described, passed
from rramalloc.units import area, duration, edp, energy, number_of, plain_quantity, share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rramalloc.commands.compare.comparison import Comparison, Row

COMPARE: Help = {
    "arrays": ("N[,N...]", "Budgets; x2 is twice the minimum; small=512,large=64 of kinds."),
    "methods": (
        Value("A,B,...", completion=complete.method_lists, plugins="rramalloc.methods"),
        "Methods; all that are compared if left out.",
    ),
    "objective": (None, "What methods are judged by."),
    "inputs": ("N", "Judge by the time of so many inputs that stream."),
    "seeds": ("N", "Runs of methods that depend on the seed."),
    "clock": (None, "Measure seconds too: they depend on the machine."),
    "work": ("N", "Effort of every single run at most, in units of 0.05 s of a core."),
    "time_limit_s": (SECONDS, "Stop every single run by the clock, e.g. 30s: machine-dependent."),
}


@described(COMPARE, problem="arrays", goal="objective inputs", search="methods seeds clock")
def compare(
    network: str,
    *,
    arrays: list[str] | None = None,
    objective: ComparedObjective = "latency",
    inputs: int = 1,
    methods: str | None = None,
    seeds: int = 5,
    clock: bool = False,
    output_format: Format = "table",
    output: str | None = None,
    figure: str | None = None,
    quiet: bool = False,
    **shared: Unpack[SearchArguments],
) -> None:
    """Run every method on the same network and budget: exact makespan, and ratio to `auto`.

    Example: rramalloc compare alexnet --arrays 400,x4 --figure alexnet.svg
    """
    given = locals()
    from rramalloc.commands.compare.compare import compare as run_compare
    from rramalloc.commands.compare.compare import progress_words
    from rramalloc.search.work import CancelToken

    given["methods"] = None if methods is None else [name.strip() for name in methods.split(",")]
    cancel = CancelToken()
    with LiveLine(quiet=quiet, every_s=0) as line, interruptible(cancel):
        comparison = run_compare(
            **passed(given, run_compare),
            ending=cancel,
            on_progress=lambda *progress: line.show(progress_words(*progress)),
        )
    if output is not None:
        comparison.save(output)
    if figure is not None and comparison.rows:
        comparison.plot.methods(save=figure)
    _print(comparison, output_format, quiet=quiet)
    for text in _notes(comparison):
        note(text, quiet=quiet)
    end(cancel, line, shown="these are the methods that were ready", quiet=quiet)


def _print(comparison: Comparison, output_format: Format, *, quiet: bool) -> None:
    from rramalloc.commands.compare.comparison import SCALARS
    from rramalloc.timing.metrics import ENERGY_AREA

    if output_format == "json":
        print_json(comparison.to_dict())
    elif output_format == "csv":
        measured = any("edp" in row.model_dump() for row in comparison.rows)
        fields = [field for field in SCALARS if measured or field not in ENERGY_AREA]
        if comparison.hardware.kinds is not None:
            fields.append("kinds")
        print_csv(fields, [[getattr(row, field) for field in fields] for row in comparison.rows])
    else:
        rows = [_cells(row) for row in comparison.rows]
        shown = [name for name in rows[0] if any(row[name] is not None for row in rows)] if rows else []
        cells = [[row[name] for name in shown] for row in rows]
        print_table(shown, cells, ("method", "remark"), spare=_SPARE, quiet=quiet)
        typer.echo()
        print_lines(_summary(comparison))


_SPARE = tuple(
    "published, recurrence, clock s, best, worst, remark, used, work s, interval, area, EDP, "
    "energy, latency".split(", ")
)


def _cells(row: Row) -> dict[str, Any]:
    """Return the table's cells of a row by column; columns without any value are left out."""
    seeded = row.runs > 1
    return {
        "arrays": row.arrays,
        "method": row.method,
        "makespan": row.makespan,
        "ratio": f"{row.ratio:.3f}",
        "interval": row.interval,
        "used": row.used,
        "kinds": row.kinds,
        "recurrence": row.recurrence,
        "published": row.published,
        "latency": None if row.latency_ns is None else duration(row.latency_ns),
        "energy": None if row.energy_pj is None else energy(row.energy_pj),
        "EDP": None if row.edp is None else edp(row.edp),
        "area": None if row.area_um2 is None else area(row.area_um2),
        "work s": None if row.work_s is None else f"{row.work_s:.3f}",
        "clock s": None if row.clock_s is None else f"{row.clock_s:.3f}",
        "best": row.best if seeded else None,
        "worst": row.worst if seeded else None,
        "remark": "repaired" if row.repaired else "",
    }


def _summary(comparison: Comparison) -> Iterator[tuple[str, str]]:
    hardware, chosen = comparison.hardware, comparison.options
    yield "network", comparison.network.name
    yield "hardware", hardware_words(hardware, mapping_words(chosen))
    for budget in comparison.budgets:
        first = comparison.at(budget)[0]
        bound = plain_quantity(first.lower_bound, comparison.objective_unit)
        yield (
            "lower bound",
            f"{bound} with {number_of(budget, 'array')}, {first.method} is within {share(first.gap)}",
        )
    if any(row.runs > 1 for row in comparison.rows):
        yield "seeds", f"{chosen.seeds}: the median run is shown, with the best and the worst makespan"
    if any(row.repaired for row in comparison.rows):
        yield "repaired", "copies were taken away until the allocation fits"
    if any(row.work_s is not None for row in comparison.rows):
        yield "work s", "work counted on a reference core, the same on every machine"
    yield from coverage_line(comparison.coverage)


def _notes(comparison: Comparison) -> Iterator[str]:
    for left in comparison.skipped:
        yield f"skipped {left.method} at {number_of(left.arrays, 'array')}: {left.reason}"
    for warning in comparison.warnings:
        yield f"warning: {warning}"
