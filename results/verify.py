"""Speed of `verify`: VGG-16 on 32 x 32 pixels for several kinds of storage, and full size."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from pages import TIMED, Study, markdown

from rramalloc.allocation.case import Case
from rramalloc.api import optimize
from rramalloc.choices import Mapping
from rramalloc.commands.verify.verify import verify
from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.network import Network

CASES: tuple[tuple[int, str, Mapping], ...] = (
    (32, "isaac-todaes", "im2col"),
    (32, "isaac", "im2col"),
    (32, "isaac", "kernel_split"),
    (32, "isaac", "whole_kernel"),
    (32, "mnsim", "im2col"),
    (224, "isaac-todaes", "im2col"),
)


def vgg16(side: int) -> Network:
    """VGG-16 on so many pixels a side; its classifier takes what is left of them."""
    nodes = load("vgg16").to_dict()["nodes"]
    nodes[0]["shape"] = [3, side, side]
    return Network.build(f"vgg16 at {side}", nodes)


@dataclass(frozen=True)
class Row:
    """A case: arrays, what `verify` says of them, and seconds."""

    side: int
    hardware: str
    mapping: str
    arrays: int
    verdict: str
    seconds: float


def run(side: int, preset: str, name: str) -> list[Row]:
    """Verify an allocation of twice the least arrays."""
    network, hardware, mapping = vgg16(side), load_hardware(preset), cast("Mapping", name)
    arrays = 2 * Case(network, hardware, MappingOptions(mapping=mapping)).minimum
    allocation = optimize(network, arrays, hardware=hardware, mapping=mapping, work=0)
    begun = time.perf_counter()
    result = verify(network, allocation)
    seconds = time.perf_counter() - begun
    return [Row(side, preset, name, result.arrays, result.verdict, round(seconds, 2))]


def answer(rows: Sequence[Row]) -> str:
    """Return the time of the largest check."""
    last = rows[-1]
    return (
        f"**The whole of VGG-16 on {last.side} x {last.side} pixels takes {last.seconds:.1f} s**; "
        f"{sum(row.verdict == 'equal' for row in rows)} of {len(rows)} checks say `equal`."
    )


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what is checked, and the table."""
    yield (
        "VGG-16 with twice its least arrays, convolutions on arrays and the classifier on the host; "
        "seconds of the "
        "whole check, reference and placing included."
    )
    yield ""
    table = [["input", "hardware", "mapping", "arrays", "verdict", "seconds"]]
    for row in rows:
        cells = [row.hardware, row.mapping, f"{row.arrays:,}", row.verdict, f"{row.seconds:.1f}"]
        table.append([f"{row.side} x {row.side}", *cells])
    yield from markdown(table)


STUDY = Study(
    title="Speed of `verify`",
    question="How long does it take to compute a network on its allocated arrays and compare every value?",
    row=Row,
    cases=CASES,
    measure=run,
    answer=answer,
    body=body,
    decided_by=(*TIMED, "commands/verify", "commands/place"),
    alone=True,
)
