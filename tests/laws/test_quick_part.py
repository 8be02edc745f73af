"""The quick part of the tests has something of every folder."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

TESTS = Path(__file__).parents[1]
WITH_TOOLS = ("peers",)
"""Folders that run tools which are not installed."""


def test_every_folder_has_a_quick_test() -> None:
    files = {path: "mark.quick" in path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py")}
    folders = {path.parent for path in files if path.parent.name not in WITH_TOOLS}
    without = [folder for folder in folders if not any(files[path] for path in folder.glob("test_*.py"))]
    assert without == []
    assert len(folders) > 20
