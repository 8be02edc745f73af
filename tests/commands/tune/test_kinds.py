"""Kinds of arrays in `tune`: copies are tuned within the arrays of every kind."""

from __future__ import annotations

from typing import Any

import pytest
from laws.kinds import HAND, hardware

import rramalloc
from rramalloc.errors import UnsupportedError

pytestmark = pytest.mark.quick


class FewArrays:
    """Charges an array as much as a step: one copy of each layer is best on every kind."""

    name = "few arrays"

    def __init__(self) -> None:
        self.used: list[dict[str, int]] = []

    def evaluate(self, network: Any, allocation: Any) -> float:
        self.used.append({name: kind.used for name, kind in allocation.arrays.by_kind.items()})
        return float(allocation.makespan + allocation.arrays.used)


def test_copies_are_tuned_on_the_kinds_of_the_search() -> None:
    """a on 2 small arrays and b on 2 large ones take 3 steps (docs/sources/model.md 18): once each they take
    5 steps and 2 arrays, twice 3 steps and 4 arrays.
    """
    judge = FewArrays()
    found = rramalloc.tune(HAND, {"small": 2, "large": 2}, judge, hardware=hardware(9, 9), evaluations=12)
    assert found.figure == 7.0
    assert [layer.kind for layer in found.allocation.layers] == ["small", "large"]
    assert {(used["small"], used["large"]) for used in judge.used} == {(1, 1), (1, 2), (2, 1), (2, 2)}
    assert any("on the kinds of arrays" in words for words in found.warnings)


def test_a_tool_with_one_array_refuses_by_name(tmp_path: Any) -> None:
    with pytest.raises(UnsupportedError, match="several kinds of arrays, which simulator 'pimsyn'"):
        rramalloc.tune(HAND, 9, "pimsyn", hardware=hardware(9, 9), tool_paths=[str(tmp_path)])
