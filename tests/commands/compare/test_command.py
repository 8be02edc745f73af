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
ROW = {"network", "arrays", "method", "makespan", "interval", "used", "ratio", "seconds"}


def test_the_whole_comparison(run: Run) -> None:
    """At least 15 methods on VGG-16 with 2048 arrays; auto has ratio 1 and nothing is faster."""
    outcome = run("compare", "vgg16", "--arrays", 2048, "--format", "json")
    document = outcome.json
    assert outcome.code == 0
    assert document["format"] == "rramalloc-comparison/1"
    rows = document["rows"]
    assert len(rows) >= 15
    assert all(set(row) >= ROW for row in rows)
    assert (rows[0]["method"], rows[0]["ratio"]) == ("auto", 1)
    assert rows[0]["makespan"] == min(row["makespan"] for row in rows)
    assert {row["arrays"] for row in rows} == {2048}
    jsonschema.validate(document, run("schema", "comparison").json)
    assert f"{len(rows)}/{len(rows)}  " in outcome.err


def test_table(run: Run, tiny: Path) -> None:
    """No copy more takes 266 steps: conv2's ten last windows need conv1's last pixel, number 256."""
    outcome = run("compare", tiny, "--arrays", 40, "--methods", "none, auto,genetic", "--seeds", 2)
    header, rule, first, *_ = lines = outcome.out.splitlines()
    headings = "arrays method makespan ratio interval used recurrence published seconds best worst remark"
    assert header.split() == headings.split()
    assert set(rule) == {"─"}
    assert first.split()[:2] == ["40", "auto"]
    none = next(line.split() for line in lines if " none " in line)
    assert none[2] == "266"
    assert none[4:6] == ["256", "3"]
    assert any(line.startswith("lower bound  ") for line in lines)
    assert any(line.startswith("seeds ") for line in lines)
    assert "\x1b" not in outcome.out + outcome.err


@pytest.mark.parametrize("arrays", [("--arrays", "40,x2"), ("--arrays", 40, "--arrays", "x2")])
def test_several_budgets(run: Run, tiny: Path, arrays: tuple[object, ...]) -> None:
    """The small network needs 3 arrays: 1 + 2."""
    outcome = run("compare", tiny, *arrays, "--methods", "auto,none", "--format", "json")
    assert [row["arrays"] for row in outcome.json["rows"]] == [40, 40, 6, 6]


def test_skipped_methods_are_told(run: Run) -> None:
    arguments = ("compare", "squeezenet", "--arrays", 250, "--methods", "none,published")
    outcome = run(*arguments, "--format", "json")
    assert [row["method"] for row in outcome.json["rows"]] == ["none"]
    (left,) = outcome.json["skipped"]
    assert (left["arrays"], left["method"]) == (250, "published")
    assert "chains only" in left["reason"]
    assert f"skipped published at 250 arrays: {left['reason']}" in outcome.err
    assert "published" not in run(*arguments, "--quiet").err


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


def test_budgets_must_be_given(run: Run, tiny: Path) -> None:
    assert run("compare", tiny).code == 2


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
    compared = [each for each in every if each.compared and not each.mapping]
    assert len(json.loads(results[0][0])["rows"]) == len(compared)


def test_interrupt_keeps_what_was_ready(start: Start, tmp_path: Path) -> None:
    """Ctrl-C while auto searches for hours: its best so far is printed and written, the rest has a reason."""
    target, figure = tmp_path / "comparison.json", tmp_path / "comparison.svg"
    process = start(
        "compare",
        "densenet121",
        "--arrays",
        8192,
        "--work",
        100_000,
        "-o",
        target,
        "--figure",
        figure,
        "--format",
        "json",
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("1/")
    time.sleep(1)
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


def test_figures_of_optimize_and_simulate(run: Run, tiny: Path, tmp_path: Path) -> None:
    allocation, names = tmp_path / "a.json", ("copies.svg", "meeting.png", "steps.pdf")
    copies, meeting, steps = (tmp_path / name for name in names)
    arguments = ("optimize", tiny, "--arrays", 40, "-o", allocation)
    plain = run(*arguments, "--quiet")
    drawn = run(*arguments, "--quiet", "--figure", copies, "--convergence", meeting)
    assert drawn == plain
    assert run("simulate", tiny, "--allocation", allocation, "--figure", steps).code == 0
    assert copies.read_text().startswith("<svg")
    assert meeting.read_bytes().startswith(b"\x89PNG")
    assert steps.read_bytes().startswith(b"%PDF")
