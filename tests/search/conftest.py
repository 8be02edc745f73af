"""Tests of this folder are of searches, however small their problems are."""

from __future__ import annotations

import pytest

from rramalloc.search import front, objective


@pytest.fixture(autouse=True)
def searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave small problems to the search, too, instead of timing all of their allocations."""
    for module in (front, objective):
        monkeypatch.setattr(module, "every_choice", lambda *_: None)
