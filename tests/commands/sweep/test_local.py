"""Sweeps on this machine: drivers and workers are killed, and the rows are those of a quiet run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from commands.sweep.conftest import CHEAP_POINTS, IN_WORKERS, python_path
from commands.sweep.tiny import content, network, rows_on_disk

import rramalloc
from rramalloc.commands.sweep.sweep import SweepResult

Starting = Callable[..., "subprocess.Popen[str]"]
PATIENCE_S = 120
PRECISION = 'precision = {weight_bits = 2, input_bits = 1, output_bits = 16, signed = "offset"}\n'
MEASURED = """
import re, sys
import rramalloc
def peak_kb():
    status = open("/proc/self/status").read()  # getrusage counts what the process was forked from
    return re.search(r"VmHWM:\\s*([0-9]+) kB", status)[1]
rramalloc.sweep(sys.argv[1], sys.argv[2] + "_few", jobs=1)
few = peak_kb()
result = rramalloc.sweep(sys.argv[2], sys.argv[2] + "_many", jobs=1)
print(result.computed, few, peak_kb(), "numba" in sys.modules)
"""


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    for _ in range(PATIENCE_S * 20):
        if is_so():
            return
        time.sleep(0.05)
    raise AssertionError(f"it is not so after {PATIENCE_S} s")


def wait_for_rows(folder: Path, rows: int, process: subprocess.Popen[str]) -> bool:
    """Wait until so many rows are on the disk, or the process has ended; whether it runs on."""
    wait_until(lambda: process.poll() is not None or rows_on_disk(folder) >= rows)
    return process.poll() is None


def workers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(process.pid).children()
    return []


def test_killed_worker_killed_driver_and_ctrl_c(
    cheap: Path, undisturbed: dict[str, bytes], tmp_path: Path, sweeping: Starting
) -> None:
    """Workers end with their driver, and any number of processes comes to the same rows."""
    folder = tmp_path / "rows"
    first = sweeping(cheap, "-o", folder, "--jobs", 2)
    assert wait_for_rows(folder, 20, first)
    workers_of(first)[0].send_signal(signal.SIGKILL)
    assert wait_for_rows(folder, 60, first)
    workers = workers_of(first)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert not psutil.wait_procs(workers, timeout=PATIENCE_S)[1]
    kept = rows_on_disk(folder)
    second = sweeping(cheap, "-o", folder)
    assert wait_for_rows(folder, kept + 30, second)
    os.killpg(second.pid, signal.SIGINT)  # as a terminal does it: the signal goes to the workers as well
    out, err = second.communicate(timeout=PATIENCE_S)
    assert (second.returncode, out) == (130, ""), err
    assert "Traceback" not in err
    assert "the same command goes on from there" in err
    assert kept + 30 <= rows_on_disk(folder) < CHEAP_POINTS
    rest = rramalloc.sweep(cheap, folder, jobs=1)
    assert 0 < rest.computed <= CHEAP_POINTS - kept - 30
    assert content(folder) == undisturbed
    assert set(undisturbed) == {".lock", "sweep.sqlite", "rows.csv"}
    assert rramalloc.sweep(cheap, folder).computed == 0


def small_sweep(folder: Path) -> SweepResult:
    (folder / "tiny.json").write_text(network())
    spec = {"networks": str(folder / "tiny.json"), "arrays": 5, "methods": "none", "seeds": list(range(20))}
    return rramalloc.sweep(spec, folder / "rows", jobs=1)


def test_a_point_that_kills_its_worker_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every time it is tried; the points under way with it are none the worse for it."""
    poison = "    compute.results_of = lambda p: whole(p) if p.seed != 13 else compute.os.abort()\n"
    monkeypatch.setenv(
        "PYTHONPATH", python_path(tmp_path, IN_WORKERS + "    import os\n    compute.os = os\n" + poison)
    )
    result = small_sweep(tmp_path)
    assert [row["seed"] for row in result.rows()] == list(range(20))
    assert [row["seed"] for row in result.rows() if row["error"]] == [13]
    assert result.reasons() == [
        "WorkerError: every worker that tried this point died: was its memory enough?"
    ]


@pytest.mark.usefixtures("in_this_process")
def test_a_row_is_computed_once_whatever_sweep_it_is_of(tmp_path: Path) -> None:
    """A sweep with more points, in another order, and then the one with fewer again."""
    assert small_sweep(tmp_path).computed == 20
    before = content(tmp_path / "rows")
    path = str(tmp_path / "tiny.json")
    larger = {
        "networks": path,
        "arrays": [9, 5],
        "methods": ["interval", "none"],
        "seeds": [*range(24, -1, -1)],
    }
    result = rramalloc.sweep(larger, tmp_path / "rows", jobs=1)
    assert (result.points, result.computed) == (100, 80)
    rramalloc.sweep(larger, tmp_path / "fresh", jobs=1)
    assert content(tmp_path / "rows") == content(tmp_path / "fresh")
    assert small_sweep(tmp_path).computed == 0
    assert content(tmp_path / "rows") == before


@pytest.mark.usefixtures("in_this_process")
def test_points_that_differ_in_nothing_share_a_row(tmp_path: Path) -> None:
    """Two files whose hardware is the same once cell_bits is replaced."""
    for bits in (1, 2):
        crossbar = f"crossbar = {{wordlines = 64, bitlines = 64, cell_bits = {bits}}}\n"
        (tmp_path / f"{bits}.toml").write_text(f'name = "m"\nsource = "test"\n{crossbar}{PRECISION}')
    (tmp_path / "tiny.json").write_text(network())
    files = [str(tmp_path / "1.toml"), str(tmp_path / "2.toml")]
    spec = {"networks": str(tmp_path / "tiny.json"), "arrays": "x2", "hardware": files, "cell_bits": [1, 2]}
    result = rramalloc.sweep(spec, tmp_path / "rows", jobs=1)
    rows = list(result.rows())
    assert (result.points, len(rows), rows[0], rows[1]) == (4, 4, rows[2], rows[3])
    assert rramalloc.sweep(spec, tmp_path / "rows", jobs=1).computed == 0


def test_memory_of_the_driver(tmp_path: Path, start: Starting) -> None:
    """It holds neither the grid nor the rows: 1,600 points take hardly more than 200, both far below 300 MB.

    Rows that are kept take 3 kB each.
    """
    (tmp_path / "tiny.json").write_text(network())
    for name, seeds in (("few.toml", 100), ("many.toml", 800)):
        spec = f'networks = "tiny.json"\narrays = [3, 4]\nseeds = {list(range(seeds))}\nmethods = "none"\n'
        (tmp_path / name).write_text(spec)
    process = start("-c", MEASURED, tmp_path / "few.toml", tmp_path / "many.toml")
    out, _ = process.communicate(timeout=PATIENCE_S)
    computed, few_kb, many_kb, compiles = out.split()
    assert (computed, compiles) == ("1600", "False")
    assert int(many_kb) < 300_000
    assert int(many_kb) - int(few_kb) < 3_000
