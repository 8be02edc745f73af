"""Figure: how the best makespan fell and the lower bound rose while a search worked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rramalloc.report import style
from rramalloc.results.allocation import Allocation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HEIGHT_IN = 3.2
_EARLIEST_S = 0.0001
_EVEN_EARLIER = 3.0
"""The axis begins by this factor before the first work that was counted: what was known by then is there."""
_HIGHEST = 2.0
"""Makespans above this multiple of the last one are beyond the axis: first answers can be far off."""


@style.look()
def draw(allocation: Allocation) -> Figure:
    """Best makespan and lower bound over the work done, and the gap between them shaded.

    Methods that tell nothing on their way have their last word only.
    """
    from matplotlib.ticker import MaxNLocator

    seconds, best, bound = _history(allocation)
    drawn, (axes,) = style.figure(_HEIGHT_IN)
    axes.fill_between(seconds, bound, best, step="post", color=style.GREY, alpha=0.25, lw=0, label="gap")
    axes.plot(
        seconds, best, drawstyle="steps-post", color=style.BLUE, marker="o", markersize=3, clip_on=False,
        markevery=_some(len(best)), label="best makespan",
    )  # fmt: skip
    axes.plot(
        seconds, bound, drawstyle="steps-post", color=style.RED, marker="^", markersize=3, clip_on=False,
        linestyle="--", markevery=_some(len(bound)), label="lower bound",
    )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlim(seconds[0], seconds[-1] * 1.15)
    style.plain_ticks(axes.xaxis, _ticks(seconds[0], seconds[-1]))
    span = min(max(best), _HIGHEST * best[-1]) - min(bound)
    axes.set_ylim(max(0, min(bound) - 0.08 * span - 1), min(max(best), _HIGHEST * best[-1]) + 0.08 * span + 1)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("work [s of a reference core]")
    axes.set_ylabel("time for one input [steps]")
    drawn.suptitle(_title(allocation), fontsize=9)
    drawn.legend(loc="outside lower center", ncols=3, frameon=False)
    return drawn


def _history(allocation: Allocation) -> tuple[list[float], list[int], list[int]]:
    """Seconds, best and bound from the beginning of the axis to the end of the search."""
    points = [(point.seconds, point.makespan, point.lower_bound) for point in allocation.history]
    last = (allocation.seconds or 0.0, allocation.makespan, allocation.lower_bound)
    points.append(max(last, points[-1], key=lambda point: point[0]) if points else last)
    counted = [seconds for seconds, _, _ in points if seconds > _EARLIEST_S]
    first = min(counted, default=_EVEN_EARLIER * _EARLIEST_S) / _EVEN_EARLIER
    seconds = [max(point[0], first) for point in points]
    if seconds[-1] <= first:
        seconds, points = [first, _EVEN_EARLIER * first], [points[-1], points[-1]]
    return seconds, [best for _, best, _ in points], [bound for _, _, bound in points]


def _some(count: int) -> int:
    """Every how many points a marker stands, so that they stay apart."""
    return max(1, count // 40)


def _ticks(first: float, last: float) -> tuple[float, ...]:
    """1, 2 and 5 times powers of ten within the axis; powers alone if they are many."""
    ticks = [float(f"{digit}e{power}") for power in range(-4, 10) for digit in (1, 2, 5)]
    within = [tick for tick in ticks if first <= tick <= last * 1.15]
    return tuple(within if len(within) <= 9 else [tick for tick in within if f"{tick:e}"[0] == "1"])


def _title(allocation: Allocation) -> str:
    end = "proven optimal" if allocation.lower_bound == allocation.makespan else f"gap {allocation.gap:.1%}"
    return (
        f"{style.label(allocation.network.name)} on {allocation.arrays.budget:,} arrays, "
        f"{style.label(allocation.method)}: {allocation.makespan:,} steps, {end}"
    )
