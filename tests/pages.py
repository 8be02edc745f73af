"""Pages with commands: what a reader would type, run in one folder, and what the page says it prints.

A `sh` block holds commands and a `python` block a program; a `text` block after one is the output of its last
command; a `toml`, `json` or `csv` block after a line "File `name`:" is a file that the reader writes.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_BLOCK = re.compile(r"(?:File `(?P<file>[\w.-]+)`:\n\n?)?```(?P<kind>\w+)\n(?P<text>.*?)```", re.DOTALL)


class Block(NamedTuple):
    """A fenced block; file: the name that the page gives it, empty if none."""

    kind: str
    text: str
    file: str


def blocks(page: str) -> Iterator[Block]:
    """All fenced blocks of a page in order."""
    for found in _BLOCK.finditer(page):
        yield Block(found["kind"], found["text"], found["file"] or "")


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command of the program as a user would start it there."""
    program = Path(sys.executable).with_name("rramalloc")
    words = [str(program), *shlex.split(command)[1:]]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def follow(page: str, folder: Path, examples: Path) -> int:
    """Do what a page says in `folder`, which begins with the examples; returns the number of runs."""
    for example in sorted(examples.glob("*")):
        shutil.copy(example, folder)
    commands, printed = 0, ""
    for block in blocks(page):
        if block.file:
            (folder / block.file).write_text(block.text, encoding="utf-8")
        elif block.kind == "sh":
            for command in block.text.replace("\\\n", " ").splitlines():
                if command.startswith("rramalloc "):
                    done = run(command, folder)
                    assert done.returncode == 0, (command, done.stderr)
                    printed, commands = done.stdout, commands + 1
        elif block.kind == "python":
            command = [sys.executable, "-c", block.text]
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
            )
            assert done.returncode == 0, done.stderr
            printed, commands = done.stdout, commands + 1
        elif block.kind == "text":
            assert [line.rstrip() for line in printed.splitlines()] == block.text.rstrip().splitlines()
    return commands
