"""`bottleneck` and `balance` on cases worked by hand, and PIMCOMP's own allocation of ResNet-18."""

from __future__ import annotations

import heapq
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from laws.strategies import random_problem, randoms
from methods.small import copies, pyramid, valley

from rramalloc.allocation.case import Case
from rramalloc.allocation.optimize import objective_of, propose
from rramalloc.allocation.question import Question
from rramalloc.choices import FullyConnected
from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.mapping.options import MappingOptions
from rramalloc.methods import balance, bottleneck
from rramalloc.network.network import Network
from rramalloc.network.node import Linear
from rramalloc.search.work import Work

pytestmark = pytest.mark.quick

PIMCOMP_RESNET18 = [381, *[96] * 4, *[24] * 5, 6, 6, 6, 7, 6, *[2] * 5]  # docs/sources/peers.md


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        pytest.param(9, [1, 1, 1], id="the minimum"),
        pytest.param(10, [2, 1, 1], id="64 -> 32"),
        pytest.param(12, [3, 1, 1], id="64 -> 32 -> 22; then 25 is the slowest, 5 arrays, 1 left"),
        pytest.param(16, [3, 2, 1], id="25 -> 13; then 22 is the slowest, none left"),
        pytest.param(17, [4, 2, 1], id="22 -> 16"),
        pytest.param(10**9, [64, 25, 16], id="every window"),
    ],
)
def test_bottleneck(budget: int, expected: list[int]) -> None:
    """64, 25 and 16 windows; demand 1, 5 and 3."""
    assert copies(bottleneck, valley([1, 5, 3], budget)) == expected


def test_bottleneck_does_not_depend_on_who_is_first_of_equals_here() -> None:
    """64 -> 32 -> 22 -> 16, then both at 16 get a copy (13, 8), then 13 -> 11 -> 10: 8 arrays in all."""
    assert copies(bottleneck, pyramid([1, 2, 3], 14)) == [7, 2, 1]


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        pytest.param(9, [3, 2, 1], id="9 available, down to 4: 8, 7, then 5 of them for 25: 2"),
        pytest.param(16, [4, 2, 1], id="16 available, down to 8: 15, 14, 9, 8"),
        pytest.param(14, [3, 2, 1], id="14 available, down to 7: 13, 12, 7"),
    ],
)
def test_balance(budget: int, expected: list[int]) -> None:
    """64, 25 and 16 windows; demand 1, 5 and 3. What is left is in the names of the cases."""
    assert copies(balance, valley([1, 5, 3], budget)) == expected


def test_balance_asks_for_more_than_there_is_and_is_repaired() -> None:
    """4 + 2 * 5 + 3 = 17 arrays of 16: first copies are not taken off."""
    case = valley([1, 5, 3], 16)
    answer = propose(objective_of(case, Question(method="balance")), Question(method="balance"), Work())
    assert answer.repaired
    assert "repaired" in answer.proof
    assert case.is_allowed(answer.choice.copies)


@pytest.mark.parametrize(("fc", "arrays"), [("crossbar", 9216), ("host", 9216 - 32)])
def test_pimcomp_on_resnet18(fc: FullyConnected, arrays: int) -> None:
    """docs/sources/peers.md: 9216 arrays of 128 x 128 less 4 * 8 of the classifier; 5334 in use with them."""
    case = Case(load("resnet18"), load_hardware("plain"), MappingOptions(fc=fc)).problem(arrays)
    found = np.array(copies(balance, case))
    order = [stage for stage in case.graph.network_order if not isinstance(case.graph.stages[stage], Linear)]
    assert found[order].tolist() == PIMCOMP_RESNET18
    assert int((found * case.demand)[order].sum()) + 32 == 5334


@settings(max_examples=60)
@given(random=randoms)
def test_bottleneck_is_the_loop(random: Random) -> None:
    """Copy by copy with the first of equals first: the same batches, whoever is first of equals."""
    case = random_problem(random, 6, 5, ("conv", "conv", "add", "maxpool"), 4).problem
    found = np.array(copies(bottleneck, case))
    windows, demand = case.graph.windows.tolist(), case.demand.tolist()
    loop, left = [1] * len(windows), case.budget - case.minimum
    heap = [(-count, stage) for stage, count in enumerate(windows)]
    heapq.heapify(heap)
    while heap[0][0] < -1 and demand[heap[0][1]] <= left:
        stage = heapq.heappop(heap)[1]
        loop[stage] += 1
        left -= demand[stage]
        batches = -(-windows[stage] // loop[stage])
        heapq.heappush(heap, (-batches, stage))
    slowest = max(-(-count // d) for count, d in zip(windows, loop, strict=True))
    assert int((-(-case.graph.windows // found)).max()) == slowest


def test_a_single_stage() -> None:
    network = Network.build(
        "one",
        [
            {"name": "in", "op": "input", "shape": [1, 1, 10]},
            {"name": "c", "op": "conv", "inputs": ["in"], "out_channels": 1, "kernel": 1},
        ],
    )
    case = Case(network, load_hardware("plain")).problem(4)
    assert copies(bottleneck, case) == [4]
    assert copies(balance, case) == [3]
