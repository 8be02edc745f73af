"""Some of the hostile cases of `fuzz.py`."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands.sweep.conftest import InThisProcess
from hostile.documents import HARDWARE, with_value
from hostile.fuzz import COMMANDS, VALUES, prepare, run, try_case, with_target
from hypothesis import given
from laws.strategies import randoms

from rramalloc.errors import RramallocError
from rramalloc.network.network import Network

CASES = int(os.environ.get("RRAMALLOC_FUZZ", "120"))
"""Commands with hostile input; 5,000 take half an hour."""


@pytest.fixture(scope="module", autouse=True)
def _sweeps_in_this_process() -> Iterator[None]:
    """Workers are tested where sweeps are: each takes a second to start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rramalloc.commands.sweep.sweep.LocalWorkers", InThisProcess)
        yield


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz") / "prepared"
    folder.mkdir()
    prepare(folder)
    return folder


def test_undamaged_files_are_served(prepared: Path, tmp_path: Path) -> None:
    """Else the cases below would damage what is refused anyway."""
    folder = shutil.copytree(prepared, tmp_path / "undamaged")
    with contextlib.chdir(folder):
        commands = dict.fromkeys(command for each in COMMANDS.values() for command in each)
        for number, command in enumerate(commands):
            code, said = run(with_target(command, f"out{number}"))
            assert code == 0, (command, said)


@pytest.mark.parametrize("part", range(8))
def test_hostile_cases(part: int, prepared: Path, tmp_path: Path) -> None:
    for seed in range(part, CASES, 8):
        ending = try_case(seed, prepared, tmp_path / "case")
        assert ending.verdict in ("served", "refused"), (seed, *ending)


def test_tiny_numbers_and_ratios_are_refused_by_name(prepared: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(prepared, tmp_path / "tiny")
    for table, field, value, told in (
        ("memory", "bandwidth_gb_s", 5e-324, "memory.bandwidth_gb_s: input should be greater"),
        ("chip", "hop_ns_tile", 5e-324, "chip.hop_ns_tile: must be 0, or at least 1e-09"),
        ("chip", "hop_ns_chip", 1.1e6, "hop_ns_chip is more than 1,000,000 times hop_ns_tile"),
    ):
        (folder / "h.toml").write_text(with_value(HARDWARE["h.toml"], table, field, value))
        with contextlib.chdir(folder):
            code, said = run(("place", "n.json", "--allocation", "a.json", "--hardware", "h.toml"))
        assert (code, told in said) == (1, True), said


@given(chance=randoms)
def test_any_fields_of_a_node(chance: random.Random) -> None:
    """All fields of one node hostile at once: a Network or an error of the package."""
    names = "kernel stride pads dilation groups shape scale out_channels".split()
    operators = "conv maxpool upsample barrier linear concat input select".split()
    node = {"name": "conv1", "op": chance.choice(operators), "inputs": ["input"]}
    node |= {name: chance.choice(VALUES) for name in chance.sample(names, chance.randrange(1, 4))}
    told = ""
    try:
        Network.build("n", [{"name": "input", "op": "input", "shape": [3, 8, 8]}, node])
    except RramallocError as error:
        told = str(error)
    assert not told or told.startswith("n: ")
