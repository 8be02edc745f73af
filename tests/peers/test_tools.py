"""The checkouts of the real tools."""

from __future__ import annotations

from pathlib import Path

import pytest
from peers.tools import TOOLS, build, needs_tools


@needs_tools
@pytest.mark.parametrize("name", [name for name, tool in TOOLS.items() if not tool.commands])
def test_a_checkout_is_made_once(name: str) -> None:
    folder: Path = build(name)
    made = folder.stat().st_ctime_ns
    assert any(folder.iterdir())
    assert build(name) == folder
    assert folder.stat().st_ctime_ns == made
