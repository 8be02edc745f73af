"""`optimize --placed` with own clocks: transfers delay edges, and slow down what links cannot carry."""

from __future__ import annotations

import json
from typing import Any

import pytest

import rramalloc
from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import load_hardware
from rramalloc.network.network import Network
from rramalloc.search import links
from rramalloc.timing.latency_table import LatencyRow, LatencyTable
from rramalloc.timing.measured_layer import MeasuredLayer

pytestmark = pytest.mark.quick

CHAIN = {
    "format": "rramalloc-network/1",
    "name": "chain",
    "nodes": [
        {"name": "input", "op": "input", "shape": [16, 8, 8]},
        {"name": "a", "op": "conv", "inputs": ["input"], "out_channels": 128, "kernel": 1},
        {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 128, "kernel": 1},
    ],
}


def machine(*, tick_ns: float = 1.0, **chip: float) -> Hardware:
    document = load_hardware("plain").to_dict()
    document["precision"] |= {"input_bits": 8, "output_bits": 8}
    tiles = {"arrays_per_tile": 1, "tiles": [1, 2], "chips": [1, 1]}
    timing = {"step_ns": 10.0, "clock": "own", "tick_ns": tick_ns}
    return Hardware.model_validate(document | {"chip": tiles | chip, "timing": timing})


@pytest.fixture
def network(tmp_path: Any) -> Any:
    path = tmp_path / "chain.json"
    path.write_text(json.dumps(CHAIN))
    return path


def test_delay_of_an_edge_by_hand(network: Any) -> None:
    """One copy each in two tiles: a pixel of 128 bytes over a hop of 3 ns and a link of 32 bytes per ns.

    3 + 128 / 32 = 7 ns on the way. Stages of 64 batches of 10 ticks: b starts at 10 + 7 and ends 640 later.
    """
    hardware = machine(hop_ns_tile=3.0, bandwidth_tile_gb_s=32.0)
    found = rramalloc.optimize(network, 2, hardware=hardware, placed=True)
    assert found.placed is not None
    assert [delay.model_dump() for delay in found.placed.delays or ()] == [
        {"producer": "a", "consumer": "b", "ticks": 7}
    ]
    assert found.placed.transfer_ns == {"a": 7.0, "b": 0.0}
    assert [layer.cycles for layer in found.layers] == [10, 10]
    assert found.makespan == 17 + 640
    assert found.latency_ns == 657.0


@pytest.mark.parametrize(
    ("given", "ticks", "left_out"),
    [({"hop_ns_tile": 3.0}, 3, "bandwidth_tile_gb_s"), ({"bandwidth_tile_gb_s": 32.0}, 4, "hop_ns_tile")],
)
def test_one_time_of_links_is_enough(
    given: dict[str, float], ticks: int, left_out: str, network: Any
) -> None:
    """As above; what is not given takes no time, and the result says so."""
    found = rramalloc.optimize(network, 2, hardware=machine(**given), placed=True)
    assert found.makespan == 10 + ticks + 640
    placed = rramalloc.place(network, found)
    assert placed.latency_ns == found.latency_ns
    for result in (found, placed):
        assert any(left_out in words for words in result.not_counted)


def test_a_placement_tells_the_same_transfers(network: Any) -> None:
    """As by hand above: 7 ns; the link carries 128 bytes in 4 of 10 ns, of 50 ns with measured steps."""
    hardware = machine(hop_ns_tile=3.0, bandwidth_tile_gb_s=32.0)
    found = rramalloc.optimize(network, 2, hardware=hardware, placed=True)
    (flow,) = rramalloc.place(network, found).flows
    assert (flow.transfer_ns, flow.busy) == (7.0, 0.4)
    source = rramalloc.load(network)
    table = LatencyTable(
        rows=tuple(
            LatencyRow(**MeasuredLayer.of(source, stage).model_dump(), latency_ns=64 * 50.0)
            for stage in source.stages[:1]
        )
    )
    (flow,) = rramalloc.place(network, found, latency_table=table).flows
    assert (flow.transfer_ns, flow.busy) == (7.0, 0.08)
    with pytest.raises(SpecError, match="has no hop_ns_tile or bandwidth_tile_gb_s"):
        rramalloc.place(network, found, hardware=machine(), latency_table=table)
    (flow,) = rramalloc.place(network, found, hardware=machine()).flows
    assert (flow.transfer_ns, flow.busy) == (None, None)


def test_the_bound_of_a_placed_answer_is_that_without_transfers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two stages of 12 windows and 2 ticks a batch: 3 and 3 copies take 10 ticks without transfers.

    2 and 2 copies in tiles of 3 arrays send 4 bytes a batch over a link if one of each lies in a tile: 5 ns
    are 2 ticks, so 6 batches of 2 ticks, 2 of transfer and 2 of the last batch are 16. A later round is
    searched with the transfers of the round before; its bound is not that of the answer.
    """
    nodes = [
        {"name": "in", "op": "input", "shape": [8, 4, 3]},
        {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 8, "kernel": 1},
        {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 4, "kernel": 1},
    ]
    tiles = {"arrays_per_tile": 3, "tiles": [2, 3], "chips": [1, 1]}
    hardware = Hardware.model_validate(
        {
            "name": "h",
            "source": "by hand",
            "crossbar": {"wordlines": 8, "bitlines": 8, "cell_bits": 1},
            "precision": {"weight_bits": 1, "input_bits": 1, "output_bits": 8, "signed": "offset"},
            "timing": {"read_ns": 3.0, "dac_bits": 1, "clock": "own", "tick_ns": 2.5},
            "chip": tiles | {"hop_ns_tile": 1.0, "bandwidth_tile_gb_s": 1.0},
        }
    )
    network = Network.build("p", nodes, source="by hand")
    found = rramalloc.optimize(network, 6, hardware=hardware, placed=True)
    assert (found.lower_bound, found.makespan) == (10, 16)
    assert [layer.copies for layer in found.layers] == [2, 2]
    monkeypatch.setattr(links, "every_choice", lambda *_: None)
    found = rramalloc.optimize(network, 6, hardware=hardware, placed=True)
    assert found.lower_bound == 10
    assert found.makespan >= 16
