"""Draw the figures of the documentation anew: `python docs/figures.py [PAGE...]`, without a page all of them.

A figure is drawn by a command of the page that shows it; this follows those pages in a temporary folder and
keeps what their commands drew in docs/figures/.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent / "tests"))

from pages import follow  # noqa: E402 - where the tests keep it

SHOWN = re.compile(r"\]\(figures/([\w-]+\.svg)\)")


def shown(page: Path) -> list[str]:
    """The figures that a page shows."""
    return SHOWN.findall(page.read_text(encoding="utf-8"))


def main(names: list[str]) -> None:
    """Follow each page with figures and keep them."""
    figures = DOCS / "figures"
    figures.mkdir(exist_ok=True)
    for page in [DOCS / name for name in names] or sorted(DOCS.glob("*.md")):
        if not shown(page):
            continue
        with tempfile.TemporaryDirectory() as folder:
            follow(page.read_text(encoding="utf-8"), Path(folder), DOCS / "examples")
            for figure in shown(page):
                shutil.copy(Path(folder, figure), figures / figure)
                print(f"{page.name}: {figure}")


if __name__ == "__main__":
    main(sys.argv[1:])
