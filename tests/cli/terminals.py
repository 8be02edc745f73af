"""Commands in a pseudo-terminal of a given width."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

MARK = "==== "
SILENCE_S = 200
RUN_ALL = (
    "import fcntl, json, os, struct, sys, termios\nfrom rramalloc.cli.main import main\n"
    "for words in json.loads(sys.argv[1]):\n"
    "    if words[0] == 'columns':\n"
    "        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', 24, words[1], 0, 0))\n"
    "        os.chdir(words[2])\n"
    "        continue\n"
    "    if words[0] == 'environment':\n"
    "        os.environ.update(words[1])\n"
    "        continue\n"
    f"    print({MARK!r} + words[0], flush=True)\n"
    "    sys.argv = ['rramalloc', *words[1:]]\n"
    "    try: main()\n"
    "    except SystemExit as ended: print('exit', ended.code, flush=True)\n"
)
"""Runs commands in turn: [label, word, ...].

["columns", columns, folder] and ["environment", {name: value}] are for all that follow.
"""
ONE = "from rramalloc.cli.main import main; main()"


def environment(env: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "TERM")}
    return kept | {"TERM": "xterm"} | env


class Terminal:
    """A program whose three streams are a terminal of so many columns that it controls."""

    def __init__(
        self,
        code: str,
        words: Sequence[object],
        columns: int,
        folder: Path,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, words)],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env=environment(env or {}),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        self._shown = b""

    def read(self, until: Callable[[str], bool] = lambda _: False) -> str:
        """What is shown until that is so, or until the program has ended."""
        while not until(self._shown.decode(errors="ignore")):
            assert select.select([self._ours], [], [], SILENCE_S)[0], "the program says nothing any more"
            try:
                part = os.read(self._ours, 65536)
            except OSError:
                part = b""
            if not part:
                os.close(self._ours)
                self.process.wait(timeout=60)
                break
            self._shown += part
        return self._shown.decode().replace("\r\n", "\n")

    def press_ctrl_c(self) -> None:
        os.write(self._ours, b"\x03")


def lines_of(shown: str) -> list[str]:
    """All that stood in a line at some time, also what a live line was replaced by."""
    return shown.replace("\r", "\n").split("\n")


def left_standing(shown: str) -> list[str]:
    """The lines that stay: without those that a live line replaced."""
    return [line.rpartition("\r")[2] for line in shown.split("\n")]
