"""Kinds of arrays, and modes that no other dominates, by an independent program (golden/resources.json)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

import rramalloc
from rramalloc.allocation.allocation import Allocation
from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.network.network import Network
from rramalloc.records import parse

_EVERY: list[dict[str, Any]] = json.loads((Path(__file__).parent / "resources.json").read_text())["cases"]
CASES = [case for case in _EVERY if case["part"] in ("kinds", "dominance")]
ANSWERED = [case for case in CASES if "error" not in case["answer"]]
OF_KINDS = [case for case in ANSWERED if case["part"] == "kinds"]


def _optimised(case: dict[str, Any]) -> Allocation:
    question, hardware = case["question"], parse(TypeAdapter(Hardware), case["hardware"], "golden")
    objective = {"area": "arrays"}.get(question["objective"], question["objective"])
    return rramalloc.optimize(
        Network.from_document(case["network"], "golden"),
        question.get("arrays"),
        hardware=hardware,
        objective=objective,
        at_most=question.get("at_most"),
        progress=False,
        **question.get("goal", {}),
        **case["options"],
    )


def _figures(found: Allocation) -> dict[str, float | None]:
    unit_ns = found.unit_ns
    return {
        "makespan": found.makespan,
        "interval": found.interval,
        "latency_ns": found.latency_ns,
        "interval_ns": None if unit_ns is None else found.interval * unit_ns,
        "energy_pj": found.energy_pj,
        "edp": found.edp,
        "area_um2": found.area_um2,
        "total_arrays": found.arrays.used,
    }


@pytest.mark.parametrize("case", ANSWERED, ids=lambda case: case["id"])
def test_the_best_allocation_is_found_and_proven(case: dict[str, Any]) -> None:
    answer, found = case["answer"], _optimised(case)
    figures = _figures(found)
    assert figures[answer["value_of"]] == pytest.approx(answer["value"], rel=1e-9)
    assert found.gap == 0
    size = found.area_um2 if case["part"] == "kinds" and found.area_um2 is not None else found.arrays.used
    ties = [size]
    if answer["value_of"].startswith("interval"):
        ties = [found.makespan if found.latency_ns is None else found.latency_ns, size]
    assert ties[: len(answer["then"])] == pytest.approx(answer["then"], rel=1e-9)
    if case["part"] == "kinds" and answer["unique_modes"] == 1:
        used = {name: own.used for name, own in (found.arrays.by_kind or {}).items()}
        assert used == answer["of_best"]["arrays"]


@pytest.mark.parametrize(
    "case", [case for case in ANSWERED if case["part"] == "kinds"], ids=lambda c: c["id"]
)
def test_an_allocation_of_kinds_is_simulated_as_it_was_found(case: dict[str, Any]) -> None:
    """The file, and the best modes that the other program names."""
    found = _optimised(case)
    again = rramalloc.simulate(Network.from_document(case["network"], "golden"), found)
    fields = ("makespan", "interval", "latency_ns", "energy_pj", "area_um2")
    assert [getattr(again, name) for name in fields] == [getattr(found, name) for name in fields]
    best = rramalloc.simulate(
        Network.from_document(case["network"], "golden"),
        case["best"],
        hardware=found.hardware,
        **case["options"],
    )
    for name in fields:
        if name in case["answer"]["of_best"]:
            assert getattr(best, name) == pytest.approx(case["answer"]["of_best"][name], rel=1e-9)


@pytest.mark.parametrize("case", [case for case in CASES if "error" in case["answer"]], ids=lambda c: c["id"])
def test_kinds_whose_steps_differ_need_clocks_of_their_own(case: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=r'kinds: their steps differ .*clock = "own"'):
        _optimised(case)
