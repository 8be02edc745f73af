"""Figure: when every stage starts, waits and finishes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rramalloc.report import style
from rramalloc.results.allocation import Allocation
from rramalloc.results.simulation import Simulation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_AROUND_IN = 1.15


@style.look()
def draw(timed: Allocation | Simulation) -> Figure:
    """One bar a stage from its start to its finish, in network order; what it waits in between is hatched.

    A stage may wait many times; its waiting is drawn together, at the end of its bar.
    """
    layers = timed.layers
    height_in = style.rows_height_in(len(layers))
    drawn, (axes,) = style.figure(height_in + _AROUND_IN)
    rows = range(len(layers))
    starts = [layer.start for layer in layers]
    computing = [layer.batches for layer in layers]
    begun = [start + steps for start, steps in zip(starts, computing, strict=True)]
    waiting = [layer.finish - end for layer, end in zip(layers, begun, strict=True)]
    axes.barh(rows, computing, left=starts, height=0.72, color=style.BLUE, label="computing")
    axes.barh(
        rows, waiting, left=begun, height=0.72, color=style.ORANGE, hatch="////", edgecolor="white", lw=0.3,
        label="waiting for input (sum)",
    )  # fmt: skip
    axes.axvline(timed.makespan, color=style.BLACK, linewidth=1, linestyle="--", label="makespan")
    style.name_rows(axes.yaxis, [layer.name for layer in layers], height_in)
    axes.set_ylim(len(layers) - 0.4, -0.6)
    axes.set_xlim(0, timed.makespan * 1.02)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.set_xlabel("time [steps]")
    drawn.suptitle(_title(timed), fontsize=9)
    drawn.legend(loc="outside lower center", ncols=3, frameon=False)
    return drawn


def _title(timed: Allocation | Simulation) -> str:
    """Network and makespan, and which stages start and finish last."""
    started = max(timed.layers, key=lambda layer: layer.start)
    ended = max(timed.layers, key=lambda layer: layer.finish)
    title = f"{style.label(timed.network.name)}: {timed.makespan:,} steps, interval {timed.interval:,}"
    if len(timed.layers) == 1:
        return title
    return (
        f"{title}\nlast to start: {style.label(started.name)} at {started.start:,}; "
        f"last to finish: {style.label(ended.name)} at {ended.finish:,}"
    )
