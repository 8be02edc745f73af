"""SweepResult: the rows of a finished sweep, read from its folder as they are asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rramalloc.shown import Shown, counted, frame_of
from rramalloc.studies.sweep import parts
from rramalloc.studies.sweep.document import SweepDocument
from rramalloc.studies.sweep.summary import Summary, summarised

if TYPE_CHECKING:
    import pandas as pd

_REASONS = 3


@dataclass(frozen=True, repr=False)
class SweepResult(Shown):
    """A finished sweep. computed: points that this call computed, the others had their rows before;
    failed: points whose row is an error.
    """

    folder: str
    document: SweepDocument
    computed: int
    failed: int

    @property
    def points(self) -> int:
        """Points of the sweep, each with one row."""
        return self.document.points

    def rows(self) -> Iterator[dict[str, Any]]:
        """All rows in the order of the grid, one part of the dataset in memory at a time."""
        for path in parts.find_parts(self.folder).values():
            yield from parts.part_rows(path)

    def to_dict(self) -> dict[str, Any]:
        """The spec as it was resolved, and all rows."""
        return self.document.to_dict() | {"rows": list(self.rows())}

    def to_frame(self) -> pd.DataFrame:
        """One row per point, columns as the fields of Row; what a failed point lacks is NA."""
        import pandas as pd
        import pyarrow as pa

        tables = [parts.read_part(path) for path in parts.find_parts(self.folder).values()]
        kinds = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
        table = pa.concat_tables(tables)
        frame: pd.DataFrame = table.to_pandas(types_mapper=kinds.get, use_threads=False)
        return frame

    def summary(self) -> list[Summary]:
        """A line per network and method, in the order of their first points."""
        return summarised(self._columns("network", "method", "makespan"))

    def reasons(self) -> list[str]:
        """The first different errors of points that failed."""
        found: dict[str, None] = {}
        for kind, error in self._columns("error_kind", "error"):
            if kind is not None and len(found) < _REASONS:
                found[f"{kind}: {error}"] = None
        return list(found)

    def _columns(self, *names: str) -> Iterator[Any]:
        for path in parts.find_parts(self.folder).values():
            table = parts.read_part(path, list(names))
            yield from zip(*(table.column(name).to_pylist() for name in names), strict=True)

    def _headline(self) -> tuple[str, str]:
        name = self.document.spec.name or os.path.basename(self.folder)
        return f"sweep {name}", f"{counted(self.points, 'point')}, {self.failed:,} failed"

    def _table(self) -> pd.DataFrame:
        return frame_of(self.summary(), Summary._fields)

    def _notes(self) -> list[str]:
        return [f"Failed: {reason}" for reason in self.reasons()] if self.failed else []
