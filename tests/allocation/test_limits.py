"""Copies that a user holds or limits, by name and pattern; the search tests check optima under them."""

from __future__ import annotations

from typing import Any

import pytest

import rramalloc
from rramalloc.allocation.case import Case
from rramalloc.allocation.limits import copy_limits
from rramalloc.errors import BudgetError, LimitError, SpecError, UnsupportedError
from rramalloc.hardware.loader import load_hardware
from rramalloc.network.network import Network

ALEXNET = Case(rramalloc.load("alexnet"), load_hardware("plain")).graph
MOST = dict(zip(ALEXNET.names, ALEXNET.most_copies.tolist(), strict=True))


def test_by_hand() -> None:
    """docs/sources/model.md 15: AlexNet, 500 arrays, conv1 held at four copies."""
    found = rramalloc.optimize("alexnet", 500, copies=["conv1=4"])
    assert (found.makespan, list(found.copies.values())) == (790, [4, 7, 2, 2, 3])
    assert found.lower_bound == 790
    assert found.options.copies == {"conv1": (4, 4)}


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        (["conv1=4"], {"conv1": (4, 4)}),
        (["conv1=2..8"], {"conv1": (2, 8)}),
        (["conv1=2.."], {"conv1": (2, MOST["conv1"])}),
        (["conv1=..8"], {"conv1": (1, 8)}),
        (["conv1=1..8", "conv*=3.."], {name: (3, 8 if name == "conv1" else MOST[name]) for name in MOST}),
        ({"conv1": 4, "conv2": "2..3", "conv3": (1, 2)}, {"conv1": (4, 4), "conv2": (2, 3), "conv3": (1, 2)}),
        (["conv5=1..1000"], {"conv5": (1, 169)}),
    ],
)
def test_limits(given: Any, limits: dict[str, tuple[int, int]]) -> None:
    assert copy_limits(given, ALEXNET) == limits


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["conv9=4"], r"no layer on arrays is called 'conv9'; did you mean conv"),
        (["fc6=2"], "no layer on arrays is called 'fc6'"),
        (["conv?=4", "x*=1"], r"no layer on arrays is called 'x\*'"),
        (["conv5=170"], "'conv5' can have 1 to 169 copies, got 170"),
        (
            ["conv1=2..4", "conv1=5.."],
            r"'conv1' is to have 2\.\.4 and 5\.\.3025 copies: no number is in both",
        ),
        (["conv1=4..2"], "must be a number such as 4"),
        (["conv1=0"], "must be a number such as 4"),
        (["conv1=.."], "must be a number such as 4"),
        (["conv1="], "must be a number such as 4"),
        (["conv1"], "must be LAYER=N"),
        (["=4"], "must be LAYER=N"),
        ({"conv1": 1.5}, "must be a number such as 4"),
        ({"conv1": True}, "must be a number such as 4"),
    ],
)
def test_what_cannot_be_held_is_named(given: Any, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        copy_limits(given, ALEXNET)


@pytest.mark.parametrize("mapping", ["im2col", "sdk"])
def test_a_budget_below_the_limits(mapping: Any) -> None:
    """90 copies of conv1 take 270 arrays; with blocks fewer, but more than there are."""
    with pytest.raises(BudgetError, match="conv1"):
        rramalloc.optimize("alexnet", 162, mapping=mapping, copies={"conv1": 90})


def test_every_method_keeps_the_limits_or_says_that_it_cannot() -> None:
    """docs/sources/model.md 15: no row of a comparison has other copies."""
    compared = rramalloc.compare("alexnet", 500, copies={"conv1": 4, "conv2": (1, 5)}, seeds=1, work=2)
    for row in compared.rows:
        assert row.copies["conv1"] == 4, row.method
        assert row.copies["conv2"] <= 5, row.method
    assert all("--copies" in left.reason for left in compared.skipped if "copies" in left.reason)
    assert {"auto", "bottleneck"} <= {row.method for row in compared.rows}


@pytest.mark.parametrize(
    ("arrays", "divide", "copies", "steps"),
    [(5, None, 5, 5), (5, "width", 4, 6), (7, "width", 4, 6), (5, "windows", 4, 6), (7, "windows", 6, 4)],
)
def test_copies_divide_by_hand(arrays: int, divide: Any, copies: int, steps: int) -> None:
    """One array a copy, 6 x 4 windows: divisors of 4 in a row, of 24 in all."""
    nodes: list[dict[str, Any]] = [{"name": "in", "op": "input", "shape": [1, 6, 4]}]
    nodes.append({"name": "c", "op": "conv", "inputs": ["in"], "kernel": 1, "out_channels": 2})
    network = Network.build("one", nodes)
    found = rramalloc.optimize(network, arrays, copies_divide=divide)
    assert (found.copies, found.makespan, found.gap) == ({"c": copies}, steps, 0)
    assert found.options.copies_divide == divide
    blocks = rramalloc.optimize(network, arrays, copies_divide=divide, mapping="sdk").layers[0]
    high, wide = blocks.block or (1, 1)
    whole = -(-4 // wide) * (1 if divide == "width" else -(-6 // high))
    assert divide is None or whole % blocks.copies == 0


def test_larger_blocks_may_have_the_divisors() -> None:
    """3 windows in a row: 2 copies divide the 2 blocks of 1 x 2, and not the 3 windows."""
    nodes: list[dict[str, Any]] = [{"name": "in", "op": "input", "shape": [1, 1, 3]}]
    nodes.append({"name": "c", "op": "conv", "inputs": ["in"], "kernel": 1, "out_channels": 2})
    limits: dict[str, Any] = {"copies": ["c=2"], "copies_divide": "width", "mapping": "sdk"}
    found = rramalloc.optimize(Network.build("one", nodes), 1, **limits)
    assert (found.layers[0].block, found.makespan) == ((1, 2), 1)


def test_copies_that_divide_nothing_are_named() -> None:
    with pytest.raises(SpecError, match=r"'conv1' is to have 3\.\.3 copies that divide 55: no number does"):
        rramalloc.optimize("alexnet", 500, copies=["conv1=3"], copies_divide="width")
    with pytest.raises(UnsupportedError, match="limits of copies, copies_divide or at_most"):
        rramalloc.optimize("alexnet", 500, copies_divide="width", method="gain")
    limits: dict[str, Any] = {"copies": ["conv1=3024"], "copies_divide": "windows", "mapping": "sdk"}
    with pytest.raises(SpecError, match=r"'conv1' has no divisor within its copies"):
        rramalloc.optimize("alexnet", "x50", **limits)


@pytest.mark.parametrize("wrong", [1.5, None, [1, 2, 3], "x", True])
def test_a_wrong_limit_is_named_by_its_layer(wrong: Any) -> None:
    with pytest.raises(SpecError, match="copies: 'conv1': must be a number such as 4, or a range"):
        rramalloc.optimize("alexnet", 500, copies={"conv1": wrong})


def test_a_budget_below_the_copies_that_are_held_says_so() -> None:
    """161 arrays store every layer once, conv1 takes 3 of them: 461 with 101 copies of it."""
    words = "needs 461 arrays with every layer in the fewest copies .* arrays 461, or leave out copies"
    with pytest.raises(BudgetError, match=words):
        rramalloc.optimize("alexnet", 400, copies={"conv1": 101})
    assert rramalloc.optimize("alexnet", 461, copies={"conv1": 101}, work=1).arrays.used == 461


def test_a_limit_of_latency_that_no_arrays_keep_is_a_limit_error() -> None:
    """Without a target the fewest arrays are sought for the limit: of networks that are not small, too."""
    limits = {"latency_ns": 1000.0}
    with pytest.raises(LimitError, match="latency_ns of at most 1000 cannot be kept") as caught:
        rramalloc.optimize("alexnet", 12_000, hardware="isaac", objective="arrays", at_most=limits, work=2)
    assert caught.value.proven
    assert caught.value.least > 1000
