"""Crossbar demand, worked by hand (docs/sources/model.md 3)."""

from __future__ import annotations

from typing import Any

import pytest
from methods.small import chain

from rramalloc.choices import MAPPINGS
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import load_hardware
from rramalloc.hardware.tables import Crossbar
from rramalloc.mapping import demand as module
from rramalloc.mapping.demand import WeightMatrix, demand, demands
from rramalloc.network.network import Network

pytestmark = pytest.mark.quick


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
        (matrix(1, 129, 128), 128, 2, 2, 2),
        (matrix(1, 128, 129), 128, 2, 2, 2),
        (matrix(9, 64, 64), 128, 5, 9, 5),
        (matrix(9, 512, 512), 128, 144, 144, 148),
        (matrix(121, 3, 96), 128, 3, 121, 3),
        (matrix(1, 10, 65, columns=2), 128, 2, 2, 2),
        (matrix(9, 1, 1, 32), 128, 3, 9, 3),
        (matrix(9, 8, 40, 4), 128, 4, 18, 4),
        (matrix(1, 16, 16, 8), 128, 1, 1, 1),
        (matrix(9, 48, 128, 2), 128, 8, 18, 8),
        (matrix(1, 16, 129, 2), 128, 4, 4, 4),
        (matrix(4, 2, 4), 4, 2, 4, 2),
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


@pytest.mark.parametrize(
    ("fields", "demand"),
    [
        # 3 x 3, stride 2: ceil(3 / 2) = 2 each way: 4 * 64 = 256 rows (2), 4 * 40 = 160 columns (2)
        ({"kernel": 3, "stride": 2, "pads": 1}, 4),
        ({"kernel": [2, 1], "stride": [3, 1]}, 1),
        ({"kernel": 4, "stride": 2, "groups": 8}, 2),
        ({"kernel": [3, 2], "stride": 2, "dilation": [3, 1]}, 4),
    ],
)
def test_transposed_convolution(fields: dict[str, Any], demand: int) -> None:
    """C_in / G * ceil(K_h / S_h) * ceil(K_w / S_w) rows, S_h * S_w * C_out / G columns (MODEL 10)."""
    network = generator((40, fields), channels=64)
    assert demands(network, network.stages, load_hardware("plain")) == [demand]


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
        (hardware(1, 1, "offset"), [2, 1, 1]),
        # S = ceil(4 / 3) = 2: c 2 * 1; g: 8 columns, 1 an array, 3; fc: 20 columns, 2
        (hardware(4, 3, "offset"), [2, 3, 2]),
        # S = 2 * 2 = 4: c 2 * ceil(24 / 12) = 4; g: 16 columns, 3 * 2; fc: 40 columns, 4
        (hardware(4, 3, "differential"), [4, 6, 4]),
        # S = 8: c 2 * 4; g: 32 columns, 3 * 3; fc: 80 columns, 7
        (hardware(8, 2, "differential"), [8, 9, 7]),
    ],
)
def test_slices_and_signs(machine: Hardware, expected: list[int]) -> None:
    network = Network.build("three", NODES)
    assert demands(network, network.stages, machine) == expected


def test_equal_layers_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted, network = [], chain(20)
    monkeypatch.setattr(module, "demand", lambda *given: counted.append(given) or demand(*given))
    assert demands(network, network.stages, load_hardware("plain")) == [2] * 20
    assert len(counted) == 1
