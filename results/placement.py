"""How fast networks are with the transfers of their placement, and how long `place` takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pages import TIMED, Study, markdown

import rramalloc
from rramalloc.hardware.hardware import Hardware

OWN = (
    ("resnet18", "x1.1"), ("alexnet", "x2"), ("vgg16", "x1.1"), ("alexnet", "x1.1"), ("squeezenet", "x2"),
    ("mobilenet_v2", "x1.1"), ("shufflenet", "x2"), ("inception_v1", "x2"), ("mobilenet_v1", "x4"),
)  # fmt: skip
ISAAC = (
    ("densenet121", "x1.1"), ("inception_v1", "x2"), ("resnet18", "x1.1"), ("resnet18", "x2"),
    ("vgg16", "x1.1"), ("alexnet", "x2"), ("inception_v1", "x1.1"), ("mobilenet_v1", "x2"),
    ("shufflenet", "x2"), ("squeezenet", "x2"), ("densenet121", "x2"),
)  # fmt: skip
BEFORE = {
    "resnet18 x1.1 own": (1.33, 9388021), "alexnet x2 own": (1.28, 1736796),
    "vgg16 x1.1 own": (1.07, 37606035), "alexnet x1.1 own": (1.0, 1297421),
    "squeezenet x2 own": (1.0, 1647834), "mobilenet_v2 x1.1 own": (1.0, 5316858),
    "shufflenet x2 own": (5.05, 37490108), "inception_v1 x2 own": (2.24, 15501702),
    "mobilenet_v1 x4 own": (1.0, 9742298), "densenet121 x1.1 isaac": (1.0, 77998592),
    "inception_v1 x2 isaac": (1.28, 29543602), "resnet18 x1.1 isaac": (1.0, 25083206),
    "resnet18 x2 isaac": (1.93, 49497778), "vgg16 x1.1 isaac": (1.0, 108700032),
    "alexnet x2 isaac": (1.0, 4390130), "inception_v1 x1.1 isaac": (1.0, 15555330),
    "mobilenet_v1 x2 isaac": (1.0, 13117391), "shufflenet x2 isaac": (3.15, 59254971),
    "squeezenet x2 isaac": (1.0, 3284474), "densenet121 x2 isaac": (1.84, 137436942),
}  # fmt: skip
"""Latency with transfers to that without, and byte hops, of version f428ef74, which searched by byte hops."""


@dataclass(frozen=True)
class Row:
    """A placement of copies that were chosen without transfers.

    arrays: in use; factor: latency with transfers to that without; byte_hops, seconds: where links take time,
    and where they take none (plain).
    """

    network: str
    budget: str
    hardware: str
    arrays: int
    factor: float
    byte_hops: float
    seconds: float
    plain_byte_hops: float
    plain_seconds: float


def hardware(name: str, *, timed: bool) -> Hardware:
    """Return 8 x 8 tiles of 16 arrays (own), or the preset, with times of links or without."""
    if name == "own":
        document = rramalloc.load_hardware("plain").to_dict() | {
            "name": "own",
            "crossbar": {"wordlines": 128, "bitlines": 128, "cell_bits": 8},
            "precision": {"weight_bits": 8, "input_bits": 8, "output_bits": 8, "signed": "offset"},
            "timing": {"step_ns": 400.0},
            "chip": {"arrays_per_tile": 16, "tiles": [8, 8], "chips": [1, 1]},
        }
        machine, hop_ns = Hardware.model_validate(document), 2.0
    else:
        machine, hop_ns = rramalloc.load_hardware(name), 1.0
    links = {"chip.hop_ns_tile": hop_ns, "chip.bandwidth_tile_gb_s": 4.0}
    return machine.with_values(links) if timed else machine


def run(network: str, budget: str, name: str) -> list[Row]:
    """Place one allocation on a chip with times of links, and without."""
    rramalloc.place("alexnet", {}, hardware=hardware("own", timed=True))  # loads compiled code
    allocation = rramalloc.optimize(network, budget, hardware=hardware(name, timed=True), work=4)
    seconds, placements = [], []
    for timed in (True, False):
        begun = time.perf_counter()
        placements.append(rramalloc.place(network, allocation, hardware=hardware(name, timed=timed)))
        seconds.append(round(time.perf_counter() - begun, 2))
    timed_one, plain = placements
    factor = 1.0 if timed_one.factor is None else round(timed_one.factor, 4)
    row = Row(
        network, budget, name, len(plain.arrays), factor, timed_one.traffic.cost, seconds[0],
        plain.traffic.cost, seconds[1],
    )  # fmt: skip
    return [row]


def _before(row: Row) -> tuple[float, float]:
    return BEFORE[f"{row.network} {row.budget} {row.hardware}"]


def answer(rows: Sequence[Row]) -> str:
    """Return in how many cases all transfer is hidden, and the change of byte hops."""
    hidden = sum(row.factor <= 1 for row in rows)
    change = statistics.median(row.plain_byte_hops / _before(row)[1] - 1 for row in rows)
    return (
        f"**In {hidden} of {len(rows)} cases transfers take no time beside the computation; without times of "
        f"links {-100 * change:.0f} % fewer byte hops than before (median)**."
    )


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what is placed, and the table."""
    yield (
        "Copies by `optimize --work 4` without transfers, then `place` with its defaults. own: 8 x 8 tiles "
        "of 16 arrays, 400 ns a step, links of 2 ns and 4 GB/s; isaac: links of 1 ns and 4 GB/s. Factor: "
        "latency with transfers to that without; byte hops in millions an input, with times of links and "
        "without; before: version f428ef74, which searched by byte hops and shared the inputs of cut copies "
        "out among their tiles."
    )
    yield ""
    table = [
        ["network", "arrays", "hardware", "factor before", "factor", "byte hops", "s", "without times before",
         "without times", "change", "s"]
    ]  # fmt: skip
    for row in rows:
        factor, hops = _before(row)
        change = 100 * (row.plain_byte_hops / hops - 1)
        table.append(
            [
                f"{row.network} {row.budget}", f"{row.arrays:,}", row.hardware, f"x{factor:.2f}",
                f"x{row.factor:.2f}", f"{row.byte_hops / 1e6:.2f}", f"{row.seconds:.1f}", f"{hops / 1e6:.2f}",
                f"{row.plain_byte_hops / 1e6:.2f}", f"{change:+.1f} %", f"{row.plain_seconds:.1f}",
            ]
        )  # fmt: skip
    yield from markdown(table)


STUDY = Study(
    title="Placement",
    question="Do transfers between tiles slow networks down, and how long does placing take?",
    row=Row,
    cases=[(*case, name) for name, cases in (("own", OWN), ("isaac", ISAAC)) for case in cases],
    measure=run,
    answer=answer,
    body=body,
    decided_by=(*TIMED, "commands/place"),
    alone=True,
)
