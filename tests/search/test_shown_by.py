"""Every quantity that `choices` registers has its class, and is known where its row says."""

from __future__ import annotations

import pytest

from rramalloc.choices import SHOWN_BY, shown_by
from rramalloc.search.objective import OBJECTIVES, QUANTITIES, Objective


def test_a_row_is_a_class_of_its_name() -> None:
    assert {name: kind.name for name, kind in QUANTITIES.items()} == {name: name for name in SHOWN_BY}
    assert tuple(OBJECTIVES) == ("latency", "interval", "arrays", "energy", "edp", "sequential")


@pytest.mark.parametrize("command", ["optimize", "sweep", "compare", "explain", "tune"])
def test_what_is_minimised_is_an_objective(command: str) -> None:
    assert all(issubclass(QUANTITIES[name], Objective) for name in shown_by(command))
