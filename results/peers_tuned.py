"""`tune` in the tools against random and genetic search around the tool's own choice, at equal evaluations.

Writes results/peers_tuned.csv:  RRAMALLOC_PEERS=FOLDER python results/peers_tuned.py [TOOL[:NETWORK] ...]
All searches of a case have the same budget of arrays, read the same answers (results are kept below
RRAMALLOC_PEERS_CACHE), and begin with the tool's own choice; random and genetic search move copies as `tune`
does. A row that is in the file is not made again.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from peers_simulators import build

import rramalloc
from rramalloc.api import inspect
from rramalloc.errors import RramallocError, SimulatorError
from rramalloc.importers import load
from rramalloc.mapping.options import DEFAULT_MAPPING
from rramalloc.results.optimize import Request, checked_allocation, make_problem
from rramalloc.search.problem import Candidate, Problem, Stop
from rramalloc.studies.tune.answers import Answer, Answers
from rramalloc.studies.tune.calibration import Calibration, spearman
from rramalloc.studies.tune.proposals import Neighbourhood
from rramalloc.studies.tune.simulators import TOOLS, Choice, ExportedTool
from rramalloc.studies.tune.tuning import Tuning
from rramalloc.timing.simulate import Replication

ROOT = Path(__file__).resolve().parents[1]
CSV = ROOT / "results" / "peers_tuned.csv"
EVALUATIONS = 40
"""Of each search."""
HELD_OUT = 30
POPULATION = 10
LIMIT_S = 600.0
PIMSYN = {"alexnet": 920, "alexnet_todaes": 1000, "squeezenet": 440, "resnet18": 1180}
PIMCOMP = ("alexnet", "squeezenet", "resnet18", "shufflenet")
MNSIM = ("alexnet", "resnet18", "vgg11")


class Row(NamedTuple):
    """One case.

    arrays: the budget; own, before, tuned, random, genetic: figures of the tool's own choice, of our
    allocation with the fewest steps, and of the best that each search reached; spearman: rank correlation of
    the model, fitted to what `tune` asked, with the figures of `held_out` other allocations.
    """

    tool: str
    network: str
    arrays: int
    evaluations: int
    own: float
    before: float | None
    tuned: float
    random: float
    genetic: float
    form: str
    residual: float
    held_out: int
    spearman: float | None


class Case(NamedTuple):
    """A tool with a network and a budget."""

    simulator: ExportedTool
    network: str
    arrays: int | None
    """None for what the tool's own choice takes."""


def cases() -> list[Case]:
    """All cases, quick ones first."""
    found = [Case(_tool("pimsyn"), network, arrays) for network, arrays in PIMSYN.items()]
    found += [Case(_tool("pimcomp"), network, None) for network in PIMCOMP]
    around = TOOLS["mnsim"].surroundings()
    for network in MNSIM:
        least = inspect(network, hardware=around.hardware, mapping=around.mapping).minimum
        found.append(Case(_tool("mnsim"), network, 4 * least))
    found += [Case(_tool("pimcomp", "--mode", "high-throughput"), network, None) for network in PIMCOMP[:2]]
    return found


def _tool(name: str, *options: str) -> ExportedTool:
    return ExportedTool(name, (str(build(name)),), options, LIMIT_S)


class Judge:
    """Figures of allocations in a tool, from the store or new; counts different ones."""

    def __init__(self, case: Case, problem: Problem, arrays: int, answers: Answers) -> None:
        self.case, self.problem, self.arrays, self.answers = case, problem, arrays, answers
        self.network = load(case.network)
        self.figures: dict[tuple[int, ...], float] = {}
        self.asked: dict[tuple[int, ...], None] = {}

    def figure(self, copies: Replication) -> float:
        key = tuple(copies.tolist())
        self.asked[key] = None
        answer = self.answers.get(key, 0, LIMIT_S)
        if answer is None:
            answer = self.answers.keep(key, 0, self._new(copies))
        self.figures[key] = float("inf") if answer.figure is None else answer.figure
        return self.figures[key]

    def _new(self, copies: Replication) -> Answer:
        around = self.case.simulator.surroundings
        mapping = DEFAULT_MAPPING.changed(mapping=around.mapping)
        allocation = checked_allocation(
            self.network, around.hardware, self.arrays, self.problem, Request(mapping=mapping), Stop(work=0),
            Candidate(copies, 1, "none"),
        )  # fmt: skip
        try:
            return Answer(self.case.simulator.evaluate(self.network, allocation))
        except RramallocError as error:
            return Answer(None, str(error)[:200])


def random_search(judge: Judge, near: Neighbourhood, own: Replication) -> float:
    """The best of the tool's own choice and of different allocations around it."""
    judge.asked.clear()
    best = judge.figure(own)
    while len(judge.asked) < EVALUATIONS:
        best = min(best, judge.figure(near.near(own)))
    return best


def genetic_search(judge: Judge, near: Neighbourhood, own: Replication) -> float:
    """Tournaments of two, uniform crossover and moves of copies; the best of a generation survives."""
    judge.asked.clear()
    population = [own, *(near.near(own) for _ in range(POPULATION - 1))]
    values = [judge.figure(each) for each in population]
    while len(judge.asked) < EVALUATIONS:
        ranked = [population[at] for at in np.argsort(values, kind="stable")]
        children = [ranked[0]]
        while len(children) < POPULATION:
            first, second = ranked[near.choose(POPULATION)], ranked[near.choose(POPULATION)]
            child = near.mixed(first, second)
            children.append(near.near(child) if near.chance(0.7) else child)
        population, values = children, []
        for child in children:
            full = len(judge.asked) >= EVALUATIONS and tuple(child.tolist()) not in judge.asked
            values.append(float("inf") if full else judge.figure(child))
    return min(judge.figures[key] for key in judge.asked)


def measure(case: Case, store: Path) -> Row | None:
    """One row; None where the tool has no choice of its own or it does not fit."""
    simulator, around = case.simulator, case.simulator.surroundings
    source = load(case.network)
    asked = case.arrays or 10**6
    own: Choice = simulator.choose(source, around.hardware, asked)
    arrays = case.arrays or own.arrays
    tuning = rramalloc.tune(
        case.network, arrays, simulator, evaluations=EVALUATIONS, store=store, timeout_s=LIMIT_S,
        progress=False,
    )  # fmt: skip
    mapping = DEFAULT_MAPPING.changed(mapping=around.mapping)
    problem = make_problem(source, around.hardware, arrays, mapping)
    subject: dict[str, object] = {
        "network": source.sha256, "hardware": around.hardware.to_dict(),
        "mapping": mapping.model_dump(mode="json"), "simulator": simulator.name,
    }  # fmt: skip
    chosen = np.array([own.replication.get(name, 1) for name in problem.graph.names], dtype=np.int64)
    chosen = np.clip(chosen, problem.smallest, problem.largest)
    near = Neighbourhood(problem, 7)
    with Answers(store, subject) as answers:
        judge = Judge(case, problem, arrays, answers)
        if not problem.fits(chosen):
            chosen = near.fitted(chosen)
        drawn = random_search(judge, near, chosen)
        bred = genetic_search(judge, near, chosen)
        rank, count = _held_out(tuning, problem, judge)
    print(
        case.network, simulator.name, own.figure, tuning.before, tuning.figure, drawn, bred, rank, flush=True
    )
    assert tuning.model is not None
    return Row(
        simulator.name, case.network, arrays, EVALUATIONS, own.figure, tuning.before, tuning.figure, drawn,
        bred, tuning.model.form, tuning.model.residual, count, rank,
    )  # fmt: skip


def _held_out(tuning: Tuning, problem: Problem, judge: Judge) -> tuple[float | None, int]:
    """Rank correlation on allocations that only the other searches asked about, evenly taken from them."""
    names = problem.graph.names
    done = [row for row in tuning.judged if row.figure is not None]
    copies = [np.array([row.replication[name] for name in names]) for row in done]
    model = Calibration.fit(problem.graph, copies, [row.figure or 0.0 for row in done])
    taken = {tuple(each.tolist()) for each in copies}
    others = [key for key, figure in judge.figures.items() if key not in taken and np.isfinite(figure)]
    others = [others[at] for at in np.linspace(0, len(others) - 1, min(HELD_OUT, len(others))).astype(int)]
    expected = model.predict([np.array(key) for key in others])
    return spearman(expected.tolist(), [judge.figures[key] for key in others]), len(others)


def read() -> dict[tuple[str, str], Row]:
    """The rows of the file by tool and network."""
    if not CSV.exists():
        return {}
    with CSV.open(encoding="utf-8", newline="") as file:
        return {(row["tool"], row["network"]): _row(row) for row in csv.DictReader(file)}


def _row(cells: dict[str, str]) -> Row:
    numbers = {"own", "before", "tuned", "random", "genetic", "residual", "spearman"}
    counts = {"arrays", "evaluations", "held_out"}
    values = [
        (float(text) if text else None) if name in numbers else int(text) if name in counts else text
        for name, text in cells.items()
    ]
    return Row(*values)  # type: ignore[arg-type]


def main(wanted: Sequence[str]) -> None:
    """Measure what is wanted and missing; each row is written when it is there."""
    store = build("pimsyn").parent / "tuned.sqlite"
    for case in cases():
        key = (case.simulator.name, case.network)
        if wanted and not {key[0], f"{key[0]}:{key[1]}"} & {*wanted}:
            continue
        if key in read():
            continue
        try:
            row = measure(case, store)
        except SimulatorError as error:
            print(*key, error)
            continue
        rows = read()
        if row is not None:
            rows[key] = row
        with CSV.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([Row._fields, *rows.values()])


if __name__ == "__main__":
    main(sys.argv[1:])
