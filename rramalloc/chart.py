"""One description of a chart: Vega-Lite draws it on a page, in a file and in a notebook.

A chart is panels of layers of marks over columns of data. The same chart gives the same bytes: nothing in it
depends on the clock, the machine or what was drawn before.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import struct
import subprocess
import tempfile
import textwrap
import threading
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle, groupby, islice
from pathlib import Path
from typing import IO, Any, Literal, cast

from rramalloc.errors import SpecError
from rramalloc.files import check_writable, path_text, write_bytes
from rramalloc.records import brief
from rramalloc.units import printable, scale_of

VegaSpec = dict[str, Any]
Columns = Mapping[str, Sequence[Any]]
Lists = dict[str, list[Any]]
Zoom = Literal["x", "y", "xy", ""]
MarkShape = Literal["square", "stroke", "circle", "diamond", "triangle-up", "triangle-down", "cross"]

# Okabe and Ito's palette, distinct for all kinds of colour vision
BLUE = "#0072B2"
ORANGE = "#E69F00"
GREEN = "#009E73"
RED = "#D55E00"
PURPLE = "#CC79A7"
SKY = "#56B4E9"
GREY = "#999999"
SERIES = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY)
LAYERS = (
    "#0087a5 #ffc300 #c3000f #e196ff #690fa5 #00e1ff #a58700 #0f5a4b #3c69f0 #96d200 #e14ba5 #ff9696 "
    "#78a5ff #008700 #783c00 #004ba5 #00ffb4 #a50078 #f05a00 #a569f0 #3cb478 #a58796 #b4c3a5 #785a96"
).split()
"""Colours of layers: any two are 0.14 apart in OKLab or more, and 0.18 from a light and from a dark page, of
all colours that are as far from both and have a chroma of at most 0.21."""
_STRIPES = (("#ffffff", True), ("#ffffff", False), ("#1b232c", True), ("#1b232c", False))
"""Hatchings of further layers: colour of the stripes, and whether they rise."""
SHAPES: tuple[MarkShape, ...] = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross")
INK = {"expr": "ink"}
"""The colour of text and axes, which follows the theme of a page."""
DASHED = [5, 4]

FORMATS = ("svg", "png", "pdf")
_WIDTH = 520  # pixels of a panel, so that two stand beside each other on a wide page
_WIDTHS = range(240, 10_001)  # pixels of a picture whose width is given
_LEAST_PANEL = 80  # pixels of a panel beside its labels
_FITTINGS = 5  # drawings of a picture until its panels leave room for what is beside them: two are usual
_ROUNDED = 2  # pixels that a picture may lack, which its margin takes
_BESIDE = 270  # pixels of a panel that stands beside others
_LETTER = 6.5  # pixels of a letter in a legend and in a heading, which few names exceed on average
_LINE = 11  # pixels of a line of an axis's text
_SLANTED = 13  # pixels from one slanted name to the next, at least
_LONGEST_KEY = 220  # pixels of a name in a legend
_LONGEST_NAME = 190  # pixels of a name on an axis, 28 letters of which few are wider
_NAMES = 0.4  # part of a narrow picture that names may take
_MOST_COLUMNS = 4  # of a legend
_MOST_NUMBERS = 10  # numbers on an axis that has no room for names
_PNG_SCALE = 2.5  # pixels of a PNG per pixel of the chart: sharp in print
_LONGEST_LABEL = 28  # characters of a layer's name that an axis shows
_APART = 6  # pixels between two labels of an axis, at least
_ROW = 18  # pixels of a row, enough for a line of text
_LEAST_HEIGHT = 40  # pixels of a panel of few rows
_MOST_HEIGHT = 640  # pixels of a panel of many rows: it still fits a screen
_MANY = 20  # ratio of the largest to the smallest value from which an axis is logarithmic
_NUMBER = ",.12~g"
_EXACT = 2**53  # browsers count in doubles, which hold whole numbers exactly up to here
_TICKS = [digit * 10.0**power for power in range(-4, 16) for digit in (1, 2, 5)]
_COUNTED = re.compile(r"""(\bid="|url\(#)(clip|gradient_)(\d+)""")
"""Names that Vega counts on from the picture before."""
_NAMED = re.compile(rb"(?m)(?:^ +/[A-Za-z]+\d+ \d+ 0 R\n)+")
"""Resources of a PDF, which are written in any order."""
_ON_PAPER = ("#333333", "#dddddd", "Liberation Sans, Arial, sans-serif")
_ON_PAGE = ("var(--ink)", "var(--grid)", "system-ui, sans-serif")
"""Ink, grid lines and font; the page sets its variables with the theme."""


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of a legend. shape: of its points, "square" for areas and "stroke" for lines."""

    name: str
    colour: str
    shape: MarkShape = "square"


@dataclass(frozen=True, slots=True)
class Axis:
    """A quantitative axis from `low` to `high`.

    names: labels at 0, 1, ... instead of numbers, none if not all of them fit; numbered: numbers of some of
    them then, as tables have them; integers: ticks at integers only; down: a vertical axis begins at the top,
    as one of names does; shown, grid: whether its ticks and its lines are drawn; margin: pixels beyond `high`
    for words at the ends of bars; divisor: of values, in the unit that the title says.
    """

    title: str
    low: float
    high: float
    scale: Literal["linear", "log", "sqrt"] = "linear"
    names: tuple[str, ...] = ()
    integers: bool = False
    shown: bool = True
    down: bool = False
    grid: bool = True
    numbered: bool = False
    margin: int = 0
    divisor: float = 1.0

    @classmethod
    def of_names(cls, names: Sequence[str], title: str = "", *, numbered: bool = False) -> Axis:
        """Return an axis with one unit for each name."""
        shown = labels(names)
        return cls(title, -0.6, max(1, len(names)) - 0.4, names=shown, numbered=numbered)

    @classmethod
    def around(cls, title: str, values: Sequence[float], *, unit: str = "", integers: bool = False) -> Axis:
        """Return an axis a little beyond the values, logarithmic if they are positive with a large ratio.

        unit: of the values; the axis is in the one that tables show them in.
        """
        low = min(values)
        high = max(values)
        shown, divisor = scale_of(unit, high)
        words = f"{title} [{shown}]" if shown else title
        if 0 < _MANY * low < high:
            return cls(words, low / 1.1, high * 1.1, "log", integers=integers, divisor=divisor)
        # Of equal values in um2 an axis one um2 wide would have ticks of ten digits.
        space = 0.04 * (high - low) or (0 if integers else 0.05 * abs(high)) or 1
        return cls(words, low - space, high + space, integers=integers, divisor=divisor)


@dataclass(frozen=True, slots=True)
class Marks:
    """Marks of one kind, one for each row of `data`.

    mark: Vega-Lite's kind and look; channels: column by channel, or a definition of the channel;
    hover: column by the words in front of its value; derived: expression by the column it makes; room: pixels
    that a unit of either axis must have, or the marks are left out.
    """

    mark: VegaSpec
    data: Columns
    channels: Mapping[str, Any]
    key: Key | None = None
    hover: Mapping[str, str] = field(default_factory=dict)
    derived: Mapping[str, str] = field(default_factory=dict)
    room: int = 0


@dataclass(frozen=True, slots=True)
class Panel:
    """Layers over the same axes. height: pixels between the axes' ends."""

    x: Axis
    y: Axis
    height: int
    layers: tuple[Marks, ...]
    title: str = ""


_SERVE = """
import json, struct, sys, vl_convert
for line in sys.stdin:
    call, arguments, options = json.loads(line)
    made = getattr(vl_convert, call)(*arguments, **options)
    made = made if isinstance(made, bytes) else made.encode()
    sys.stdout.buffer.write(struct.pack("=Q", len(made)) + made)
    sys.stdout.flush()
"""


class _Drawer:
    """A process that calls vl_convert for this one, which it may abort; it ends with its standard input."""

    def __init__(self) -> None:
        self._owner, self._said = os.getpid(), tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        from rramalloc.children import python_command

        command = python_command("-c", _SERVE)
        self._process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said
        )

    @property
    def serves(self) -> bool:
        """Whether the process runs, and is not that of the process that this one was forked from."""
        return self._owner == os.getpid() and self._process.poll() is None

    def __call__(self, *request: Any) -> bytes:
        """Return the result of a call. Raises SpecError if the process ends instead."""
        into = cast("IO[bytes]", self._process.stdin)
        out = cast("IO[bytes]", self._process.stdout)
        with suppress(BrokenPipeError):
            into.write(json.dumps(request).encode() + b"\n")
            into.flush()
        head = out.read(_HEAD.size)
        length = _HEAD.unpack(head)[0] if len(head) == _HEAD.size else 0
        made = out.read(length)
        if length and len(made) == length:
            return made
        code = self._process.wait()
        self._said.seek(0)
        said = self._said.read().decode(errors="replace").strip().splitlines() or ["it said nothing"]
        words = f"vl-convert ended with code {code} ({printable(said[-1][:200])})"
        raise SpecError("figure", f"{words}: the results are not affected, leave the figure out to go on")

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


_HEAD = struct.Struct("=Q")
_DRAWING = threading.Lock()
_drawers: list[_Drawer] = []


def converted(call: str, *arguments: str, **options: float) -> bytes:
    """Return the result of a function of vl_convert. One process serves all calls: its start takes 0.6 s.

    Raises SpecError.
    """
    with _DRAWING:
        if not _drawers or not _drawers[0].serves:
            _drawers[:] = [_Drawer()]
            atexit.register(_drawers[0].end)
        try:
            return _drawers[0](call, arguments, options)
        except BaseException:  # an answer that nobody has read must not be that of the next call
            _drawers.pop().end()
            raise


@dataclass(frozen=True, slots=True, repr=False)
class Chart:
    """Panels one below the other, or several beside each other, with one legend.

    title: on a page; heading: lines above the picture of a file; summary: what it shows, for those who
    cannot see it; zoom: directions in which a page zooms, "y" only with one panel; width: pixels of the
    picture of a file, None for panels of the usual width; columns: panels beside each other, where they fit.
    """

    title: str
    panels: tuple[Panel, ...]
    summary: str
    heading: tuple[str, ...] = ()
    zoom: Zoom = "x"
    note: str = ""
    width: int | None = None
    columns: int = 1

    @property
    def keys(self) -> tuple[Key, ...]:
        """The legend, in the order of the layers."""
        layers = (layer for panel in self.panels for layer in panel.layers)
        return tuple(dict.fromkeys(layer.key for layer in layers if layer.key is not None))

    @property
    def spec(self) -> VegaSpec:
        """The Vega-Lite specification of a file's picture. Raises SpecError for a width that is too small."""
        if self.width is None:
            return self._spec(_WIDTH if self._beside == 1 else _BESIDE)
        return self._fitted(self.width)[0]

    @property
    def _beside(self) -> int:
        """Panels beside each other in a file."""
        most = self.columns if self.width is None else self.width // _BESIDE
        return max(1, min(most, self.columns, len(self.panels)))

    def _spec(self, width: int) -> VegaSpec:
        """Return the specification with panels of that width."""
        panels = [self._panel(place, width) | {"width": width} for place in range(len(self.panels))]
        shared = {"color": "shared", "shape": "shared"}
        room = self.width or width * self._beside
        letters = int(room / _LETTER)
        lines = [
            part
            for line in self.heading
            for part in textwrap.wrap(label(line, 100), letters, break_on_hyphens=False)
        ]
        return self._common(_ON_PAPER) | {
            "title": {"text": lines, "anchor": "middle"} | ({"limit": room - 20} if self.width else {}),
            "concat": panels,
            "columns": self._beside,
            "resolve": {"scale": shared, "legend": shared},
        }

    def _fitted(self, width: int) -> tuple[VegaSpec, str]:
        """Return the specification of a picture of that width, and the picture as SVG."""
        check_width(width)
        panel = width // self._beside
        for _ in range(_FITTINGS):
            panel = max(_LEAST_PANEL, panel)
            spec = self._spec(panel)
            drawn = converted("vegalite_to_svg", json.dumps(spec)).decode()
            excess = int(drawn.partition('width="')[2].partition('"')[0]) - width
            if excess == 0:
                return spec, drawn
            if -_ROUNDED <= excess < 0:  # as labels in the middle of a tick stand out by half a pixel
                spec["padding"] = {"left": 5, "top": 5, "bottom": 5, "right": 5 - excess}
                return spec, converted("vegalite_to_svg", json.dumps(spec)).decode()
            panel -= -(-excess // self._beside)
        words = f"{width} px leave no room for {brief(self.title)}: it takes {width + excess} px"
        raise SpecError("figure width", words)

    def page_specs(self) -> list[VegaSpec]:
        """Return the specification of every panel for a page, without the legend, which the page draws."""
        common = self._common(_ON_PAGE)
        return [common | self._panel(n, None) | {"width": "container"} for n in range(len(self.panels))]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture atomically, as SVG, PNG or PDF by the end of its name.

        Raises SpecError, FileError.
        """
        kind = figure_format(path)
        if kind == "svg":
            write_bytes(path, self._repr_svg_().encode())
            return
        text = json.dumps(self.spec)
        if kind == "png":
            scale = _PNG_SCALE if self.width is None else 1
            write_bytes(path, converted("vegalite_to_png", text, scale=scale))
        else:
            write_bytes(path, _NAMED.sub(_in_order, converted("vegalite_to_pdf", text)))

    def __repr__(self) -> str:
        return f"<Chart {self.title}>"

    def _repr_svg_(self) -> str:
        places: dict[str, int] = {}

        def renumbered(match: re.Match[str]) -> str:
            return f"{match[1]}{match[2]}{places.setdefault(match[2] + match[3], len(places))}"

        if self.width is None:
            drawn = converted("vegalite_to_svg", json.dumps(self.spec)).decode()
        else:
            _, drawn = self._fitted(self.width)
        return _COUNTED.sub(renumbered, drawn)

    @property
    def _name_pixels(self) -> int:
        """Pixels that a name on an axis may take."""
        return min(_LONGEST_NAME, round(_NAMES * (self.width or _WIDTH)))

    def _common(self, look: tuple[str, str, str]) -> VegaSpec:
        ink, grid, font = look
        longest = _LONGEST_LABEL * self._name_pixels // _LONGEST_NAME  # Vega cuts the ends, which may differ
        names = [
            {
                "name": f"{axis}_names_{place}",
                "value": labels(getattr(panel, axis).names, longest),
            }
            for place, panel in enumerate(self.panels)
            for axis in "xy"
            if getattr(panel, axis).names
        ]
        ends = [
            {"name": f"{axis}_{end}", "value": _drawable(getattr(getattr(self.panels[0], axis), end))}
            for axis in self.zoom
            for end in ("low", "high")
        ]
        keys = [{"name": f"key_{place}", "value": True} for place in range(len(self.keys))]
        return {
            "params": [{"name": "ink", "value": ink}, *names, *ends, *keys],
            "config": _config(ink, grid, font),
        }

    def _panel(self, place: int, width: int | None) -> VegaSpec:
        """Return a panel of a file with its width in pixels, or one of a page, which fills its place."""
        panel = self.panels[place]
        axes = {axis: self._axis(getattr(panel, axis), axis, place, width) for axis in "xy"}
        unit = f"min({self._unit('x', place, width)}, {self._unit('y', place, width)})"
        layers = [self._layer(layer, axes, width, unit) for layer in panel.layers]
        spec: VegaSpec = {"height": panel.height, "layer": layers}
        return spec | ({"title": {"text": panel.title, "anchor": "start"}} if panel.title else {})

    def _axis(self, axis: Axis, which: str, place: int, width: int | None) -> VegaSpec:
        """Return the channel of a position without its column."""
        if which in self.zoom:
            ends = {"domainMin": {"expr": f"{which}_low"}, "domainMax": {"expr": f"{which}_high"}}
        else:
            ends = {"domainMin": _drawable(axis.low), "domainMax": _drawable(axis.high)}
        if axis.margin:
            pixels = "width" if width is None else width
            left = f"max({pixels} / 3, {pixels} - {axis.margin})"
            ends["domainMax"] = {"expr": f"{axis.low} + {axis.high - axis.low} * {pixels} / {left}"}
        scale = {"type": axis.scale, "nice": False, "zero": False, **ends}
        scale["reverse"] = which == "y" and (axis.down or bool(axis.names))
        shown: VegaSpec = {
            "title": axis.title or None,
            "format": _NUMBER,
            "labelOverlap": "greedy",
            "labelSeparation": _APART,
            "grid": axis.grid,
        }
        if axis.divisor != 1:
            shown["labelExpr"] = f"format(datum.value / {axis.divisor:.0f}, '{_NUMBER}')"
        if axis.names:
            shown |= {"values": list(range(len(axis.names))), "grid": False, "ticks": False}
            shown["labelOverlap"] = False
            shown["labelExpr"] = self._names(axis, which, place, width)
            if which == "x":
                shown["labelAngle"] = -60
            else:
                shown["labelLimit"] = self._name_pixels
        elif axis.scale == "log":
            shown["values"] = [tick for tick in _TICKS if tick <= axis.high]
        elif axis.integers:  # an axis of two units has ticks between them for all that Vega is told
            shown["tickMinStep"] = 1
            shown["labelExpr"] = "datum.value % 1 ? '' : datum.label"
            whole = {"condition": {"test": "datum.value % 1 === 0", "value": 1}, "value": 0}
            shown |= {"tickOpacity": whole, "gridOpacity": whole}
        return {"type": "quantitative", "scale": scale, "axis": shown if axis.shown else None}

    def _names(self, axis: Axis, which: str, place: int, width: int | None) -> str:
        """Return the expression of a name on an axis: every one is written, or none is.

        On a page that depends on the width of the browser, and on what the reader has zoomed to.
        """
        fits = f"{self._unit(which, place, width)} >= {_LINE if which == 'y' else _SLANTED}"
        step = next(tick for tick in _TICKS if tick >= 1 and len(axis.names) <= _MOST_NUMBERS * tick)
        number = f"datum.value % {step:.0f} ? '' : datum.value" if axis.numbered else "''"
        return f"{fits} ? {which}_names_{place}[datum.value] : {number}"

    def _unit(self, which: str, place: int, width: int | None) -> str:
        """Return the expression of the pixels that a unit of an axis has."""
        axis: Axis = getattr(self.panels[place], which)
        span = f"({which}_high - {which}_low)" if which in self.zoom else str(axis.high - axis.low)
        extent = self.panels[place].height if which == "y" else "width" if width is None else width
        return f"{extent} / {span}"

    def _layer(self, layer: Marks, axes: Mapping[str, VegaSpec], width: int | None, unit: str) -> VegaSpec:
        """Return the marks; unit: expression of the pixels of the shorter of both axes' units."""
        encoding: VegaSpec = {}
        for channel, given in layer.channels.items():
            definition: VegaSpec = {"field": given} if isinstance(given, str) else given
            positional = channel in axes and "value" not in definition
            encoding[channel] = (axes[channel] | definition) if positional else definition
            if "legend" in definition:
                legend = definition["legend"] | _in_columns(definition["scale"]["domain"], width)
                encoding[channel] = definition | {"legend": legend}
        transforms: list[VegaSpec] = [
            {"calculate": expression, "as": name} for name, expression in layer.derived.items()
        ]
        if layer.key is not None:
            transforms.append({"filter": f"key_{self.keys.index(layer.key)}"})
            encoding = self._keyed(layer.key, encoding, width)
        if layer.hover:
            number = {"type": "quantitative", "format": _NUMBER}
            is_text = {name for name, column in layer.data.items() if column and isinstance(column[0], str)}
            encoding["tooltip"] = [
                {"field": name, "title": words} | ({"type": "nominal"} if name in is_text else number)
                for words, name in layer.hover.items()
            ]
        data = {name: [_drawable(value) for value in values] for name, values in layer.data.items()}
        values = [dict(zip(data, row, strict=True)) for row in zip(*data.values(), strict=True)]
        rows = {"columns": data} if width is None else {"values": values}
        mark = {"clip": layer.mark["type"] != "text", **layer.mark}
        if layer.room:
            mark["opacity"] = {"expr": f"{unit} >= {layer.room} ? 1 : 0"}
        return {"data": rows, "transform": transforms, "mark": mark, "encoding": encoding}

    def _keyed(self, key: Key, encoding: VegaSpec, width: int | None) -> VegaSpec:
        """Return colour, and shape of points, by the name in the legend."""
        names = [key.name for key in self.keys]
        legend = None if width is None else {"title": None, "orient": "bottom"} | _in_columns(names, width)

        def by_name(range_: list[str]) -> VegaSpec:
            scale = {"domain": names, "range": range_}
            return {"datum": key.name, "type": "nominal", "scale": scale, "legend": legend}

        coloured = {"color": by_name([key.colour for key in self.keys])} | encoding
        if "shape" in encoding:
            coloured["shape"] = by_name([key.shape for key in self.keys])
        return coloured


def bars(
    data: Columns,
    left: str | VegaSpec,
    right: str,
    *,
    key: Key | None = None,
    hover: Mapping[str, str] | None = None,
    thick: float = 0.72,
    look: VegaSpec | None = None,
) -> Marks:
    """Return horizontal bars on the rows that the column `row` names, `thick` of a row high."""
    channels = {"x": right, "x2": left, "y": "bottom", "y2": "top"}
    derived = {"bottom": f"datum.row - {thick / 2}", "top": f"datum.row + {thick / 2}"}
    return Marks({"type": "rect", **(look or {})}, data, channels, key, hover or {}, derived)


def stacked(data: Lists, terms: Mapping[str, Key], hover: Mapping[str, str]) -> tuple[list[Marks], float]:
    """Return (vertical bars at the column `place` with the columns of `terms` as parts, their height).

    hover: as of marks, for all parts; each has its own value besides.
    """
    layers = []
    low = "base"
    data["base"] = [0.0] * len(data["place"])
    for name, key in terms.items():
        top = f"{name}_top"
        data[top] = [start + value for start, value in zip(data[low], data[name], strict=True)]
        channels = {"x": "left", "x2": "right", "y": top, "y2": low}
        sides = {"left": "datum.place - 0.35", "right": "datum.place + 0.35"}
        layers.append(Marks({"type": "rect"}, data, channels, key, {**hover, key.name: name}, sides))
        low = top
    return layers, max([0.0, *data[low]])


def rule(at: float, along: Literal["x", "y"], colour: str | VegaSpec = INK, key: Key | None = None) -> Marks:
    """Return a dashed line across the panel where the axis `along` is `at`."""
    look: VegaSpec = {"type": "rule", "strokeDash": DASHED, "strokeWidth": 1.4}
    return Marks(look if key else look | {"color": colour}, {"at": [at]}, {along: "at"}, key)


def fills(count: int) -> list[str | VegaSpec]:
    """Return the fills of layers in their order: colours, then the same ones hatched, as scales take them."""
    hatched = (_hatched(colour, *stripes) for stripes in _STRIPES for colour in LAYERS)
    return list(islice(cycle([*LAYERS, *hatched]), count))


def _hatched(colour: str, stripe: str, rises: bool) -> VegaSpec:
    """Return a colour with two diagonal stripes, as a gradient in steps: Vega has no other hatching."""
    parts = [colour, stripe, colour, stripe, colour]
    stops = [
        {"offset": round(end / len(parts), 3), "color": part}
        for place, part in enumerate(parts)
        for end in (place, place + 1)
    ]
    ends = {"x1": 0, "y1": int(rises), "x2": 1, "y2": int(not rises)}
    return {"expr": json.dumps({"gradient": "linear", **ends, "stops": stops})}


def _letters(text: str) -> int:
    """Return the length of a text in letters; those of Chinese, Japanese and Korean are twice as wide."""
    return sum(2 if unicodedata.east_asian_width(letter) in "FW" else 1 for letter in text)


def _in_columns(names: Sequence[str], width: int | None) -> VegaSpec:
    """Return the columns of a legend that fit under a panel; on a page its width is known there alone."""
    widest = 30 + min(_LONGEST_KEY, round(_LETTER * max(map(_letters, names), default=0)))
    if width is None:
        return {"columns": {"expr": f"clamp(floor(width / {widest}), 1, {_MOST_COLUMNS})"}}
    columns = min(_MOST_COLUMNS, max(1, width // widest))
    return {"columns": columns, "labelLimit": min(_LONGEST_KEY, max(60, width - 30))}


def row_height(rows: int, each: int = _ROW) -> int:
    """Return the height of a panel with rows one below the other, up to a limit."""
    return min(max(rows * each, _LEAST_HEIGHT), _MOST_HEIGHT)


def columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return columns from rows that all have the same fields."""
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def named(text: str) -> dict[str, str]:
    """Return columns by heading: {"layer": "layer", "share [%]": "part"} from "layer, share [%]=part".

    A name with a comma cannot be written so.
    """
    pairs = (part.partition("=") for part in text.split(", "))
    return {words: column or words for words, _, column in pairs}


def lists(records: Sequence[Any], text: str) -> Lists:
    """Columns from fields of records, "layer=name, arrays" as `named` reads it."""
    return {column: [getattr(record, field) for record in records] for column, field in named(text).items()}


def label(text: str, longest: int = _LONGEST_LABEL, apart: Sequence[int] = ()) -> str:
    """Return a name from a file as a chart can show it: printable, and cut if it is long.

    It keeps its ends, or the letters at the places `apart` and as many in front of each as fit.
    """
    if len(text) <= longest:
        return printable(text)
    for before in range(longest, -1, -1):
        kept = {place - back for place in apart for back in range(before + 1)}
        runs = groupby(range(len(text)), kept.__contains__)
        shown = "".join("".join(text[at] for at in run) if is_kept else "…" for is_kept, run in runs)
        if 1 < len(shown) <= longest:
            return printable(shown)
    return printable(text[: longest - longest // 2 - 1] + "…" + text[-(longest // 2) :])


def labels(names: Sequence[str], longest: int = _LONGEST_LABEL) -> tuple[str, ...]:
    """Return names as `label` has them; if two would read alike, all keep what tells them apart."""
    shown = [label(name, longest) for name in names]
    different = set(names)
    if len(set(shown)) < len(different):
        following: dict[str, set[str]] = {}  # letters behind the same beginning
        for name in different:
            for place in range(len(name) + 1):
                following.setdefault(name[:place], set()).add(name[place : place + 1])
        shown = [
            label(name, longest, [at for at in range(len(name)) if len(following[name[:at]]) > 1])
            for name in names
        ]
    if len(set(shown)) < len(different):  # more differences than a label holds: each gets its number
        number = {name: place for place, name in enumerate(dict.fromkeys(names), 1)}
        shown = [f"{number[name]} {label(name, max(4, longest - 5))}" for name in names]
    return tuple(shown)


def figure_format(path: str | os.PathLike[str]) -> str:
    """Return the kind of figure by the end of its file's name. Raises SpecError."""
    ending = Path(path_text(path)).suffix.lower().removeprefix(".")
    if ending not in FORMATS:
        raise SpecError(os.fspath(path), f"a figure's name must end in .{', .'.join(FORMATS)}")
    return ending


def check_figure(path: str | os.PathLike[str] | None) -> None:
    """Make sure that a figure can be written there before long work. Raises SpecError, FileError."""
    if path is not None:
        figure_format(path)
        check_writable(path)


def check_width(width: int | None) -> None:
    """Make sure that a picture can have that width in pixels. Raises SpecError."""
    if width is not None and width not in _WIDTHS:
        limits = f"{_WIDTHS.start} to {_WIDTHS.stop - 1:,} pixels"
        raise SpecError("figure width", f"{brief(width)}: a figure is {limits} wide")


def _config(ink: str, grid: str, font: str) -> VegaSpec:
    axis = {"labelColor": ink, "titleColor": ink, "domainColor": grid, "tickColor": grid, "gridColor": grid}
    plain = {"titleFontWeight": "normal", "labelFontSize": 11, "titleFontSize": 12}
    return {
        "background": None if ink.startswith("var") else "white",
        "font": font,
        "aria": False,  # a page has the summary; an attribute for every mark would double an SVG
        "view": {"stroke": None},
        "axis": axis | plain | {"labelLimit": _LONGEST_NAME, "gridOpacity": 0.6},
        "axisY": {"minExtent": 44},
        "title": {"color": ink, "fontWeight": "normal", "fontSize": 12},
        "legend": {"labelColor": ink, "titleColor": ink, "titleFontWeight": "normal", "labelFontSize": 11}
        | {"symbolOpacity": 1},
        "text": {"fill": ink, "fontSize": 10},
        "concat": {"spacing": 14},
    }


def _in_order(match: re.Match[bytes]) -> bytes:
    return b"".join(sorted(match[0].splitlines(keepends=True)))


def _drawable(value: Any) -> Any:
    """Return integers that a browser cannot count in as floats. Raises OverflowError beyond those."""
    if isinstance(value, str):
        return printable(value)
    return float(value) if isinstance(value, int) and abs(value) >= _EXACT else value
