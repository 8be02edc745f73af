"""All ways to share units out: every one of them, once, and as many as the formula counts."""

from __future__ import annotations

from itertools import islice, product
from math import comb
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws.strategies import random_network
from studies.strategies import worked
from studies.strategies.drawn import ROOMY

from rramalloc.api import evaluate
from rramalloc.errors import SpecError
from rramalloc.network.network import Network
from rramalloc.studies.strategies.chip import ChipPerformance
from rramalloc.studies.strategies.enumeration import count_ways, ways

Pair = tuple[tuple[int, ...], tuple[int, ...]]


def by_trial(compute: int, storage: int) -> set[frozenset[Pair]]:
    """Every mapping of units to subtasks that leaves none without; subtasks are not told apart."""
    found = set()
    for count in range(1, compute + 1):
        for first in product(range(count), repeat=compute):
            for second in product(range(count), repeat=storage):
                if len(set(first)) == count == len(set(second)):
                    found.add(
                        frozenset(
                            (
                                tuple(u for u, label in enumerate(first, 1) if label == part),
                                tuple(u for u, label in enumerate(second, 1) if label == part),
                            )
                            for part in range(count)
                        )
                    )
    return found


def none_needed(compute: int) -> list[list[int]]:
    return [[1] * count for count in range(1, compute + 1)]


@pytest.mark.parametrize("storage", range(1, 5))
@pytest.mark.parametrize("compute", range(1, 5))
def test_ways_are_those_found_by_trial(compute: int, storage: int) -> None:
    found = list(ways(compute, none_needed(compute), storage))
    as_sets = [frozenset(zip(way.compute, way.storage, strict=True)) for way in found]
    assert len(as_sets) == len(set(as_sets)) == count_ways(compute, none_needed(compute), storage)
    assert set(as_sets) == by_trial(compute, storage)


@pytest.mark.parametrize(
    ("compute", "storage", "count"),
    [
        pytest.param(1, 5, 1, id="one unit, one subtask"),
        pytest.param(2, 2, 1 + 2, id="together, or apart in two ways"),
        pytest.param(3, 3, 1 + 2 * 3 * 3 + 6, id="1 + 2! S(3,2)^2 + 3!"),
        pytest.param(4, 2, 1 + 2 * 7 * 1, id="two storage units allow two subtasks"),
    ],
)
def test_counts_by_hand(compute: int, storage: int, count: int) -> None:
    assert count_ways(compute, none_needed(compute), storage) == count


@settings(max_examples=60)
@given(st.data())
def test_count_with_needs_is_the_number_made(data: Any) -> None:
    compute, storage = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 6))
    least = [
        data.draw(st.lists(st.integers(1, 4), min_size=count, max_size=count))
        for count in range(1, compute + 1)
    ]
    made = list(ways(compute, least, storage))
    kept = [
        way
        for way in ways(compute, none_needed(compute), storage)
        if all(len(held) >= need for held, need in zip(way.storage, least[len(way.storage) - 1], strict=True))
    ]
    assert made == kept
    assert len(made) == count_ways(compute, least, storage)


def test_huge_counts_come_at_once_and_ways_are_streamed() -> None:
    """S(64, 2) = 2^63 - 1, so with two subtasks at most there are 1 + 2 (2^63 - 1)^2 ways."""
    least = none_needed(64)[:2]
    assert count_ways(64, least, 64) == 1 + 2 * (2**63 - 1) ** 2
    assert len(list(islice(ways(64, none_needed(64), 64), 1000))) == 1000


def test_needs_are_dealt_by_the_multinomial() -> None:
    """Two subtasks that need 2 and 3 of 5 storage units: C(5, 2) ways, and 2 compute units part in one."""
    assert count_ways(2, [[6], [2, 3]], 5) == comb(5, 2)


def test_evaluated_ways_fit_their_storage(judge: Any) -> None:
    """Worked example: fc needs 64 + 20 + 640 = 724 bytes where its window is, 2 units of 400 bytes.

    The first subtask has the window, so of the 2! S(3,2)^2 = 18 ways with two subtasks those with the
    single storage unit there do not fit: 9 remain. Three subtasks have one unit each: none. With one: 1.
    conv2 with 2 of 4 windows needs 96 + 256 = 352 bytes: one unit of 400 is enough.
    """
    evaluation = judge(units=(3, 3))
    told = evaluation.document.enumerated
    assert (told.ways, told.fitting, told.evaluated) == (25, 10, 10)
    assert evaluation.time_ns == pytest.approx(104 + 112 + 68)
    assert evaluation.document.equals == 9
    assert evaluation.names[0] == "C1+2+3:D1+2+3"


def test_the_limit_keeps_one_of_each_time_and_then_the_fastest(judge: Any) -> None:
    """Times differ by the number of subtasks alone. One subtask: 500 ns, two: 284 ns (above), in 9 ways."""
    everything, some = judge(units=(3, 3)), judge(units=(3, 3), limit=4)
    assert some.names == everything.names[:4]
    assert sorted(some.totals_ns().values()) == pytest.approx([284, 284, 284, 500])
    assert some.document.enumerated.evaluated == 4
    assert some.document.enumerated.ways == 25
    one = judge(units=(3, 3), limit=1)
    assert one.names == everything.names[1:2]
    assert one.time_ns == everything.time_ns == pytest.approx(284)


@settings(max_examples=30)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 30), st.integers(0, 99))
def test_the_best_way_is_the_best_of_all(compute: int, storage: int, limit: int, seed: int) -> None:
    network, chip = (
        random_network(Random(seed)),
        ChipPerformance(**(worked.CHIP | ROOMY | {"processors": 5, "storage_units": 5})),
    )
    best = evaluate(network, chip, units=(compute, storage), limit=limit)
    every = evaluate(network, chip, units=(compute, storage), limit=10**5)
    assert every.document.enumerated is not None
    assert every.document.enumerated.fitting == len(every.names)
    assert best.time_ns == pytest.approx(min(every.totals_ns().values()), rel=1e-12)


def test_memory_is_divided_into_the_units_that_are_asked_for(judge: Any) -> None:
    """1500 bytes: three units of 500 or two of 750. fc needs 724 bytes where its window is.

    Of three units two in one subtask hold them: 9 ways with two subtasks (above), three subtasks have one
    unit each. Two units of 750 are each enough: 2! S(3,2) S(2,2) = 6 ways, and one of a single subtask.
    """
    three = judge(units=(3, 3), chip={"unit_bytes": 500}).document.enumerated
    two = judge(units=(3, 2), chip={"unit_bytes": 500}).document.enumerated
    assert (three.unit_bytes, three.fitting) == (500, 10)
    assert (two.unit_bytes, two.fitting) == (750, 7)


@pytest.mark.parametrize(
    ("units", "chip", "words"),
    [
        pytest.param((4, 3), {}, "compute units must be from 1 to 3, got 4", id="more than processors"),
        pytest.param((3, 4), {}, "storage units must be from 1 to 3, got 4", id="more than storage"),
        pytest.param((0, 3), {}, "compute units must be from 1 to 3, got 0", id="none"),
        pytest.param((65, 1), {"processors": 99}, "from 1 to 64, got 65", id="too many to enumerate"),
        pytest.param((3, 3), {"unit_bytes": 241}, "needs 724 bytes", id="nothing fits"),
    ],
)
def test_what_cannot_be_enumerated(
    judge: Any, units: tuple[int, int], chip: dict[str, Any], words: str
) -> None:
    with pytest.raises(SpecError, match=words):
        judge(units=units, chip=chip)


@pytest.mark.parametrize(("tasks", "limit"), [(1, 0), (1, 10**6 + 1), (200, 10**6)])
def test_too_many_are_refused_before_any_is_made(tasks: int, limit: int) -> None:
    nodes: list[dict[str, Any]] = [{"name": "0", "op": "input", "shape": [1, 2, 2]}]
    for number in range(tasks):
        convolution = {"op": "conv", "inputs": [str(number)], "out_channels": 1, "kernel": 1}
        nodes.append({"name": str(number + 1)} | convolution)
    chip = ChipPerformance(**(worked.CHIP | {"processors": 20, "storage_units": 20}))
    with pytest.raises(SpecError, match="limit"):
        evaluate(Network.build("long", nodes), chip, units=(20, 20), limit=limit)


def test_just_enough_storage_fits(judge: Any) -> None:
    """724 bytes in 3 units: 242 bytes each are enough, 241 are not (above)."""
    assert judge(units=(3, 3), chip={"unit_bytes": 242}).names == ("C1+2+3:D1+2+3",)


def test_enumerated_strategies_equal_tables_of_the_same_units(judge: Any) -> None:
    enumerated = judge(units=(3, 3))
    for column, way in enumerate(ways(3, [[2], [2, 1], [9, 9, 9]], 3)):
        assert way.name == enumerated.names[column]
        parts = [
            {"compute": list(own), "storage": list(held)}
            for own, held in zip(way.compute, way.storage, strict=True)
        ]
        table = judge(worked.changed(worked.WHOLE, tasks={"*": parts}))
        assert table.performance_ns[:, 0].tolist() == enumerated.performance_ns[:, column].tolist()
