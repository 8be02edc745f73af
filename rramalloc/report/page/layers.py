"""Table and chart of the layers of an allocation: copies, arrays, and what each takes of the makespan."""

from __future__ import annotations

from collections.abc import Sequence

from rramalloc.report import style
from rramalloc.report.page import charts
from rramalloc.report.page.parts import Chart, Column, Detail, Table, shown
from rramalloc.results.allocation import Layer

_LINEAR = 100
"""Copies up to which their axis is linear."""
_TOLD = (
    ("layer", "@layer"),
    ("replication", "@copies{0,0}"),
    ("arrays", "@arrays{0,0} (@held{0.0} %)"),
    ("batches", "@batches{0,0} (@share{0.0} % of the makespan)"),
)
_FEW = 150
"""Layers up to which marks have an outline."""
_NAMED = 30
"""Layers up to which the axis has their names; beyond, their numbers."""


def layer_table(layers: Sequence[Layer], makespan: int, detail: Detail) -> Table:
    """One row per layer; folds where filters are folded."""
    used = max(1, sum(layer.arrays for layer in layers))
    folded = any(layer.fold is not None for layer in layers)
    columns = [
        Column("#", "int"),
        Column("Layer"),
        Column("Windows", "int"),
        Column("Demand", "int"),
        Column("Replication", "int"),
        Column("Arrays", "int"),
        Column("Share of arrays", "percent"),
        Column("Batches", "int"),
        Column("Share of makespan", "percent"),
        Column("Start", "int"),
        Column("Finish", "int"),
        Column("Stall", "int"),
        *([Column("Fold")] if folded else []),
    ]
    rows = []
    for number, layer in enumerate(layers, 1):
        row: list[object] = [
            number,
            layer.name,
            layer.windows,
            layer.demand,
            layer.replication,
            layer.arrays,
            layer.arrays / used,
            layer.batches,
            layer.batches / max(1, makespan),
            layer.start,
            layer.finish,
            max(0, layer.finish - layer.start - layer.batches),
        ]
        if folded:
            row.append("x".join(map(str, layer.fold or (1, 1))))
        rows.append(row)
    note = "Demand: arrays of one copy. Batches, start, finish and stall are in steps."
    return shown(Table("Layers", tuple(columns), rows, note, folded=False), detail)


def replication_chart(layers: Sequence[Layer], makespan: int, detail: Detail) -> Chart:
    """Copies of every layer, and the share of the makespan and of the arrays that it takes."""
    from bokeh.models import Range1d

    kept = list(layers[: detail.marks])
    data = charts.source(_columns(kept, max(1, sum(layer.arrays for layer in layers)), max(1, makespan)))
    across = Range1d(0.4, len(kept) + 0.6)
    few = len(kept) <= _FEW
    log = max(layer.replication for layer in kept) > _LINEAR
    top = charts.figure(210, "", "replication", y_log=log)
    low = charts.figure(260, "layer, in network order", "share [%]")
    look = {"x": "place", "width": 0.8, "source": data, "line_color": None}
    bars = top.vbar(top="copies", bottom=0.7 if log else 0, fill_color=style.BLUE, **look)
    busy = low.vbar(top="share", fill_color=style.SKY, **look)
    dots = {"x": "place", "y": "held", "source": data, "line_color": "black" if few else None}
    marks = low.scatter(size=9 if few else 4, marker="diamond", fill_color=style.ORANGE, **dots)
    for drawn, shown_as in ((top, bars), (low, busy)):
        charts.hover(drawn, [shown_as], _TOLD)
        drawn.x_range = across
        drawn.xgrid.grid_line_color = None
    entries = (("replication", [bars]), ("share of the makespan", [busy]), ("share of the arrays", [marks]))
    top.xaxis.visible = False
    if not log:
        top.yaxis.ticker.min_interval = 1
    if len(kept) <= _NAMED:
        low.xaxis.major_label_orientation = 1.05
        low.height += 60
        low.xaxis.ticker = list(range(1, len(kept) + 1))
        low.xaxis.major_label_overrides = {n: charts.text(layer.name) for n, layer in enumerate(kept, 1)}
    return Chart(
        "Replication and share of the makespan",
        (top, low),
        _summary(kept, makespan),
        keys=charts.keys(entries),
    )


def _columns(layers: Sequence[Layer], used: int, makespan: int) -> charts.Lists:
    return charts.columns(
        {
            "place": place,
            "layer": layer.name,
            "copies": layer.replication,
            "arrays": layer.arrays,
            "held": round(100 * layer.arrays / used, 3),
            "share": round(100 * layer.batches / makespan, 3),
            "batches": layer.batches,
        }
        for place, layer in enumerate(layers, 1)
    )


def _summary(layers: Sequence[Layer], makespan: int) -> str:
    most = max(layers, key=lambda layer: layer.replication)
    busiest = max(layers, key=lambda layer: layer.batches)
    return (
        f"Bars of the copies of {len(layers)} layers: most has {most.name} with {most.replication:,}. "
        f"{busiest.name} computes longest, {busiest.batches:,} of {makespan:,} steps."
    )
