"""The beginning of a command: compiled code missing or damaged, Ctrl-C at any time, closed streams."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from cli.probe import imported

from rramalloc import compiled
from rramalloc.cli import live_line
from rramalloc.search import work
from rramalloc.search.work import Work
from rramalloc.status import Stopped

DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut": lambda data: data[: len(data) // 2],
    "garbage": lambda data: random.Random(len(data)).randbytes(len(data)),
    "one bit": lambda data: data[:-9] + bytes([data[-9] ^ 4]) + data[-8:],
}

NEEDED_TO_COMPILE = ("numba.core.inline_closurecall", "numba.np.linalg", "numba.typed.dictimpl")


def command(*words: object, cache: Path | None = None, **settings: Any) -> subprocess.CompletedProcess[str]:
    environment = os.environ | ({} if cache is None else {"NUMBA_CACHE_DIR": str(cache)})
    return subprocess.run(
        [sys.executable, "-m", "rramalloc", *map(str, words)],
        **({"capture_output": True, "text": True, "check": False, "env": environment} | settings),
    )


@pytest.fixture(scope="module")
def simulation(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """A cache of the kernel that `simulate` needs, an allocation, and what is printed for it.

    To fill the cache takes the modules that are needed to compile.
    """
    folder = tmp_path_factory.mktemp("cache")
    allocation = folder / "allocation.json"
    allocation.write_text(json.dumps({"copies": {"conv1": 2}}))
    words = ("simulate", "alexnet", "--allocation", str(allocation))
    printed, told = imported(NEEDED_TO_COMPILE, *words, env={"NUMBA_CACHE_DIR": str(folder)})
    assert told.endswith(f"{list(NEEDED_TO_COMPILE)}\n"), told
    return folder, allocation, printed


@pytest.mark.parametrize("first", [0, 2])
def test_damaged_cache_is_compiled_again(first: int, simulation: tuple[Path, Path, str]) -> None:
    """Each of the files in another way, an index and a file of code in every way: all are written anew."""
    cache, allocation, expected = simulation
    files = [*sorted(cache.rglob("*.nbi")), *sorted(cache.rglob("*.nbc"))]
    assert len(files) >= len(DAMAGE)
    kinds = cycle([*DAMAGE][first:] + [*DAMAGE][:first])
    damaged = {file: DAMAGE[kind](file.read_bytes()) for file, kind in zip(files, kinds, strict=False)}
    for file, content in damaged.items():
        file.write_bytes(content)
    for note in ("was damaged: it is compiled again\n", ""):
        ended = command("simulate", "alexnet", "--allocation", allocation, cache=cache)
        assert (ended.returncode, ended.stdout) == (0, expected)
        assert ended.stderr.startswith("note: compiled code in") == bool(note)
        told = ended.stderr.splitlines(keepends=True)
        assert "".join(line for line in told if not line.startswith("compiling once")).endswith(note)
        assert [file for file, content in damaged.items() if file.read_bytes() == content] == []


def test_compiled_code_is_loaded_without_what_compiling_needs(
    simulation: tuple[Path, Path, str],
) -> None:
    cache, allocation, expected = simulation
    words = ("simulate", "alexnet", "--allocation", str(allocation))
    assert imported(NEEDED_TO_COMPILE, *words, env={"NUMBA_CACHE_DIR": str(cache)}) == (expected, "[]\n")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> compiled.Compilation:
    """A compilation that is noted by hand, with a clock that stands still but for `passing`."""
    monkeypatch.setattr(compiled.time, "monotonic", lambda: passing.now_s)
    monkeypatch.setattr(work, "compilation", compilation := compiled.Compilation())
    return compilation


class passing:  # noqa: N801 - reads as what it does
    """Let seconds pass, while functions are compiled or not."""

    now_s = 100.0

    def __init__(self, seconds: float, compilation: compiled.Compilation | None = None) -> None:
        if compilation is not None:
            compilation.begin()
        passing.now_s += seconds
        if compilation is not None:
            compilation.end()


def test_compiling_is_inside_limits_of_time(fake: compiled.Compilation) -> None:
    """31 s before the search count for nothing; 4 s of search, 5 s of compilation, 1 s of search are 10 s."""
    told: list[str] = []
    fake.on_note = told.append
    passing(31, fake)
    stop = Work(time_limit_s=10, _started=passing.now_s)
    passing(4)
    passing(5, fake)
    assert (stop.seconds, stop.out_of_time) == (9, False)
    passing(1)
    assert (stop.seconds, stop.out_of_time) == (10, True)
    assert stop.cut == Stopped.TIME
    assert told == []


def test_compiling_longer_than_a_limit_of_time_is_said_once(fake: compiled.Compilation) -> None:
    """Of the whole limit, whatever share of it the search within has, which began later."""
    told: list[str] = []
    fake.on_note = told.append
    stop = Work(time_limit_s=3, _started=passing.now_s)
    passing(31, fake)
    share = stop.nested(1)
    share.time_limit_s = 1.5
    assert share.out_of_time
    assert stop.out_of_time
    words = (
        "compiling took 31 s, longer than the limit of 3 s; later runs need not compile: rramalloc warm-up"
    )
    assert told == [words]


@pytest.mark.parametrize("quiet", [True, False])
def test_the_estimate_of_compilation_follows_the_machine(
    quiet: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """7 functions at an assumed 0.2 s and 7 in 7 s make 0.6 s for each of 70; `-q` leaves it at one line."""
    now_s = 100.0
    monkeypatch.setattr(compiled.time, "monotonic", lambda: now_s)
    monkeypatch.setattr(live_line, "compilation", compilation := compiled.Compilation())
    live_line.announce_compilation(quiet=quiet)
    for _ in range(7):
        compilation.begin()
        now_s += 1
        compilation.end()
    assert compilation.expected_s == pytest.approx(42)
    now_s += 60
    compilation.begin()
    now_s += 8
    compilation.begin()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("compiling once (about ")
    assert len(lines) == 1 if quiet else len(lines) > 1


@pytest.mark.parametrize("quiet", [True, False])
@pytest.mark.parametrize("has_line", [True, False])
def test_no_command_is_silent(
    quiet: bool, has_line: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever it does, and whether or not it has a line to repeat."""
    monkeypatch.setattr(live_line, "_TICK_S", 0.01)
    monkeypatch.setattr(live_line, "_SILENCE_S", 0.05)
    line = live_line.LiveLine(quiet=quiet, every_s=0.0) if has_line else nullcontext()
    with live_line.Pulse(quiet=quiet), line:
        time.sleep(0.4)
    words = capsys.readouterr().err.splitlines()
    assert not words if quiet else len(words) > 1
    assert all(text.startswith("at work, after ") for text in words)


INTERRUPTED_IMPORT = """
import os, signal, sys

class Interrupter:
    def find_spec(self, name, path, target=None):
        if name == os.environ.get("MODULE"):
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupter())
from rramalloc.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["typer", "numba"])
def test_interrupt_during_an_import(module: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT, "optimize", "vgg16", "--arrays", "1000"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"MODULE": module},
    )
    assert (ended.returncode, ended.stderr, ended.stdout) == (130, "interrupted\n", "")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_closed_streams(closed: str, tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    shell = f'"{sys.executable}" -m rramalloc inspect alexnet -o "{target}" {closed}'
    ended = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=False)
    refused = " >&-" in f" {closed}"
    assert ended.returncode == refused
    assert target.exists() != refused
    assert ended.stderr.startswith("error: standard output is closed; send it to") == (closed == ">&-")
