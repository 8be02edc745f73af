"""One run of an exported folder in a checkout of its tool, and what the tool printed of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import rramalloc
from rramalloc.allocation.allocation import Allocation


class ToolReport(NamedTuple):
    """copies, arrays: by layer, as the tool counts them; values: what else it printed, by name."""

    copies: dict[str, int]
    arrays: dict[str, int]
    values: dict[str, float]


def allocated(network: str, factor: float, hardware: str) -> Allocation:
    """A quick allocation of `factor` times the fewest arrays."""
    minimum = rramalloc.inspect(network, hardware=hardware).minimum
    return rramalloc.optimize(
        network, arrays=int(factor * minimum), hardware=hardware, work=2, progress=False
    )


def run_export(
    network: str,
    allocation: Allocation,
    target: str,
    hardware: str,
    folder: Path,
    checkout: Path,
    *options: str,
    layers_only: bool = False,
) -> ToolReport:
    """Export into `folder` and run the one command of its README."""
    made = rramalloc.export(network, allocation, target, hardware=hardware, layers_only=layers_only)
    made.save(folder)
    command = [sys.executable, str(folder / "run.py"), str(checkout), *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr[-2000:] or done.stdout[-2000:]
    copies, arrays, values = dict[str, int](), dict[str, int](), dict[str, float]()
    for line in done.stdout.splitlines():
        words = line.split()
        if words[0] == "layer":
            copies[words[1]], arrays[words[1]] = int(words[3]), int(words[5])
        elif len(words) == 2:
            values[words[0]] = float(words[1])
    assert values["arrays"] == sum(arrays.values())
    return ToolReport(copies, arrays, values)
