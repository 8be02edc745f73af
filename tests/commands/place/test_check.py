"""The judge of placements: what is wrong is found and named, whoever wrote the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands.place.machines import chain, chip, machine

import rramalloc
from rramalloc.commands.place.check import check_placement
from rramalloc.commands.place.placement import Placement, read_placement
from rramalloc.errors import FileError, MisplacedError, SpecError
from rramalloc.network.network import Network

pytestmark = pytest.mark.quick

NETWORK = chain(2, 5, side=4, kernel=3)
COPIES = {"c1": 3, "c2": 2}
Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """c1: 3 copies of 1 array, c2: 2 copies of 2 x 2 arrays; tiles of 4 on 2 chips of 1 x 3."""
    hardware = machine(chip(4, (1, 3), (1, 2)), (10, 4))
    return rramalloc.place(NETWORK, COPIES, hardware=hardware).to_dict()


def read(document: dict[str, Any]) -> Placement:
    """As from a file."""
    return Placement.model_validate_json(json.dumps(document))


def first(document: dict[str, Any], layer: str) -> dict[str, Any]:
    found: dict[str, Any] = next(array for array in document["arrays"] if array["layer"] == layer)
    return found


def same_array_twice(document: dict[str, Any]) -> None:
    document["arrays"][1] |= {key: document["arrays"][0][key] for key in ("chip", "tile", "index")}


def same_block_twice(document: dict[str, Any]) -> None:
    one, two = [a for a in document["arrays"] if a["layer"] == "c1"][:2]
    two["replica"] = one["replica"]


def kernels_beyond_an_array(document: dict[str, Any]) -> None:
    document["options"]["mapping"] = "whole_kernel"
    document["hardware"]["crossbar"]["wordlines"] = 4


CHANGES: list[tuple[str, Change, str]] = [
    ("chip", lambda d: d["arrays"][2].update(chip=[0, 2]), r"\[2\]: chip \[0, 2\] is outside the 1 x 2"),
    ("tile", lambda d: d["arrays"][0].update(tile=[1, 0]), r"\[0\]: tile \[1, 0\] is outside the 1 x 3"),
    ("array", same_array_twice, r"arrays\[1\]: is the physical array of arrays\[0\] again"),
    ("block", same_block_twice, r"arrays\[\d+\]: holds the block of arrays\[\d+\] again"),
    ("replica", lambda d: first(d, "c2").update(replica=2), r"copy 2 of 'c2', it has 2"),
    ("column", lambda d: first(d, "c2").update(column_block=9), r"a copy of 'c2' has no block \(\d, 9\)"),
    ("rows", lambda d: first(d, "c1").update(rows=8), r"takes 8 x 2 lines, its block takes 9 x 2"),
    ("layer", lambda d: first(d, "c1").update(layer="c9"), r"layer 'c9' is no stage"),
    ("missing", lambda d: d["arrays"].remove(first(d, "c2")), r"layer 'c2': block \[\d, \d\] of copy"),
    ("told", lambda d: d["tiles"][0].update(arrays=3), r"tiles\[0\]: does not hold the 3 arrays told"),
    ("untold", lambda d: d["tiles"].pop(), r"tiles: 1 tiles in use are not told"),
    ("copies", lambda d: d["layers"][0].update(copies=2), r"layer 'c1': copies is 2, the allo"),
    ("network", lambda d: d["network"].update(sha256="0"), "network: it is of 'chain', not of 'chain'"),
    ("hardware", lambda d: d["hardware"].pop("chip"), r"hardware: has no \[chip\]"),
    ("kernel", kernels_beyond_an_array, r"layer 'c1': arrays_per_copy is 1, the allocation needs 3"),
    ("many", lambda d: d["layers"][0].update(copies=10**9), r"'c1': its copies take more than"),
]


def test_what_place_writes_holds(document: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "placed.json"
    path.write_text(json.dumps(document))
    placement = read_placement(path)
    check_placement(placement, NETWORK, COPIES)
    assert placement.to_dict() == document
    assert placement.copies == COPIES


@pytest.mark.parametrize(("change", "told"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_every_fault_is_found(document: dict[str, Any], tmp_path: Path, change: Change, told: str) -> None:
    changed = json.loads(json.dumps(document))
    change(changed)
    path = tmp_path / "placed.json"
    path.write_text(json.dumps(changed))
    with pytest.raises(MisplacedError, match=told):
        check_placement(read_placement(path), NETWORK, COPIES, str(path))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("[]", "format: must be 'rramalloc-placement/2'"),
        ('{"format": "rramalloc-allocation/2"}', "got 'rramalloc-allocation/2'"),
        ('{"format": "rramalloc-placement/2", "arrays": 3}', "missing"),
        ('{"format": ' + "[" * 100_000, "nested too deeply|not JSON"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "placed.json"
    path.write_text(text)
    with pytest.raises((FileError, SpecError), match=told) as error:
        read_placement(path)
    assert str(path) in str(error.value)


MODES = {"copies": {"c1": 5, "c2": 2}, "block": {"c1": [1, 2], "c2": [2, 2]}}


@pytest.fixture(scope="module")
def in_modes() -> dict[str, Any]:
    """c1: 12 rows, 4 columns, two copies in an array of 25 x 8: 3 arrays for 5; c2: 32 x 20, 2 x 3 a copy."""
    hardware = machine(chip(6, (1, 3), (1, 2)), (25, 8))
    return rramalloc.place(NETWORK, MODES, hardware=hardware).to_dict()


IN_MODES: list[tuple[str, Change, str]] = [
    ("copies", lambda d: first(d, "c1").update(copies=1), r"is shared by 1 copies, its block is of 2"),
    ("replica", lambda d: first(d, "c1").update(replica=1), r"a copy of 'c1' has no block"),
    ("rows", lambda d: first(d, "c1").update(rows=12), r"takes 12 x 8 lines, its block takes 24 x 8"),
    ("missing", lambda d: d["arrays"].remove(first(d, "c1")), r"block \[0, 0\] of copy 0 is on no array"),
    ("none", lambda d: d["layers"][1].pop("block"), r"block is \(1, 1\), the allocation needs \(2, 2\)"),
    ("too tall", lambda d: d["layers"][1].update(block=[5, 1]), r"block \[5, 1\] is none that it can have"),
    ("mapping", lambda d: d["options"].update(mapping="im2col"), r"arrays_per_copy is|has a block with"),
]


@pytest.mark.parametrize(("change", "told"), [c[1:] for c in IN_MODES], ids=[c[0] for c in IN_MODES])
def test_what_is_wrong_with_modes_is_named(in_modes: dict[str, Any], change: Change, told: str) -> None:
    right = read(in_modes)
    assert [(layer.block, layer.arrays_per_copy, layer.copies) for layer in right.layers] == [
        ((1, 2), 1, 5),
        ((2, 2), 6, 2),
    ]
    check_placement(right, NETWORK, MODES["copies"], blocks={"c1": (1, 2), "c2": (2, 2)})
    changed = json.loads(json.dumps(in_modes))
    change(changed)
    with pytest.raises(MisplacedError, match=told):
        check_placement(read(changed), NETWORK, MODES["copies"], blocks={"c1": (1, 2), "c2": (2, 2)})


def test_blocks_of_a_transposed_convolution_are_aligned_to_its_stride() -> None:
    """Stride 2 and pads 3: blocks of 4 begin 3 % 2 = 1 pixel before the output of 6 x 6: 2 x 2 of them."""
    up = {"name": "up", "op": "conv_transpose", "inputs": ["in"], "out_channels": 1}
    up |= {"kernel": 8, "stride": 2, "pads": 3}
    nodes = [{"name": "in", "op": "input", "shape": [1, 3, 3]}, up]
    network, blocks = Network.build("up", nodes), {"up": (4, 4)}
    modes = {"copies": {"up": 4}, "block": {"up": [4, 4]}}
    document = rramalloc.place(network, modes, hardware=machine(chip(4, (1, 2)))).to_dict()
    check_placement(read(document), network, {"up": 4}, blocks=blocks)
    document["layers"][0]["copies"] = 5
    with pytest.raises(MisplacedError, match="has 5 copies for 4 blocks of windows"):
        check_placement(read(document), network, {"up": 5}, blocks=blocks)
