"""Repair of an allocation that is over the budget, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from search.test_sequential import side_by_side

from rramalloc.search.repair import fitting

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        pytest.param(50, [10, 20], id="it fits: itself"),
        pytest.param(
            30, [6, 12], id="11/19 of the further copies: 5 of 9 and 11 of 19; 12/19 would take 32 arrays"
        ),
        pytest.param(29, [6, 11], id="5/9 of them"),
        pytest.param(3, [1, 1], id="the least"),
    ],
)
def test_all_further_copies_are_scaled_down_alike(budget: int, expected: list[int]) -> None:
    """Stages of 10 and 20 windows that take 1 and 2 arrays a copy, all windows of both asked for."""
    problem = side_by_side([10, 20], [1, 2], budget)
    assert fitting(problem, np.array([10, 20])).tolist() == expected
