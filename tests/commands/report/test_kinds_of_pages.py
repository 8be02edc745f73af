"""Pages of every kind in a browser, of inputs that are hard to draw: no two labels touch or read alike.

RRAMALLOC_SCREENSHOTS: a folder that gets a picture of each, to be looked at.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from commands.report.results import write_network
from commands.report.visit import Visit

import rramalloc
from rramalloc.commands.report.report import report

pytestmark = pytest.mark.browser
NAMES = tuple(
    f"/features/denseblock{block}/denselayer{layer}/conv{conv}/Conv"
    for block, layer, conv in product((1, 2), range(1, 7), (1, 2))
)
CHIP = """
name = "chip"
source = "made for a test"
crossbar = {wordlines = 64, bitlines = 32, cell_bits = 8}
precision = {weight_bits = 8, input_bits = 8, output_bits = 8, signed = "offset"}
timing = {step_ns = 100.0}
energy = {area_um2 = 25.0, read_pj = 2.0, leakage_mw = 0.01, periphery_um2 = 100.0, pj_per_byte = 1.0}
chip = {arrays_per_tile = 8, tiles = TILES, chips = [1, 1], hop_ns_tile = 1.0, bandwidth_tile_gb_s = 2.0}
"""
KINDS = """
[[kinds]]
name = "small"
tiles = 12
[[kinds]]
name = "large"
tiles = 12
crossbar = {wordlines = 128, bitlines = 128}
energy = {area_um2 = 350.0}
"""
LABELS = """
() => [...document.querySelectorAll('.plot .role-axis')].flatMap((axis) => {
  const labels = [...axis.querySelectorAll('.role-axis-label text')]
    .filter((text) => text.textContent && text.getAttribute('opacity') !== '0');
  const bad = [];
  for (const [place, one] of labels.entries())
    for (const two of labels.slice(place + 1)) {
      const [a, b] = [one, two].map((text) => text.getBoundingClientRect());
      const across = Math.max(a.left, b.left) - Math.min(a.right, b.right);
      const down = Math.max(a.top, b.top) - Math.min(a.bottom, b.bottom);
      const slanted = one.getAttribute('transform').includes('rotate(300');
      const touch = across < 3 && down < 0 && !slanted;
      if (touch || one.textContent === two.textContent) bad.push([one.textContent, two.textContent]);
    }
  return bad;
})
"""
"""Pairs of labels of an axis that read alike or touch; boxes of slanted ones overlap, the labels do not."""
GOES_ON = """
() => [...document.querySelectorAll('.scroll')].filter((box) => box.checkVisibility())
  .map((box) => [box.scrollHeight > box.clientHeight + 1, getComputedStyle(box, '::after').content])
"""


def hardware(folder: Path, tiles: str = "[6, 6]", more: str = "") -> Path:
    path = folder / "chip.toml"
    path.write_text(CHIP.replace("TILES", tiles) + more)
    return path


def an_allocation(folder: Path) -> list[Any]:
    network = write_network(
        folder / "network.json", NAMES, "torchvision_densenet121_exported_under_a_long_name", 8
    )
    found = rramalloc.optimize(network, arrays="x3", hardware=hardware(folder), work=1)
    return [found, rramalloc.simulate(network, found)]


def a_line_of_tiles(folder: Path) -> list[Any]:
    network = write_network(folder / "network.json", NAMES, "line", 8)
    machine = hardware(folder, "[1, 137]")
    return [rramalloc.place(network, rramalloc.optimize(network, arrays="x3", hardware=machine, work=1))]


def two_kinds(folder: Path) -> list[Any]:
    network = write_network(folder / "network.json", NAMES, "kinds", 8)
    found = rramalloc.optimize(network, hardware=hardware(folder, more=KINDS), work=1)
    return [found, rramalloc.place(network, found)]


def ten_networks(folder: Path) -> list[Any]:
    networks = [
        write_network(folder / f"{place}.json", NAMES[: 2 + place], f"net{place}_of_ten_with_a_long_name", 8)
        for place in range(10)
    ]
    methods = ["auto", "uniform", "isaac", "none"]
    return [rramalloc.compare([*map(str, networks)], ["x1.5", "x2"], methods=methods, work=1)]


def a_front_of_areas(folder: Path) -> list[Any]:
    network = write_network(folder / "network.json", NAMES[:6], "front", 16)
    machine = hardware(folder)
    against = {"objective": "energy", "against": "area"}
    return [
        rramalloc.pareto(network, 100, hardware=machine, work=2, baselines=["uniform"]),
        rramalloc.pareto(network, 100, hardware=machine, work=2, **against),
    ]


@pytest.mark.parametrize(
    "made",
    [an_allocation, a_line_of_tiles, two_kinds, ten_networks, a_front_of_areas],
    ids=lambda made: made.__name__,
)
def test_a_page(made: Callable[[Path], Sequence[Any]], browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    known = [] if made is ten_networks else [tmp_path / "network.json"]
    report(made(tmp_path), path, networks=[str(each) for each in known])
    for width, scheme in ((400, "dark"), (1200, "light")):
        visit = Visit(browser, path, width, scheme)
        visit.page.wait_for_timeout(200)
        if folder := os.environ.get("RRAMALLOC_SCREENSHOTS"):
            visit.page.screenshot(path=f"{folder}/{made.__name__}-{width}.png", full_page=True)
        assert visit.page.evaluate(LABELS) == []
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        boxes = visit.page.evaluate(GOES_ON)
        assert boxes
        assert all(scrolls == (shadow != "none") for scrolls, shadow in boxes), boxes
        visit.close()
