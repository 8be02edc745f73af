"""How soon a browser shows the page of large results: `python results/first_paint.py`.

Prints size, first paint and the time until all charts are drawn, for DenseNet-121, a chain of 1,000 stages
and a placement of VGG-16 on ISAAC. Needs playwright and Chromium (or RRAMALLOC_CHROMIUM).
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

import rramalloc
from rramalloc.commands.report.report import report

_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


def pages(folder: Path) -> Iterator[tuple[str, Path]]:
    """Name and file of every page."""
    dense = rramalloc.optimize("densenet121", arrays=8192, hardware="isaac", work=1)
    nodes: list[dict[str, Any]] = [{"name": "input", "op": "input", "shape": [8, 32, 32]}]
    for number in range(1000):
        inputs = [nodes[-1]["name"]]
        node = {
            "name": f"stage_{number}",
            "op": "conv",
            "inputs": inputs,
            "out_channels": 8,
            "kernel": 3,
            "pads": 1,
        }
        nodes.append(node)
    chain = folder / "chain.json"
    chain.write_text(json.dumps({"format": "rramalloc-network/1", "name": "chain", "nodes": nodes}))
    thousand = rramalloc.optimize(chain, arrays=3000, method="uniform", work=0)
    vgg = rramalloc.optimize("vgg16", arrays=12000, hardware="isaac", work=1)
    results: dict[str, list[Any]] = {
        "densenet121": [dense],
        "1,000 stages": [thousand],
        "placement of 12,000 arrays": [vgg, rramalloc.place("vgg16", vgg)],
    }
    for name, shown in results.items():
        path = folder / f"{len(name)}.html"
        report(shown, path, networks=[str(chain)])
        yield name, path


def main() -> None:
    """Print a line a page."""
    chromium = os.environ.get("RRAMALLOC_CHROMIUM") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, path in pages(Path(folder)):
            page = browser.new_page()
            begun = time.perf_counter()
            page.goto(path.as_uri())
            page.wait_for_selector("html[data-drawn]", state="attached")
            drawn_s = time.perf_counter() - begun
            paint_s = page.evaluate(_PAINT) / 1000
            print(f"{name:<28} {path.stat().st_size:>9,} bytes  paint {paint_s:.2f} s  drawn {drawn_s:.2f} s")
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
