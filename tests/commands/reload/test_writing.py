"""The time of writing: worked by hand, against the arrays of a placement, and its bounds."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from laws.strategies import random_blocks, random_copies, random_network, randoms

from rramalloc.commands.reload.writing import Writing
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.tables import Write
from rramalloc.mapping.mode import Mode
from rramalloc.network.network import Network
from rramalloc.timing.stage_graph import StageGraph

pytestmark = pytest.mark.quick


def machine(**tables: Any) -> Hardware:
    given: dict[str, Any] = {
        "name": "m",
        "source": "test",
        "crossbar": {"wordlines": 16, "bitlines": 12, "cell_bits": 4},
        "precision": {"weight_bits": 8, "input_bits": 8, "output_bits": 8, "signed": "offset"},
        "chip": {"arrays_per_tile": 10**6, "tiles": [1, 1], "chips": [1, 1]},
    }
    return Hardware.model_validate(given | tables)


def writing(network: Network, mapping: Any = "im2col", lanes: int | None = None) -> Writing:
    write = Write(write_ns_per_row=1.0, parallel=lanes)
    return Writing(StageGraph.build(network), machine(), write, mapping)


NETWORK = Network.build(
    "n",
    [
        {"name": "in", "op": "input", "shape": [1, 4, 4]},
        {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 2, "kernel": 3},
    ],
)


class TestRounds:
    """Arrays of 5, 5, 4 and 1 wordlines."""

    ARRAYS: ClassVar = Counter({5: 2, 4: 1, 1: 1})

    @pytest.mark.parametrize(
        ("lanes", "ns"), [(None, 15.0), (1, 15.0), (2, 9.0), (3, 6.0), (4, 5.0), (100, 5.0)]
    )
    def test_a_round_lasts_as_long_as_its_fullest_array(self, lanes: int | None, ns: float) -> None:
        assert writing(NETWORK, lanes=lanes).ns(self.ARRAYS) == ns

    def test_equal_arrays_take_what_the_model_says(self) -> None:
        """wordlines * write_ns_per_row * ceil(arrays / parallel)."""
        assert writing(NETWORK, lanes=4).ns(Counter({128: 10})) == 128 * 3

    def test_nothing_takes_no_time(self) -> None:
        assert writing(NETWORK).ns(Counter()) == 0


@pytest.mark.parametrize("mapping", ["im2col", "sdk"])
@settings(max_examples=60)
@given(random=randoms)
def test_no_allocation_is_written_faster_than_the_floor(mapping: Any, random: Random) -> None:
    network = random_network(random, 5, 4)
    made = writing(network, mapping, lanes=random.choice([1, 2, 7]))
    graph = made.graph
    fewest = sum(made.of_stage(stage, mode, 1).total() for stage, mode in enumerate(graph.modes))
    for _ in range(20):
        blocks = tuple(random_blocks(random, graph)) if mapping == "sdk" else graph.blocks
        copies = np.minimum(random_copies(random, graph), graph.in_blocks(blocks).windows)
        arrays = made.wordlines([Mode(*block) for block in blocks], copies)
        for used in {arrays.total(), random.randint(1, arrays.total())}:
            assert made.floor_ns(used, fewest) <= made.ns(arrays)


def test_copies_of_a_small_kernel_share_an_array_only_in_modes() -> None:
    """9 rows and 4 columns: one copy an array of 16 x 12; a kernel of 1 x 1 has one row, three copies fit."""
    copies = np.array([4], dtype=np.int64)
    assert writing(NETWORK).wordlines([Mode(1, 1)], copies) == Counter({9: 4})
    small = Network.build(
        "s",
        [
            {"name": "in", "op": "input", "shape": [1, 4, 4]},
            {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 2, "kernel": 1},
        ],
    )
    assert writing(small).wordlines([Mode(1, 1)], copies) == Counter({1: 4})
    assert writing(small, "sdk").wordlines([Mode(1, 1)], copies) == Counter({3: 1, 1: 1})
