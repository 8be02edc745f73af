"""Every number of a hardware file at its extremes: served or refused by name, in all that reads it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile.fuzz import NETWORK
from hostile.test_mutations import places, toml_of

from rramalloc.hardware.hardware import MAX_VALUE

COMMON = {
    "name": "h",
    "source": "s",
    "crossbar": {"wordlines": 128, "bitlines": 128, "cell_bits": 2},
    "precision": {"weight_bits": 8, "input_bits": 8, "output_bits": 8, "signed": "offset"},
    "chip": {
        "arrays_per_tile": 16, "straddle": True, "tiles": [4, 4], "chips": [2, 1], "hop_ns_tile": 1.0,
        "hop_ns_chip": 34.0, "bandwidth_tile_gb_s": 32.0, "bandwidth_chip_gb_s": 12.8,
    },
    "energy": {"read_pj": 1.0, "leakage_mw": 0.1, "area_um2": 5.0, "pj_per_byte": 0.5, "periphery_um2": 9.0},
    "write": {"write_ns_per_row": 50.0, "write_pj": 1.0, "parallel": 2},
    "units": {
        "processors": 4, "storage_units": 4, "unit_bytes": 65536, "bandwidth_in_gb_s": 8.0,
        "bandwidth_out_gb_s": 8.0,
    },
}  # fmt: skip
MEMORY = {"bandwidth_gb_s": 128.0, "reuse": "row", "scope": "shared"}
CLOCKED = {"read_ns": 100.0, "dac_bits": 1, "adc_ns": 1.0, "columns_per_adc": 128, "rows_per_read": 64,
           "clock": "own", "tick_ns": 10.0}  # fmt: skip
MACHINES: dict[str, dict[str, Any]] = {
    "steps": COMMON | {"timing": {"step_ns": 100.0}, "memory": MEMORY},
    "clocks": COMMON | {"timing": CLOCKED, "digital": {"ns_per_pixel": {"add": 0.5, "maxpool": 0.5}}},
}
EXTREMES = (0, 5e-324, 1e-15, 1e13, MAX_VALUE, 1.7e308, 2**63)
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("optimize", "n.json", "--work", "1", "--hardware", "h.toml"),
    ("place", "n.json", "--allocation", "a.json", "--hardware", "h.toml", "--work", "1"),
    ("chiplet", "optimize", "n.json", "--hardware", "h.toml", "--work", "1"),
    ("optimize", "n.json", "--work", "1", "--hardware", "h.toml", "--mapping", "sdk"),
    ("optimize", "n.json", "--work", "1", "--hardware", "h.toml", "--placed"),
    ("optimize", "n.json", "--work", "1", "--hardware", "h.toml", "--objective", "edp"),
    (
        "optimize",
        "n.json",
        "--arrays",
        "8",
        "--work",
        "1",
        "--hardware",
        "h.toml",
        "--reload",
        "--inputs",
        "2",
    ),
    ("evaluate", "n.json", "--hardware", "h.toml", "--enumerate", "2,2"),
    ("inspect", "n.json", "--hardware", "h.toml"),
)


def extreme(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The document with one of its numbers, each in turn, at one of the extremes."""
    for number, (container, key) in enumerate(places(document)):
        if isinstance(container[key], int | float) and not isinstance(container[key], bool):
            for value in EXTREMES:
                changed = copy.deepcopy(document)
                inside, name = list(places(changed))[number]
                inside[name] = value
                yield changed


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "n.json").write_text(json.dumps(NETWORK))
    (tmp_path / "a.json").write_text('{"replication": {"c1": 2}}')
    return tmp_path


def test_numbers_as_they_are_are_served(folder: Path, run: Callable[..., Any]) -> None:
    """Else the cases below would change what is refused anyway."""
    for machine in MACHINES.values():
        (folder / "h.toml").write_text(toml_of(machine))
        for command in COMMANDS:
            outcome = run(*command, "-q")
            assert outcome.code == 0, (command, outcome.err)


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("machine", MACHINES)
def test_numbers_of_hardware(machine: str, part: int, folder: Path, run: Callable[..., Any]) -> None:
    """Each case goes through one of the commands, another one for every value and field."""
    for number, document in enumerate(extreme(MACHINES[machine])):
        if number % 4 == part:
            (folder / "h.toml").write_text(toml_of(document))
            command = COMMANDS[(number // 4 + part * 3 + number // len(EXTREMES)) % len(COMMANDS)]
            outcome = run(*command, "-q")
            said = (command, (folder / "h.toml").read_text(), outcome.err)
            assert outcome.code in (0, 1), said
            assert "internal error" not in outcome.err, said
            assert outcome.code == 0 or outcome.err.startswith("error: "), said


def test_tiny_numbers_and_ratios_are_refused_by_name(folder: Path, run: Callable[..., Any]) -> None:
    for table, field, value, told in (
        ("memory", "bandwidth_gb_s", 5e-324, "memory.bandwidth_gb_s: input should be greater"),
        ("chip", "hop_ns_tile", 5e-324, "chip.hop_ns_tile: must be 0, or at least 1e-09"),
        ("chip", "hop_ns_chip", 1.1e6, "hop_ns_chip is more than 1,000,000 times hop_ns_tile"),
    ):
        document = copy.deepcopy(MACHINES["steps"])
        document[table][field] = value
        (folder / "h.toml").write_text(toml_of(document))
        outcome = run("place", "n.json", "--allocation", "a.json", "--hardware", "h.toml")
        assert (outcome.code, told in outcome.err) == (1, True), outcome.err
