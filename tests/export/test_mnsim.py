"""MNSIM: the files read back as the tool reads them, its demand formula, and what it refuses (PEERS.md)."""

from __future__ import annotations

import ast
import configparser
import math
from random import Random
from typing import Any

import pytest
from export.nets import chain, conv, expressible, machine, network, of, residual, subject
from hypothesis import given, settings
from laws.strategies import randoms

from rramalloc.errors import UnsupportedError
from rramalloc.export.bundle import Bundle
from rramalloc.export.targets import mnsim
from rramalloc.hardware.hardware import Chip
from rramalloc.importers import load
from rramalloc.network.network import Network


def read(bundle: Bundle) -> tuple[configparser.ConfigParser, list[dict[str, Any]], list[int]]:
    """As MNSIM reads: the .ini by configparser, a layer's fields as net[layer][0][0]."""
    files = {file.name: file.text for file in bundle.files}
    config = configparser.ConfigParser()
    config.read_string(files["SimConfig.ini"])
    values = {
        statement.targets[0].id: ast.literal_eval(statement.value)  # type: ignore[attr-defined]
        for statement in ast.parse(files["network.py"]).body
    }
    return config, [layer[0][0] for layer in values["net"]], values["multiple"]


def test_residual_network() -> None:
    _, layers, multiple = read(mnsim.export(subject(residual(), {"c1": 5, "c2": 3})))
    assert [layer["type"] for layer in layers] == ["conv", "conv", "element_sum", "pooling", "fc"]
    assert multiple == [5, 3, 1, 1, 1]
    assert [layer["Inputindex"] for layer in layers] == [[-1], [-1], [-1, -2], [-1], [-1]]
    assert [layer["Outputindex"] for layer in layers] == [[1, 2], [1], [1], [1], [1]]
    assert [layer["Layerindex"] for layer in layers] == [0, 1, 2, 3, 4]
    assert layers[0]["Inputsize"] == layers[0]["Outputsize"] == [8, 8]
    assert (layers[0]["Kernelsize"], layers[0]["Stride"], layers[0]["Padding"]) == (3, 1, 1)
    assert (layers[4]["Infeature"], layers[4]["Outfeature"]) == (64, 10)


def test_relative_indices_point_at_each_other() -> None:
    _, layers, _ = read(mnsim.export(subject(load("resnet18"))))
    for index, layer in enumerate(layers[1:], 1):
        for offset in layer["Inputindex"]:
            assert -offset in layers[index + offset]["Outputindex"]


@given(randoms)
@settings(max_examples=60, deadline=None)
def test_sizes_and_channels_fit_together(random: Random) -> None:
    """Every layer reads what the layers it points at write."""
    net = expressible(random, branches=True)
    _, layers, multiple = read(mnsim.export(subject(net)))
    assert len(multiple) == len(layers)
    assert sum(layer["type"] in ("conv", "fc") for layer in layers) == len(net.stages)
    for index, layer in enumerate(layers[1:], 1):
        for source in (layers[index + offset] for offset in layer["Inputindex"]):
            if layer["type"] == "fc":
                height, width = source["Outputsize"]
                assert layer["Infeature"] == source["Outputchannel"] * height * width
            else:
                assert layer["Inputsize"] == source["Outputsize"]
                assert layer["Inputchannel"] == source["Outputchannel"]


def test_config_of_the_preset_is_that_of_the_tool() -> None:
    """256 x 256 cells of 2 levels; +/- arrays; 8 groups; 2 x 2 PEs of 16 arrays a tile; 64 x 64 tiles."""
    chip = Chip(arrays_per_tile=64, straddle=True, tiles=(64, 64), chips=(1, 1))
    hardware = machine(256, 256, cell_bits=1, weight_bits=9, signed="differential", chip=chip)
    config, layers, _ = read(mnsim.export(subject(residual(), hardware=hardware)))
    assert config.get("Device level", "Device_Level") == "2"
    assert config.get("Crossbar level", "Xbar_Size") == "256,256"
    assert config.get("Process element level", "Xbar_Polarity") == "2"
    assert config.get("Process element level", "Group_Num") == "8"
    assert config.get("Tile level", "PE_Num") == "2,2"
    assert config.get("Architecture level", "Tile_Num") == "64,64"
    assert layers[0]["Weightbit"] == 9


def test_demand_is_that_of_the_tool() -> None:
    """PEs = ceil(wb / Group_Num) * ceil(C_out / cols) * ceil(C_in / (rows // k^2)), wb = Weightbit - 1."""
    hardware = machine(64, 32, cell_bits=1, weight_bits=9, signed="differential")
    net = network(conv("c1", "x", 40), conv("c2", "c1", 70), of("flatten", "f", "c2"),
                  of("linear", "fc", "f", out_features=3))  # fmt: skip
    bundle = mnsim.export(subject(net, {"c2": 2}, hardware))
    config, layers, _ = read(bundle)
    groups = int(config.get("Process element level", "Group_Num"))
    pes = [
        math.ceil(8 / groups) * math.ceil(layer["Outputchannel"] / 32)
        * math.ceil(layer["Inputchannel"] / (64 // layer["Kernelsize"] ** 2))
        for layer in layers[:2]
    ]  # fmt: skip
    assert pes == [1 * 2 * 1, 1 * 3 * 6]  # 40 channels on 32 columns; 70 on 32; 40 channels, 7 an array
    fc = 1 * math.ceil(70 * 64 / 64)
    told = [remark.text for remark in bundle.remarks]
    assert any(f"needs {2 + 2 * 18 + fc} PEs" in text for text in told)
    assert any(text.startswith("18 PEs of 16 arrays, 288 arrays a copy") for text in told)


def test_copies_beyond_an_output_row_are_told_to_idle() -> None:
    bundle = mnsim.export(subject(residual(), {"c1": 11}))
    assert any(
        r.layer == "c1" and "8 pixels of an output row: 3 of them idle" in r.text for r in bundle.remarks
    )


def ended(*nodes: dict[str, Any], **fields: Any) -> Network:
    last = nodes[-1]["name"]
    return network(*nodes, of("flatten", "f", last), of("linear", "fc", "f", out_features=2), **fields)


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (ended(conv("c", "x", kernel=[1, 3])), "one number for the kernel, this one is 1 x 3"),
        (ended(conv("c", "x", stride=[1, 2])), "one number for the stride"),
        (ended(conv("c", "x", pads=[0, 0, 1, 1])), "one number for the padding"),
        (ended(conv("c", "x", 3, groups=3)), "no grouped convolution"),
        (ended(conv("c", "x", dilation=2)), "no dilated convolution"),
        (ended(conv("c", "x", kernel=9, pads=4)), "81 positions, an array has 64 rows"),
        (ended(conv("c", "x"), conv("d", "x"), of("concat", "k", "c", "d")), "input of the network"),
        (ended(conv("c", "x"), conv("d", "c"), of("concat", "k", "c", "d")), "no layer for 'concat'"),
        (ended(of("maxpool", "p", "x", kernel=2), conv("c", "p")), "convolution as its first layer"),
        (network(conv("c", "x")), "behind the last one unless that is fully connected"),
        (ended(conv("c", "x"), conv("d", "c"), conv("e", "c")), "only the last has none"),
    ],
)  # fmt: skip
def test_what_it_cannot_express_is_refused(net: Network, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        mnsim.export(subject(net))


def test_a_signed_weight_of_one_bit_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="too few"):
        mnsim.export(subject(residual(), hardware=machine(weight_bits=1, cell_bits=1, signed="differential")))


def test_padding_behind_only_is_refused_for_the_chain() -> None:
    with pytest.raises(UnsupportedError, match="padding"):
        mnsim.export(subject(chain()))
