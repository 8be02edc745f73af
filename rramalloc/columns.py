"""Columns of tables, read from one text: in a terminal, on a page and in a notebook."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

Kind = Literal["text", "int", "float", "percent"]
_OPTIONAL = frozenset(
    "fold block kind kinds cycles utilisation weight_bits input_bits energy_pj edp against_value area_um2 "
    "input_cycles reads conversions read_ns converter_ns array_ns memory_ns transfer_ns step_ns binds".split()
)
"""Fields whose columns tables omit where no row has a value."""
_COLUMN = re.compile(r"(?P<heading>.+?)(?: (?P<kind>int|float|percent))?(?:=(?P<field>\w+))?")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. kind: of its values on a page, where a percent is a share of 1.

    value: the field of a record, or what is made of one; without it the field that the heading names.
    """

    heading: str
    kind: Kind = "text"
    value: str | Callable[[Any], Any] = ""

    @property
    def field(self) -> str:
        """The field of a record, where the value is one."""
        return self.value if self.value and isinstance(self.value, str) else _field(self.heading)

    def of(self, record: Any) -> Any:
        """Return the cell of a record."""
        return self.value(record) if callable(self.value) else getattr(record, self.field)


def columns_of(text: str) -> list[Column]:
    """Columns with commas between them: heading, kind unless it is text, and field.

    "Layer=name, Demand int, Time float=time_ns, energy_pj" has four: a heading that is not given follows
    from the field without its unit, which stands in the cells, and a field from the heading.
    """
    matches = (_COLUMN.fullmatch(column) for column in text.split(", "))
    return [
        Column(
            m["heading"] if m["field"] else _heading(m["heading"]),
            cast("Kind", m["kind"] or "text"),
            m["field"] or _field(m["heading"]),
        )
        for m in matches
        if m
    ]


def _field(heading: str) -> str:
    return heading.lower().replace(" ", "_")


def _heading(field: str) -> str:
    """Return the words of a field without its unit, which cells have: "weight bits", "energy"."""
    return re.sub("_(pj|um2|ns)$", "", field).replace("_", " ")


def with_values(columns: Sequence[Column], records: Iterable[object]) -> list[Column]:
    """Return the columns without optional ones that no record has a value for."""
    optional = _OPTIONAL.intersection(column.field for column in columns)
    given = {field for field in optional for record in records if getattr(record, field) is not None}
    return [column for column in columns if column.field not in optional - given]
