"""Tables, lines and notes: what they make of the width they have."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from rramalloc.cli.output import print_table


class Screen(io.StringIO):
    """A terminal without a process, as wide as COLUMNS says."""

    def isatty(self) -> bool:
        return True


TEXTS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Zs")), max_size=40)


@settings(max_examples=30)
@given(
    rows=st.lists(st.tuples(TEXTS, st.integers(0, 10**12), st.floats(0, 1e9), TEXTS), min_size=1, max_size=4),
    columns=st.integers(10, 120),
    spare=st.lists(st.sampled_from(["count", "size ns", "note"]), unique=True),
)
def test_any_table_fits(rows: list[tuple[Any, ...]], columns: int, spare: list[str]) -> None:
    names = ("name", "count", "size ns", "note")
    screen = Screen()
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("COLUMNS", str(columns))
        patched.setattr(sys, "stdout", screen)
        print_table(names, rows, ("name", "note"), spare=spare, quiet=True)
    lines = screen.getvalue().split("\n")
    assert max(map(cell_len, lines)) <= columns
    assert len(lines) == len(rows) + 3
    for row, line in zip(rows, lines[2:], strict=False):
        assert "count" not in lines[0] or str(row[1]) in line.split()


WIDE = ("name", "a", "b", "c")
ROW = ("conv1", 1234567, 89, 1234567)


@pytest.mark.parametrize(
    ("columns", "spare", "shown", "told"),
    [
        (33, (), "conv1   1234567   89   1234567", ""),
        (29, (), "conv1  1234567  89  1234567", ""),
        (26, ("c", "b"), "conv1  1234567  89", "left out: c; "),
        (26, ("b", "c"), "conv1  1234567  1234567", "left out: b; "),
        (20, (), "conv1  1234567  89", "left out: c; "),
        (5, ("b",), "conv1", "left out: a, b, c; "),
    ],
)
def test_columns_that_go(
    columns: int,
    spare: tuple[str, ...],
    shown: str,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """conv1, 7, 2 and 7 digits wide: 21, with three gaps of 3 it is 30 and with gaps of 2 it is 27."""
    screen = Screen()
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys, "stdout", screen)
    print_table(WIDE, [ROW], ("name",), spare=spare)
    assert screen.getvalue().splitlines()[2] == shown
    assert capsys.readouterr().err == (f"{told}a wider terminal or --format csv shows all\n" if told else "")


def test_a_pipe_gets_all(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "5")
    print_table(WIDE, [ROW], ("name",), spare=("c", "b"))
    captured = capsys.readouterr()
    assert captured.out.splitlines()[2] == "conv1   1234567   89   1234567"
    assert captured.err == ""
