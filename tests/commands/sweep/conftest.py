"""Sweeps of a tiny network, undisturbed or as processes that can be killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from commands.sweep.tiny import content, network

import rramalloc
from rramalloc.commands.sweep.compute import results_of
from rramalloc.commands.sweep.rows import ComputedColumns
from rramalloc.commands.sweep.spec import SweepPoint
from rramalloc.commands.sweep.workers import Workers

CHEAP_POINTS = 300
IN_WORKERS = """
import os, sys
if "spawn_main" in " ".join(sys.orig_argv):
    from rramalloc.commands.sweep import compute
    whole = compute.results_of
"""
"""Head of a module that Python imports at its start, for what only workers do."""
DAWDLE = """
import time
from rramalloc.commands.sweep import compute
if not hasattr(compute, "quick"):
    compute.quick = compute.results_of
compute.results_of = lambda point: time.sleep(0.01) or compute.quick(point)
"""
"""Has a worker take its time over every point, so that there is time to kill it."""


class InThisProcess(Workers):
    """Computes a point when it is submitted, which saves the start of a worker where none is asked about."""

    deaths, death, name = 1, InterruptedError, "this process"

    def __init__(self, jobs: int) -> None:
        """Take any number of jobs: there is one process."""

    def width(self) -> int:
        return 1

    def submit(self, point: SweepPoint) -> Future[ComputedColumns]:
        future: Future[ComputedColumns] = Future()
        future.set_result(results_of(point))
        return future

    def close(self) -> None:
        pass


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rramalloc.commands.sweep.sweep.LocalWorkers", InThisProcess)


def python_path(folder: Path, code: str) -> str:
    """A search path with which every Python process that starts runs some code."""
    (folder / "start").mkdir(exist_ok=True)
    (folder / "start" / "sitecustomize.py").write_text(code)
    return str(folder / "start")


@pytest.fixture(scope="session")
def cheap(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A spec of CHEAP_POINTS points that take well under a millisecond each."""
    folder = tmp_path_factory.mktemp("cheap")
    (folder / "tiny.json").write_text(network())
    spec = f'networks = "tiny.json"\narrays = {list(range(3, 33))}\nseeds = {list(range(5))}\n'
    (folder / "spec.toml").write_text(spec + 'methods = ["none", "interval"]\n')
    return folder / "spec.toml"


@pytest.fixture(scope="session")
def undisturbed(cheap: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What a run of that spec leaves that nobody interrupts."""
    folder = tmp_path_factory.mktemp("undisturbed") / "rows"
    result = rramalloc.sweep(cheap, folder, jobs=1)
    assert (result.points, result.computed, result.failed) == (CHEAP_POINTS, CHEAP_POINTS, 0)
    return content(folder)


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a Python program as a process of its own group; what is there at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def call(*arguments: object, **settings: Any) -> subprocess.Popen[str]:
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        command = [sys.executable, *map(str, arguments)]
        started.append(subprocess.Popen(command, **(pipes | settings), start_new_session=True))
        return started[-1]

    yield call
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    for process in started:
        process.communicate()


@pytest.fixture
def sweeping(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> Callable[..., subprocess.Popen[str]]:
    """Start `rramalloc sweep` as a process whose workers take their time."""
    slow = os.environ | {"PYTHONPATH": python_path(tmp_path, DAWDLE)}

    def call(*arguments: object) -> subprocess.Popen[str]:
        return start("-m", "rramalloc", "sweep", *arguments, env=slow)

    return call
