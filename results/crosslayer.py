"""Layers that run at the same time against layers that run one after the other, with a few arrays to spare.

The networks, arrays and budgets are those of CLSA-CIM (Pelke et al., DATE 2024, arXiv 2401.07671), which
copies layers and lets them overlap. All numbers are simulated: they are the same on every machine.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from pages import SEARCHED, Study, markdown

import rramalloc

NETWORKS = ("tiny_yolov3", "tiny_yolov4", "vgg16", "vgg19", "resnet50", "resnet152")
SPARE = (16, 32)  # arrays beyond the fewest, two of the budgets of CLSA-CIM
CROSSBAR = "256x256"
PUBLISHED = 29.2  # "up to", over layer by layer with one copy, in the abstract of CLSA-CIM


@dataclass(frozen=True, kw_only=True)
class Row:
    """A network with a budget; all but the first four in steps.

    serial: layer by layer with one copy; copied: with the copies of least sum, divided: with those of
    CIM-MLC's rule; overlapped: exact makespan of one copy; copies, modes: best exact makespan with
    mapping im2col and sdk, and a bound of each.
    """

    network: str
    minimum: int
    arrays: int
    serial: int
    copied: int
    divided: int
    overlapped: int
    copies: int
    copies_bound: int
    modes: int
    modes_bound: int

    @property
    def spare(self) -> int:
        return self.arrays - self.minimum

    @property
    def gain(self) -> float:
        """Times as fast as layer by layer with one copy."""
        return self.serial / self.copies

    @property
    def over_copied(self) -> float:
        """Times as fast as layer by layer with the best copies."""
        return self.copied / self.copies

    @property
    def modes_gain(self) -> float:
        return self.serial / self.modes


def run(network: str, spare: int) -> list[Row]:
    """Time the ways to use a few spare arrays."""
    minimum = rramalloc.inspect(network, crossbar=CROSSBAR).minimum
    arrays = minimum + spare

    def found(**options: Any) -> rramalloc.Allocation:
        return rramalloc.optimize(network, arrays, crossbar=CROSSBAR, **options)

    once = found(method="none")
    copies, modes = found(), found(mapping="sdk")
    row = Row(
        network=network, minimum=minimum, arrays=arrays, serial=batches(once),
        copied=batches(found(method="sequential")), divided=batches(found(method="cim-mlc")),
        overlapped=once.makespan, copies=copies.makespan, copies_bound=round(copies.lower_bound),
        modes=modes.makespan, modes_bound=round(modes.lower_bound),
    )  # fmt: skip
    return [row]


def batches(allocation: rramalloc.Allocation) -> int:
    """Steps of all layers, one after the other."""
    return sum(layer.batches for layer in allocation.layers)


def with_gap(value: int, bound: int) -> str:
    return f"{value:,} (optimal)" if bound >= value else f"{value:,} ({1 - bound / value:.1%})"


INTRODUCTION = f"""\
CLSA-CIM (Pelke et al., DATE 2024, arXiv 2401.07671) copies layers into a few spare arrays of 256 x 256 and
lets layers overlap; it reports up to {PUBLISHED} times the speed of layers that run in turn with one copy.
Here are its networks, with the fewest arrays that hold them (one cell a weight, classifiers on the host) and
16 or 32 more, by exact timing. It hands on sets of pixels, here each pixel is handed on one step after it is
computed, and digital operators take no time: the ratios are of the same quantities, not of one simulator.

- in turn: steps of all layers, one after the other, with one copy, with the copies of the least sum
  (`--method sequential`) and with those of CIM-MLC's rule (`--method cim-mlc`)
- overlapped: exact makespan with one copy, with the best copies (mapping im2col) and with the best modes
  (mapping sdk), default work, seed 0; in brackets the distance from the lower bound
- x one, x best: times the speed of layers in turn with one copy, and with the best copies
"""


def answer(rows: Sequence[Row]) -> str:
    """Return how much faster copies and modes are than layers in turn."""
    gains, modes_gains = [row.gain for row in rows], [row.modes_gain for row in rows]
    proven = sum(row.copies_bound >= row.copies for row in rows)
    gap = statistics.median(1 - row.modes_bound / row.modes for row in rows)
    return (
        f"**With the best copies {statistics.median(gains):.1f} times as fast in the median** "
        f"({min(gains):.1f} to "
        f"{max(gains):.1f}) as layers in turn with one copy, {proven} of {len(rows)} cases proven optimal; "
        f"with the "
        f"best modes {statistics.median(modes_gains):.1f} times ({min(modes_gains):.1f} to "
        f"{max(modes_gains):.1f}), "
        f"{gap:.1%} from the bound in the median."
    )


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what is compared, and the table."""
    table = [
        ["network", "arrays", "in turn, one", "best copies", "CIM-MLC", "overlapped, one", "best copies",
         "x one", "x best", "best modes", "x one"],
    ]  # fmt: skip
    table += [
        [
            row.network, f"{row.minimum} + {row.spare}", f"{row.serial:,}", f"{row.copied:,}",
            f"{row.divided:,}", f"{row.overlapped:,}", with_gap(row.copies, row.copies_bound),
            f"**{row.gain:.1f}**", f"{row.over_copied:.1f}", with_gap(row.modes, row.modes_bound),
            f"**{row.modes_gain:.1f}**",
        ]
        for row in rows
    ]  # fmt: skip
    yield from (INTRODUCTION, *markdown(table))


STUDY = Study(
    title="Layers at the same time against layers in turn",
    question=(
        "How much faster is a network whose layers overlap than one whose layers run in turn, with few "
        "arrays?"
    ),
    row=Row,
    cases=list(product(NETWORKS, SPARE)),
    measure=run,
    answer=answer,
    body=body,
    decided_by=SEARCHED,
)
