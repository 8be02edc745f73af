"""Kinds of arrays, and digital units, which are computed exactly (docs/sources/model.md 18)."""

from __future__ import annotations

import pytest
from commands.place.test_kinds import in_tiles
from laws.kinds import HAND
from search.test_digital_units import with_units

import rramalloc
from rramalloc.network.network import Network

NETWORK = Network.build(
    "grouped and transposed",
    [
        {"name": "in", "op": "input", "shape": [4, 6, 6]},
        {"name": "d", "op": "conv", "inputs": ["in"], "out_channels": 8, "kernel": 3, "pads": 1, "groups": 4},
        {"name": "t", "op": "conv_transpose", "inputs": ["d"], "out_channels": 6, "kernel": 4, "stride": 2,
         "pads": 1},
    ],
)  # fmt: skip


def test_layers_on_arrays_of_two_sizes_are_equal() -> None:
    found = rramalloc.optimize(HAND, hardware=in_tiles(2, 2), progress=False)
    assert rramalloc.verify(HAND, found).verdict == "equal"


@pytest.mark.parametrize("signed", ["offset", "differential"])
@pytest.mark.parametrize(
    ("kinds", "lossy"), [(("digital", "digital"), "equal"), (("analog", "digital"), "approximate")]
)
def test_units_lose_nothing_with_any_converter(signed: str, kinds: tuple[str, str], lossy: str) -> None:
    """Groups and transposed kernels, too; converters and noise are of arrays."""
    bits = {"weight_bits": 4, "input_bits": 4, "output_bits": 8, "signed": signed}
    machine = with_units(400, 4, precision=bits)
    allocation = {"copies": {"d": 2, "t": 1}, "kind": {"d": kinds[0], "t": kinds[1]}}
    assert rramalloc.verify(NETWORK, allocation, hardware=machine).verdict == "equal"
    seen = rramalloc.verify(NETWORK, allocation, hardware=machine, adc_bits=4, noise=0.1)
    assert seen.verdict == lossy
