"""Tables on a terminal: what they make of the width that they have."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from rramalloc.view.terminal import print_table, print_view
from rramalloc.view.view import Fact, View, table


class Row(NamedTuple):
    """A row of any table."""

    name: str
    count: int
    size_ns: float
    note: str


TEXTS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Zs")), max_size=40)


@settings(max_examples=30)
@given(
    rows=st.lists(
        st.builds(Row, TEXTS, st.integers(0, 10**12), st.floats(0, 1e9), TEXTS), min_size=1, max_size=4
    ),
    columns=st.integers(10, 120),
    spare=st.lists(st.sampled_from(["count", "size_ns", "note"]), unique=True),
)
def test_any_table_fits(rows: list[Row], columns: int, spare: list[str]) -> None:
    printed = print_table(table("", rows, "name, count, size_ns, note", spare=" ".join(spare)), columns)
    lines = printed.text.split("\n")
    assert max(map(cell_len, lines)) <= columns
    assert len(lines) == len(rows) + 3
    for row, line in zip(rows, lines[2:], strict=False):
        assert "count" not in lines[0] or str(row.count) in line.split()


def test_names_of_a_narrow_table_do_not_read_alike() -> None:
    """Cut in the middle, both blocks would read "/features/de…er1/conv"."""
    rows = [Row(f"/features/denseblock{block}/denselayer1/conv", 1, 1.0, "") for block in (1, 2)]
    first, second = print_table(table("", rows, "name, count"), 30).text.splitlines()[2:]
    assert "block1" in first
    assert "block2" in second
    assert cell_len(first) <= 30


class Wide(NamedTuple):
    """conv1, 7, 2 and 7 digits wide: 21, with three gaps of 3 it is 30 and with gaps of 2 it is 27."""

    name: str = "conv1"
    a: int = 1234567
    b: int = 89
    c: int = 1234567


@pytest.mark.parametrize(
    ("columns", "spare", "shown", "told"),
    [
        (None, "c b", "conv1   1234567   89   1234567", ""),
        (33, "", "conv1   1234567   89   1234567", ""),
        (29, "", "conv1  1234567  89  1234567", ""),
        (26, "c b", "conv1  1234567  89", "left out: c; "),
        (26, "b c", "conv1  1234567  1234567", "left out: b; "),
        (20, "", "conv1  1234567  89", "left out: c; "),
        (5, "b", "conv1", "left out: a, b, c; "),
    ],
)
def test_columns_that_go(columns: int | None, spare: str, shown: str, told: str) -> None:
    """A pipe gets all."""
    printed = print_table(table("", [Wide()], "name, a, b, c", spare=spare), columns)
    assert printed.text.splitlines()[2] == shown
    assert printed.hidden == told


def test_facts_stand_below_each_other_and_go_on_behind_their_names() -> None:
    facts = (
        Fact("gap", 0.0251, "share", "from optimal at most"),
        Fact("network", "a\x1bb", note=", 2 stages"),
    )
    printed = print_view(View(kind="", title="", facts=facts), 27)
    assert printed.text.splitlines() == [
        "gap      2.51 % from",
        "         optimal at most",
        "network  a?b, 2 stages",
    ]


def test_a_table_without_rows_or_not_for_a_terminal_is_left_out() -> None:
    main = table("", [Wide()], "name, a, b, c")
    view = View(
        kind="",
        title="",
        sentence="",
        tables=(main, table("", [], "name"), table("", [Wide()], "name", shown=0)),
    )
    assert print_view(view, None) == print_table(main)
    assert print_view(view, 26).hidden == "left out: c; a wider terminal or --format csv shows all"
