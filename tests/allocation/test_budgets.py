"""How budgets are written."""

from __future__ import annotations

import pytest

import rramalloc
from rramalloc.allocation.budgets import budgets
from rramalloc.allocation.case import Case
from rramalloc.errors import SpecError
from rramalloc.hardware.loader import load_hardware
from rramalloc.mapping.options import DEFAULT_MAPPING

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("given", "found"),
    [
        pytest.param(2048, (2048,), id="number"),
        pytest.param("2048", (2048,), id="text"),
        pytest.param("x2", (1804,), id="twice the minimum"),
        pytest.param("x1.2", (1082,), id="1082.4 rounded down"),
        pytest.param("x1", (902,), id="the minimum"),
        pytest.param("x0.5", (451,), id="too few, which is for the problem to say"),
        pytest.param(["x2", "1000,X3", 1804], (1804, 1000, 2706), id="list, each once, in order"),
        pytest.param([" 7 "], (7,), id="spaces"),
    ],
)
def test_budgets(given: object, found: tuple[int, ...]) -> None:
    assert budgets(given, minimum=902) == found  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given",
    ["", "x", "2.5", "-3", "x-1", "1e3", "nan", "x.5", "x1.2.3", "1,,2", "٣", "9" * 30, True, None, 1.5, [],
     ["1"] * 1001],
)  # fmt: skip
def test_what_is_no_budget(given: object) -> None:
    with pytest.raises((SpecError, TypeError)):
        budgets(given, minimum=902)  # type: ignore[arg-type]


@pytest.mark.parametrize("arrays", ["x", True, [1000, "two"], []])
def test_what_is_no_budget_for_the_api(arrays: object) -> None:
    with pytest.raises(SpecError, match="arrays: must be"):
        rramalloc.compare("vgg16", arrays, methods=["none"])  # type: ignore[arg-type]


def test_minimum() -> None:
    """docs/sources/model.md 3: VGG-16's 13 convolutions take 902 arrays."""
    vgg16 = rramalloc.load("vgg16")
    assert Case(vgg16, load_hardware("plain"), DEFAULT_MAPPING).minimum == 902
