"""A view on a terminal: aligned columns that keep to its width, then the facts; a pipe gets everything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rramalloc.units import printable
from rramalloc.view.view import Fact, Table, View
from rramalloc.view.width import shortened, wrapped

_GAP = "   "
_NARROW_GAP = "  "  # where the table is wider than the terminal
_READABLE = 16  # a text column is not cut below this as long as other columns can go
_LEAST_WIDTH = 8  # a text column is never cut below this


class Printed(NamedTuple):
    """Text of a table; hidden: its columns that are missing or cut, in words, "" if none is."""

    text: str
    hidden: str = ""


def print_view(view: View, width: int | None) -> Printed:
    """Return the tables and facts of a view in `width` columns, None for a pipe."""
    parts, hidden = list[str](), list[str]()
    for place, table in enumerate(view.tables):
        if table.shown == 0 or (place and not table.records):
            continue
        printed = print_table(table, width)
        parts.append(printed.text)
        if printed.hidden:
            complete = "json" if place or view.csv is not None else "csv"
            hidden.append(f"{printed.hidden}a wider terminal or --format {complete} shows all")
    if view.facts:
        parts.append("\n".join(fact_lines(view.facts, width)) + "\n")
    return Printed("\n".join(parts), "\n".join(hidden))


def fact_lines(facts: Iterable[Fact], width: int | None) -> Iterator[str]:
    """Yield "label value" lines whose values stand below each other."""
    items = [(fact.name, printable(fact.line)) for fact in facts]
    room = max((len(name) for name, _ in items), default=0)
    for name, words in items:
        label = f"{name:<{room}}  "
        yield label + wrapped(words, width, len(label))


def print_table(table: Table, width: int | None = None) -> Printed:
    """Return the rows that a terminal shows of a table.

    In one that is too narrow texts are shortened and columns left out, the spare ones first, in their order.
    """
    from rich.cells import cell_len

    table = table.filled()
    rows = table.rows(table.shown)
    headings, cells = table.cells(rows)
    cells = [[printable(cell) for cell in row] for row in cells]
    full = [max(map(cell_len, texts)) for texts in zip(headings, *cells, strict=True)]
    left = table.is_text(rows)
    widths = list(full)
    kept, gap = list(range(len(widths))), _GAP
    if width is not None and _sum(widths, kept, gap) > width:
        gap = _NARROW_GAP
        kept = _kept(table, widths, left, width)
        _narrow(widths, left, kept, width)
    for place in kept:
        names = [row[place] for row in cells] if widths[place] < full[place] else []
        if len({shortened(name, widths[place]) for name in names}) < len(set(names)):
            from rramalloc.chart import labels

            for row, text in zip(cells, labels(names, widths[place]), strict=True):
                row[place] = text

    def aligned(text: str, place: int) -> str:
        if widths[place] < full[place]:
            text = shortened(text, widths[place])
        spaces = " " * (widths[place] - cell_len(text))
        return text + spaces if left[place] else spaces + text

    lines = [gap.join(aligned(row[place], place) for place in kept).rstrip() for row in (headings, *cells)]
    lines.insert(1, "─" * _sum(widths, kept, gap))
    absent = [heading for place, heading in enumerate(headings) if place not in kept]
    cut = [headings[place] for place in kept if widths[place] < full[place]]
    hidden = [
        f"{what}: {', '.join(names)}; " for what, names in (("left out", absent), ("cut", cut)) if names
    ]
    return Printed("\n".join(lines) + "\n", "".join(hidden))


def _sum(widths: Sequence[int], kept: Sequence[int], gap: str) -> int:
    """Return the columns of the terminal that a line of the table takes."""
    return sum(widths[place] for place in kept) + len(gap) * (len(kept) - 1)


def _kept(table: Table, widths: Sequence[int], left: Sequence[bool], room: int) -> list[int]:
    """Return the places of the columns that stay: spare ones go while texts are readable, more if that is not
    enough."""
    fields = [column.field for column in table.columns]
    kept = list(range(len(fields)))
    first = [fields.index(field) for field in table.spare if field in fields]
    last = [place for place in reversed(kept[1:]) if place not in first]
    for going, least in ((first, _READABLE), (last, _LEAST_WIDTH)):
        smallest = [min(width, least) if text else width for width, text in zip(widths, left, strict=True)]
        for place in going:
            if _sum(smallest, kept, _NARROW_GAP) <= room:
                break
            kept.remove(place)
    return kept


def _narrow(widths: list[int], left: Sequence[bool], kept: Sequence[int], room: int) -> None:
    """Shorten the widest text columns until the table fits."""
    excess = _sum(widths, kept, _NARROW_GAP) - room
    while excess > 0:
        widest = max(((widths[place], place) for place in kept if left[place]), default=(0, 0))
        if widest[0] <= _LEAST_WIDTH:
            return
        cut = min(excess, max(1, (widest[0] - _LEAST_WIDTH) // 2))
        widths[widest[1]] -= cut
        excess -= cut
