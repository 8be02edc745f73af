"""What a page is made of: sections with facts, charts, tables and notes, before any HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rramalloc.chart import Chart
from rramalloc.network.coverage import Coverage

Kind = Literal["text", "int", "float", "percent"]


@dataclass(frozen=True, slots=True)
class Detail:
    """How much a page shows of a file; the next level is taken where a page would be too large.

    rows: of one table; marks: bars, points or squares of one chart.
    """

    rows: int
    marks: int


LEVELS = (Detail(2000, 8000), Detail(1000, 3000), Detail(300, 1000), Detail(60, 250))
FIGURE = LEVELS[2]
"""What a picture in a file shows."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A number of the headline. note: a few words below it."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; percent: the value is a share of 1."""

    heading: str
    kind: Kind = "text"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells as `columns` say; folded: hidden until asked for; rows beyond the detail are not here."""

    title: str
    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Any]]
    note: str = ""
    folded: bool = True


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence where something is missing or must be known."""

    text: str


Block = Table | Chart | Note


@dataclass(frozen=True, slots=True)
class Section:
    """What the page tells of one file. limit: one sentence that says what limits the result, or sums it up
    after the words `lead`; headline: a few words for the list of results; made: (term, what it was).
    """

    title: str
    subtitle: str
    facts: tuple[Fact, ...]
    blocks: tuple[Block, ...]
    limit: str = ""
    lead: str = "In short."
    headline: str = ""
    made: tuple[tuple[str, str], ...] = ()


def shown(table: Table, detail: Detail) -> Table:
    """The table as long as the detail allows, with a note if that is not all."""
    if len(table.rows) <= detail.rows:
        return table
    told = f"The first {detail.rows:,} of {len(table.rows):,} rows; the file has all."
    note = f"{told} {table.note}".strip()
    return Table(table.title, table.columns, table.rows[: detail.rows], note, table.folded)


def thinned(count: int, most: int) -> list[int]:
    """At most `most` places of 0 ... count - 1, evenly spread, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return [place * (count - 1) // (most - 1) for place in range(most)]


def coverage_pairs(coverage: Coverage | None) -> list[tuple[str, str]]:
    """How much of a network a result is about, for the section's provenance; nothing in older files."""
    return [] if coverage is None else [("Coverage", coverage.summary)]
