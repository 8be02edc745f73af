"""MNSIM: the files read back as the tool reads them, its demand formula, and what it refuses."""

from __future__ import annotations

import ast
import configparser
import math
from typing import Any

import pytest
from commands.export.nets import conv, machine, network, of, residual, subject

import rramalloc
from rramalloc.allocation.allocation_input import read_allocation
from rramalloc.commands.export.bundle import Bundle
from rramalloc.commands.export.subject import Subject
from rramalloc.commands.export.targets import mnsim
from rramalloc.errors import UnsupportedError
from rramalloc.hardware.loader import load_hardware
from rramalloc.hardware.tables import Chip
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


def test_config_of_the_preset_is_that_of_the_tool() -> None:
    """256 x 256 cells of 2 levels; +/- arrays; 8 groups; 2 x 2 PEs of 16 arrays a tile; 64 x 64 tiles."""
    chip = Chip(arrays_per_tile=64, tiles=(64, 64), chips=(1, 1))
    hardware = machine(256, 256, cell_bits=1, weight_bits=8, signed="differential", chip=chip)
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
    hardware = machine(64, 32, cell_bits=1, weight_bits=8, signed="differential")
    net = network(
        conv("c1", "x", 40),
        conv("c2", "c1", 70),
        of("flatten", "f", "c2"),
        of("linear", "fc", "f", out_features=3),
    )
    bundle = mnsim.export(subject(net, {"c2": 2}, hardware))
    config, layers, _ = read(bundle)
    groups = int(config.get("Process element level", "Group_Num"))
    pes = [
        math.ceil(8 / groups)
        * math.ceil(layer["Outputchannel"] / 32)
        * math.ceil(layer["Inputchannel"] / (64 // layer["Kernelsize"] ** 2))
        for layer in layers[:2]
    ]
    assert pes == [1 * 2 * 1, 1 * 3 * 6]  # 40 channels on 32 columns; 70 on 32; 40 channels, 7 an array
    fc = 1 * math.ceil(70 * 64 / 64)
    texts = [remark.text for remark in bundle.remarks]
    tiles = 1 + 9 + -(-fc // 4)  # of 4 PEs, a tile holds one layer
    assert any(f"stores {16 * (2 + 2 * 18 + fc)} arrays in {tiles} of" in text for text in texts)
    assert any(text.startswith("18 PEs of 16 arrays, 288 arrays a copy") for text in texts)


def test_the_budget_that_the_refusal_names_fits() -> None:
    """Layers of the preset have tiles of their own: 72 tiles less those of two poolings and a classifier."""
    preset = load_hardware("mnsim")
    assert preset.chip is not None
    chip = preset.chip.model_copy(update={"tiles": (9, 8)})
    given: dict[str, Any] = {"hardware": preset.model_copy(update={"chip": chip}), "mapping": "whole_kernel"}
    full = rramalloc.optimize("resnet18", 72 * 64, work=1, **given)
    with pytest.raises(UnsupportedError, match=r"the chip has 72: .* whole_kernel and arrays 4352"):
        rramalloc.export("resnet18", full, "mnsim")
    less = rramalloc.optimize("resnet18", 68 * 64, work=1, **given)
    assert rramalloc.export("resnet18", less, "mnsim")


def ended(*nodes: dict[str, Any], **fields: Any) -> Network:
    last = nodes[-1]["name"]
    return network(*nodes, of("flatten", "f", last), of("linear", "fc", "f", out_features=2), **fields)


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (ended(conv("c", "x", kernel=[1, 3])), "one number for the kernel, this one is 1 x 3"),
        (ended(conv("c", "x", pads=[0, 0, 1, 1])), "one number for the padding"),
        (ended(conv("c", "x", 3, groups=3)), "no grouped convolution"),
        (ended(conv("c", "x", kernel=9, pads=4)), "81 positions, an array has 64 rows"),
        (ended(conv("c", "x"), conv("d", "c"), of("concat", "k", "c", "d")), "no layer for 'concat'"),
        (ended(of("maxpool", "p", "x", kernel=2), conv("c", "p")), "convolution as its first layer"),
        (ended(conv("c", "x"), conv("d", "c"), conv("e", "c")), "only the last has none"),
    ],
)
def test_what_it_cannot_express_is_refused(net: Network, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        mnsim.export(subject(net))


def test_the_preset_counts_the_arrays_of_the_tool() -> None:
    """No layer takes other arrays than ours: 8 groups of two polarities, whole kernels in an array."""
    source = read_allocation({}).changed(hardware=load_hardware("mnsim"), mapping="whole_kernel")
    what = Subject.build(load("resnet50"), source)
    assert what.demand["conv1"] == 16
    texts = [remark.text for remark in mnsim.export(what).remarks]
    assert not any("arrays a copy, not" in text for text in texts)
