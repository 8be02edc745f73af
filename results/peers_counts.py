"""Arrays of an export as it counts them and as its tool does, for every shipped network.

Writes results/peers_counts.csv and a table of results/peers.md, which peers.py writes.

Each export is run to the end by the one command of its README, from a checkout, with nothing changed by hand.
"""

from __future__ import annotations

import csv
import json
import re
import runpy
import subprocess
import tempfile
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pages import markdown
from peers_simulators import ROOT, _report

from rramalloc.api import inspect, optimize
from rramalloc.commands.export.export import export
from rramalloc.commands.tune.simulators import TOOLS
from rramalloc.errors import RramallocError, UnsupportedError
from rramalloc.hardware.hardware import Hardware

CSV = ROOT / "results" / "peers_counts.csv"
NETWORKS = tuple(sorted(path.stem for path in (ROOT / "networks").glob("*.json")))


_REFUSED = "refused: "


class Case(NamedTuple):
    """How a tool is tried. factor: budget by the fewest arrays, None for all arrays of the chip."""

    hardware: str | Hardware
    factor: float | None
    options: tuple[str, ...] = ()


CASES = {
    "PIMCOMP": Case("pimcomp", None),
    "MNSIM": Case("mnsim", 1.5),
    "NeuroSim": Case("neurosim", 1.2),
    "PIMSYN": Case(TOOLS["pimsyn"].hardware(), 20, ("--genes", "1")),
}


class Count(NamedTuple):
    """One export. predicted, counted: arrays, 0 if it was not run; note: why, if not."""

    tool: str
    network: str
    predicted: int
    counted: int
    note: str = ""


def measure() -> None:
    """Run what is not in the file."""
    done = {(count.tool, count.network) for count in counts()}
    with tempfile.TemporaryDirectory() as built:
        for tool, case in CASES.items():
            build = ("--build", built) if tool == "NeuroSim" else ()
            for network in NETWORKS:
                if (tool, network) not in done:
                    _append(_tried(tool, network, case, *build))


def counts() -> list[Count]:
    """What was run so far."""
    if not CSV.exists():
        return []
    with CSV.open(encoding="utf-8", newline="") as file:
        return [
            Count(
                cells["tool"], cells["network"], int(cells["predicted"]), int(cells["counted"]), cells["note"]
            )
            for cells in csv.DictReader(file)
        ]


def _append(count: Count) -> None:
    new = not CSV.exists()
    with CSV.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([*([Count._fields] if new else []), count])
    print(*count, flush=True)


def _tried(tool: str, network: str, case: Case, *options: str) -> Count:
    target = tool.lower()
    try:
        export(network, {}, target, hardware=case.hardware)  # what the tool cannot express at all
        arrays = (
            9216
            if case.factor is None
            else int(case.factor * inspect(network, hardware=case.hardware).minimum)
        )
        allocation = optimize(
            network, arrays=arrays, hardware=case.hardware, method="proportional", progress=False
        )
        with tempfile.TemporaryDirectory() as made:
            export(network, allocation, target).save(made)
            predicted = _predicted(Path(made))
            report = _report(Path(made), target, *case.options, *options)
    except UnsupportedError as error:
        return Count(tool, network, 0, 0, _REFUSED + _general(error.reason))
    except subprocess.TimeoutExpired:
        return Count(tool, network, predicted, 0, "no answer in time")
    except (RramallocError, RuntimeError) as error:
        return Count(tool, network, 0, 0, str(error).splitlines()[0])
    return Count(tool, network, predicted, int(report["arrays"]))


def _general(reason: str) -> str:
    """A reason without what is said of the one node."""
    return re.sub(r", this one .*|: .*", "", reason)


def _predicted(folder: Path) -> int:
    """Arrays that the files of an export say."""
    if (folder / "network.py").exists():
        arrays = runpy.run_path(str(folder / "network.py"))["arrays"]
    else:
        name = next(name for name in ("run", "settings", "allocation") if (folder / f"{name}.json").exists())
        arrays = json.loads((folder / f"{name}.json").read_text())["arrays"]
    if isinstance(arrays, Mapping):
        arrays = list(arrays.values())
    return int(arrays) if isinstance(arrays, int) else sum(arrays)


def table() -> list[str]:
    """The part of the page."""
    by_case = {(count.tool, count.network): count for count in counts()}
    rows, notes = [["network", *CASES]], dict[str, list[str]]()
    for tool in CASES:
        for network in NETWORKS:
            count = by_case.get((tool, network))
            if count is not None and count.note:
                notes.setdefault(count.note, []).append(network)
    rows += [[network, *(_cell(by_case.get((tool, network))) for tool in CASES)] for network in NETWORKS]
    run = [count for count in by_case.values() if count.counted]
    equal = sum(count.predicted == count.counted for count in run)
    text = (
        f"{len(run)} exports of an allocation ran to the end, each by the one command of its README from an "
        f"unchanged checkout. Arrays as the export counts them and as the tool does are equal in {equal} of "
        f"them; `run.py` stops where they differ, layer by layer."
    )
    lines = [*textwrap.wrap(text, 110), "", *markdown(rows)]
    return [*lines, *(f"- {why} ({', '.join(networks)})" for why, networks in notes.items()), ""]


def _cell(count: Count | None) -> str:
    if count is None or not count.counted:
        return "refused" if count is not None and count.note.startswith(_REFUSED) else "not run"
    return (
        f"{count.predicted}"
        if count.predicted == count.counted
        else f"{count.predicted}, not {count.counted}"
    )
