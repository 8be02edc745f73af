"""Some of the hostile cases of `fuzz.py`, and two whole commands that are killed or compete."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hostile.fuzz import COMMANDS, prepare, run, try_case, within

CASES = 120


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz") / "prepared"
    folder.mkdir()
    prepare(folder)
    return folder


def test_undamaged_files_are_served(prepared: Path, tmp_path: Path) -> None:
    """Else the cases below would damage what is refused anyway."""
    folder = shutil.copytree(prepared, tmp_path / "undamaged")
    with within(folder):
        for command in (command for commands in COMMANDS.values() for command in commands):
            written = ("out.json",) if command[0] == "convert" else ("-o", f"out_{command[0]}")
            code, said = run((*command, *written, "-q"))
            assert code == 0, (command, said)


@pytest.mark.parametrize("part", range(8))
def test_hostile_cases(part: int, prepared: Path, tmp_path: Path) -> None:
    for seed in range(part, CASES, 8):
        ending = try_case(seed, prepared, tmp_path / "case")
        assert ending.verdict in ("served", "refused"), (seed, *ending)


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "rramalloc", *words],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_commands_killed_at_any_time_leave_the_old_or_the_new_result(prepared: Path) -> None:
    target, chance = prepared / "killed.json", random.Random(3)
    target.write_text('{"old": true}')
    for _ in range(4):
        process = start(prepared, "optimize", "n.json", "--arrays", "40", "-o", target.name, "-q")
        time.sleep(chance.uniform(0.2, 1.5))
        process.kill()
        process.communicate()
        assert json.loads(target.read_text()).keys() & {"old", "layers"}


def test_two_commands_that_write_one_file(prepared: Path) -> None:
    command = ("optimize", "n.json", "-o", "both.json", "-q", "--arrays")
    processes = [start(prepared, *command, arrays) for arrays in ("30", "40")]
    said = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    assert json.loads((prepared / "both.json").read_text())["arrays"]["budget"] in (30, 40)
