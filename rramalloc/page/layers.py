"""The layers of an allocation as charts and tables: copies, arrays, time, and the buffers between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from rramalloc.allocation.allocation import Allocation, Layer
from rramalloc.allocation.simulation import Simulation
from rramalloc.chart import (
    BLUE,
    GREEN,
    ORANGE,
    SKY,
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
)
from rramalloc.columns import Column
from rramalloc.page.section import FIGURE, Block, Detail, Fact, Note, Table, block_words, table
from rramalloc.page.timed import Timed
from rramalloc.page.timeline import timeline_chart
from rramalloc.timing.buffers import BufferedEdge
from rramalloc.timing.metrics import energy_parts
from rramalloc.units import area, counted, duration, energy, rounded, size, steps

_LINEAR = 100
"""Copies up to which their axis is linear."""
_NAMED = 30
"""Layers up to which the axis has their names; beyond, their numbers."""
_LACKS = (
    "Where each stage waits, the critical path and buffers are not shown: they need the network, and none "
    "that ships has this hash. Give its file with --network."
)
_MOST_BUFFERS = 24  # bars of a chart; the table has all edges


def copies_chart(result: Allocation | Simulation, detail: Detail = FIGURE) -> Chart:
    """Chart the copies of every layer, and the share of the makespan and of the arrays that it takes."""
    layers, makespan = result.layers[: detail.marks], max(1, result.makespan)
    used = max(1, sum(layer.arrays for layer in result.layers))
    most = max(layer.copies for layer in layers)
    scale: Literal["linear", "log"] = "log" if most > _LINEAR else "linear"
    data: Lists = {
        "place": list(range(len(layers))),
        **lists(layers, "layer=name, copies, arrays"),
        "held": [round(100 * layer.arrays / used, 3) for layer in layers],
        "share": [round(100 * layer.normal_op / makespan, 3) for layer in layers],
        "batches": [layer.batches for layer in layers],
    }
    shares = "share of the arrays [%]=held, batches, share of the makespan [%]=share"
    hover = named(f"layer, copies, arrays, {shares}")
    if any(layer.block is not None for layer in layers):
        data |= {
            "block": [block_words(layer.block) for layer in layers],
            "full": [round(100 * (layer.utilisation or 0), 3) for layer in layers],
        }
        hover |= named("block, utilisation of the arrays [%]=full")
    sides = {"left": "datum.place - 0.4", "right": "datum.place + 0.4"}

    def columns(top: str, low: float, key: Key) -> Marks:
        across = {"x": "left", "x2": "right", "y": top, "y2": {"datum": low}}
        return Marks({"type": "rect"}, data, across, key, hover, sides)

    names = tuple(label(layer.name) for layer in layers) if len(layers) <= _NAMED else ()
    across = Axis("layer, in network order", -0.6, len(layers) - 0.4, names=names, whole=True)
    least = 0.7 if scale == "log" else 0.0
    copies = Axis("copies", least, most * 1.1, scale, whole=True)
    highest = max(1.0, *data["share"], *data["held"])
    diamonds = {"type": "point", "filled": True, "size": 50, "opacity": 1}
    points = {"x": "place", "y": "held", "shape": {}}
    held = Marks(diamonds, data, points, Key("share of the arrays", ORANGE, "diamond"), hover)
    share = (columns("share", 0, Key("share of the makespan", SKY)), held)
    bars_of_copies = columns("copies", least, Key("copies", BLUE))
    panels = (
        Panel(replace(across, title="", shown=False), copies, 150, (bars_of_copies,)),
        Panel(across, Axis("share [%]", 0, min(100, highest * 1.1)), 150, share),
    )
    return Chart(
        "Copies and share of the makespan", panels, _summary(layers, result.makespan), _heading(result)
    )


def _given(value: float | None, words: Callable[[float], str]) -> str:
    return "not given" if value is None else words(value)


def _heading(result: Allocation | Simulation) -> tuple[str, ...]:
    arrays = counted(result.arrays, "array") if isinstance(result, Simulation) else result.arrays.words
    layers = counted(len(result.layers), "layer")
    return (
        f"{label(result.network.name)}: {steps(result.makespan, result.time_unit)} on {arrays}, {layers}",
    )


def _summary(layers: Sequence[Layer], makespan: int) -> str:
    most = max(layers, key=lambda layer: layer.copies)
    busiest = max(layers, key=lambda layer: layer.normal_op)
    return (
        f"Bars of the copies of {len(layers)} layers: most has {most.name} with {most.copies:,}. "
        f"{busiest.name} computes longest, {busiest.normal_op:,} of {makespan:,} steps."
    )


def layer_table(layers: Sequence[Layer], makespan: int, detail: Detail) -> Table:
    """Return a table with one row per layer; folds where filters are folded, blocks where copies compute
    several windows."""
    used = max(1, sum(layer.arrays for layer in layers))
    columns = [
        Column("Layer", value="name"),
        Column("Windows", "int"),
        Column("Arrays per copy", "int"),
        Column("Copies", "int"),
        Column("Arrays", "int"),
        Column("Share of arrays", "percent", lambda layer: layer.arrays / used),
        Column("Batches", "int"),
        Column("Share of makespan", "percent", lambda layer: layer.normal_op / max(1, makespan)),
        Column("Start", "int"),
        Column("Finish", "int"),
        Column("Stall", "int", lambda layer: max(0, layer.finish - layer.start - layer.normal_op)),
    ]
    if any(layer.kind is not None for layer in layers):
        columns.append(Column("Kind", value=lambda layer: layer.kind or ""))
    if any(layer.fold is not None for layer in layers):
        columns.append(Column("Fold", value=lambda layer: block_words(layer.fold)))
    if any(layer.block is not None for layer in layers):
        columns += [
            Column("Block", value=lambda layer: block_words(layer.block)),
            Column("Utilisation", "percent"),
        ]
    if any(layer.weight_bits is not None for layer in layers):
        columns += [Column("Weight bits", "int"), Column("Input bits", "int")]
    if any(layer.energy_pj is not None or layer.area_um2 is not None for layer in layers):
        columns.append(Column("Energy", value=lambda layer: _given(layer.energy_pj, energy)))
        columns.append(Column("Area", value=lambda layer: _given(layer.area_um2, area)))
    note = "Batches, start, finish and stall are in steps."
    return table("Layers", columns, layers, detail, note, folded=False, numbered=True)


def buffer_blocks(buffers: Sequence[BufferedEdge], detail: Detail) -> tuple[Block, ...]:
    """Return the pixels that wait between stages at the fullest moment: the largest as bars, all in
    a table."""
    edges = sorted(buffers, key=lambda edge: -edge.buffer_bytes)
    if not edges:
        return ()
    kept = edges[:_MOST_BUFFERS]
    data: Lists = {
        "row": list(range(len(kept))),
        **lists(kept, "producer, consumer"),
        "kib": [round(edge.buffer_bytes / 1024, 3) for edge in kept],
        "pixels": [edge.buffer_pixels for edge in kept],
    }
    hover = named("from=producer, to=consumer, pixels, KiB=kib")
    drawn = bars(data, {"datum": 0}, "kib", hover=hover, look={"color": GREEN})
    names = Axis.of_names([f"{label(edge.producer, 12)} → {label(edge.consumer, 12)}" for edge in kept])
    across = Axis("buffer [KiB]", 0, max(data["kib"]) * 1.04 or 1)
    total = size(sum(edge.buffer_bytes for edge in edges))
    more = f" The {len(kept)} largest of {len(edges):,} are drawn." if len(edges) > len(kept) else ""
    summary = (
        f"Buffers between stages at their fullest: {total} together, the largest "
        f"{size(edges[0].buffer_bytes)} from {edges[0].producer} to {edges[0].consumer}."
    )
    panel = Panel(across, names, row_height(len(kept)), (drawn,))
    chart = Chart("Buffer demand", (panel,), summary, note=f"{total} together at their fullest.{more}")
    columns = "Producer, Consumer, Pixels int=buffer_pixels, Bytes int=buffer_bytes"
    return chart, table("Buffers between stages", columns, edges, detail, "Largest first.")


def layer_blocks(result: Allocation | Simulation, timed: Timed | None, detail: Detail) -> tuple[Block, ...]:
    """Return charts and tables of the layers; timed: None if the network is not known."""
    layers = result.layers
    if not layers:
        return (Note("The file lists no layers."),)
    lacks = () if timed is not None else (Note(_LACKS),)
    buffers = () if timed is None else buffer_blocks(timed.edges, detail)
    return (
        *lacks,
        timeline_chart(result, timed, detail),
        copies_chart(result, detail),
        layer_table(layers, result.makespan, detail),
        *buffers,
    )


def makespan_fact(result: Allocation | Simulation) -> Fact:
    """Return the makespan, in steps and in time."""
    absolute = "" if result.latency_ns is None else duration(result.latency_ns)
    step = "" if result.unit_ns is None else f", {duration(result.unit_ns)} a {result.time_unit}"
    return Fact("Makespan", steps(result.makespan, result.time_unit), absolute + step)


def energy_facts(result: Allocation | Simulation) -> Iterator[Fact]:
    """Yield the energy and the area that the hardware gives."""
    if result.energy_pj is not None or result.dynamic_pj is not None or result.static_pj is not None:
        total = "not given" if result.energy_pj is None else energy(result.energy_pj)
        yield Fact("Energy", total, energy_parts(result))
    if result.area_um2 is not None:
        whole = result.chip_area_um2
        words = "" if whole is None else f"in use, {area(whole)} of the whole chip"
        yield Fact("Area", area(result.area_um2), words)


def rate_words(throughput_per_s: float | None) -> str:
    """Return inputs a second, where a time is given."""
    return "between inputs" if throughput_per_s is None else f"{rounded(throughput_per_s)} inputs a second"
