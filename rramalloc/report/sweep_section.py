"""Section of a sweep: makespan against arrays for every network and method, and a summary of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rramalloc.chart import SERIES, SHAPES, Axis, Chart, Key, Lists, Marks, Panel, label
from rramalloc.report.section import Column, Detail, Fact, Note, Section, Table, network_words, shown, thinned
from rramalloc.studies.sweep.rows import SweepDocument, SweepRow, summarise
from rramalloc.units import counted

_MOST_SERIES = 12
_VARIES = (
    "network",
    "method",
    "hardware",
    "crossbar",
    "cell_bits",
    "bandwidth_gb_s",
    "mapping",
    "fc",
    "objective",
    "seed",
)


def sweep_section(document: SweepDocument, detail: Detail) -> Section:
    """Headline, one line a combination, the smallest makespans, all rows."""
    rows = document.rows or ()
    failed = [row for row in rows if row.error_kind is not None]
    done = [row for row in rows if row.makespan is not None and row.arrays is not None]
    name = document.spec.name or "sweep"
    blocks: list[Any] = []
    if document.rows is None:
        blocks.append(Note("This file has no rows: name the folder of the sweep."))
    if done:
        blocks.append(_chart(done, detail))
    if rows:
        blocks += [_summary(rows, detail), _table(rows, detail)]
    if failed:
        kinds = {f"{row.error_kind}: {row.error}": row for row in failed}
        blocks.append(
            shown(Table("Errors", (Column("First of each kind"),), [(text,) for text in kinds]), detail)
        )
    return Section(
        title=f"{name}: {counted(document.points, 'point')}",
        subtitle="Sweep",
        facts=(
            Fact("Points", f"{document.points:,}", f"{len(failed):,} failed"),
            Fact("Networks", f"{len(document.networks):,}"),
            Fact("Hardware", f"{len(document.hardware):,}"),
        ),
        blocks=tuple(blocks),
        headline=f"{counted(document.points, 'point')}, {len(failed):,} failed",
        made=(
            *(("Network", network_words(network)) for network in document.networks),
            ("rramalloc", document.rramalloc_version),
        ),
    )


def _series(rows: Sequence[SweepRow]) -> dict[str, list[SweepRow]]:
    """Rows by what varies beside the arrays, named by it, rising in arrays."""
    varies = [field for field in _VARIES if len({getattr(row, field) for row in rows}) > 1] or ["method"]
    found: dict[str, list[SweepRow]] = {}
    for row in rows:
        found.setdefault(", ".join(str(getattr(row, field)) for field in varies), []).append(row)
    return {name: sorted(each, key=lambda row: row.arrays or 0) for name, each in found.items()}


def _chart(rows: Sequence[SweepRow], detail: Detail) -> Chart:
    series = _series(rows)
    arrays = [row.arrays or 1 for row in rows]
    spans = [row.makespan or 1 for row in rows]
    layers = []
    for place, (name, each) in enumerate(list(series.items())[:_MOST_SERIES]):
        kept = [each[at] for at in thinned(len(each), max(2, detail.marks // _MOST_SERIES))]
        data: Lists = {
            "arrays": [row.arrays for row in kept],
            "makespan": [row.makespan for row in kept],
            "bound": [row.lower_bound if row.objective_unit != "ns" else None for row in kept],
            "series": [name] * len(kept),
        }
        shape = SHAPES[(place + place // len(SERIES)) % len(SHAPES)]
        key = Key(label(name, 60), SERIES[place % len(SERIES)], shape)
        at = {"x": "arrays", "y": "makespan"}
        hover = {"of": "series", "arrays": "arrays", "makespan": "makespan", "lower bound": "bound"}
        layers.append(Marks({"type": "line"}, data, at, key))
        points = {"type": "point", "filled": True, "opacity": 1, "size": 45}
        layers.append(Marks(points, data, at | {"shape": {}}, key, hover))
    across, up = Axis.around("arrays", arrays, whole=True), Axis.around("makespan [steps]", spans)
    note = ""
    if len(series) > _MOST_SERIES:
        note = f"The first {_MOST_SERIES} of {len(series):,} combinations are drawn."
    summary = (
        f"Lines of makespan over arrays for {counted(len(series), 'combination')}; the table has all values."
    )
    panel = Panel(across, up, 320, tuple(layers))
    return Chart("Makespan against arrays", (panel,), summary, zoom="xy", note=note)


def _summary(rows: Sequence[SweepRow], detail: Detail) -> Table:
    lines = summarise((row.network, row.method, row.makespan) for row in rows)
    heads = (
        Column("Network"),
        Column("Method"),
        Column("Points", "int"),
        Column("Failed", "int"),
        Column("Smallest makespan", "int"),
    )
    return shown(Table("Summary", heads, lines, folded=False), detail)


def _table(rows: Sequence[SweepRow], detail: Detail) -> Table:
    names = (
        "network",
        "hardware",
        "crossbar",
        "mapping",
        "arrays",
        "objective",
        "method",
        "seed",
        "used",
        "makespan",
        "lower_bound",
        "gap",
        "interval",
        "latency_ns",
        "error_kind",
    )
    kinds: dict[str, Any] = {
        "arrays": "int",
        "seed": "int",
        "used": "int",
        "makespan": "int",
        "lower_bound": "float" if any(row.objective_unit == "ns" for row in rows) else "int",
        "gap": "percent",
        "interval": "int",
        "latency_ns": "float",
    }
    fields = [name for name in names if any(getattr(row, name) is not None for row in rows)]
    heads = tuple(Column(name.replace("_", " ").capitalize(), kinds.get(name, "text")) for name in fields)
    return shown(Table("Rows", heads, [[getattr(row, name) for name in fields] for row in rows]), detail)
