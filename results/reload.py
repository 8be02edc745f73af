"""Networks larger than the chip: `optimize --reload` against plain ways to cut them.

Writes results/reload.md:  python results/reload.py

The networks are those of COMPASS (arXiv 2501.06780), with a fraction of the arrays that all layers need.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import product
from statistics import median

from measured import RESULTS

import rramalloc
from rramalloc.choices import Mapping
from rramalloc.commands.reload.plan import ReloadPlan
from rramalloc.hardware.hardware import Hardware
from rramalloc.units import duration

NETWORKS = ("vgg16", "resnet18", "squeezenet")
PARTS = ("x0.6", "x0.25")
INPUTS = (1, 16, 256)
MAPPINGS: tuple[Mapping, ...] = ("im2col", "sdk")
PAGE = RESULTS / "reload.md"
HARDWARE = Hardware.model_validate({
    "name": "reload",
    "source": "an example: 2-bit cells, 100 ns a read, 100 ns a wordline, 8 arrays written at once",
    "crossbar": {"wordlines": 128, "bitlines": 128, "cell_bits": 2},
    "precision": {"weight_bits": 8, "input_bits": 8, "output_bits": 8, "signed": "offset"},
    "timing": {"read_ns": 100.0, "dac_bits": 1},
    "write": {"write_ns_per_row": 100.0, "parallel": 8},
})  # fmt: skip


def row(network: str, part: str, inputs: int, mapping: Mapping) -> tuple[ReloadPlan, str]:
    """One plan with the default work, and its line of the table, with its processor time."""
    begun = time.process_time()
    plan = rramalloc.optimize_reload(network, part, hardware=HARDWARE, inputs=inputs, mapping=mapping)
    seconds = time.process_time() - begun
    ratio = {other.cuts: f"{other.ratio:.2f}" for other in plan.other_cuts}
    cells = (
        network, f"{plan.arrays.budget} ({part})", inputs, mapping, duration(plan.per_input_ns),
        len(plan.segments), f"{plan.gap:.1%}", ratio["greedy"], ratio["layers"], f"{seconds:.1f}",
    )  # fmt: skip
    return plan, f"| {' | '.join(map(str, cells))} |"


def page(rows: Sequence[tuple[ReloadPlan, str]]) -> str:
    plans = [plan for plan, _ in rows]
    gaps = [plan.gap for plan in plans]
    better = [min(other.ratio for other in plan.other_cuts) for plan in plans]
    greedy = [other.ratio for plan in plans for other in plan.other_cuts if other.cuts == "greedy"]
    proven, faster = sum(gap == 0 for gap in gaps), sum(ratio < 1 for ratio in better)
    about = (
        f"{len(rows)} cases: {HARDWARE.source}. Inputs run through a segment each time it is written. "
        "Default work, seed 0. Time per input, its distance from the bound of all cuts, and how many times "
        "as long plain cuts take: as many layers as fit (greedy), and each layer alone, with allocations "
        "searched for in the same way."
    )
    lines = [
        "# Networks larger than the chip",
        "",
        "Made by `python results/reload.py`.",
        "",
        about,
        "",
        f"- gap {median(gaps):.1%} in the median, {max(gaps):.1%} at most; {proven} proven",
        f"- greedy cuts take {median(greedy):.2f} times as long in the median, {max(greedy):.2f} at most",
        f"- the better of both: {median(better):.2f} times as long in the median, {max(better):.2f} at most",
        f"- plain cuts that are faster than the plan: {faster}",
        "",
        "| network | arrays | inputs | mapping | per input | segments | gap | greedy | layers | s |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(line for _, line in rows),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    rramalloc.optimize_reload("alexnet", "x0.6", hardware=HARDWARE, mapping="sdk", work=2)  # compiles
    rows = [row(*case) for case in product(NETWORKS, PARTS, INPUTS, MAPPINGS)]
    PAGE.write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
