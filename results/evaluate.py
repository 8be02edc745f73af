"""Speed and memory of `evaluate` with 100 tasks and more than 100,000 strategies, on one core."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measured import in_own_process, peak_mb
from pages import Study, markdown

TASKS, COMPUTE, STORAGE = 100, 8, 4
LIMIT_S = 600.0
CASES: dict[str, tuple[str, ...]] = {
    "evaluation alone": (),
    "and performance matrix, Parquet": ("--performance", "times.parquet"),
    "and performance matrix, CSV": ("--performance", "times.csv"),
    "and load matrix, JSON": ("--load", "load.json"),
}
ROUTES = "".join(
    f"""
[[units.routes]]
storage = [{held}]
compute = [{unit}]
bandwidth_in_gb_s = {1 + (7 * held + 3 * unit) % 11}
bandwidth_out_gb_s = {1 + (5 * held + 9 * unit) % 13}
"""
    for held in range(1, STORAGE + 1)
    for unit in range(1, COMPUTE + 1)
)
"""Every pair of units has bandwidths of its own, so that few ways take equal time."""
HARDWARE = f"""
name = "routes"
source = "made up"
crossbar = {{wordlines = 128, bitlines = 128, cell_bits = 16}}
precision = {{weight_bits = 16, input_bits = 16, output_bits = 16, signed = "offset"}}
[units]
processors = {COMPUTE}
storage_units = {STORAGE}
unit_bytes = 1_000_000
bandwidth_in_gb_s = 8.0
bandwidth_out_gb_s = 4.0
ns_per_byte = 0.25
{ROUTES}"""


def network() -> dict[str, object]:
    """A chain of convolutions with grids that the numbers of subtasks do not divide."""
    nodes: list[dict[str, object]] = [{"name": "input", "op": "input", "shape": [3, 31, 29]}]
    for number in range(TASKS):
        before = nodes[-1]["name"]
        nodes.append(
            {
                "name": f"conv{number + 1}",
                "op": "conv",
                "inputs": [before],
                "out_channels": 8 + number % 7,
                "kernel": 3,
                "pads": 1,
            }
        )
    return {"format": "rramalloc-network/1", "name": "chain", "nodes": nodes}


@dataclass(frozen=True)
class Row:
    """A case: strategies judged, columns of the table that differ, and what that took."""

    what: str
    judged: int
    columns: int
    seconds: float
    written_mb: float
    peak_mb: float


def run_one(what: str) -> dict[str, Any]:
    """Run the command in this process; return its seconds, its peak memory and what it wrote."""
    from rramalloc.cli.main import main

    with contextlib.suppress(AttributeError):
        os.sched_setaffinity(0, {0})
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("network.json").write_text(json.dumps(network()), encoding="utf-8")
        Path("chip.toml").write_text(HARDWARE, encoding="utf-8")
        sys.argv = ["rramalloc", "evaluate", "network.json", "--hardware", "chip.toml", "--quiet"]
        sys.argv += ["--enumerate", f"{COMPUTE},{STORAGE}", "-o", "evaluation.json"]
        sys.argv += ["--format", "csv", *CASES[what]]
        begun = time.perf_counter()
        try:
            main()
        except SystemExit as ended:
            if ended.code:
                raise
        seconds = time.perf_counter() - begun
        written = sum(path.stat().st_size for path in Path().iterdir()) / 2**20
        document = json.loads(Path("evaluation.json").read_text(encoding="utf-8"))
        classes = document["enumerated"]["classes"]
        judged = sum(each["ways"] for each in classes)
    return {
        "judged": judged,
        "columns": len(classes),
        "seconds": seconds,
        "written_mb": written,
        "peak_mb": peak_mb(),
    }


def run(what: str) -> list[Row]:
    """Run a case in a process of its own."""
    return [Row(what, **in_own_process(run_one, {"what": what}, LIMIT_S))]


def answer(rows: Sequence[Row]) -> str:
    """Return the time of the evaluation alone."""
    first = rows[0]
    return (
        f"**{first.judged:,} strategies take {first.seconds:.1f} s and {first.peak_mb:.0f} MB** on one core."
    )


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what is run, and the table."""
    yield (
        f"`evaluate --enumerate {COMPUTE},{STORAGE}` of {TASKS} tasks on a chip on which every pair of "
        f"units has "
        "bandwidths of its own. Each strategy is timed for every task; those of equal times are one column."
    )
    yield ""
    table = [
        ["what", "strategies judged", "columns that differ", "seconds", "peak memory, MB", "written, MB"]
    ]
    for row in rows:
        counts = [f"{row.judged:,}", f"{row.columns:,}", f"{row.seconds:.1f}"]
        table.append([row.what, *counts, f"{row.peak_mb:.0f}", f"{row.written_mb:.0f}"])
    yield from markdown(table)


STUDY = Study(
    title="Strategies side by side",
    question="How long does it take to judge every strategy of a chip that runs layer after layer?",
    row=Row,
    cases=[(what,) for what in CASES],
    measure=run,
    answer=answer,
    body=body,
    decided_by=("commands/evaluate",),
    alone=True,
)
