"""First commands of two checkouts with nothing compiled yet, run in turn: processor and wall-clock time.

python results/first_command.py ../older . optimize vgg16 --arrays 1024

The first checkout is what the second is measured against; the network is a name, as a file may differ.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 5


def first_s(checkout: str, command: list[str]) -> tuple[float, float]:
    """Return seconds of processor and wall-clock time of a command whose cache of compiled code is empty."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"PYTHONPATH": str(Path(checkout).resolve()), "NUMBA_CACHE_DIR": cache}
        before, begun_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        program = [sys.executable, "-m", "rramalloc", *command]
        subprocess.run(program, check=True, capture_output=True, env=environment, cwd=cache)
        took_s, after = time.perf_counter() - begun_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, took_s


def main(checkouts: list[str], command: list[str]) -> None:
    """Measure both checkouts RUNS times and print the medians."""
    spent: dict[str, list[tuple[float, float]]] = {checkout: [] for checkout in checkouts}
    for _ in range(RUNS):
        for checkout in checkouts:  # in turn, so that a busy machine slows both
            spent[checkout].append(first_s(checkout, command))
    medians = {
        checkout: [statistics.median(kind) for kind in zip(*each, strict=True)]
        for checkout, each in spent.items()
    }
    for checkout, (processor_s, wall_s) in medians.items():
        print(f"{checkout}: {processor_s:.1f} s of processor time, {wall_s:.1f} s")
    older, newer = medians.values()
    print(
        "times that of the first:",
        *(f"{after / before:.2f}" for before, after in zip(older, newer, strict=True)),
    )


if __name__ == "__main__":
    main(sys.argv[1:3], sys.argv[3:])
