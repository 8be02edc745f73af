"""Wrong usage, help, terminals and pipes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from cli.probe import imported

from rramalloc.cli.main import app

Run = Callable[..., Any]
HEAVY = ("numpy", "pandas", "scipy", "pulp", "highspy", "onnx", "numba", "torch", "pydantic", "vl_convert")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("inspec vgg16", "inspect"),
        ("optimize vgg16 --arrays ten", "--arrays"),
        ("optimize vgg16 --arrays 1024 --objective speed", "latency"),
        ("optimize vgg16 --arrays 1024 --gap 1s", "'--gap': must be a share: 0.01 or 1%, got '1s'"),
        (
            "optimize vgg16 --arrays 1024 --time-limit 10kg",
            "must be a number of s, or one with ns, us, ms, s",
        ),
        ("optimize vgg16 --arrays 1024 --time-limit 1%", "got '1%'"),
        ("optimize vgg16 vgg11 --arrays 1024", "vgg11"),
        ("inspect vgg16 --format xml", "json"),
        ("simulate vgg16", "--allocation"),
        ("simulate vgg16 --allocation x --handoff never", "next"),
        ("--no-such-option", "no-such-option"),
    ],
)
def test_wrong_usage(arguments: str, told: str, run: Run) -> None:
    outcome = run(*arguments.split())
    assert outcome.code == 2
    assert outcome.out == ""
    assert told.lower() in outcome.err.lower()
    assert "Traceback" not in outcome.err


def test_help_has_parts(run: Run) -> None:
    parts = re.findall(r"^(\w+):$", run("optimize", "--help").out, re.MULTILINE)
    assert parts == ["Arguments", "Problem", "Goal", "Search", "Output"]


def test_help_says_no_types_of_python(run: Run) -> None:
    for words in commands(typer.main.get_command(app)):
        shown = run(*words, "--help").out
        assert not re.search(r"<\w*(str|int|float|list)\b", shown), words


def commands(command: Any, *words: str) -> Iterator[tuple[str, ...]]:
    """The words that name each command."""
    yield words
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, *words, name)


@pytest.mark.parametrize(
    ("command", "group"),
    [("optimize", "rramalloc.methods"), ("export", "rramalloc.exports"), ("tune", "rramalloc.simulators")],
)
def test_help_lists_what_other_packages_add(
    command: str, group: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs-1.dist-info").mkdir()
    (tmp_path / "theirs-1.dist-info" / "entry_points.txt").write_text(f"[{group}]\ntheirs = theirs:made\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "Of other packages: theirs." in " ".join(run(command, "--help").out.split())


def test_help_imports_nothing_heavy() -> None:
    _, found = imported(HEAVY, "--help")
    assert found == "[]\n"


def test_version(run: Run) -> None:
    from rramalloc.version import __version__

    assert run("--version").out == f"rramalloc {__version__}\n"


def test_debug_shows_the_traceback(run: Run) -> None:
    plain, debug = run("inspect", "vgg17"), run("inspect", "vgg17", "--debug")
    assert plain.code == debug.code == 1
    assert "Traceback" not in plain.err
    assert "Traceback" in debug.err
    assert debug.err.endswith(plain.err)


def test_pipe_gets_plain_lines(start: Any, tiny: Path) -> None:
    out, err = start(
        "optimize", tiny, "--arrays", 40, env={"FORCE_COLOR": "1", "TERM": "xterm"}
    ).communicate()
    assert "\x1b" not in out + err
    assert "\r" not in out + err
    assert all(line.startswith(("best ", "done in ")) for line in err.splitlines())


def test_old_locales_get_utf8(start: Any, tiny: Path) -> None:
    settings = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    out, err = start("inspect", tiny, env=settings, encoding="utf-8").communicate()
    assert err == ""
    assert "───" in out
