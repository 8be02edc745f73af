"""Layers with bits of their own: columns, reads, bytes, arrays and what is computed, worked by hand."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import rramalloc
from rramalloc.commands.verify.reference import Weights, Width, node_output
from rramalloc.errors import UnsupportedError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import load_hardware
from rramalloc.mapping.demand import block_arrays, demands
from rramalloc.network.geometry import Shape
from rramalloc.network.network import Network


def network(**own: dict[str, int]) -> Network:
    """Two convolutions, 64 channels of 3 x 3, with bits of their own by name."""
    nodes: list[dict[str, Any]] = [{"name": "in", "op": "input", "shape": [64, 8, 8]}]
    for name, source in (("a", "in"), ("b", "a")):
        nodes.append(
            {"name": name, "op": "conv", "inputs": [source], "out_channels": 64, "kernel": 3, "pads": 1}
            | own.get(name, {})
        )
    return Network.build("two", nodes)


def machine(**more: Any) -> Hardware:
    """128 x 128 cells of 2 bits, weights of 16, inputs of 16 in reads of 1 bit that take 100 ns."""
    absent = {"chip": None, "energy": None, "unconfirmed": ()}
    isaac = load_hardware("isaac").model_copy(update=absent)
    return Hardware.model_validate(isaac.to_dict() | more)


def test_columns_and_arrays() -> None:
    # 576 rows: 5 arrays high. 16 bits: 8 columns a weight, 512 bitlines, 4 wide. 4 bits: 2, 128, 1.
    one = network(b={"weight_bits": 4})
    assert demands(one, one.stages, machine()) == [20, 5]
    # 3 bits: ceil(3 / 2) = 2 columns, differential 4: 256 bitlines.
    odd = network(b={"weight_bits": 3})
    precision = {"weight_bits": 16, "input_bits": 16, "output_bits": 16, "signed": "differential"}
    assert block_arrays(odd, odd.stages[1], machine(), (1, 1)).columns == 128
    assert block_arrays(odd, odd.stages[1], machine(precision=precision), (1, 1)).columns == 256
    assert block_arrays(odd, odd.stages[1], machine(), (1, 2)).columns == 256


@pytest.mark.parametrize("mapping", ["im2col", "kernel_split", "sdk"])
def test_emulated_layers_of_any_bits_are_equal(mapping: Any) -> None:
    draw = random.Random(mapping)
    for trial in range(4):
        nodes: list[dict[str, Any]] = [{"name": "in", "op": "input", "shape": [3, 5, 5]}]
        for name, last in (("a", "in"), ("b", "a"), ("c", "b")):
            bits = {"weight_bits": draw.randint(1, 9), "input_bits": draw.randint(1, 9)}
            own = {field: value for field, value in bits.items() if draw.random() < 0.7}
            nodes.append({"name": name, "op": "conv", "inputs": [last], "out_channels": 4, "kernel": 2} | own)
        nodes += [
            {"name": "f", "op": "flatten", "inputs": ["c"]},
            {
                "name": "fc",
                "op": "linear",
                "inputs": ["f"],
                "out_features": 3,
                "weight_bits": 2,
                "input_bits": 3,
            },
        ]
        source = Network.build("bits", nodes)
        hardware = machine(
            crossbar={"wordlines": 16, "bitlines": 16, "cell_bits": draw.randint(1, 3)},
            precision={
                "weight_bits": 5,
                "input_bits": 6,
                "output_bits": 6,
                "signed": draw.choice(("offset", "differential")),
            },
            chip={"arrays_per_tile": 16, "tiles": [4, 4], "chips": [1, 1]},
        )
        fc: Any = draw.choice(("host", "crossbar"))
        copies = {"copies": {"a": 2, "b": 1, "c": 3}}
        result = rramalloc.verify(source, copies["copies"], hardware=hardware, mapping=mapping, fc=fc)
        assert result.verdict == "equal", (trial, result.difference)
        # converters of many bits lose nothing, bit by bit
        result = rramalloc.verify(
            source, copies["copies"], hardware=hardware, mapping=mapping, fc=fc, adc_bits=40
        )
        assert result.verdict == "equal"


def test_weights_and_inputs_of_a_layer_have_its_bits() -> None:
    source = network(a={"weight_bits": 3, "input_bits": 2})
    stage = source.stages[0]
    weights = Weights(source, 16, 0)
    assert (weights.of(stage).min(), weights.of(stage).max()) == (-4, 3)
    assert Width(6).entering(stage) == Width(2)
    # 6 bits, -32 ... 31: the highest 2 are floor(x / 16); a kernel of ones sums 9 * 64 of them inside.
    ones = Weights(source, 16, 0, {"a": np.ones((64, 64, 3, 3), dtype=np.int64)})
    for value, taken in ((31, 1), (16, 1), (15, 0), (-1, -1), (-17, -2)):
        given, shape = np.full((64, 8, 8), value), source.shapes["a"]
        output = node_output(stage, [given], [Shape(64, 8, 8)], shape, ones, Width(6))
        assert output[0, 4, 4] == taken * 576


@pytest.mark.parametrize("tool", ["neurosim", "mnsim", "pimsyn", "pimcomp"])
def test_tools_with_one_precision_refuse_two(tool: Any) -> None:
    mixed = network(a={"weight_bits": 4})
    with pytest.raises(
        UnsupportedError, match=r"node .b.: has other bits than the first layer.*same weight_bits"
    ):
        rramalloc.export(mixed, {}, tool, hardware=machine())
