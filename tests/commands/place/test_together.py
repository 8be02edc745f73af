"""The JSON of `size` in place of a network and an allocation: networks that share the tiles of a chip."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from program import run

import rramalloc
from rramalloc.errors import CapacityError, SpecError
from rramalloc.timing.measured_layer import MeasuredLayer

HARDWARE: dict[str, Any] = {
    "name": "shared",
    "crossbar": {"wordlines": 16, "bitlines": 16, "cell_bits": 4},
    "precision": {"weight_bits": 4, "input_bits": 4, "output_bits": 8, "signed": "offset"},
    "timing": {"step_ns": 10.0},
    "energy": {"area_um2": 5.0},
    "chip": {"arrays_per_tile": 4, "hop_ns_tile": 1.0, "bandwidth_tile_gb_s": 2.0},
}
COUNTING = {"counting.groups": "dense", "counting.classifiers": "host"}


def network(name: str, side: int, kernel: int) -> dict[str, Any]:
    """8 channels, a convolution to 16 channels and a 1 x 1 convolution back to 8."""
    nodes = [
        {"name": "in", "op": "input", "shape": [8, side, side]},
        {
            "name": "a",
            "op": "conv",
            "inputs": ["in"],
            "out_channels": 16,
            "kernel": kernel,
            "pads": kernel // 2,
        },
        {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 8, "kernel": 1},
    ]
    return {"format": "rramalloc-network/1", "name": name, "source": "test", "nodes": nodes}


def sized(path: Path, names: tuple[str, ...] = ("one", "two"), **more: Any) -> str:
    """Write the result of `size`: 16 pixels in 9 steps (two copies, 2 * (5 + 1) arrays), 36 in 19 (2 * 2)."""
    known = {"one": (network("one", 4, 3), 95.0), "two": (network("two", 6, 1), 195.0)}
    networks = list[dict[str, Any]]()
    for name in names:
        document, target_ns = known[name]
        (path.parent / f"{name}.json").write_text(json.dumps(document))
        networks.append({"network": str(path.parent / f"{name}.json"), "target_ns": target_ns})
    rramalloc.size({"networks": networks, "hardware": HARDWARE, "choose": {}, **more}).save(path)
    return str(path)


@pytest.mark.parametrize("placed", [False, True])
def test_stored_networks_share_the_tiles(placed: bool, tmp_path: Path) -> None:
    path = sized(tmp_path / "sized.json", stored="all", placed=placed)
    placement = rramalloc.place(path)
    assert [(layer.name, layer.copies * layer.arrays_per_copy) for layer in placement.layers] == [
        ("one/a", 10),
        ("one/b", 2),
        ("two/a", 2),
        ("two/b", 2),
    ]
    assert {(*array.tile, array.index) for array in placement.arrays} == {
        (row, column, index) for row in range(2) for column in range(2) for index in range(4)
    }
    assert len(placement.arrays) == 16
    assert [text.partition(" with")[0] for text in placement.warnings if "alone on the links" in text] == [
        "one: latency 90 ns",
        "two: latency 190 ns",
    ]
    if placed:  # the places of the file
        kept = [each["allocation"] for each in json.loads(Path(path).read_text())["networks"]]
        for own, prefix in zip(kept, ("one", "two"), strict=True):
            for layer in own["places"]:
                of_file = Counter[tuple[int, int]]()
                for _, _, _, row, column, arrays in layer["pieces"]:
                    of_file[row, column] += arrays
                name = f"{prefix}/{layer['layer']}"
                assert of_file == Counter(each.tile for each in placement.arrays if each.layer == name)
    placement.save(tmp_path / "placed.json")
    assert rramalloc.read(tmp_path / "placed.json") == placement


def test_values_that_are_set_hold_for_tiles_and_refusals(tmp_path: Path) -> None:
    """16 arrays of both networks in tiles of 8, of which none is used beyond its 8; a tile of one layer."""
    path = sized(tmp_path / "all.json", stored="all")
    placement = rramalloc.place(path, set_values={"chip.arrays_per_tile": 8})
    assert sum(tile.arrays for tile in placement.tiles) == 16
    assert all(tile.utilisation == tile.arrays / 8 <= 1 for tile in placement.tiles)
    with pytest.raises(SpecError, match="tiles of one kind, of one layer or filled first fit, which"):
        rramalloc.place(path, set_values={"chip.sharing": "layer"})
    with pytest.raises(SpecError, match="first fit"):
        rramalloc.place(path, set_values={"counting.row_blocks": "first_fit", **COUNTING})


def test_networks_that_fill_the_chips_are_named_as_the_reason(tmp_path: Path) -> None:
    """3 tiles of 4 arrays hold the 12 of the first network, and none of the 4 of the second."""
    path = sized(tmp_path / "all.json", stored="all")
    with pytest.raises(CapacityError, match=r"needs 4 arrays, other networks leave 0 of 12 ") as caught:
        rramalloc.place(path, set_values={"chip.tiles": [1, 3]})
    assert [*caught.value.remedies] == [
        "size again on this hardware",
        "optimize and place the networks one by one",
    ]


def test_options_in_which_networks_differ_are_said(tmp_path: Path) -> None:
    """Those of the file are of the network with "sdk"."""
    document, other = network("two", 6, 1), network("one", 4, 3)
    (tmp_path / "two.json").write_text(json.dumps(document))
    (tmp_path / "one.json").write_text(json.dumps(other))
    asked = [
        {"network": str(tmp_path / "one.json"), "target_ns": 95.0, "mapping": "im2col", "fc": "crossbar"},
        {"network": str(tmp_path / "two.json"), "target_ns": 195.0, "mapping": "sdk"},
    ]
    rramalloc.size({"networks": asked, "hardware": HARDWARE, "choose": {}, "stored": "all"}).save(
        tmp_path / "sized.json"
    )
    placement = rramalloc.place(tmp_path / "sized.json", work=0)
    assert (placement.options.mapping, placement.options.fc) == ("sdk", "host")
    own = [text for text in placement.warnings if "options" in text]
    assert own == ["one: placed with other options: mapping = im2col, fc = crossbar"]


def test_a_chip_of_size_is_optimized_and_placed(tmp_path: Path) -> None:
    """With the chip of the file, all 3 tiles of 4 arrays; the network is in the file."""
    path = sized(tmp_path / "sized.json", ("one",))
    found = rramalloc.optimize(path, progress=False)
    assert (found.network.name, found.arrays.budget, found.latency_ns) == ("one", 12, 90.0)
    assert found.hardware == rramalloc.read(path).chip.hardware
    assert len(rramalloc.place(path).arrays) == 12


def test_a_network_of_size_keeps_what_it_was_sized_with(tmp_path: Path) -> None:
    """Limits, turns and measured times; what a call gives comes first, also where it is a default."""
    document = network("one", 4, 3)
    (tmp_path / "one.json").write_text(json.dumps(document))
    asked: dict[str, Any] = {
        "network": str(tmp_path / "one.json"),
        "target_interval": 40,
        "mapping": "sdk",
        "feeds_back": True,
        "sequences": 3,
        "copies": ["b=2"],
        "copies_divide": "width",
        "at_most": {"area_um2": 1000.0},
    }
    sizing = rramalloc.size({"networks": [asked], "hardware": HARDWARE, "choose": {}})
    sizing.save(path := tmp_path / "sized.json")
    found = rramalloc.optimize(path, progress=False)
    known = found.options
    assert (known.mapping, known.feeds_back, known.sequences) == ("sdk", True, 3)
    assert (known.copies, known.copies_divide) == ({"b": (2, 2)}, "width")
    assert known.at_most == {"area_um2": 1000.0}
    other = rramalloc.optimize(path, mapping="im2col", sequences=2, copies=["b=1"], progress=False).options
    assert (other.mapping, other.sequences, other.copies) == ("im2col", 2, {"b": (1, 1)})
    of_command = run("optimize", path, "-q", "--format", "json").json["options"]
    assert (of_command["mapping"], of_command["sequences"]) == ("sdk", 3)
    of_command = run("optimize", path, "--mapping", "im2col", "-q", "--format", "json").json["options"]
    assert of_command["mapping"] == "im2col"


def test_a_network_of_size_keeps_its_measured_times(tmp_path: Path) -> None:
    """16 windows of 20 ns, in place of the 10 ns of a step."""
    source = rramalloc.load(network("one", 4, 3))
    table = [MeasuredLayer.of(source, node).model_dump(mode="json") for node in source.stages]
    asked = {
        "network": str(tmp_path / "one.json"),
        "target_ns": 1000.0,
        "latency_table": {
            "format": "rramalloc-latency/1",
            "rows": [{**row, "latency_ns": 320.0} for row in table],
        },
    }
    source.save(tmp_path / "one.json")
    rramalloc.size({"networks": [asked], "hardware": HARDWARE, "choose": {}}).save(tmp_path / "sized.json")
    assert rramalloc.optimize(tmp_path / "sized.json", progress=False).step_ns == 20.0


def test_what_cannot_be_placed_together_is_refused(tmp_path: Path) -> None:
    path = sized(tmp_path / "sized.json")
    with pytest.raises(SpecError, match=r"its networks run in turn, .* one by one, or size with stored"):
        rramalloc.place(path)
    with pytest.raises(SpecError, match="hold several: give one, with hardware of the chip"):
        rramalloc.optimize(path)
    with pytest.raises(SpecError, match="allocation: is missing: give one, or the JSON of `size`"):
        rramalloc.place("alexnet")
    document = json.loads(Path(path).read_text())
    del document["networks"][1:], document["networks"][0]["network"]
    (tmp_path / "old.json").write_text(json.dumps(document))
    with pytest.raises(SpecError, match="wrote no network beside its allocation: size again"):
        rramalloc.place(tmp_path / "old.json")
