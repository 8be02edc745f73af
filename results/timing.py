"""Speed of the exact simulation and of the command line.

Writes results/timing.md:  python results/timing.py
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from rramalloc.api import optimize
from rramalloc.importers import load
from rramalloc.mapping.modes import breakpoints
from rramalloc.timing.simulate import makespan_of_each, simulate
from rramalloc.timing.stage_graph import StageGraph

RUNS = 9
START = """\
The first run of a fresh installation compiles; a busy machine makes these two rows longer. What
shortens later runs: compiled code is loaded without numba's registries (and `scipy.linalg`, which they
import), which only compiling needs: 2.0 s of processor time before and 1.5 after, side by side, when the
machine was about 1.4 times as slow as at other times. What did not: importing only what the command needs,
and building the schemas of records later. Half of what is left is importing numba, NumPy and pydantic. numba
compiles under one lock for the whole process: two threads do not shorten the first run. What shortened it
by 30 %, side by side: optimising searches at the lowest level, working memory that Python makes in place of
compiled code, and fewer functions that are finished on their own and again in their callers. By another
fifth: no garbage collection while the compiler runs, and two passes of LLVM in place of three.
A third of what LLVM takes was SROA then, which takes apart what functions are called with, tuples of arrays.
By another fifth (`results/first_command.py`): functions that only compiled code calls have no machine code of
their own, what is inlined is not copied, the operations on numbers are looked up once, and branch and bound
runs before the first linear program."""
RESULT = Path(__file__).resolve().parent / "timing.md"


def median_s(action: Callable[[], object]) -> float:
    """Median wall-clock seconds of RUNS runs after one that is not counted."""
    action()
    seconds = []
    for _ in range(RUNS):
        begun = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)


def near_best(graph: StageGraph, arrays: int, count: int) -> np.ndarray:
    """Allocations near the best one for a budget: every stage moved by up to two breakpoints."""
    best = optimize("vgg16", arrays, work=10).copies
    draw = np.random.default_rng(0)
    rows = []
    for name, windows in zip(graph.names, graph.windows.tolist(), strict=True):
        useful = breakpoints(windows, windows)
        at = int(np.searchsorted(useful, best[name], side="right")) - 1
        rows.append(useful[np.clip(at + draw.integers(-2, 3, count), 0, len(useful) - 1)])
    return np.array(rows).T.copy()


def command_s(*arguments: str) -> float:
    """Median wall-clock seconds of a command from its start to its end."""
    command = [str(Path(sys.executable).with_name("rramalloc")), *arguments]
    return median_s(lambda: subprocess.run(command, check=True, capture_output=True))


def start_s() -> tuple[float, float]:
    """Seconds of processor time of the README's first command: in a fresh installation, and later."""
    command = [str(Path(sys.executable).with_name("rramalloc")), "optimize", "vgg16.json", "--arrays", "1024"]
    spent = []
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(1 + RUNS):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            environment = os.environ | {"NUMBA_CACHE_DIR": cache}
            subprocess.run(command, check=True, capture_output=True, env=environment)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return spent[0], statistics.median(spent[1:])


def first_answer_s() -> float:
    """Median seconds from the start of the command to its first line with a best makespan."""

    def until_first_line() -> None:
        command = [str(Path(sys.executable).with_name("rramalloc")), "optimize", "vgg16", "--arrays", "4096"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line.startswith(b"best "), line
            process.kill()

    return median_s(until_first_line)


def main() -> None:
    """Measure and write the page."""
    graph = StageGraph.build(load("vgg16"))
    ones = np.ones(len(graph.stages), dtype=np.int64)
    single_ms = median_s(lambda: simulate(graph, ones)) * 1e3
    allocations = near_best(graph, 4096, 4000)
    rate = len(allocations) / median_s(lambda: makespan_of_each(graph, allocations))
    first_s, later_s = start_s()
    rows = [
        ("VGG-16, one copy of every stage, one simulation", f"{single_ms:.2f} ms", "under 2 ms"),
        ("VGG-16 at 4096 arrays, simulations on one core", f"{rate:,.0f} /s", "over 40,000 /s"),
        ("`rramalloc --help`", f"{command_s('--help'):.2f} s", "under 0.3 s"),
        ("`optimize vgg16 --arrays 4096`, first answer", f"{first_answer_s():.2f} s", "within 1.5 s"),
        (
            "`optimize vgg16 --arrays 4096`, whole command",
            f"{command_s('optimize', 'vgg16', '--arrays', '4096'):.2f} s",
            "within 10 s",
        ),
        ("`optimize vgg16 --arrays 1024`, first run, processor", f"{first_s:.1f} s", "under 15 s"),
        ("`optimize vgg16 --arrays 1024`, later runs, processor", f"{later_s:.2f} s", "under 1.2 s"),
    ]
    lines = ["# Speed", "", f"Medians of {RUNS} runs; regenerate with `python results/timing.py`.", ""]
    lines += ["| what | measured | goal |", "|---|---|---|"]
    lines += [f"| {what} | {measured} | {goal} |" for what, measured, goal in rows]
    lines += ["", START]
    RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(RESULT.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
