"""View of a sweep: makespan against arrays for every network and method, and a summary of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import get_args

from rramalloc.chart import SERIES, SHAPES, Axis, Chart, Key, Lists, Marks, Panel, label, labels, named
from rramalloc.choices import By
from rramalloc.commands.sweep.rows import (
    COLUMNS,
    SweepDocument,
    SweepRow,
    SweepStatus,
    SweepSummary,
    summarise,
)
from rramalloc.errors import SpecError
from rramalloc.methods.registry import method_names
from rramalloc.records import brief
from rramalloc.result import Result
from rramalloc.units import counted, rounded, share, span, unit_of, words_of
from rramalloc.view.pivot import Cell, pivot_chart, pivot_table
from rramalloc.view.view import FIGURE, Detail, Draw, Fact, Table, View, table, thinned

_MOST_SERIES = len(SERIES) * len(SHAPES)  # each line has a colour and a shape of its own
_LONGEST_SERIES = 60  # characters of a line's name in the legend
_MOST_GROUPS = 8  # pairs of a network and a hardware, each with its charts
_NUMBERS = tuple(name for name, kind in COLUMNS.items() if {int, float} & {kind, *get_args(kind)})
"""Columns that can be drawn against each other."""
_VARIES = tuple(
    "network method hardware crossbar cell_bits bandwidth_gb_s weight_bits dac_bits columns_per_adc "
    "rows_per_read clock mapping fc objective seed".split()
)
_SHOWN = tuple(
    "network hardware crossbar mapping arrays objective method seed used makespan lower_bound gap interval "
    "latency_ns energy_pj edp area_um2 utilisation error_kind".split()
)


def sweep_view(document: SweepDocument) -> View:
    """Return the view: one line a combination, the smallest makespans, all rows."""
    rows = document.rows or ()
    failed = [row for row in rows if row.error_kind is not None]
    kinds = {f"{row.error_kind}: {row.error}": row for row in failed}
    errors = table("Errors", [*kinds], "first of each kind=error", shown=0, error=str)
    every = table("Rows", rows, ", ".join((*_SHOWN, *_dotted(rows))), shown=0)
    return View.of(
        document,
        kind="Sweep",
        title=f"{document.spec.name or 'sweep'}: {counted(document.points, 'point')}",
        facts=(
            Fact("points", document.points, note=f", {len(failed):,} failed"),
            Fact("networks", len(document.networks)),
            Fact("hardware", len(document.hardware)),
        ),
        tables=(_summary(summarise(rows)), every, errors),
        charts=_charts(rows),
        notes=_notes(document),
    )


def _notes(document: SweepDocument) -> Iterator[str]:
    """Yield what a page lacks: rows, or charts of some of their groups."""
    if document.rows is None:
        yield "this file has no rows: name the folder of the sweep"
    groups = len(_groups(document.rows or ()))
    if groups > _MOST_GROUPS:
        yield f"charts: the first {_MOST_GROUPS} of {groups} pairs of network and hardware; the table has all"


def result_view(
    result: Result,
    summary: Sequence[SweepSummary],
    reasons: Iterable[str],
    read: Callable[[], Iterator[SweepRow]],
    *,
    by: By | None = None,
    of: str = "makespan",
) -> View:
    """Return the view of a folder: the smallest makespan of every network and method.

    reasons: why points have failed; read: reads all rows; by: a table of the column `of` by method instead.
    """
    return View.of(
        result,
        kind="Sweep",
        tables=[pivot_table(_cells([*read()], of), unit_of(of)) if by else _summary(summary)],
        charts={"columns": partial(columns_chart, read)},
        notes=(f"failed: {reason}" for reason in reasons),
    )


def _summary(lines: Sequence[SweepSummary]) -> Table:
    columns = "network, method, points, failed, best makespan=makespan"
    return table("Summary", lines, columns, spare="points failed")


def status_view(status: SweepStatus) -> View:
    """Return the view of a sweep's progress."""
    row = table("Status", [status], "format, name, points, done, failed, points_per_s, left_s", shown=0)
    return View.of(status, kind="Sweep", facts=_progress(status), tables=(row,))


def _progress(status: SweepStatus) -> Iterator[Fact]:
    if status.name:
        yield Fact("name", status.name)
    yield Fact("points", status.points)
    yield Fact("done", status.done, note=f"({share(status.done / status.points)})")
    yield Fact("failed", status.failed)
    if status.points_per_s is not None and status.left_s is not None:
        yield Fact("rate", f"{rounded(status.points_per_s)} points/s")
        yield Fact("time left", span(status.left_s))


def sweep_chart(rows: Sequence[SweepRow], x: str, y: str, of: str = "", *, detail: Detail = FIGURE) -> Chart:
    """Draw a column of the rows against another, one line for everything else that varies.

    of: what all rows are about, for the heading. Raises SpecError for what is no column of numbers.
    """
    dotted = _dotted(rows)
    for name in (x, y):
        _check_column(rows, name)
    there = [row for row in rows if getattr(row, x) is not None and getattr(row, y) is not None]
    if not there:
        raise SpecError("plot", f"no row of the sweep has both {x!r} and {y!r}")
    varies = [name for name in (*_VARIES, *dotted) if name != x]
    differ = [name for name in varies if len({getattr(row, name) for row in there}) > 1]
    series: dict[str, list[SweepRow]] = {}
    for row in there:
        series.setdefault(", ".join(str(getattr(row, name)) for name in differ or ["method"]), []).append(row)
    layers = []
    shown = labels([*series], _LONGEST_SERIES)[:_MOST_SERIES]
    for place, (text, (name, members)) in enumerate(zip(shown, series.items(), strict=False)):
        rising = sorted(members, key=lambda row: getattr(row, x))
        kept = [rising[at] for at in thinned(len(members), max(2, detail.marks // _MOST_SERIES))]
        data: Lists = {
            "x": [getattr(row, x) for row in kept],
            "y": [getattr(row, y) for row in kept],
            "bound": [row.lower_bound for row in kept],
            "objective": [f"{row.objective} [{row.objective_unit}]" for row in kept],
            "series": [name] * len(kept),
        }
        shape = SHAPES[(place + place // len(SERIES)) % len(SHAPES)]
        key = Key(text, SERIES[place % len(SERIES)], shape)
        at = {"x": "x", "y": "y"}
        hover = named(f"of=series, {x}=x, {y}=y, objective, lower bound=bound")
        layers.append(Marks({"type": "line"}, data, at, key))
        points = {"type": "point", "filled": True, "opacity": 1, "size": 45}
        layers.append(Marks(points, data, at | {"shape": {}}, key, hover))
    places = [getattr(row, x) for row in there]
    is_counted = all(isinstance(place, int) for place in places)
    across = Axis.around(words_of(x), places, unit=unit_of(x), integers=is_counted)
    up = Axis.around(words_of(y), [getattr(row, y) for row in there], unit=unit_of(y))
    heading: tuple[str, ...] = (label(of, 80),) if of else ()
    if len(series) > _MOST_SERIES:
        heading += (f"the first {_MOST_SERIES} of {len(series):,} combinations",)
    title = f"{words_of(y)} against {words_of(x)}"
    summary = f"{title} for {counted(len(series), 'combination')}; the table has all values."
    panel = Panel(across, up, 320, tuple(layers))
    return Chart(f"{title[0].upper()}{title[1:]}", (panel,), summary, heading, zoom="xy")


def _dotted(rows: Sequence[SweepRow]) -> tuple[str, ...]:
    """Return the columns with dotted names, which all rows of a sweep have."""
    return tuple(rows[0].dotted) if rows else ()


def columns_chart(
    read: Callable[[], Iterator[SweepRow]],
    x: str = "arrays",
    y: str = "makespan",
    *,
    by: By | None = None,
    detail: Detail = FIGURE,
) -> Chart:
    """Draw a column of the rows of a sweep against another; by: in small multiples, over arrays.

    Raises SpecError.
    """
    if by is not None:
        if x != "arrays":
            raise SpecError("plot", f"--by draws over arrays: give arrays,{y} in place of {brief(x)}")
        cells = _cells([*read()], y)
        return pivot_chart(cells, by, words_of(y), unit_of(y), f"sweep: {words_of(y)}", method_names())
    return sweep_chart([*read()], x, y, detail=detail)


def _cells(rows: Sequence[SweepRow], of: str) -> list[Cell]:
    """Return a column by network, budget and method; what else varies goes with the network's name.

    Raises SpecError.
    """
    _check_column(rows, of)
    there = [row for row in rows if getattr(row, of) is not None]
    if not there:
        raise SpecError("plot", f"no row of the sweep has {of!r}")
    varies = [name for name in (*_VARIES, *_dotted(rows)) if name not in ("network", "method")]
    differ = ["network", *(name for name in varies if len({getattr(row, name) for row in there}) > 1)]
    return [
        Cell(
            ", ".join(str(getattr(row, name)) for name in differ),
            row.arrays if row.arrays is not None and row.arrays_asked.isdigit() else row.arrays_asked,
            row.method,
            getattr(row, of),
        )
        for row in there
    ]


def _check_column(rows: Sequence[SweepRow], name: str) -> None:
    """Raise SpecError for what is no column of numbers."""
    dotted = _dotted(rows)
    if name not in (*_NUMBERS, *dotted) or any(isinstance(getattr(row, name), str) for row in rows):
        known = ", ".join((*_NUMBERS, *dotted))
        raise SpecError("plot", f"{brief(name)} is no column of numbers; there are {known}")


def _groups(rows: Sequence[SweepRow]) -> dict[tuple[str, str], list[SweepRow]]:
    """Return the rows that can be drawn by network and hardware, whose steps may differ in length."""
    groups: dict[tuple[str, str], list[SweepRow]] = {}
    for row in rows:
        if row.makespan is not None and row.arrays is not None:
            groups.setdefault((row.network, row.hardware), []).append(row)
    return groups


def _charts(rows: Sequence[SweepRow]) -> dict[str, Draw]:
    """Return charts of latency over arrays, a chart for each network and hardware."""
    charts: dict[str, Draw] = {}
    for (network, hardware), points in list(_groups(rows).items())[:_MOST_GROUPS]:
        of = f"{network} on {hardware}"
        timed = all(row.latency_ns is not None for row in points)
        up = "latency_ns" if timed else "makespan"
        charts[f"{network} {hardware}"] = partial(sweep_chart, points, "arrays", up, of)
        if timed and any(row.energy_pj is not None for row in points):
            charts[f"{network} {hardware} energy"] = partial(
                sweep_chart, points, "latency_ns", "energy_pj", of
            )
    return charts
