"""Every command and example of the README runs, and shows what the README says it shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

from pages import blocks, differences, run, run_python, with_little_work
from program import Outcome

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = [(block.kind, block.text) for block in blocks(README)]
SILENT = ("convert", "examples", "export", "report")
"""Commands that write files and print nothing."""
SET_UP = [text.strip() for kind, text in BLOCKS if kind == "sh" and text.startswith("python3")]
COMMANDS = re.findall(r"\| `(rramalloc [^`]*)` \|", README)
"""Commands of the table."""


def row(command: str, folder: Path) -> Outcome:
    """What a command of the table gives in `folder`: in this process, or of an installed program."""
    program = os.environ.get("RRAMALLOC_PROGRAM")
    if program is None:
        return run(command, folder)
    typed = command.replace("rramalloc", shlex.quote(program), 1)
    done = subprocess.run(typed, shell=True, cwd=folder, capture_output=True, text=True)  # noqa: S602
    return Outcome(done.returncode, done.stdout, done.stderr)


def test_set_up_commands_are_those_that_ci_runs() -> None:
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert len(SET_UP) == 2
    for command in SET_UP:
        assert command in ci


def test_commands_run_in_the_order_given(tmp_path: Path) -> None:
    """In an empty folder: whatever a row reads ships, or an earlier row wrote it."""
    assert len(COMMANDS) >= 20
    for command in COMMANDS:
        done = row(with_little_work(command), tmp_path)
        assert done.code == 0, (command, done.err)
        assert bool(done.out) != (command.split()[1] in SILENT or ">" in command), command


def test_shown_output_is_the_real_output(tmp_path: Path) -> None:
    shown = next(text for kind, text in BLOCKS if kind == "text")
    done = run("rramalloc optimize vgg16 --arrays 1024 --quiet", tmp_path)
    assert not differences(done.out, shown)


def test_python_example(tmp_path: Path) -> None:
    example = next(text for kind, text in BLOCKS if kind == "python")
    assert run_python(example, tmp_path).startswith("4009 4009 16\n")
