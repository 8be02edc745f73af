"""Wrong usage, help, terminals and pipes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from cli.probe import imported
from program import run

from rramalloc.cli.main import app
from rramalloc.cli.parameters import parse_input_shapes, parse_input_values
from rramalloc.errors import SpecError

pytestmark = pytest.mark.quick

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


def test_help_has_panels_and_shows_no_types_of_python() -> None:
    """Every option stands under problem, goal, search or output."""
    pending = [("rramalloc", typer.main.get_command(app))]
    while pending:
        name, command = pending.pop()
        inner = getattr(command, "commands", None)
        if inner is not None:
            pending += inner.items()
            continue
        shown = command.get_help(command.make_context(name, [], resilient_parsing=True))
        assert "\nOptions:" not in shown, name
        assert not re.search(r"<(str|int|float|list|text|number)\b|\[default: \d+\.0\]", shown), name


def test_help_lists_commands_by_what_they_are_for(run: Run) -> None:
    parts = run("--help").out.split("\n\n")
    listed = {part.split(":\n")[0]: re.findall(r"^  ([\w-]+) ", part, re.MULTILINE) for part in parts[4:]}
    assert listed == {
        "Allocate": ["optimize", "inspect", "simulate", "explain"],
        "Size a chip": ["size", "pareto", "place", "verify"],
        "Compare and publish": ["compare", "sweep", "report"],
        "Hand over to a tool": ["export", "tune"],
        "Companions": ["evaluate", "fold", "latency", "chiplet"],
        "Networks and files": ["convert", "networks", "presets", "schema", "examples", "docs"],
        "Installation": ["warm-up"],
    }


def test_help_imports_nothing_heavy() -> None:
    _, found = imported(HEAVY, "--help")
    assert found == "[]\n"


def test_version(run: Run) -> None:
    from rramalloc.version import __version__

    assert run("--version").out == f"rramalloc {__version__}\n"


def test_old_locales_get_utf8(start: Any, tiny: Path) -> None:
    settings = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    out, err = start("inspect", tiny, env=settings, encoding="utf-8").communicate()
    assert err == ""
    assert "───" in out


def test_shapes_of_inputs_are_named() -> None:
    assert parse_input_shapes(["images=1,3,224,224", "a=b= 2"]) == {"images": (1, 3, 224, 224), "a=b": (2,)}
    for text in ("images", "=1,2", "images=", "images=1,0", "images=1,-2", "images=1,x"):
        with pytest.raises(SpecError, match="--input-shape: must be NAME=SIZES"):
            parse_input_shapes([text])
    with pytest.raises(SpecError, match="'x' is given twice"):
        parse_input_shapes(["x=1", "x=2"])


def test_values_of_inputs_are_truth_values_or_numbers() -> None:
    texts = ["use_cache=true", "a=b=False", "sr=16000", "size=-1,2.5,1e3"]
    read = {"use_cache": True, "a=b": False, "sr": 16000, "size": (-1, 2.5, 1000.0)}
    assert parse_input_values(texts) == read
    assert type(parse_input_values(texts)["sr"]) is int
    for text in ("sr", "=1", "sr=", "sr=yes", "sr=1,", "sr=nan", "sr=1_0", "sr=٣", "sr=0x10"):
        with pytest.raises(SpecError, match="--input-value: must be NAME=VALUE"):
            parse_input_values([text])
    with pytest.raises(SpecError, match="'x' is given twice"):
        parse_input_values(["x=1", "x=2"])


def test_columns_by_their_names_and_a_table_of_latex() -> None:
    """AlexNet on the minimum: conv1 computes 3,025 batches of one window, in all of the makespan."""
    shared = ("optimize", "alexnet", "--arrays", "x1", "--work", 0, "-q")
    rows = run(*shared, "--columns", "name, copies,busy", "--format", "csv").rows
    makespan = run(*shared, "--format", "json").json["makespan"]
    assert [*rows[0]] == ["name", "copies", "busy"]
    assert float(rows[0]["busy"]) == 3025 / makespan
    named = (*shared, "--hardware", "isaac", "--columns", "name,energy_pj", "--format", "latex")
    told = run(*named, "--caption", "50 % of A_1", "--label", "tab:a").out.splitlines()
    assert told[:5] == [
        r"% needs \usepackage{booktabs,siunitx}; --plain-units needs no siunitx",
        r"\begin{table}",
        r"\centering",
        r"\caption{50 \% of A\_1}",
        r"\label{tab:a}",
    ]
    assert re.fullmatch(r"\\begin{tabular}{lS\[table-format=\d\.\d+\]}", told[5])
    assert told[7] == r"layer & {energy (\si{\milli\joule})} \\"
    assert told[-2:] == [r"\end{tabular}", r"\end{table}"]
    plain = run(*named, "--plain-units").out.splitlines()
    assert plain[1:4] == [r"\begin{tabular}{lr}", r"\toprule", r"layer & energy (mJ) \\"]


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (("--columns", "name,copiess"), 1, "no column named 'copiess'; did you mean copies"),
        (("--columns", "name", "--format", "json"), 2, "--columns is for tables"),
        (("--caption", "x"), 2, "--caption is for --format latex only"),
        (("--plain-units",), 2, "--plain-units is for --format latex only"),
        (("--label", "a}b", "--format", "latex"), 2, "such as tab:vgg16, got 'a}b'"),
    ],
)
def test_what_tables_cannot_be(options: tuple[str, ...], code: int, told: str) -> None:
    outcome = run("optimize", "alexnet", "--arrays", "x1", "--work", 0, *options)
    assert (outcome.code, outcome.out) == (code, "")
    assert told in outcome.err
