"""`compare`: rows hold under simulation, by hand and against methods that lie."""

from __future__ import annotations

from typing import Any

import pytest

import rramalloc
from rramalloc.allocation.case import Case
from rramalloc.commands.compare.compare import competitors
from rramalloc.commands.compare.comparison import Comparison, Row
from rramalloc.errors import BudgetError, SolverError, SpecError, UnknownNameError, UnsupportedError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import load_hardware
from rramalloc.methods.registry import METHODS
from rramalloc.network.network import Network
from rramalloc.search.work import CancelToken
from rramalloc.view.pivot import Cell, pivot_table

QUICK = {"work": 2, "seeds": 1}


NODES: list[dict[str, Any]] = [
    {"name": "in", "op": "input", "shape": [2, 4, 4]},
    {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 2, "kernel": 1},
    {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 2, "kernel": 1},
]


@pytest.fixture
def pair() -> Network:
    """Two 1 x 1 convolutions on 4 x 4 pixels, one array a copy: 16 windows each.

    With d copies of both, the first takes 16 / d steps and the second ends one step later.
    """
    return Network.build("pair", NODES)


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every function of fakes.py as a method of its name."""
    for name in ("by_seed", "greedy", "slow", "boastful", "wrong", "failing", "chains_only"):
        monkeypatch.setitem(METHODS, name, f"methods.fakes:{name.upper()}")


def row_of(comparison: Comparison, method: str) -> Row:
    return next(row for row in comparison.rows if row.method == method)


@pytest.mark.quick
def test_hand_worked(pair: Network) -> None:
    """4 arrays: 2 + 2 takes 8 + 1 steps, all else leaves one layer with 16 batches and takes 17."""
    found = rramalloc.compare(pair, 4, methods=["none", "auto", "uniform"])
    assert [(row.method, row.makespan, row.ratio) for row in found.rows] == [
        ("auto", 9, 1.0),
        ("uniform", 9, 1.0),
        ("none", 17, 17 / 9),
    ]
    none = row_of(found, "none")
    assert (none.network, none.arrays, none.used, none.interval) == ("pair", 4, 2, 16)
    assert (none.recurrence, none.published) == (17, 16)  # docs/sources/model.md 5: handed on within the step
    assert (none.lower_bound, none.gap) == (9, 8 / 17)  # proven by auto, shared by all
    assert (none.runs, none.best, none.median, none.worst) == (1, 17, 17, 17)
    assert (none.step_ns, none.latency_ns, none.clock_s, none.repaired) == (None, None, None, False)
    assert none.copies == {"a": 1, "b": 1}
    assert row_of(found, "auto").copies == {"a": 2, "b": 2}
    assert found.warnings == ()


@pytest.mark.parametrize("name", ["alexnet", "resnet8"])
def test_rows_are_what_simulation_says(name: str) -> None:
    """The simulator gives every number of a row from its copies alone."""
    network = rramalloc.load(name)
    found = rramalloc.compare(network, ["x1.3", "x3"], **QUICK)  # type: ignore[arg-type]
    assert len(found.budgets) == 2
    for row in found.rows:
        timed = rramalloc.simulate(network, row.copies)
        assert (row.makespan, row.interval) == (timed.makespan, timed.interval)
        assert (row.recurrence, row.published) == (timed.recurrence, timed.published)
        assert row.used == timed.arrays <= row.arrays
        assert row.recurrence <= row.makespan
        assert row.lower_bound <= row.makespan
        assert row.gap == (row.makespan - row.lower_bound) / row.makespan
        assert list(row.copies) == [layer.name for layer in timed.layers]
    for budget in found.budgets:
        rows = found.at(budget)
        auto = rows[0]
        assert (auto.method, auto.ratio) == ("auto", 1.0)
        assert len({row.lower_bound for row in rows}) == 1
        assert all(row.ratio == row.makespan / auto.makespan for row in rows)
        assert [row.makespan for row in rows[1:]] == sorted(row.makespan for row in rows[1:])


@pytest.mark.usefixtures("fakes")
@pytest.mark.parametrize(
    ("seed", "seeds", "best", "median", "worst"),
    [(0, 5, 5, 9, 17), (0, 4, 5, 7, 17), (2, 1, 9, 9, 9), (4, 2, 9, 9, 17)],
)
def test_spread_over_seeds(pair: Network, seed: int, seeds: int, best: int, median: int, worst: int) -> None:
    """1, 4, 2, 3, 2 copies of both layers take 17, 5, 9, 7, 9 steps."""
    found = rramalloc.compare(pair, 8, methods=["by_seed", "slow"], seed=seed, seeds=seeds)
    row = row_of(found, "by_seed")
    assert (row.best, row.median, row.worst, row.runs) == (best, median, worst, seeds)
    assert row.makespan == median
    assert rramalloc.simulate(pair, row.copies).makespan == median
    assert row_of(found, "slow").runs == 1


@pytest.mark.usefixtures("fakes")
def test_what_does_not_fit_is_repaired_and_flagged(pair: Network) -> None:
    found = rramalloc.compare(pair, 5, methods=["greedy", "slow"])
    row = row_of(found, "greedy")
    assert row.repaired
    assert row.used <= 5
    assert "repaired" in row.proof
    assert not row_of(found, "slow").repaired


@pytest.mark.usefixtures("fakes")
def test_methods_that_give_nothing_are_told(pair: Network) -> None:
    found = rramalloc.compare(pair, [4, 5], methods=["failing", "slow", "chains_only"])
    assert [row.method for row in found.rows] == ["slow", "slow"]
    assert [(left.arrays, left.method) for left in found.skipped] == [
        (4, "failing"),
        (4, "chains_only"),
        (5, "failing"),
        (5, "chains_only"),
    ]
    assert found.skipped[0].reason == "no allocation found: give it more --work"
    assert found.skipped[1].reason == "here: covers chains only"
    with pytest.raises(UnsupportedError, match="no method gave an allocation: no allocation found"):
        rramalloc.compare(pair, 4, methods=["failing"])


@pytest.mark.usefixtures("fakes")
@pytest.mark.parametrize("liar", ["boastful", "wrong"])
def test_a_bound_that_cannot_be_is_not_printed(pair: Network, liar: str) -> None:
    with pytest.raises(SolverError, match=f"{liar} claims no less than"):
        rramalloc.compare(pair, 4, methods=["auto", liar])


def narrow() -> Hardware:
    """Memory so slow that more copies lengthen the step."""
    hardware = load_hardware("isaac-todaes")
    assert hardware.memory is not None
    return hardware.model_copy(update={"memory": hardware.memory.model_copy(update={"bandwidth_gb_s": 0.05})})


def test_ratio_of_latencies_where_step_times_differ() -> None:
    found = rramalloc.compare(
        "alexnet", "x3", hardware=narrow(), methods=["auto", "none", "interval", "gain"]
    )
    assert len({row.step_ns for row in found.rows}) > 1
    auto = found.rows[0]
    assert auto.method == "auto"
    latencies = []
    for row in found.rows:
        timed = rramalloc.simulate("alexnet", row.copies, hardware=narrow())
        assert (row.step_ns, row.latency_ns) == (timed.step_ns, timed.latency_ns)
        assert row.latency_ns is not None
        assert auto.latency_ns is not None
        latencies.append(row.latency_ns)
        assert row.ratio == row.latency_ns / auto.latency_ns
        assert row.objective_value == row.latency_ns
        assert row.lower_bound == auto.lower_bound <= auto.latency_ns
        assert row.gap == (row.latency_ns - row.lower_bound) / row.latency_ns
    assert latencies == sorted(latencies)


def test_progress_and_interruption(pair: Network) -> None:
    """Interrupted when the second method begins: the first has its row, all others a reason."""
    told: list[tuple[int, str, int, int]] = []
    ending = CancelToken()

    def on_progress(budget: int, method: str, done: int, total: int) -> None:
        told.append((budget, method, done, total))
        ending.interrupted = len(told) == 2

    found = rramalloc.compare(
        pair, [4, 5], methods=["none", "uniform", "auto"], on_progress=on_progress, ending=ending
    )
    assert told == [(4, "auto", 0, 6), (4, "none", 1, 6)]
    assert [(row.arrays, row.method) for row in found.rows] == [(4, "auto")]
    assert len(found.skipped) == 5
    assert all("interrupted" in left.reason for left in found.skipped)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"arrays": 4, "methods": ["best"]}, UnknownNameError, "no method named 'best'"),
        ({"arrays": 4, "seeds": 0}, SpecError, "seeds: must be from 1"),
        ({"arrays": 1}, BudgetError, "needs 2 arrays"),
        ({"arrays": [4, 8, 1]}, BudgetError, "the budget is 1"),
    ],
)
def test_wrong_input_is_refused_before_anything_runs(
    pair: Network, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    told: list[object] = []
    with pytest.raises(error, match=words):
        rramalloc.compare(pair, **options, on_progress=lambda *step: told.append(step))
    assert told == []


def test_modes_side_by_side() -> None:
    """With mapping sdk: `auto`, two window methods and copies alone; every row can be simulated."""
    found = rramalloc.compare(
        "alexnet",
        "x1.5",
        mapping="sdk",
        crossbar="256x256",
        methods=["auto", "sdk", "vw-sdk", "bottleneck"],
        work=20,
    )
    assert {row.method for row in found.rows} == {"auto", "sdk", "vw-sdk", "bottleneck"}
    for row in found.rows:
        timed = rramalloc.simulate("alexnet", row.allocation, crossbar="256x256")
        assert (row.makespan, row.used, row.recurrence) == (timed.makespan, timed.arrays, timed.recurrence)
        assert row.lower_bound <= row.makespan
        assert row.ratio >= 1
    assert row_of(found, "bottleneck").block == dict.fromkeys(row_of(found, "auto").copies, (1, 1))
    assert not {"sdk", "vw-sdk"} & {*competitors(None, Case.of("alexnet", {}))}


def test_several_networks_are_rows_of_one_comparison(pair: Network) -> None:
    """`one` has the first layer of `pair` alone: 16 / 4 steps with 4 arrays, 16 with one copy.

    Each network has its own ratios, and the rows that it has on its own; one that is given twice counts once,
    and a warning of both is said once.
    """
    one = Network.build("one", [{**node} for node in NODES[:2]])
    told: list[tuple[str, int, int]] = []
    found = rramalloc.compare(
        [pair, one, pair],
        [4],
        methods=["none", "auto"],
        work=2,
        on_progress=lambda _, method, done, total: told.append((method, done, total)),
    )
    assert [(row.network, row.method, row.makespan, row.ratio) for row in found.rows] == [
        ("pair", "auto", 9, 1.0),
        ("pair", "none", 17, 17 / 9),
        ("one", "auto", 4, 1.0),
        ("one", "none", 16, 4.0),
    ]
    assert told == [("auto", 0, 4), ("none", 1, 4), ("auto", 2, 4), ("none", 3, 4)]
    assert [network.name for network in found.networks] == ["pair", "one"]
    assert found.network is None
    assert found.warnings == ("the work of 2 units is of every single run, not of all together",)
    alone = rramalloc.compare([one], 4, methods=["none", "auto"], work=2)
    assert alone.to_dict() == rramalloc.compare(one, 4, methods=["none", "auto"], work=2).to_dict()
    assert alone.rows == found.rows[2:]
    assert "networks" not in alone.to_dict()
    assert len(found.plot.methods().panels) == 2


def test_networks_that_one_result_cannot_hold(pair: Network) -> None:
    other = Network.build("pair", [{**node} for node in NODES[:2]])
    with pytest.raises(SpecError, match="two are named 'pair'"):
        rramalloc.compare([pair, other], 4)
    with pytest.raises(SpecError, match="at least one network"):
        rramalloc.compare([], 4)


def test_values_by_network_budget_or_method(pair: Network) -> None:
    """A row for each network and budget, a column for each method; a method has one colour in every chart.

    With 2 arrays `pair` has one copy of each layer: 16 + 1 steps.
    """
    one = Network.build("one", [{**node} for node in NODES[:2]])
    found = rramalloc.compare([pair, one], [2, 4], methods=["none", "auto"], work=2)
    table = found.view(by="network").tables[0]
    assert [column.field for column in table.columns] == ["network", "arrays", "auto", "none"]
    assert table.rows() == [["pair", 2, 17, 17], ["pair", 4, 9, 17], ["one", 2, 8, 16], ["one", 4, 4, 16]]
    charts = {by: found.plot.methods(by=by) for by in ("network", "budget", "method")}
    titles = {by: [panel.title for panel in chart.panels] for by, chart in charts.items()}
    assert titles == {
        "network": ["pair", "one"],
        "budget": ["2 arrays", "4 arrays"],
        "method": ["auto", "none"],
    }
    assert {tuple(key.name for key in chart.keys) for chart in charts.values()} == {("auto", "none")}
    assert len({chart.keys for chart in charts.values()}) == 1
    alone = rramalloc.compare(one, [2], methods=["none"]).plot.methods(by="method")
    assert alone.keys == charts["budget"].keys[1:]


def test_the_summary_is_of_all_networks_and_budgets(pair: Network) -> None:
    """`none` takes 17 of 17, 17 of 9, 16 of 8 and 16 of 4 steps: (17 / 9 + 2) / 2 = 1.94 in the median."""
    one = Network.build("one", [{**node} for node in NODES[:2]])
    view = rramalloc.compare([pair, one], [2, 4], methods=["none", "auto"], work=2).view()
    assert view.sentence == (
        'The method "auto" is the best, alone or beside others, in 4 of 4 networks and budgets; '
        '"none" takes 1.94 times the best in the median'
    )
    assert [fact.name for fact in view.facts].count("lower bound") == 4
    many = rramalloc.compare([pair, one], [2, 4, 8], methods=["none", "auto"], work=2).view()
    assert {fact.name: fact.value for fact in many.facts}["gap"] == (
        "of the best method: 0 % in the median, 0 % at most"
    )
    assert "lower bound" not in {fact.name for fact in many.facts}


def test_columns_of_methods_share_a_unit() -> None:
    """Beside 5,000 ns a column of 400 ns is in us, too."""
    cells = [Cell("n", 4, "auto", 400.0), Cell("n", 4, "none", 5000.0)]
    table = pivot_table(cells, "ns")
    assert table.cells(table.rows()) == (
        ["network", "arrays", "auto (us)", "none (us)"],
        [["n", "4", "0.4", "5"]],
    )


def test_a_budget_that_is_short_for_one_network_is_told_before_anything_runs(pair: Network) -> None:
    """`one` needs an array, `pair` two."""
    one = Network.build("one", [{**node} for node in NODES[:2]])
    told: list[object] = []
    with pytest.raises(BudgetError, match="pair: needs 2 arrays"):
        rramalloc.compare([one, pair], 1, on_progress=lambda *step: told.append(step))
    assert told == []
