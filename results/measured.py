"""A run of a benchmark in a process of its own, so that its time and memory are its own.

`python results/measured.py SCRIPT FUNCTION CASE` calls FUNCTION of results/SCRIPT.py with the arguments of
CASE, a JSON object, and prints what it returns as one line of JSON.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

_SAMPLE_S = 0.1


def in_own_process(
    function: Callable[..., Mapping[str, Any]],
    case: Mapping[str, Any],
    limit_s: float,
    *,
    has_solver: bool = False,
) -> dict[str, Any]:
    """Return what a function of a script returns for a case, called in a process of its own.

    has_solver: it starts a solver whose memory is added to `peak_mb`.
    Raises RuntimeError if the process fails, TimeoutError if it takes more than `limit_s`.
    """
    command = [sys.executable, __file__, function.__module__, function.__name__, json.dumps(case)]
    deadline, solver_mb = time.monotonic() + limit_s, 0.0
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # as Ctrl-C: no run is left behind
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        while True:
            try:
                printed, _ = process.communicate(timeout=_SAMPLE_S if has_solver else limit_s)
                break
            except subprocess.TimeoutExpired:
                solver_mb = max(solver_mb, started_by_mb(process.pid) if has_solver else 0.0)
                if time.monotonic() >= deadline:
                    os.killpg(process.pid, signal.SIGKILL)
                    raise TimeoutError(f"{case} took more than {limit_s:g} s") from None
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
    if process.returncode != 0:
        raise RuntimeError(f"{case} ended with exit code {process.returncode}")
    result: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return result | {"peak_mb": round(result["peak_mb"] + solver_mb, 1)}


def peak_mb() -> float:
    """Most memory that this process has held so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def started_by_mb(process: int) -> float:
    """Memory that the processes started by a process hold now."""
    import psutil

    total = 0
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(process).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                total += child.memory_info().rss
    return total / 2**20


if __name__ == "__main__":
    script, name, given = sys.argv[1:]
    print(json.dumps(getattr(importlib.import_module(script), name)(**json.loads(given))))
