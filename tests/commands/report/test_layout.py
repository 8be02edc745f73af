"""Screenshots of the page, compared with how it is meant to be laid out.

The pictures in `layout/` are those screenshots as cells of grey. Text is set in the font that comes with
Matplotlib, so that neither they nor a comparison depend on the fonts of a machine.
"""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from commands.report.visit import WIDTHS

mpl = pytest.importorskip("matplotlib")
images = pytest.importorskip("matplotlib.image")
pytestmark = pytest.mark.browser
CELL = 16
MOST_DIFFERENT = 0.03
"""Share of cells that may differ: a browser draws letters and lines a little differently from the next."""
DIFFERENT = 0.1
EVERYWHERE = "* { font-family: same !important; text-rendering: geometricPrecision !important; }"
"""Without hints to fit a screen's pixels, a letter is as wide everywhere."""

Grey = npt.NDArray[np.float64]


def font_style() -> str:
    faces = []
    for file, weight in (("DejaVuSans.ttf", "400"), ("DejaVuSans-Bold.ttf", "600")):
        font = base64.b64encode((Path(mpl.get_data_path()) / "fonts" / "ttf" / file).read_bytes()).decode()
        source = f"url(data:font/ttf;base64,{font})"
        faces.append(f"@font-face {{ font-family: same; font-weight: {weight}; src: {source}; }}")
    return "".join(faces) + EVERYWHERE


def cells(picture: bytes) -> Grey:
    """Mean grey of every square of CELL x CELL pixels, from 0 to 1."""
    grey = images.imread(io.BytesIO(picture))[..., :3].mean(axis=2, dtype=np.float64)
    rows, columns = grey.shape[0] // CELL, grey.shape[1] // CELL
    whole = grey[: rows * CELL, : columns * CELL]
    found: Grey = whole.reshape(rows, CELL, columns, CELL).mean(axis=(1, 3))
    return found


def difference(one: Grey, two: Grey) -> float:
    """Share of cells that differ; those that only one picture has differ."""
    rows = min(len(one), len(two))
    same = int((np.abs(one[:rows] - two[:rows]) <= DIFFERENT).sum())
    return 1 - same / max(one.size, two.size)


@pytest.mark.parametrize("width", WIDTHS)
def test_layout(width: int, visit: Any, shown: dict[str, Path], tmp_path: Path) -> None:
    page = visit(shown, width=width, style=font_style()).page
    seen = cells(page.screenshot(full_page=True))
    new = tmp_path / f"{width}.png"
    images.imsave(new, seen, cmap="gray", vmin=0, vmax=1)
    meant = images.imread(Path(__file__).parent / "layout" / f"{width}.png")[..., 0].astype(np.float64)
    assert difference(seen, meant) <= MOST_DIFFERENT, f"look at {new}: if it is right, it is the layout now"
    for rule in ("nav { display: none }", ".facts { display: block }", ".chart { margin-left: 6rem }"):
        page.add_style_tag(content=rule)
        page.wait_for_timeout(300)
        assert difference(cells(page.screenshot(full_page=True)), meant) > MOST_DIFFERENT, rule
