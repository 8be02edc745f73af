"""Speed and memory of `evaluate` with 100 tasks and more than 100,000 strategies, on one core.

Writes results/evaluate.md:  python results/evaluate.py
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from measured import in_own_process, peak_mb

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


def run_one(case: dict[str, object]) -> None:
    """Run the command in this process; print its seconds, its peak memory and what it wrote."""
    from rramalloc.cli.main import main

    with contextlib.suppress(AttributeError):
        os.sched_setaffinity(0, {0})
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("network.json").write_text(json.dumps(network()), encoding="utf-8")
        Path("chip.toml").write_text(HARDWARE, encoding="utf-8")
        sys.argv = ["rramalloc", "evaluate", "network.json", "--hardware", "chip.toml", "--quiet"]
        sys.argv += ["--enumerate", f"{COMPUTE},{STORAGE}", "-o", "evaluation.json"]
        sys.argv += ["--format", "csv", *CASES[str(case["name"])]]
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
    print(
        json.dumps(
            {
                "judged": judged,
                "columns": len(classes),
                "seconds": seconds,
                "peak_mb": peak_mb(),
                "written_mb": written,
            }
        )
    )


def main() -> None:
    """Run every case in a process of its own."""
    lines = [
        "# Strategies side by side",
        "",
        f"`evaluate --enumerate {COMPUTE},{STORAGE}` of {TASKS} tasks on a chip on which every pair of units",
        "has bandwidths of its own, on one core; regenerate with `python results/evaluate.py`. Goal: 100,000",
        "strategies in under 10 s and under 2 GB. Each is timed for every task; those of equal times",
        "are one column.",
        "",
        "| what | strategies judged | columns that differ | seconds | peak memory, MB | written, MB |",
        "|---|---|---|---|---|---|",
    ]
    for name in CASES:
        found = in_own_process(__file__, {"name": name}, LIMIT_S)
        judged, columns = f"{found['judged']:,}", f"{found['columns']:,}"
        numbers = (f"{found[what]:.0f}" for what in ("peak_mb", "written_mb"))
        cells = (name, judged, columns, f"{found['seconds']:.1f}", *numbers)
        lines.append(f"| {' | '.join(cells)} |")
    Path(__file__).with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        run_one(json.loads(sys.argv[2]))
    else:
        main()
