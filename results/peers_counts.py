"""Arrays of an export as it counts them and as its tool does.

RRAMALLOC_PEERS names the folder with the archives of the tools (tests/peers/tools.py). Each export is run to
the end by the one command of its README, from a checkout, with nothing changed by hand.
"""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import NamedTuple

from pages import TIMED, Study, markdown
from peers_simulators import build, missing, report_of

from rramalloc.api import inspect, optimize
from rramalloc.commands.export.export import export
from rramalloc.commands.tune.simulators import TOOLS
from rramalloc.errors import RramallocError, UnsupportedError
from rramalloc.hardware.hardware import Hardware

NETWORKS = ("alexnet", "vgg16", "tiny_yolov2", "resnet18", "squeezenet", "mobilenet_v1", "vit_b16")
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


@dataclass(frozen=True)
class Row:
    """One export. predicted, counted: arrays, 0 if it was not run; note: why, if not."""

    tool: str
    network: str
    predicted: int
    counted: int
    note: str = ""


def run(tool: str, network: str) -> list[Row]:
    """Export an allocation and run it in the tool."""
    built = ("--build", str(build("neurosim").parent / "neurosim-built")) if tool == "NeuroSim" else ()
    return [_tried(tool, network, CASES[tool], *built)]


def _tried(tool: str, network: str, case: Case, *options: str) -> Row:
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
            report = report_of(Path(made), target, *case.options, *options)
    except UnsupportedError as error:
        return Row(tool, network, 0, 0, _REFUSED + _general(error.reason))
    except subprocess.TimeoutExpired:
        return Row(tool, network, predicted, 0, "no answer in time")
    except (RramallocError, RuntimeError) as error:
        return Row(tool, network, 0, 0, str(error).splitlines()[0])
    return Row(tool, network, predicted, int(report["arrays"]))


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


def answer(rows: Sequence[Row]) -> str:
    """Return how many exports are counted alike."""
    done = [row for row in rows if row.counted]
    equal = sum(row.predicted == row.counted for row in done)
    return f"**{equal} of {len(done)} exports that ran to the end hold as many arrays as the export says**."


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table, and what was refused."""
    by_case = {(row.tool, row.network): row for row in rows}
    yield (
        "Each by the one command of its README from an unchanged checkout; `run.py` stops where counts "
        "differ, layer by "
        "layer. NeuroSim is V1.4."
    )
    yield ""
    cells = [[network, *(_cell(by_case.get((tool, network))) for tool in CASES)] for network in NETWORKS]
    yield from markdown([["network", *CASES], *cells])
    notes: dict[str, list[str]] = {}
    for row in rows:
        if row.note:
            notes.setdefault(row.note, []).append(row.network)
    yield from (f"- {why} ({', '.join(networks)})" for why, networks in notes.items())


def _cell(row: Row | None) -> str:
    if row is None or not row.counted:
        return "refused" if row is not None and row.note.startswith(_REFUSED) else "not run"
    return f"{row.predicted:,}" if row.predicted == row.counted else f"{row.predicted:,}, not {row.counted:,}"


STUDY = Study(
    title="Arrays as the tools count them",
    question=(
        "Do exported allocations run in their tools, and do these count the arrays that the export says?"
    ),
    row=Row,
    cases=list(product(CASES, NETWORKS)),
    measure=run,
    answer=answer,
    body=body,
    decided_by=(*TIMED, "commands/export"),
    missing=missing,
)
