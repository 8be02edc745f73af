"""All ways to share units out: every one of them, once, and as many as the formula counts."""

from __future__ import annotations

import math
from itertools import islice, product
from random import Random
from typing import Any

import pytest
from commands.evaluate import worked
from commands.evaluate.drawn import ROOMY
from hypothesis import given, settings
from hypothesis import strategies as st
from laws.strategies import random_network
from pydantic import TypeAdapter

import rramalloc
from rramalloc.commands.evaluate.enumeration import assignments, count_assignments
from rramalloc.commands.evaluate.evaluate import evaluate
from rramalloc.commands.evaluate.strategy import Strategy
from rramalloc.errors import SpecError
from rramalloc.hardware.performance import ChipPerformance
from rramalloc.records import parse

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
    found = list(assignments(compute, none_needed(compute), storage))
    as_sets = [frozenset(zip(way.compute, way.storage, strict=True)) for way in found]
    assert len(as_sets) == len(set(as_sets)) == count_assignments(compute, none_needed(compute), storage)
    assert set(as_sets) == by_trial(compute, storage)


@settings(max_examples=40)
@given(st.data())
def test_count_with_needs_is_the_number_made(data: Any) -> None:
    compute, storage = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 6))
    least = [
        data.draw(st.lists(st.integers(1, 4), min_size=count, max_size=count))
        for count in range(1, compute + 1)
    ]
    made = list(assignments(compute, least, storage))
    kept = [
        way
        for way in assignments(compute, none_needed(compute), storage)
        if all(len(held) >= need for held, need in zip(way.storage, least[len(way.storage) - 1], strict=True))
    ]
    assert made == kept
    assert len(made) == count_assignments(compute, least, storage)


def test_huge_counts_come_at_once_and_ways_are_streamed() -> None:
    """S(64, 2) = 2^63 - 1, so with two subtasks at most there are 1 + 2 (2^63 - 1)^2 ways."""
    least = none_needed(64)[:2]
    assert count_assignments(64, least, 64) == 1 + 2 * (2**63 - 1) ** 2
    assert len(list(islice(assignments(64, none_needed(64), 64), 1000))) == 1000


def classes(evaluation: Any) -> dict[str, tuple[int, float]]:
    """Ways and time of every class."""
    return {each.name: (each.ways, each.time_ns) for each in evaluation.document.enumerated.classes}


def test_classes_of_the_worked_example(judge: Any) -> None:
    """Windows in two: fc needs 64 + 20 + 640 = 724 bytes where its window is, 2 units of 400 bytes.

    The first subtask has the window, so of the 2! S(3,2)^2 = 18 ways with two subtasks those with the single
    storage unit there do not fit: 9 remain, of 104 + 112 + 68 ns. conv2 with 2 of 4 windows needs 96 + 256 =
    352 bytes: one unit is enough. Windows in three: no way, fc needs two units and the others one each.
    Output channels in two: fc needs 64 + 330 = 394 bytes, conv2 128 + 160 = 288: all 18 ways, of
    (32 + 24 + 64) + (64 + 48 + 32) + (32 + 8 + 10) ns. In three: 2 of 4, 3 of 8 and 4 of 10 channels, 3!
    ways, of 120 + (64 + 36 + 24) + (32 + 6.4 + 8) ns.
    """
    evaluation = judge(units=(3, 3))
    found = classes(evaluation)
    assert {name: ways for name, (ways, _) in found.items()} == {
        "windows / 1": 1,
        "windows / 2": 9,
        "outputs / 2": 18,
        "outputs / 3": 6,
    }
    times = {"windows / 1": 500, "windows / 2": 284, "outputs / 2": 314, "outputs / 3": 290.4}
    assert {name: time for name, (_, time) in found.items()} == pytest.approx(times)
    assert (evaluation.best, evaluation.document.equals) == ("windows / 2", 1)
    assert evaluation.document.enumerated.ways == 25


def test_the_best_of_every_task_is_composed(judge: Any) -> None:
    """conv1 by 6 of 16 windows: 78 ns, conv2 by 2 of 4 windows: 112 ns, fc by 4 of 10 channels: 46.4 ns."""
    evaluation = judge(units=(3, 3))
    composed = evaluation.document.composed
    assert [(task.strategy, task.time_ns) for task in composed.tasks] == [
        ("windows / 3", pytest.approx(78)),
        ("windows / 2", pytest.approx(112)),
        ("outputs / 3", pytest.approx(46.4)),
    ]
    assert composed.time_ns == pytest.approx(78 + 112 + 46.4)
    table = judge(evaluation.composed.to_dict())
    assert table.time_ns == pytest.approx(composed.time_ns)


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 99), st.booleans())
def test_classes_and_compositions_equal_all_ways(compute: int, storage: int, seed: int, routes: bool) -> None:
    """Every way as a table of its own, split by windows and outputs: none is faster, all are counted."""
    random = Random(seed)
    more: dict[str, Any] = {
        "processors": 4,
        "storage_units": storage,
        "unit_bytes": random.choice((90, 10**6)),
    }
    if routes:
        ends = {"storage": [random.randint(1, storage)], "compute": [random.randint(1, compute)]}
        more["routes"] = [{"bandwidth_in_gb_s": 0.5, "bandwidth_out_gb_s": 3.0} | ends]
    network, chip = random_network(random), ChipPerformance(**(worked.CHIP | more))
    idle = [f"C{unit}" for unit in range(compute + 1, 5)]
    every, best = [], dict[str, float]()
    for way in assignments(compute, none_needed(min(compute, storage)), storage):
        for split in ("windows", "outputs")[: len(way.compute)]:
            parts = [
                {"compute": list(own), "storage": list(held), "split": split}
                for own, held in zip(way.compute, way.storage, strict=True)
            ]
            try:
                made = evaluate(network, chip, strategies=table(parts, idle))
                every.append(made.time_ns)
            except SpecError:
                continue
            for task in made.document.tasks:
                best[task.name] = min(best.get(task.name, math.inf), task.time_ns)
    if not every:
        return
    found = evaluate(network, chip, units=(compute, storage))
    assert found.time_ns == pytest.approx(min(every), rel=1e-12)
    assert found.document.enumerated is not None
    assert sum(each.ways for each in found.document.enumerated.classes) == len(every)
    assert found.document.composed is not None
    for task in found.document.composed.tasks:  # alone, a task may have a way that does not fit the others
        assert task.time_ns <= best[task.name] * (1 + 1e-12)


def table(parts: list[dict[str, Any]], idle: list[str]) -> Strategy:
    return parse(TypeAdapter(Strategy), {"name": "t", "tasks": {"*": parts}, "idle": idle}, "t")


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6))
def test_copies_equal_brute_force(seed: int) -> None:
    random = Random(seed)
    network = random_network(random)
    chip = ChipPerformance(**(worked.CHIP | {"processors": 40, "storage_units": 5} | ROOMY))
    names = [task.name for task in evaluate(network, chip, allocations=[{}]).document.tasks]
    if len(names) > 4:
        return
    tried: dict[float, list[int]] = {}
    least = rramalloc.inspect(network).minimum
    budget = min(40, least + random.randint(0, 6))
    if budget < least:
        return
    for counts in product(range(1, 6), repeat=len(names)):
        try:
            made = evaluate(network, chip, allocations=[dict(zip(names, counts, strict=True))])
        except SpecError:
            continue
        used = sum(len(part.compute) for task in range(len(names)) for part in made.plans[0].split(task))
        if used <= budget:
            tried.setdefault(made.time_ns, []).append(used)
    found = evaluate(network, chip, arrays=budget).document.proposal
    assert found is not None
    assert found.time_ns == pytest.approx(min(tried), rel=1e-9)
    near = [used for time_ns, some in tried.items() if time_ns <= min(tried) * (1 + 1e-9) for used in some]
    assert found.used == min(near)


@pytest.mark.parametrize(
    ("units", "chip", "words"),
    [
        ((4, 3), {}, "compute units must be from 1 to 3, got 4"),
        ((3, 65), {}, "storage units must be from 1 to 64, got 65"),
        ((0, 3), {}, "compute units must be from 1 to 3, got 0"),
        ((65, 1), {"processors": 99}, "from 1 to 64, got 65"),
        ((3, 3), {"unit_bytes": 241}, "needs 724 bytes"),
    ],
)
def test_what_cannot_be_enumerated(
    judge: Any, units: tuple[int, int], chip: dict[str, Any], words: str
) -> None:
    with pytest.raises(SpecError, match=words):
        judge(units=units, chip=chip)
