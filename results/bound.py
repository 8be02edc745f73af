"""What each prover gives the lower bound: gaps of `auto` with all of them, and without one at a time.

A prover is switched off here, in the process that measures: rramalloc has no switch for it. Default work,
seed 0, one core. How bounds grow with a network is in growth.md.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import product
from unittest.mock import patch

import clocks
import modes
from pages import SEARCHED, Study, markdown

from rramalloc.network.shipped import shipped_names
from rramalloc.search import auto
from rramalloc.search.bound import provers
from rramalloc.search.bound.box_prover import BoxProver
from rramalloc.search.bound.diagram import Diagrams
from rramalloc.search.bound.mode_prover import ModeProver
from rramalloc.search.bound.places import Places
from rramalloc.search.bound.turns import ProofTurn
from rramalloc.search.problem import Problem
from rramalloc.search.work import Work

FACTORS = (1.2, 2.0, 4.0, 16.0)
"""Budgets as multiples of the fewest arrays."""
COPIES = tuple((network, 128, factor) for network in sorted(shipped_names()) for factor in FACTORS)
CLOCKS = (
    *(("resnet18", 128, 16.0), ("squeezenet", 128, 16.0), ("inception_v1", 128, 16.0)),
    *(("resnet50", 128, 16.0), ("inception_v1", 128, 2.0), ("resnet152", 128, 1.2)),
)
MODES = (
    *(("mobilenet_v2", 512, 2.0), ("resnet18", 128, 4.0), ("inception_v1", 256, 4.0)),
    ("densenet121", 128, 4.0),
)
QUESTIONS = {"copies": COPIES, "own clocks": CLOCKS, "modes": MODES}
NOTHING, PROGRAM, FLOWS, BRANCHING, DIAGRAMS = (
    *("nothing", "program over places", "flows", "branch and bound"),
    "diagrams",
)
WITHOUT = (NOTHING, PROGRAM, FLOWS, BRANCHING, DIAGRAMS)


@dataclass(frozen=True)
class Row:
    """One search. without: the prover that is switched off."""

    question: str
    network: str
    crossbar: int
    factor: float
    without: str
    makespan: int
    lower_bound: int

    @property
    def gap(self) -> float:
        return 1 - self.lower_bound / self.makespan


def _problem(question: str, network: str, crossbar: int, factor: float) -> Problem:
    if question == "modes":
        return modes.problem_of(network, crossbar, factor)
    problem = clocks.problem_of(network, crossbar, factor)
    if question == "copies":
        return problem
    periods = clocks.periods_of(network, crossbar, factor, problem)
    return replace(problem, graph=problem.graph.timed(periods))


def _no_flows(_: object, bound: int, *rest: object) -> ProofTurn:
    """Leave the bound as it is, and the program without a start."""
    return ProofTurn(bound, ())


def _idle(_: object, bound: int, makespan: int, seconds: float, left_s: float, stop: Work) -> ProofTurn:
    """Let a turn of branch and bound pass without a proof."""
    stop.charge(min(seconds, left_s))
    return ProofTurn(bound, ())


def switched_off(without: str) -> ExitStack:
    """Return a context in which one prover does nothing."""
    stack = ExitStack()
    if without == PROGRAM:
        stack.enter_context(patch.object(Places, "affordable", lambda *_: None))
    elif without == FLOWS:
        stack.enter_context(patch.object(provers, "run_flows", _no_flows))
    elif without == DIAGRAMS:
        stack.enter_context(patch.object(Diagrams, "fits", lambda *_: False))
    elif without == BRANCHING:
        for prover in (BoxProver, ModeProver):
            stack.enter_context(patch.object(prover, "run", _idle))
            stack.enter_context(patch.object(prover, "begins_with_program", True))
    return stack


def run(question: str, network: str, crossbar: int, factor: float) -> list[Row]:
    """Search with all provers, and with each one switched off."""
    rows = []
    for without in WITHOUT:
        with switched_off(without):
            found = auto.solve(_problem(question, network, crossbar, factor), Work(cores=1), 0)
        makespan, bound = found.choice.makespan, int(found.lower_bound)
        rows.append(Row(question, network, crossbar, factor, without, makespan, bound))
    return rows


def answer(rows: Sequence[Row]) -> str:
    """Return the median gap with all provers, and without the one that costs most."""
    gaps = {name: statistics.median(row.gap for row in rows if row.without == name) for name in WITHOUT}
    worst = max(WITHOUT, key=lambda name: gaps[name])
    with_all, without = f"{gaps[NOTHING]:.1%}", f"{gaps[worst]:.1%}"
    return f"**The median gap is {with_all}, without {worst} {without}**."


def losses(rows: Sequence[Row]) -> list[list[str]]:
    """Return a table of each question and prover: cases, proofs, proofs lost, and loss of the bound."""
    table = [["question", "without", "cases", "proven with all", "proofs lost", "median loss", "largest"]]
    for question, name in product(QUESTIONS, WITHOUT[1:]):
        pairs = []
        for case in QUESTIONS[question]:
            found = {
                row.without: row
                for row in rows
                if (row.question, row.network, row.crossbar, row.factor) == (question, *case)
            }
            if NOTHING in found and name in found:
                pairs.append((found[NOTHING], found[name]))
        if not pairs:
            continue
        proven = [(every, left) for every, left in pairs if every.gap <= 0]
        lost = [left for _, left in proven if left.gap > 0]
        loss = [1 - left.lower_bound / every.lower_bound for every, left in pairs]
        table.append(
            [
                *(question, name, str(len(pairs)), str(len(proven)), str(len(lost))),
                # + 0.0: a bound that is higher without a prover by next to nothing is no "-0.0%"
                *(f"{round(figure, 3) + 0.0:.1%}" for figure in (statistics.median(loss), max(loss))),
            ]
        )
    return table


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a table of each question: makespan, and the bound without each prover."""
    yield (
        "Networks on square arrays, budgets as multiples of the minimum: copies of every shipped network; "
        "cases with large gaps with own clocks (periods of 1 to 16 ticks are drawn for every layer) and with "
        "modes (mapping sdk). Every column is the lower bound with all provers but one, in steps or ticks, "
        "in bold where it is lower; proofs lost are cases proven with all provers and not without one; "
        "median and largest loss are of the bound. Branch and bound "
        "includes diagrams there. What each does is in [the bound](../docs/sources/bound.md), how bounds "
        "grow with a network in [growth](growth.md)."
    )
    yield ""
    yield "## What is lost"
    yield ""
    yield from markdown(losses(rows))
    for question, cases in QUESTIONS.items():
        table = [["network", "lines", "x min", "makespan", "all", *(f"no {name}" for name in WITHOUT[1:])]]
        for network, crossbar, factor in cases:
            found = {
                row.without: row
                for row in rows
                if (row.question, row.network, row.crossbar, row.factor)
                == (question, network, crossbar, factor)
            }
            if len(found) < len(WITHOUT):
                continue
            every = found[NOTHING]
            bounds = [found[name].lower_bound for name in WITHOUT[1:]]
            table.append(
                [
                    *(network, str(crossbar), f"{factor:g}", str(every.makespan)),
                    f"{every.lower_bound} ({every.gap:.1%})",
                    *(f"**{bound}**" if bound < every.lower_bound else str(bound) for bound in bounds),
                ]
            )
        yield ""
        yield f"## {question.capitalize()}"
        yield ""
        yield from markdown(table)


STUDY = Study(
    title="What each prover gives the bound",
    question="How far is the lower bound from the answer, and what does it lose without each prover?",
    row=Row,
    cases=[(question, *case) for question, cases in QUESTIONS.items() for case in cases],
    measure=run,
    answer=answer,
    body=body,
    decided_by=SEARCHED,
)
