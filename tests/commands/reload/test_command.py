"""`rramalloc optimize --reload`: what it prints, what it writes and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import rramalloc
from rramalloc.schemas import json_schema

Run = Callable[..., Any]

WRITE = """
[timing]
step_ns = 10.0
[write]
write_ns_per_row = 5.0
parallel = 2
"""
CHIP = """
[chip]
arrays_per_tile = 20
tiles = [1, 1]
chips = [1, 1]
"""


@pytest.fixture
def hardware(tmp_path: Path) -> Path:
    plain = rramalloc.load_hardware("plain")
    text = f"""
name = "write"
source = "test"
[crossbar]
wordlines = 128
bitlines = 128
cell_bits = {plain.crossbar.cell_bits}
[precision]
weight_bits = {plain.precision.weight_bits}
input_bits = 8
output_bits = 8
signed = "offset"
"""
    path = tmp_path / "write.toml"
    path.write_text(text + WRITE)
    return path


@pytest.fixture
def reload(run: Run, hardware: Path) -> Run:
    """The command for AlexNet on two fifths of what it needs."""

    def call(*arguments: object, arrays: object = "x0.4") -> Any:
        return run(
            "optimize",
            "alexnet",
            "--arrays",
            arrays,
            "--hardware",
            hardware,
            "--reload",
            "--work",
            4,
            *arguments,
        )

    return call


def test_json_file_and_schema(reload: Run, tmp_path: Path) -> None:
    outcome = reload("--format", "json", "-o", tmp_path / "plan.json", "-q")
    document = outcome.json
    assert document == json.loads((tmp_path / "plan.json").read_text())
    jsonschema.validate(document, json_schema("reload"))
    assert document["format"] == "rramalloc-reload/2"
    assert document["total_ns"] == sum(segment["time_ns"] for segment in document["segments"])
    assert document["lower_bound"] <= document["total_ns"]
    assert document["inputs"] == 1
    assert all(segment["arrays"] <= document["arrays"]["budget"] for segment in document["segments"])
    assert document["coverage"]["host"] == ["fc6", "fc7", "fc8"]
    assert rramalloc.ReloadPlan.model_validate_json(json.dumps(document)).to_dict() == document


def test_a_network_that_does_not_fit_is_told_of_reload_where_it_would_help(run: Run, hardware: Path) -> None:
    outcome = run("optimize", "alexnet", "--arrays", 80, "--hardware", hardware)
    assert outcome.code == 1
    assert "or --reload to write and run the layers in segments" in " ".join(outcome.err.split())
    plain = run("optimize", "alexnet", "--arrays", 80)
    assert "--reload" not in plain.err
    chip = hardware.read_text().replace(WRITE, WRITE.partition("[write]")[0] + CHIP)
    hardware.write_text(chip)
    small = " ".join(run("optimize", "alexnet", "--hardware", hardware).err.split())
    assert "the chips have 20 arrays" in small
    assert "or --reload to write and run the layers in segments (needs [write] in the hardware file)" in small
    hardware.write_text(chip + "[write]\nwrite_ns_per_row = 5.0\n")
    helped = run("optimize", "alexnet", "--hardware", hardware, "--reload", "--work", 1)
    assert helped.code == 0


def test_a_time_limit_and_no_work_still_give_a_plan(reload: Run) -> None:
    for arguments in (("--time-limit", 0), ("--work", 0)):
        outcome = reload("--format", "json", *arguments)
        assert outcome.code == 0, outcome.err
        assert outcome.json["lower_bound"] <= outcome.json["total_ns"]


def test_the_time_of_writing_may_be_set(run: Run) -> None:
    """The segments are searched without [write], and so without what was set of it."""
    given = ("optimize", "alexnet", "--arrays", 100, "--reload", "--work", 1, "--format", "json")
    done = run(
        *given, "--hardware", "isaac", "--crossbar", "256x256", "--set", "write.write_ns_per_row=50", "-q"
    )
    assert done.code == 0, done.err
    assert done.json["hardware"]["write"] == {"write_ns_per_row": 50.0}
