"""Limits of the system, full disks and closed streams: a command goes on, or names the limit."""

from __future__ import annotations

import contextlib
import errno
import os
import pty
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from forks import Forks
from hostile.documents import DOCUMENTS

from rramalloc.chart import converted
from rramalloc.errors import SpecError
from rramalloc.files import limit_reached

SPEC = 'networks = ["alexnet"]\narrays = ["x2"]\nmethods = ["gain"]\n'
PROGRAM = [sys.executable, "-m", "rramalloc"]


def started(folder: Path, command: list[str], before: Callable[[], None], **more: Any) -> Any:
    """A command in a process of its own, which calls `before` first."""
    return subprocess.run(command, cwd=folder, preexec_fn=before, check=False, text=True, **more)


@pytest.mark.parametrize("command", ["inspect", "optimize --arrays x2 --work 0 --figure f.svg"])
def test_a_limit_of_one_open_file_gives_no_traceback(command: str, tmp_path: Path) -> None:
    """Some commands need no second file at a time; the others say so, also where an import fails.

    The limit is the lowest with which Python itself starts: it needs a second file where its environment has
    files of paths (.pth).
    """
    name, *more = command.split()
    for limit in range(4, 8):
        limits = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (limit, limit))
        if not started(tmp_path, [sys.executable, "-c", ""], limits, capture_output=True).stderr:
            break
    done = started(tmp_path, [*PROGRAM, name, "alexnet", *more, "-q"], limits, capture_output=True)
    assert "Traceback" not in done.stderr
    assert not done.returncode or "ulimit -n" in done.stderr


@pytest.mark.parametrize(
    ("kind", "limit", "told"),
    [
        (resource.RLIMIT_NOFILE, 8, "too many open files: raise the limit of this process (ulimit -n)"),
        (resource.RLIMIT_FSIZE, 1000, "a limit of file sizes is reached (ulimit -f)"),
    ],
)
def test_limits_of_files_are_named(kind: int, limit: int, told: str, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SPEC)
    command = [*PROGRAM, "sweep", "s.toml", "-o", "out", "-q"]
    done = started(tmp_path, command, lambda: resource.setrlimit(kind, (limit, limit)), capture_output=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert told in done.stderr


@pytest.mark.parametrize("limit_kb", [30_000, 60_000, 100_000, 150_000, 300_000, 395_000])
@pytest.mark.parametrize(
    "command", ["pareto n.json --arrays 6 --work 1", "optimize n.json --arrays 6 --mapping sdk --work 1"]
)
def test_a_limit_of_memory_is_named(command: str, limit_kb: int, tmp_path: Path) -> None:
    """Libraries that are loaded or started without memory raise any error, or end the process."""
    (tmp_path / "n.json").write_text(DOCUMENTS["n.json"])
    limits = partial(resource.setrlimit, resource.RLIMIT_AS, (limit_kb * 1024, limit_kb * 1024))
    done = started(tmp_path, [*PROGRAM, *command.split(), "-q"], limits, capture_output=True)
    told = f"error: out of memory: the limit of this process is {limit_kb} kB (ulimit -v), which does not"
    assert done.returncode in ((1,) if limit_kb <= 300_000 else (0, 1)), done.stderr
    assert done.stderr.startswith(told) == (done.returncode == 1), done.stderr
    assert done.stderr.count("\n") == done.returncode


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ImportError("a.so: failed to map segment from shared object"),
        SystemError("error return without exception set"),
    ],
)
def test_errors_of_too_little_memory(error: Exception) -> None:
    """Each alone, and as what another one follows from; the last one only where memory has a limit."""
    for raised in (error, chained(OSError("could not load it"), error)):
        words = limit_reached(raised)
        assert (words is None) == isinstance(error, SystemError)
        assert words is None or words.startswith("out of memory: use a smaller network")


def chained(error: Exception, cause: Exception) -> Exception:
    """Return an error that follows another one."""
    error.__cause__ = cause
    return error


def test_a_limit_of_threads_is_named(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    outcome = run("optimize", "alexnet", "--arrays", "x2", "--work", 0)
    told = "error: no further process can start: raise the limit of processes (ulimit -u)\n"
    assert (outcome.code, outcome.err) == (1, told)


def test_compiled_code_that_cannot_be_kept_is_used(tmp_path: Path) -> None:
    """A limit of the size of files is as a full disk: numba makes a file and cannot write all of it."""
    (tmp_path / "doubling.py").write_text(
        "from rramalloc.compiled import compiled\n\n@compiled\ndef double(x):\n    return 2 * x\n"
    )
    code = "from doubling import double; print(double(21))"
    done = started(
        tmp_path,
        [sys.executable, "-c", code],
        lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
        capture_output=True,
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)},
    )
    assert (done.stdout, done.stderr) == ("42\n", "")


def test_a_sweep_whose_stderr_is_closed(tmp_path: Path) -> None:
    """Its workers have the streams of the command, also those that were closed."""
    (tmp_path / "s.toml").write_text(SPEC)
    command = [*PROGRAM, "sweep", "s.toml", "-o", "out", "--jobs", "1", "--format", "csv"]
    done = started(tmp_path, command, lambda: os.close(2), stdout=subprocess.PIPE)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 2


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("optimize n.json --arrays 6 --format csv -o kept", 0),
        ("compare n.json --arrays 6 --format csv -o kept", 0),
        ("sweep s.toml --jobs 1 --format csv -o kept", 0),
        ("optimize n.json --arrays 1 --format csv", 1),
        ("optimize n.json --arrays 6 --formart csv", 2),
    ],
)
def test_talk_that_cannot_be_written_is_dropped(
    command: str, code: int, forks: Forks, tmp_path: Path
) -> None:
    """A full disk, a reader that is gone, a terminal that was closed: the answer comes all the same."""
    (tmp_path / "n.json").write_text(DOCUMENTS["n.json"])
    (tmp_path / "s.toml").write_text(SPEC.replace("alexnet", "n.json"))
    told, answers = tmp_path / "told", set[str]()
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(open(path, "wb", buffering=0)) for path in (told, "/dev/full")]
        stderr = [*(file.fileno() for file in files), unread_pipe(stack), closed_terminal(stack)]
        for number, stream in enumerate(stderr):
            words = command.replace("kept", f"kept{number}").split()
            out = stack.enter_context(open(tmp_path / f"out{number}", "wb", buffering=0))
            assert forks(words, tmp_path, out.fileno(), stream).code == code
            assert (tmp_path / f"kept{number}").exists() == ("kept" in command)
            answers.add((tmp_path / f"out{number}").read_text())
    assert told.read_text() != ""
    assert len(answers) == 1


def unread_pipe(stack: contextlib.ExitStack) -> int:
    """Return the end of a pipe that nobody reads."""
    read, write = os.pipe()
    os.close(read)
    stack.callback(os.close, write)
    return write


def closed_terminal(stack: contextlib.ExitStack) -> int:
    """Return a terminal whose window is closed."""
    ours, theirs = pty.openpty()
    os.close(ours)
    stack.callback(os.close, theirs)
    return theirs


def test_a_terminal_that_closes_during_a_search_does_not_end_it(tmp_path: Path) -> None:
    """As with nohup, whose command goes on where the hang-up is ignored."""
    ours, theirs = pty.openpty()
    command = "optimize vgg16 --arrays x2 --work 60 --seed 1 --format csv -o kept.json"
    process = subprocess.Popen(
        [*PROGRAM, *command.split()],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=theirs,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    os.close(theirs)
    os.read(ours, 1)  # the search has begun and talks
    os.close(ours)
    out, _ = process.communicate()
    assert process.returncode == 0
    assert out.startswith(b"name,")
    assert (tmp_path / "kept.json").exists()


@pytest.mark.parametrize(
    "command", ["optimize alexnet --arrays x2 --work 0 -o a.json --figure", "report b.json -o"]
)
def test_a_crash_of_what_draws_does_not_take_the_command_down(
    command: str, run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module in its place aborts the process that imports it, as V8 does where it gets no thread."""
    monkeypatch.chdir(tmp_path)
    assert run("optimize", "alexnet", "--arrays", "x2", "--work", 0, "-o", "b.json").code == 0
    (tmp_path / "vl_convert.py").write_text(
        "import os, sys\nprint('no thread', file=sys.stderr)\nos.abort()\n"
    )
    arguments, paths = [*command.split(), "f.svg", "-q"], {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, env=paths)
    assert done.returncode == 1
    assert "vl-convert ended with code -6 (no thread)" in done.stderr
    assert not (tmp_path / "f.svg").exists()
    assert (tmp_path / "a.json").exists() == command.startswith("optimize")


def test_what_draws_serves_again_after_a_failure() -> None:
    spec = '{"data": {"values": [{"a": 1}]}, "mark": "point", "encoding": {"x": {"field": "a"}}}'
    first = converted("vegalite_to_png", spec, scale=1)
    with pytest.raises(SpecError, match="ended with code 1"):
        converted("vegalite_to_png", "no specification")
    assert converted("vegalite_to_png", spec, scale=1) == first
