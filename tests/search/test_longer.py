"""A longer search begins as a shorter one, and one-pass methods are its starts (docs/sources/model.md 21)."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import Any

import pytest

from rramalloc import optimize, pareto
from rramalloc.methods.one_pass import ONE_PASS
from rramalloc.methods.registry import method_named
from rramalloc.network.shipped import shipped_names, shipped_text
from rramalloc.search.work import Work

SOAK = int(os.environ.get("RRAMALLOC_SOAK_LONGER", "0"))
"""Shipped networks, the smallest files first, at three budgets with three questions: hours for all."""
WORKS = (1, 2, 5, 10, 20, 50, 100) if SOAK else (1, 2, 10)
_LIMITED: dict[str, Any] = {"hardware": "isaac", "at_most": {"power_mw": 5411}}
CASES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("mobilenet_v1", "x4", {}),  # isaac: 196 steps, of which a search with work 2 once found 197
    ("vgg19", "x2", {}),  # proportional and isaac were better than 20 units of work
    ("inception_v1", "x4", {}),  # 100 units of work do not prove it: every turn counts
    ("resnet8", "x4", {"objective": "energy", "hardware": "isaac"}),
    ("resnet8", "x4", {"inputs": 5}),
    ("resnet8", "x4", {"mapping": "sdk"}),
    ("resnet8", "x4", {"objective": "arrays", "target": 160}),
    ("resnet8", "x4", _LIMITED),  # the fastest one takes 5,578 mW
    *(
        (network, arrays, question)
        for network in sorted(shipped_names(), key=lambda name: len(shipped_text(name)))[:SOAK]
        for arrays in ("x2", "x4", "x16")
        for question in ({}, {"mapping": "sdk"}, {"inputs": 5})
    ),
)


@pytest.mark.parametrize(("network", "arrays", "question"), CASES)
def test_no_value_rises_with_work_and_none_is_above_a_one_pass_method(
    network: str, arrays: str, question: dict[str, Any]
) -> None:
    """Whatever work is allowed, a search does the same up to its end."""
    found = [optimize(network, arrays, stop=Work(work=work, cores=1), **question) for work in WORKS]
    values = [allocation.objective_value for allocation in found]
    assert values == sorted(values, reverse=True)
    if question.get("objective") == "arrays":  # other methods know no target
        return
    for name in ONE_PASS if "at_most" not in question else ():  # nor limits
        if method_named(name).needs in ("", question.get("mapping", "im2col")):
            cheap = optimize(network, arrays, method=name, work=0, **question)
            assert values[0] <= cheap.objective_value


@pytest.mark.parametrize(
    ("network", "arrays", "mapping"), [("alexnet", 700, "im2col"), ("resnet8", 60, "sdk")]
)
def test_no_point_of_a_front_is_lost_with_more_work(network: str, arrays: int, mapping: str) -> None:
    """Each point of a shorter search is on the front of a longer one, or a better one is."""
    fronts = [
        [(point.arrays, point.value) for point in pareto(network, arrays, mapping=mapping, work=work).points]
        for work in (1, 4, 20)
    ]
    for shorter, longer in pairwise(fronts):
        for used, value in shorter:
            assert any(arrays <= used and least <= value for arrays, least in longer)


def test_the_history_of_a_longer_search_begins_as_that_of_a_shorter_one() -> None:
    """Incumbents and bounds after the same work are the same, to the last figure."""
    histories = []
    for work in WORKS:
        stop = Work(work=work, cores=1)
        optimize("squeezenet", "x4", stop=stop)
        histories.append(stop.history)
    for shorter, longer in pairwise(histories):
        assert longer[: len(shorter)] == shorter
