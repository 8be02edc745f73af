"""Commands as simulators: what they print, how they fail, and that nothing of them stays."""

from __future__ import annotations

import os
import threading
import time
from functools import cache
from pathlib import Path

import pytest
from commands.tune.toys import NETWORK, script

import rramalloc
from rramalloc.commands.tune.simulators import CommandSimulator, ExportedTool, simulator_named
from rramalloc.errors import RramallocError, SimulatorError, SpecError, UnknownNameError

LONG_S = 60.0
"""No test waits for it: an end that comes early is a fault of the machine, not of a test."""


@cache
def allocation() -> rramalloc.Allocation:
    return rramalloc.optimize(NETWORK, 24)


def figure(folder: Path, text: str, timeout_s: float = LONG_S) -> float:
    simulator = simulator_named(script(folder, text), timeout_s=timeout_s)
    return simulator.evaluate(NETWORK, allocation())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("print('words'); print(7)", 7.0),
        ("print('1e3  '); print()", 1000.0),
        ("print('+.5E+1')", 5.0),
        ("import sys; print('x' * 10**7); print(3); print('y' * 10**6, file=sys.stderr)", 3.0),
        ("import sys; print(sys.stdin.read() or 5)", 5.0),
    ],
)
def test_the_last_line_is_the_figure(tmp_path: Path, text: str, expected: float) -> None:
    assert figure(tmp_path, text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import sys; print(7); sys.exit('it broke')", "ended with code 1: it broke"),
        ("import os; print(7, flush=True); os.kill(os.getpid(), 11)", "signal 11"),
        ("pass", "printed nothing"),
        ("print('7 ns')", "no number: '7 ns'"),
        (r"import sys; sys.stdout.buffer.write('\u0661\u0662'.encode())", "no number"),
        (r"import sys; sys.stdout.buffer.write('\uff11e\uff13'.encode())", "no number"),
        ("print('1_000')", "no number: '1_000'"),
        ("print('nan')", "nan"),
        ("print(-1)", "negative"),
        (r"import sys; sys.stdout.buffer.write(b'\xff\xfe')", "no number"),
    ],
)
def test_failures_say_why(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(SimulatorError, match=reason):
        figure(tmp_path, text)


@pytest.mark.parametrize("line", ["layer c copies many arrays 3", "layer c copies 2 arrays ?"])
def test_counts_of_a_tool_that_are_no_numbers(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = ExportedTool("pimsyn", ("there",), (), timeout_s=LONG_S)
    monkeypatch.setattr(ExportedTool, "_run", lambda *_: f"{line}\n7")
    with pytest.raises(SimulatorError, match="gave copies or arrays that are no numbers: 'layer c"):
        tool.chosen(NETWORK, rramalloc.load_hardware("plain"))


HANGS = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
open({path!r}, "w").write(str(child.pid))
time.sleep(1000)
"""


def test_one_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    path = tmp_path / "child"
    with pytest.raises(SimulatorError, match="no answer within 3 s"):
        figure(tmp_path, HANGS.format(path=str(path)), timeout_s=3)
    assert path.exists()
    _wait_until_gone(int(path.read_text()))


def test_an_interruption_ends_it(tmp_path: Path) -> None:
    path = tmp_path / "child"
    simulator = simulator_named(script(tmp_path, HANGS.format(path=str(path))), timeout_s=LONG_S)
    assert isinstance(simulator, CommandSimulator)
    seen: list[InterruptedError] = []

    def ask() -> None:
        try:
            simulator.evaluate(NETWORK, allocation())
        except InterruptedError as error:
            seen.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    while not (path.exists() and path.read_text()):
        time.sleep(0.01)
    simulator.interrupt()
    thread.join()
    assert len(seen) == 1
    _wait_until_gone(int(path.read_text()))


def _wait_until_gone(process: int) -> None:
    while True:
        try:
            os.kill(process, 0)
            stat = Path(f"/proc/{process}/stat")
            if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z":
                return  # ended; whoever adopted it has not looked yet
        except ProcessLookupError:
            return
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("pimcmop", UnknownNameError, "did you mean pimcomp"),
        ("", UnknownNameError, "known"),
        ("python mine.py", SpecError, "{allocation}"),
        ("'python", SpecError, "no command line"),
        ("mnsim", SpecError, "--tool-path"),
    ],
)
def test_what_is_no_simulator(text: str, kind: type[RramallocError], words: str) -> None:
    with pytest.raises(kind, match=words):
        simulator_named(text)
