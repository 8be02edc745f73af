"""How results show themselves: one line as text, a headline above a compact table in a notebook."""

from __future__ import annotations

import html
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_MOST_ROWS = 24
"""Rows of a table in a notebook; of longer ones the first and the last are shown."""
_LONGEST_SUBJECT, _LONGEST_LINE = 60, 240


class Shown:
    """Base of results. A result says what it is about and what came out; here is how that looks."""

    @abstractmethod
    def _headline(self) -> tuple[str, str]:
        """What the result is about (a name, which may come from a file), and the result in a few words."""

    @abstractmethod
    def to_frame(self) -> pd.DataFrame:
        """The result as a table."""

    def _table(self) -> pd.DataFrame:
        """The table of a notebook: the columns that matter most."""
        return self.to_frame()

    def _notes(self) -> list[str]:
        """What stands below the table, one paragraph each."""
        return [f"Warning: {warning}" for warning in getattr(self, "warnings", ())]

    def __str__(self) -> str:
        subject, words = self._headline()
        return one_line(f"{one_line(subject, _LONGEST_SUBJECT)}: {words}" if subject else words)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def _repr_html_(self) -> str:
        kind, table = type(self).__name__, self._table()
        below = [f"The first and the last of {len(table):,} rows."] if len(table) > _MOST_ROWS else []
        notes = "".join(f"<p>{html.escape(one_line(note))}</p>" for note in [*below, *self._notes()])
        headline = f"<p>{html.escape(str(self))} <small>({kind})</small></p>"
        return f'<div class="rramalloc">{headline}{_html_table(table)}{notes}</div>'


def one_line(text: str, longest: int = _LONGEST_LINE) -> str:
    """A text from a file as a line can show it: printable, and cut in the middle if it is long."""
    text = text if text.isprintable() else repr(text)[1:-1]
    if len(text) <= longest:
        return text
    return text[: longest - longest // 2 - 3] + "..." + text[-(longest // 2) :]


def counted(number: int, noun: str) -> str:
    """As "1 tile" or "1,024 tiles"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def frame_of(rows: Iterable[Any], columns: Sequence[str]) -> pd.DataFrame:
    """The named fields of records as the columns of a table."""
    import pandas as pd

    return pd.DataFrame([tuple(getattr(row, name) for name in columns) for row in rows], columns=[*columns])


def _html_table(table: pd.DataFrame) -> str:
    """A frame as HTML: whole numbers with separators, others to six digits, nothing for what is not known.

    Empty if the frame has no rows.
    """
    import pandas as pd

    if table.empty:
        return ""

    def cell(value: Any) -> str:
        if isinstance(value, str):
            return one_line(value, _LONGEST_SUBJECT)
        if isinstance(value, list | tuple):
            return one_line(" x ".join(map(str, value)), _LONGEST_SUBJECT)
        if value is None or value is pd.NA or value != value:
            return ""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, int):
            return f"{value:,}"
        return f"{value:.6g}" if isinstance(value, float) else one_line(str(value), _LONGEST_SUBJECT)

    shown = table
    if len(table) > _MOST_ROWS:
        shown = pd.concat([table.head(_MOST_ROWS // 2), table.tail(_MOST_ROWS // 2)])
    rows = ["".join(f"<td>{html.escape(cell(value))}</td>" for value in row) for row in _plain(shown)]
    head = "".join(f"<th>{html.escape(str(name))}</th>" for name in shown.columns)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _plain(table: pd.DataFrame) -> Iterable[tuple[Any, ...]]:
    """The rows of a frame as Python's own values."""
    return zip(*(table[name].astype(object).tolist() for name in table.columns), strict=True)


def quoted(method: str) -> str:
    """The name of a method within a sentence, where `none` would read as a negation."""
    return f'"{one_line(method, _LONGEST_SUBJECT)}"'
