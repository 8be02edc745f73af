"""`tune` in the tools against random and genetic search around the tool's own choice, at equal evaluations.

RRAMALLOC_PEERS names the folder with the archives of the tools. All searches of a case have the same budget
of arrays, read the same answers (they are kept beside the built tools), and begin with the tool's own choice;
random and genetic search move copies as `tune` does.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pages import SEARCHED, Study, markdown
from peers_simulators import build, missing

import rramalloc
from rramalloc.allocation.case import Case
from rramalloc.allocation.optimize import checked_allocation, objective_of
from rramalloc.allocation.question import Question
from rramalloc.api import inspect
from rramalloc.commands.tune.answers import Answers, SimulatorAnswer, subject
from rramalloc.commands.tune.calibration import Calibration, spearman
from rramalloc.commands.tune.proposals import Neighbourhood
from rramalloc.commands.tune.simulators import TOOLS, ExportedTool
from rramalloc.commands.tune.tune import chosen_copies
from rramalloc.commands.tune.tuning import OwnChoice, Tuning
from rramalloc.errors import RramallocError
from rramalloc.hardware.hardware import Hardware
from rramalloc.importers import load
from rramalloc.mapping.options import DEFAULT_MAPPING
from rramalloc.network.network import Network
from rramalloc.search.problem import Answer as Proposal
from rramalloc.search.problem import Problem
from rramalloc.search.work import Work
from rramalloc.store import Store
from rramalloc.timing.simulate import Copies

EVALUATIONS = 30
"""Of each search."""
RANDOM_SEED, GENETIC_SEED = 7, 1007
HELD_OUT = 30
POPULATION = 10
LIMIT_S = 600.0
GENETIC_RUNS = 3
"""Of the genetic search of PIMCOMP, which is seeded by the clock."""
CASES = (
    ("mnsim", "alexnet"),
    ("pimsyn", "alexnet"),
    ("neurosim", "alexnet"),
    ("pimcomp", "alexnet"),
)
PIMSYN_ARRAYS = {"alexnet": 920}


@dataclass(frozen=True)
class Row:
    """The three searches in a case.

    arrays: the budget; own, before, tuned, random, genetic:
    figures of the tool's own choice, of our allocation with the fewest steps, and of the best that each
    search reached; spearman: rank correlation of the model, fitted to what `tune` asked, with `held_out`
    allocations that only the other searches asked about; drawn: with as many drawn from all that were asked
    about, fitted to the others.
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
    drawn: float | None


class ToolCase(NamedTuple):
    """A tool with a network and a budget."""

    simulator: ExportedTool
    network: str
    arrays: int | None
    """None for what the tool's own choice takes."""


def case_of(name: str, network: str) -> ToolCase:
    """The tool of a case, and its budget."""
    if name == "pimcomp":
        return ToolCase(_pimcomp(), network, None)
    if name == "mnsim":
        around = TOOLS["mnsim"]
        least = inspect(network, hardware=around.hardware(), mapping=around.mapping).minimum
        return ToolCase(_tool("mnsim"), network, 4 * least)
    return ToolCase(_tool(name), network, PIMSYN_ARRAYS[network] if name == "pimsyn" else None)


def _tool(name: str, *options: str) -> ExportedTool:
    return ExportedTool(name, (str(build(name)),), options, timeout_s=LIMIT_S)


@dataclass
class GeneticPimcomp(ExportedTool):
    """PIMCOMP, whose own choice is that of its genetic search: it is faster than that of its balance rule.

    Its draws depend on the clock: the choice is the run with the median figure.
    """

    choices: dict[str, OwnChoice] = field(default_factory=dict)

    def choose(self, network: Network, hardware: Hardware, arrays: int) -> OwnChoice:
        """The choice of the median run."""
        if network.sha256 not in self.choices:
            runs = [self.chosen(network, hardware, "--own", "genetic") for _ in range(GENETIC_RUNS)]
            self.choices[network.sha256] = sorted(runs, key=lambda run: run.figure)[GENETIC_RUNS // 2]
        return self.choices[network.sha256]


def _pimcomp(*options: str) -> GeneticPimcomp:
    return GeneticPimcomp(
        tool="pimcomp", checkout=(str(build("pimcomp")),), options=options, timeout_s=LIMIT_S
    )


class Judge:
    """Figures of allocations in a tool, from the store or new; counts different ones."""

    def __init__(self, case: ToolCase, problem: Problem, arrays: int, answers: Answers) -> None:
        self.case, self.problem, self.arrays, self.answers = case, problem, arrays, answers
        self.network = load(case.network)
        self.figures: dict[tuple[int, ...], float] = {}
        self.asked: dict[tuple[int, ...], None] = {}

    def figure(self, copies: Copies) -> float:
        key = tuple(copies.tolist())
        self.asked[key] = None
        answer = self.answers.get(key, 0, LIMIT_S)
        if answer is None:
            answer = self.answers.keep(key, 0, self._new(copies))
        self.figures[key] = float("inf") if answer.figure is None else answer.figure
        return self.figures[key]

    def _new(self, copies: Copies) -> SimulatorAnswer:
        around = TOOLS[self.case.simulator.tool]
        mapping = DEFAULT_MAPPING.changed(mapping=around.mapping)
        case = Case(self.network, around.hardware(), mapping)
        proposal = Proposal(self.problem.choice(copies), 1, "none")
        asked = objective_of(self.problem, Question())
        allocation = checked_allocation(case, self.arrays, asked, Question(), Work(work=0), proposal)
        try:
            return SimulatorAnswer(self.case.simulator.evaluate(self.network, allocation))
        except RramallocError as error:
            return SimulatorAnswer(None, str(error)[:200])


def random_search(judge: Judge, near: Neighbourhood, own: Copies) -> float:
    """The best of the tool's own choice and of different allocations around it."""
    judge.asked.clear()
    best = judge.figure(own)
    while len(judge.asked) < EVALUATIONS:
        best = min(best, judge.figure(near.near(own)))
    return best


def genetic_search(judge: Judge, near: Neighbourhood, own: Copies) -> float:
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


def others(judge: Judge, chosen: Copies) -> tuple[float, float]:
    """What random and genetic search reach from the tool's own choice, lowered until it fits."""
    near = Neighbourhood(judge.problem, RANDOM_SEED)
    if not judge.problem.is_allowed(chosen):
        chosen = near.fitted(chosen)
    drawn = random_search(judge, near, chosen)
    return drawn, genetic_search(judge, Neighbourhood(judge.problem, GENETIC_SEED), chosen)


def run(name: str, network: str) -> list[Row]:
    """All searches of a case. Raises SimulatorError where the tool has no choice of its own."""
    case = case_of(name, network)
    store = build(name).parent / f"tuned-{name}.sqlite"
    simulator, around = case.simulator, TOOLS[case.simulator.tool]
    source = load(case.network)
    asked = case.arrays or 10**6
    own: OwnChoice = simulator.choose(source, around.hardware(), asked)
    arrays = case.arrays or own.arrays
    if simulator.tool == "neurosim":  # counts whole tiles: the budget is what its copies take without them
        arrays = _problem(case, asked).arrays(chosen_copies(_problem(case, asked), own))
    tuning = rramalloc.tune(
        case.network, arrays, simulator, evaluations=EVALUATIONS, seed=0, store=store, timeout_s=LIMIT_S,
        progress=False,
    )  # fmt: skip
    problem = _problem(case, arrays)
    chosen = chosen_copies(problem, own)
    with Answers(store, _subject(case)) as answers:
        judge = Judge(case, problem, arrays, answers)
        drawn, bred = others(judge, chosen)
        rank, count = _held_out(tuning, problem, judge)
    assert tuning.model is not None
    row = Row(
        simulator.name, network, arrays, EVALUATIONS, own.figure, tuning.before, tuning.figure, drawn, bred,
        tuning.model.form, tuning.model.residual, count, rank, drawn_rank(case, arrays, store),
    )  # fmt: skip
    return [row]


def _held_out(tuning: Tuning, problem: Problem, judge: Judge) -> tuple[float | None, int]:
    """Rank correlation on allocations that only the other searches asked about, evenly taken from them."""
    names = problem.graph.names
    done = [row for row in tuning.judged if row.figure is not None]
    copies = [np.array([row.copies[name] for name in names]) for row in done]
    model = Calibration.fit(problem.graph, copies, [row.figure or 0.0 for row in done])
    taken = {tuple(each.tolist()) for each in copies}
    others = [key for key, figure in judge.figures.items() if key not in taken and np.isfinite(figure)]
    others = [others[at] for at in np.linspace(0, len(others) - 1, min(HELD_OUT, len(others))).astype(int)]
    expected = model.predict([np.array(key) for key in others])
    return spearman(expected.tolist(), [judge.figures[key] for key in others]), len(others)


def drawn_rank(case: ToolCase, arrays: int, store: Path) -> float | None:
    """Rank correlation with 30 allocations drawn from all that were asked about, by a model of the others."""
    problem = _problem(case, arrays)
    about = f"{_subject(case)} 0 "
    figures: dict[tuple[int, ...], float] = {}
    with Store(store, "tuning") as answers:
        for key, text in answers.query("SELECT key, row FROM rows WHERE key LIKE ?", f"{about}%"):
            if (figure := json.loads(text)[0]) is not None:
                figures[tuple(map(int, key.removeprefix(about).split(",")))] = figure
    keys = sorted(figures)
    drawn = {keys[at] for at in np.random.Generator(np.random.PCG64(0)).permutation(len(keys))[:HELD_OUT]}
    kept = [key for key in keys if key not in drawn]
    order = np.random.Generator(np.random.PCG64(1)).permutation(len(kept))
    kept = [kept[at] for at in order]
    model = Calibration.fit(problem.graph, [np.array(key) for key in kept], [figures[key] for key in kept])
    left = sorted(drawn)
    return spearman(model.predict([np.array(key) for key in left]).tolist(), [figures[key] for key in left])


def _problem(case: ToolCase, arrays: int) -> Problem:
    around = TOOLS[case.simulator.tool]
    mapping = DEFAULT_MAPPING.changed(mapping=around.mapping)
    return Case(load(case.network), around.hardware(), mapping).problem(arrays)


def _subject(case: ToolCase) -> str:
    around = TOOLS[case.simulator.tool]
    mapping = DEFAULT_MAPPING.changed(mapping=around.mapping)
    return subject(load(case.network), around.hardware(), mapping, case.simulator.kept_as)


NOTES = f"""\
`tune` with {EVALUATIONS} evaluations in each tool, against random and genetic search that begin with the
tool's own choice, move copies in the same way and ask as often. Figures in ms.

- arrays: the budget as the export counts the convolutions; for PIMCOMP what its genetic search (the median
  of {GENETIC_RUNS} runs) takes with classifiers; for NeuroSim those of the copies of its rule. MNSIM's own
  choice is one copy of each layer on a quarter of the budget. PIMSYN's takes 1 % more arrays than it is
  asked for, so all searches begin with fewer copies.
- PIMSYN draws 40 designs for every allocation and reports the time of the one with the best power
  efficiency: its figure jumps with the draw.
- `before`: ours with the fewest steps. `residual`: what the clocks of the model alone leave.
- `rank, others`: rank correlation of the model, fitted to what `tune` asked, with {HELD_OUT} allocations
  that only the other searches asked about; `rank, drawn`: with {HELD_OUT} drawn from all that any search
  asked about, fitted to the rest.
- The model lacks what waits for whom on the way between cores (PIMCOMP), which makes figures jump by a tenth
  where a copy goes to another core; PIMSYN's draw of designs; and copies beyond an output row, which MNSIM
  does not use. Interpolation between answers takes their place.
- Left out: ResNet-18 and SqueezeNet in PIMSYN, which takes more than ten minutes to choose copies, and
  pimsim-nn, which takes four minutes an allocation.
"""


def answer(rows: Sequence[Row]) -> str:
    """Return how often `tune` is better than the tool's choice and the other searches."""
    better = sum(row.tuned < min(row.random, row.genetic) for row in rows)
    gain = 1 - statistics.median(row.tuned / row.own for row in rows)
    return (
        f"**`tune` is faster than the tool's own choice in {sum(row.tuned < row.own for row in rows)} of "
        f"{len(rows)} "
        f"cases, in the median by {gain:.0%}**, and better than both other searches in {better}."
    )


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what is compared, and the table."""
    yield NOTES
    table = [[
        "tool", "network", "arrays", "its own", "before", "tuned", "random", "genetic", "tuned / own",
        "rank, others", "rank, drawn", "residual",
    ]]  # fmt: skip
    for row in rows:
        figures = (row.own, row.before, row.tuned, row.random, row.genetic)
        ranks = ("-" if rank is None else f"{rank:.2f}" for rank in (row.spearman, row.drawn))
        cells = [*map(_ms, figures), f"{row.tuned / row.own:.2f}", *ranks, f"{row.residual:.0%}"]
        table.append([row.tool, row.network, str(row.arrays), *cells])
    yield from markdown(table)


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value / 1e6:.4g}"


STUDY = Study(
    title="Tuning in the tools",
    question=(
        "Does `tune` find faster copies in a tool than the tool itself, or than other searches that ask as "
        "often?"
    ),
    row=Row,
    cases=CASES,
    measure=run,
    answer=answer,
    body=body,
    decided_by=(*SEARCHED, "commands/export", "commands/tune"),
    missing=missing,
)
