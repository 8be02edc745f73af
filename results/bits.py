"""Bits of layers that CIM-AQ chose, with copies and modes on the arrays that they free.

python results/bits.py FOLDER [--fresh] [--page]

FOLDER holds the policies (policy-*.npy) and layers (*_layer_dimensions.yaml) of the repository
rpelke/cim-aq-dev (commit 26f30d0, MIT licence), which belongs to arXiv 2601.21737. Runs what results/bits.csv
lacks and appends it there, then writes results/bits.md. All numbers are counted or simulated: they are the
same on every machine.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from measured import RESULTS
from pages import markdown
from rows import append, read

import rramalloc
from rramalloc.allocation.bit_policy import Bits, PolicyLayer, read_bits, read_layers, read_policy
from rramalloc.hardware.hardware import Hardware
from rramalloc.importers import load

CSV, TRADES_CSV, PAGE = RESULTS / "bits.csv", RESULTS / "bits_trades.csv", RESULTS / "bits.md"
LINES, CELL_BITS, READ_US, WRITE_US = 256, 4, 1.4, 56.0  # CIM-AQ, hardware_config.yaml
INT8 = "INT8"
HARDWARE = Hardware.model_validate(
    {
        "name": "cim-aq",
        "source": "rpelke/cim-aq-dev, hardware_config.yaml: 1.4 us per input bit and read",
        "crossbar": {"wordlines": LINES, "bitlines": LINES, "cell_bits": CELL_BITS},
        "precision": {"weight_bits": 8, "input_bits": 8, "output_bits": 8, "signed": "differential"},
        "timing": {"read_ns": 1e3 * READ_US, "dac_bits": 1, "clock": "own", "tick_ns": 1e3 * READ_US},
    }
)

OPTIONS: dict[str, Any] = {"hardware": HARDWARE, "fc": "crossbar"}


class Subject(NamedTuple):
    """A network, its layers in CIM-AQ, and policies by what they lose of the accuracy at most."""

    network: str
    layers: str
    policies: dict[str, str]

    def sizes(self, folder: Path) -> Path:
        return folder / f"{self.layers}_layer_dimensions.yaml"

    def file(self, folder: Path, policy: str) -> Path:
        return folder / f"policy-{self.policies[policy]}-rcell4.npy"


SUBJECTS = (
    Subject("resnet18", "resnet18", {f"{p} %": f"resnet18-both_constraints-acc{p:02}" for p in (1, 5, 10)}),
    Subject("vgg16", "vgg16", {"5 %": "vgg16-both_constraints-acc05"}),
    Subject("vit_b32", "vit_b_32", {"5 %": "vitb32-both_constraints-acc05"}),
)

SENSITIVITIES = {"1 %": 1, "5 %": 5}
"""Sensitivity of a layer to the bits of a policy, 0 to INT8: what a policy loses, in per cent."""
LIMITS = {"resnet18": (17, 21, 40, 60, 83), "vgg16": (10, 20, 35, 50, 65)}
"""Limits of the sum; the last one, and 17 for ResNet-18, is the sum of a policy."""


@dataclass(frozen=True, kw_only=True)
class Trade:
    """Fastest bits and copies with a limited sum of sensitivities. used: their sum; latency in ms."""

    network: str
    limit: int
    used: float
    latency: float
    gap: float


@dataclass(frozen=True, kw_only=True)
class Row:
    """A network with INT8 or a policy; times in ms.

    cim_aq_arrays, cim_aq_ms: arrays and latency by CIM-AQ's rule, products of two tensors among them;
    minimum: arrays that hold the layers once; arrays: those of INT8; once, copies, modes: exact latency with
    one copy, with the best copies and with the best modes on these arrays, and the gaps to their bounds.
    """

    network: str
    policy: str
    cim_aq_arrays: int
    cim_aq_ms: float
    minimum: int
    arrays: int
    once: float
    copies: float
    copies_gap: float
    modes: float
    modes_gap: float


def cim_aq(layers: list[PolicyLayer], bits: list[Bits]) -> tuple[int, float]:
    """Arrays, and ms of writing and running one layer after the other, as CIM-AQ counts them."""
    arrays, time_us = 0, 0.0
    for layer, (weight_bits, input_bits) in zip(layers, bits, strict=True):
        columns = 2 * layer.columns * -(-weight_bits // CELL_BITS)
        own = layer.repeat * -(-layer.rows // LINES) * -(-columns // LINES)
        arrays += own
        time_us += own * (WRITE_US + layer.windows * input_bits * READ_US)
    return arrays, time_us / 1e3


def run(folder: Path, subject: Subject, policy: str) -> Row:
    layers, network = read_layers(subject.sizes(folder)), load(subject.network)
    bits, arrays = [(8, 8)] * len(layers), rramalloc.inspect(network, **OPTIONS).minimum
    if policy != INT8:
        bits = read_policy(subject.file(folder, policy))
        network = network.with_bits(bits_of(folder, subject, policy))
    count, time_ms = cim_aq(layers, bits)
    once = rramalloc.optimize(network, arrays, method="none", **OPTIONS)
    copies = rramalloc.optimize(network, arrays, **OPTIONS)
    modes = rramalloc.optimize(network, arrays, mapping="sdk", **OPTIONS)
    return Row(
        network=subject.network, policy=policy, cim_aq_arrays=count, cim_aq_ms=round(time_ms, 4),
        minimum=once.arrays.minimum or 0, arrays=arrays, once=latency_ms(once),
        copies=latency_ms(copies), copies_gap=copies.gap, modes=latency_ms(modes), modes_gap=modes.gap,
    )  # fmt: skip


def trade(folder: Path, subject: Subject, limit: int) -> Trade:
    """The fastest choice between INT8 and the policies, layer by layer, on the arrays of INT8."""
    network = load(subject.network)
    arrays = rramalloc.inspect(network, **OPTIONS).minimum
    lines = ["layer,weight_bits,input_bits,sensitivity", *(f"{stage.name},8,8,0" for stage in network.stages)]
    for policy in subject.policies.keys() & SENSITIVITIES.keys():
        bits = bits_of(folder, subject, policy)
        lines += [f"{name},{each[0]},{each[1]},{SENSITIVITIES[policy]}" for name, each in bits.items()]
    with tempfile.TemporaryDirectory() as place:
        table = Path(place, "bits.csv")
        table.write_text("\n".join(lines), encoding="utf-8")
        found = rramalloc.optimize(network, arrays, bits=table, sensitivity=limit, **OPTIONS)
    return Trade(
        network=subject.network, limit=limit, used=found.sensitivity or 0.0, latency=latency_ms(found),
        gap=found.gap,
    )  # fmt: skip


def bits_of(folder: Path, subject: Subject, policy: str) -> dict[str, Bits]:
    """Bits of the layers by name."""
    files = subject.file(folder, policy), subject.sizes(folder)
    table = read_bits(*files, load(subject.network), HARDWARE.precision)
    return {name: own[0][:2] for name, own in table.choices.items()}


def latency_ms(allocation: rramalloc.Allocation) -> float:
    return round((allocation.latency_ns or 0.0) / 1e6, 4)


def keep(path: Path, row: Row | Trade) -> None:
    append(path, row)
    print(row, flush=True)


INTRODUCTION = """\
# Bits of layers, with copies and modes on the arrays that they free

Made by `python results/bits.py FOLDER`, the folder with the files of CIM-AQ; the numbers are counted or
simulated, the same on every machine.

CIM-AQ (Pelke, Klein et al., arXiv 2601.21737; repository rpelke/cim-aq-dev) chooses weight bits and input
bits of every layer by reinforcement learning, for what the accuracy may lose, on arrays of 256 x 256 with
4-bit cells, two columns of cells for the sign and 1.4 us per input bit and read. It counts 56 us to write an
array and runs one array after the other. The first columns reproduce its totals from its own files.

A chip that holds INT8 once has arrays to spare with such a policy. The last columns keep that number of
arrays and spend the rest: all layers stay written and run at the same time, each with its own clock, by exact
timing of one input, classifiers on arrays.

- CIM-AQ: arrays and time by its rule, with the products of keys, queries and values, which it writes anew
- minimum: arrays that hold the layers once; products of two computed tensors are never on arrays here
- one copy, copies, modes: exact latency on the arrays of INT8 with one copy of every layer, with the best
  copies (mapping im2col) and with the best modes (mapping sdk), default work, seed 0; in brackets the
  distance from the lower bound
- x: times the speed of INT8 with one copy, which is the best that its arrays allow
"""


TRADES = """\
## Sensitivity against latency

Bits chosen layer by layer, together with the copies: INT8 has sensitivity 0, the bits of a policy as much as
it loses (1 or 5 a layer), and the sum has a limit (`--bits --sensitivity`). These numbers stand in for
measured sensitivities, which CIM-AQ does not publish. Arrays of INT8, mapping im2col, default work, seed 0;
the bound is of all choices of bits and copies. 17 and 83 are the sums of ResNet-18's policies of 1 and 5 %,
65 that of VGG-16's.
"""


def page(rows: list[Row], trades: list[Trade]) -> str:
    """The page, from the rows."""
    names = [subject.network for subject in SUBJECTS]
    rows = sorted(rows, key=lambda row: names.index(row.network))
    int8 = {row.network: row for row in rows if row.policy == INT8}
    table = [
        ["network", "bits", "CIM-AQ: arrays", "s", "x", "minimum", "arrays", "one copy", "copies", "x",
         "modes", "x"],
    ]  # fmt: skip
    for row in rows:
        first = int8[row.network]
        cells = [row.network, row.policy, f"{row.cim_aq_arrays:,}", f"{row.cim_aq_ms / 1e3:.4f}"]
        cells += [f"{first.cim_aq_ms / row.cim_aq_ms:.2f}", f"{row.minimum:,}", f"{row.arrays:,}"]
        cells += [f"{row.once:.2f} ms", with_gap(row.copies, row.copies_gap)]
        cells += [f"**{first.once / row.copies:.1f}**", with_gap(row.modes, row.modes_gap)]
        table.append([*cells, f"**{first.once / row.modes:.1f}**"])
    points = [["network", "arrays", "sensitivity at most", "used", "latency (gap)", "x INT8 with one copy"]]
    for point in sorted(trades, key=lambda point: (names.index(point.network), point.limit)):
        first = int8[point.network]
        points.append(
            [
                point.network, f"{first.arrays:,}", str(point.limit), f"{point.used:g}",
                with_gap(point.latency, point.gap), f"**{first.once / point.latency:.1f}**",
            ]
        )  # fmt: skip
    gap = statistics.median(point.gap for point in trades) if trades else 0.0
    shown = [TRADES, f"The gap is {gap:.1%} in the median.", "", *markdown(points)] if trades else []
    return "\n".join([INTRODUCTION, *markdown(table), *shown]).rstrip() + "\n"


def with_gap(value_ms: float, gap: float) -> str:
    return f"{value_ms:.3f} ms ({'optimal' if gap == 0 else f'{gap:.1%}'})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="policies and layers of CIM-AQ")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--page", action="store_true", help="only write the page")
    chosen = parser.parse_args()
    for path in (CSV, TRADES_CSV):
        path.unlink(missing_ok=True) if chosen.fresh else None
    rows, trades = read(CSV, Row), read(TRADES_CSV, Trade)
    done = {(row.network, row.policy) for row in rows} | {(point.network, point.limit) for point in trades}
    for subject in () if chosen.page else SUBJECTS:
        for policy in (INT8, *subject.policies):
            if (subject.network, policy) not in done:
                rows.append(run(chosen.folder, subject, policy))
                keep(CSV, rows[-1])
        for limit in LIMITS.get(subject.network, ()):
            if (subject.network, limit) not in done:
                trades.append(trade(chosen.folder, subject, limit))
                keep(TRADES_CSV, trades[-1])
    PAGE.write_text(page(rows, trades), encoding="utf-8")


if __name__ == "__main__":
    main()
