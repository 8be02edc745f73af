"""Figure: how often every layer is stored, and which share of the makespan it computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rramalloc.report import style
from rramalloc.results.allocation import Allocation
from rramalloc.shown import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_AROUND_IN = 0.95


@style.look()
def draw(allocation: Allocation) -> Figure:
    """Copies of every layer, and the steps it computes as a share of the makespan, in network order."""
    layers, makespan = allocation.layers, allocation.makespan
    height_in = style.rows_height_in(len(layers))
    drawn, (copies, share) = style.figure(height_in + _AROUND_IN, columns=2)
    _bars(copies, [layer.replication for layer in layers], style.BLUE)
    shares = [100 * layer.batches / makespan for layer in layers]
    _bars(share, shares, style.ORANGE)
    style.name_rows(copies.yaxis, [layer.name for layer in layers], height_in)
    share.sharey(copies)
    share.tick_params(axis="y", labelleft=False, length=0)
    copies.set_ylim(len(layers) - 0.4, -0.6)
    most = max(layer.replication for layer in layers)
    copies.set_xscale("log", base=2)
    copies.set_xlim(0.75, most * 1.5)
    style.plain_ticks(copies.xaxis, _powers(most))
    copies.set_xlabel("replication [copies]")
    share.set_xlim(0, min(100, 1.15 * max(shares)))
    share.set_xlabel("computing [% of the makespan]")
    drawn.suptitle(_title(allocation), fontsize=9)
    return drawn


def _bars(axes: Axes, values: list[int] | list[float], colour: str) -> None:
    axes.barh(range(len(values)), values, height=0.72, color=colour)
    axes.grid(visible=False, axis="y")


def _powers(most: int) -> tuple[float, ...]:
    """At most eight powers of two from 1 on that `most` lies above or at."""
    powers = [2**power for power in range(most.bit_length())]
    every = -(-len(powers) // 8)
    return tuple(float(power) for power in powers[::every])


def _title(allocation: Allocation) -> str:
    arrays, layers = allocation.arrays, len(allocation.layers)
    return (
        f"{style.label(allocation.network.name)}: {allocation.makespan:,} steps "
        f"on {arrays.used:,} of {arrays.budget:,} arrays, {counted(layers, 'layer')}"
    )
