"""The `plot` of results: `allocation.plot.timeline()` and its like.

Results come before `report` in the order of imports, so figures are found by name when they are asked for.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Path = str | os.PathLike[str]
_FIGURES = {
    "chip_map": "rramalloc.report.chip_map",
    "convergence": "rramalloc.report.convergence",
    "front": "rramalloc.report.front",
    "methods": "rramalloc.report.comparison",
    "replication": "rramalloc.report.replication",
    "timeline": "rramalloc.report.timeline",
}


class _Plots:
    """Figures of one result. save: also write the figure, as SVG, PNG or PDF by the end of its name."""

    def __init__(self, result: object) -> None:
        self._result = result

    def __repr__(self) -> str:
        names = ", ".join(name for name in dir(self) if not name.startswith("_"))
        return f"<figures of {type(self._result).__name__}: {names}>"

    def _figure(self, name: str, save: Path | None) -> Figure:
        """Raises SpecError, FileError if it cannot be saved there, before it is drawn."""
        style = import_module("rramalloc.report.style")
        style.check_figure(save)
        drawn: Figure = import_module(_FIGURES[name]).draw(self._result)
        if save is not None:
            style.save(drawn, save)
        return drawn


class SimulationPlots(_Plots):
    """Figures of a simulation."""

    def timeline(self, save: Path | None = None) -> Figure:
        """When every stage starts, waits for input and finishes. Raises SpecError, FileError."""
        return self._figure("timeline", save)


class AllocationPlots(SimulationPlots):
    """Figures of an allocation."""

    def replication(self, save: Path | None = None) -> Figure:
        """Copies of every layer, and its share of the makespan. Raises SpecError, FileError."""
        return self._figure("replication", save)

    def convergence(self, save: Path | None = None) -> Figure:
        """How best and bound met over the work of the search. Raises SpecError, FileError."""
        return self._figure("convergence", save)


class ComparisonPlots(_Plots):
    """Figures of a comparison."""

    def methods(self, save: Path | None = None) -> Figure:
        """Makespan of every method against that of `auto`. Raises SpecError, FileError."""
        return self._figure("methods", save)


class FrontPlots(_Plots):
    """Figures of a Pareto front."""

    def front(self, save: Path | None = None) -> Figure:
        """The staircase of points, its bound, and other methods beside it. Raises SpecError, FileError."""
        return self._figure("front", save)


class PlacementPlots(_Plots):
    """Figures of a placement."""

    def chip_map(self, save: Path | None = None) -> Figure:
        """The tiles of every chip in the colours of their layers. Raises SpecError, FileError."""
        return self._figure("chip_map", save)
