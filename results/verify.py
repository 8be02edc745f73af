"""Speed of `verify`: VGG-16 on 32 x 32 pixels for several kinds of storage, and full size.

Writes results/verify.md:  python results/verify.py
"""

from __future__ import annotations

import time
from pathlib import Path

from rramalloc.allocation.case import Case
from rramalloc.api import optimize
from rramalloc.choices import Mapping
from rramalloc.commands.verify.verify import verify
from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.network import Network

RESULT = Path(__file__).resolve().parent / "verify.md"
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


def main() -> None:
    """Measure and write the page."""
    rows = []
    for side, preset, mapping in CASES:
        network, hardware = vgg16(side), load_hardware(preset)
        arrays = 2 * Case(network, hardware, MappingOptions(mapping=mapping)).minimum
        allocation = optimize(network, arrays, hardware=hardware, mapping=mapping, work=0)
        begun = time.perf_counter()
        result = verify(network, allocation)
        seconds = time.perf_counter() - begun
        name = f"{side} x {side} | {preset} | {mapping}"
        rows.append(f"| {name} | {result.arrays} | {result.verdict} | {seconds:.1f} |")
        print(rows[-1], flush=True)
    head = "| input | hardware | mapping | arrays | verdict | seconds |\n|---|---|---|---|---|---|\n"
    intro = (
        "# Speed of `verify`\n\nMade by `python results/verify.py`. VGG-16 with twice its least arrays, "
        "convolutions on arrays and the classifier on the host; seconds of the whole check, reference and "
        "placing included.\n\n"
    )
    RESULT.write_text(intro + head + "\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
