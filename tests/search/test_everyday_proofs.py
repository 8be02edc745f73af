"""Proofs and bounds of everyday cases with counted work: a prover that is taken out fails one of them.

Without branch and bound squeezenet is bounded by 253, mobilenet_v1 by 395 and resnet18 by 293; without
diagrams squeezenet by 259 and resnet18 by 295; without flows squeezenet by 267 and gpt2_small by 3320;
without the program over places gpt2_small by 3244, and it takes 3363 steps.
"""

from __future__ import annotations

import pytest

from rramalloc import optimize
from rramalloc.search.work import Work


@pytest.mark.parametrize(
    ("network", "arrays", "hardware", "work", "steps", "bound"),
    [
        ("alexnet", "x2", "plain", 5, 240, 240),
        ("vgg16", 1024, "plain", 10, 4009, 4009),
        ("mobilenet_v1", "x2", "plain", 60, 400, 400),
        ("resnet18", "x2", "plain", 70, 298, 298),
        ("squeezenet", 400, "pimcomp", 100, 276, 269),
        ("gpt2_small", "x4", "plain", 30, 3321, 3321),
    ],
)
def test_what_is_proven(
    network: str, arrays: int | str, hardware: str, work: int, steps: int, bound: int
) -> None:
    """Answers are no worse, and bounds no lower, within so much work."""
    found = optimize(network, arrays, hardware=hardware, stop=Work(work=work, cores=1))
    assert found.makespan <= steps
    assert found.lower_bound >= bound
