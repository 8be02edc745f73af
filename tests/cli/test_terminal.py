"""Terminals of several widths: what is shown fits, numbers stay whole, and Ctrl-C ends work."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import program
import pytest
from cli.terminals import MARK, ONE, RUN_ALL, Terminal, left_standing, lines_of
from commands.evaluate import worked
from rich.cells import cell_len

WIDTHS = (60, 200)
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "resnext_block.json"
SPEC = 'networks = "long.json"\narrays = [2, 400]\nmethods = ["none", "interval"]\n'
GIVEN = "--allocation a.json"
COMMANDS = {
    "optimize": "optimize long.json --arrays 400 --work 2 --hardware isaac-todaes -o a.json",
    "optimize folded": "optimize long.json --arrays 400 --work 2 --fold --mapping kernel_split",
    "optimize too little": "optimize long.json --arrays 1",
    "inspect": "inspect long.json",
    "inspect misspelt": "inspect vgg61",
    "simulate": f"simulate long.json {GIVEN}",
    "compare": "compare long.json --arrays 400,x2 --methods auto,annealing --seeds 2 --hardware isaac",
    "pareto": "pareto long.json --arrays x4 --work 2 --hardware isaac-todaes",
    "sweep": "sweep spec.toml -o rows --jobs 1",
    "sweep status": "sweep spec.toml -o rows --status",
    "place": f"place long.json {GIVEN} -o placed.json --work 2",
    "verify": f"verify long.json {GIVEN} --adc-bits 4",
    "export": f"export long.json {GIVEN} --to pimsyn --check",
    "chiplet cost": f"chiplet cost {EXAMPLE}",
    "evaluate": "evaluate net.json --hardware chip.toml --fc crossbar --strategies whole.json",
    "fold": "fold long.json",
    "fold filter": "fold --filter 64,6,6,4 --stride 2,2 --align 64",
    "latency measure": "latency measure long.json --device simulated -o t.json",
    "latency plan": "latency plan long.json --format table",
    "latency fit": "latency fit t.json.samples.jsonl",
    "latency estimate": "latency estimate long.json --table t.json",
    "convert": "convert long.json converted.json",
    "networks": "networks",
    "presets": "presets",
}
"""What is run, by a name for it."""
ENDS = {"optimize too little": "exit 1", "inspect misspelt": "exit 1"}


def long_network() -> dict[str, Any]:
    """Eight convolutions with names that differ at their ends, one of them in wide characters."""
    nodes: list[dict[str, Any]] = [{"name": "image", "op": "input", "shape": [3, 32, 32]}]
    for number in range(8):
        name = f"features.denseblock4.denselayer16.a_rather_long_name.convolution{number}"
        name = "特徴抽出層" * 8 if number == 3 else name
        nodes.append(
            {
                "name": name,
                "op": "conv",
                "inputs": [nodes[-1]["name"]],
                "out_channels": 64,
                "kernel": 3,
                "pads": 1,
            }
        )
    return {"format": "rramalloc-network/1", "name": "long", "source": "made for a test " * 9, "nodes": nodes}


class Told(dict[int | None, dict[str, str]]):
    """What every command shows, by columns of the terminal, None for a pipe; run when first asked for.

    One process shows all widths of a terminal, whose width changes meanwhile; a pipe is in this process.
    """

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders

    def __missing__(self, columns: int | None) -> dict[str, str]:
        if columns is None:
            with contextlib.chdir(self._folder()):
                ended = {label: program.run(*command.split()) for label, command in COMMANDS.items()}
            self[None] = {label: f"{done.out}{done.err}exit {done.code}\n" for label, done in ended.items()}
        else:
            words = [[label, *command.split()] for label, command in COMMANDS.items()]
            asked = [part for width in WIDTHS for part in (["columns", width, str(self._folder())], *words)]
            parts = Terminal(RUN_ALL, [json.dumps(asked)], 40, self._folder()).read().split(MARK)[1:]
            for number, width in enumerate(WIDTHS):
                self._keep(width, parts[number * len(words) : (number + 1) * len(words)])
        return self[columns]

    def _keep(self, columns: int | None, parts: list[str]) -> None:
        texts = [part.partition("\n") for part in parts]
        self[columns] = {label: text for label, _, text in texts}
        assert list(self[columns]) == list(COMMANDS)

    def _folder(self) -> Path:
        made = self._folders.mktemp("terminal")
        (made / "long.json").write_text(json.dumps(long_network()))
        (made / "spec.toml").write_text(SPEC)
        (made / "chip.toml").write_text(worked.CHIP_TOML)
        (made / "net.json").write_text(json.dumps(worked.NETWORK))
        (made / "whole.json").write_text(json.dumps(worked.WHOLE))
        return made


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return Told(tmp_path_factory)


def headings(text: str) -> list[list[str]]:
    """The headings of every table."""
    lines = left_standing(text)
    return [re.split(r"  +", line.strip()) for line, rule in pairwise(lines) if rule.startswith("────")]


NUMBER = re.compile(r"[+-]?[0-9][0-9.,]*(?:e[+-]?[0-9]+)?%?")


def numbers(text: str) -> set[str]:
    """Words that are numbers, of lines that do not depend on the clock."""
    kept = [
        line
        for line in left_standing(text)
        if not re.match(r"done in|no answer yet|best |rate |time left|[0-9]+ of ", line)
    ]
    return {word for line in kept for word in line.split() if NUMBER.fullmatch(word)}


@pytest.mark.parametrize("columns", WIDTHS)
def test_what_commands_show_at_a_width(told: Told, columns: int) -> None:
    """No line is too long, no number is cut, and columns that are left out are named."""
    for command, text in told[columns].items():
        assert ENDS.get(command, "exit 0") in text, command
        assert "Traceback" not in text, command
        assert [line for line in lines_of(text) if cell_len(line) > columns] == [], command
        assert numbers(text) <= numbers(told[None][command]), command
        whole, shown = headings(told[None][command]), headings(text)
        notes = [part.split("; ")[0] for part in " ".join(text.split()).split("left out: ")[1:]]
        pairs = list(zip(whole, shown, strict=True))
        absent = [[name for name in names if name not in kept] for names, kept in pairs]
        assert [", ".join(names) for names in absent if names] == notes, command
        assert all(names[0] == kept[0] for names, kept in pairs), command


def test_a_pipe_has_whole_names_and_all_columns(told: Told) -> None:
    for text in told[None].values():
        assert "…" not in text
        assert "left out" not in text
        assert "\x1b" not in text
        assert "\r" not in text


def test_live_line(tmp_path: Path) -> None:
    """On any terminal, with colours or without, but for one that cannot go back in its line."""
    command = ["optimize", "vgg16", "--arrays", "1024", "--work", "2"]
    terminals: dict[str, dict[str, str]] = {
        "plain": {},
        "no colour": {"NO_COLOR": "1"},
        "dumb": {"TERM": "dumb"},
    }
    asked = [part for name, env in terminals.items() for part in (["environment", env], [name, *command])]
    parts = Terminal(RUN_ALL, [json.dumps(asked)], 30, tmp_path).read().split(MARK)[1:]
    for name, shown in zip(terminals, parts, strict=True):
        assert ("\rmakespan " in shown) == (name != "dumb"), name
        assert "\x1b" not in shown, name
        if name != "dumb":
            replaced = [part for line in shown.split("\n") for part in line.split("\r")[1:-1]]
            assert max(map(cell_len, replaced)) < 30, name
            assert any(part.startswith("makespan ") and "bound" in part for part in replaced), name


def interrupted(terminal: Terminal, sign: str) -> str:
    terminal.read(lambda shown: sign in shown)
    time.sleep(0.3)
    terminal.press_ctrl_c()
    shown = terminal.read()
    assert terminal.process.returncode == 130
    assert "Traceback" not in shown
    assert "interrupted" in shown
    return shown


def test_ctrl_c_shows_the_best_so_far(tmp_path: Path) -> None:
    arguments = ("optimize", "densenet121", "--arrays", 8192, "--work", 100_000)
    shown = interrupted(Terminal(ONE, arguments, 80, tmp_path), "\rmakespan ")
    assert "interrupted: this is the best found so far" in shown
    assert re.search(r"^makespan +[0-9]+ steps$", shown, re.MULTILINE)
    assert max(map(cell_len, lines_of(shown))) <= 80


def test_ctrl_c_before_anything_is_placed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "slow.json")
    arguments = ("place", "vgg16", "--allocation", "slow.json", "--hardware", "isaac", "-o", "placed.json")
    terminal = Terminal(ONE, arguments, 80, tmp_path)
    writing = os.open(tmp_path / "slow.json", os.O_WRONLY)  # returns when the program reads
    shown = interrupted(terminal, "")
    os.close(writing)
    assert "interrupted: there is no result yet" in shown
    assert not (tmp_path / "placed.json").exists()
