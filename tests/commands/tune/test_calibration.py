"""Calibration: clocks that are known are recovered, and allocations that were left out are predicted."""

from __future__ import annotations

import numpy as np
import pytest
from commands.tune.toys import GRAPH

from rramalloc.allocation.case import Case
from rramalloc.allocation.optimize import objective_of, propose
from rramalloc.allocation.question import Question
from rramalloc.commands.tune.calibration import (
    Calibration,
    active_batches,
    exact_time,
)
from rramalloc.commands.tune.proposals import Neighbourhood
from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.search.work import Work
from rramalloc.timing.simulate import simulate
from rramalloc.timing.stage_graph import StageGraph

pytestmark = pytest.mark.quick

ALEXNET = load("alexnet")
ALEXNET_GRAPH = StageGraph.build(ALEXNET)


def allocations(count: int, seed: int = 0) -> list[np.ndarray]:
    problem = Case(ALEXNET, load_hardware("plain")).problem(512)
    near = Neighbourhood(problem, seed)
    found = [propose(objective_of(problem, Question()), Question(), Work(work=20)).choice.copies]
    while len(found) < count:
        found.append(near.near(found[near.choose(len(found))]))
    return found


def test_times_by_hand() -> None:
    """16 x 16 and two times 8 x 8 windows: with 16, 8 and 8 copies 16, 8 and 8 batches."""
    copies, lengths = np.array([16, 8, 8]), np.array([1.0, 5.0, 2.0])
    assert exact_time(GRAPH, "sum", copies, lengths) == 16 + 40 + 16
    assert exact_time(GRAPH, "interval", copies, lengths) == 40
    assert active_batches(GRAPH, "interval", copies, lengths).tolist() == [0, 8, 0]
    assert active_batches(GRAPH, "sum", copies, lengths).tolist() == [16, 8, 8]


def test_known_clocks_are_recovered() -> None:
    ticks = np.array([60, 200, 90, 150, 40])
    answers = allocations(40)
    figures = [float(simulate(ALEXNET_GRAPH, each, "next", ticks).makespan) for each in answers]
    found = Calibration.fit(ALEXNET_GRAPH, answers, figures)
    assert found.form == "makespan"
    assert found.residual < 0.05
    # the clocks of stages that lie on critical paths; the others cannot show in any figure
    lengths = found.clocks["makespan"].lengths(np.median(np.array(answers), axis=0))
    active = sum(active_batches(ALEXNET_GRAPH, "makespan", each, ticks.astype(float)) for each in answers)
    seen = active * ticks > 0.1 * (active * ticks).sum()
    assert seen.sum() >= 2
    assert lengths[seen] == pytest.approx(ticks[seen], rel=0.1)
