"""Result: the base of everything a call returns - plain data, a table, a file, a line, a view."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from pydantic import Field

from rramalloc.files import write_json
from rramalloc.records import Record, absent, format_name
from rramalloc.room import rooms
from rramalloc.units import LONGEST_NAME, one_line
from rramalloc.view.view import Column, Table, View

if TYPE_CHECKING:
    import pandas as pd

    from rramalloc.view.charts import Charts

_OF_SUBCLASSES = ("rows_in", "unlisted")
"""Attributes by which a class of results says how it is shown."""


class Result:
    """Base of results: files, tables, views and plots of the content that a subclass defines."""

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

    def view(self, **known: Any) -> View:
        """Return the view of the result: a sentence, facts, tables and charts, made by its room.

        known: what its view takes beyond the result, as the network of an allocation.
        """
        name = format_name(getattr(self, "format", None))
        for room in rooms().values():
            if name in room.views:
                made: View = room.load(room.views[name])(self, **known)
                return made
        return View.of(self, kind=type(self).__name__, tables=[frame_table("", self.to_frame())])

    @property
    def plot(self) -> Charts:
        """The charts of its view by name: `result.plot.NAME(save="figure.svg")`."""
        from rramalloc.view.charts import Charts

        return Charts(type(self).__name__, self.view().charts)

    def __dir__(self) -> list[str]:
        """Return the names that users of a result need."""
        return [name for name in super().__dir__() if not name.startswith("_") and name not in _OF_SUBCLASSES]

    def __str__(self) -> str:
        subject, words = self._headline()
        return one_line(f"{one_line(subject, LONGEST_NAME)}: {words}" if subject else words)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def _repr_html_(self) -> str:
        from rramalloc.view.html import notebook_html

        return notebook_html(self.view(), str(self), type(self).__name__)


class ResultRecord(Result, Record):
    """Base of results that are records: their fields are the document, those of their rows the table.

    rows_in: the field that holds the rows, "" if the result is a single row; unlisted: fields of a row that
    fit in no cell.
    """

    rows_in: ClassVar[str] = ""
    unlisted: ClassVar[frozenset[str]] = frozenset()

    def to_dict(self) -> dict[str, Any]:
        """Return the document of the result's file, which `--format json` prints."""
        return self.model_dump(mode="json", by_alias=True)

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each layer, point or method, with its fields as columns."""
        import pandas as pd

        rows = [row.model_dump(exclude={*self.unlisted}) for row in self._rows()]
        return pd.DataFrame(rows, columns=None if rows else self._fields())

    def _rows(self) -> Sequence[Record]:
        return getattr(self, self.rows_in) if self.rows_in else (self,)

    def _fields(self) -> list[str]:
        """Return the fields of a row, also of a result without rows."""
        kind: type[Record] = get_args(type(self).model_fields[self.rows_in].annotation)[0]
        return [name for name in kind.model_fields if name not in self.unlisted]


class AnswerRecord(ResultRecord):
    """Base of what commands answer.

    rramalloc_version: that made it, where files say it; not_counted: what times and energies leave out,
    although the network has it; warnings: what was assumed or ignored.
    """

    rramalloc_version: str | None = Field(None, exclude_if=absent)
    not_counted: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def frame_of(rows: Iterable[Any], columns: Sequence[str]) -> pd.DataFrame:
    """Return the named fields of records as the columns of a table."""
    import pandas as pd

    return pd.DataFrame([tuple(getattr(row, name) for name in columns) for row in rows], columns=[*columns])


def frame_table(title: str, frame: pd.DataFrame) -> Table:
    """Return the table of a frame, whose columns keep their names."""
    import pandas as pd

    values = frame.astype(object).where(pd.notna(frame), None)
    names = [str(name) for name in frame.columns]
    columns = tuple(Column(name, name, itemgetter(place)) for place, name in enumerate(names))
    return Table(title, list(values.itertuples(index=False, name=None)), columns)
