"""Charts of views: `result.plot`, and bars that many results show."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rramalloc.chart import Axis, Chart, Key, Lists, Panel, check_figure, check_width, stacked
from rramalloc.errors import SpecError
from rramalloc.view.view import FIGURE, Detail, Draw, thinned

Bars = Sequence[tuple[Key, Sequence[float]]]


class Charts:
    """The charts of a result by name: `allocation.plot.timeline(save="timeline.svg")` draws one.

    save: also write the chart, as SVG, PNG or PDF by the end of its name; width: of the picture in pixels.
    Every chart raises SpecError and FileError where it cannot be drawn or saved.
    """

    def __init__(self, kind: str, charts: Mapping[str, Draw]) -> None:
        self._kind = kind
        self._charts = charts

    def __dir__(self) -> list[str]:
        return sorted(self._charts)

    def __repr__(self) -> str:
        return f"<figures of {self._kind}: {', '.join(dir(self))}>"

    def __getattr__(self, name: str) -> Callable[..., Chart]:
        if name.startswith("_") or name not in self._charts:
            raise AttributeError(f"no figure {name!r} of {self._kind}; there are {', '.join(dir(self))}")
        return partial(_drawn, self._charts[name])


def _drawn(
    draw: Draw,
    *how: Any,
    save: str | os.PathLike[str] | None = None,
    width: int | None = None,
    **named: Any,
) -> Chart:
    """Return a chart, and write it where `save` says. Raises SpecError, FileError before it is drawn."""
    check_figure(save)
    check_width(width)
    chart = draw(*how, **named)
    if chart is None:
        raise SpecError("figure", "there is nothing to draw in this result")
    chart = replace(chart, width=width)
    if save is not None:
        chart.save(save)
    return chart


def stacked_bars(
    title: str, across: str, up: str, names: Sequence[str], bars: Bars, *, detail: Detail = FIGURE
) -> Chart | None:
    """Chart a stacked bar for each name, as many as the detail allows."""
    if not names:
        return None
    kept = thinned(len(names), max(2, detail.marks // (4 * len(bars))))
    data: Lists = {"place": list(range(len(kept))), "name": [names[at] for at in kept]}
    data |= {key.name: [float(values[at]) for at in kept] for key, values in bars}
    layers, highest = stacked(data, {key.name: key for key, _ in bars}, {across: "name"})
    labels = Axis.of_names(data["name"], across)
    axis = Axis(up, 0, highest * 1.04 or 1)
    return Chart(title, (Panel(labels, axis, 240, tuple(layers)),), f"Bars of {len(kept)} of {len(names)}.")
