"""`rramalloc networks`, `presets` and `schema`: what ships."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rramalloc.hardware.loader import load_hardware, preset_names
from rramalloc.network.shipped import shipped_names, shipped_text
from rramalloc.schemas import schema_names

Run = Callable[..., Any]


def test_networks(run: Run) -> None:
    listed = run("networks", "--format", "json").json
    assert [entry["name"] for entry in listed] == list(shipped_names())
    assert all(entry["source"] and entry["weight_layers"] > 0 for entry in listed)
    rows = run("networks", "--format", "csv").rows
    assert [row["name"] for row in rows] == list(shipped_names())
    assert "vgg16" in run("networks").out


def test_presets(run: Run) -> None:
    listed = run("presets", "--format", "json").json
    assert [entry["preset"] for entry in listed] == list(preset_names())
    assert all(entry["source"] for entry in listed)
    rows = run("presets", "--format", "csv").rows
    assert [row["name"] for row in rows] == list(preset_names())
    assert all(name in run("presets").out for name in preset_names())


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_is_printed_to_start_a_file_from(name: str, run: Run, tmp_path: Path) -> None:
    """With its comments; what is printed is read as the preset, under the same name."""
    text = run("presets", name).out
    assert "# " in text or name == "plain"
    (tmp_path / "my.toml").write_text(text)
    assert load_hardware(tmp_path / "my.toml") == load_hardware(name)
    assert run("presets", name, "--format", "json").json == [{"preset": name} | load_hardware(name).to_dict()]


@pytest.mark.parametrize("name", schema_names())
def test_schemas_are_schemas(name: str, run: Run) -> None:
    schema = run("schema", name).json
    jsonschema.Draft202012Validator.check_schema(schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate({"format": "something else"})


def test_what_ships_obeys_the_schemas(run: Run) -> None:
    hardware, network = (
        jsonschema.Draft202012Validator(run("schema", name).json) for name in ("hardware", "network")
    )
    for entry in run("presets", "--format", "json").json:
        del entry["preset"]
        hardware.validate(entry)
    for name in shipped_names():
        network.validate(json.loads(shipped_text(name)))
