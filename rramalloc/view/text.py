"""Tables of a view as text for other programs: CSV, Markdown and LaTeX, with the specials of each escaped."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rramalloc.csv_rows import csv_cell
from rramalloc.units import printable
from rramalloc.view.view import NONE, Table, View

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
_PDFLATEX = re.compile("[\n -~\u00a1-\u017f\u2013\u2014\u2018-\u201d\u2026]")
"""Characters that pdfLaTeX sets in T1 without further packages: Latin letters and their punctuation."""
_LINE = 64
"""Characters of a line of text in a paper, of 345 pt; a wider table breaks its longest names."""
_LONG = 12
"""Characters of a name that is not broken, however wide its table is."""
_BREAKS = re.compile(r"\\_|[-/.,:](?=[^ ])")
"""What a long name may be broken behind: it has no spaces."""


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


def latex_of(view: View, *, caption: str | None = None, name: str | None = None, si: bool = False) -> str:
    """Return the tables that a terminal prints as `tabular`, with the lines of booktabs.

    caption, name: of the first one, a float then, with the label `name`; si: columns of numbers and units are
    those of siunitx, else plain.
    """
    text = _tables(view, partial(_latex, si=si), lambda title: f"% {title}\n")
    if caption is not None or name is not None:
        first, end, rest = re.split(r"(\\end{tabularx?}\n)", text, maxsplit=1)
        lines = [] if caption is None else [f"\\caption{{{_escaped(printable(caption))}}}"]
        lines += [] if name is None else [f"\\label{{{name}}}"]
        head = "\n".join(["\\begin{table}", "\\centering", *lines])
        text = f"{head}\n{first}{end}\\end{{table}}\n{rest}"
    packages = ["booktabs", *["siunitx"] * si, *["tabularx"] * (r"\begin{tabularx}" in text)]
    needs = f"\\usepackage{{{','.join(packages)}}}"
    needs += "; --plain-units needs no siunitx" if si else ""
    others = "".join(sorted({letter for letter in text if not _PDFLATEX.match(letter)}))
    fonts = f"; XeLaTeX or LuaLaTeX, and a font with {others}" if others else ""
    return f"% needs {needs}{fonts}\n{text}"


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


_PREFIXES = {"": "", "G": r"\giga", "m": r"\milli", "u": r"\micro", "n": r"\nano", "p": r"\pico"}
_PREFIXES |= {"f": r"\femto", "a": r"\atto"}
_BASES = {"s": r"\second", "J": r"\joule", "m2": r"\metre\squared", "B/s": r"\byte\per\second"}
_SI = {
    f"{short}{base}": f"{prefix}{word}"
    for short, prefix in _PREFIXES.items()
    for base, word in _BASES.items()
}
"""Units in the macros of siunitx."""
_SI_NUMBER = re.compile(r"(-?[\d,]+)(?:\.(\d+))?")
_WITH_UNIT = re.compile(r"(.*) \(([^()]+)\)")


def _si_heading(heading: str) -> str:
    """Return a heading in LaTeX whose unit, in brackets behind it, siunitx sets."""
    found = _WITH_UNIT.fullmatch(heading)
    parts = found[2].split(" ") if found else []
    if found is None or not all(part in _SI for part in parts):
        return _escaped(heading)
    return f"{_escaped(found[1])} (\\si{{{''.join(map(_SI.__getitem__, parts))}}})"


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


def _latex(table: Table, *, si: bool) -> str:
    head, rows, left = _cells(table, _escaped, _si_heading if si else _escaped)
    columns = ["l" if text else "r" for text in left]
    plain_head, plain_rows, _ = _cells(table, str)
    widths = [max(map(len, cells)) for cells in zip(plain_head, *plain_rows, strict=True)]
    widest = max(range(len(head)), key=lambda place: (left[place], widths[place]))
    wraps = left[widest] and widths[widest] > _LONG and sum(widths) + 2 * len(widths) > _LINE
    if wraps:
        columns[widest] = r">{\raggedright\arraybackslash}X"
        for row in rows:
            row[widest] = _BREAKS.sub(r"\g<0>\\allowbreak{}", row[widest])
    for place, heading in enumerate(head if si else ()):
        numbers = [_SI_NUMBER.fullmatch(row[place]) for row in rows if row[place] != NONE]
        if left[place] or not numbers or not all(numbers):
            continue
        whole = max(len(number[1].replace(",", "")) for number in numbers if number)
        behind = max(len(number[2] or "") for number in numbers if number)
        columns[place] = f"S[table-format={whole}{f'.{behind}' if behind else ''}]"
        head[place] = f"{{{heading}}}"
        for row in rows:  # siunitx reads a comma as a decimal mark, and braces keep what is no number
            row[place] = f"{{{NONE}}}" if row[place] == NONE else row[place].replace(",", "")
    lines = [" & ".join(row) + r" \\" for row in rows]
    body = "\n".join([" & ".join(head) + r" \\", r"\midrule", *lines])
    name, width = ("tabularx", r"{\linewidth}") if wraps else ("tabular", "")
    begin = f"\\begin{{{name}}}{width}{{{''.join(columns)}}}"
    return f"{begin}\n\\toprule\n{body}\n\\bottomrule\n\\end{{{name}}}\n"


def _cells(
    table: Table, escaped: Callable[[str], str], headed: Callable[[str], str] | None = None
) -> tuple[list[str], list[list[str]], list[bool]]:
    """Return the headings, the rows, and which columns hold text; headed: escapes headings."""
    table = table.filled()
    rows = table.rows(table.shown)
    headings, cells = table.cells(rows)
    escaped_cells = [[escaped(printable(cell)) for cell in row] for row in cells]
    return [(headed or escaped)(heading) for heading in headings], escaped_cells, table.is_text(rows)
