"""Questions, stores and options of `size` that are wrong: each is one sentence."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from commands.size.test_search import MANY
from program import run

import rramalloc
from rramalloc.commands.size import question, results, task
from rramalloc.errors import FileError, InfeasibleError, RramallocError, SpecError
from rramalloc.store import Store

pytestmark = pytest.mark.quick

NO_SOURCE = (5, True, 1.5, float("nan"), [1], date(1979, 5, 27))


@pytest.mark.parametrize("value", NO_SOURCE, ids=repr)
def test_what_is_neither_a_network_nor_a_hardware(value: Any) -> None:
    asked: dict[str, Any] = {"networks": [{"network": "alexnet", "target": 4000}], "minimise": "arrays"}
    with pytest.raises(SpecError, match=r"networks\[0\].network: must be a file or the name of a shipped"):
        rramalloc.size(asked | {"networks": [{"network": value, "target": 4000}]})
    with pytest.raises(SpecError, match="hardware: must be a file, the name of a preset, or a table"):
        rramalloc.size(asked | {"hardware": value})
    with pytest.raises(SpecError, match=r"choose.hardware: must be a file, the name of a preset, or a table"):
        rramalloc.size(asked | {"choose": {"hardware": [value]}})


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ([], "is no search of `size`"),
        (5, "is no search of `size`"),
        ({}, "is no search of `size`"),
        ({"result": {"least": 1e9}, "sha256": "0"}, "was changed after it was kept"),
        ("least", "was changed after it was kept"),
    ],
    ids=repr,
)
def test_a_row_of_a_store_that_is_none_or_was_edited(row: Any, words: str, tmp_path: Path) -> None:
    """Also a bound that was raised, with which more would be called proven than is."""
    path = tmp_path / "searches.sqlite"
    rramalloc.size(MANY, store=path)
    with Store(path, "sizing") as kept:
        each = [(key, json.loads(text)) for key, text in kept.query("SELECT key, row FROM rows")]
        if row == "least":
            for _, own in each:
                own["result"]["least"] += 1
        kept.keep([(key, own if row == "least" else row) for key, own in each])
    with pytest.raises(FileError, match=words):
        rramalloc.size(MANY, store=path)


def test_a_row_of_another_form_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "searches.sqlite"
    monkeypatch.setattr(results, "_sha256", lambda *_: "0")
    rramalloc.size(MANY, store=path)
    changes: list[dict[str, Any]] = [
        {"least": -1}, {"least": "x"}, {"miss": 0.0}, {"work_s": None},
        {"found": 5}, {"found": {"format": 1}}, {"impossible": None}, {"more": 1},
    ]  # fmt: skip
    for change in changes:
        with Store(path, "sizing") as kept:
            each = [(key, json.loads(text)) for key, text in kept.query("SELECT key, row FROM rows")]
            kept.keep((key, own | {"result": own["result"] | change}) for key, own in each)
            with pytest.raises(RramallocError):
                rramalloc.size(MANY, store=path)
            kept.keep(each)


def test_a_store_of_other_code_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "searches.sqlite"
    rramalloc.size(MANY, store=path)
    monkeypatch.setattr(task, "code_sha256", lambda: "another commit")
    monkeypatch.setattr(results, "result_of", None)
    with pytest.raises(TypeError):  # it searches anew
        rramalloc.size(MANY, store=path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--time-limit 1e308", "time limit: must be from 0 to"),
        ("--time-limit -1", "time limit: must be from 0 to"),
        ("-o new/", "new/: is a folder, name a file"),
    ],
)
def test_options_out_of_range(words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused = run("size", "alexnet", "--hardware", "isaac", "--target", 4000, *words.split())
    assert refused.code == 1
    assert said in refused.err
    assert list(tmp_path.iterdir()) == []


def test_a_limit_of_time_holds_while_candidates_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is read once, however many candidates it has, and no more of them when the time is over."""
    read, whole = list[Any](), question.as_hardware
    monkeypatch.setattr(
        question, "as_hardware", lambda *given, **also: read.append(given) or whole(*given, **also)
    )
    asked: dict[str, Any] = {
        "networks": [{"network": "alexnet", "target": 4000}],
        "choose": {"hardware": ["isaac", "puma"], "precision.output_bits": list(range(1, 9))},
        "minimise": "arrays",
    }
    rramalloc.size(asked)
    assert len(read) == 2
    with pytest.raises(InfeasibleError, match="of 16 candidates: the limit of time ended it: raise that"):
        rramalloc.size(asked, time_limit_s=0.0)


def test_a_refused_question_leaves_no_store(tmp_path: Path) -> None:
    with pytest.raises(RramallocError):
        rramalloc.size({"networks": [{"network": "no such", "target": 1}], "choose": {"crossbar": ["64x64"]}},
                       store=tmp_path / "s.sqlite", jobs=1)  # fmt: skip
    assert list(tmp_path.iterdir()) == []
