"""How long `place` takes for 16,384 arrays, and how far its traffic is from the bound."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pages import TIMED, Study, markdown

import rramalloc
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.tables import Chip

NETWORKS = ("vgg16", "resnet50", "densenet121", "mobilenet_v2")
CHIPS = ((1, 160), (16, 40), (144, 12))  # arrays of a tile, side of the grid of tiles
ARRAYS = 16_384


@dataclass(frozen=True)
class Row:
    """A placement: arrays, seconds, and byte hops of an input as constructed, improved, and bounded."""

    network: str
    arrays_per_tile: int
    side: int
    arrays: int
    seconds: float
    constructed: float
    improved: float
    lower_bound: float


def hardware(arrays_per_tile: int, tiles: tuple[int, int]) -> Hardware:
    """The plain preset on one chip."""
    chip = Chip(arrays_per_tile=arrays_per_tile, tiles=tiles, chips=(1, 1))
    return rramalloc.load_hardware("plain").model_copy(update={"chip": chip})


def run(network: str, arrays_per_tile: int, side: int) -> list[Row]:
    """Time one placement on a square of tiles."""
    rramalloc.place("alexnet", {}, hardware="isaac-todaes")  # loads compiled code
    machine = hardware(arrays_per_tile, (side, side))
    allocation = rramalloc.optimize(network, ARRAYS, hardware=machine, method="lagrange", work=1)
    begun = time.perf_counter()
    placement = rramalloc.place(network, allocation)
    seconds, traffic = time.perf_counter() - begun, placement.traffic
    row = Row(
        network, arrays_per_tile, side, len(placement.arrays), round(seconds, 2), traffic.constructed,
        traffic.cost, traffic.lower_bound,
    )  # fmt: skip
    return [row]


def answer(rows: Sequence[Row]) -> str:
    """Return the longest time."""
    return f"**16,384 arrays are placed in {max(row.seconds for row in rows):.1f} s at most**."


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what is placed, and the table."""
    yield (
        "Copies by `lagrange` for 16,384 arrays of 128 x 128; seconds of `place` with the defaults; "
        "traffic in millions "
        "of byte hops per input: as constructed, improved, and the lower bound. With more than 4,096 tiles "
        "in reach "
        "nothing is improved."
    )
    yield ""
    table = [["network", "tiles", "arrays", "s", "constructed", "improved", "bound"]]
    for row in rows:
        tiles = f"{row.side} x {row.side} of {row.arrays_per_tile}"
        mega = [f"{value / 1e6:.1f}" for value in (row.constructed, row.improved, row.lower_bound)]
        table.append([row.network, tiles, f"{row.arrays:,}", f"{row.seconds:.1f}", *mega])
    yield from markdown(table)


STUDY = Study(
    title="Placement",
    question="How long does placing take, and how far is the traffic between tiles from its bound?",
    row=Row,
    cases=[(network, *chip) for network in NETWORKS for chip in CHIPS],
    measure=run,
    answer=answer,
    body=body,
    decided_by=(*TIMED, "commands/place"),
    alone=True,
)
