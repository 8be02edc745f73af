"""Words and figures of one result agree: of its proof, of its rates, and of goals and what reaches them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rramalloc
from rramalloc import Network
from rramalloc.status import Status, Stopped

CHAIN = Network.build(
    "tiny",
    [
        {"name": "in", "op": "input", "shape": [16, 2, 2]},
        {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 16, "kernel": 1},
        {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 16, "kernel": 1},
    ],
)
"""One array a layer, four windows, 2048 multiply-accumulates."""
HARDWARE: dict[str, Any] = {
    "name": "h",
    "source": "hand-made",
    "crossbar": {"wordlines": 16, "bitlines": 16, "cell_bits": 8},
    "precision": {"weight_bits": 8, "input_bits": 8, "output_bits": 8, "signed": "offset"},
    "timing": {"step_ns": 100.0},
    "energy": {"read_pj": 10.0, "leakage_mw": 0.5, "area_um2": 100.0},
}
LINKS = {"arrays_per_tile": 1, "tiles": [2, 2], "hop_ns_tile": 120.0, "bandwidth_tile_gb_s": 8.0}
OWN = {"timing": {"step_ns": 10.0, "clock": "own", "tick_ns": 10.0}, "chip": LINKS}


def allocations() -> Iterator[Any]:
    """Yield allocations of every objective, proven and not, placed, of methods, and of segments."""
    for hardware in (HARDWARE, HARDWARE | {"chip": LINKS}, HARDWARE | OWN):
        for objective in ("latency", "interval", "energy", "edp", "sequential"):
            for arrays in (2, 3, 4):
                yield rramalloc.optimize(CHAIN, arrays, objective=objective, hardware=hardware, work=1)
        for target in ({"target_interval": 2}, {"target_ns": 1e6}, {"target_throughput": 1000.0}):
            yield rramalloc.optimize(CHAIN, 8, hardware=hardware, **target)
        if "chip" in hardware:
            yield from (rramalloc.optimize(CHAIN, n, hardware=hardware, placed=True, work=1) for n in (2, 4))
    for work in (0, 1):
        yield rramalloc.optimize("resnet8", "x2", work=work)
        for method in ("isaac", "none"):
            yield rramalloc.optimize("resnet8", "x2", method=method, work=work)
    writes = HARDWARE | {"write": {"write_ns_per_row": 1.0}}
    plan = rramalloc.optimize_reload(CHAIN, 1, hardware=writes)
    yield plan
    yield from (segment.allocation for segment in plan.segments)
    yield from rramalloc.compare("resnet8", ["x2"], methods=["auto", "isaac", "none"], work=1).rows


def test_stopped_status_and_gap_say_the_same() -> None:
    ends = set()
    for found in allocations():
        is_proven = found.gap == 0
        assert (found.stopped is Stopped.PROOF) == is_proven == (found.status is Status.OPTIMAL), found
        assert found.lower_bound <= getattr(found, "objective_value", getattr(found, "total_ns", None))
        if not is_proven:
            assert not found.proof.startswith("proven"), found.proof
        ends.add(found.stopped)
    assert {Stopped.PROOF, Stopped.EXHAUSTED, Stopped.WORK} <= ends


@pytest.mark.parametrize("rate", [None, 1000.0, 123456.0])
def test_rates_are_of_one_stream(rate: float | None) -> None:
    """2 * 2048 operations a thousand times a second: 4.096e-6 TOPS in 1.00008 mW at 80 pJ + 1 mW * 1 ms."""
    made = rramalloc.optimize(CHAIN, 2, hardware=HARDWARE)
    found = rramalloc.simulate(CHAIN, made, rate=rate)
    assert found.tops is not None
    assert found.stream_power_mw is not None
    assert found.tops_per_w == pytest.approx(found.tops / (found.stream_power_mw * 1e-3))
    if rate == 1000.0:
        assert found.tops == pytest.approx(4.096e-6)
        assert found.stream_power_mw == pytest.approx(1.00008)


def test_what_is_not_given_is_not_zero() -> None:
    """Without pj_per_byte: 8 reads of 10 pJ, and two arrays that leak for 5 steps of 100 ns."""
    found = rramalloc.optimize(CHAIN, 2, hardware=HARDWARE)
    assert (found.moved_pj, found.dynamic_pj, found.energy_pj) == (None, 80.0, 80.0 + 500.0)
    assert found.to_dict()["moved_pj"] is None
    assert "no pj_per_byte is given" in " ".join(found.warnings)
    given = rramalloc.optimize(CHAIN, 2, hardware=HARDWARE, set_values={"energy.pj_per_byte": 1.0})
    assert given.moved_pj == 64.0  # 16 channels of 4 pixels of a


def test_a_goal_and_what_reaches_it_have_one_unit(tmp_path: Path) -> None:
    CHAIN.save(tmp_path / "tiny.json")
    for goal, reaches, words in (
        ({"target_interval": "500ns"}, 400.0, "400 ns"),
        ({"target_interval": 4}, 4.0, "4"),
        ({"target_ns": "500ns"}, 500.0, "500 ns"),
        ({"target": 5}, 5.0, "5"),
        ({"target_throughput": 2.5e6}, 2.5e6, "2,500,000 inputs/s"),
    ):
        networks = [{"network": str(tmp_path / "tiny.json"), **goal}]
        sized = rramalloc.size(
            {"networks": networks, "hardware": HARDWARE, "choose": {"timing.step_ns": [100.0]}}
        )
        assert (sized.networks[0].reaches, sized.networks[0].reached) == (reaches, words)


def test_place_of_a_placed_file_does_not_advise_what_was_done() -> None:
    slow = HARDWARE | {"chip": LINKS | {"bandwidth_tile_gb_s": 0.1}}
    plain = rramalloc.optimize(CHAIN, 4, hardware=slow)
    assert "optimize --placed" in " ".join(rramalloc.place(CHAIN, plain, work=0).warnings)
    placed = rramalloc.optimize(CHAIN, 2, hardware=slow, placed=True)
    warnings = " ".join(rramalloc.place(CHAIN, placed, work=0).warnings)
    assert "times as slow" in warnings
    assert "optimize --placed" not in warnings
