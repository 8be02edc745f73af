"""A view as HTML: a section of a page, or the output of a notebook. Every text passes through `escaped`."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rramalloc.chart import labels
from rramalloc.units import LONGEST_NAME, counted, one_line, printable
from rramalloc.view.view import FIGURE, Column, Detail, Table, View

if TYPE_CHECKING:
    from rramalloc.chart import Chart, Key

_FEWEST_PACKED = 24  # values; a shorter list of texts is written as it is
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_LONGEST_WORD = 36  # letters of a name in a table, which is cut in the middle and never broken
_LONG = 40
"""Letters of a text from which its column is made wide."""
_OPEN_ROWS = 12
"""Rows up to which a table is open from the beginning, as the first of a view always is."""
_NOTEBOOK_ROWS = 24
"""Rows of a table in a notebook; of longer ones the first and the last are shown."""
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
    """Return the text escaped for HTML, with marks in place of characters that cannot be printed."""
    return html.escape(printable(text, "\ufffd"), quote=True)


def section_html(view: View, name: str, detail: Detail = FIGURE) -> str:
    """Return the HTML of a view under the anchor `name`: numbers on top, words, charts, tables."""
    charts = [chart for draw in view.charts.values() if (chart := draw(detail=detail)) is not None]
    shown = [_chart(chart, f"{name}-{place}", view.title) for place, chart in enumerate(charts, 1)]
    tables = [table for table in view.tables if table.records]
    shown += [
        table_html(table, f"{name}-t{place}", detail, open_=not place) for place, table in enumerate(tables)
    ]
    facts = ""  # of a number: its name, the value, and below it what goes on from it
    for fact in sorted(view.facts, key=lambda fact: fact.name != view.answer):
        if not isinstance(fact.value, str):
            more = fact.note.lstrip(",;: ")
            note = f"<dd class=sub>{escaped(more)}</dd>" if more else ""
            heading = escaped(_sentence(fact.name))
            facts += f"<div><dt>{heading}</dt><dd>{escaped(fact.words(grouped=True))}</dd>{note}</div>"
    sentence = view.sentence.removesuffix(".")  # may begin with the name of a layer
    words = [(fact.name, fact.line) for fact in view.facts if isinstance(fact.value, str)]
    notes = "".join(f'<p class="note">{escaped(note)}</p>\n' for note in view.notes)
    made = pairs_html((fact.name, fact.line) for fact in view.made)
    return (
        f'<section class="result" id="{name}" aria-labelledby="{name}-title">\n'
        f'<h2 id="{name}-title">{escaped(view.title)}</h2>\n'
        f'<p class="sub">{escaped(view.kind)}</p>\n'
        f'<p class="limit">{escaped(sentence)}.</p>\n'
        f'<dl class="facts">{facts}</dl>\n{pairs_html(words)}\n{notes}{"".join(shown)}\n'
        f"<details><summary>How it was made</summary>{made}</details>\n</section>"
    )


def notebook_html(view: View, headline: str, kind: str) -> str:
    """Return the HTML of a view without scripts: its headline, the table of the result, facts and notes."""
    table = view.tables[0].filled(optional=True) if view.tables else None
    notes = list(view.notes)
    if table is not None and len(table.records) > _NOTEBOOK_ROWS:
        notes.insert(0, f"The first and the last of {len(table.records):,} rows.")
    facts = "".join(
        f"<tr><th>{escaped(fact.name)}</th><td>{escaped(fact.line)}</td></tr>" for fact in view.facts
    )
    return (
        f'<div class="rramalloc"><p>{escaped(headline)} <small>({kind})</small></p>'
        f"{_notebook_table(table) if table is not None and table.records else ''}"
        f"{f'<table><tbody>{facts}</tbody></table>' if facts else ''}"
        f"{''.join(f'<p>{escaped(one_line(note))}</p>' for note in notes)}</div>"
    )


def _notebook_table(table: Table) -> str:
    """Return the first and the last rows of a table."""
    rows = table.rows()
    if len(rows) > _NOTEBOOK_ROWS:
        rows = rows[: _NOTEBOOK_ROWS // 2] + rows[-_NOTEBOOK_ROWS // 2 :]
    headings, cells = table.cells(rows, grouped=True)
    lines = [[f"<td>{escaped(one_line(cell, LONGEST_NAME))}</td>" for cell in row] for row in cells]
    body = "".join(f"<tr>{''.join(line)}</tr>" for line in lines)
    head = "".join(f"<th>{escaped(heading)}</th>" for heading in headings)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _sentence(text: str) -> str:
    """Return the text as it begins a sentence."""
    return text[:1].upper() + text[1:]


def pairs_html(pairs: Iterable[tuple[str, str]]) -> str:
    """Return the HTML of a list of terms with their descriptions."""
    rows = "".join(f"<dt>{escaped(_sentence(term))}</dt><dd>{escaped(text)}</dd>" for term, text in pairs)
    return f'<dl class="pairs">{rows}</dl>'


def table_html(table: Table, name: str, detail: Detail = FIGURE, *, open_: bool = True) -> str:
    """Return the HTML of a table that can be sorted, filtered and downloaded; the name of its file comes from
    its title."""
    table = table.filled()
    rows = table.rows(detail.rows)
    headings, cells = table.cells(rows, grouped=True)
    kinds = ["" if is_text else ' class="n"' for is_text in table.is_text(rows)]
    scales = [column.scale([row[at] for row in rows])[1] for at, column in enumerate(table.columns)]
    columns = list(zip(table.columns, kinds, scales, strict=True))
    head = "".join(
        f'<th scope="col"{kind}><button type="button">{escaped(_sentence(heading))}</button></th>'
        for heading, kind in zip(headings, kinds, strict=True)
    )
    names = sorted({word for line in cells for word in line if len(word) > _LONGEST_WORD and " " not in word})
    short = dict(zip(names, labels(names, _LONGEST_WORD), strict=True))
    lines = ["".join(_cells(row, words, columns, short)) for row, words in zip(rows, cells, strict=True)]
    if table.numbered:
        head = f'<th scope="col" class="n"><button type="button">#</button></th>{head}'
        lines = [f"<td class=n>{number:,}</td>{line}" for number, line in enumerate(lines)]
    notes = [table.note] if table.note else []
    if len(table.records) > len(rows):
        notes.insert(0, f"The first {len(rows):,} of {len(table.records):,} rows; the file has all.")
    note = f'<p class="note">{escaped(" ".join(notes))}</p>' if notes else ""
    count = counted(len(rows), "row")
    file = re.sub(r"[^a-z0-9]+", "-", table.title.lower()).strip("-") or "table"
    tools = (
        '<div class="tools"><label>Filter '
        f'<input type="search" autocomplete="off" aria-controls="{name}"></label>'
        f'<button type="button" class="csv" data-file="{file}.csv">Download CSV</button>'
        f'<span class="count" role="status">{count}</span></div>'
    )
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    inner = (
        f'{tools}{note}<div class="scroll" tabindex="0" role="region" aria-label="{escaped(table.title)}">'
        f'<table id="{name}"><caption class="hidden">{escaped(table.title)}</caption>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )
    if not open_ and len(rows) > _OPEN_ROWS:
        shown = f'{escaped(table.title)} <span class="sub">{count}</span>'
        return f'<details class="table"><summary>{shown}</summary>{inner}</details>'
    return f'<div class="table"><h3>{escaped(table.title)}</h3>{inner}</div>'


def _chart(chart: Chart, name: str, of_view: str) -> str:
    """Return the HTML of a chart; of_view: what it is of, where its heading does not say it."""
    buttons = "".join(
        f'<button type="button" data-do="{action}" aria-label="{title}" title="{title}">{shown}</button>'
        for action, shown, title in _ZOOMS
        if action not in ("up", "down") or "y" in chart.zoom
    )
    tools = f'<div class="tools" role="group" aria-label="Zoom">{buttons}</div>' if chart.zoom else ""
    how = "Keys: plus and minus zoom, arrows move, 0 shows all." if chart.zoom else ""
    note = f'<p class="note">{escaped(chart.note)}</p>' if chart.note else ""
    many = " many" if chart.columns > 1 else ""
    specs = safe_json(_packed(chart.page_specs()))
    heading = chart.heading or (of_view,)
    of = "".join(f'<p class="sub">{escaped(line)}</p>' for line in heading)
    told = escaped(" ".join(filter(None, (*heading, chart.summary, how))))
    return (
        f'<figure class="chart" data-chart="{name}" data-zoom="{chart.zoom}">'
        f'<figcaption><h3 id="{name}-title">{escaped(chart.title)}</h3>'
        f"{tools}</figcaption>{of}"
        f'<p class="hidden" id="{name}-told">{told}</p>'
        f'<div class="plot{many}" id="{name}" tabindex="0" role="group" aria-labelledby="{name}-title" '
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


def _cells(
    row: Sequence[Any],
    words: Sequence[str],
    columns: Iterable[tuple[Column, str, float]],
    short: Mapping[str, str],
) -> Iterator[str]:
    """Yield the cells of a row; they hold the exact value of a number that is shown rounded, and the name of
    which `short` has the words that are shown."""
    for value, word, (column, kind, factor) in zip(row, words, columns, strict=True):
        text = escaped(word)
        if value is None:
            yield f'<td{kind} data-v="">{text}</td>'
        elif isinstance(value, float):
            exact = float(f"{value:.6g}") if column.unit == "share" else value / factor
            bar = f' style="--p:{min(1.0, max(0.0, value)):.1%}"' if column.unit == "share" else ""
            yield f'<td class="n{" p" if bar else ""}"{bar} data-v="{exact!r}">{text}</td>'
        elif kind:
            yield f"<td{kind}>{text}</td>"
        elif " " not in word and len(word) > 1:
            full = f' data-v="{text}" title="{text}"' if word in short else ""
            yield f"<td class=name{full}>{escaped(short.get(word, word))}</td>"
        elif len(text) > _LONG:
            yield f'<td class=w title="{text}">{text}</td>'
        else:
            yield f"<td>{text}</td>"


def safe_json(value: object) -> str:
    """Return compact JSON without any character that HTML gives a meaning to."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter, written in _UNSAFE.items():
        text = text.replace(letter, written)
    return text


def _packed(value: Any) -> Any:
    """Pack long lists of few different texts as those texts and places in them; page.js undoes it."""
    if isinstance(value, dict):
        return {key: _packed(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) >= _FEWEST_PACKED and all(isinstance(item, str) for item in value):
        place: dict[str, int] = {}
        at = [place.setdefault(item, len(place)) for item in value]
        if len(place) * 2 <= len(value):
            return {"texts": list(place), "at": at}
    return [_packed(item) for item in value]
