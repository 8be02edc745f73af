"""Draw the figures of the documentation anew: `python docs/figures.py [PAGE...]`, without a page all of them.

The pictures of the first page are drawn here. Every other figure is drawn by a command of the page that shows
it; this follows those pages in a temporary folder and keeps what their commands drew in docs/figures/.
"""

from __future__ import annotations

import csv
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent / "tests"))

from pages import follow  # noqa: E402 - where the tests keep it

SHOWN = re.compile(r"\]\(figures/([\w-]+\.svg)\)")
COMPARED = (
    *("alexnet", "resnet18", "squeezenet", "mobilenet_v2", "inception_v1", "densenet121", "unet", "vit_b16"),
)
RIVALS = (
    *("bottleneck", "proportional", "lagrange", "genetic", "annealing", "milp", "isaac", "cim-mlc"),
    *("neurosim", "balance"),
)
INK, GREY, PALE, BLUE, ORANGE = "#222222", "#8a8a8a", "#eeeeee", "#2f6db5", "#e08a1e"


class Picture:
    """Shapes of an SVG, in the order in which they are drawn."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" font-family="sans-serif" font-size="13">\n<title>{title}</title>\n'
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
            f'orient="auto"><path d="M0 0L8 4L0 8z" fill="{INK}"/></marker></defs>\n'
            f'<rect width="{width}" height="{height}" fill="white"/>\n'
        )
        self.shapes: list[str] = []

    def box(self, at: tuple[float, float], size: tuple[float, float], fill: str, line: str = INK) -> None:
        """Draw a rectangle with its upper left corner at `at`."""
        self.shapes.append(
            f'<rect x="{at[0]:g}" y="{at[1]:g}" width="{size[0]:g}" height="{size[1]:g}" fill="{fill}" '
            f'stroke="{line}" stroke-width="{1 if fill != "none" else 3}"/>'
        )

    def line(self, start: tuple[float, float], end: tuple[float, float], colour: str = INK) -> None:
        """Draw a line; a black one is an arrow."""
        tip = ' marker-end="url(#tip)"' if colour == INK else ""
        self.shapes.append(
            f'<path d="M{start[0]:g} {start[1]:g}L{end[0]:g} {end[1]:g}" stroke="{colour}" '
            f'stroke-width="1.5"{tip}/>'
        )

    def dot(self, at: tuple[float, float], radius: float, fill: str) -> None:
        """Draw a disc around `at`."""
        self.shapes.append(
            f'<circle cx="{at[0]:.5g}" cy="{at[1]:g}" r="{radius:g}" fill="{fill}" stroke="white"/>'
        )

    def text(self, at: tuple[float, float], words: str, anchor: str = "start") -> None:
        """Write words from `at`, around it (`middle`), or up to it (`end`)."""
        self.shapes.append(
            f'<text x="{at[0]:g}" y="{at[1]:g}" text-anchor="{anchor}" fill="{INK}">{words}</text>'
        )

    def grid(
        self, at: tuple[float, float], rows: int, columns: int, cell: float, fills: Mapping[int, str]
    ) -> None:
        """Draw a grid of pixels; fills: colours by number in raster order."""
        for number in range(rows * columns):
            row, column = divmod(number, columns)
            self.box(
                (at[0] + column * cell, at[1] + row * cell), (cell, cell), fills.get(number, "white"), GREY
            )

    def svg(self) -> str:
        """Return the file."""
        return self.head + "\n".join(self.shapes) + "\n</svg>\n"


def crossbar() -> str:
    """Draw one array: a window on the wordlines, one output pixel on the bitlines."""
    picture = Picture(640, 290, "A crossbar computes one output pixel of a layer in a step")
    window = {row * 6 + column: BLUE for row in (1, 2) for column in (1, 2)}
    picture.text((20, 30), "input feature map")
    picture.grid((20, 45), 6, 6, 20, window)
    picture.text((20, 190), "one window: here 2 x 2,")
    picture.text((20, 207), "K_h x K_w x C_in values")
    left, top, pitch = 250, 60, 24
    picture.line((150, 105), (left - 30, 105))
    for row in range(7):
        picture.line((left - 18, top + row * pitch), (left + 7 * pitch, top + row * pitch), GREY)
    for column in range(7):
        picture.line((left + column * pitch, top - 14), (left + column * pitch, top + 7 * pitch), GREY)
    for row in range(7):
        for column in range(7):
            holds = row < 4 and column < 4
            picture.box(
                (left + column * pitch - 6, top + row * pitch - 6), (12, 12), BLUE if holds else PALE, GREY
            )
    picture.text((left + 72, 30), "array: each cell holds (part of) a weight", "middle")
    picture.text((left + 7 * pitch + 8, top + 24), "wordlines:")
    picture.text((left + 7 * pitch + 8, top + 41), "one input value each")
    picture.text((left + 7 * pitch + 8, top + 100), "blue: cells that hold")
    picture.text((left + 7 * pitch + 8, top + 117), "weights of the layer")
    for column in range(4):
        picture.line((left + column * pitch, top + 7 * pitch), (left + column * pitch, top + 7 * pitch + 22))
    picture.text(
        (left - 18, top + 7 * pitch + 42), "bitlines: sums of products = all output channels of one pixel"
    )
    return picture.svg()


def copies_of_weights() -> str:
    """Draw the output pixels of a layer that is stored once, and of one that is stored four times."""
    picture = Picture(640, 270, "A layer that is stored four times computes four output pixels in a step")
    for left, copies in ((20, 1), (330, 4)):
        batch = {number: BLUE if number < copies else ORANGE for number in range(2 * copies)}
        name = "copy of the weights" if copies == 1 else "copies of the weights"
        picture.text((left, 30), f"{copies} {name}")
        for copy in range(copies):
            picture.box((left + 30 * copy, 45), (24, 24), PALE)
        picture.grid((left, 85), 6, 6, 18, batch)
        picture.text((left + 120, 100), "output pixels of the")
        picture.text((left + 120, 117), "first step (blue) and")
        picture.text((left + 120, 134), "the second (orange)")
        steps = 36 // copies
        picture.text((left, 225), f"36 windows take {steps} steps")
        for step in range(steps):
            fill = BLUE if step == 0 else ORANGE if step == 1 else PALE
            picture.box((left + 7 * step, 236), (7, 14), fill, GREY)
    return picture.svg()


def parallel_window() -> str:
    """Draw the cells of VGG-16's first layer in an array of 128 x 128, without and with a shifted kernel."""
    picture = Picture(640, 290, "A parallel window computes two output pixels in a step on the same array")
    for left, pixels in ((20, 1), (330, 2)):
        window = {row * 4 + column: PALE for row in range(3) for column in range(2 + pixels)}
        picture.text((left, 30), f"block 1 x {pixels}: {pixels} output pixel{'s' * (pixels > 1)} a step")
        picture.grid((left, 50), 3, 4, 22, window)
        for pixel, colour in zip(range(pixels), (BLUE, ORANGE), strict=False):
            picture.box(
                (left + 22 * pixel + 3 * pixel, 50 + 3 * pixel),
                (66 - 6 * pixel, 66 - 6 * pixel),
                "none",
                colour,
            )
        picture.text((left, 137), f"3 x {2 + pixels} inputs")
        picture.text((left, 154), "of 3 channels")
        array, unit = left + 110, 170 / 128
        picture.box((array, 50), (170, 170), "white")
        rows = 9 * (2 + pixels)
        for pixel, colour in zip(range(pixels), (BLUE, ORANGE), strict=False):
            for start in range(rows // (2 + pixels)):
                top = start * (2 + pixels) + pixel
                picture.box(
                    (array + 64 * unit * pixel, 50 + top * unit), (64 * unit, 3 * unit), colour, colour
                )
        picture.text((array, 240), f"{rows} wordlines, {64 * pixels} bitlines in use")
        picture.text((array, 257), "of an array of 128 x 128")
    picture.text(
        (20, 280),
        "Of every row of four inputs the kernel uses the first three, its shifted copy the last three.",
    )
    return picture.svg()


def bound() -> str:
    """Draw how far methods of results/comparison.csv are above the proven bound."""
    picture = Picture(
        640, 290, "No allocation is left of the line: makespans of methods over the proven bound"
    )
    left, right, top, pitch, longest = 130, 610, 62, 26, 2.0
    rows = [row for row in _compared() if row["network"] in COMPARED]
    picture.text((left, 24), "makespan over the proven lower bound, twice the fewest arrays of 128 x 128")
    scale = (right - left) / (longest - 1)
    for tick in (1.0, 1.25, 1.5, 1.75, 2.0):
        picture.text((left + (tick - 1) * scale, 46), f"x{tick:g}", "middle")
    bottom = top + pitch * (len(COMPARED) - 1)
    picture.box((left - 1, top - 10), (2, bottom - top + 20), INK)
    for number, network in enumerate(COMPARED):
        height = top + number * pitch
        picture.text((left - 14, height + 4), network, "end")
        picture.line((left, height), (right, height), PALE)
        methods = {row["method"]: row for row in rows if row["network"] == network}
        steps = float(methods["auto"]["lower_bound"])
        for method in (*RIVALS, "auto"):
            ratio = float(methods[method]["makespan"]) / steps if method in methods else longest + 1
            if ratio <= longest:
                colour = BLUE if method == "auto" else ORANGE
                picture.dot((left + (ratio - 1) * scale, height), 6 if method == "auto" else 4, colour)
    picture.text((left - 4, 276), "no allocation is left of the line")
    picture.dot((left + 216, 272), 6, BLUE)
    picture.text((left + 228, 276), "rramalloc")
    picture.dot((left + 310, 272), 4, ORANGE)
    picture.text((left + 320, 276), f"{len(RIVALS)} methods; some beyond x{longest:g}")
    return picture.svg()


def _compared() -> list[dict[str, str]]:
    """Return the rows of the measured comparison with twice the fewest arrays."""
    with (DOCS.parent / "results" / "comparison.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    first = {row["network"]: row["arrays"] for row in reversed(rows)}
    return [row for row in rows if row["arrays"] == first[row["network"]]]


PICTURES: Mapping[str, Callable[[], str]] = {
    "crossbar.svg": crossbar,
    "copies.svg": copies_of_weights,
    "parallel_window.svg": parallel_window,
    "bound.svg": bound,
}
"""Figures that no command of a page draws."""


def shown(page: Path) -> list[str]:
    """Return the figures that a page shows."""
    return SHOWN.findall(page.read_text(encoding="utf-8"))


def main(names: list[str]) -> None:
    """Draw the pictures, follow each page with figures, and keep all of them."""
    figures = DOCS / "figures"
    figures.mkdir(exist_ok=True)
    for page in [DOCS / name for name in names] or sorted(DOCS.glob("*.md")):
        drawn = [name for name in shown(page) if name in PICTURES]
        for name in drawn:
            (figures / name).write_text(PICTURES[name](), encoding="utf-8")
            print(f"{page.name}: {name}")
        made = [name for name in shown(page) if name not in PICTURES]
        if not made:
            continue
        with tempfile.TemporaryDirectory() as folder:
            follow(page.read_text(encoding="utf-8"), Path(folder), DOCS / "examples")
            for name in made:
                shutil.copy(Path(folder, name), figures / name)
                print(f"{page.name}: {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
