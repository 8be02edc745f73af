"""What the code cites is in the repository: the file, and the section of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "docs" / "sources"
CODE = sorted(
    path
    for folder in ("rramalloc", "tests", "results", "networks")
    for path in (ROOT / folder).rglob("*.py")
    if path != Path(__file__).resolve()
)
PAGE = re.compile(r"(?P<path>(?:[\w-]+/)*[\w-]+\.md)\b(?:,?\s+(?P<section>\d+))?")
WRITTEN_BY_TESTS = {"NAME.md", "README.md", "page.md", "reuse.md", "squares.md"}
"""Names that code gives to files that it writes; NAME stands for any."""


def headings(page: Path) -> set[str]:
    return set(re.findall(r"^## (\d+)\.", page.read_text(encoding="utf-8"), re.MULTILINE))


def citations(path: Path) -> Iterator[tuple[int, str, str | None]]:
    """Line, page and section of every page that a file names."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for found in PAGE.finditer(line):
            yield number, found["path"], found["section"]


def missing(path: Path) -> list[str]:
    """Citations of a file that lead nowhere."""
    wrong = []
    for number, page, section in citations(path):
        if Path(page).name in WRITTEN_BY_TESTS:
            continue
        if (ROOT / "results" / page).with_suffix(".py").is_file():
            continue  # results/all.py writes it
        here = [place for place in (ROOT / page, path.parent / page, ROOT / "docs" / page) if place.is_file()]
        where = f"{path.relative_to(ROOT)}:{number}: {page}"
        if not here:
            wrong.append(f"{where} is not in the repository")
        elif section is not None and here[0].is_relative_to(SOURCES) and section not in headings(here[0]):
            wrong.append(f"{where} has no section {section}")
    return wrong


def test_every_cited_page_and_section_is_there() -> None:
    assert [wrong for path in CODE for wrong in missing(path)] == []
