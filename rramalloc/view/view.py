"""View: the content of a result (a sentence, facts, tables, charts) for any terminal, page or file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from rramalloc.errors import UnknownNameError
from rramalloc.units import THOUSANDTHS, is_exact, quantity, rounded, scale_of, share, unit_of, words_of

if TYPE_CHECKING:
    from rramalloc.chart import Chart

_COLUMN = re.compile(r"(?:(?P<heading>[^=]+)=)?(?P<field>[\w.]+)(?:\[(?P<unit>.+)\])?(?P<optional>\??)")
_COUNTS = ("steps", "ticks", "cycles", "arrays")
"""Units that a heading leaves out: its words, or a fact beside the table, say what is counted."""
Rows = Sequence[Sequence[Any]]
_OF_INTERVAL = ("target_interval", "target_interval_ns", "target_throughput")
"""Options whose questions are about the interval."""
NONE = "-"
"""Text in place of an unknown value."""


@dataclass(frozen=True, slots=True)
class Detail:
    """Limits on the marks and rows that a page shows of a file; a page too large takes the next level.

    rows: of one table; marks: bars, points or squares of one chart.
    """

    rows: int
    marks: int


LEVELS = (Detail(2000, 8000), Detail(1000, 3000), Detail(300, 1000), Detail(60, 250))
FIGURE = LEVELS[2]
"""Detail of a picture in a file."""


class Draw(Protocol):
    """Draws a chart of a result, as large as the detail allows; None where there is nothing to draw."""

    def __call__(self, *how: Any, detail: Detail = ..., **named: Any) -> Chart | None:
        """Return the chart."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A value with its name. unit: of a number, "share" for a part of 1; note: words that go on from it."""

    name: str
    value: str | float
    unit: str = ""
    note: str = ""

    def words(self, *, grouped: bool = False) -> str:
        """Return the value with its unit; grouped: thousands have separators, as on a page."""
        if isinstance(self.value, str):
            return self.value
        return quantity(self.value, self.unit, plain=not grouped)

    @property
    def line(self) -> str:
        """The value with its note, as a terminal prints them."""
        joint = "" if not self.note or self.note[0] in ",;:" else " "
        return f"{self.words()}{joint}{self.note}"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: the heading names a quantity and its unit, which all cells are in.

    field: of the records, and the column's name in CSV; value: what makes a cell of a record, where that is
    no field; optional: left out of CSV, too, where no record has a value; given: the unit, where the name of
    the field does not end with it; largest: value of columns beside it, whose unit it is shown in.
    """

    heading: str
    field: str
    value: Callable[[Any], Any] | None = None
    optional: bool = False
    given: str = ""
    largest: float = 0.0

    def of(self, record: Any) -> Any:
        """Return the cell of a record."""
        return getattr(record, self.field) if self.value is None else self.value(record)

    @property
    def unit(self) -> str:
        """Unit of the column's numbers: the one given, or by the last part of the name of its field."""
        if self.given:
            return "" if self.given in _COUNTS else self.given
        return unit_of(self.field)

    def scale(self, values: Sequence[Any]) -> tuple[str, float]:
        """Return the unit in which all values are shown, and how many of the column's own it is.

        It reads best for the largest of them; there is none where cells have it, or numbers have no unit.
        """
        if self.unit in ("", "share", THOUSANDTHS):
            return "", 1.0
        here = max((abs(value) for value in values if is_number(value)), default=0)
        return scale_of(self.unit, max(here, self.largest))

    def shown(self, values: Sequence[Any], *, grouped: bool = False) -> tuple[str, list[str]]:
        """Return the heading with its unit, and the cells, whose numbers are all in one style.

        grouped: thousands have separators also in numbers all digits of which are shown, as on a page.
        """
        unit, factor = self.scale(values)
        number = self._style(values, factor, grouped=grouped)
        cells = [number(value) if is_number(value) else _words(value) for value in values]
        return (f"{self.heading} ({unit})" if unit else self.heading), cells

    def _style(self, values: Sequence[Any], factor: float, *, grouped: bool) -> Callable[[float], str]:
        """Return the function that writes the numbers of the column."""
        if self.unit == "share":
            return share
        if self.unit == THOUSANDTHS:
            return "{:.3f}".format
        has_texts = any(isinstance(value, str) for value in values)
        if not self.unit and (has_texts or all(is_exact(value) for value in values if is_number(value))):
            return partial(quantity, unit="", plain=not grouped)
        return lambda value: rounded(value / factor)


def _words(value: Any) -> str:
    """Return a cell that is no number."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else ""
    return "x".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def is_number(value: Any) -> bool:
    """Return True for a number, which True and False are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class Table:
    """Records as rows.

    spare: fields that a narrow terminal leaves out first, in that order; shown: rows that a terminal prints,
    all if None; note: what a page says above it; numbered: a page numbers the rows from 0, as charts do.
    """

    title: str
    records: Sequence[Any]
    columns: tuple[Column, ...]
    spare: tuple[str, ...] = ()
    shown: int | None = None
    note: str = ""
    numbered: bool = False

    def filled(self, *, optional: bool = False) -> Table:
        """Return the table without columns in which no record has a value; optional: of these alone."""
        columns = (
            column
            for column in self.columns
            if (optional and not column.optional)
            or any(column.of(record) is not None for record in self.records)
        )
        return replace(self, columns=tuple(columns))

    def rows(self, most: int | None = None) -> list[list[Any]]:
        """Return the cells of the first rows."""
        return [[column.of(record) for column in self.columns] for record in self.records[:most]]

    def cells(
        self, rows: Sequence[Sequence[Any]], *, grouped: bool = False
    ) -> tuple[list[str], list[list[str]]]:
        """Return the headings and the rows as they are shown; grouped: as on a page."""
        columns = [
            column.shown([row[place] for row in rows], grouped=grouped)
            for place, column in enumerate(self.columns)
        ]
        lines = [[texts[number] for _, texts in columns] for number in range(len(rows))]
        return [heading for heading, _ in columns], lines

    def is_text(self, rows: Rows) -> list[bool]:
        """Return for each column whether it has words, which begin on the left, and no numbers."""
        return [any(isinstance(row[place], str | bool) for row in rows) for place in range(len(self.columns))]


def table(
    title: str,
    records: Sequence[Any],
    columns: str,
    *,
    spare: str = "",
    shown: int | None = None,
    note: str = "",
    numbered: bool = False,
    **values: Callable[[Any], Any],
) -> Table:
    """Return a table whose columns stand in one text with commas between them.

    "layer=name, value[ns], block?, energy_pj" has four columns: a heading, where it does not follow from the
    field, the field of the records, its unit, where the name does not end with it, and a question mark behind
    one that may have no values at all. values:
    what makes the cells of a field that the records do not have.
    """
    read = [
        Column(
            m["heading"] or words_of(m["field"]),
            m["field"],
            values.get(m["field"]),
            bool(m["optional"]),
            m["unit"] or "",
        )
        for m in map(_COLUMN.fullmatch, columns.split(", "))
        if m
    ]
    return Table(title, records, tuple(read), tuple(spare.split()), shown, note, numbered)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Content that a result shows.

    kind: of the result; title: what it is about; sentence: what came out; answer: name of the fact that a
    page shows first; tables: the first is that of the result, which CSV takes unless `csv` is another;
    charts: by the name that `result.plot` has for them; notes: what was assumed, left out or ignored; made:
    how the result was made, which only a page tells.
    """

    kind: str
    title: str
    sentence: str = ""
    facts: tuple[Fact, ...] = ()
    tables: tuple[Table, ...] = ()
    charts: Mapping[str, Draw] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    made: tuple[Fact, ...] = ()
    csv: Table | None = None
    answer: str = ""

    @classmethod
    def of(
        cls,
        result: Any,
        *,
        kind: str,
        title: str = "",
        sentence: str = "",
        extent: str = "",
        facts: Iterable[Fact] = (),
        tables: Iterable[Table] = (),
        charts: Mapping[str, Draw] | None = None,
        notes: Iterable[str] = (),
        csv: Table | None = None,
        answer: str = "",
    ) -> View:
        """Return the view of a result, with the facts that all results have around its own.

        title, sentence: as the result's headline if left out; extent: how large the network is, in words.
        """
        subject, words = result._headline()
        given = tuple(facts)
        named = {fact.name for fact in given}
        return cls(
            kind=kind,
            title=title or subject,
            sentence=sentence or words,
            facts=(
                *_about(result, extent),
                *given,
                *(fact for fact in _effort(result) if fact.name not in named),
            ),
            tables=tuple(tables),
            charts=charts or {},
            notes=(*notes, *(f"warning: {warning}" for warning in getattr(result, "warnings", ()))),
            made=tuple(_provenance(result)),
            csv=csv,
            answer=answer,
        )


def with_columns(view: View, names: Sequence[str], period: int | None) -> View:
    """Return the view with these columns in its first table, by the names of their fields.

    period: time of which `busy` is the part that a layer computes; None where the result has none.
    Raises UnknownNameError.
    """
    given = view.csv or view.tables[0]
    columns = {column.field: column for column in given.columns}
    fields = getattr(type(given.records[0]), "model_fields", {}) if given.records else {}
    for name in fields:
        columns.setdefault(name, Column(words_of(name), name))
    if period is not None and "batches" in fields:
        columns["busy"] = Column(
            "busy", "busy", lambda layer: layer.batches * (layer.cycles or 1) / period, given="share"
        )
    for name in names:
        if name not in columns:
            raise UnknownNameError("column", name, [*columns])
    chosen = replace(view.tables[0], columns=tuple(columns[name] for name in names), spare=())
    return replace(view, tables=(chosen, *view.tables[1:]), csv=None)


def busy_period(result: Any) -> tuple[int | None, str]:
    """Return the time that the question is of, and its name: layers are busy in a part of it."""
    target = getattr(result, "options", None)
    asked = (getattr(target, name, None) for name in _OF_INTERVAL)
    if getattr(result, "objective", "") == "interval" or any(value is not None for value in asked):
        return result.interval, "interval"
    return getattr(result, "makespan", None), "makespan"


def _about(result: Any, extent: str) -> Iterable[Fact]:
    """Yield the network and the hardware of a result."""
    network, hardware = getattr(result, "network", None), getattr(result, "hardware", None)
    if network is not None:
        yield Fact("network", network.name, note=f", {extent}" if extent else "")
    if isinstance(hardware, str) or hasattr(hardware, "words"):
        yield Fact("hardware", hardware_words(result))


def hardware_words(result: Any) -> str:
    """Return the hardware of a result and how weights lie on it, in words."""
    hardware, options = result.hardware, getattr(result, "options", result)
    words = getattr(hardware, "words", hardware)
    mapping = getattr(options, "mapping", None)
    if mapping is None:
        return str(words)
    return f"{words}, mapping {mapping}{', folded' if getattr(options, 'fold', False) is True else ''}"


def _effort(result: Any) -> Iterable[Fact]:
    """Yield the work of the search, and the coverage of the network."""
    work_s, coverage = getattr(result, "work_s", None), getattr(result, "coverage", None)
    if work_s is not None:
        yield Fact("search", 1e9 * work_s, "ns", "of work on a reference core")
    if coverage is not None:
        yield Fact("coverage", coverage.summary)
    if not_counted := getattr(result, "not_counted", ()):
        yield Fact("not counted", "; ".join(not_counted))


def _provenance(result: Any) -> Iterable[Fact]:
    """Yield the provenance of a result: hashes of its inputs, and the program that made it."""
    options = getattr(result, "options", result)
    network = getattr(result, "network", None)
    if network is not None:
        yield Fact("network", f"{network.name}, sha256 {network.sha256}")
    if getattr(options, "fc", None) is not None:
        left = ", ".join(getattr(options, "host", ()))[:200]
        yield Fact("classifiers", f"on the {options.fc}{f'; left to the host: {left}' if left else ''}")
    for name in ("seed", "work"):
        value = getattr(result, name, getattr(options, name, None))
        if value is not None:
            yield Fact(name, value, note="units of 0.05 s" if name == "work" else "")
    version = getattr(result, "rramalloc_version", None)
    if version is not None:
        yield Fact("rramalloc", version)


def thinned(count: int, most: int) -> list[int]:
    """Return at most `most` places of 0 ... count - 1, evenly spread, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return [place * (count - 1) // (most - 1) for place in range(most)]
