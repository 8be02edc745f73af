"""Commands in processes of their own, without the start of an interpreter for each.

Only for what does not depend on how a process starts: its imports, and limits that hold from then on.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

HANG_S = 600
_SERVER = """
import gc, json, os, signal, socket, sys
import rramalloc.api, rramalloc.cli.main, rramalloc.commands.optimize.command
from rramalloc.__main__ import main

rramalloc.api.optimize("alexnet", "x2", work=1, progress=False)
gc.freeze()  # else every fork goes through all that is loaded, and thereby copies it
asked = socket.socket(fileno=int(sys.argv[1]))
while True:
    request, streams, _, _ = socket.recv_fds(asked, 2**16, 2)
    if not request:
        break
    limit_s, folder, *words = json.loads(request)
    child = os.fork()
    if not child:
        asked.close()
        signal.alarm(limit_s)
        for number, stream in enumerate(streams, 1):
            os.dup2(stream, number)
        os.chdir(folder)
        sys.argv = ["rramalloc", *words]
        sys.exit(main())
    for stream in streams:
        os.close(stream)
    _, status, used = os.wait4(child, 0)
    ended = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss * 1024
    asked.send(json.dumps(ended).encode())
"""


class Ended(NamedTuple):
    """The exit code of a process, its processor time, and the most memory that it held."""

    code: int
    seconds: float
    peak_bytes: int


class Forks:
    """A process that has loaded the package and its compiled code, and forks for every command."""

    def __init__(self) -> None:
        self._asked, theirs = socket.socketpair()
        with theirs:
            number = theirs.fileno()
            self._process = subprocess.Popen([sys.executable, "-c", _SERVER, str(number)], pass_fds=[number])

    def __call__(self, words: Sequence[str], folder: Path, stdout: int, stderr: int) -> Ended:
        """Run a command in a folder with these streams."""
        request = json.dumps([HANG_S, str(folder), *words]).encode()
        socket.send_fds(self._asked, [request], [stdout, stderr])
        return Ended(*json.loads(self._asked.recv(2**16)))

    def end(self) -> None:
        """End the process."""
        self._asked.close()
        self._process.wait()
