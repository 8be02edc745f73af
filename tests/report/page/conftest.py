"""Results that all tests of the page share: they are made once."""

from __future__ import annotations

from pathlib import Path

import pytest
from report.page.results import HOSTILE, write_all


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_all(tmp_path_factory.mktemp("tiny"), ("conv1", "conv2", "conv3"))


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_all(
        tmp_path_factory.mktemp("hostile"), HOSTILE[:5], "</title><script>window.hit = 3</script>"
    )
