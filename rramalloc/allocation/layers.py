"""The layers of an allocation as charts and tables: copies, arrays, time, and the buffers between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import replace
from functools import partial
from typing import Literal

from rramalloc.allocation.allocation import Allocation, Layer
from rramalloc.allocation.simulation import Simulation
from rramalloc.allocation.timed import Timed
from rramalloc.allocation.timeline import timeline_chart
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
    labels,
    lists,
    named,
    row_height,
)
from rramalloc.timing.buffers import NO_BUFFERS, Buffers
from rramalloc.timing.figures import energy_parts
from rramalloc.units import area, counted, rounded, size, steps
from rramalloc.view.view import FIGURE, Detail, Draw, Fact, Table, busy_period, table

_LINEAR = 100
"""Copies up to which their axis is linear."""
_MOST_BUFFERS = 24  # bars of a chart; the table has all edges


def copies_chart(result: Allocation | Simulation, *, detail: Detail = FIGURE) -> Chart | None:
    """Chart the copies of every layer, and how long it is busy and how many of the arrays it holds."""
    if not result.layers:
        return None
    layers = result.layers[: detail.marks]
    period, of_period = busy_period(result)
    used = max(1, sum(layer.arrays for layer in result.layers))
    most = max(layer.copies for layer in layers)
    scale: Literal["linear", "log"] = "log" if most > _LINEAR else "linear"
    data: Lists = {
        "place": list(range(len(layers))),
        **lists(layers, "layer=name, copies, arrays"),
        "held": [round(100 * layer.arrays / used, 3) for layer in layers],
        "busy": [round(100 * layer.normal_op / max(1, period or 0), 3) for layer in layers],
        "batches": [layer.batches for layer in layers],
    }
    shares = "share of the arrays [%]=held, batches, busy [%]=busy"
    hover = named(f"layer, copies, arrays, {shares}")
    if any(layer.block is not None for layer in layers):
        data |= {
            "block": ["x".join(map(str, layer.block or (1, 1))) for layer in layers],
            "full": [round(100 * (layer.utilisation or 0), 3) for layer in layers],
        }
        hover |= named("block, utilisation of the arrays [%]=full")
    sides = {"left": "datum.place - 0.4", "right": "datum.place + 0.4"}

    def columns(top: str, low: float, key: Key) -> Marks:
        across = {"x": "left", "x2": "right", "y": top, "y2": {"datum": low}}
        return Marks({"type": "rect"}, data, across, key, hover, sides)

    across = Axis.of_names([layer.name for layer in layers], "layer, in network order", numbered=True)
    least = 0.7 if scale == "log" else 0.0
    copies = Axis("copies", least, most * 1.1, scale, integers=True)
    highest = max(1.0, *data["busy"], *data["held"])
    diamonds = {"type": "point", "filled": True, "size": 50, "opacity": 1}
    points = {"x": "place", "y": "held", "shape": {}}
    held = Marks(diamonds, data, points, Key("share of the arrays", ORANGE, "diamond"), hover)
    share = (columns("busy", 0, Key("busy", SKY)), held)
    bars_of_copies = columns("copies", least, Key("copies", BLUE))
    panels = (
        Panel(replace(across, title="", shown=False), copies, 150, (bars_of_copies,)),
        Panel(across, Axis("share [%]", 0, min(100, highest * 1.1)), 150, share),
    )
    return Chart(
        "Copies and busy time",
        panels,
        _summary(layers, period or 0, of_period),
        _heading(result),
        note=f"Busy: the time in which a layer computes, in percent of the {of_period}.",
    )


def _heading(result: Allocation | Simulation) -> tuple[str, ...]:
    arrays = counted(result.arrays, "array") if isinstance(result, Simulation) else result.arrays.words
    layers = counted(len(result.layers), "layer")
    return (
        f"{label(result.network.name)}: {steps(result.makespan, result.time_unit)} on {arrays}, {layers}",
    )


def _summary(layers: Sequence[Layer], period: int, of_period: str) -> str:
    most = max(layers, key=lambda layer: layer.copies)
    busiest = max(layers, key=lambda layer: layer.normal_op)
    return (
        f"Bars of the copies of {len(layers)} layers: most has {most.name} with {most.copies:,}. "
        f"{busiest.name} computes longest, {busiest.normal_op:,} of the {period:,} of the {of_period}."
    )


def layers_table(layers: Sequence[Layer], *, recurrence: bool = False) -> Table:
    """Return the table of how layers run; recurrence: with the terms of the tight recurrence."""
    terms = ", NormalOp=normal_op, PreOp=pre_op, Tail=tail, Op=op" if recurrence else ""
    return table(
        "Layers",
        layers,
        "layer=name, windows, kind?, arrays_per_copy, block?, copies, arrays, batches, cycles?, start, "
        f"finish, stall=stall_steps{terms}, fold?, utilisation?, weight_bits?, input_bits?, energy_pj?, "
        "area_um2?",
        spare="area_um2 energy_pj tail pre_op normal_op op fold utilisation windows arrays_per_copy batches "
        "stall_steps start cycles arrays",
        numbered=True,
        stall_steps=lambda layer: layer.finish - layer.start - layer.normal_op,
    )


def buffers_table(buffers: Buffers) -> Table:
    """Return the table of the pixels that wait between stages at the fullest moment."""
    columns = "producer, consumer, buffer_pixels, buffer_bytes, stream_pixels?"
    return table("Buffers between stages", buffers.edges, columns, spare="stream_pixels buffer_pixels")


def buffers_chart(buffers: Buffers, *, detail: Detail = FIGURE) -> Chart | None:  # noqa: ARG001
    """Draw the largest buffers as bars."""
    edges = sorted(buffers.edges, key=lambda edge: -edge.buffer_bytes)
    if not edges:
        return None
    kept = edges[:_MOST_BUFFERS]
    data: Lists = {
        "row": list(range(len(kept))),
        **lists(kept, "producer, consumer"),
        "kib": [round(edge.buffer_bytes / 1024, 3) for edge in kept],
        "pixels": [edge.buffer_pixels for edge in kept],
    }
    hover = named("from=producer, to=consumer, pixels, KiB=kib")
    drawn = bars(data, {"datum": 0}, "kib", hover=hover, look={"color": GREEN})
    ends = labels([name for edge in kept for name in (edge.producer, edge.consumer)], 12)
    names = Axis.of_names([f"{start} → {end}" for start, end in zip(ends[::2], ends[1::2], strict=True)])
    across = Axis("buffer [KiB]", 0, max(data["kib"]) * 1.04 or 1)
    totals = buffers.totals
    total = "" if totals is None else f"{size(totals.total_bytes)} at once for one input."
    more = f" The {len(kept)} largest of {len(edges):,} are drawn." if len(edges) > len(kept) else ""
    summary = (
        f"Buffers between stages at their fullest, the largest {size(edges[0].buffer_bytes)} from "
        f"{edges[0].producer} to {edges[0].consumer}. {total}"
    )
    panel = Panel(across, names, row_height(len(kept)), (drawn,))
    return Chart("Buffer demand", (panel,), summary, note=f"{total}{more}")


def layer_charts(
    result: Allocation | Simulation, stored: Buffers = NO_BUFFERS, timed: Timed | None = None
) -> dict[str, Draw]:
    """Return the charts of the layers by name; timed: what follows from the network, else looked up."""
    charts: dict[str, Draw] = {
        "timeline": partial(timeline_chart, result, timed=timed),
        "copies": partial(copies_chart, result),
    }
    return charts | ({"buffers": partial(buffers_chart, stored)} if stored.edges else {})


def energy_facts(result: Allocation | Simulation) -> Iterator[Fact]:
    """Yield the energy and the area, for hardware that gives times."""
    if not result.hardware.has_energy:
        if result.hardware.timing is not None:
            yield Fact("energy", "not given by the hardware")
        return
    yield _given("energy", result.energy_pj, "pJ", f"an input ({energy_parts(result)})")
    yield _given("EDP", result.edp, "pJ ns")
    of_chip = result.chip_area_um2
    chip = "" if of_chip is None else f"in use, {area(of_chip)} of the whole chip"
    yield _given("area", result.area_um2, "um2", chip)


def interval_fact(
    result: Allocation | Simulation, sequences: int | None, states: MappingOf[str, str] | None
) -> Fact:
    """Return the interval, with the reason for its length in a network that feeds back or has states."""
    words = "between inputs when inputs stream"
    words += ", which need states of the one before" if states else ""
    if sequences is not None:
        turns = "" if sequences == 1 else f", {sequences:,} sequences take turns"
        words = f"between inputs: the next one needs this one's output{turns}"
    return Fact("interval", result.interval, f"{result.time_unit}s", words)


AT_INTERVAL = "inputs at the interval"


def efficiency_facts(result: Allocation | Simulation, when: str = AT_INTERVAL) -> Iterator[Fact]:
    """Yield energy and power of a stream of inputs, and operations with their bits; when: inputs come."""
    precision = result.hardware.precision
    bits = f"of {precision.weight_bits}-bit weights and {precision.input_bits}-bit inputs"
    if any(layer.weight_bits is not None for layer in result.layers):
        bits = "of weights and inputs whose bits differ from layer to layer"
    yield from stream_facts(result, when)
    yield _given("TOPS", result.tops, "", bits)
    yield _given("TOPS/W", result.tops_per_w, "", bits)


def stream_facts(result: Allocation | Simulation, when: str) -> Iterator[Fact]:
    """Yield energy of an input and power of a stream; when: inputs come."""
    power = result.stream_power_mw
    words = "" if power is None else f"an input, {rounded(power)} mW: {when}"
    yield _given("stream", result.stream_energy_pj, "pJ", words)


def _given(name: str, value: float | None, unit: str, note: str = "") -> Fact:
    return Fact(name, "not given", note=note) if value is None else Fact(name, value, unit, note)
