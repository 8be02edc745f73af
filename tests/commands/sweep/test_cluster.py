"""Sweeps on a real Dask scheduler with real workers, on loopback."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from commands.sweep.conftest import CHEAP_POINTS, DAWDLE
from commands.sweep.test_local import PATIENCE_S, wait_for_rows
from commands.sweep.tiny import content, network, rows_on_disk

import rramalloc
from rramalloc.errors import InfeasibleError, WorkerError

Started = Callable[..., "subprocess.Popen[str]"]
POISON = """
import os
from rramalloc.commands.sweep import compute
if not hasattr(compute, "whole"):  # a preload is run twice
    compute.whole = compute.results_of
compute.results_of = lambda point: compute.whole(point) if point.seed != 13 else os.abort()
"""
OTHER_VERSION = "from rramalloc.commands.sweep import compute; compute.__version__ = '0.0.1'"
FIRST_DEATH = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
"""A batch is lost with the first worker that dies over it, not the fourth: each start takes a second."""
NO_PACKAGE = "import sys; sys.modules['rramalloc.commands.sweep.compute'] = None"


class Cluster(NamedTuple):
    """A scheduler, and how a worker is started for it."""

    address: str
    scheduler: subprocess.Popen[str]
    worker: Callable[..., subprocess.Popen[str]]


@pytest.fixture
def cluster(tmp_path: Path, start: Started) -> Cluster:
    file = tmp_path / "scheduler.json"
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    loopback = ("--host", "127.0.0.1", "--no-dashboard")
    scheduler = start(
        "-m",
        "distributed.cli.dask_scheduler",
        "--port",
        0,
        *loopback,
        "--scheduler-file",
        file,
        **quiet,
        env=os.environ | FIRST_DEATH,
    )
    for _ in range(PATIENCE_S * 20):
        if file.exists() and file.read_text().endswith("}"):
            break
        time.sleep(0.05)
    address = json.loads(file.read_text())["address"]
    counter = iter(range(100))

    def worker(*options: object) -> subprocess.Popen[str]:
        place = tmp_path / f"worker{next(counter)}"
        one = ("--nthreads", 1, *loopback, "--local-directory", place)
        return start("-m", "distributed.cli.dask_worker", address, *one, *options, **quiet)

    return Cluster(address, scheduler, worker)


def test_killed_worker_killed_driver_and_lost_scheduler(
    cluster: Cluster, cheap: Path, undisturbed: dict[str, bytes], tmp_path: Path, sweeping: Started
) -> None:
    """A worker that joins later takes part; what a lost cluster leaves ends as a local run."""
    slow = ("--no-nanny", "--preload", DAWDLE)
    workers = [cluster.worker(*slow), cluster.worker(*slow)]
    folder = tmp_path / "rows"
    first = sweeping(cheap, "-o", folder, "--scheduler", cluster.address)
    assert wait_for_rows(folder, 20, first)
    workers[0].send_signal(signal.SIGKILL)
    assert wait_for_rows(folder, 60, first)
    first.send_signal(signal.SIGKILL)
    first.wait()
    kept = rows_on_disk(folder)
    workers[1].send_signal(signal.SIGKILL)
    cluster.worker(*slow)
    second = sweeping(cheap, "-o", folder, "--scheduler", cluster.address)
    assert wait_for_rows(folder, kept + 30, second)
    cluster.scheduler.send_signal(signal.SIGKILL)
    out, err = second.communicate(timeout=PATIENCE_S)
    assert (second.returncode, out) == (1, "")
    assert "error: lost the Dask scheduler" in err
    assert "the same command goes on from there" in err
    assert "Traceback" not in err
    kept = rows_on_disk(folder)
    assert rramalloc.sweep(cheap, folder, jobs=1).computed == CHEAP_POINTS - kept > 0
    assert content(folder) == undisturbed


def few(folder: Path, seeds: int = 20) -> dict[str, Any]:
    (folder / "tiny.json").write_text(network())
    path = str(folder / "tiny.json")
    return {"networks": path, "arrays": 5, "methods": "none", "seeds": list(range(seeds))}


def test_a_point_that_kills_every_worker_is_a_row(cluster: Cluster, tmp_path: Path) -> None:
    """The same row as on this machine."""
    (tmp_path / "poison.py").write_text(POISON)
    cluster.worker("--nworkers", 2, "--preload", tmp_path / "poison.py")
    result = rramalloc.sweep(few(tmp_path), tmp_path / "rows", scheduler=cluster.address)
    assert [row["seed"] for row in result.rows() if row["error"]] == [13]
    assert result.reasons() == [
        "WorkerError: every worker that tried this point died: was its memory enough?"
    ]


@pytest.mark.parametrize(
    "command", ["sweep spec.toml -o rows", "size tiny.json --target 64 --minimise arrays"]
)
def test_a_scheduler_without_workers_is_named_with_what_starts_one(
    command: str, cluster: Cluster, tmp_path: Path, start: Started
) -> None:
    """Said though it is to be quiet, once; the command that it names starts the worker that does the rest."""
    few(tmp_path)
    (tmp_path / "spec.toml").write_text('networks = "tiny.json"\narrays = [5]\n')
    words = [*command.split(), "--scheduler", cluster.address, "-q"]
    run = start("-m", "rramalloc", *words, cwd=tmp_path)
    assert run.stderr is not None
    told = run.stderr.readline()
    assert told.startswith(f"warning: the Dask scheduler at {cluster.address} has no worker yet")
    starting = shlex.split(told.partition(": start one with ")[2])
    assert starting[0] == sys.executable
    start(*starting[1:], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    out, err = run.communicate(timeout=PATIENCE_S)
    assert (run.returncode, err) == (0, "")
    assert "tiny" in out


def test_time_limit_without_workers(cluster: Cluster, tmp_path: Path) -> None:
    few(tmp_path)
    with pytest.warns(UserWarning, match="has no worker"), pytest.raises(InfeasibleError):
        rramalloc.size(
            {"networks": [{"network": str(tmp_path / "tiny.json"), "target": 64}], "minimise": "arrays"},
            scheduler=cluster.address,
            time_limit_s=1,
        )


@pytest.mark.parametrize(
    ("preload", "told"),
    [
        (OTHER_VERSION, r"has rramalloc 0\.0\.1, the driver.*install the same"),
        (NO_PACKAGE, r"cannot run the sweep.*install the same.*halted"),
    ],
)
def test_workers_with_another_package(preload: str, told: str, cluster: Cluster, tmp_path: Path) -> None:
    """Refused in words that name it among others, and the cluster keeps its worker."""
    address = f"tcp://127.0.0.1:{free_port()}"
    worker = cluster.worker("--no-nanny", "--preload", preload, "--worker-port", address.rpartition(":")[2])
    cluster.worker("--no-nanny")
    with pytest.raises(WorkerError, match=told) as caught:
        rramalloc.sweep(few(tmp_path, 2000), tmp_path / "rows", scheduler=cluster.address)
    assert re.findall(r"tcp://[\d.]+:\d+", str(caught.value)) == [address]
    assert worker.poll() is None


def free_port() -> int:
    """Return the number of a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "carrier://pigeon:1"])
def test_no_scheduler(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rramalloc.commands.sweep.workers._CONNECT_S", 1)
    with pytest.raises(WorkerError, match="no Dask scheduler answers"):
        rramalloc.sweep(few(tmp_path), tmp_path / "rows", scheduler=address)
