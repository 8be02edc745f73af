"""Sweeps over values of kinds of arrays, and over their numbers, by hand (docs/sources/model.md 18)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands.sweep.tiny import rows_of
from laws.kinds import DOCUMENT
from search.test_digital_units import with_units

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("lists", "ticks"),
    [
        ({"kinds.analog.arrays": [3, 8]}, [42, 26]),
        ({"kinds.digital.arrays": [1, 2]}, [42, 28]),
        ({"arrays": ["analog=3,digital=1", "analog=8,digital=1"]}, [42, 26]),
        ({"kinds.digital.processor.macs_per_ns": [64.0]}, [42]),
    ],
)
def test_values_of_kinds_are_swept(tmp_path: Path, lists: dict[str, Any], ticks: list[int]) -> None:
    """Without `arrays` a point has those of its kinds."""
    (tmp_path / "ab.json").write_text(json.dumps(DOCUMENT))
    rows = rows_of(tmp_path / "ab.json", hardware=[with_units(3, 1).to_dict()], **lists)
    assert [row["makespan"] for row in rows] == ticks
