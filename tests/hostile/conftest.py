"""The command line in this process, with what must hold for every hostile input."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from forks import Forks
from program import Outcome, Run, run

from rramalloc.files import to_json
from rramalloc.importers import load

LIMIT_S = 10.0
TOO_SMALL = re.compile(r"to store every layer once|arrays with every layer stored once")
"""A file that is read well, but describes too few arrays, is not what the message names."""


def behaves(path: object, *arguments: object) -> Outcome:
    """Run a command on a hostile `path`: served, or refused with one message that names the file."""
    begun = time.monotonic()
    outcome = run(*arguments)
    assert time.monotonic() - begun < LIMIT_S
    assert outcome.code in (0, 1, 2), outcome.err
    assert "Traceback" not in outcome.err
    assert "internal error" not in outcome.err, outcome.err
    if outcome.code:
        message = outcome.err.rpartition("error: ")[2]
        assert outcome.err.startswith("error: ") or "\nerror: " in outcome.err, outcome.err
        assert Path(str(path)).name in message or TOO_SMALL.search(message), message
        assert len(message) < 5000
    return outcome


@pytest.fixture(name="run")
def _run() -> Run:
    return run


@pytest.fixture(name="behaves")
def _behaves() -> Run:
    return behaves


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Commands in processes of their own that need not start anew."""
    started = Forks()
    yield started
    started.end()


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """A file with a shipped network, to be replaced or damaged."""
    path = tmp_path / "shipped.json"
    path.write_text(to_json(load("alexnet").to_dict()))
    return path


@pytest.fixture(scope="session", autouse=True)
def _compiled(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Compile the numeric kernels once, outside every time limit."""
    target = tmp_path_factory.mktemp("warm") / "allocation.json"
    run("optimize", "alexnet", "--arrays", 800, "--work", 1, "--quiet", "-o", target)
    run("simulate", "alexnet", "--allocation", target)
