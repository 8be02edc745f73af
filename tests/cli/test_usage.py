"""Wrong usage, help, terminals and pipes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from cli.probe import imported
from cli.terminals import ONE, Terminal

from rramalloc.cli.main import app

Run = Callable[..., Any]
HEAVY = ("numpy", "pandas", "scipy", "pulp", "highspy", "onnx", "numba", "torch", "pydantic", "vl_convert")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("inspec vgg16", "inspect"),
        ("optimize", "NETWORK"),
        ("optimize vgg16", "--arrays"),
        ("optimize vgg16 --arrays", "--arrays"),
        ("optimize vgg16 --arrays ten", "--arrays"),
        ("optimize vgg16 --arrays 1e3", "--arrays"),
        ("optimize vgg16 --arays 1024", "--arrays"),
        ("optimize vgg16 --arrays 1024 --objective speed", "latency"),
        ("optimize vgg16 --arrays 1024 --mapping im2row", "im2col"),
        ("optimize vgg16 --arrays 1024 --fc gpu", "crossbar"),
        ("optimize vgg16 --arrays 1024 --gap small", "'--gap': must be a share: 0.01 or 1%, got 'small'"),
        ("optimize vgg16 --arrays 1024 --gap 1s", "'--gap': must be a share: 0.01 or 1%, got '1s'"),
        (
            "optimize vgg16 --arrays 1024 --time-limit 10kg",
            "must be a number of s, or one with ns, us, ms, s",
        ),
        ("optimize vgg16 --arrays 1024 --time-limit 1%", "got '1%'"),
        ("compare vgg16 --arrays 1024 --time-limit ten", "got 'ten'"),
        ("optimize vgg16 --arrays 1024 --target-ns 5MB", "must be a number of ns, or one with ns, us, ms, s"),
        ("optimize vgg16 vgg11 --arrays 1024", "vgg11"),
        ("inspect vgg16 --format xml", "json"),
        ("simulate vgg16", "--allocation"),
        ("simulate vgg16 --allocation x --handoff never", "next"),
        ("convert vgg16", "OUT"),
        ("schema", "NAME"),
        ("--no-such-option", "no-such-option"),
    ],
)
def test_wrong_usage(arguments: str, told: str, run: Run) -> None:
    outcome = run(*arguments.split())
    assert outcome.code == 2
    assert outcome.out == ""
    assert told.lower() in outcome.err.lower()
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("inspect vgg61", "no file or shipped network named 'vgg61'; did you mean vgg"),
        ("inspect resnet5O", "did you mean resnet50"),
        ("inspect vgg16 --hardware isac", "no file or hardware preset named 'isac'; did you mean isaac"),
        ("optimize vgg16 --arrays 1024 --method mipl", "no method named 'mipl'; did you mean milp"),
        ("inspect zzzzzz", "known: alexnet"),
        ("inspect model.txt", "model.txt: its ending is none of .json, .onnx, .csv, .pt2"),
    ],
)
def test_misspelt_names(arguments: str, told: str, run: Run) -> None:
    outcome = run(*arguments.split())
    assert outcome.code == 1
    assert outcome.err.startswith("error: ")
    assert told in outcome.err


@pytest.mark.parametrize(
    "command", ["", "optimize", "inspect", "simulate", "convert", "networks", "presets", "schema"]
)
def test_help(command: str, run: Run) -> None:
    outcome = run(*command.split(), "--help")
    assert outcome.code == 0
    assert "Usage: rramalloc" in outcome.out
    assert outcome.err == ""
    if command:
        assert f"Example: rramalloc {command}" in outcome.out


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
    [
        pytest.param("optimize", "rramalloc.methods", id="methods"),
        pytest.param("compare", "rramalloc.methods", id="methods compared"),
        pytest.param("export", "rramalloc.exports", id="exports"),
        pytest.param("tune", "rramalloc.simulators", id="simulators"),
    ],
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


@pytest.mark.parametrize("env", [{}, {"NO_COLOR": "1"}], ids=["plain", "NO_COLOR"])
def test_terminal_gets_a_live_line_and_no_needless_codes(env: dict[str, str], tmp_path: Path) -> None:
    arguments = ("optimize", "vgg16", "--arrays", 1024, "--work", 2)
    shown = Terminal(ONE, arguments, 80, tmp_path, env).read()
    assert "\rbest " in shown
    assert "makespan" in shown
    assert "\x1b[3" not in shown


def test_narrow_terminal_cuts_texts_not_numbers(tmp_path: Path) -> None:
    shown = Terminal(ONE, ("networks",), 60, tmp_path).read().replace("\r", "")
    lines = [line for line in shown.splitlines() if line]
    assert max(map(len, lines)) <= 60
    assert "…" in shown


def test_pipe_gets_plain_lines(start: Any, tiny: Path) -> None:
    out, err = start(
        "optimize", tiny, "--arrays", 40, env={"FORCE_COLOR": "1", "TERM": "xterm"}
    ).communicate()
    assert "\x1b" not in out + err
    assert "\r" not in out + err
    assert all(line.startswith(("best ", "done in ")) for line in err.splitlines())


def test_pipe_gets_whole_names(start: Any) -> None:
    out = start("networks", env={"COLUMNS": "20"}).communicate()[0]
    assert "…" not in out


def test_old_locales_get_utf8(start: Any, tiny: Path) -> None:
    settings = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    out, err = start("inspect", tiny, env=settings, encoding="utf-8").communicate()
    assert err == ""
    assert "───" in out
