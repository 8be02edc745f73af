"""`rramalloc tune`: what it prints and writes, how it ends, and that nothing is lost however it ends."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from commands.tune.toys import SUM, script
from program import Run

SLOW = SUM + "\nimport time\ntime.sleep(0.05)\n"


def options(folder: Path, text: str = SUM, store: str = "answers.sqlite") -> tuple[object, ...]:
    simulator = ("--simulator", script(folder, text), "--store", folder / store)
    return ("--arrays", 24, *simulator, "--evaluations", 12)


def answers(store: Path) -> int:
    """Answers that are on the disk; 0 before the file is there."""
    try:
        with sqlite3.connect(store.resolve().as_uri() + "?mode=ro", uri=True) as database:
            (count,) = database.execute("SELECT count(*) FROM rows").fetchone()
    except sqlite3.OperationalError:
        return 0
    return int(count)


def test_the_best_is_written_and_printed(run: Run, tiny: Path, tmp_path: Path) -> None:
    best = tmp_path / "best.json"
    outcome = run("tune", tiny, *options(tmp_path), "-o", best, "--format", "json")
    assert outcome.code == 0
    document = outcome.json
    allocation = json.loads(best.read_text())
    assert document["allocation"] == allocation
    figure = sum(layer["batches"] * (place + 1) for place, layer in enumerate(allocation["layers"]))
    assert document["figure"] == figure <= document["before"]
    assert document["evaluations"] == 12
    assert answers(tmp_path / "answers.sqlite") == 12


def test_answers_are_kept_beside_the_output(
    run: Run, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that the user names lies where it is named, and one without an output in this folder."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    command = ("tune", tiny, "--arrays", 24, "--simulator", script(tmp_path, SUM), "--evaluations", 1)
    for more, store in (
        (("-o", there / "best.json"), there / "tune.sqlite"),
        (("-o", "best.json"), here / "tune.sqlite"),
        ((), here / "tune.sqlite"),
        (("-o", "/dev/stdout"), here / "tune.sqlite"),
        (("-o", there / "best.json", "--store", "own.sqlite"), here / "own.sqlite"),
    ):
        outcome = run(*command, *more)
        assert outcome.code == 0
        assert answers(store) == 1
        for made in tmp_path.glob("*/*.sqlite*"):
            made.unlink()
    refused = run(*command, "-o", "tune.sqlite")
    assert (refused.code, list(here.glob("*.sqlite"))) == (1, [])
    assert "tune.sqlite: is named by -o and by --store" in refused.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--arrays", "24", "--simulator", "echo 1"), 1, "{allocation}"),
        (("--arrays", "1", "--simulator", "echo {allocation}"), 1, "needs"),
        (("--arrays", "24", "--simulator", "echo {allocation}"), 1, "no number"),
        (("--arrays", "24", "--simulator", "a {allocation}", "--jobs", "0"), 1, "jobs"),
        (("--arrays", "24"), 2, "--simulator"),
    ],
)
def test_what_cannot_be_served(
    run: Run,
    tiny: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    code: int,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RRAMALLOC_PIMSYN", raising=False)
    outcome = run("tune", tiny, *arguments)
    assert outcome.code == code
    assert words in outcome.err
    assert "Traceback" not in outcome.err


Start = Callable[..., "subprocess.Popen[str]"]


def test_killed_and_resumed(run: Run, start: Start, tiny: Path, tmp_path: Path) -> None:
    """Answers that were there at a SIGKILL are used, and the result is that of a quiet run."""
    whole = run("tune", tiny, *options(tmp_path), "--format", "json", "-q").out
    slow = options(tmp_path, SLOW, "killed.sqlite")
    store = tmp_path / "killed.sqlite"
    killed = start("tune", tiny, *slow, "--format", "json", "-q")
    while (there := answers(store)) < 3:
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert there <= answers(store) < 12
    resumed = run("tune", tiny, *slow, "--format", "json", "-q")
    assert (resumed.code, resumed.err) == (0, "")
    assert resumed.json["judged"] == json.loads(whole)["judged"]
    assert answers(store) == 12


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_an_interruption_writes_the_best_so_far(start: Start, tiny: Path, tmp_path: Path) -> None:
    store, best = tmp_path / "answers.sqlite", tmp_path / "best.json"
    hangs = SUM + f"\nimport os, time\nos.path.exists({str(tmp_path / 'hang')!r}) and time.sleep(1000)\n"
    process = start("tune", tiny, *options(tmp_path, hangs)[:-1], 1000, "-o", best, "--format", "json")
    while answers(store) < 3:
        time.sleep(0.01)
    (tmp_path / "hang").touch()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130
    assert "interrupted: this is the best found so far" in err
    assert json.loads(best.read_text()) == json.loads(out)["allocation"]
