"""`rramalloc networks`, `presets` and `schema`: what ships."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema

from rramalloc.network.shipped import shipped_names, shipped_text

Run = Callable[..., Any]


def test_what_ships_obeys_the_schemas(run: Run) -> None:
    hardware, network = (
        jsonschema.Draft202012Validator(run("schema", name).json) for name in ("hardware", "network")
    )
    for entry in run("presets", "--format", "json").json:
        del entry["preset"]
        hardware.validate(entry)
    for name in shipped_names():
        network.validate(json.loads(shipped_text(name)))
