"""Folds with the fewest arrays under `kernel_split`, by hand and against every fold there is."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rramalloc.commands.fold.filter_folding import fold
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import load_hardware
from rramalloc.mapping.demand import demands, folds
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.network import Network

PLAIN = load_hardware("plain")


FOLDED = MappingOptions(mapping="kernel_split", fold=True)


def layer(extent: int = 64, **fields: Any) -> Network:
    """One convolution behind an input; `inputs` channels, kernel 3, 8 outputs."""
    inputs = fields.pop("inputs", 3)
    conv = {"name": "c", "op": "conv", "inputs": ["in"], "out_channels": 8, "kernel": 3} | fields
    return Network.build("one", [{"name": "in", "op": "input", "shape": [inputs, extent, extent]}, conv])


def found(network: Network, hardware: Hardware = PLAIN) -> tuple[tuple[int, int], int, int]:
    """(fold, demand before, demand after) of its only stage."""
    before = demands(network, network.stages, hardware, MappingOptions(mapping="kernel_split"))
    after = demands(network, network.stages, hardware, FOLDED)
    sizes = folds(network, network.stages, hardware, FOLDED)
    assert sizes is not None
    return sizes[0], before[0], after[0]


@pytest.mark.parametrize(
    ("fields", "fold", "before", "after"),
    [
        # 9 positions of 3 inputs; one of 27
        ({"inputs": 64}, (3, 3), 9, 5),
        ({"inputs": 128}, (1, 1), 9, 9),
        ({"kernel": 11, "stride": 4}, (11, 11), 121, 3),
        ({"kernel": 7, "stride": 2}, (7, 7), 49, 2),
        ({"inputs": 64, "kernel": 2}, (1, 2), 4, 2),
        ({"kernel": [5, 1]}, (5, 1), 5, 1),
        ({"inputs": 128, "out_channels": 128, "groups": 128}, (1, 1), 9, 9),
        ({"inputs": 8, "groups": 8}, (3, 3), 9, 1),
        ({"dilation": 2}, (1, 1), 9, 9),
    ],
)
def test_by_hand(fields: dict[str, Any], fold: tuple[int, int], before: int, after: int) -> None:
    assert found(layer(**fields)) == (fold, before, after)


def machine(wordlines: int, bitlines: int, weight_bits: int) -> Hardware:
    tables: dict[str, Any] = {
        "name": "hand",
        "source": "made up",
        "crossbar": {"wordlines": wordlines, "bitlines": bitlines, "cell_bits": 1},
        "precision": {"weight_bits": weight_bits, "input_bits": 8, "output_bits": 8, "signed": "offset"},
    }
    return Hardware(**tables)


def arrays(positions: int, inputs: int, columns: int, groups: int, size: tuple[int, int]) -> int:
    """docs/sources/model.md 3, kernel_split, with groups that share an array where they fit whole."""
    if groups > 1 and inputs <= size[0] and columns <= size[1]:
        return positions * -(-groups // min(size[0] // inputs, size[1] // columns))
    return positions * groups * -(-inputs // size[0]) * -(-columns // size[1])


@settings(max_examples=150, deadline=None)
@given(
    kernel=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    inputs=st.integers(1, 40),
    outputs=st.integers(1, 12),
    groups=st.sampled_from((1, 1, 1, 2, 3, 8, 30)),
    size=st.tuples(st.integers(1, 70), st.integers(1, 30)),
    bits=st.integers(1, 3),
)
def test_no_fold_of_any_size_takes_fewer_arrays(
    kernel: tuple[int, int], inputs: int, outputs: int, groups: int, size: tuple[int, int], bits: int
) -> None:
    """Every n_h, n_w from 1 to beyond the kernel is tried; of equals, none adds fewer zeros."""
    network = layer(inputs=inputs * groups, kernel=list(kernel), groups=groups, out_channels=outputs * groups)
    (n_h, n_w), before, after = found(network, machine(*size, bits))

    def cost(high: int, wide: int) -> tuple[int, int]:
        folded = -(-kernel[0] // high), -(-kernel[1] // wide)
        need = arrays(folded[0] * folded[1], high * wide * inputs, outputs * bits, groups, size)
        return need, folded[0] * high * folded[1] * wide

    assert before == cost(1, 1)[0]
    assert after == cost(n_h, n_w)[0] <= before
    every = [cost(*sizes) for sizes in product(range(1, kernel[0] + 3), range(1, kernel[1] + 3))]
    assert min(every) == cost(n_h, n_w)


def test_the_best_mapping_of_a_layer_by_hand() -> None:
    """Fewest array-steps on 128 x 128 cells, one cell a weight.

    VGG-16's conv1_1: two windows side by side take 3 * 3 * 4 = 36 wordlines and 2 * 64 bitlines, one array in
    half the steps; conv1_2 takes 5 arrays in any of them. A depthwise 3 x 3 layer of 384 channels: im2col has
    14 groups an array, so 28; kernel_split 9 positions of 3 arrays, 27.
    """
    layers = {layer.name: layer for layer in fold("vgg16", mapping="best").layers}
    first, second = layers["conv1_1"], layers["conv1_2"]
    assert (first.mapping, first.block, first.copies, first.arrays_after) == ("sdk", (1, 2), 1, 1)
    assert (first.array_steps_before, first.array_steps_after) == (50_176, 25_088)
    assert (second.mapping, second.arrays_before, second.arrays_after) == ("im2col", 5, 5)
    result = fold("mobilenet_v2", mapping="best")
    deep = next(layer for layer in result.layers if layer.name == "block8.depthwise")
    assert (deep.mapping, deep.arrays_before, deep.arrays_after) == ("kernel_split", 28, 27)
    assert deep.array_steps_before == 28 * 14 * 14
    sums = [
        sum(getattr(layer, name) for layer in result.layers)
        for name in ("array_steps_before", "array_steps_after", "arrays_after")
    ]
    assert sums == [result.array_steps_before, result.array_steps_after, result.arrays_after]
    assert result.saving == pytest.approx(1 - sums[1] / sums[0])
