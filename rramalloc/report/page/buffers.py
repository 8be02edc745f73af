"""Chart and table of the pixels that wait between stages at the fullest moment."""

from __future__ import annotations

from collections.abc import Sequence

from rramalloc.report import style
from rramalloc.report.page import charts
from rramalloc.report.page.parts import Chart, Column, Detail, Note, Table, shown
from rramalloc.results.simulation import BufferedEdge
from rramalloc.units import size

_MOST_BARS = 24


def buffer_blocks(buffers: Sequence[BufferedEdge], detail: Detail) -> tuple[Chart | Table | Note, ...]:
    """The largest buffers as bars, all of them in a table."""
    edges = sorted(buffers, key=lambda edge: -edge.buffer_bytes)
    if not edges:
        return ()
    kept = edges[:_MOST_BARS]
    names = [f"{charts.text(edge.producer, 13)} → {charts.text(edge.consumer, 13)}" for edge in kept]
    columns: charts.Lists = {
        "row": list(range(len(kept))),
        "producer": [edge.producer for edge in kept],
        "consumer": [edge.consumer for edge in kept],
        "kib": [round(edge.buffer_bytes / 1024, 3) for edge in kept],
        "pixels": [edge.buffer_pixels for edge in kept],
    }
    drawn = charts.figure(charts.row_height(len(kept)), "buffer [KiB]", drag="xbox_zoom")
    charts.factors(drawn, names, "y")
    drawn.yaxis.major_label_overrides = dict(enumerate(names))
    drawn.yaxis.ticker = list(range(len(kept)))
    bars = drawn.hbar(
        y="row",
        right="kib",
        height=0.72,
        source=charts.source(columns),
        fill_color=style.GREEN,
        line_color=None,
    )
    drawn.x_range.start = 0
    charts.hover(
        drawn,
        [bars],
        [("from", "@producer"), ("to", "@consumer"), ("pixels", "@pixels{0,0}"), ("KiB", "@kib{0,0.0}")],
    )
    total = sum(edge.buffer_bytes for edge in edges)
    more = f" The {len(kept)} largest of {len(edges):,} are drawn." if len(edges) > len(kept) else ""
    summary = (
        f"Buffers between stages at their fullest: {size(total)} together, the largest "
        f"{size(edges[0].buffer_bytes)} from {edges[0].producer} to {edges[0].consumer}."
    )
    chart = Chart("Buffer demand", (drawn,), summary, "x", f"{size(total)} together at their fullest.{more}")
    rows = [(edge.producer, edge.consumer, edge.buffer_pixels, edge.buffer_bytes) for edge in edges]
    heads = (Column("Producer"), Column("Consumer"), Column("Pixels", "int"), Column("Bytes", "int"))
    return chart, shown(Table("Buffers between stages", heads, rows, "Largest first."), detail)
