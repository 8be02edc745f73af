"""Pareto fronts as users get them: checked points, units, what is proven."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rramalloc
from rramalloc.errors import SpecError


def test_points_are_what_they_say() -> None:
    front = rramalloc.pareto("alexnet", arrays=700, work=20, baselines=["gain"])
    assert front.points[0].arrays == front.minimum
    assert [p.arrays for p in front.points] == sorted({p.arrays for p in front.points})
    assert [p.makespan for p in front.points] == sorted({p.makespan for p in front.points}, reverse=True)
    for point in front.points[:: len(front.points) // 7]:
        timing = rramalloc.simulate("alexnet", point.copies)
        assert (timing.makespan, timing.interval, timing.arrays) == (
            point.makespan,
            point.interval,
            point.arrays,
        )
        assert point.value == point.makespan
        assert point.gap == (point.value - point.lower_bound) / point.value
    for beside in front.baselines:
        known = min(point.value for point in front.points if point.arrays <= beside.budget)
        bounds = [point.lower_bound for point in front.points if point.arrays <= beside.budget]
        assert beside.arrays <= beside.budget
        assert beside.value >= bounds[-1]
        assert known <= beside.value


@pytest.mark.quick
def test_interval_of_a_hand_worked_chain() -> None:
    """Two layers of 16 and 4 windows, one array a copy: ceil(16/d1), ceil(4/d2) with d1 + d2 <= 6.

    2 arrays: 16; then d1 = 2 .. 5 beside d2 = 1: 8, 6, 4, and 4 windows keep it at 4 from there.
    """
    network = rramalloc.Network.build(
        "two",
        [
            {"name": "input", "op": "input", "shape": [1, 4, 4]},
            {"name": "a", "op": "conv", "inputs": ["input"], "out_channels": 1, "kernel": 1},
            {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 1, "kernel": 1, "stride": 2},
        ],
    )
    front = rramalloc.pareto(network, arrays=6, objective="interval")
    assert [(point.arrays, point.value) for point in front.points] == [(2, 16), (3, 8), (4, 6), (5, 4)]
    assert front.proven == 4


def test_latency_is_in_ns_and_needs_timing() -> None:
    front = rramalloc.pareto("alexnet", arrays=700, objective="latency_ns", hardware="isaac-todaes", work=10)
    assert front.unit == "ns"
    for point in front.points:
        assert point.latency_ns == pytest.approx(point.value)
        assert point.lower_bound <= point.value
    with pytest.raises(SpecError, match="timing"):
        rramalloc.pareto("alexnet", arrays=700, objective="latency_ns")


@pytest.mark.parametrize(("hardware", "same"), [("plain", "makespan"), ("isaac-todaes", "latency_ns")])
def test_latency_is_what_optimize_calls_so(hardware: str, same: Any) -> None:
    """Steps where all steps are as long, ns where memory access lengthens some."""
    front, other = (
        rramalloc.pareto("alexnet", arrays=400, objective=name, hardware=hardware, work=5)
        for name in ("latency", same)
    )
    assert front.unit == other.unit
    assert [(point.arrays, point.value) for point in front.points] == [
        (point.arrays, point.value) for point in other.points
    ]
    with pytest.raises(SpecError, match="is the objective itself"):
        rramalloc.pareto("alexnet", 400, objective="latency", against="latency_ns", hardware=hardware)


def test_a_point_with_modes_can_be_saved_and_simulated(tmp_path: Path) -> None:
    """With mapping sdk a point has a block for every layer; its file is an allocation."""
    front = rramalloc.pareto("alexnet", arrays=180, mapping="sdk", work=4)
    for number, point in enumerate(front.points[::3]):
        path = tmp_path / f"{number}.json"
        point.save_allocation(path)
        timed = rramalloc.simulate("alexnet", path)
        assert {layer.name: layer.block for layer in timed.layers} == point.block
        assert (timed.makespan, timed.interval, timed.arrays) == (
            point.makespan,
            point.interval,
            point.arrays,
        )
    plain = rramalloc.pareto("alexnet", arrays=170, work=5).points[0]
    assert plain.allocation == {"copies": plain.copies}
    assert "block" not in plain.model_dump()
