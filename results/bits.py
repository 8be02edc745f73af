"""Bits of layers that CIM-AQ chose, with copies and modes on the arrays that they free.

RRAMALLOC_CIM_AQ names a folder with the policies (policy-*.npy) and layers (*_layer_dimensions.yaml) of the
repository rpelke/cim-aq-dev (commit 26f30d0, MIT licence), which belongs to arXiv 2601.21737. All numbers are
counted or simulated: they are the same on every machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pages import SEARCHED, Study, markdown

import rramalloc
from rramalloc.allocation.bit_policy import PolicyLayer, read_bits, read_layers, read_policy
from rramalloc.allocation.layer_bits import BitPair
from rramalloc.hardware.hardware import Hardware
from rramalloc.importers import load

FOLDER = "RRAMALLOC_CIM_AQ"
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

    @property
    def sizes(self) -> Path:
        return Path(os.environ[FOLDER]) / f"{self.layers}_layer_dimensions.yaml"

    def file(self, policy: str) -> Path:
        return Path(os.environ[FOLDER]) / f"policy-{self.policies[policy]}-rcell4.npy"


SUBJECTS = {
    subject.network: subject
    for subject in (
        Subject(
            "resnet18", "resnet18", {f"{p} %": f"resnet18-both_constraints-acc{p:02}" for p in (1, 5, 10)}
        ),
        Subject("vgg16", "vgg16", {"5 %": "vgg16-both_constraints-acc05"}),
        Subject("vit_b32", "vit_b_32", {"5 %": "vitb32-both_constraints-acc05"}),
    )
}


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


def cim_aq(layers: list[PolicyLayer], bits: list[BitPair]) -> tuple[int, float]:
    """Arrays, and ms of writing and running one layer after the other, as CIM-AQ counts them."""
    arrays, time_us = 0, 0.0
    for layer, (weight_bits, input_bits) in zip(layers, bits, strict=True):
        columns = 2 * layer.columns * -(-weight_bits // CELL_BITS)
        own = layer.repeat * -(-layer.rows // LINES) * -(-columns // LINES)
        arrays += own
        time_us += own * (WRITE_US + layer.windows * input_bits * READ_US)
    return arrays, time_us / 1e3


def run(name: str, policy: str) -> list[Row]:
    """Count as CIM-AQ does, and search on the arrays of INT8."""
    subject = SUBJECTS[name]
    layers, network = read_layers(subject.sizes), load(subject.network)
    bits, arrays = [(8, 8)] * len(layers), rramalloc.inspect(network, **OPTIONS).minimum
    if policy != INT8:
        bits = read_policy(subject.file(policy))
        network = network.with_bits(bits_of(subject, policy))
    count, time_ms = cim_aq(layers, bits)
    once = rramalloc.optimize(network, arrays, method="none", **OPTIONS)
    copies = rramalloc.optimize(network, arrays, **OPTIONS)
    modes = rramalloc.optimize(network, arrays, mapping="sdk", **OPTIONS)
    row = Row(
        network=subject.network, policy=policy, cim_aq_arrays=count, cim_aq_ms=round(time_ms, 4),
        minimum=once.arrays.minimum or 0, arrays=arrays, once=latency_ms(once),
        copies=latency_ms(copies), copies_gap=copies.gap, modes=latency_ms(modes), modes_gap=modes.gap,
    )  # fmt: skip
    return [row]


def bits_of(subject: Subject, policy: str) -> dict[str, BitPair]:
    """Bits of the layers by name."""
    files = subject.file(policy), subject.sizes
    table = read_bits(*files, load(subject.network), HARDWARE.precision)
    return {name: own[0][:2] for name, own in table.choices.items()}


def latency_ms(allocation: rramalloc.Allocation) -> float:
    return round((allocation.latency_ns or 0.0) / 1e6, 4)


INTRODUCTION = """\
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


def missing() -> str:
    """Return what is not there."""
    return "" if os.environ.get(FOLDER) else f"{FOLDER} does not name the folder with the files of CIM-AQ"


def answer(rows: Sequence[Row]) -> str:
    """Return what bits and copies gain together."""
    int8 = {row.network: row for row in rows if row.policy == INT8}
    gains = [int8[row.network].once / row.copies for row in rows if row.policy != INT8]
    return (
        f"**On the arrays of INT8 with one copy, fewer bits and copies together are up to "
        f"{max(gains, default=1):.1f} "
        f"times as fast**, {min(gains, default=1):.1f} times at least."
    )


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what is compared, and the table."""
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
    yield INTRODUCTION
    yield from markdown(table)


def with_gap(value_ms: float, gap: float) -> str:
    return f"{value_ms:.3f} ms ({'optimal' if gap == 0 else f'{gap:.1%}'})"


STUDY = Study(
    title="Bits of layers, with copies and modes on the arrays that they free",
    question="What do the arrays gain that fewer bits set free?",
    row=Row,
    cases=[(name, policy) for name, subject in SUBJECTS.items() for policy in (INT8, *subject.policies)],
    measure=run,
    answer=answer,
    body=body,
    decided_by=SEARCHED,
    missing=missing,
)
