"""`rramalloc compare`: what it prints, what it writes and how it ends; figures of the other commands."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rramalloc.methods.registry import METHODS, method_named

Run = Callable[..., Any]
Start = Callable[..., subprocess.Popen[str]]
ROW = {"network", "arrays", "method", "makespan", "interval", "used", "ratio", "work_s"}


def test_the_whole_comparison(run: Run) -> None:
    """At least 15 methods on VGG-16 with 2048 arrays; auto has ratio 1 and nothing is faster."""
    outcome = run("compare", "vgg16", "--arrays", 2048, "--work", 10, "--format", "json")
    document = outcome.json
    assert outcome.code == 0
    assert document["format"] == "rramalloc-comparison/2"
    rows = document["rows"]
    assert len(rows) >= 15
    assert all(set(row) >= ROW for row in rows)
    assert (rows[0]["method"], rows[0]["ratio"]) == ("auto", 1)
    assert rows[0]["makespan"] == min(row["makespan"] for row in rows)
    assert {row["arrays"] for row in rows} == {2048}
    jsonschema.validate(document, run("schema", "comparison").json)
    assert f"{len(rows)}/{len(rows)}  " in outcome.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--arrays", "many"), "arrays: must be a number such as 2048"),
        (("--arrays", "40", "--methods", "atuo"), "did you mean auto"),
        (("--arrays", "40", "--figure", "x.gif"), "must end in .svg"),
        (("--arrays", "40", "-o", "/none/x.json"), "folder does not exist"),
    ],
)
def test_what_cannot_be_served(run: Run, tiny: Path, arguments: tuple[object, ...], words: str) -> None:
    outcome = run("compare", tiny, *arguments)
    assert outcome.code == 1
    assert outcome.out == ""
    assert outcome.err.startswith("error: ")
    assert words in outcome.err
    assert "Traceback" not in outcome.err


def test_same_command_same_bytes(start: Start, run: Run, tmp_path: Path) -> None:
    """Other hash seed, other process: not one byte differs, neither in the file nor in the figure."""

    def words(name: str) -> tuple[object, ...]:
        files = ("-o", tmp_path / f"{name}.json", "--figure", tmp_path / f"{name}.svg")
        return ("compare", "alexnet", "--arrays", "x2", "--work", 3, *files, "--format", "json", "-q")

    other = start(*words("other"), env={"PYTHONHASHSEED": "1"}, cwd=tmp_path)
    out, err = other.communicate()
    assert (other.returncode, err) == (0, "")
    here = run(*words("here"))
    assert (here.code, here.err) == (0, "")
    results = [
        (text, (tmp_path / f"{name}.json").read_bytes(), (tmp_path / f"{name}.svg").read_bytes())
        for name, text in (("other", out), ("here", here.out))
    ]
    assert results[0] == results[1]
    assert results[0][0].encode() == results[0][1]
    every = [method_named(name) for name in METHODS]
    compared = [each for each in every if each.compared and not each.needs]
    assert len(json.loads(results[0][0])["rows"]) == len(compared)


def test_interrupt_keeps_what_was_ready(start: Start, tmp_path: Path) -> None:
    """Ctrl-C while auto searches for hours: its best so far is printed and written, the rest has a reason."""
    target, figure = tmp_path / "comparison.json", tmp_path / "comparison.svg"
    words = "compare densenet121 --arrays 8192 --work 100000 --format json -o".split()
    process = start(*words, target, "--figure", figure)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("1/")
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "interrupted" in err
    document = json.loads(out)
    assert document == json.loads(target.read_text())
    assert [row["method"] for row in document["rows"]] == ["auto"]
    assert all("interrupted" in left["reason"] for left in document["skipped"])
    assert figure.read_text().startswith("<svg")
