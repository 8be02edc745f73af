"""Every example that a command's help gives runs as it is shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from pages import blocks, run, with_little_work

from rramalloc.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
MINE = """#!/bin/sh
sed -n 's/^  "makespan": \\([0-9]*\\),/\\1/p' "$1"
"""


def examples(command: Any) -> Iterator[str]:
    """Those of a command and of the commands in it."""
    for found in re.findall(r"Example: (rramalloc (?:[^\n]*\\\n)*[^\n]*)", command.help):
        yield found.replace("\\\n", "")
    for inner in getattr(command, "commands", {}).values():
        yield from examples(inner)


def user_files(folder: Path) -> None:
    """Write what no command makes: the user's own sweep, chip and simulator."""
    page = (ROOT / "docs" / "evaluate.md").read_text(encoding="utf-8")
    own = {
        "spec.toml": 'networks = "alexnet"\narrays = "x2"\nmethods = "bottleneck"\n',
        "units.toml": next(block.text for block in blocks(page) if "[units]" in block.text and block.file),
        "mine": MINE,
    }
    for name, text in own.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "mine").chmod(0o755)


def test_every_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the help, but for those that need a file that another one makes.

    `warm-up` has nothing to call here: its page and its own test have it compile all.
    """
    monkeypatch.setattr("rramalloc.commands.warm_up.warm_up.PROGRAMS", {})
    user_files(tmp_path)
    left = list(dict.fromkeys(examples(typer.main.get_command(app))))
    assert len(left) >= 24
    while left:
        waiting = []
        for example in left:
            done = run(with_little_work(example), tmp_path)
            if "no such file" in done.err:
                waiting.append(example)
            else:
                assert done.code == 0, (example, done.err)
        assert len(waiting) < len(left), waiting
        left = waiting
