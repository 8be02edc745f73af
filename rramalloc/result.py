"""Result: the base of everything a call returns - plain data, a table, a file, a line, HTML in a notebook."""

from __future__ import annotations

import html
import os
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from rramalloc.columns import columns_of, with_values
from rramalloc.files import write_json
from rramalloc.records import Record
from rramalloc.units import LONGEST_NAME, in_table, one_line

if TYPE_CHECKING:
    import pandas as pd

_MOST_ROWS = 24
"""Rows of a table in a notebook; of longer ones the first and the last are shown."""


class Result:
    """Base of results. A subclass says what it is about and what came out; here is how that is shown."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the document of the result's file, which `--format json` prints."""

    @abstractmethod
    def to_frame(self) -> pd.DataFrame:
        """Return the result as a table."""

    def save(self, path: str | os.PathLike[str]) -> Sequence[Path] | None:
        """Write the result's file atomically.

        Returns
        -------
        Sequence[Path] or None
            The files, where a result may be several.

        Raises
        ------
        FileError
            The file cannot be written.
        """
        write_json(path, self.to_dict())
        return None

    @abstractmethod
    def _headline(self) -> tuple[str, str]:
        """Return the subject of the result (a name, perhaps from a file), and the result in a few words."""

    def _table(self) -> pd.DataFrame:
        """Return the table of a notebook: the columns that matter most."""
        return self.to_frame()

    def _notes(self) -> list[str]:
        """Return the paragraphs below the table."""
        return [f"Warning: {warning}" for warning in getattr(self, "warnings", ())]

    def __str__(self) -> str:
        subject, words = self._headline()
        return one_line(f"{one_line(subject, LONGEST_NAME)}: {words}" if subject else words)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def _repr_html_(self) -> str:
        kind, table = type(self).__name__, self._table()
        below = [f"The first and the last of {len(table):,} rows."] if len(table) > _MOST_ROWS else []
        notes = "".join(f"<p>{html.escape(one_line(note))}</p>" for note in [*below, *self._notes()])
        headline = f"<p>{html.escape(str(self))} <small>({kind})</small></p>"
        return f'<div class="rramalloc">{headline}{_html_table(table)}{notes}</div>'


class ResultRecord(Result, Record):
    """Base of results that are records: their fields are the document, those of their rows the table.

    rows_in: the field that holds the rows, "" if the result is a single row; columns: those that the table of
    a notebook shows, as `columns_of` reads them, none for all; unlisted: fields of a row that fit in no cell.
    """

    rows_in: ClassVar[str] = ""
    columns: ClassVar[str] = ""
    unlisted: ClassVar[frozenset[str]] = frozenset()

    def to_dict(self) -> dict[str, Any]:
        """Return the document of the result's file, which `--format json` prints."""
        return self.model_dump(mode="json", by_alias=True)

    def to_frame(self) -> pd.DataFrame:
        """One row per layer, point or method, with its fields as columns."""
        import pandas as pd

        rows = [row.model_dump(exclude={*self.unlisted}) for row in self._rows()]
        return pd.DataFrame(rows, columns=None if rows else self._fields())

    def _table(self) -> pd.DataFrame:
        if not self.columns:
            return self.to_frame()
        rows = self._rows()
        return frame_of(rows, [column.field for column in with_values(columns_of(self.columns), rows)])

    def _rows(self) -> Sequence[Record]:
        return getattr(self, self.rows_in) if self.rows_in else (self,)

    def _fields(self) -> list[str]:
        """Fields of a row, also where there is none."""
        kind: type[Record] = get_args(type(self).model_fields[self.rows_in].annotation)[0]
        return [name for name in kind.model_fields if name not in self.unlisted]


def frame_of(rows: Iterable[Any], columns: Sequence[str]) -> pd.DataFrame:
    """Return the named fields of records as the columns of a table."""
    import pandas as pd

    return pd.DataFrame([tuple(getattr(row, name) for name in columns) for row in rows], columns=[*columns])


def _html_table(table: pd.DataFrame) -> str:
    """Return a frame as HTML: whole numbers with separators, others as in tables, unknown ones empty.

    Empty if the frame has no rows.
    """
    import pandas as pd

    if table.empty:
        return ""

    def cell(name: str, value: Any) -> str:
        if isinstance(value, str):
            return one_line(value, LONGEST_NAME)
        if isinstance(value, list | tuple):
            return one_line(" x ".join(map(str, value)), LONGEST_NAME)
        if value is None or value is pd.NA or value != value:
            return ""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, int):
            return f"{value:,}"
        return in_table(name, value) if isinstance(value, float) else one_line(str(value), LONGEST_NAME)

    shown = table
    if len(table) > _MOST_ROWS:
        shown = pd.concat([table.head(_MOST_ROWS // 2), table.tail(_MOST_ROWS // 2)])
    values = zip(*(shown[name].astype(object).tolist() for name in shown.columns), strict=True)
    cells = [[cell(str(name), value) for name, value in zip(shown, row, strict=True)] for row in values]
    rows = ["".join(f"<td>{html.escape(text)}</td>" for text in row) for row in cells]
    head = "".join(f"<th>{html.escape(str(name))}</th>" for name in shown.columns)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
