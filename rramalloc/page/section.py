"""Parts of a page: sections with facts, charts, tables and notes, before any HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rramalloc.allocation.allocation import NetworkId
from rramalloc.chart import Axis, Chart, Key, Lists, Panel, stacked
from rramalloc.columns import Column, columns_of
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.coverage import Coverage


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


@dataclass(frozen=True, slots=True)
class Fact:
    """A number of the headline. note: a few words below it."""

    label: str
    value: str
    note: str = ""


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
Bars = Sequence[tuple[Key, Sequence[float]]]


@dataclass(frozen=True, slots=True)
class Section:
    """One file on the page. limit: one sentence that says what limits the result, or sums it up
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


_SHARES = ("gap", "utilisation")


def table_of(
    title: str, records: Sequence[object], names: Sequence[str], detail: Detail, *, folded: bool = True
) -> Table:
    """Return the table of the named fields of records, without those that no record has."""
    kinds = {name: {type(getattr(record, name)) for record in records} - {type(None)} for name in names}
    columns = [_column(name, kinds[name]) for name in names if kinds[name]]
    return table(title, columns, records, detail, folded=folded)


def _column(name: str, kinds: set[type]) -> Column:
    heading = name.replace("_", " ").capitalize()
    if bool in kinds:
        return Column(heading, "text", lambda record: {True: "yes", False: ""}.get(getattr(record, name)))
    if kinds & {str, tuple}:
        return Column(heading, "text", name)
    return Column(heading, "percent" if name in _SHARES else "float" if float in kinds else "int", name)


def table(
    title: str,
    columns: Sequence[Column] | str,
    records: Sequence[Any],
    detail: Detail,
    note: str = "",
    *,
    folded: bool = True,
    numbered: bool = False,
) -> Table:
    """Return a table with a row for each record, as many as the detail allows, and a note if that is not all.

    columns: or as `columns_of` reads them; numbered: a first column has the index of each row.
    """
    columns = columns_of(columns) if isinstance(columns, str) else columns
    if len(records) > detail.rows:
        note = f"The first {detail.rows:,} of {len(records):,} rows; the file has all. {note}".strip()
    rows = [tuple(column.of(record) for column in columns) for record in records[: detail.rows]]
    if numbered:
        columns, rows = (Column("#", "int"), *columns), [(n, *row) for n, row in enumerate(rows)]
    return Table(title, tuple(columns), rows, note, folded)


def thinned(count: int, most: int) -> list[int]:
    """Return at most `most` places of 0 ... count - 1, evenly spread, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return [place * (count - 1) // (most - 1) for place in range(most)]


def stacked_bars(title: str, across: str, up: str, names: Sequence[str], bars: Bars, detail: Detail) -> Chart:
    """Chart a stacked bar for each name, as many as the detail allows."""
    kept = thinned(len(names), max(2, detail.marks // (4 * len(bars))))
    data: Lists = {"place": list(range(len(kept))), "name": [names[at] for at in kept]}
    data |= {key.name: [float(values[at]) for at in kept] for key, values in bars}
    layers, highest = stacked(data, {key.name: key for key, _ in bars}, {across: "name"})
    labels = Axis.of_names(data["name"], across)
    axis = Axis(up, 0, highest * 1.04 or 1)
    return Chart(title, (Panel(labels, axis, 240, tuple(layers)),), f"Bars of {len(kept)} of {len(names)}.")


def coverage_pairs(coverage: Coverage | None) -> list[tuple[str, str]]:
    """Return the coverage of a network by a result, for the section's provenance; nothing in older files."""
    return [] if coverage is None else [("Coverage", coverage.summary)]


def block_words(block: Sequence[int] | None) -> str:
    """Return the height and width of a block of windows or of a fold; without one it is a single window."""
    return "x".join(map(str, block or (1, 1)))


def hardware_words(hardware: Hardware) -> str:
    """Name and size of the arrays."""
    size, name = hardware.crossbar, f"{hardware.name}{hardware.set_words}"
    return f"{name}, arrays of {size.wordlines} x {size.bitlines}, {size.cell_bits} bits a cell"


def network_words(network: NetworkId) -> str:
    """Return the name and the hash of a result's network."""
    return f"{network.name}, sha256 {network.sha256}"


def mapping_words(options: MappingOptions) -> str:
    """Return the words for the mapping of weights on crossbars, and for what the host computes."""
    left = f"; left to the host: {', '.join(options.host)[:200]}" if options.host else ""
    return f"{options.mapping}{', folded' if options.fold else ''}; classifiers on the {options.fc}{left}"


def warning_notes(warnings: tuple[str, ...]) -> tuple[Note, ...]:
    """Return a note for each assumption and each ignored input."""
    return tuple(Note(f"Note: {warning}") for warning in warnings)


class _Made(Protocol):
    """A result of a network on hardware."""

    @property
    def network(self) -> NetworkId: ...
    @property
    def hardware(self) -> Hardware: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...


def section_of(
    kind: str,
    result: _Made,
    *,
    title: str,
    facts: Sequence[Fact],
    blocks: Sequence[Block],
    headline: str,
    limit: str = "",
    lead: str = "In short.",
    made: Sequence[tuple[str, str]] = (),
) -> Section:
    """Return the section of a result: its warnings before the blocks, and how it was made.

    made: beyond network, hardware, coverage, mapping and version, which are taken from the result.
    """
    options, version = getattr(result, "options", None), getattr(result, "rramalloc_version", None)
    return Section(
        title=title,
        subtitle=f"{kind} · {hardware_words(result.hardware)}",
        facts=tuple(facts),
        blocks=(*warning_notes(result.warnings), *blocks),
        limit=limit,
        lead=lead,
        headline=headline,
        made=(
            ("Network", network_words(result.network)),
            ("Hardware", hardware_words(result.hardware)),
            *coverage_pairs(getattr(result, "coverage", None)),
            *(() if options is None else (("Mapping", mapping_words(options)),)),
            *made,
            *(() if version is None else (("rramalloc", version),)),
        ),
    )
