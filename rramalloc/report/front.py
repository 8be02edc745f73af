"""Figure: what every number of arrays can buy, with its bound and other methods beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rramalloc.report import style
from rramalloc.studies.pareto_front import ParetoFront

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT_IN = 4.0
_QUANTITY = {"makespan": "makespan", "interval": "interval between inputs", "latency_ns": "latency"}
_MARKERS = "sD^vPX*<>ph"
_COLOURS = (style.ORANGE, style.GREEN, style.RED, style.PURPLE, style.SKY, style.GREY)


@style.look()
def draw(front: ParetoFront) -> Figure:
    """The staircase of points, the lower bound below it, and the methods it was compared with."""
    drawn, (axes,) = style.figure(_HEIGHT_IN)
    arrays = [*(point.arrays for point in front.points), front.budget]
    values = [point.value for point in front.points]
    bounds = [point.lower_bound for point in front.points]
    axes.fill_between(
        arrays, [*bounds, bounds[-1]], [*values, values[-1]], step="post", color=style.GREY, alpha=0.3, lw=0,
        label="gap",
    )  # fmt: skip
    axes.plot(arrays, [*values, values[-1]], drawstyle="steps-post", color=style.BLUE, label="front", lw=1.2)
    _beside(axes, front)
    axes.set_xscale("log")
    axes.set_yscale("log")
    style.plain_ticks(axes.xaxis, _ticks(arrays[0], arrays[-1]))
    style.plain_ticks(axes.yaxis, _ticks(min(bounds), max(values)))
    axes.set_xlabel("arrays")
    axes.set_ylabel(f"{_QUANTITY[front.objective]} [{front.unit}]")
    words = f"{len(front.points):,} points, {front.proven:,} proven, mean gap {front.mean_gap:.2%}"
    drawn.suptitle(f"{style.label(front.network.name)}: {words}", fontsize=9)
    drawn.legend(loc="outside lower center", ncols=4, frameon=False)
    return drawn


def _beside(axes: Axes, front: ParetoFront) -> None:
    """Points of other methods, each at the arrays it used."""
    for number, method in enumerate(dict.fromkeys(point.method for point in front.baselines)):
        points = [point for point in front.baselines if point.method == method]
        axes.plot(
            [point.arrays for point in points], [point.value for point in points], linestyle="none",
            marker=_MARKERS[number % len(_MARKERS)], color=_COLOURS[number % len(_COLOURS)], markersize=4,
            markerfacecolor="none", label=style.label(method),
        )  # fmt: skip


def _ticks(low: float, high: float) -> tuple[float, ...]:
    """1, 2 and 5 times powers of ten around a range; powers alone if they are many."""
    ticks = [float(f"{digit}e{power}") for power in range(-1, 20) for digit in (1, 2, 5)]
    within = [tick for tick in ticks if low * 0.8 <= tick <= high * 1.2]
    return tuple(within if len(within) <= 10 else [tick for tick in within if f"{tick:e}"[0] == "1"])
