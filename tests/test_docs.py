"""Every page of the documentation can be followed, and shows what really comes out."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import follow

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_page_can_be_followed(page: Path, tmp_path: Path) -> None:
    assert follow(page.read_text(encoding="utf-8"), tmp_path, DOCS / "examples") > 0
