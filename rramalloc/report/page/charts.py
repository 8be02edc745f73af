"""Bokeh figures with the look of the page. Colours of text and lines follow the page's theme, see page.js."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rramalloc.report import style
from rramalloc.report.page.parts import Key, Shape

KEY = "key-"
"""Tag of what an entry of a legend stands for, with its number behind it."""
SEVERAL = style.SKY
INK = "#5b6470"
"""What page.js paints in the colour of the text: models with the tag "ink"."""
_LONGEST = 20
_EXACT = 2**53 - 1
_TICKS = [digit * 10**power for power in range(16) for digit in (1, 2, 5)]
"""Of logarithmic axes: what Bokeh chooses there leaves whole decades empty."""
Columns = Mapping[str, Sequence[Any]]
Lists = dict[str, list[Any]]


def figure(
    height: int,
    x: str,
    y: str = "",
    *,
    x_log: bool = False,
    y_log: bool = False,
    x_range: Any = None,
    y_range: Any = None,
    drag: str = "xbox_zoom",
) -> Any:
    """An empty figure as wide as the page. height: pixels; x, y: names of axes; drag: what dragging does."""
    from bokeh.models import FixedTicker, NumeralTickFormatter, WheelZoomTool
    from bokeh.plotting import figure as make

    given = {name: value for name, value in (("x_range", x_range), ("y_range", y_range)) if value is not None}
    directions: Any = "both" if drag == "box_zoom" else "width"
    drawn = make(
        height=height,
        sizing_mode="stretch_width",
        toolbar_location=None,
        tools="",
        x_axis_label=x,
        y_axis_label=y or None,
        x_axis_type="log" if x_log else "linear",
        y_axis_type="log" if y_log else "linear",
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        min_border_right=14,
        output_backend="canvas",
        **given,
    )
    drawn.add_tools(drag, WheelZoomTool(modifiers="ctrl", dimensions=directions), "reset")
    for axis in (*drawn.xaxis, *drawn.yaxis):
        axis.axis_label_text_font_style = "normal"
        axis.axis_label_text_font_size = "12px"
        axis.major_label_text_font_size = "11px"
        axis.minor_tick_line_color = None
        axis.formatter = NumeralTickFormatter(format="0,0.[00]")
    for axis, logarithmic in ((drawn.xaxis[0], x_log), (drawn.yaxis[0], y_log)):
        if logarithmic:
            axis.ticker = FixedTicker(ticks=_TICKS)
    drawn.grid.grid_line_alpha = 0.35
    drawn.toolbar.active_drag = drawn.tools[0]
    drawn.toolbar.active_scroll = drawn.tools[1]
    return drawn


def hover(drawn: Any, renderers: Sequence[Any], rows: Sequence[tuple[str, str]], mode: str = "mouse") -> None:
    """What is told of the mark under the pointer: (label, Bokeh's template of constant text)."""
    from bokeh.models import HoverTool

    tool = HoverTool(renderers=list(renderers), tooltips=list(rows), mode=mode, point_policy="follow_mouse")
    drawn.add_tools(tool)


def source(columns: Columns) -> Any:
    """Columns of equal length as Bokeh takes them."""
    from bokeh.models import ColumnDataSource

    return ColumnDataSource({name: [_number(value) for value in values] for name, values in columns.items()})


def columns(marks: Iterable[Mapping[str, Any]]) -> Lists:
    """Columns from marks, which all have the same fields."""
    found: Lists = {}
    for mark in marks:
        for name, value in mark.items():
            found.setdefault(name, []).append(value)
    return found


def _number(value: Any) -> Any:
    """Integers beyond what a browser counts in as floats."""
    return float(value) if isinstance(value, int) and abs(value) > _EXACT else value


def factors(drawn: Any, names: Sequence[str], axis: str) -> None:
    """Names at 0, 1, ... of an axis ("x" or "y"), as many as there is room for when it is zoomed."""
    from bokeh.models import AdaptiveTicker, Range1d

    shown = getattr(drawn, f"{axis}axis")[0]
    shown.ticker = AdaptiveTicker(min_interval=1, mantissas=[1, 2, 5], desired_num_ticks=min(len(names), 30))
    shown.major_label_overrides = {place: text(name) for place, name in enumerate(names)}
    shown.minor_tick_line_color = None
    low, high = -0.6, len(names) - 0.4
    turned = Range1d(high, low) if axis == "y" else Range1d(low, high)
    setattr(drawn, f"{axis}_range", turned)
    getattr(drawn, f"{axis}grid")[0].grid_line_color = None


def text(name: str, longest: int = _LONGEST) -> str:
    """A name as an axis or legend can show it: cut, printable, and no formula whatever is in it."""
    return style.label(name, longest).replace("\\$", "$").replace("$", "$\u2060").replace("\\", "\\\u2060")


def ink(drawn: Any, place: float, *, vertical: bool = True) -> None:
    """A dashed line across the figure in the colour of the text."""
    from bokeh.models import Span

    dimension: Any = "height" if vertical else "width"
    drawn.add_layout(
        Span(
            location=_number(place),
            dimension=dimension,
            line_dash="dashed",
            line_color=INK,
            line_width=1.2,
            tags=["ink"],
        )
    )


def keys(entries: Sequence[tuple[str, Sequence[Any]]]) -> tuple[Key, ...]:
    """The legend of a chart from names and what is drawn of each; page.js hides and shows it by its tag."""
    for place, (_, renderers) in enumerate(entries):
        for renderer in renderers:
            renderer.tags = [*renderer.tags, f"{KEY}{place}"]
    return tuple(Key(name, *_look(renderers[0])) for name, renderers in entries)


def _look(renderer: Any) -> tuple[str, Shape]:
    glyph = renderer.glyph
    if not hasattr(glyph, "fill_color"):
        dashed = glyph.line_dash not in ([], "solid")
        return str(glyph.line_color), "dashed" if dashed else "line"
    if getattr(glyph, "hatch_pattern", None):
        return SEVERAL, "hatched"
    plain = isinstance(glyph.fill_color, str) and glyph.fill_color.startswith("#")
    return glyph.fill_color if plain else SEVERAL, "area"


def row_height(rows: int, *, each: int = 20, most: int = 640, around: int = 70) -> int:
    """Pixels of a figure with so many rows one below the other."""
    return min(rows * each, most) + around
