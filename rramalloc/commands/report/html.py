"""Sections as HTML. Every text from a file passes through `escaped`."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rramalloc.chart import Chart, Key
from rramalloc.columns import Column
from rramalloc.page.section import Block, Fact, Note, Section, Table
from rramalloc.units import counted, in_table, printable, share

_FEWEST_PACKED = 24  # values; a shorter list of texts is written as it is
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_NONE = "-"
_LONG = 40
"""Letters of a text from which its column is made wide."""
_ZOOMS = (
    ("in", "+", "Zoom in"),
    ("out", "&minus;", "Zoom out"),
    ("left", "←", "Move left"),
    ("right", "→", "Move right"),
    ("up", "↑", "Move up"),
    ("down", "↓", "Move down"),
    ("reset", "Reset", "Show all"),
)


def escaped(text: str) -> str:
    """Return the text as HTML shows it, in elements and attributes; what cannot be printed becomes a mark."""
    return html.escape(printable(text, "\ufffd"), quote=True)


def section_html(section: Section, name: str) -> str:
    """Return the HTML of a section under the anchor `name`."""
    limit = (
        f'<p class="limit"><b>{escaped(section.lead)}</b> {escaped(section.limit)}.</p>'
        if section.limit
        else ""
    )
    blocks = "\n".join(_block(block, f"{name}-{place}") for place, block in enumerate(section.blocks, 1))
    return (
        f'<section class="result" id="{name}" aria-labelledby="{name}-title">\n'
        f'<h2 id="{name}-title">{escaped(section.title)}</h2>\n'
        f'<p class="sub">{escaped(section.subtitle)}</p>\n'
        f'<dl class="facts">{"".join(map(_fact, section.facts))}</dl>\n{limit}\n{blocks}\n'
        f"{_made(section.made)}</section>"
    )


def pairs_html(pairs: Iterable[tuple[str, str]]) -> str:
    """Return the HTML of a list of terms and what they are."""
    rows = "".join(f"<dt>{escaped(term)}</dt><dd>{escaped(text)}</dd>" for term, text in pairs)
    return f'<dl class="pairs">{rows}</dl>'


def table_html(table: Table, name: str) -> str:
    """Return the HTML of a table that can be sorted, filtered and downloaded; the name of its file comes from
    its title."""
    head = "".join(
        f'<th scope="col"{_kind(column)}><button type="button">{escaped(column.heading)}</button></th>'
        for column in table.columns
    )
    body = "\n".join(f"<tr>{''.join(_cells(row, table.columns))}</tr>" for row in table.rows)
    note = f'<p class="note">{escaped(table.note)}</p>' if table.note else ""
    rows = counted(len(table.rows), "row")
    file = re.sub(r"[^a-z0-9]+", "-", table.title.lower()).strip("-") or "table"
    tools = (
        '<div class="tools"><label>Filter '
        f'<input type="search" autocomplete="off" aria-controls="{name}"></label>'
        f'<button type="button" class="csv" data-file="{file}.csv">Download CSV</button>'
        f'<span class="count" role="status">{rows}</span></div>'
    )
    inner = (
        f'{tools}{note}<div class="scroll" tabindex="0" role="region" aria-label="{escaped(table.title)}">'
        f'<table id="{name}"><caption class="hidden">{escaped(table.title)}</caption>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )
    if table.folded:
        count = f'<span class="sub">{rows}</span>'
        return f'<details class="table"><summary>{escaped(table.title)} {count}</summary>{inner}</details>'
    return f'<div class="table"><h3>{escaped(table.title)}</h3>{inner}</div>'


def _block(block: Block, name: str) -> str:
    if isinstance(block, Note):
        return f'<p class="note">{escaped(block.text)}</p>'
    return table_html(block, name) if isinstance(block, Table) else _chart(block, name)


def _chart(chart: Chart, name: str) -> str:
    buttons = "".join(
        f'<button type="button" data-do="{action}" aria-label="{title}" title="{title}">{shown}</button>'
        for action, shown, title in _ZOOMS
        if action not in ("up", "down") or "y" in chart.zoom
    )
    tools = f'<div class="tools" role="group" aria-label="Zoom">{buttons}</div>' if chart.zoom else ""
    how = "Keys: plus and minus zoom, arrows move, 0 shows all." if chart.zoom else ""
    note = f'<p class="note">{escaped(chart.note)}</p>' if chart.note else ""
    specs = safe_json(_packed(chart.page_specs()))
    return (
        f'<figure class="chart" data-chart="{name}" data-zoom="{chart.zoom}">'
        f'<figcaption><h3 id="{name}-title">{escaped(chart.title)}</h3>'
        f"{tools}</figcaption>"
        f'<p class="hidden" id="{name}-told">{escaped(chart.summary)} {how}</p>'
        f'<div class="plot" id="{name}" tabindex="0" role="group" aria-labelledby="{name}-title" '
        f'aria-describedby="{name}-told"></div>{_keys(chart.keys)}{note}'
        '<span class="hidden" role="status"></span>'
        f'<script type="application/json" id="{name}-data">{specs}</script></figure>'
    )


def _keys(keys: Sequence[Key]) -> str:
    """Return the HTML of a legend whose entries hide and show their marks."""
    if not keys:
        return ""
    entries = "".join(
        f'<button type="button" aria-pressed="true" data-key="{place}">'
        f'<i class="{key.shape}" style="--c:{escaped(key.colour)}"></i>{escaped(key.name)}</button>'
        for place, key in enumerate(keys)
    )
    return f'<div class="keys" role="group" aria-label="Legend: shown or hidden">{entries}</div>'


def _fact(fact: Fact) -> str:
    note = f"<dd class=sub>{escaped(fact.note)}</dd>" if fact.note else ""
    return f"<div><dt>{escaped(fact.label)}</dt><dd>{escaped(fact.value)}</dd>{note}</div>"


def _made(made: Sequence[tuple[str, str]]) -> str:
    return f"<details><summary>How it was made</summary>{pairs_html(made)}</details>\n" if made else ""


def _kind(column: Column) -> str:
    return "" if column.kind == "text" else ' class="n"'


def _cells(row: Sequence[Any], columns: Sequence[Column]) -> Iterator[str]:
    """Yield the cells of a row; they hold the exact value of a number that is shown rounded."""
    for value, column in zip(row, columns, strict=True):
        if value is None:
            yield f'<td{_kind(column)} data-v="">{_NONE}</td>'
        elif column.kind == "int":
            yield f"<td class=n>{value:,}</td>"
        elif column.kind == "float":
            yield f'<td class=n data-v="{value!r}">{in_table(column.field, value)}</td>'
        elif column.kind == "percent":
            width = f"{min(1.0, max(0.0, value)):.1%}"
            exact = float(f"{value:.6g}")
            yield f'<td class="n p" style="--p:{width}" data-v="{exact!r}">{share(value)}</td>'
        else:
            text = escaped(" x ".join(map(str, value)) if isinstance(value, tuple) else str(value))
            yield f'<td class=w title="{text}">{text}</td>' if len(text) > _LONG else f"<td>{text}</td>"


def safe_json(value: object) -> str:
    """Return compact JSON without any character that HTML gives a meaning to."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter, written in _UNSAFE.items():
        text = text.replace(letter, written)
    return text


def _packed(value: Any) -> Any:
    """Pack long lists of few different texts as those texts and places in them; page.js undoes it."""
    if isinstance(value, dict):
        return {key: _packed(each) for key, each in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) >= _FEWEST_PACKED and all(isinstance(each, str) for each in value):
        place: dict[str, int] = {}
        at = [place.setdefault(each, len(place)) for each in value]
        if len(place) * 2 <= len(value):
            return {"texts": list(place), "at": at}
    return [_packed(each) for each in value]
