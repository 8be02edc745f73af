"""How long `place` takes for 16,384 arrays, and how far its traffic is from the bound.

Writes results/placement.md:  python results/placement.py
"""

from __future__ import annotations

import time
from pathlib import Path

import rramalloc
from rramalloc.hardware.hardware import Chip, Hardware

NETWORKS = ("vgg16", "resnet50", "densenet121", "mobilenet_v2")
CHIPS = ((1, (160, 160)), (16, (40, 40)), (144, (12, 12)))
ARRAYS = 16_384
RESULT = Path(__file__).resolve().parent / "placement.md"

HEAD = """# Placement

Copies by `lagrange` for 16,384 arrays of 128 x 128. Seconds of `place` with the defaults (goal: 10 s);
traffic in millions of byte hops per input: as constructed, improved, and the lower bound. With more than
4,096 tiles in reach nothing is improved. The seconds were taken while other programs used the cores, two to
three times what free cores need. Regenerate with `python results/placement.py`.

| network | tiles | arrays | s | constructed | improved | bound |
|---|---|---|---|---|---|---|"""


def hardware(arrays_per_tile: int, tiles: tuple[int, int]) -> Hardware:
    """The plain preset on one chip."""
    chip = Chip(arrays_per_tile=arrays_per_tile, tiles=tiles, chips=(1, 1))
    return rramalloc.load_hardware("plain").model_copy(update={"chip": chip})


def row(network: str, arrays_per_tile: int, tiles: tuple[int, int]) -> str:
    """One placement, timed."""
    machine = hardware(arrays_per_tile, tiles)
    head = f"| {network} | {tiles[0]} x {tiles[1]} of {arrays_per_tile} |"
    allocation = rramalloc.optimize(network, ARRAYS, hardware=machine, method="lagrange", work=1)
    begun = time.perf_counter()
    placement = rramalloc.place(network, allocation)
    seconds, traffic = time.perf_counter() - begun, placement.traffic
    mega = [f"{value / 1e6:.1f}" for value in (traffic.constructed, traffic.cost, traffic.lower_bound)]
    return f"{head} {len(placement.arrays):,} | {seconds:.1f} | {' | '.join(mega)} |"


def main() -> None:
    """Measure and write the page."""
    rramalloc.place("alexnet", {}, hardware="isaac-todaes")
    lines = [HEAD]
    for network in NETWORKS:
        for arrays_per_tile, tiles in CHIPS:
            lines.append(row(network, arrays_per_tile, tiles))
            print(lines[-1], flush=True)
    RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
