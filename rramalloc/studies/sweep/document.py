"""SweepDocument and SweepStatus: what a sweep says of itself as JSON."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import TypeAdapter

from rramalloc.files import parse_json
from rramalloc.hardware.hardware import Hardware
from rramalloc.records import Record, from_list, parse
from rramalloc.shown import Shown
from rramalloc.studies.sweep.point import machine_of
from rramalloc.studies.sweep.row import Row
from rramalloc.studies.sweep.sources import Sources
from rramalloc.studies.sweep.spec import Spec
from rramalloc.version import __version__

if TYPE_CHECKING:
    import pandas as pd

SWEEP_FORMAT: Literal["rramalloc-sweep/1"] = "rramalloc-sweep/1"
STATUS_FORMAT: Literal["rramalloc-sweep-status/1"] = "rramalloc-sweep-status/1"


class SweptNetwork(Record):
    """A network of a sweep; sha256 is of the graph, not of the file it came in."""

    name: str
    sha256: str


class SweepDocument(Record):
    """A sweep: the resolved spec, and with `rows` one row per point in the order of the grid.

    In `_sweep.json`, beside the rows in Parquet files, `rows` is left out.
    """

    format: Literal["rramalloc-sweep/1"] = SWEEP_FORMAT
    rramalloc_version: str
    points: int
    spec: Spec
    networks: Annotated[tuple[SweptNetwork, ...], from_list()]
    hardware: Annotated[tuple[Hardware, ...], from_list()]
    rows: Annotated[tuple[Row, ...] | None, from_list()] = None

    def to_dict(self) -> dict[str, Any]:
        """The document of the file, without what is not given."""
        document = self.model_dump(mode="json", exclude={"rows"}, exclude_none=True)
        return document if self.rows is None else document | {"rows": [row.model_dump() for row in self.rows]}


_DOCUMENT: TypeAdapter[SweepDocument] = TypeAdapter(SweepDocument)


class SweepStatus(Shown, Record):
    """How far a sweep is. failed: points whose row is an error; points_per_s: of the running or last call,
    left_s: at that rate; both None before there is anything to tell it from, and at the end.
    """

    format: Literal["rramalloc-sweep-status/1"] = STATUS_FORMAT
    name: str
    points: int
    done: int
    failed: int
    points_per_s: float | None
    left_s: float | None

    def to_dict(self) -> dict[str, Any]:
        """The document that --status prints."""
        return self.model_dump(mode="json")

    def to_frame(self) -> pd.DataFrame:
        """One row, columns as the fields."""
        import pandas as pd

        return pd.DataFrame([self.to_dict()])

    def _headline(self) -> tuple[str, str]:
        return self.name, f"{self.done:,} of {self.points:,} points done, {self.failed:,} failed"


def document_of(spec: Spec, sources: Sources) -> SweepDocument:
    """The document of a sweep without its rows."""
    return SweepDocument(
        rramalloc_version=__version__,
        points=spec.size,
        spec=spec,
        networks=tuple(SweptNetwork(name=text.name, sha256=text.sha256) for text in sources.networks),
        hardware=tuple(machine_of(text, None, None, None).hardware for text in sources.hardware),
    )


def parse_document(text: str, where: str) -> SweepDocument:
    """The sweep that `_sweep.json` in the folder `where` tells of. Raises FileError, SpecError."""
    shown = os.path.join(where, "_sweep.json")
    return parse(_DOCUMENT, parse_json(text, shown), shown)
