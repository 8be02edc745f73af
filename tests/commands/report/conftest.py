"""What all tests of the page share: results, made once, and a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands.report.results import HOSTILE, KINDS, write_all
from commands.report.visit import CHROMIUM, Visit

from rramalloc.commands.report.report import report


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_all(tmp_path_factory.mktemp("shown"), ("conv1", "conv2", "conv3"))


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_all(
        tmp_path_factory.mktemp("hostile"), HOSTILE[:5], "</title><script>window.hit = 3</script>"
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no chromium")
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def visit(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Opens the page of some files, named by the folder they are in: the page shows where they are."""
    opened: list[Visit] = []

    def call(files: dict[str, Path], *kinds: str, width: int = 1280, scheme: str = "light") -> Visit:
        path = tmp_path / "report.html"
        monkeypatch.chdir(files["network"].parent)
        report([files[kind].name for kind in kinds or KINDS], path, networks=[files["network"].name])
        opened.append(Visit(browser, path, width, scheme))
        return opened[-1]

    yield call
    for each in opened:
        each.close()
