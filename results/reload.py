"""Networks larger than the chip: `optimize --reload` against plain ways to cut them.

The networks are those of COMPASS (arXiv 2501.06780), with a fraction of the arrays that all layers need.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median
from typing import cast

from pages import SEARCHED, Study, markdown

import rramalloc
from rramalloc.choices import Mapping
from rramalloc.hardware.hardware import Hardware
from rramalloc.units import duration

NETWORKS = ("vgg16", "resnet18", "squeezenet")
PARTS = ("x0.6", "x0.25")
INPUTS = (1, 16, 256)
MAPPINGS: tuple[Mapping, ...] = ("im2col", "sdk")
HARDWARE = Hardware.model_validate({
    "name": "reload",
    "source": "an example: 2-bit cells, 100 ns a read, 100 ns a wordline, 8 arrays written at once",
    "crossbar": {"wordlines": 128, "bitlines": 128, "cell_bits": 2},
    "precision": {"weight_bits": 8, "input_bits": 8, "output_bits": 8, "signed": "offset"},
    "timing": {"read_ns": 100.0, "dac_bits": 1},
    "write": {"write_ns_per_row": 100.0, "parallel": 8},
})  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One plan: its time of an input, gap and segments, and how many times as long plain cuts take."""

    network: str
    part: str
    inputs: int
    mapping: str
    arrays: int
    per_input_ns: float
    segments: int
    gap: float
    greedy: float
    layers: float
    seconds: float


def run(network: str, part: str, inputs: int, mapping: str) -> list[Row]:
    """Plan with the default work, on processor time."""
    begun = time.process_time()
    plan = rramalloc.optimize_reload(
        network, part, hardware=HARDWARE, inputs=inputs, mapping=cast("Mapping", mapping)
    )
    seconds = round(time.process_time() - begun, 2)
    ratio = {other.cuts: other.ratio for other in plan.other_cuts}
    row = Row(
        network, part, inputs, mapping, plan.arrays.budget or 0, plan.per_input_ns, len(plan.segments),
        plan.gap, ratio["greedy"], ratio["layers"], seconds,
    )  # fmt: skip
    return [row]


def answer(rows: Sequence[Row]) -> str:
    """Return how far plans are from the bound and from plain cuts."""
    gaps = [row.gap for row in rows]
    better = [min(row.greedy, row.layers) for row in rows]
    return (
        f"**Plans are {median(gaps):.1%} from the bound of all cuts in the median**, {max(gaps):.1%} at "
        f"most; the better "
        f"of two plain cuts takes {median(better):.2f} times as long in the median, {max(better):.2f} at "
        f"most."
    )


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what is planned, and the table."""
    greedy = [row.greedy for row in rows]
    yield from (
        f"{len(rows)} cases: {HARDWARE.source}. Inputs run through a segment each time it is written.",
        "Default work, seed 0. Time per input, its distance from the bound of all cuts, and how many times",
        "as long plain cuts take: as many layers as fit (greedy), and each layer alone, with allocations",
        "searched for in the same way.",
        "",
        f"- greedy cuts take {median(greedy):.2f} times as long in the median, {max(greedy):.2f} at most",
        f"- plain cuts that are faster than the plan: {sum(min(row.greedy, row.layers) < 1 for row in rows)}",
        "",
    )
    table = [
        ["network", "arrays", "inputs", "mapping", "per input", "segments", "gap", "greedy", "layers", "s"]
    ]
    for row in rows:
        case = [row.network, f"{row.arrays} ({row.part})", str(row.inputs), row.mapping]
        found = [duration(row.per_input_ns), str(row.segments), f"{row.gap:.1%}"]
        table.append([*case, *found, f"{row.greedy:.2f}", f"{row.layers:.2f}", f"{row.seconds:.1f}"])
    yield from markdown(table)


STUDY = Study(
    title="Networks larger than the chip",
    question="How good are the cuts of a network that does not fit, and how much do they save?",
    row=Row,
    cases=list(product(NETWORKS, PARTS, INPUTS, MAPPINGS)),
    measure=run,
    answer=answer,
    body=body,
    decided_by=(*SEARCHED, "commands/reload"),
)
