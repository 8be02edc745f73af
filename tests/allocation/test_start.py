"""An allocation to begin with: never worse at any work, given back without work, errors that name layers."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from laws.strategies import randoms
from search.test_every_objective import SAME, best_of, random_case

import rramalloc
from rramalloc.allocation.case import Case
from rramalloc.errors import SpecError
from rramalloc.mapping.options import MappingOptions

HELD = {"conv1": 26, "conv2": 6, "conv3": 2, "conv4": 2, "conv5": 2}


@settings(max_examples=12)
@given(random=randoms)
def test_never_worse_than_the_start(random: Random) -> None:
    """Any objective, copies and modes, limits, tiles; without work the answer is the start."""
    every = random_case(random)
    objective = random.choice(("latency", "interval", "energy", "edp"))
    options = MappingOptions(mapping=every.mapping)
    limits: dict[str, Any] = {"copies": every.copies, "divide": every.divide}
    problem = Case(every.network, every.hardware, options, **limits).problem(every.budget)
    copies = problem.smallest.copy()
    for _ in range(6):  # a walk within the budget
        more = copies + np.array([random.random() < 0.4 and w for w in problem.graph.weighted])
        if problem.keeps_limits(more, problem.graph.modes) and problem.is_allowed(more):
            copies = more
    if not (problem.holds(copies) and problem.keeps_limits(copies, problem.graph.modes)):
        return
    each = zip(problem.graph.names, problem.graph.weighted, copies.tolist(), strict=True)
    start = {name: count for name, weighted, count in each if weighted}
    call: dict[str, Any] = every.options() | {"objective": objective, "start": start}
    same = rramalloc.optimize(every.network, every.budget, work=0, **call)
    assert same.copies == start
    again = rramalloc.simulate(every.network, same)
    assert (again.makespan, again.arrays) == (same.makespan, same.arrays.used)
    found = rramalloc.optimize(every.network, every.budget, work=random.choice((1, 2, 5)), **call)
    assert found.objective_value <= same.objective_value * (1 + SAME)
    if objective == "energy":
        assert same.lower_bound <= best_of(every.ways, "energy")["energy"] * (1 + SAME)
    assert same.lower_bound <= found.objective_value * (1 + SAME)


def test_the_start_is_kept_in_the_file(tmp_path: Path) -> None:
    first = rramalloc.optimize("alexnet", 500, work=1)
    first.save(tmp_path / "a.json")
    found = rramalloc.optimize("alexnet", 500, start=tmp_path / "a.json", work=0)
    assert found.options.start is not None
    assert found.options.start.copies == first.copies
    assert found.copies == first.copies
    found.save(tmp_path / "b.json")
    assert rramalloc.optimize("alexnet", 500, start=tmp_path / "b.json", work=0).makespan == first.makespan


def test_a_target_that_the_start_meets_is_met() -> None:
    """161 arrays store AlexNet once; 790 steps by docs/sources/model.md 15."""
    start = {"conv1": 4, "conv2": 7, "conv3": 2, "conv4": 2, "conv5": 3}
    found = rramalloc.optimize("alexnet", 500, target=790, start=start, work=1)
    assert found.arrays.used <= rramalloc.simulate("alexnet", start).arrays
    with pytest.raises(SpecError, match="misses the target"):
        rramalloc.optimize("alexnet", 500, target=700, start=start, work=0)


@pytest.mark.parametrize(
    ("start", "more", "words"),
    [
        ({"conv1": 1}, {}, "says nothing of 4 layers on arrays: conv2, conv3, conv4, conv5"),
        (HELD | {"conv9": 1}, {}, "the network has no stage 'conv9'"),
        (HELD | {"conv5": 170}, {}, "conv5"),
        (HELD | {"conv1": 3000}, {}, "takes 9420 arrays, the budget is 500; 'conv1' takes most, 9000"),
        (HELD, {"copies": ["conv1=4"]}, r"'conv1' has 26 copies, copies says 4\.\.4"),
        ({"copies": HELD, "block": {"conv1": (2, 2)}}, {}, "use mapping sdk"),
        (HELD, {"copies_divide": "width"}, "'conv1' has 26 copies, copies_divide wants divisors of 55"),
        (HELD, {"method": "gain"}, "start: .* which method 'gain' does not take"),
    ],
)
def test_what_cannot_be_a_start_is_named(start: Any, more: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        rramalloc.optimize("alexnet", 500, start=start, work=1, **more)


def test_what_fits_by_name_is_taken_of_a_start() -> None:
    """conv5 is new, conv4 has more copies than its 169 windows, "gone" is no layer; others stay."""
    start = {"conv1": 26, "conv2": 6, "conv3": 2, "conv4": 170, "gone": 3}
    found = rramalloc.optimize("alexnet", 500, start=start, partial_start=True, work=0)
    assert found.copies == {"conv1": 26, "conv2": 6, "conv3": 2, "conv4": 1, "conv5": 1}
    notes = [text for text in found.warnings if text.startswith("start: ")]
    assert notes == ["start: begin with the fewest copies: conv4, conv5", "start: not in this network: gone"]
    held = rramalloc.optimize(
        "alexnet", 500, start=start, partial_start=True, work=0, copies={"conv*": "2..9"}
    )
    assert held.copies == {"conv1": 2, "conv2": 6, "conv3": 2, "conv4": 2, "conv5": 2}
    blocks = {"copies": HELD, "block": {"conv1": (1, 2), "conv2": (99, 1)}}
    modes = rramalloc.optimize("alexnet", 500, start=blocks, partial_start=True, work=0, mapping="sdk")
    assert (modes.copies["conv1"], modes.blocks["conv1"], modes.blocks["conv2"]) == (26, (1, 2), (1, 1))
    with pytest.raises(SpecError, match=r"partial_start: .* give start"):
        rramalloc.optimize("alexnet", 500, partial_start=True)
