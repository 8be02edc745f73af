"""Copies that a user holds or limits, by name and pattern; the search tests check optima under them."""

from __future__ import annotations

from typing import Any

import pytest

import rramalloc
from rramalloc.allocation.case import Case
from rramalloc.allocation.copy_limits import copy_limits
from rramalloc.errors import BudgetError, SpecError
from rramalloc.hardware.loader import load_hardware

ALEXNET = Case(rramalloc.load("alexnet"), load_hardware("plain")).graph
MOST = dict(zip(ALEXNET.names, ALEXNET.most_copies.tolist(), strict=True))


def test_by_hand() -> None:
    """docs/sources/model.md 15: AlexNet, 500 arrays, conv1 held at four copies."""
    found = rramalloc.optimize("alexnet", 500, copies=["conv1=4"])
    assert (found.makespan, list(found.replication.values())) == (790, [4, 7, 2, 2, 3])
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
    compared = rramalloc.compare("alexnet", 500, copies={"conv1": 4, "conv2": (1, 5)}, seeds=1, work=10)
    for row in compared.rows:
        assert row.replication["conv1"] == 4, row.method
        assert row.replication["conv2"] <= 5, row.method
    assert all("--copies" in left.reason for left in compared.skipped if "copies" in left.reason)
    assert {"auto", "bottleneck"} <= {row.method for row in compared.rows}
