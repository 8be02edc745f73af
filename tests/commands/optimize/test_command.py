"""`rramalloc optimize`: what it prints, what it writes and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

Run = Callable[..., Any]
Start = Callable[..., subprocess.Popen[str]]
MORE = ("objective_value", "objective_unit", "history", "host", "warnings")
"""Fields besides those that the contract names."""
TOP = [
    "format", "rramalloc_version", "network", "hardware", "options", "objective", "method", "seed", "work_s",
    "arrays", "makespan", "interval", "lower_bound", "gap", "proof", "step_ns", "latency_ns",
    "throughput_per_s", "status", "stopped", "layers", "coverage", "not_counted", "stream_energy_pj",
    "stream_power_mw", "tops", "tops_per_w",
]  # fmt: skip
LAYER = [
    "name", "windows", "arrays_per_copy", "copies", "arrays", "batches", "normal_op", "pre_op", "tail", "op",
    "start", "finish",
]  # fmt: skip
HEADER = "layer windows arrays per copy copies arrays batches start finish stall"
VGG16_DEMAND = [1, 5, 5, 9, 18, 36, 36, 72, 144, 144, 144, 144, 144]  # docs/sources/model.md 3


@pytest.fixture
def quick(run: Run, tiny: Path) -> Run:
    """`optimize` of the small network, as JSON."""

    def call(*arguments: object) -> Any:
        outcome = run("optimize", tiny, "--arrays", 40, "--format", "json", *arguments)
        assert outcome.code == 0, outcome.err
        return outcome.json

    return call


def test_json_has_the_fields_of_the_contract(run: Run) -> None:
    document = run("optimize", "vgg16", "--arrays", 1024, "--format", "json").json
    assert sorted(name for name in document if name not in MORE) == sorted(TOP)
    assert document["coverage"]["host"] == document["host"] == ["fc6", "fc7", "fc8"]
    assert set(document["arrays"]) == {"budget", "used", "minimum"}
    assert all(list(layer) == LAYER for layer in document["layers"])
    assert [layer["arrays_per_copy"] for layer in document["layers"]] == VGG16_DEMAND
    assert document["arrays"]["minimum"] == 902
    assert document["makespan"] == max(layer["finish"] for layer in document["layers"])
    assert document["interval"] == max(layer["batches"] for layer in document["layers"])
    assert document["gap"] == (document["makespan"] - document["lower_bound"]) / document["makespan"]
    assert document["arrays"]["used"] == sum(layer["arrays"] for layer in document["layers"]) <= 1024
    for layer in document["layers"]:
        assert layer["arrays"] == layer["arrays_per_copy"] * layer["copies"]
        assert layer["batches"] == -(-layer["windows"] // layer["copies"]) == layer["normal_op"]
        assert layer["finish"] - layer["start"] >= layer["batches"]
    assert document["step_ns"] is document["latency_ns"] is document["throughput_per_s"] is None


def test_json_obeys_its_own_schema(run: Run, quick: Run) -> None:
    schema = run("schema", "allocation").json
    jsonschema.Draft202012Validator.check_schema(schema)
    document = quick()
    jsonschema.validate(document, schema)
    del document["makespan"]
    with pytest.raises(jsonschema.ValidationError, match="makespan"):
        jsonschema.validate(document, schema)


@pytest.mark.quick
def test_table_and_summary(run: Run, tiny: Path) -> None:
    outcome = run("optimize", tiny, "--arrays", 40)
    header, rule, first, second, blank, *summary = outcome.out.splitlines()
    assert " ".join(header.split()) == HEADER
    assert set(rule) == {"─"}
    assert first.split()[:3] == ["conv1", "256", "1"]
    assert second.split()[:3] == ["conv2", "64", "2"]
    assert blank == ""
    labels = "\n".join(summary)
    for label in ("network", "hardware", "arrays", "makespan", "interval", "lower bound", "gap", "proof"):
        assert f"\n{label} " in f"\n{labels}"
    assert re.fullmatch(
        r"coverage +\S+ % of the MACs and \S+ % of the weights on arrays; on the host: fc", summary[-1]
    )
    assert "\x1b" not in outcome.out + outcome.err


def test_recurrence_adds_its_terms_to_the_table(run: Run, tiny: Path) -> None:
    """JSON has them always; batches, start and finish are exact, whatever the recurrence says."""
    outcome = run("optimize", tiny, "--arrays", 40, "--recurrence")
    assert " ".join(outcome.out.split("\n")[0].split()) == f"{HEADER} NormalOp PreOp Tail Op"
    rows = run("optimize", tiny, "--arrays", 40, "--recurrence", "--format", "csv").rows
    layers = run("optimize", tiny, "--arrays", 40, "--format", "json").json["layers"]
    for row, layer in zip(rows, layers, strict=True):
        assert [row[name] for name in LAYER] == [str(layer[name]) for name in LAYER]
        assert int(row["stall_steps"]) == layer["finish"] - layer["start"] - layer["batches"]


@pytest.mark.quick
def test_budget_too_small_lists_every_need(run: Run) -> None:
    outcome = run("optimize", "vgg16.json", "--arrays", 900)
    assert outcome.code == 1
    assert outcome.out == ""
    first, *table = outcome.err.splitlines()
    assert first.startswith("error: needs 902 arrays")
    assert "smallest budget that works is --arrays 902" in first
    assert [int(line.split()[1]) for line in table[1:14]] == VGG16_DEMAND
    assert [line.split() for line in table[14:]] == [["needed", "902"], ["budget", "900"]]
    assert run("optimize", "vgg16.json", "--arrays", 902, "--work", 0).code == 0


def test_same_command_same_bytes(start: Start, run: Run, tmp_path: Path) -> None:
    """Other hash seed, other process, other file: not one byte differs."""
    command = ("optimize", "squeezenet", "--arrays", 600, "--work", 3, "--format", "json", "-q", "-o")
    other = start(*command, tmp_path / "other.json", env={"PYTHONHASHSEED": "1"}, cwd=tmp_path)
    printed = other.communicate()[0]
    assert printed == run(*command, tmp_path / "here.json").out
    for name in ("other", "here"):
        assert printed.encode() == (tmp_path / f"{name}.json").read_bytes()


@pytest.mark.parametrize(
    ("option", "value", "name"),
    [
        ("--arrays", 0, "arrays"),
        ("--arrays", -1, "arrays"),
        ("--arrays", 10**18, "arrays"),
        ("--seed", -1, "seed"),
        ("--work", -1, "work"),
        ("--work", 10**18, "work"),
        ("--gap", -0.1, "gap"),
        ("--time-limit", -1, "time limit"),
        ("--target", 0, "target"),
    ],
)
def test_values_out_of_range(option: str, value: object, name: str, run: Run, tiny: Path) -> None:
    outcome = run("optimize", tiny, "--arrays", 40, f"{option}={value}")
    assert outcome.code == 1
    assert outcome.err.startswith(f"error: {name}: must be from ")


@pytest.mark.parametrize(("option", "value"), [("--gap", "nan"), ("--time-limit", "inf")])
def test_what_is_no_number_is_wrong_usage(option: str, value: str, run: Run, tiny: Path) -> None:
    outcome = run("optimize", tiny, "--arrays", 40, f"{option}={value}")
    assert outcome.code == 2
    assert f"got '{value}'" in outcome.err


def test_quiet_says_nothing_on_stderr(run: Run, tiny: Path) -> None:
    assert run("optimize", tiny, "--arrays", 40, "--quiet").err == ""
    assert "done in" in run("optimize", tiny, "--arrays", 40).err


def test_interrupt_keeps_the_best(start: Start, tmp_path: Path) -> None:
    """Ctrl-C in a search of hours: the best so far is printed and written, exit 130."""
    target = tmp_path / "allocation.json"
    arguments = "optimize densenet121 --arrays 8192 --work 100000 --format json -o".split()
    process = start(*arguments, target)
    assert process.stderr is not None
    process.stderr.readline()  # progress: the search runs
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "interrupted" in err
    assert json.loads(out) == json.loads(target.read_text())
    assert json.loads(out)["proof"].startswith("bounded, interrupted")


def test_interrupt_outside_a_search(start: Start, tmp_path: Path) -> None:
    fifo = tmp_path / "slow.json"
    os.mkfifo(fifo)
    process = start("inspect", fifo)
    writing = os.open(fifo, os.O_WRONLY)  # returns when the program reads, which then waits for content
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=30)[1]
    os.close(writing)
    assert process.returncode == 130
    assert "Traceback" not in err


def test_reader_that_leaves_early(start: Start) -> None:
    process = start("optimize", "vgg16", "--arrays", 1024, "--quiet")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait(timeout=30) in (0, 1)


@pytest.mark.parametrize("arguments", [("--target", 100), ("--target-ns", 5.0)])
def test_a_target_is_not_ignored(run: Run, arguments: tuple[object, ...]) -> None:
    outcome = run("optimize", "alexnet", "--arrays", 400, "--objective", "latency", *arguments)
    assert outcome.code == 1
    assert "'arrays'" in outcome.err


def test_a_method_is_not_ignored(run: Run) -> None:
    outcome = run("optimize", "alexnet", "--arrays", 400, "--objective", "interval", "--method", "milp")
    assert outcome.code == 1
    assert "which objective 'interval' does not take: use method auto" in outcome.err


@pytest.mark.parametrize(
    ("preset", "arrays", "told"),
    [
        pytest.param("plain", 10_000, [], id="nothing to tell"),
        pytest.param(
            "isaac",
            100_000,
            ["pj_per_byte", "more than the 12288"],
            id="more than there are",
        ),
        pytest.param("isaac", 1_000, ["pj_per_byte"], id="fits"),
        pytest.param("isaac-todaes", 1_000, ["not confirmed"], id="not confirmed"),
    ],
)
def test_what_is_assumed_of_the_hardware_is_told(
    run: Run, tiny: Path, preset: str, arrays: int, told: list[str]
) -> None:
    outcome = run("optimize", tiny, "--arrays", arrays, "--hardware", preset, "--format", "json")
    warnings = outcome.json["warnings"]
    assert len(warnings) == len(told)
    for warning, words in zip(warnings, told, strict=True):
        assert words in warning
        assert f"warning: {warning}" in outcome.err
