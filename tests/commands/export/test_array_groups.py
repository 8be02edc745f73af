"""Cores of array groups, counted by hand, and laws of them on random layers."""

from __future__ import annotations

import json
from collections import Counter
from random import Random

from commands.export.nets import chain, machine, subject
from hypothesis import given, settings
from laws.strategies import randoms

from rramalloc.commands.export.targets import pimcomp
from rramalloc.commands.export.targets.pimcomp import TOGETHER, ArrayGroups, spread
from rramalloc.hardware.tables import Chip


def test_copies_go_where_the_fewest_reads_are() -> None:
    """Three cores of 20: 8, 8 and 4 copies with 5 reads each, so the third core has 20 and the others 40;
    then a copy of 2 groups with 15 reads each goes to the third, now 50, and the last to the first."""
    layers = [
        ArrayGroups(copies=20, blocks=1, width=1, windows=100),
        ArrayGroups(copies=2, blocks=2, width=3, windows=8),
    ]
    first, second = spread(layers, 3, 20) or [[], []]
    assert first == [0] * TOGETHER + [1] * TOGETHER + [2] * 4
    assert second == [2, 2, 2, 2]  # both copies together: 16 reads, 36 in all


@given(randoms)
@settings(max_examples=300, deadline=None)
def test_no_core_holds_more_than_it_has(random: Random) -> None:
    """Every group has a core, and a layer that fits beside no other still has its copies whole."""
    cores, arrays = random.randint(1, 12), random.randint(1, 40)
    layers = [
        ArrayGroups(
            random.randint(1, 30), random.randint(1, 6), random.randint(1, arrays), random.randint(1, 900)
        )
        for _ in range(random.randint(1, 5))
    ]
    laid = spread(layers, cores, arrays)
    if laid is None:
        return
    used = Counter[int]()
    for layer, where in zip(layers, laid, strict=True):
        assert len(where) == layer.number
        for core in where:
            used[core] += layer.width
    assert set(used) <= set(range(cores))
    assert max(used.values()) <= arrays


def test_cores_of_an_export() -> None:
    """c2 has a copy of 1 x 10 arrays, fc one of 19: by node, group after group of each copy."""
    chip = Chip(arrays_per_tile=64, tiles=(1, 2), chips=(1, 1))
    made = pimcomp.export(subject(chain(), {"c1": 3, "c2": 2}, machine(chip=chip)))
    files = {file.name: json.loads(file.text) for file in made.files if file.name.endswith(".json")}
    nodes = files["network.json"]["node_list"]
    by_name = {nodes[int(index)]["name"]: cores for index, cores in files["cores.json"].items()}
    assert {name: len(cores) for name, cores in by_name.items()} == {"c1": 3, "c2": 2, "fc": 19}
    assert {core for cores in by_name.values() for core in cores} == {0, 1}
    assert any("start" in remark.text and "cores.json" in remark.text for remark in made.remarks)
