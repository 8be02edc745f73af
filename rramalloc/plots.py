"""The `plot` of results: `allocation.plot.timeline()` and its like.

Records know nothing of charts, so a chart is imported by name when a user asks for it.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from rramalloc.chart import Chart, check_figure

Path = str | os.PathLike[str]
_CHARTS = {
    "chip_map": ("commands.place.chip_map", "chip_map"),
    "columns": ("commands.sweep.section", "columns_chart"),
    "convergence": ("commands.optimize.convergence", "convergence_chart"),
    "cost": ("commands.size.section", "cost_chart"),
    "front": ("commands.pareto.section", "front_chart"),
    "methods": ("commands.compare.section", "methods_chart"),
    "copies": ("page.layers", "copies_chart"),
    "timeline": ("page.timeline", "timeline_figure"),
}
"""Module and function of every chart."""


class _Plots:
    """Charts of one result. save: also write the chart, as SVG, PNG or PDF by the end of its name."""

    def __init__(self, result: object) -> None:
        self._result = result

    def __repr__(self) -> str:
        names = ", ".join(name for name in dir(self) if not name.startswith("_"))
        return f"<figures of {type(self._result).__name__}: {names}>"

    def _chart(self, name: str, save: Path | None, *more: Any) -> Chart:
        """Return a chart. Raises SpecError, FileError before it is drawn if it cannot be saved there."""
        check_figure(save)
        module, function = _CHARTS[name]
        chart: Chart = getattr(import_module(f"rramalloc.{module}"), function)(self._result, *more)
        if save is not None:
            chart.save(save)
        return chart


class SimulationPlots(_Plots):
    """Charts of a simulation."""

    def timeline(self, save: Path | None = None, network: Any = None) -> Chart:
        """When every stage starts, waits for input and finishes. Raises SpecError, FileError.

        network: a Network, a file or a shipped name, with which every pause is drawn where it is; left out,
        a shipped one is found.
        """
        return self._chart("timeline", save, network)


class AllocationPlots(SimulationPlots):
    """Charts of an allocation."""

    def copies(self, save: Path | None = None) -> Chart:
        """Draw the copies of every layer, and its share of the makespan. Raises SpecError, FileError."""
        return self._chart("copies", save)

    def convergence(self, save: Path | None = None) -> Chart:
        """Best makespan and lower bound over the work of the search. Raises SpecError, FileError."""
        return self._chart("convergence", save)


class ComparisonPlots(_Plots):
    """Charts of a comparison."""

    def methods(self, save: Path | None = None) -> Chart:
        """Makespan of every method against that of `auto`. Raises SpecError, FileError."""
        return self._chart("methods", save)


class SweepPlots(_Plots):
    """Charts of a sweep."""

    def columns(self, x: str = "arrays", y: str = "makespan", save: Path | None = None) -> Chart:
        """Any column of numbers against another, a line for everything else that varies.

        Raises SpecError, FileError.
        """
        return self._chart("columns", save, x, y)


class FrontPlots(_Plots):
    """Charts of a Pareto front."""

    def front(self, save: Path | None = None) -> Chart:
        """Draw the staircase of points, its bound, and other methods. Raises SpecError, FileError."""
        return self._chart("front", save)


class SizingPlots(_Plots):
    """Charts of a sizing."""

    def cost(self, save: Path | None = None) -> Chart:
        """Draw what candidates cost at least, and with the best allocations. Raises SpecError, FileError."""
        return self._chart("cost", save)


class PlacementPlots(_Plots):
    """Charts of a placement."""

    def chip_map(self, save: Path | None = None) -> Chart:
        """Draw the tiles of every chip in the colours of their layers. Raises SpecError, FileError."""
        return self._chart("chip_map", save)
