"""Layers that alone exceed the arrays: what their parts are, and that nothing of them is lost."""

from __future__ import annotations

from typing import Any

import pytest

from rramalloc.commands.reload.cut_layers import CutNetwork, cut_to_fit
from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.demand import demands
from rramalloc.mapping.options import DEFAULT_MAPPING
from rramalloc.network.network import Network
from rramalloc.network.node import Stage

pytestmark = pytest.mark.quick


def machine() -> Hardware:
    return Hardware.model_validate(
        {
            "name": "m",
            "source": "test",
            "crossbar": {"wordlines": 8, "bitlines": 6, "cell_bits": 8},
            "precision": {"weight_bits": 8, "input_bits": 8, "output_bits": 8, "signed": "offset"},
        }
    )


def one(op: str = "conv", channels: int = 4, extent: int = 5, **fields: Any) -> Network:
    nodes = [
        {"name": "in", "op": "input", "shape": [channels, extent, 1 if op == "recurrent" else extent]},
        {"name": "a", "op": op, "inputs": ["in"], **fields},
        {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 1, "kernel": 1},
    ]
    return Network.build("one", nodes)


def cut(network: Network, arrays: int) -> CutNetwork:
    return cut_to_fit(network, {"a"}, [(machine(), arrays)], DEFAULT_MAPPING)


def parts(network: Network) -> list[Stage]:
    return [stage for stage in network.stages if stage.name != "b"]


CASES = [
    (one(out_channels=7, kernel=3, pads=1), 5, 2),
    (one(out_channels=8, kernel=3), 3, 4),
    (one(channels=8, out_channels=8, kernel=3, groups=8), 3, 8),
    (one(channels=8, out_channels=16, kernel=3, groups=2), 4, 6),
    (one("linear", out_features=20), 2, 2),
    (one("conv_transpose", out_channels=5, kernel=4, stride=2), 4, 2),
]


@pytest.mark.parametrize(("network", "arrays", "number"), CASES)
def test_every_part_fits_and_all_weights_are_there(network: Network, arrays: int, number: int) -> None:
    result = cut(network, arrays)
    made = parts(result.network)
    assert result.parts == {"a": len(made)}
    assert len(made) == number > 1
    assert all(need <= arrays for need in demands(result.network, made, machine(), DEFAULT_MAPPING))
    assert result.network.shapes["a"] == network.shapes["a"]

    def weights(each: Network) -> int:
        return sum(stage.weight_count(each.shapes[stage.inputs[0]].channels) for stage in each.stages)

    assert weights(result.network) == weights(network)
    assert {stage.name for stage in network.stages} - {"a"} <= {stage.name for stage in result.network.stages}


def test_a_layer_that_shares_weights_with_a_cut_one_stands_alone() -> None:
    nodes = [
        {"name": "in", "op": "input", "shape": [4, 3, 3]},
        {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 13, "kernel": 1},
        {"name": "c", "op": "conv", "inputs": ["in"], "out_channels": 13, "kernel": 1, "shares": "a"},
    ]
    network = cut_to_fit(Network.build("n", nodes), {"a"}, [(machine(), 1)], DEFAULT_MAPPING).network
    assert next(stage for stage in network.stages if stage.name == "c").shares is None


def test_what_cannot_be_cut_says_so() -> None:
    with pytest.raises(SpecError, match="one kernel of one channel needs more than the 1 arrays"):
        cut(one(out_channels=2, kernel=3), 1)
    with pytest.raises(SpecError, match="every step needs its whole state"):
        cut(one("recurrent", channels=40, hidden=10, gates=4), 2)
