"""Bits chosen layer by layer, with copies, below a limit of their sensitivities; files as for bits.py."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bits import OPTIONS, SUBJECTS, bits_of, latency_ms, missing, with_gap
from pages import SEARCHED, Study, markdown

import rramalloc
from rramalloc.importers import load

SENSITIVITIES = {"1 %": 1, "5 %": 5}
"""Sensitivity of a layer to the bits of a policy, 0 to INT8: what a policy loses, in per cent."""
LIMITS = {"resnet18": (17, 21, 40, 60, 83), "vgg16": (10, 20, 35, 50, 65)}
"""Limits of the sum; the last one, and 17 for ResNet-18, is the sum of a policy."""
INTRODUCTION = """\
Bits chosen layer by layer, together with the copies: INT8 has sensitivity 0, the bits of a policy as much as
it loses (1 or 5 a layer), and the sum has a limit (`--bits --sensitivity`). These numbers stand in for
measured sensitivities, which CIM-AQ does not publish. Arrays of INT8, mapping im2col, default work, seed 0;
the bound is of all choices of bits and copies. 17 and 83 are the sums of ResNet-18's policies of 1 and 5 %,
65 that of VGG-16's.
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """Fastest bits and copies with a limited sum of sensitivities.

    used: their sum; once: latency of INT8 with one copy, latency: of the choice, both in ms.
    """

    network: str
    arrays: int
    limit: int
    used: float
    once: float
    latency: float
    gap: float

    @property
    def gain(self) -> float:
        return self.once / self.latency


def run(name: str, limit: int) -> list[Row]:
    """Find the fastest choice between INT8 and the policies, layer by layer, on the arrays of INT8."""
    subject, network = SUBJECTS[name], load(name)
    arrays = rramalloc.inspect(network, **OPTIONS).minimum
    lines = ["layer,weight_bits,input_bits,sensitivity", *(f"{stage.name},8,8,0" for stage in network.stages)]
    for policy in subject.policies.keys() & SENSITIVITIES.keys():
        bits = bits_of(subject, policy)
        lines += [f"{layer},{each[0]},{each[1]},{SENSITIVITIES[policy]}" for layer, each in bits.items()]
    with tempfile.TemporaryDirectory() as place:
        table = Path(place, "bits.csv")
        table.write_text("\n".join(lines), encoding="utf-8")
        found = rramalloc.optimize(network, arrays, bits=table, sensitivity=limit, **OPTIONS)
    once = rramalloc.optimize(network, arrays, method="none", **OPTIONS)
    row = Row(
        network=name, arrays=arrays, limit=limit, used=found.sensitivity or 0.0, once=latency_ms(once),
        latency=latency_ms(found), gap=found.gap,
    )  # fmt: skip
    return [row]


def answer(rows: Sequence[Row]) -> str:
    """Return what the loosest limits gain."""
    loosest = {row.network: row for row in rows}
    gains = ", ".join(f"{name} {row.gain:.1f}" for name, row in loosest.items())
    gap = statistics.median(row.gap for row in rows)
    return (
        f"**Times as fast as INT8 with one copy at the loosest limit: {gains}**; gap {gap:.1%} in the median."
    )


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what is asked, and the table."""
    yield INTRODUCTION
    table = [["network", "arrays", "sensitivity at most", "used", "latency (gap)", "x INT8 with one copy"]]
    for row in rows:
        cells = [
            row.network,
            f"{row.arrays:,}",
            str(row.limit),
            f"{row.used:g}",
            with_gap(row.latency, row.gap),
        ]
        table.append([*cells, f"**{row.gain:.1f}**"])
    yield from markdown(table)


STUDY = Study(
    title="Sensitivity against latency",
    question="How much faster is a network whose layers may lose so much accuracy in all?",
    row=Row,
    cases=[(name, limit) for name, limits in LIMITS.items() for limit in limits],
    measure=run,
    answer=answer,
    body=body,
    decided_by=SEARCHED,
    missing=missing,
)
