"""Chart of the pipeline: when every stage computes and waits, and the path that makes up the makespan."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from rramalloc.report import style
from rramalloc.report.page import charts
from rramalloc.report.page.parts import Chart, Detail, Zoom
from rramalloc.report.page.timed import Run, Timed
from rramalloc.results.allocation import Allocation, Layer
from rramalloc.results.simulation import CriticalSegment, Simulation
from rramalloc.units import steps

_WAIT = "#E69F00"
_FEW_ROWS = 45


def timeline_chart(result: Allocation | Simulation, timed: Timed | None, detail: Detail) -> Chart:
    """One row a stage in network order, from its start to its finish."""
    layers = result.layers[: detail.marks]
    names = [layer.name for layer in layers]
    both = len(layers) > _FEW_ROWS
    drawn = charts.figure(
        charts.row_height(len(layers)),
        "time [steps]",
        drag="box_zoom" if both else "xbox_zoom",
        x_range=(0, max(1, result.makespan) * 1.01),
    )
    charts.factors(drawn, names, "y")
    runs, joined = ([], 0) if timed is None else timed.runs(detail.marks // 2)
    if runs:
        entries = _exact(drawn, names, [run for run in runs if run.stage < len(names)])
    else:
        entries = _summed(drawn, layers)
    if timed is not None:
        entries += _critical(drawn, names, timed.path)
    charts.ink(drawn, result.makespan)
    note = "The dashed line is the makespan."
    if joined:
        note += f" Pauses of up to {steps(joined)} are drawn as computing."
    if not runs:
        note += " Waiting is drawn together at the end of each bar: with --network it is drawn where it is."
    zoom: Zoom = "xy" if both else "x"
    summary = _summary(layers, result.makespan)
    return Chart("Pipeline timeline", (drawn,), summary, zoom, note, charts.keys(entries))


def _exact(drawn: Any, names: Sequence[str], runs: Sequence[Run]) -> list[tuple[str, list[Any]]]:
    busy: charts.Lists = {
        "row": [run.stage for run in runs],
        "layer": [names[run.stage] for run in runs],
        "left": [run.start for run in runs],
        "right": [run.finish for run in runs],
        "batches": [run.batches for run in runs],
    }
    pairs = [(one, two) for one, two in pairwise(runs) if one.stage == two.stage]
    waits: charts.Lists = {
        "row": [one.stage for one, _ in pairs],
        "layer": [names[one.stage] for one, _ in pairs],
        "left": [one.finish for one, _ in pairs],
        "right": [two.start for _, two in pairs],
        "length": [two.start - one.finish for one, two in pairs],
    }
    first = _bars(drawn, busy, style.BLUE)
    charts.hover(
        drawn,
        [first],
        [("layer", "@layer"), ("computes", "@left{0,0} to @right{0,0}"), ("batches", "@batches{0,0}")],
    )
    entries = [("computing", [first])]
    if pairs:
        second = _bars(drawn, waits, _WAIT, height=0.4)
        charts.hover(
            drawn,
            [second],
            [("layer", "@layer"), ("waits", "@left{0,0} to @right{0,0}"), ("steps", "@length{0,0}")],
        )
        entries.append(("waiting for input", [second]))
    return entries


def _summed(drawn: Any, layers: Sequence[Layer]) -> list[tuple[str, list[Any]]]:
    """Bars as far as an allocation alone tells: a stage's waiting together, at the end of its bar."""
    rows, names = list(range(len(layers))), [layer.name for layer in layers]
    ends = [layer.start + layer.batches for layer in layers]
    common: charts.Lists = {"row": rows, "layer": names, "batches": [layer.batches for layer in layers]}
    spans = {"start": [layer.start for layer in layers], "finish": [layer.finish for layer in layers]}
    told = [
        ("layer", "@layer"),
        ("start, finish", "@start{0,0}, @finish{0,0}"),
        ("batches", "@batches{0,0}"),
        ("waits", "@length{0,0} steps"),
    ]
    waits = [max(0, layer.finish - end) for layer, end in zip(layers, ends, strict=True)]
    common |= spans | {"length": waits}
    first = _bars(drawn, common | {"left": spans["start"], "right": ends}, style.BLUE)
    second = _bars(drawn, common | {"left": ends, "right": spans["finish"]}, _WAIT, height=0.4)
    charts.hover(drawn, [first, second], told)
    return [("computing", [first]), ("waiting for input (sum)", [second])]


def _critical(
    drawn: Any, names: Sequence[str], segments: Sequence[CriticalSegment]
) -> list[tuple[str, list[Any]]]:
    """The segments that the makespan waits for, and lines from each to the next."""
    rows = {name: row for row, name in enumerate(names)}
    path = [segment for segment in segments if segment.stage in rows]
    if not path:
        return []
    columns: charts.Lists = {
        "row": [rows[segment.stage] for segment in path],
        "layer": [segment.stage for segment in path],
        "left": [segment.start for segment in path],
        "right": [segment.finish for segment in path],
        "batches": [segment.batches for segment in path],
        "waits": [
            "the input"
            if each.waits_for is None
            else f"pixel ({each.row}, {each.column}) of {each.waits_for}"
            for each in path
        ],
    }
    marked = _bars(drawn, columns, style.RED, height=0.26)
    joints: dict[str, list[int]] = {"x0": [], "y0": [], "y1": []}
    for one, two in pairwise(path):
        joints["x0"].append(two.start)
        joints["y0"].append(rows[one.stage])
        joints["y1"].append(rows[two.stage])
    links = drawn.segment(
        x0="x0", x1="x0", y0="y0", y1="y1", source=charts.source(joints), line_color=style.RED, line_width=1.5
    )
    charts.hover(
        drawn,
        [marked],
        [
            ("critical path", "@layer"),
            ("steps", "@left{0,0} to @right{0,0}"),
            ("batches", "@batches{0,0}"),
            ("waits for", "@waits"),
        ],
    )
    return [("critical path", [marked, links])]


def _bars(drawn: Any, columns: charts.Columns, colour: str, height: float = 0.72) -> Any:
    return drawn.hbar(
        y="row",
        left="left",
        right="right",
        height=height,
        source=charts.source(columns),
        fill_color=colour,
        line_color=None,
    )


def _summary(layers: Sequence[Layer], makespan: int) -> str:
    if not layers:
        return ""
    started = max(layers, key=lambda layer: layer.start)
    ended = max(layers, key=lambda layer: layer.finish)
    return (
        f"Bars from start to finish of {len(layers)} stages over {makespan:,} steps. Last to start is "
        f"{started.name} at {started.start:,}, last to finish {ended.name} at {ended.finish:,}. "
        f"The table of layers has every start and finish."
    )
