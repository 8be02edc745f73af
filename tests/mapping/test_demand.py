"""Crossbar demand, worked by hand (docs/sources/model.md 3)."""

from __future__ import annotations

from typing import Any

import pytest

from rramalloc.choices import MAPPINGS
from rramalloc.errors import SpecError, UnknownNameError
from rramalloc.hardware.hardware import Crossbar, Hardware
from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.mapping.demand import WeightMatrix, demand, demands
from rramalloc.network.network import Network
from rramalloc.timing.stage_graph import StageGraph


def matrix(kernel: int, inputs: int, outputs: int, groups: int = 1, columns: int = 1) -> WeightMatrix:
    """kernel: positions; inputs, outputs: channels of one group; columns: bitlines per weight."""
    return WeightMatrix(
        positions=kernel, inputs=inputs, outputs=outputs, columns=outputs * columns, groups=groups
    )


def square(lines: int) -> Crossbar:
    return Crossbar(wordlines=lines, bitlines=lines, cell_bits=1)


@pytest.mark.parametrize(
    ("weights", "lines", "im2col", "kernel_split", "whole_kernel"),
    [
        # rows 128, columns 128: one array each way
        pytest.param(matrix(1, 128, 128), 128, 1, 1, 1, id="exact fit"),
        pytest.param(matrix(1, 129, 128), 128, 2, 2, 2, id="one wordline over"),
        pytest.param(matrix(1, 128, 129), 128, 2, 2, 2, id="one bitline over"),
        # rows 9 * 64 = 576, 5 blocks; split 9 * 1; whole: 128 // 9 = 14 channels, ceil(64 / 14) = 5
        pytest.param(matrix(9, 64, 64), 128, 5, 9, 5, id="VGG conv1_2"),
        # rows 27; split 9 * 1; whole: 1
        pytest.param(matrix(9, 3, 64), 128, 1, 9, 1, id="VGG conv1_1"),
        # rows 4608 = 36 blocks, columns 4; split 9 * 4 * 4; whole: ceil(512 / 14) = 37, 37 * 4
        pytest.param(matrix(9, 512, 512), 128, 144, 144, 148, id="VGG conv4_2"),
        # rows 121 * 3 = 363, 3 blocks, columns 96; split 121; whole: 128 // 121 = 1 channel, 3 blocks
        pytest.param(matrix(121, 3, 96), 128, 3, 121, 3, id="AlexNet conv1"),
        # two columns per weight: 64 * 2 = 128 fits, 65 * 2 does not
        pytest.param(matrix(1, 10, 64, columns=2), 128, 1, 1, 1, id="two columns fit"),
        pytest.param(matrix(1, 10, 65, columns=2), 128, 2, 2, 2, id="two columns over"),
        # depthwise 3 x 3 on 128: rows 9, column 1: min(14, 128) = 14 an array, ceil(32 / 14) = 3;
        # split: rows 1, column 1: 128 an array, 9 * 1
        pytest.param(matrix(9, 1, 1, 32), 128, 3, 9, 3, id="depthwise"),
        # 4 groups of 9 * 8 = 72 rows, 40 columns: min(1, 3) = 1 an array: 4; split: min(16, 3) = 3, 9 * 2
        pytest.param(matrix(9, 8, 40, 4), 128, 4, 18, 4, id="groups, one an array"),
        # 8 groups of 16 rows, 16 columns: 8 an array
        pytest.param(matrix(1, 16, 16, 8), 128, 1, 1, 1, id="groups share an array exactly"),
        pytest.param(matrix(1, 16, 16, 9), 128, 2, 2, 2, id="one group over"),
        # 2 groups of 9 * 48 = 432 rows (4 blocks), 128 columns; split 9 * (48 rows, 128 columns: 1 an
        # array) * 2; whole: ceil(48 / 14) = 4
        pytest.param(matrix(9, 48, 128, 2), 128, 8, 18, 8, id="AlexNet conv2 in two groups"),
        # rows fit, columns do not: 2 groups * 1 * 2
        pytest.param(matrix(1, 16, 129, 2), 128, 4, 4, 4, id="groups too wide"),
        # kernel exactly as tall as the array
        pytest.param(matrix(4, 2, 4), 4, 2, 4, 2, id="kernel fills the wordlines"),
    ],
)
def test_each_mapping(
    weights: WeightMatrix, lines: int, im2col: int, kernel_split: int, whole_kernel: int
) -> None:
    found = {mapping: demand(weights, square(lines), mapping, "here") for mapping in MAPPINGS}
    expected = {"im2col": im2col, "kernel_split": kernel_split, "whole_kernel": whole_kernel}
    assert found == expected | {"sdk": im2col}, "one copy without shifted kernels lies as with im2col"


def generator(*layers: tuple[int, dict[str, Any]], channels: int, extent: int = 4) -> Network:
    """Transposed convolutions, one behind the other."""
    nodes: list[dict[str, Any]] = [{"name": "in", "op": "input", "shape": [channels, extent, extent]}]
    for place, (outputs, fields) in enumerate(layers):
        source = nodes[-1]["name"]
        nodes.append(
            {"name": f"up{place}", "op": "conv_transpose", "inputs": [source], "out_channels": outputs}
            | fields
        )
    return Network.build("generator", nodes)


def test_transposed_convolutions_of_dcgan() -> None:
    """4 x 4, stride 2: a block of 2 x 2 output pixels reads 2 x 2 input pixels.

    256 - 128: 1024 rows, 512 columns: 8 * 4; 128 - 64: 512, 256: 4 * 2; 64 - 32: 256, 128: 2 * 1.
    """
    fields = {"kernel": 4, "stride": 2, "pads": 1}
    network = generator((128, fields), (64, fields), (32, fields), channels=256)
    assert demands(network, network.stages, load_hardware("plain")) == [32, 8, 2]


@pytest.mark.parametrize(
    ("fields", "demand"),
    [
        # 3 x 3, stride 2: ceil(3 / 2) = 2 each way: 4 * 64 = 256 rows (2), 4 * 40 = 160 columns (2)
        pytest.param({"kernel": 3, "stride": 2, "pads": 1}, 4, id="kernel no multiple of the stride"),
        # 3 x 3, stride 1, is a plain convolution: 9 * 64 = 576 rows (5), 40 columns
        pytest.param({"kernel": 3}, 5, id="stride 1"),
        # 2 x 1, stride 3 x 1: 1 x 1 pixels: 64 rows, 3 * 40 = 120 columns
        pytest.param({"kernel": [2, 1], "stride": [3, 1]}, 1, id="kernel below the stride"),
        # 8 groups: 2 x 2 pixels of 8 channels: 32 rows, 4 * 5 = 20 columns: 4 an array
        pytest.param({"kernel": 4, "stride": 2, "groups": 8}, 2, id="groups share arrays"),
        # kernel rows at 0, 3, 6 of stride 2: floor(0), floor(1.5), floor(3): 3 rows; columns 0, 1 -> 1 of
        # stride 2: 3 * 64 = 192 rows (2), 4 * 40 = 160 columns (2)
        pytest.param({"kernel": [3, 2], "stride": 2, "dilation": [3, 1]}, 4, id="dilated"),
    ],
)
def test_transposed_convolution(fields: dict[str, Any], demand: int) -> None:
    """C_in / G * ceil(K_h / S_h) * ceil(K_w / S_w) rows, S_h * S_w * C_out / G columns (MODEL 10)."""
    network = generator((40, fields), channels=64)
    assert demands(network, network.stages, load_hardware("plain")) == [demand]


def test_wordlines_and_bitlines_are_not_confused() -> None:
    """Rows 9 * 64 = 576, columns 64: ceil(576 / 64) * 1 = 9 wide, ceil(576 / 256) * 2 = 6 tall."""
    tall = Crossbar(wordlines=256, bitlines=32, cell_bits=1)
    wide = Crossbar(wordlines=64, bitlines=256, cell_bits=1)
    assert demand(matrix(9, 64, 64), wide, "im2col", "here") == 9
    assert demand(matrix(9, 64, 64), tall, "im2col", "here") == 6


def test_a_kernel_that_cannot_be_cut_is_refused() -> None:
    with pytest.raises(SpecError, match=r"here: .*121 positions.*100 wordlines.*im2col"):
        demand(matrix(121, 3, 96), square(100), "whole_kernel", "here")


def test_unknown_mapping_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"mapping.*diagonal"):
        demand(matrix(1, 1, 1), square(4), "diagonal", "here")  # type: ignore[arg-type]


def hardware(weight_bits: int, cell_bits: int, signed: str) -> Hardware:
    tables: dict[str, Any] = {
        "name": "hand",
        "source": "made up",
        "crossbar": {"wordlines": 16, "bitlines": 12, "cell_bits": cell_bits},
        "precision": {"weight_bits": weight_bits, "input_bits": 8, "output_bits": 8, "signed": signed},
    }
    return Hardware(**tables)


NODES: list[dict[str, Any]] = [
    {"name": "in", "op": "input", "shape": [4, 5, 5]},
    {"name": "c", "op": "conv", "inputs": ["in"], "out_channels": 6, "kernel": [2, 3]},
    {"name": "g", "op": "conv", "inputs": ["c"], "out_channels": 12, "kernel": 1, "groups": 3},
    {"name": "fc", "op": "linear", "inputs": ["g"], "out_features": 10},
]


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        # c: rows 2 * 3 * 4 = 24, 2 blocks, 6 S columns; g: 3 groups of 2 rows and 4 S columns;
        # fc: 12 rows, 10 S columns
        # S = 1: c 2 * 1; g: min(8, 3) = 3 an array, 1; fc 1
        pytest.param(hardware(1, 1, "offset"), [2, 1, 1], id="one column per weight"),
        # S = ceil(4 / 3) = 2: c 2 * 1; g: 8 columns, 1 an array, 3; fc: 20 columns, 2
        pytest.param(hardware(4, 3, "offset"), [2, 3, 2], id="two slices"),
        # S = 2 * 2 = 4: c 2 * ceil(24 / 12) = 4; g: 16 columns, 3 * 2; fc: 40 columns, 4
        pytest.param(hardware(4, 3, "differential"), [4, 6, 4], id="differential"),
        # S = 8: c 2 * 4; g: 32 columns, 3 * 3; fc: 80 columns, 7
        pytest.param(hardware(8, 2, "differential"), [8, 9, 7], id="eight columns"),
    ],
)
def test_slices_and_signs(machine: Hardware, expected: list[int]) -> None:
    network = Network.build("three", NODES)
    assert demands(network, network.stages, machine) == expected


def test_vgg16() -> None:
    """docs/sources/model.md 3: 1 5 5 9 18 36 36 72 144 144 144 144 144 = 902."""
    network = load("vgg16")
    graph = StageGraph.build(network)
    names = dict(zip(graph.names, demands(network, graph.stages, load_hardware("plain")), strict=True))
    found = [names[stage.name] for stage in network.stages if stage.name in names]
    assert found == [1, 5, 5, 9, 18, 36, 36, 72, 144, 144, 144, 144, 144]
    assert sum(found) == 902


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_arrays_hold_all_cells(mapping: Any) -> None:
    """No mapping stores more cells than the arrays have, on any shipped kind of layer."""
    machine = load_hardware("plain")
    for name in ("vgg16", "mobilenet_v2", "shufflenet", "alexnet"):
        network = load(name)
        for stage in network.stages:
            weights = WeightMatrix.of(network, stage, machine)
            arrays = demand(weights, machine.crossbar, mapping, name)
            assert arrays * machine.crossbar.wordlines * machine.crossbar.bitlines >= weights.cells
