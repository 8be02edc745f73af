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
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import dask
import pytest
from commands.sweep.conftest import CHEAP_POINTS, DAWDLE
from commands.sweep.test_local import PATIENCE_S, wait_for_rows, wait_until
from commands.sweep.tiny import content, network, rows_on_disk
from distributed import LocalCluster

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
FIRST_DEATH = 0
"""Failures that are allowed: a batch is lost with the first worker that dies, not the fourth."""
NO_PACKAGE = "import sys; sys.modules['rramalloc.commands.sweep.compute'] = None"
OTHER_PACKAGES = (
    (OTHER_VERSION, r"has rramalloc 0\.0\.1, the driver.*install the same"),
    (NO_PACKAGE, r"cannot run the sweep.*install the same.*halted"),
)


class Cluster(NamedTuple):
    """A scheduler, and how a worker is started for it."""

    address: str
    worker: Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="module")
def scheduler() -> Iterator[LocalCluster]:
    """A scheduler in this process, which takes no start of another one."""
    with dask.config.set({"distributed.scheduler.allowed-failures": FIRST_DEATH}):
        here = {"protocol": "tcp", "host": "127.0.0.1", "processes": False, "dashboard_address": None}
        with LocalCluster(n_workers=0, threads_per_worker=1, **here) as scheduler:
            yield scheduler


def starter(address: str, folder: Path, start: Started) -> Callable[..., subprocess.Popen[str]]:
    """Return what starts a worker for the scheduler with this address."""
    counter = iter(range(100))

    def worker(*options: object) -> subprocess.Popen[str]:
        one = ("--nthreads", 1, "--host", "127.0.0.1", "--no-dashboard")
        place = ("--local-directory", folder / f"worker{next(counter)}")
        words = ("-m", "distributed.cli.dask_worker", address, *one, *place, *options)
        return start(*words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)

    return worker


@pytest.fixture
def cluster(scheduler: LocalCluster, tmp_path: Path, start: Started) -> Cluster:
    """The scheduler without workers, which are started for a test and end with it."""
    wait_until(lambda: not scheduler.scheduler.workers)
    return Cluster(scheduler.scheduler_address, starter(scheduler.scheduler_address, tmp_path, start))


def test_killed_worker_and_lost_scheduler(
    cheap: Path, undisturbed: dict[str, bytes], tmp_path: Path, start: Started, sweeping: Started
) -> None:
    """A worker that joins later takes part; what a lost cluster leaves ends as a local run."""
    file = tmp_path / "scheduler.json"
    words = ("--port", 0, "--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", file)
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    allowed = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(FIRST_DEATH)}
    scheduler = start("-m", "distributed.cli.dask_scheduler", *words, **quiet, env=os.environ | allowed)
    wait_until(lambda: file.exists() and file.read_text().endswith("}"))
    address = json.loads(file.read_text())["address"]
    worker, slow = starter(address, tmp_path, start), ("--no-nanny", "--preload", DAWDLE)
    first, folder = worker(*slow), tmp_path / "rows"
    driver = sweeping(cheap, "-o", folder, "--scheduler", address)
    assert wait_for_rows(folder, 20, driver)
    first.send_signal(signal.SIGKILL)
    first.wait()
    kept = rows_on_disk(folder)
    worker(*slow)
    assert wait_for_rows(folder, kept + 30, driver)
    scheduler.send_signal(signal.SIGKILL)
    out, err = driver.communicate(timeout=PATIENCE_S)
    assert (driver.returncode, out) == (1, "")
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


def test_a_scheduler_without_workers_is_named_with_what_starts_one(
    cluster: Cluster, tmp_path: Path, start: Started
) -> None:
    """Said though it is to be quiet, once; the command that it names starts the worker that does the rest."""
    few(tmp_path)
    words = ("size", "tiny.json", "--target", 64, "--minimise", "arrays", "--scheduler", cluster.address)
    run = start("-m", "rramalloc", *words, "-q", cwd=tmp_path)
    assert run.stderr is not None
    patience = threading.Timer(PATIENCE_S, run.kill)  # else a run that says nothing is waited for
    patience.start()
    told = run.stderr.readline()
    patience.cancel()
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


def test_workers_with_another_package(scheduler: LocalCluster, cluster: Cluster, tmp_path: Path) -> None:
    """Refused in words that name it among others, and the cluster keeps its worker."""
    scheduler.scale(1)  # a thread of this process: a worker with the same package
    for number, (preload, told) in enumerate(OTHER_PACKAGES):
        port = free_port()
        worker = cluster.worker("--no-nanny", "--preload", preload, "--worker-port", port)
        scheduler.wait_for_workers(2, timeout=PATIENCE_S)
        with pytest.raises(WorkerError, match=told) as caught:
            rramalloc.sweep(few(tmp_path, 2000), tmp_path / f"rows{number}", scheduler=cluster.address)
        assert re.findall(r"tcp://[\d.]+:\d+", str(caught.value)) == [f"tcp://127.0.0.1:{port}"]
        assert worker.poll() is None
        worker.kill()
        worker.wait()
    scheduler.scale(0)


def free_port() -> int:
    """Return the number of a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "carrier://pigeon:1"])
def test_no_scheduler(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rramalloc.commands.sweep.workers._CONNECT_S", 1)
    with pytest.raises(WorkerError, match="no Dask scheduler answers"):
        rramalloc.sweep(few(tmp_path), tmp_path / "rows", scheduler=address)
