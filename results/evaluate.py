"""Speed and memory of `evaluate` with 100 tasks and 100,000 strategies, the whole command on one core.

Prints a table:  python results/evaluate.py
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

TASKS, STRATEGIES, UNITS = 100, 100_000, 6
LIMIT_S = 600.0
CASES: dict[str, tuple[str, ...]] = {
    "evaluation alone": (),
    "and performance matrix, Parquet": ("--performance", "times.parquet"),
    "and performance matrix, CSV": ("--performance", "times.csv"),
    "and load matrix, JSON": ("--load", "load.json"),
}
CHIP = f"""
processors = {UNITS}
storage_units = {UNITS}
unit_bytes = 1_000_000
bandwidth_in_gb_s = 8.0
bandwidth_out_gb_s = 4.0
ns_per_byte = 0.25
"""


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
        Path("chip.toml").write_text(CHIP, encoding="utf-8")
        sys.argv = ["rramalloc", "evaluate", "network.json", "--chip", "chip.toml", "--quiet"]
        sys.argv += ["--enumerate", f"{UNITS},{UNITS}", "--limit", str(STRATEGIES)]
        sys.argv += ["--format", "csv", *CASES[str(case["name"])]]
        begun = time.perf_counter()
        try:
            main()
        except SystemExit as ended:
            if ended.code:
                raise
        seconds = time.perf_counter() - begun
        written = sum(path.stat().st_size for path in Path().iterdir()) / 2**20
    print(json.dumps({"seconds": seconds, "peak_mb": peak_mb(), "written_mb": written}))


def main() -> None:
    """Run every case in a process of its own."""
    print(f"{TASKS} tasks x {STRATEGIES} strategies; goal: under 10 s on one core and under 2 GB\n")
    print("| what | seconds | peak memory, MB | written, MB |")
    print("|---|---|---|---|")
    for name in CASES:
        found = in_own_process(__file__, {"name": name}, LIMIT_S)
        print(
            f"| {name} | {found['seconds']:.1f} | {found['peak_mb']:.0f} | {found['written_mb']:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        run_one(json.loads(sys.argv[2]))
    else:
        main()
