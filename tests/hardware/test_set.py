"""`--set`: values of the hardware that a call replaces, and what its result says of them
(docs/sources/model.md 19)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from program import run

import rramalloc
from rramalloc.cli.main import app
from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import as_hardware

pytestmark = pytest.mark.quick

NET = {
    "format": "rramalloc-network/1",
    "name": "two",
    "nodes": [
        {"name": "in", "op": "input", "shape": [16, 2, 2]},
        {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 16, "kernel": 1},
        {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 32, "kernel": 1},
    ],
}


@pytest.fixture
def network(tmp_path: Path) -> Path:
    path = tmp_path / "two.json"
    path.write_text(json.dumps(NET))
    return path


def test_a_value_that_is_set_is_in_the_hardware_and_listed() -> None:
    texts = ["timing.clock=own", "chip.tiles=[2, 2]", "energy.row_pj=none", "crossbar.cell_bits = 4"]
    hardware = as_hardware("isaac", set_values=texts)
    assert hardware.own_clock
    assert hardware.chip is not None
    assert hardware.chip.tiles == (2, 2)
    listed = ("timing.clock=own", "chip.tiles=[2, 2]", "energy.row_pj=none", "crossbar.cell_bits=4")
    assert hardware.set_values == listed
    assert Hardware(**hardware.to_dict()) == hardware
    assert as_hardware("isaac", set_values=list(listed)) == hardware


def test_what_is_set_again_is_listed_once() -> None:
    first = as_hardware("plain", set_values={"crossbar": "64x64", "timing.step_ns": 5})
    assert first.set_values == ("crossbar.wordlines=64", "crossbar.bitlines=64", "timing.step_ns=5")
    assert as_hardware(first, set_values=["timing.step_ns=6"]).set_values == (
        *("crossbar.wordlines=64", "crossbar.bitlines=64"),
        "timing.step_ns=6",
    )
    assert as_hardware(first, "32x32").set_values == ("timing.step_ns=5",)
    assert first.with_values({"timing.step_ns": 5, "crossbar": "8x8"}).set_values is None


def test_a_rate_and_a_table_of_rates() -> None:
    own = {"timing.clock": "own", "timing.step_ns": 5.0}
    one = as_hardware("plain", set_values=own | {"digital.ns_per_pixel.add": 2.0})
    table = as_hardware("plain", set_values=own | {"digital.ns_per_pixel": {"add": 2.0}})
    assert one.digital == table.digital
    assert (table.set_values or ())[2] == 'digital.ns_per_pixel={"add" = 2.0}'
    assert as_hardware("plain", set_values=table.set_values) == table


def test_without_set_nothing_is_listed() -> None:
    assert "set_values" not in as_hardware("isaac").to_dict()
    assert as_hardware("isaac", set_values=[]) == as_hardware("isaac", set_values=None)


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        (["timing.adc_ns=3"], "is not what the tables say"),
        (["timing.adc_nss=3"], r"did you mean timing\.adc_ns"),
        (["timing"], r"SECTION\.FIELD=VALUE"),
        ([], "at least 1"),
    ],
)
def test_a_file_lists_what_it_has(listed: list[str], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        as_hardware(rramalloc.load_hardware("isaac").to_dict() | {"set_values": listed})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("64x64", ["crossbar=32x32"]), "^--set: gives crossbar, and --crossbar too"),
        (("64x64", {"crossbar.bitlines": 32}), r"^--set: gives crossbar\.bitlines, and --crossbar too"),
        ((None, ["crossbar=64x64"]), r"give energy\.area_um2 and energy\.read_pj .* for the new size too"),
    ],
)
def test_a_size_is_given_once_with_what_it_takes(arguments: Any, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        as_hardware("isaac", *arguments)


def _commands() -> list[tuple[str, Any]]:
    """Return every command by its name."""
    pending, found = [("rramalloc", typer.main.get_command(app))], list[tuple[str, Any]]()
    while pending:
        name, command = pending.pop()
        inner = getattr(command, "commands", None)
        if inner is None:
            found.append((name, command))
        else:
            pending += [(f"{name} {child}", own) for child, own in inner.items()]
    return found


def test_every_command_with_hardware_has_set() -> None:
    options = {name: {opt for own in command.params for opt in own.opts} for name, command in _commands()}
    with_hardware = {name for name, opts in options.items() if "--hardware" in opts}
    assert len(with_hardware) >= 12
    assert with_hardware == {name for name, opts in options.items() if "--set" in opts}


SET = ("--set", "timing.step_ns=7", "--set", "chip.arrays_per_tile=8")
CHIP = ("--set", "chip.tiles=[1, 1]", "--set", "chip.chips=[1, 1]")
LISTED = ["timing.step_ns=7", "chip.arrays_per_tile=8", "chip.tiles=[1, 1]", "chip.chips=[1, 1]"]


@pytest.mark.parametrize(
    "command",
    [
        "optimize NET --arrays 6 --work 1",
        "inspect NET",
        "compare NET --arrays 6 --work 1 --methods none,gain",
        "pareto NET --arrays 6 --work 1",
        "explain NET --arrays 6 --work 1",
        "explain NET --allocation A --work 1",
        "simulate NET --allocation A",
        "place NET --allocation A",
        "fold NET",
        "verify NET --allocation A",
        "chiplet optimize NET --hardware plain --work 1",
    ],
)
def test_results_say_what_was_set(command: str, network: Path, tmp_path: Path) -> None:
    made = tmp_path / "a.json"
    made.write_text(json.dumps({"copies": {"a": 2, "b": 1}}))
    words = [{"NET": network, "A": made}.get(word, word) for word in command.split()]
    outcome = run(*words, *SET, *CHIP, "--format", "json")
    assert outcome.code == 0, outcome.err
    document = outcome.json
    holder = document["hardware"] if isinstance(document.get("hardware"), dict) else document
    assert holder["set_values"] == LISTED


def test_a_number_that_is_set_counts(network: Path, tmp_path: Path) -> None:
    """4 windows with one copy of a, then b with one: 5 steps of 7 ns."""
    path = tmp_path / "a.json"
    first = run("optimize", network, "--arrays", 2, "--work", 1, *SET, *CHIP, "-o", path)
    assert "plain, timing.step_ns=7, chip.arrays_per_tile=8" in first.out
    assert json.loads(path.read_text())["latency_ns"] == 35.0
    again = run("simulate", network, "--allocation", path, "--set", "timing.step_ns=3", "--format", "json")
    assert again.json["latency_ns"] == 15.0
    assert again.json["hardware"]["set_values"] == [*LISTED[1:], "timing.step_ns=3"]


def test_values_and_units_apart(network: Path) -> None:
    outcome = run("chiplet", "optimize", network, "--set", "timing.step_ns=7")
    assert outcome.code == 1
    assert "hardware: " in outcome.err


@pytest.mark.parametrize(
    "value",
    ["[" * 3000 + "]" * 3000, "{a=" * 500 + "1" + "}" * 500, "9" * 5000, "-" + "9" * 5000, "0x" + "f" * 5000],
    ids=["deep lists", "deep tables", "digits", "negative", "hexadecimal"],
)
@pytest.mark.parametrize(
    "name", ["timing.step_ns", "crossbar", "chip.tiles", "digital.ns_per_pixel.add", "x"]
)
def test_values_that_are_too_deep_or_too_long_are_refused(name: str, value: str) -> None:
    with pytest.raises(SpecError):
        as_hardware("plain", set_values=[f"{name}={value}"])
