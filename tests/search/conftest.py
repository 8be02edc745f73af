"""Tests of this folder are of searches, however small their problems are."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def searched(no_enumeration: None) -> None:
    """Leave small problems to the search, too."""
