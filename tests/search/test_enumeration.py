"""Small problems: all allocations are timed, and refusals and ties are those of all of them."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from search.test_every_objective import Enumerated, best_of, case_of

import rramalloc
from rramalloc.allocation.case import Case
from rramalloc.errors import LimitError, TargetError
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.network import Network
from rramalloc.search import enumeration, objective
from rramalloc.search.problem import Problem
from rramalloc.search.work import Work

SAME = 1e-9


@pytest.fixture(autouse=True)
def searched() -> None:
    """Time all allocations, which the other tests of this folder do not."""


EACH_CASE = pytest.mark.parametrize("number", range(8))


def problem_of(case: Enumerated) -> Problem:
    mapping = MappingOptions(mapping=case.mapping)
    return Case(case.network, case.hardware, mapping, copies=case.copies, divide=case.divide).problem(
        case.budget
    )


@EACH_CASE
def test_all_allocations_are_there(number: int) -> None:
    """Copies and modes, with limits, divisors and tiles: every block with every number of copies."""
    case = case_of(number)
    every = enumeration.every_choice(problem_of(case), Work())
    assert every is not None
    assert len({found.identity for found in every}) == len(every) == len(case.ways)
    for name, measured in (("makespan", [c.makespan for c in every]), ("arrays", [c.arrays for c in every])):
        assert sorted(measured) == sorted(way[name] for way in case.ways)


def test_too_many_for_the_work_or_for_their_number_are_left_to_a_search() -> None:
    problem = problem_of(case_of(0))
    assert enumeration.every_choice(problem, Work(work=0)) is None
    assert enumeration.every_choice(problem, Work(), 2) is None
    large = Case(rramalloc.load("alexnet"), rramalloc.load_hardware("plain")).problem(1000)
    assert enumeration.every_choice(large, Work()) is None


ONE = Network.build(
    "one",
    [
        {"name": "in", "op": "input", "shape": [4, 5, 6]},
        {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 16, "kernel": [2, 3]},
    ],
    source="by hand",
)
READS = Hardware.model_validate(
    {
        "name": "reads",
        "source": "by hand",
        "crossbar": {"wordlines": 32, "bitlines": 32, "cell_bits": 1},
        "precision": {"weight_bits": 1, "input_bits": 1, "output_bits": 4, "signed": "offset"},
        "timing": {"read_ns": 1.0, "dac_bits": 1, "adc_ns": 0.5, "columns_per_adc": 8, "rows_per_read": 2,
                   "clock": "own", "tick_ns": 0.5},
        "energy": {"read_pj": 2.0, "leakage_mw": 0.0, "area_um2": 10.0},
    }
)  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "block", "energy_pj"),
    [
        ({}, (1, 1), 384),
        ({"objective": "energy"}, (1, 2), 256),
        ({"objective": "edp"}, (1, 2), 256),
        ({"at_most": {"power_mw": 0.8}}, (1, 2), 256),
        ({"at_most": {"energy_pj": 256.0}}, (1, 2), 256),
    ],
)
def test_a_mode_that_is_slower_and_reads_less(
    asked: dict[str, Any], block: tuple[int, int], energy_pj: int
) -> None:
    """docs/sources/model.md 12, one array of 32 x 32 with 2 rows a read of 2 pJ, for 1 x 1 and 1 x 2.

    24 rows in 12 reads for each of 16 blocks, 1 ns and 2 pJ a read of both columns a converter: 384 pJ; 32
    rows in 16 reads for 8 blocks: 256 pJ, in 4 ns a read instead of 2.
    """
    found = rramalloc.optimize(ONE, 1, hardware=READS, mapping="sdk", **asked)
    (layer,) = found.layers
    assert (layer.block, found.energy_pj) == (block, energy_pj)
    assert found.proof.startswith("proven optimal: all 2 allocations timed")


def test_what_no_allocation_keeps_is_proven_and_says_the_least() -> None:
    with pytest.raises(LimitError) as limited:
        rramalloc.optimize(ONE, 1, hardware=READS, mapping="sdk", at_most={"energy_pj": 255.0})
    assert (limited.value.proven, limited.value.quantity, limited.value.least) == (True, "energy_pj", 256)
    with pytest.raises(LimitError) as limited:  # each can be kept without the other
        rramalloc.optimize(
            ONE, 1, hardware=READS, mapping="sdk", at_most={"energy_pj": 300, "latency_ns": 400}
        )
    assert limited.value.proven
    with pytest.raises(TargetError) as missed:
        rramalloc.optimize(ONE, 1, hardware=READS, mapping="sdk", objective="arrays", target_ns=383.0)
    assert (missed.value.proven, missed.value.bound, missed.value.unit) == (True, 384, "ns")


def test_a_search_without_a_proof_is_followed_by_all_allocations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more than are timed at once."""
    problem = Case(ONE, READS, MappingOptions(mapping="sdk")).problem(4)
    monkeypatch.setattr(objective.Latency, "most_at_once", 0)
    searched = objective.Latency(problem).search(Work(work=1), 0)
    unproven = replace(searched, lower_bound=1)
    monkeypatch.setattr(objective.Latency, "search", lambda *_: unproven)
    found = objective.Latency(problem).solve(Work(), 0)
    assert found.lower_bound == objective.Latency(problem).value(found.choice)
    assert found.proof.startswith("proven optimal: all ")


@EACH_CASE
def test_ties_and_fronts_are_those_of_all_allocations(number: int) -> None:
    """Of equal intervals the least latency, of all else the fewest arrays; a front is proven."""
    case = case_of(number)
    for name, axes in (
        ("latency", ("latency_ns", "arrays")),
        ("interval", ("interval_ns", "latency_ns", "arrays")),
        ("edp", ("edp", "arrays")),
    ):
        found = rramalloc.optimize(case.network, case.budget, objective=name, **case.options())
        best = best_of(case.ways, *axes)
        assert found.gap == 0
        assert found.arrays.used == best["arrays"]
        assert found.latency_ns == pytest.approx(best["latency_ns"], rel=SAME) or name == "edp"
    along = Random(number).choice(("latency_ns", "energy", "edp"))
    front = rramalloc.pareto(case.network, case.budget, objective=along, against="interval", **case.options())
    assert front.proven == len(front.points)
