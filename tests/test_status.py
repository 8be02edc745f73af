"""Files with a bound say what it is worth: optimal, bounded or feasible (docs/sources/model.md 14)."""

from __future__ import annotations

import json
from typing import Any

import pytest

import rramalloc
from rramalloc.errors import UnsupportedError
from rramalloc.methods.registry import METHODS
from rramalloc.network.network import Network
from rramalloc.schemas import json_schema
from rramalloc.search.work import Work
from rramalloc.status import Status, Stopped, status_of


@pytest.mark.parametrize(
    ("gap", "bound", "status"),
    [(0.0, 12, "optimal"), (0.25, 9, "bounded"), (1.0, 0, "feasible"), (None, None, "feasible")],
)
def test_by_hand(gap: float | None, bound: float | None, status: str) -> None:
    assert status_of(gap, bound) == status


def test_an_allocation_and_what_compares_it() -> None:
    """AlexNet on 400 arrays is proven; bottleneck's allocation there is 5 % from the bound."""
    allocation = rramalloc.optimize("alexnet", 400, work=20)
    assert (allocation.gap, allocation.status) == (0, "optimal")
    rows = rramalloc.compare("alexnet", [400], methods=["auto", "bottleneck"], work=20).rows
    assert {row.method: row.status == "optimal" for row in rows} == {row.method: row.gap == 0 for row in rows}
    front = rramalloc.pareto("alexnet", 170, work=2)
    assert {point.status == "optimal" for point in front.points} == {point.proven for point in front.points}
    assert front.status == ("optimal" if front.proven == len(front.points) else "bounded")


@pytest.mark.parametrize(
    "name",
    [
        "allocation",
        "pareto",
        "comparison",
        "sweep",
        "reload",
        "chiplet-schedule",
        "size",
        "explanation",
        "placement",
    ],
)
def test_every_schema_with_a_bound_has_a_status(name: str) -> None:
    schema = json_schema(name)
    parts: list[dict[str, Any]] = [schema, *schema["$defs"].values()]
    assert any("status" in part.get("properties", {}) for part in parts)
    for part in parts:
        fields = part.get("properties", {})
        if {"lower_bound", "gap"} <= fields.keys():
            assert "status" in fields, part["title"]


SMALL = Network.build(
    "small",
    [
        {"name": "in", "op": "input", "shape": [3, 8, 8]},
        {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 8, "kernel": 3, "pads": 1},
        {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 8, "kernel": 3, "pads": 1},
    ],
)
"""Two layers of one array a copy and 64 windows: few allocations, so all of them are timed."""
LARGE = {"network": "resnet18", "arrays": "x2"}
"""Too large for that: without work its bound is not reached."""


def test_both_are_enumerations_whose_values_are_the_texts() -> None:
    found = rramalloc.optimize(SMALL, 6)
    assert (found.status, found.stopped) == (Status.OPTIMAL, Stopped.PROOF)
    assert isinstance(found.status, Status)
    assert isinstance(found.stopped, Stopped)
    document = found.to_dict()
    assert (document["status"], document["stopped"]) == ("optimal", "proof")
    assert type(document["stopped"]) is str
    for field, kind in (("status", Status), ("stopped", Stopped)):
        assert json_schema("allocation")["$defs"][kind.__name__]["enum"] == [each.value for each in kind]
        assert field in json_schema("allocation")["properties"]


@pytest.mark.parametrize(
    ("given", "status", "stopped"),
    [
        ({"work": 0}, "bounded", "work"),
        ({"work": 1}, "bounded", "work"),
        ({"gap": 0.9}, "bounded", "gap"),
        ({"time_limit_s": 1e-6}, "bounded", "time"),
        ({"objective": "interval"}, "optimal", "proof"),
        ({"objective": "sequential"}, "optimal", "proof"),
        ({"objective": "arrays", "target": 10**9}, "optimal", "proof"),
    ],
)
def test_why_a_search_ended(given: dict[str, Any], status: str, stopped: str) -> None:
    found = rramalloc.optimize(**LARGE | given)
    assert (found.status, found.stopped) == (status, stopped)
    assert (found.gap == 0) == (stopped == "proof")


def test_a_search_that_the_user_ends() -> None:
    stop = Work()
    stop.interrupted = True
    found = rramalloc.optimize(**LARGE, stop=stop)
    assert (found.status, found.stopped) == ("bounded", "interrupted")


def test_a_start_that_is_looked_at_no_further() -> None:
    start = rramalloc.optimize(**LARGE, method="none")
    found = rramalloc.optimize(**LARGE, work=0, start={"copies": dict(start.copies)})
    assert (found.status, found.stopped) == ("bounded", "work")


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"auto", "milp"}))
def test_a_baseline_that_ran_through_is_exhausted(method: str) -> None:
    """Unless it meets the bound, and not where the clock ended it."""
    try:
        found = rramalloc.optimize(SMALL, 6, method=method)
    except UnsupportedError:
        found = rramalloc.optimize(SMALL, 6, method=method, mapping="sdk")
    assert found.stopped == ("proof" if found.gap == 0 else "exhausted")
    row = rramalloc.compare(SMALL, [6], methods=[method], mapping=found.options.mapping).rows[0]
    assert row.stopped == found.stopped


def test_a_solver_proves_what_meets_its_bound() -> None:
    found = rramalloc.optimize(SMALL, 6, method="milp")
    assert found.stopped == ("proof" if found.gap == 0 else "exhausted")
    assert rramalloc.optimize(**LARGE, method="gain", work=0).stopped == "work"
    assert rramalloc.optimize(**LARGE, method="gain", time_limit_s=1e-6).stopped == "time"


def test_plans_of_segments_and_placed_allocations() -> None:
    plan = rramalloc.optimize_reload(
        "alexnet", 400, hardware="isaac", set_values=["write.write_ns_per_row=1"]
    )
    assert plan.stopped == ("proof" if plan.gap == 0 else "work")
    for segment in plan.segments:
        own = segment.allocation
        assert own.stopped == ("proof" if own.gap == 0 else "exhausted" if plan.gap == 0 else "work")


OWN_LINKS = {
    "name": "own",
    "source": "hand-made",
    "crossbar": {"wordlines": 16, "bitlines": 16, "cell_bits": 8},
    "precision": {"weight_bits": 8, "input_bits": 8, "output_bits": 8, "signed": "offset"},
    "timing": {"step_ns": 10.0, "clock": "own", "tick_ns": 10.0},
    "chip": {"arrays_per_tile": 1, "tiles": [2, 2], "hop_ns_tile": 20.0, "bandwidth_tile_gb_s": 8.0},
}
"""Tiles of one array, a hop takes two ticks."""
TWO = Network.build(
    "two",
    [
        {"name": "in", "op": "input", "shape": [16, 2, 2]},
        {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 16, "kernel": 1},
        {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 16, "kernel": 1},
    ],
)


def test_a_placed_allocation_that_misses_its_bound_has_no_proof() -> None:
    """One array each: 5 ticks without transfer. 16 bytes take 2 + 0.2 ticks, so b starts 3 ticks later."""
    found = rramalloc.optimize(TWO, 2, hardware=OWN_LINKS, placed=True)
    assert (found.makespan, found.lower_bound) == (8, 5)
    assert (found.status, found.stopped) == ("bounded", "exhausted")
    assert "proven" not in found.proof
    assert rramalloc.optimize(TWO, 2, hardware=OWN_LINKS, placed=True, work=0).stopped == "work"
    one_tile = {"chip.arrays_per_tile": 2}
    hidden = rramalloc.optimize(TWO, 2, hardware=OWN_LINKS, set_values=one_tile, placed=True)
    assert (hidden.makespan, hidden.status, hidden.stopped) == (5, "optimal", "proof")


def test_a_file_of_an_older_version_does_not_say_why(tmp_path: Any) -> None:
    document = rramalloc.optimize(SMALL, 6).to_dict()
    del document["stopped"]
    (tmp_path / "a.json").write_text(json.dumps(document))
    assert rramalloc.read(tmp_path / "a.json").stopped is None
