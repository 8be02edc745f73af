"""Files with a bound say what it is worth: optimal, bounded or feasible (docs/sources/model.md 14)."""

from __future__ import annotations

from typing import Any

import pytest

import rramalloc
from rramalloc.schemas import json_schema
from rramalloc.status import status_of


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
