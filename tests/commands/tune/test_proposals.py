"""Proposals: the model chooses as long as it expects an improvement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from commands.tune.toys import NETWORK

from rramalloc.allocation.case import Case
from rramalloc.commands.tune.proposals import Neighbourhood, proposals
from rramalloc.hardware.loader import load_hardware
from rramalloc.mapping.options import DEFAULT_MAPPING
from rramalloc.timing.simulate import Copies

pytestmark = pytest.mark.quick


class SureModel:
    """Expects as many times e as the first stage has copies, and has no doubt."""

    def expect(self, copies: Sequence[Copies]) -> tuple[Any, Any]:
        means = np.array([float(each[0]) for each in copies])
        return means, np.full(len(copies), 1e-9)


@pytest.mark.parametrize(("best", "model_chooses"), [(100.0, True), (0.0, False)])
def test_a_model_that_expects_no_improvement_does_not_choose(best: float, model_chooses: bool) -> None:
    problem = Case(NETWORK, load_hardware("plain"), DEFAULT_MAPPING).problem(24)
    near = Neighbourhood(problem, 0)
    start = problem.smallest
    model: Any = SureModel()
    proposed = [proposals(model, near, [start], best, {}, 1)[0][0] for _ in range(20)]
    fewest = [int(copies[0]) == 1 for copies in proposed]
    assert all(fewest) if model_chooses else not all(fewest)
    assert all(problem.is_allowed(copies) for copies in proposed)
