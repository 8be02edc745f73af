"""`rramalloc latency`, and `--latency-table` of `optimize` and `simulate`."""

from __future__ import annotations

import csv
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
Start = Callable[..., subprocess.Popen[str]]
SIMULATED = ("--device", "simulated")


@pytest.fixture
def table(run: Run, tiny: Path, tmp_path: Path) -> Path:
    path = tmp_path / "table.json"
    outcome = run("latency", "measure", tiny, *SIMULATED, "-o", path, "-q")
    assert outcome.code == 0, outcome.err
    return path


def test_measure_prints_table_and_overhead(run: Run, tiny: Path, tmp_path: Path) -> None:
    outcome = run("latency", "measure", tiny, *SIMULATED, "-o", tmp_path / "t.csv", "--date", "2026-03-01")
    lines = outcome.out.splitlines()
    assert lines[0].split()[:4] == ["operator", "shape", "parameters", "latency"]
    assert [line.split()[0] for line in lines[2:7]] == ["conv", "maxpool", "conv", "linear", "network"]
    for label in ("device", "method", "date", "a", "b", "c", "R^2"):
        assert any(line.startswith(f"{label} ") for line in lines)
    assert "ns per byte in" in outcome.out
    assert "executions timed now" in outcome.err
    rows = list(csv.DictReader((tmp_path / "t.csv").open()))
    assert {row["date"] for row in rows} == {"2026-03-01"}
    assert {row["method"] for row in rows} == {"regression"}


def test_measure_again_measures_nothing_and_gives_the_same_bytes(run: Run, tiny: Path, table: Path) -> None:
    before = table.read_bytes()
    outcome = run("latency", "measure", tiny, *SIMULATED, "-o", table)
    assert outcome.err.startswith("0 executions timed now")
    assert table.read_bytes() == before
    assert b"date" not in before


def test_optimize_and_simulate_by_a_table(run: Run, tiny: Path, table: Path, tmp_path: Path) -> None:
    rows = {(r["operator"], r["shape"][0]): r["latency_ns"] for r in json.loads(table.read_text())["rows"]}
    step_ns = max(rows["conv", 3] / 256, rows["conv", 16] / 64)  # windows: 16 x 16 and 8 x 8
    output = tmp_path / "a.json"
    outcome = run("optimize", tiny, "--arrays", 40, "--latency-table", table, "-o", output)
    assert "measured" in outcome.out
    document = json.loads(output.read_text())
    assert document["step_ns"] == pytest.approx(step_ns)
    assert document["latency_ns"] == pytest.approx(step_ns * document["makespan"])
    assert set(document["options"]["latency_table"]["compute_ns"]) == {"conv1", "conv2"}
    assert (
        run("simulate", tiny, "--allocation", output, "--format", "json").json["step_ns"]
        == document["step_ns"]
    )
    bare = tmp_path / "bare.json"
    bare.write_text('{"copies": {}}')
    assert run("simulate", tiny, "--allocation", bare, "--format", "json").json["step_ns"] is None
    timed = run("simulate", tiny, "--allocation", bare, "--latency-table", table, "--format", "json").json
    assert timed["step_ns"] == document["step_ns"]


def test_layers_that_the_table_lacks(run: Run, tiny: Path, table: Path) -> None:
    document = json.loads(table.read_text())
    document["rows"] = [row for row in document["rows"] if row["shape"][0] != 16]
    table.write_text(json.dumps(document))
    outcome = run("optimize", tiny, "--arrays", 40, "--latency-table", table)
    assert outcome.code == 1
    assert "lacks 1 layers" in outcome.err
    assert "conv2: conv 16x8x8" in outcome.err
    outcome = run("optimize", tiny, "--arrays", 40, "--latency-table", table, "--hardware", "isaac")
    assert outcome.code == 0
    assert "warning: conv2: not in the latency table" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--device", "toaster"), "toaster: is not known"),
        (("--device", "replay:none.csv"), "no such file"),
        (("--device", "simulated", "--most", "5"), "least: 20 executions"),
    ],
)
def test_what_cannot_be_served(run: Run, tiny: Path, tmp_path: Path, arguments: Any, words: str) -> None:
    output = tmp_path / "t.json"
    outcome = run("latency", "measure", tiny, "-o", output, *arguments)
    assert outcome.code == 1
    assert words in outcome.err
    assert "Traceback" not in outcome.err
    assert not output.exists()


def test_kill_and_resume_lose_nothing(start: Start, run: Run, tiny: Path, tmp_path: Path) -> None:
    """Killed while it measures, the samples only grow, and end as if nothing had happened."""
    effort = ("--width", "0.001", "--least", "250", "--most", "250", "-q")
    whole, killed = tmp_path / "whole.json", tmp_path / "killed.json"
    assert run("latency", "measure", tiny, *SIMULATED, "-o", whole, *effort).code == 0
    samples, enough = Path(f"{killed}.samples.jsonl"), Path(f"{whole}.samples.jsonl").stat().st_size // 4
    process = start("latency", "measure", tiny, *SIMULATED, "-o", killed, *effort)
    while process.poll() is None and (not samples.exists() or samples.stat().st_size < enough):
        time.sleep(0.005)
    process.kill()
    process.communicate()
    kept = samples.read_bytes()
    assert not killed.exists()
    assert run("latency", "measure", tiny, *SIMULATED, "-o", killed, *effort).code == 0
    assert samples.read_bytes().startswith(kept[: kept.rfind(b"\n") + 1])
    assert killed.read_bytes() == whole.read_bytes()
