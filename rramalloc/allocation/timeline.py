"""Chart: when every stage computes and waits, and the path that makes up the makespan."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rramalloc.allocation.allocation import Allocation, Layer
from rramalloc.allocation.simulation import Simulation
from rramalloc.allocation.timed import BusySpan, Networks, Timed, time_result
from rramalloc.chart import (
    BLUE,
    ORANGE,
    RED,
    Axis,
    Chart,
    Key,
    Lists,
    Marks,
    Panel,
    bars,
    label,
    lists,
    named,
    row_height,
    rule,
)
from rramalloc.importers import NetworkLike
from rramalloc.timing.critical_path import CriticalSegment
from rramalloc.units import LONGEST_NAME, steps
from rramalloc.view.view import FIGURE, Detail

_COMPUTING = Key("computing", BLUE)
_WAITING = Key("waiting for input", ORANGE)
_WAITING_SUM = Key("waiting for input (sum)", ORANGE)
_CRITICAL = Key("critical path", RED)
_FEW_ROWS = 45  # stages; with more the reader can also zoom into rows


def timeline_chart(
    result: Allocation | Simulation,
    network: NetworkLike | None = None,
    *,
    timed: Timed | None = None,
    detail: Detail = FIGURE,
) -> Chart | None:
    """Chart one row a stage in network order, from its start to its finish.

    Every pause is drawn where it is if the times of single batches are given as `timed`, or follow from the
    network, given or shipped; else a stage's waiting is one bar after its computing.
    """
    if not result.layers:
        return None
    timed = timed or time_result(result, Networks([] if network is None else [network]), result.network.name)
    stages = result.layers[: detail.marks]
    names = [stage.name for stage in stages]
    runs, joined = ([], 0) if timed is None else timed.runs(detail.marks // 2)
    runs = [run for run in runs if run.stage < len(names)]
    layers = _exact(names, runs) if runs else _summed(stages)
    if timed is not None:
        layers += _critical(names, timed.path)
    note = "The dashed line is the makespan."
    if joined:
        note += f" Pauses of up to {steps(joined, result.time_unit)} are drawn as computing."
    if not runs:
        note += " Waiting is drawn together at the end of each bar: with the network it is drawn where it is."
    time = Axis("time [steps]", 0, max(1, result.makespan) * 1.01)
    rows = Axis.of_names(names, numbered=True)
    panel = Panel(time, rows, row_height(len(names)), (*layers, rule(result.makespan, "x")))
    return Chart(
        title="Pipeline timeline",
        panels=(panel,),
        summary=_summary(stages, result.makespan),
        heading=_heading(result),
        zoom="xy" if len(names) > _FEW_ROWS else "x",
        note=note,
    )


def _exact(names: Sequence[str], runs: Sequence[BusySpan]) -> list[Marks]:
    busy: Lists = {
        "row": [run.stage for run in runs],
        "layer": [names[run.stage] for run in runs],
        **lists(runs, "left=start, right=finish, batches"),
    }
    pairs = [(one, two) for one, two in pairwise(runs) if one.stage == two.stage]
    waits: Lists = {
        "row": [one.stage for one, _ in pairs],
        "layer": [names[one.stage] for one, _ in pairs],
        "left": [one.finish for one, _ in pairs],
        "right": [two.start for _, two in pairs],
    }
    span = named("layer, from step=left, to step=right")
    computing = bars(busy, "left", "right", key=_COMPUTING, hover=span | {"batches": "batches"})
    if not pairs:
        return [computing]
    return [computing, bars(waits, "left", "right", key=_WAITING, hover=span, thick=0.4)]


def _summed(stages: Sequence[Layer]) -> list[Marks]:
    """Return bars as far as an allocation alone says."""
    data: Lists = {
        "row": list(range(len(stages))),
        **lists(stages, "layer=name, start"),
        "end": [stage.start + stage.normal_op for stage in stages],
        **lists(stages, "finish, batches"),
        "waits": [max(0, stage.finish - stage.start - stage.normal_op) for stage in stages],
    }
    hover = named("layer, start, finish, batches, waits")
    return [
        bars(data, "start", "end", key=_COMPUTING, hover=hover),
        bars(data, "end", "finish", key=_WAITING_SUM, hover=hover, thick=0.4),
    ]


def _critical(names: Sequence[str], segments: Sequence[CriticalSegment]) -> list[Marks]:
    """Draw the segments that the makespan waits for, and lines from each to the next."""
    rows = {name: row for row, name in enumerate(names)}
    path = [segment for segment in segments if segment.stage in rows]
    if not path:
        return []
    data: Lists = {
        "row": [rows[segment.stage] for segment in path],
        **lists(path, "layer=stage, left=start, right=finish, batches"),
        "waits": [
            f"pixel ({segment.row}, {segment.column}) of {segment.waits_for}"
            if segment.waits_for
            else "the input"
            for segment in path
        ],
    }
    joints: Lists = {
        "x": [two.start for _, two in pairwise(path)],
        "from": [rows[one.stage] for one, _ in pairwise(path)],
        "to": [rows[two.stage] for _, two in pairwise(path)],
    }
    hover = named("critical path=layer, from step=left, to step=right, batches, waits for=waits")
    links = {"x": "x", "y": "from", "y2": "to"}
    return [
        bars(data, "left", "right", key=_CRITICAL, hover=hover, thick=0.26),
        Marks({"type": "rule", "strokeWidth": 1.5}, joints, links, _CRITICAL),
    ]


def _heading(result: Allocation | Simulation) -> tuple[str, ...]:
    """Return the network and makespan, and which stages start and finish last."""
    makespan = steps(result.makespan, result.time_unit)
    first = f"{label(result.network.name)}: {makespan}, interval {result.interval:,}"
    if len(result.layers) < 2:
        return (first,)
    started = max(result.layers, key=lambda stage: stage.start)
    ended = max(result.layers, key=lambda stage: stage.finish)
    last = f"last to start: {label(started.name, LONGEST_NAME)} at {started.start:,}; "
    return first, f"{last}last to finish: {label(ended.name, LONGEST_NAME)} at {ended.finish:,}"


def _summary(stages: Sequence[Layer], makespan: int) -> str:
    if not stages:
        return ""
    started = max(stages, key=lambda stage: stage.start)
    ended = max(stages, key=lambda stage: stage.finish)
    return (
        f"Bars from start to finish of {len(stages)} stages over {makespan:,} steps. Last to start is "
        f"{started.name} at {started.start:,}, last to finish {ended.name} at {ended.finish:,}. "
        f"The table of layers has every start and finish."
    )
