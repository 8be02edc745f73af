"""A worker process of a local sweep: reads batches from stdin, one JSON line each, answers on stdout."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time

from rramalloc.studies.sweep.batch import run_batch

_LOOK_EVERY_S = 0.5
_PR_SET_PDEATHSIG = 1


def main(parent: int) -> None:
    """Work until stdin ends. parent: process id of the driver, whose death ends this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's business
    _die_with(parent)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a solver prints is no answer
    import rramalloc.studies.sweep.compute  # noqa: F401 - before the first batch is timed

    with contextlib.suppress(BrokenPipeError):
        answers.write(b"{}\n")
        answers.flush()
        for line in sys.stdin.buffer:
            answers.write(json.dumps(run_batch(json.loads(line)), separators=(",", ":")).encode() + b"\n")
            answers.flush()


def _die_with(parent: int) -> None:
    """End with the driver even in the middle of a long point: at once on Linux, soon elsewhere."""
    with contextlib.suppress(OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_EVERY_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
