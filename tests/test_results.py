"""Pages of results/: how they are measured, go on after a stop, are written, and grow old."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

RESULTS = Path(__file__).resolve().parents[1] / "results"


@pytest.fixture
def everything(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Return results/all.py; modules of the tests that have the names of its scripts are set aside."""
    scripts = {path.stem for path in RESULTS.glob("*.py")}
    aside = [name for name in sys.modules if name.partition(".")[0] in scripts]
    for name in aside:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(RESULTS))
    yield importlib.import_module("all")
    for name in [*sys.modules]:
        if name.partition(".")[0] in scripts:
            del sys.modules[name]


@dataclass(frozen=True)
class Row:
    number: int
    square: float
    name: str
    known: bool
    bound: int | None


def squares(number: int) -> Iterator[Row]:
    if number < 0:
        raise ValueError(number)
    yield Row(number, number**2, f"{number}, squared", number > 1, None if number == 1 else number)


@pytest.fixture
def study(everything: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """Fields of a small study named "squares", which is measured in this process."""
    pages = importlib.import_module("pages")
    fields: dict[str, Any] = {
        "title": "Squares", "question": "How large?", "row": Row, "cases": [(1,), (2,), (3,)],
        "measure": squares, "answer": lambda rows: f"At most **{rows[-1].square:g}**.",
        "body": lambda rows: [str(row.number) for row in rows], "decided_by": ("units.py",),
    }  # fmt: skip
    monkeypatch.setattr(everything, "study_of", lambda _: pages.Study(**fields))
    monkeypatch.setattr(everything, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(everything, "RESULTS", tmp_path)
    monkeypatch.setattr(everything, "BUDGET_MIN", {"squares": 1})
    monkeypatch.setattr(everything, "ProcessPoolExecutor", InThisProcess)
    return fields


class InThisProcess(ThreadPoolExecutor):
    """Workers that see what a test has set."""


def test_a_page_has_question_answer_table_and_how_it_was_made(
    everything: ModuleType, study: dict[str, Any], tmp_path: Path
) -> None:
    assert everything.make("squares", quick=False)
    everything.write_list()
    page = (tmp_path / "squares.md").read_text("utf-8")
    assert page.startswith("# Squares\n\nHow large?\n\n**Answer.** At most **9**.\n\n1\n2\n3\n")
    assert "`python results/all.py --only squares`" in page
    rows = importlib.import_module("rows")
    assert rows.read(tmp_path / "squares.csv", Row) == [row for n in (1, 2, 3) for row in squares(n)]
    assert "| [Squares](squares.md) | How large? | 9 |" in (tmp_path / "README.md").read_text("utf-8")


def test_a_run_goes_on_where_it_was_stopped(everything: ModuleType, study: dict[str, Any]) -> None:
    """A case that fails keeps the page from being written; the last line may have been cut by the stop."""
    study["cases"] = [(1,), (-1,), (2,)]
    assert not everything.make("squares", quick=False)
    assert not (everything.RESULTS / "squares.md").exists()
    kept = everything.CACHE / "squares.jsonl"
    with kept.open("a") as file:
        file.write('{"case": [3], "sec')
    asked = []
    study["cases"], study["measure"] = [(1,), (2,), (3,)], lambda n: [asked.append(n), *squares(n)][1:]
    assert everything.make("squares", quick=False)
    assert asked == [3]
    assert sorted(json.loads(line)["case"] for line in kept.read_text().splitlines()[1:]) == [[1], [2], [3]]


def test_a_process_that_ends_leaves_the_other_cases(
    everything: ModuleType, study: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first case ends its process, and takes along the second, which is measured alone afterwards."""
    asked: list[int] = []

    def measure(number: int) -> list[Row]:
        asked.append(number)
        if number == 1 or asked.count(2) == 1:
            raise BrokenProcessPool
        return [*squares(number)]

    monkeypatch.setattr(everything, "WORKERS", 1)
    study["cases"], study["measure"] = [(1,), (2,)], measure
    assert not everything.make("squares", quick=False)
    assert sorted(asked) == [1, 1, 2, 2]
    kept = (everything.CACHE / "squares.jsonl").read_text().splitlines()[1:]
    assert [json.loads(line)["case"] for line in kept] == [[2]]


def test_quick_measures_one_case_and_leaves_the_page(everything: ModuleType, study: dict[str, Any]) -> None:
    assert everything.make("squares", quick=True)
    assert not (everything.RESULTS / "squares.md").exists()
    assert "At most **1**" in (everything.CACHE / "quick" / "squares.md").read_text("utf-8")


def test_a_page_grows_old_with_code_but_not_with_words(
    everything: ModuleType, study: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = tmp_path / "units.py"
    source.write_text('"""Words."""\n\ndef f(x):\n    """More."""\n    return x  # why\n')
    monkeypatch.setattr(everything, "PACKAGE", tmp_path)
    everything.digest.cache_clear()
    assert [*everything.stale()] == ["squares: not measured in this form"]
    everything.make("squares", quick=False)
    assert [*everything.stale()] == []
    source.write_text("def f(x):\n    return x\n")
    everything.digest.cache_clear()
    assert [*everything.stale()] == []
    source.write_text("def f(x):\n    return x + 1\n")
    everything.digest.cache_clear()
    assert [*everything.stale()] == ["squares: older than units.py"]
    study["measure"] = lambda number: squares(10 * number)  # what was kept is not used again
    assert everything.make("squares", quick=False)
    assert "**900**" in (tmp_path / "squares.md").read_text("utf-8")
    everything.digest.cache_clear()


def test_every_page_is_listed_and_its_code_is_there(everything: ModuleType) -> None:
    assert sum(everything.BUDGET_MIN.values()) <= 120
    assert {path.stem for path in RESULTS.glob("*.md")} - {"README"} <= {*everything.BUDGET_MIN}
    for name in everything.BUDGET_MIN:
        study = everything.study_of(name)
        assert study.cases
        assert study.question.endswith("?")
        for folder in study.decided_by:
            assert (everything.PACKAGE / folder).exists(), (name, folder)
