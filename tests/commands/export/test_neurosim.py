"""NeuroSim: the CSV as its parser reads it, the floor plan worked by hand, and what it refuses."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from commands.export.nets import chain, conv, expressible, machine, network, of, residual, subject
from hypothesis import given, settings
from laws.strategies import randoms

import rramalloc
from rramalloc.commands.export.targets import neurosim
from rramalloc.commands.export.targets.neurosim import Floorplan, Matrix
from rramalloc.errors import UnsupportedError
from rramalloc.network.network import Network


def read(text: str) -> list[list[float]]:
    """Every line is a layer, every value between commas a number; a blank line gives an empty layer."""
    return [[float(value) for value in line.split(",")] for line in text.split("\n")]


def test_chain() -> None:
    files = {file.name: file.text for file in neurosim.export(subject(chain(), {"c1": 3, "c2": 2})).files}
    assert read(files["NetWork.csv"]) == [
        [9, 9, 3, 3, 3, 4, 1, 2],  # 8 x 8 padded by one row and column, pooled
        [4, 4, 4, 3, 3, 300, 0, 1],  # 2 x 2 padded all around
    ]
    assert not files["NetWork.csv"].endswith("\n")
    assert json.loads(files["pipelineSpeedUp.json"]) == [3, 2]


def test_layers_of_a_network_with_branches() -> None:
    """ResNet-18 has 20 convolutions and 8 additions; the first, 7 x 7 on 224 padded by 3, is pooled."""
    found = rramalloc.export("resnet18", {"conv1": 4}, "neurosim", hardware="neurosim", layers_only=True)
    files = {file.name: file.text for file in found.files}
    rows = read(files["NetWork.csv"])
    assert len(rows) == 20
    assert rows[0] == [230, 230, 3, 7, 7, 64, 1, 2]
    assert json.loads(files["pipelineSpeedUp.json"])[0] == 4
    texts = [remark.text for remark in found.remarks]
    assert sum(text.startswith("add takes no time") for text in texts) == 8
    assert "layers alone: additions, concatenations and all else that joins them take no time" in texts
    with pytest.raises(UnsupportedError, match="more than one layer reads this one: export with layers_only"):
        rramalloc.export("resnet18", {}, "neurosim", hardware="neurosim")
    with pytest.raises(UnsupportedError, match="told how layers are joined"):
        rramalloc.export("resnet18", {}, "pimsyn", layers_only=True)


def test_settings_are_what_the_script_sets_and_checks() -> None:
    """One 1 x 1 layer of 3 x 20 on 4 x 4 arrays makes 8 copies a tile of 64 arrays: 9 copies take 2 tiles."""
    bundle = neurosim.export(subject(network(conv("c", "x", 20, 1)), {"c": 9}, machine(4, 4, cell_bits=8)))
    written = json.loads({file.name: file.text for file in bundle.files}["settings.json"])
    assert written["parameters"] == {
        "memcelltype": 2,
        "numRowSubArray": 4,
        "numColSubArray": 4,
        "cellBit": 8,
        "novelMapping": False,
        "pipeline": True,
    }
    assert (written["rows_parallel"], written["weight_bits"], written["input_bits"]) == (4, 8, 8)
    assert (written["layers"], written["copies"], written["tiles"], written["arrays"]) == (
        ["c"],
        [16],
        [2],
        [128],
    )


def test_free_copies_of_novel_mapping() -> None:
    """Arrays of 4 x 4. Both 3 x 3 layers fill 4 rows: PEs from 16 (columns 9 -> 16) down to above 8.

    Side 16: layer 0 (8 x 9) and 1 (4 x 5) take one PE each: 92 of 512 cells; it is the only candidate.
    Copies in 16 x 16, four arrays a side: layer 0: 4 // 2 * (4 // 3) = 2; layer 1: 4 // 1 * (4 // 2) = 8.
    A tile has 9 such PEs of 16 arrays; one holds a copy of either layer.
    """
    plan = Floorplan.of([Matrix(8, 9, 9), Matrix(4, 9, 5)], 4, 4, 1)
    assert plan == Floorplan(True, (2, 8), (1, 1), (144, 144))


@given(randoms)
@settings(max_examples=60, deadline=None)
def test_any_chain_is_written(random: Random) -> None:
    """Windows follow from the written sizes: floor((padded - kernel) / stride) + 1 along each side."""
    net = expressible(random, branches=False)
    made = neurosim.export(subject(net))
    rows = read(made.files[0].text)
    stages = [stage for stage in net.stages if net.shapes[stage.name].pixels > 1 or stage.op == "conv"]
    assert len(rows) == len(stages) == len(json.loads(made.files[1].text))
    for row, stage in zip(rows, stages, strict=True):
        sizes = [(row[axis] - row[3 + axis]) // row[7] + 1 for axis in (0, 1)]
        assert sizes == list(net.shapes[stage.name][1:])


def big(*nodes: dict[str, Any]) -> Network:
    return network(conv("c", "x", 300), *nodes)


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (residual(), "chains only"),
        (big(conv("d", "c", dilation=2)), "no dilated convolution"),
        (big(of("upsample", "u", "c", scale=2)), "not 'upsample'"),
        (big(of("maxpool", "p", "c", kernel=2), of("maxpool", "q", "p", kernel=2)), "one pooling at most"),
        (network(of("maxpool", "p", "x", kernel=2), conv("c", "p", 300)), "behind a weight layer"),
        (network(conv("c", "x", 4)), "allocate with --crossbar 4x64"),
    ],
)
def test_what_it_cannot_express_is_refused(net: Network, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        neurosim.export(subject(net, hardware=machine()))
