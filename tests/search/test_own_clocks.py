"""Answers and bounds with own clocks against the best of all allocations of the first layers of networks.

RRAMALLOC_SOAK_CLOCKS=100000 asks of a dozen cases with up to so many allocations, and prints how far each of
the two is from the optimum: after little work, after the default work, and there without branching.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from random import Random

import pytest
from laws.strategies import enumerate_all, most_spare

from rramalloc.allocation.case import Case
from rramalloc.hardware.loader import load_hardware
from rramalloc.mapping.mode import Mode
from rramalloc.network.network import Network
from rramalloc.network.shipped import shipped_text
from rramalloc.search import auto
from rramalloc.search.bound.box_prover import BoxProver
from rramalloc.search.bound.turns import ProofTurn
from rramalloc.search.problem import Problem
from rramalloc.search.resources import Cost
from rramalloc.search.work import Work
from rramalloc.timing.stage_graph import BatchTicks

SOAK = int(os.environ.get("RRAMALLOC_SOAK_CLOCKS", "0"))
NETWORKS = (
    ("resnet18", "squeezenet", "inception_v1", "densenet121", "resnet152", "unet") if SOAK else ("resnet18",)
)
LAYERS, SIDE = (13, 64) if SOAK else (9, 32)
MOST_SPARE = 120  # arrays beyond one copy of each stage
WORKS = (0, 2, 100)
LONGEST = 16  # ticks of a stage, as in results/clocks.py


def begin_of(network: str, most: int) -> Problem:
    """Return the first layers on small images, with drawn periods and at most so many allocations."""
    nodes = list[dict[str, object]]()
    for node in json.loads(shipped_text(network))["nodes"]:
        nodes.append(node | {"shape": [node["shape"][0], SIDE, SIDE]} if node["op"] == "input" else node)
        if [each["op"] for each in nodes].count("conv") == LAYERS:
            break
    begin = Network.build(network, nodes, source=f"the first {LAYERS} layers")
    problem = Case(begin, load_hardware("plain").with_crossbar(128, 128)).problem(2**30)
    spare, _ = most_spare(problem.graph.windows, problem.demand, MOST_SPARE, most)
    random = Random(network)
    ticks = [random.randint(1, LONGEST) for _ in problem.demand]

    def period(stage: int, mode: Mode) -> BatchTicks:
        return BatchTicks((ticks[stage],), 0.0)

    return replace(problem, budget=Cost(problem.minimum + spare), graph=problem.graph.timed(period))


def no_branching(_: object, bound: int, makespan: int, turn_s: float, left_s: float, stop: Work) -> ProofTurn:
    """Let a turn of branch and bound pass without a proof."""
    stop.charge(min(turn_s, left_s))
    return ProofTurn(bound, ())


@pytest.mark.parametrize("most", [SOAK // 10, SOAK] if SOAK else [2000])
@pytest.mark.parametrize("network", NETWORKS)
def test_answers_and_bounds_enclose_the_optimum(
    network: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = begin_of(network, most)
    case = enumerate_all(problem)
    found = {f"work {work}": auto.solve(problem, Work(work=work, cores=1), 0) for work in WORKS}
    monkeypatch.setattr(BoxProver, "run", no_branching)
    monkeypatch.setattr(BoxProver, "begins_with_program", True)
    found["no branching"] = auto.solve(problem, Work(cores=1), 0)
    words = [f"{network}, {len(problem.demand)} stages, {len(case.makespans)} allocations:"]
    for name, answer in found.items():
        assert answer.lower_bound <= case.optimum <= answer.choice.makespan
        above, below = answer.choice.makespan / case.optimum - 1, 1 - answer.lower_bound / case.optimum
        words.append(f"{name} {above:.1%} above, {below:.1%} below;")
    print(*words)
    assert found["work 100"].lower_bound == found["work 100"].choice.makespan
