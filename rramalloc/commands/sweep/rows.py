"""SweepRow, SweepDocument, SweepStatus: the records of a sweep's points and of its progress."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args

from pydantic import AfterValidator, Field, model_validator
from pydantic.dataclasses import dataclass

from rramalloc.allocation.allocation import NetworkId
from rramalloc.commands.sweep.spec import SPELLED, Cell, Grid, Spec, SweepPoint, named_hardware
from rramalloc.files import to_json
from rramalloc.frozen import FrozenDict, frozen
from rramalloc.hardware.hardware import Hardware
from rramalloc.records import CHECKED
from rramalloc.result import AnswerRecord
from rramalloc.timing.figures import FIGURES, Figures
from rramalloc.units import counted, number_of, rounded, span
from rramalloc.version import __version__

if TYPE_CHECKING:
    import pandas as pd

ComputedColumns = dict[str, Any]
"""Columns of a row that are computed: the results, or the error."""
_ERROR_LENGTH = 500  # letters of a row's error


@dataclass(config=CHECKED, frozen=True, slots=True, kw_only=True)
class SweepRow(Figures):
    """One point: its values, and either its result or the error.

    network_sha256: of the graph; hardware: its name; crossbar: "ROWSxCOLUMNS"; bandwidth_gb_s: of the memory,
    None without one; weight_bits, dac_bits, columns_per_adc, rows_per_read, clock: of the hardware, None
    where it does not give them; latency_table: hash of the table of measured step times, None if those of the
    hardware hold; arrays: the budget, arrays_asked: as written in the spec ("1024", "x2");
    minimum: arrays with every layer stored once; both None if the error came before they were computed.
    objective_value, objective_unit: the minimised value and its unit, that of lower_bound as well; from
    `used` to `work_s` as in an allocation, all None with an error; utilisation: share of the cells of the
    arrays used that hold weights; Figures: None where not given; repaired: whether copies were taken away
    because the method's answer did not fit; not_counted: what times and energies leave out, in words.
    error_kind: class of the error; error: its first line; key: hash of everything that the result depends on;
    dotted: what lists called by dotted names give, each a column of that name.
    """

    network: str
    network_sha256: str
    hardware: str
    crossbar: str
    cell_bits: int
    bandwidth_gb_s: float | None
    weight_bits: int | None = None
    dac_bits: int | None = None
    columns_per_adc: int | None = None
    rows_per_read: int | None = None
    clock: str | None = None
    latency_table: str | None = None
    mapping: str
    fc: str
    arrays: int | None
    arrays_asked: str
    objective: str
    method: str
    seed: int
    work: int
    minimum: int | None = None
    used: int | None = None
    makespan: int | None = None
    interval: int | None = None
    objective_value: float | int | None = None
    objective_unit: str | None = None
    lower_bound: float | int | None = None
    gap: float | None = None
    proof: str | None = None
    status: str | None = None
    stopped: str | None = None
    repaired: bool | None = None
    not_counted: str | None = None
    step_ns: float | None = None
    latency_ns: float | None = None
    throughput_per_s: float | None = None
    utilisation: float | None = None
    work_s: float | None = None
    error_kind: str | None = None
    error: str | None = None
    key: str
    dotted: Annotated[dict[str, Cell], AfterValidator(frozen)] = Field(default_factory=FrozenDict)

    @model_validator(mode="before")
    @classmethod
    def _gathered(cls, document: Any) -> Any:
        """Gather the columns with dotted names, which stand beside the others in files."""
        if not isinstance(document, dict):
            return document
        dotted = {name: value for name, value in document.items() if "." in str(name)}
        return {name: value for name, value in document.items() if name not in dotted} | {"dotted": dotted}

    def __getattr__(self, name: str) -> Any:
        """Return the value of a column with a dotted name."""
        if "." not in name:
            raise AttributeError(name)
        return self.dotted.get(name)

    def to_dict(self) -> dict[str, Any]:
        """Return the value of every column."""
        return {name: getattr(self, name) for name in COLUMNS} | self.dotted


_FIELDS = SweepRow.__pydantic_fields__  # type: ignore[attr-defined]
_OWN = [name for name in _FIELDS if name not in (*FIGURES, "dotted")]
_PLACE = _OWN.index("utilisation")
COLUMNS: Mapping[str, Any] = {
    name: _FIELDS[name].annotation for name in (*_OWN[:_PLACE], *FIGURES, *_OWN[_PLACE:])
}
"""Type of every column that all rows have, in their order."""


def columns_of_rows(spec: Spec) -> dict[str, Any]:
    """Return the type of every column of the rows of a spec: a dotted list gives another one at the end."""
    return dict(COLUMNS) | {name: spec.kind(name) for name in spec.dotted}


def frame_of_rows(rows: Iterable[dict[str, Any]], spec: Spec) -> pd.DataFrame:
    """Return a data frame with one row per point, columns as in the file of rows; what a failed point lacks
    is NA."""
    import pandas as pd

    dtypes = {int: "Int64", float: "float64", bool: "boolean"}
    first = {name: (get_args(kind) or (kind,))[0] for name, kind in columns_of_rows(spec).items()}
    frame = pd.DataFrame.from_records(rows, columns=[*first])
    return frame.astype({name: dtypes[kind] for name, kind in first.items() if kind in dtypes})


_OF_TABLES = [name.split(".") for name in SPELLED.values() if "." in name]


def row_of(point: SweepPoint, found: ComputedColumns) -> dict[str, Any]:
    """Return the row of a point: its values, and its results or error."""
    case, hardware = point.case, point.case.hardware
    inputs = {
        "network": case.network,
        "network_sha256": case.network_sha256,
        "hardware": hardware.name,
        "crossbar": hardware.crossbar.size,
        **{field: getattr(getattr(hardware, table), field, None) for table, field in _OF_TABLES},
        "clock": "own" if hardware.own_clock else "shared",
        "latency_table": None if case.table is None else case.table.sha256,
        "mapping": case.mapping,
        "fc": case.fc,
        "arrays": point.arrays if isinstance(point.arrays, int) else None,
        "arrays_asked": "all" if point.arrays is None else str(point.arrays),
        **{name: getattr(point, name) for name in ("objective", "method", "seed", "work", "key")},
        "dotted": dict(case.dotted),
    }
    return SweepRow(**inputs | found).to_dict()


def failure(error: BaseException) -> ComputedColumns:
    """Return the columns of the row of a point that could not be computed."""
    lines = str(error).splitlines() or ["no reason given"]
    return {"error_kind": type(error).__name__, "error": lines[0][:_ERROR_LENGTH]}


class SweepDocument(AnswerRecord):
    """A sweep: the resolved spec, and with `rows` one row per point in the order of the grid."""

    rows_in = "rows"

    format: Literal["rramalloc-sweep/2"] = "rramalloc-sweep/2"
    points: int
    spec: Spec
    networks: tuple[NetworkId, ...]
    hardware: tuple[Hardware, ...]
    rows: tuple[SweepRow, ...] | None = None

    @classmethod
    def of(cls, grid: Grid) -> SweepDocument:
        """Return the document of a sweep without its rows."""
        return cls(
            rramalloc_version=__version__,
            points=grid.spec.size,
            spec=grid.spec,
            networks=tuple(NetworkId(name=name, sha256=sha256) for name, sha256, _ in grid.networks),
            hardware=tuple(map(named_hardware, grid.hardware)),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the document of the file, without absent values."""
        document = self.model_dump(mode="json", exclude={"rows"}, exclude_none=True)
        return document if self.rows is None else document | {"rows": [row.to_dict() for row in self.rows]}

    def json_parts(self, rows: Iterable[SweepRow]) -> Iterator[str]:
        """Yield the JSON of `to_dict` with these rows, one at a time in memory."""
        document = self.model_copy(update={"rows": None}).to_dict()
        yield to_json(document).removesuffix("\n}\n") + ',\n  "rows": ['
        for number, row in enumerate(rows):
            text = to_json(row.to_dict()).rstrip("\n").replace("\n", "\n    ")
            yield (",\n    " if number else "\n    ") + text
        yield "\n  ]\n}\n"

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with one row per point, as that of the sweep's result."""
        return frame_of_rows((row.to_dict() for row in self.rows or ()), self.spec)

    def _headline(self) -> tuple[str, str]:
        failed = sum(row.makespan is None for row in self.rows or ())
        return f"sweep {self.spec.name or ''}".rstrip(), f"{counted(self.points, 'point')}, {failed:,} failed"


class SweepStatus(AnswerRecord):
    """Progress of a sweep. failed: points whose row is an error; points_per_s: of the running or last call,
    left_s: at that rate; both None before the first point and at the end.
    """

    format: Literal["rramalloc-sweep-status/1"] = "rramalloc-sweep-status/1"
    name: str
    points: int
    done: int
    failed: int
    points_per_s: float | None
    left_s: float | None

    @classmethod
    def of(cls, name: str, points: int, done: int, failed: int, points_per_s: float | None) -> SweepStatus:
        """Return the status with the remaining time at this rate."""
        left_s = (points - done) / points_per_s if points_per_s else None
        return cls(
            name=name, points=points, done=done, failed=failed, points_per_s=points_per_s, left_s=left_s
        )

    @property
    def words(self) -> str:
        """Progress in one line of words."""
        words = f"{self.done} of {number_of(self.points, 'point')}, {self.failed} failed"
        if self.points_per_s is not None and self.left_s is not None:
            words += f", {rounded(self.points_per_s)} points/s, {span(self.left_s)} left"
        return words

    def _headline(self) -> tuple[str, str]:
        return self.name, f"{self.done:,} of {self.points:,} points done, {self.failed:,} failed"


class SweepSummary(NamedTuple):
    """The rows of one network and method. makespan: the smallest, None if all failed."""

    network: str
    method: str
    points: int
    failed: int
    makespan: int | None


def summarise(rows: Iterable[SweepRow]) -> list[SweepSummary]:
    """Summarise rows by network and method, in the order of their first rows."""
    lines: dict[tuple[str, str], SweepSummary] = {}
    for row in rows:
        name = row.network, row.method
        _, _, points, failed, least = lines.get(name, SweepSummary(*name, 0, 0, None))
        makespans = [value for value in (least, row.makespan) if value is not None]
        failed += row.makespan is None
        lines[name] = SweepSummary(*name, points + 1, failed, min(makespans, default=None))
    return list(lines.values())
