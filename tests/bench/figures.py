"""The look of results/: figures readable in print and without colour, the same bytes every time; tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_IN = 7.0


@dataclass(frozen=True)
class Series:
    """Name, colour (Okabe and Ito's palette for all kinds of colour vision) and marker."""

    label: str
    colour: str
    marker: str


BLUE, ORANGE, GREEN, RED, PURPLE = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7"


def figure(height_in: float, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """An empty figure with axes side by side."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update(
        {
            "svg.hashsalt": "rramalloc",
            "font.size": 9,
            "axes.labelsize": 9,
            "legend.fontsize": 8,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "grid.color": "#DDDDDD",
            "grid.linewidth": 0.6,
            "lines.linewidth": 1.4,
        }
    )
    from matplotlib import pyplot as plt

    drawn, axes = plt.subplots(1, columns, figsize=(WIDTH_IN, height_in), layout="constrained", squeeze=False)
    return drawn, list(axes[0])


def plain_ticks(axis: Any, at: tuple[float, ...]) -> None:
    """Ticks at these places of a logarithmic axis, written out."""
    from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

    axis.set_major_locator(FixedLocator(at))
    axis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def save(drawn: Figure, path: Path) -> None:
    """Write the SVG without date and version."""
    drawn.savefig(path, metadata={"Date": None, "Creator": None})


def markdown(rows: Iterable[list[str]]) -> list[str]:
    """A table; the first row is its head."""
    head, *body = ["| " + " | ".join(row) + " |" for row in rows]
    return [head, "|" + "---|" * (head.count("|") - 1), *body, ""]


def seconds_text(seconds: float) -> str:
    """Seconds with three figures below 10, one decimal from there on."""
    return f"{seconds:.1f}" if seconds >= 10 else f"{seconds:.2f}" if seconds >= 0.1 else f"{seconds:.2g}"
