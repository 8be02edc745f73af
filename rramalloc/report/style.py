"""The look of all figures: readable in print, without colour and for every kind of colour vision.

The same data give the same bytes: figures carry no date, no version and no random identifiers.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rramalloc.errors import SpecError
from rramalloc.files import check_writable, write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_IN = 7.0
LONGEST_LABEL = 28
ROW_HEIGHT_IN = 0.17
_ROW_IN, _LEAST_HEIGHT_IN, _MOST_HEIGHT_IN = 0.13, 0.6, 8.5
_NAME_SIZE = 7
FORMATS = ("svg", "png", "pdf")
_PNG_DOTS_PER_IN = 200
_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}

_LOOK: dict[str, Any] = {
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
BLUE, ORANGE, GREEN, RED, PURPLE = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7"
SKY, BLACK, GREY = "#56B4E9", "#000000", "#999999"
"""Okabe and Ito's palette, with a grey for what is not the point."""


@dataclass(frozen=True)
class Series:
    """Name, colour and marker of what is drawn; the marker tells it apart where colour does not."""

    label: str
    colour: str
    marker: str


def figure(height_in: float, columns: int = 1, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """An empty figure of the width of a page with axes side by side or below each other, row by row.

    To be called, and drawn in, within `look()`.
    """
    from rramalloc.report.notebook import NotebookFigure

    drawn = NotebookFigure(figsize=(WIDTH_IN, height_in), layout="constrained")
    axes = drawn.subplots(rows, columns, squeeze=False)
    return drawn, list(axes.flat)


def plain_ticks(axis: Any, at: tuple[float, ...]) -> None:
    """Ticks at these places of a logarithmic axis, written out."""
    from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

    axis.set_major_locator(FixedLocator(at))
    axis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def figure_format(path: str | os.PathLike[str]) -> str:
    """Kind of figure by the end of its file's name. Raises SpecError."""
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in FORMATS:
        raise SpecError(os.fspath(path), f"a figure's name must end in .{', .'.join(FORMATS)}")
    return ending


def check_figure(path: str | os.PathLike[str] | None) -> None:
    """Make sure that a figure can be written there before long work. Raises SpecError, FileError."""
    if path is not None:
        figure_format(path)
        check_writable(path)


def label(text: str, longest: int = LONGEST_LABEL) -> str:
    """A name from a file as a figure can show it: cut in the middle, printable, and no formula."""
    if len(text) > longest:
        text = text[: longest - longest // 2 - 1] + "…" + text[-(longest // 2) :]
    shown = "".join(letter if letter.isprintable() else "?" for letter in text)
    return shown.replace("$", r"\$")


def name_rows(axis: Any, names: Sequence[str], height_in: float) -> None:
    """Names along an axis of `height_in`, first on top if it is vertical: every k-th if they are many."""
    every = -(-len(names) * _ROW_IN // height_in) if names else 1
    places = list(range(0, len(names), max(1, int(every))))
    axis.set_ticks(places, [label(names[place]) for place in places], fontsize=_NAME_SIZE)
    axis.set_tick_params(length=0)


def rows_height_in(count: int) -> float:
    """Height of axes with `count` rows one below the other: higher for more of them, up to a limit."""
    return min(max(count * ROW_HEIGHT_IN, _LEAST_HEIGHT_IN), _MOST_HEIGHT_IN)


def save(drawn: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure whole or not at all, as SVG, PNG or PDF by its name. Raises SpecError, FileError."""
    kind, content = figure_format(path), io.BytesIO()
    with look(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # shown as a box
        drawn.savefig(content, format=kind, dpi=_PNG_DOTS_PER_IN, metadata=_METADATA[kind])
    write_bytes(path, content.getvalue())


@contextmanager
def look() -> Iterator[None]:
    """The settings of matplotlib while a figure is drawn or saved; the user's own come back after."""
    import matplotlib as mpl

    with mpl.rc_context(_LOOK):  # type: ignore[arg-type]
        yield
