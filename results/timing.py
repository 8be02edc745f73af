"""Speed of the exact simulation and of the command line, wall-clock time and processor time."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pages import TIMED, Study, markdown

from rramalloc.api import optimize
from rramalloc.importers import load
from rramalloc.mapping.modes import breakpoints
from rramalloc.timing.simulate import makespan_of_each, simulate
from rramalloc.timing.stage_graph import StageGraph

RUNS = 9
SEARCH = ("optimize", "vgg16", "--arrays", "4096")


@dataclass(frozen=True)
class Row:
    """What is measured, its value, and the unit of that."""

    what: str
    value: float
    unit: str


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
    """Seconds of processor time of a command whose cache of compiled code is empty, and later."""
    command = [str(Path(sys.executable).with_name("rramalloc")), "optimize", "vgg16", "--arrays", "1024"]
    spent = []
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(1 + RUNS):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            environment = os.environ | {"NUMBA_CACHE_DIR": cache}
            subprocess.run(command, check=True, capture_output=True, env=environment, cwd=cache)
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
            assert line.startswith(b"makespan "), line
            process.kill()

    return median_s(until_first_line)


def simulations() -> list[Row]:
    """Time simulations of VGG-16."""
    graph = StageGraph.build(load("vgg16"))
    ones = np.ones(len(graph.stages), dtype=np.int64)
    single_ms = median_s(lambda: simulate(graph, ones)) * 1e3
    allocations = near_best(graph, 4096, 4000)
    rate = len(allocations) / median_s(lambda: makespan_of_each(graph, allocations))
    return [
        Row("VGG-16, one copy of every stage, one simulation", single_ms, "ms"),
        Row("VGG-16 at 4096 arrays, simulations on one core", rate, "/s"),
    ]


def commands() -> list[Row]:
    """Time commands from their start."""
    shown = f"`{' '.join(SEARCH)}`"
    return [
        Row("`rramalloc --help`", command_s("--help"), "s"),
        Row(f"{shown}, first answer", first_answer_s(), "s"),
        Row(f"{shown}, whole command", command_s(*SEARCH), "s"),
    ]


def starts() -> list[Row]:
    """Time the first run and later ones."""
    first_s, later_s = start_s()
    return [
        Row("`optimize vgg16 --arrays 1024`, first run, which compiles, processor", first_s, "s"),
        Row("`optimize vgg16 --arrays 1024`, later runs, processor", later_s, "s"),
    ]


PARTS = {part.__name__: part for part in (simulations, commands, starts)}


def run(part: str) -> list[Row]:
    """Time a part of the page."""
    return PARTS[part]()


def answer(rows: Sequence[Row]) -> str:
    """Return the rate of simulations."""
    rates = [row.value for row in rows if row.unit == "/s"]
    return f"**One core times {max(rates, default=0):,.0f} allocations of VGG-16 a second** exactly."


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table."""
    yield f"Medians of {RUNS} runs, wall-clock time unless processor time is named."
    yield ""
    shown = {"ms": "{:.2f} ms", "/s": "{:,.0f} /s", "s": "{:.2f} s"}
    yield from markdown(
        [["what", "measured"], *([row.what, shown[row.unit].format(row.value)] for row in rows)]
    )


STUDY = Study(
    title="Speed",
    question="How fast are the exact simulation and the command line?",
    row=Row,
    cases=[(part,) for part in PARTS],
    measure=run,
    answer=answer,
    body=body,
    decided_by=(*TIMED, "search", "cli", "compiled.py"),
    alone=True,
)
