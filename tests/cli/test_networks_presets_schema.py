"""`rramalloc networks`, `presets` and `schema`: what ships."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema

from rramalloc.hardware.loader import preset_names
from rramalloc.network.shipped import shipped_names, shipped_text

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


def test_what_ships_obeys_the_schemas(run: Run) -> None:
    hardware, network = (
        jsonschema.Draft202012Validator(run("schema", name).json) for name in ("hardware", "network")
    )
    for entry in run("presets", "--format", "json").json:
        del entry["preset"]
        hardware.validate(entry)
    for name in shipped_names():
        network.validate(json.loads(shipped_text(name)))
