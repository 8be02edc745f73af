"""`rramalloc report`."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest
from program import Run


@pytest.fixture
def allocation(run: Run, tiny: Path, tmp_path: Path) -> Path:
    path = tmp_path / "a.json"
    assert run("optimize", tiny, "--arrays", 40, "--work", 2, "-o", path, "-q").code == 0
    return path


@pytest.mark.quick
def test_writes_a_page(run: Run, tiny: Path, allocation: Path, tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    ended = run("report", allocation, "--network", tiny, "-o", page, "--title", "A & B", "--date", "today")
    assert ended.code == 0, ended.err
    assert ended.out == ""
    assert "r.html" in ended.err
    text = page.read_text()
    assert "<h1>A &amp; B</h1>" in text
    assert "--title &#x27;A &amp; B&#x27; --date today" in text
    assert run("report", allocation, "-o", page, "-q").err == ""


def test_a_sweep_is_shown_from_its_folder(run: Run, tmp_path: Path) -> None:
    spec, folder, page = tmp_path / "spec.toml", tmp_path / "sweep", tmp_path / "r.html"
    spec.write_text('networks = ["alexnet"]\narrays = ["x1", "x2"]\nmethods = ["uniform", "none"]\n')
    assert run("sweep", spec, "-o", folder, "-q", "--jobs", 1).code == 0
    ended = run("report", folder, "-o", page)
    assert ended.code == 0, ended.err
    assert "Makespan against arrays" in page.read_text()
    with contextlib.closing(sqlite3.connect(folder / "sweep.sqlite")) as database, database:
        database.execute("DELETE FROM rows WHERE key IN (SELECT key FROM rows LIMIT 1)")
    ended = run("report", folder, "-o", tmp_path / "none.html")
    assert ended.code == 1
    assert "to its end first" in ended.err
    assert not (tmp_path / "none.html").exists()


@pytest.mark.parametrize("bad", ["absent.json", "tiny.json"])
def test_what_cannot_be_shown(bad: str, run: Run, tiny: Path, allocation: Path, tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    ended = run("report", allocation, tmp_path / bad, "-o", page)
    assert ended.code == 1
    assert ended.err.startswith("error: ")
    assert bad in ended.err
    assert "Traceback" not in ended.err
    assert not page.exists()
