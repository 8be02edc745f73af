"""Kinds of arrays in exports: csv and json have the kind of every layer, tools of one array refuse."""

from __future__ import annotations

import csv
import json

import pytest
from commands.place.test_kinds import in_tiles
from laws.kinds import HAND

import rramalloc
from rramalloc.errors import UnsupportedError


def test_kinds_come_back() -> None:
    """A file of either form is an allocation again; b takes one large array a copy, two small ones."""
    found = rramalloc.optimize(HAND, hardware=in_tiles(2, 2), progress=False)
    document = json.loads(rramalloc.export(HAND, found, to="json").files[0].text)
    assert [(each["name"], each["kind"], each["arrays"]) for each in document["layers"]] == [
        ("a", "small", 4),
        ("b", "large", 4),
    ]
    table = rramalloc.export(HAND, found, to="csv").files[0].text
    assert [row["kind"] for row in csv.DictReader(table.splitlines())] == ["small", "large"]


@pytest.mark.parametrize("tool", ["mnsim", "neurosim", "pimcomp", "pimsyn"])
def test_tools_of_one_array_refuse_by_their_name(tool: str) -> None:
    found = rramalloc.optimize(HAND, hardware=in_tiles(2, 2), progress=False)
    with pytest.raises(UnsupportedError, match=f"(?i)several kinds of arrays, which {tool} does not take"):
        rramalloc.export(HAND, found, to=tool)
