"""Tables of a view as text for other programs: CSV, Markdown and LaTeX, with the specials of each escaped."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from rramalloc.csv_rows import csv_cell
from rramalloc.units import printable
from rramalloc.view.view import Table, View

_MARKDOWN = re.compile(r"([\\`*|<>\[\]~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")
"""Characters that Markdown reads as markup; an underscore within a word is none."""
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # After a line's end a bracket or a star would be an argument of it.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    **{special: f"\\{special}" for special in "&%$#_{}"},
}


def csv_of(view: View) -> str:
    """Return the table of a result as CSV: exact values under the names of their fields."""
    table = (view.csv or view.tables[0]).filled(optional=True)
    return csv_text([column.field for column in table.columns], table.rows())


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return CSV with a header; text that a spreadsheet would take for a formula is marked as text."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([csv_cell(_flat(value)) for value in row] for row in rows)
    return text.getvalue()


def _flat(value: Any) -> Any:
    return "x".join(map(str, value)) if isinstance(value, tuple | list) else value


def markdown_of(view: View) -> str:
    """Return the tables that a terminal prints as pipe tables, all but the first under their titles."""
    return _tables(view, _markdown, lambda title: f"**{title}**\n\n")


def latex_of(view: View) -> str:
    """Return the tables that a terminal prints as `tabular`, which needs no package."""
    return _tables(view, _latex, lambda title: f"% {title}\n")


def _tables(view: View, drawn: Callable[[Table], str], titled: Callable[[str], str]) -> str:
    """Return the tables that a terminal prints, of a view without any its first one."""
    printed = [table for table in view.tables if table.shown != 0 and table.records]
    first, *others = printed or [replace(view.tables[0], shown=None)]
    parts = [titled(printable(table.title)) + drawn(table) for table in others]
    return "\n".join([drawn(first), *parts])


def _markdown(table: Table) -> str:
    head, rows, left = _cells(table, lambda text: _MARKDOWN.sub(r"\\\1", text).replace("&", "&amp;"))
    rule = [":--" if text else "--:" for text in left]
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, rule, *rows))


def _latex(table: Table) -> str:
    head, rows, left = _cells(table, lambda text: "".join(_LATEX.get(letter, letter) for letter in text))
    lines = [" & ".join(row) + r" \\" for row in rows]
    columns = "".join("l" if text else "r" for text in left)
    body = "\n".join([" & ".join(head) + r" \\", r"\hline", *lines])
    return f"\\begin{{tabular}}{{{columns}}}\n\\hline\n{body}\n\\hline\n\\end{{tabular}}\n"


def _cells(table: Table, escaped: Callable[[str], str]) -> tuple[list[str], list[list[str]], list[bool]]:
    """Return the headings, the rows, and which columns hold text."""
    table = table.filled()
    rows = table.rows(table.shown)
    headings, cells = table.cells(rows)
    escaped_cells = [[escaped(printable(cell)) for cell in row] for row in cells]
    return [escaped(heading) for heading in headings], escaped_cells, table.is_text(rows)
