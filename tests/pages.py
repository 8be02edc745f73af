"""Pages with commands: what a reader would type, run in one folder, and what the page says it prints.

A `sh` block holds commands and a `python` block a program; a `text` block after one is the output of its last
command, in which a line `...` stands for lines that the page leaves out; a `toml`, `json` or `csv` block
after a line "File `name`:" is a file that the reader writes.

Commands and programs run in this process, which saves the start of an interpreter for each. The same command
gives the same output, so all of it is compared; only the effort of a search is free: its nodes, its work,
and the seconds that end a row.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import program
import typer
from program import Outcome

from rramalloc.cli.main import app

_BLOCK = re.compile(r"(?:File `(?P<file>[\w.-]+)`:\n\n?)?```(?P<kind>\w+)\n(?P<text>.*?)```", re.DOTALL)
_EFFORT = re.compile(r"^search +\S.*|\b[\d,]+ nodes?\b|\b\d+\.\d{3} *$", re.MULTILINE)
"""What a faster search changes of an answer that stays the same."""
LEFT_OUT = "..."
"""A line of a page that stands for any number of lines of the output."""


class Block(NamedTuple):
    """A fenced block; file: the name that the page gives it, empty if none."""

    kind: str
    text: str
    file: str


def blocks(page: str) -> Iterator[Block]:
    """All fenced blocks of a page in order."""
    for found in _BLOCK.finditer(page):
        yield Block(found["kind"], found["text"], found["file"] or "")


def run(command: str, folder: Path) -> Outcome:
    """A command of the program as a user would give it in `folder`, with `> FILE` at its end or not."""
    words = shlex.split(command)[1:]
    sent_to = words[-1] if words[-2:-1] == [">"] else ""
    with contextlib.chdir(folder):
        done = program.run(*(words[:-2] if sent_to else words))
    if sent_to:
        (folder / sent_to).write_text(done.out, encoding="utf-8")
    return done._replace(out="") if sent_to else done


def with_little_work(command: str) -> str:
    """The command with hardly any search: that it runs does not depend on how long it searches."""
    found: Any = typer.main.get_command(app)
    for word in command.split()[1:3]:
        found = getattr(found, "commands", {}).get(word, found)
    searches = any("--work" in option.opts for option in found.params)
    return f"{command} --work 1" if searches and "--work" not in command and ">" not in command else command


def run_python(program: str, folder: Path) -> str:
    """What a program prints that a user would start in `folder`."""
    out = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        exec(compile(program, "page", "exec"), {"__name__": "__main__"})  # noqa: S102 - from our own pages
    return out.getvalue()


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
                    assert done.code == 0, (command, done.err)
                    printed, commands = done.out, commands + 1
        elif block.kind == "python":
            printed, commands = run_python(block.text, folder), commands + 1
        elif block.kind == "text":
            disagreement = differences(printed, block.text)
            assert not disagreement, "\n".join(disagreement)
    return commands


def differences(printed: str, shown: str) -> list[str]:
    """Lines of the output that differ from the page in more than the effort of a search."""
    new, old = _lines(printed), _lines(shown)
    if LEFT_OUT in old:
        return _missing([line for line in new if line], [line for line in old if line])
    if len(new) != len(old):
        return [f"{len(new)} lines, the page shows {len(old)}:", *new]
    return [f"printed: {a}\n  shown: {b}" for a, b in zip(new, old, strict=True) if a != b]


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in _EFFORT.sub("(effort)", text).rstrip().splitlines()]


def _missing(new: list[str], old: list[str]) -> list[str]:
    """The first run of shown lines that does not stand in the output behind the run before it."""
    begin = 0
    runs = [list(run) for left_out, run in itertools.groupby(old, LEFT_OUT.__eq__) if not left_out]
    for index, run in enumerate(runs):
        last = len(new) - len(run)
        places = range(begin, last + 1)
        if index == 0 and old[0] != LEFT_OUT:
            places = range(min(1, last + 1))
        if index == len(runs) - 1 and old[-1] != LEFT_OUT:
            places = range(max(last, places.start), places.stop)
        found = next((at for at in places if new[at : at + len(run)] == run), None)
        if found is None:
            return ["shown, but not printed there:", *run, "printed:", *new]
        begin = found + len(run)
    return []
