"""Figure: all methods side by side, one group of bars a budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rramalloc.report import style
from rramalloc.studies.comparison import Comparison, Row
from rramalloc.studies.judged import REFERENCE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_PANELS = 8
_AROUND_IN, _PER_PANEL_IN = 0.8, 0.55
_LEAST_END, _BEYOND = 1.3, 2.5
"""The axis ends at _BEYOND times the median ratio at most: longer bars are cut and marked."""


@style.look()
def draw(comparison: Comparison) -> Figure:
    """Ratio of every method to `auto` with its makespan, spread over seeds, and what no allocation undercuts.

    Of more than eight budgets, eight are drawn, spread evenly from the first to the last.
    """
    budgets = _some(comparison.budgets)
    groups = [comparison.at(budget) for budget in budgets]
    heights = [style.ROW_HEIGHT_IN * len(rows) + _PER_PANEL_IN for rows in groups]
    drawn, panels = style.figure(sum(heights) + _AROUND_IN, rows=max(1, len(groups)))
    for axes, budget, rows in zip(panels, budgets, groups, strict=False):
        _panel(axes, rows)
        axes.set_title(f"{budget:,} arrays", fontsize=8, loc="left")
    best = REFERENCE if any(row.method == REFERENCE for row in comparison.rows) else "best"
    panels[-1].set_xlabel(f"{_quantity(comparison)} / {_quantity(comparison)} of {best}")
    drawn.suptitle(f"{style.label(comparison.network.name)}: methods side by side", fontsize=9)
    _legend(drawn, comparison.rows)
    return drawn


def _some(budgets: Sequence[int]) -> list[int]:
    if len(budgets) <= _MOST_PANELS:
        return list(budgets)
    last = len(budgets) - 1
    return [budgets[place * last // (_MOST_PANELS - 1)] for place in range(_MOST_PANELS)]


def _quantity(comparison: Comparison) -> str:
    """What ratios are of: the makespan, unless allocations differ in the length of a step."""
    steps = {row.step_ns for row in comparison.rows}
    return "makespan" if len(steps) <= 1 else "latency"


def _panel(axes: Axes, rows: Sequence[Row]) -> None:
    """One budget: bars from 0, those far beyond the others cut at the end of the axis."""
    ratios = sorted(row.ratio for row in rows)
    end = max(_LEAST_END, min(ratios[-1], _BEYOND * ratios[len(ratios) // 2]))
    for place, row in enumerate(rows):
        colour = style.BLUE if row.method == REFERENCE else style.SKY
        hatch = "////" if row.repaired else ""
        shown = min(row.ratio, end)
        axes.barh(place, shown, height=0.72, color=colour, hatch=hatch, edgecolor="white", lw=0.3)
        if row.runs > 1:
            scale = row.ratio / row.makespan
            spread = [min(row.best * scale, end), min(row.worst * scale, end)]
            axes.plot(spread, [place, place], color=style.BLACK, lw=1.2, marker="|", markersize=5)
        reach = shown if row.runs == 1 else max(shown, min(row.worst * row.ratio / row.makespan, end))
        cut = "» " if row.ratio > end else ""
        words = f"{cut}{row.makespan:,} ({row.ratio:.3f})"
        axes.annotate(words, (reach, place), xytext=(4, 0), textcoords="offset points", va="center", size=7)
    bounds = [row.ratio * (1 - row.gap) for row in rows]
    axes.axvline(max(bounds), color=style.RED, linestyle="--", linewidth=1)
    axes.set_yticks(range(len(rows)), [style.label(row.method) for row in rows], fontsize=7)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, end * 1.22)
    axes.grid(visible=False, axis="y")


def _legend(drawn: Figure, rows: Sequence[Row]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    shown: list[Line2D | Patch] = [
        Line2D([], [], color=style.RED, linestyle="--", linewidth=1, label="lower bound")
    ]
    if any(row.repaired for row in rows):
        look = {"facecolor": style.SKY, "hatch": "////", "edgecolor": "white"}
        shown.append(Patch(label="repaired to fit", **look))  # type: ignore[arg-type]
    if any(row.runs > 1 for row in rows):
        seeds = max(row.runs for row in rows)
        shown.append(
            Line2D(
                [], [], color=style.BLACK, lw=1.2, marker="|", markersize=5, label=f"spread of {seeds} seeds"
            )
        )
    drawn.legend(handles=shown, loc="outside lower center", ncols=3, frameon=False)
