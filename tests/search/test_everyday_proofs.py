"""Proofs and bounds of everyday cases with counted work: a prover that is taken out fails one of them.

Without branch and bound mobilenet_v1 is bounded by 395 and resnet18 by 293; without diagrams resnet18 by 295;
without flows gpt2_small by 3320; without the program over places gpt2_small by 3244, and it takes 3363 steps.
"""

from __future__ import annotations

import pytest

from rramalloc import optimize
from rramalloc.search.work import Work


@pytest.mark.parametrize(
    ("network", "arrays", "work", "steps", "bound"),
    [
        ("alexnet", "x2", 5, 240, 240),
        ("vgg16", 1024, 10, 4009, 4009),
        ("mobilenet_v1", "x2", 60, 400, 400),
        ("resnet18", "x2", 70, 298, 298),
        ("gpt2_small", "x4", 30, 3321, 3321),
    ],
)
def test_what_is_proven(network: str, arrays: int | str, work: int, steps: int, bound: int) -> None:
    """Answers are no worse, and bounds no lower, within so much work."""
    found = optimize(network, arrays, stop=Work(work=work, cores=1))
    assert found.makespan <= steps
    assert found.lower_bound >= bound
