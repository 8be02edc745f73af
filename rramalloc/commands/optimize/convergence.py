"""Chart: how the best makespan fell and the lower bound rose while a search worked."""

from __future__ import annotations

from rramalloc.allocation.allocation import Allocation
from rramalloc.chart import BLUE, DASHED, GREY, RED, Axis, Chart, Key, Lists, Marks, Panel, label, named
from rramalloc.units import share, steps
from rramalloc.view.view import FIGURE, Detail

_EARLIEST_S = 0.0001  # work below this is drawn as none: a logarithmic axis has no 0
_EVEN_EARLIER = 3.0
"""The axis begins by this factor before the first work that was counted."""
_HIGHEST = 2.0
"""Makespans above this multiple of the last one are beyond the axis: first answers can be far off."""


def convergence_chart(
    allocation: Allocation,
    *,
    detail: Detail = FIGURE,  # noqa: ARG001
    claim: str = "",
) -> Chart:
    """Chart the best makespan and lower bound over the work done, and the gap between them shaded.

    Methods that report nothing on their way have their last values only.
    """
    work_s, best, bound = _history(allocation)
    data: Lists = {"work_s": work_s, "best": best, "bound": bound}
    hover = named("work [s]=work_s, best makespan=best, lower bound=bound")
    after = {"interpolate": "step-after"}
    gap = {"type": "area", **after, "opacity": 0.25}
    line = {"type": "line", **after, "point": {"size": 25}}
    below = {"type": "line", **after, "strokeDash": DASHED, "point": {"size": 25, "shape": "triangle-up"}}
    layers = (
        Marks(gap, data, {"x": "work_s", "y": "bound", "y2": "best"}, Key("gap", GREY)),
        Marks(line, data, {"x": "work_s", "y": "best"}, Key("best makespan", BLUE, "stroke"), hover),
        Marks(below, data, {"x": "work_s", "y": "bound"}, Key("lower bound", RED, "stroke"), hover),
    )
    unit = allocation.time_unit
    highest = min(max(best), _HIGHEST * best[-1])
    space = 0.08 * (highest - min(bound)) + 1
    work = Axis("work [s of a reference core]", work_s[0], work_s[-1] * 1.15, "log")
    time = Axis(f"time for one input [{unit}s]", max(0, min(bound) - space), highest + space, integers=True)
    summary = (
        f"The best makespan ends at {steps(allocation.makespan, unit)}, "
        f"the lower bound at {steps(bound[-1], unit)}."
    )
    panel = Panel(work, time, 220, layers)
    return Chart("Convergence", (panel,), summary, (_heading(allocation, claim),))


def _history(allocation: Allocation) -> tuple[list[float], list[int], list[int]]:
    """Return the work, best and bound from the beginning of the axis to the end of the search."""
    points = [(point.work_s, point.makespan, point.lower_bound) for point in allocation.history]
    if allocation.objective == "latency" and allocation.objective_unit in ("steps", "ticks"):
        last = (allocation.work_s or 0.0, allocation.makespan, int(allocation.lower_bound))
    else:
        last = (allocation.work_s or 0.0, *(points[-1][1:] if points else (allocation.makespan, 1)))
    points.append(max(last, points[-1], key=lambda point: point[0]) if points else last)
    counted = [work_s for work_s, _, _ in points if work_s > _EARLIEST_S]
    first = min(counted, default=_EVEN_EARLIER * _EARLIEST_S) / _EVEN_EARLIER
    work_s = [max(point[0], first) for point in points]
    if work_s[-1] <= first:
        work_s, points = [first, _EVEN_EARLIER * first], [points[-1], points[-1]]
    return work_s, [best for _, best, _ in points], [bound for _, _, bound in points]


def _heading(allocation: Allocation, claim: str) -> str:
    end = claim or (allocation.proven if allocation.gap == 0 else f"gap {share(allocation.gap)}")
    return (
        f"{label(allocation.network.name)} on {allocation.arrays.budget:,} arrays, "
        f"{label(allocation.method)}: {steps(allocation.makespan, allocation.time_unit)}, {end}"
    )
