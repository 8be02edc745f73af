"""The search against other ways to allocate: makespan, bound, time and memory, each run in its own process.

The solvers of the separable model take 60 s in many cases, so they have every third case; one of them is the
CBC of PuLP 3.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from cbc import HAS_CBC, run_cbc
from measured import in_own_process, peak_mb
from pages import SEARCHED, Case, Study, by_budget, markdown, seconds_text

from rramalloc.chart import BLUE, ORANGE, PURPLE, RED, Axis, Chart, Key, Marks, Panel

CHAINS = ("alexnet", "vgg16", "vgg19")
NETWORKS = (
    *CHAINS, "resnet18", "resnet50", "resnet152", "squeezenet", "inception_v1", "densenet121", "mobilenet_v2",
    "shufflenet", "unet",
)  # fmt: skip
CROSSBARS = (128, 256)
FACTORS = (1.2, 2.0, 4.0, 16.0)
"""Budgets as multiples of the minimum, rounded down."""
CBC = "milp-cbc"
"""The model of `milp`, solved by the CBC of PuLP where there is one."""
SERIES = {
    "auto": Key("auto", BLUE, "circle"),
    "interval": Key("interval", ORANGE, "square"),
    CBC: Key("PuLP + CBC", RED, "diamond"),
    "milp": Key("PuLP + HiGHS", PURPLE, "cross"),
}
SOLVERS = ("milp", CBC) if HAS_CBC else ("milp",)
SOLVED = 3
"""The solvers have one of so many cases."""
SOLVER_LIMIT_S, MUCH_WORK = 60.0, 10**9
PROCESS_LIMIT_S = 1800.0
FIGURE = "search.svg"


class BudgetCase(NamedTuple):
    """What is to be allocated. factor: the budget as a multiple of the minimum."""

    network: str
    crossbar: int
    factor: float

    @property
    def label(self) -> str:
        return f"{self.network} {self.crossbar} x{self.factor:g}"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run. makespan: exact steps, None without an answer; proven: by `auto` of the exact makespan, by the
    solvers of the separable model's optimum; seconds: from the network's name to the answer; first_s: to the
    first answer; solve_s: of the method alone, on a problem that was built before (auto: None).
    """

    network: str
    crossbar: int
    factor: float
    arrays: int
    method: str
    makespan: int | None
    lower_bound: int | None
    gap: float | None
    proven: bool
    first_s: float
    seconds: float
    solve_s: float | None
    peak_mb: float

    @property
    def case(self) -> BudgetCase:
        return BudgetCase(self.network, self.crossbar, self.factor)


Table = dict[BudgetCase, dict[str, Row]]


def measure(network: str, crossbar: int, factor: float, method: str) -> dict[str, Any]:
    """Run one method on one case in this process, after runs that are not counted."""
    from rramalloc.api import inspect, optimize

    case = BudgetCase(network, crossbar, factor)
    for known, few in (("alexnet", 193), ("squeezenet", 216)):
        optimize(known, few, method="milp" if method == CBC else method, work=10)
    arrays = int(inspect(network, crossbar=f"{crossbar}x{crossbar}").minimum * factor)
    found = measure_auto if method == "auto" else measure_other
    return {"arrays": arrays} | found(case, arrays, method) | {"peak_mb": peak_mb()}


def measure_auto(case: BudgetCase, arrays: int, method: str) -> dict[str, Any]:
    """The call that users make; its first report of progress is its first answer."""
    from rramalloc.api import optimize

    reports: list[float] = []
    begun = time.perf_counter()
    found = optimize(
        case.network, arrays, crossbar=f"{case.crossbar}x{case.crossbar}", method=method,
        on_progress=lambda *_: reports.append(time.perf_counter() - begun),
    )  # fmt: skip
    seconds = time.perf_counter() - begun
    return {
        "makespan": found.makespan,
        "lower_bound": found.lower_bound,
        "proven": found.lower_bound == found.makespan,
        "first_s": reports[0] if reports else seconds,
        "seconds": seconds,
        "solve_s": None,
    }


def measure_other(case: BudgetCase, arrays: int, method: str) -> dict[str, Any]:
    """A method by itself, because `optimize` would replace its bound by a better one."""
    from rramalloc.allocation.case import Case
    from rramalloc.errors import SolverError
    from rramalloc.hardware.loader import load_hardware
    from rramalloc.hardware.preset_files import DEFAULT_PRESET
    from rramalloc.importers import load
    from rramalloc.methods import milp
    from rramalloc.methods.registry import method_named
    from rramalloc.search.problem import Answer
    from rramalloc.search.work import Work
    from rramalloc.timing.simulate import simulate

    solve = partial(milp.solve, run=run_cbc) if method == CBC else method_named(method).solve
    answer: Answer | None = None
    begun = time.perf_counter()
    hardware = load_hardware(DEFAULT_PRESET).with_crossbar(case.crossbar, case.crossbar)
    problem = Case(load(case.network), hardware).problem(arrays)
    built = time.perf_counter()
    try:
        answer = solve(problem, Work(work=MUCH_WORK, time_limit_s=SOLVER_LIMIT_S), 0)
        solve_s = time.perf_counter() - built
        makespan = simulate(problem.graph, answer.choice.copies).makespan
    except SolverError:
        makespan = None
        solve_s = time.perf_counter() - built
    seconds = time.perf_counter() - begun
    return {
        "makespan": makespan,
        "lower_bound": answer.lower_bound if answer else None,
        "proven": answer is not None and "solved to optimality" in answer.proof,
        "first_s": seconds,
        "seconds": seconds,
        "solve_s": solve_s,
    }


def run(network: str, crossbar: int, factor: float, method: str) -> list[Row]:
    """Run a method in a process of its own; no row where it fails or takes too long."""
    asked: dict[str, Any] = {"network": network, "crossbar": crossbar, "factor": factor, "method": method}
    try:
        got = in_own_process(measure, asked, PROCESS_LIMIT_S, has_solver=method == CBC)
    except (RuntimeError, TimeoutError) as error:
        print(f"left out: {error}", flush=True)
        return []
    makespan, bound = got["makespan"], got["lower_bound"]
    got["gap"] = None if makespan is None or bound is None else round((makespan - bound) / makespan, 6)
    for name in ("first_s", "seconds", "solve_s"):
        got[name] = None if got[name] is None else round(got[name], 6)
    return [Row(**asked, **got)]


def cases() -> Iterator[Case]:
    """All runs, the solvers' in one of SOLVED cases."""
    for number, case in enumerate(product(NETWORKS, CROSSBARS, FACTORS)):
        methods = ("auto", "interval", *(SOLVERS if number % SOLVED == 0 else ()))
        yield from ((*case, method) for method in methods)


def table_of(rows: Sequence[Row]) -> Table:
    """Rows by case and method, in the order of the constants, where a method has an answer."""
    by_key = {(row.case, row.method): row for row in rows}
    table: Table = {}
    for case in map(BudgetCase._make, product(NETWORKS, CROSSBARS, FACTORS)):
        found = {method: by_key[case, method] for method in SERIES if (case, method) in by_key}
        if any(row.makespan is not None for row in found.values()):
            table[case] = found
    return table


def best_of(runs: dict[str, Row]) -> int:
    """The smallest makespan that any method found."""
    return min(row.makespan for row in runs.values() if row.makespan is not None)


def column(table: Table, method: str, value: Callable[[Row], float | None]) -> list[float]:
    """A value of all runs of a method that have it."""
    found = (value(runs[method]) for runs in table.values() if method in runs)
    return [each for each in found if each is not None]


def median(values: list[float], form: str) -> str:
    return format(statistics.median(values), form) if values else "-"


def most(values: list[float], form: str) -> str:
    return format(max(values), form) if values else "-"


def listed(items: list[str], before: str = ": ") -> str:
    return before + ", ".join(items) if items else ""


def summary(table: Table) -> Iterator[list[str]]:
    """What, measured."""
    yield ["what", "measured"]
    for name, chains in (("chains", True), ("other networks", False)):
        part = {case: runs for case, runs in table.items() if (case.network in CHAINS) == chains}
        gaps = column(part, "auto", lambda row: row.gap)
        yield [f"gap of auto, {name}: median, largest", f"{median(gaps, '.1%')}, {most(gaps, '.1%')}"]
    times: tuple[tuple[str, Callable[[Row], float], str], ...] = (
        ("time to the first answer", lambda row: row.first_s, ".2f"),
        ("time to the end", lambda row: row.seconds, ".2f"),
        ("peak memory", lambda row: row.peak_mb, ".0f"),
    )
    for what, value, form in times:
        unit = "MB" if what == "peak memory" else "s"
        for method in ("auto", CBC, "milp") if what != "time to the first answer" else ("auto",):
            values = column(table, method, value)
            shown = f"{median(values, form)} {unit}, {most(values, form)} {unit}"
            yield [f"{what}, {SERIES[method].name}: median, largest", shown]


def beaten(table: Table) -> list[str]:
    """Cases in which another method is faster than auto."""
    found = []
    for case, runs in table.items():
        best = best_of(runs)
        if "auto" in runs and runs["auto"].makespan != best:
            faster = ", ".join(SERIES[method].name for method, row in runs.items() if row.makespan == best)
            found.append(f"{case.label} (auto {runs['auto'].makespan}, {faster} {best})")
    return found


def wrong_bounds(table: Table) -> list[str]:
    """Lower bounds that some allocation undercuts."""
    return [
        f"{case.label} ({SERIES[method].name} {row.lower_bound}, makespan {best_of(runs)})"
        for case, runs in table.items()
        for method, row in runs.items()
        if row.lower_bound is not None and row.lower_bound > best_of(runs)
    ]


def methods_table(table: Table) -> Iterator[list[str]]:
    yield ["method", "runs", "answers", "best or equal", "proven", "ratio, median", "largest",
           "s, median", "largest", "MB, median", "largest"]  # fmt: skip
    for method, series in SERIES.items():
        runs = [(row, best_of(others)) for others in table.values() if (row := others.get(method))]
        ratios = [row.makespan / best for row, best in runs if row.makespan is not None]
        memory, seconds = [row.peak_mb for row, _ in runs], [row.seconds for row, _ in runs]
        times = [seconds_text(of(seconds)) if runs else "-" for of in (statistics.median, max)]
        yield [
            series.name, str(len(runs)), str(len(ratios)), str(sum(ratio == 1 for ratio in ratios)),
            str(sum(row.proven for row, _ in runs)), median(ratios, ".3f"), most(ratios, ".3f"),
            *times, median(memory, ".0f"), most(memory, ".0f"),
        ]  # fmt: skip


def each_case(table: Table) -> dict[tuple[str, int, float], str]:
    """Return makespan and gap of auto for every case."""
    return {
        case: f"{row.makespan} (optimal)" if row.proven else f"{row.makespan} ({row.gap:.1%})"
        for case, runs in table.items()
        if (row := runs.get("auto"))
    }


def model_words(table: Table) -> str:
    """How often the solvers prove the model's optimum, and whether they agree."""
    pairs = [(r["milp"], r[CBC]) for r in table.values() if {"milp", CBC} <= r.keys()]
    both = [(highs, cbc) for highs, cbc in pairs if highs.proven and cbc.proven]
    differ = [
        f"{highs.case.label} (HiGHS {highs.lower_bound}, CBC {cbc.lower_bound})"
        for highs, cbc in both
        if highs.lower_bound != cbc.lower_bound
    ]
    return (
        f"HiGHS proves the optimum of the model in {sum(highs.proven for highs, _ in pairs)} of "
        f"{len(pairs)} cases, CBC in {sum(cbc.proven for _, cbc in pairs)}, both in {len(both)}. "
        f"Optima that differ: {len(differ)}{listed(differ)}."
    )


def figures(rows: Sequence[Row]) -> Mapping[str, Chart]:
    """Draw makespan over the best known against seconds, one point per run, and the medians.

    The height is the root of the excess: what is close to the best stays apart, the best itself has a place.
    """
    table, layers, every = table_of(rows), list[Marks](), [0.001]
    at = {"x": "seconds", "y": "excess", "shape": {}}
    for method, key in SERIES.items():
        runs = [
            (row.seconds, 100 * (row.makespan / best_of(others) - 1))
            for others in table.values()
            if (row := others.get(method)) and row.makespan is not None
        ]
        if not runs:
            continue
        seconds, excess = zip(*runs, strict=True)
        every += seconds
        small = {"type": "point", "filled": True, "size": 28, "opacity": 0.55}
        large = {"type": "point", "filled": True, "size": 130, "opacity": 1, "stroke": "black"}
        middle = {"seconds": [statistics.median(seconds)], "excess": [statistics.median(excess)]}
        layers += [
            Marks(small, {"seconds": seconds, "excess": excess}, at, key),
            Marks(large, middle, at, key),
        ]
    highest = max(max(layer.data["excess"]) for layer in layers)
    time = Axis(
        "seconds from the network's name to the end of the search", min(every), max(every) * 1.1, "log"
    )
    up = Axis("above the best known makespan of the case [%]", 0, highest * 1.05, "sqrt")
    panel = Panel(time, up, 320, tuple(layers))
    return {FIGURE: Chart("Search", (panel,), "Excess over the best against seconds.")}


NOTES = f"""\
{len(NETWORKS)} networks x crossbars of 128 and 256 lines x budgets of 1.2, 2, 4 and 16 times the minimum.
Each run is a process of its own, on one of two cores, after runs that are not counted: no time includes the
start of the program or compilation. auto ends at proof or after its default work; the separable model is
solved by PuLP + CBC and by PuLP + HiGHS, each for at most {SOLVER_LIMIT_S:.0f} s, in every third case. Every
allocation is simulated exactly. interval: fewest arrays with the smallest interval. Peak memory is that of
the whole process and, for CBC, of the solver it starts. All numbers: `search.csv`."""
CASES_NOTES = """\
Makespan of auto in steps and its gap, by network, wordlines and bitlines of an array, and budget over the
minimum. No method is faster in any of these cases unless the list above says so."""


def answer(rows: Sequence[Row]) -> str:
    """Return how often `auto` proves its answer, and how far the others are from the bound."""
    table = table_of(rows)
    total = len(column(table, "auto", lambda row: row.makespan))
    proven = sum(column(table, "auto", lambda row: float(row.proven)))
    gaps, seconds = (column(table, "auto", value) for value in (lambda row: row.gap, lambda row: row.seconds))
    return (
        f"**`auto` proves {proven:.0f} of {total} makespans the best, with a gap of {median(gaps, '.1%')} "
        f"in the median** "
        f"and {most(gaps, '.1%')} at most, in {median(seconds, '.2f')} s in the median; another method is "
        f"faster in "
        f"{len(beaten(table))} cases."
    )


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what is compared, tables of methods and cases, and what is exceptional."""
    table = table_of(rows)
    yield from (NOTES, "", *markdown(summary(table)))
    for what, items in (
        ("Cases in which another method is faster than auto", beaten(table)),
        ("Lower bounds above a makespan that any method found", wrong_bounds(table)),
    ):
        yield from (f"{what}: {len(items)}{':' if items else '.'}", "", *(f"- {item}" for item in items))
        yield from [""] if items else []
    yield from (
        "## Methods",
        "",
        "ratio: makespan over the best known of the case. Large marks are medians.",
        "",
    )
    yield from (*markdown(methods_table(table)), f"![makespan ratio against time]({FIGURE})", "")
    yield from ("## Cases", "", CASES_NOTES, "", *by_budget(each_case(table)))
    yield from ("## The separable model", "", model_words(table))


STUDY = Study(
    title="Search",
    question=(
        "How good is the search, how soon, and what do solvers of a linear model give for the same arrays?"
    ),
    row=Row,
    cases=list(cases()),
    measure=run,
    answer=answer,
    body=body,
    decided_by=SEARCHED,
    figures=figures,
)
