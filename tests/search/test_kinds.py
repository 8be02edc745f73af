"""Several kinds of arrays in the search: it begins with each kind alone; labels of their modes.

Also kinds and precisions of which no mode fits, and copies that are held.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from laws.kinds import HAND, hardware

import rramalloc
from rramalloc.allocation.case import Case
from rramalloc.allocation.layer_bits import BitChoice, BitTable
from rramalloc.choices import MAX_ARRAYS
from rramalloc.errors import RramallocError
from rramalloc.hardware.hardware import Hardware
from rramalloc.importers import load
from rramalloc.network.network import Network
from rramalloc.search import auto, interval
from rramalloc.search.bound.labels import ModeBounder
from rramalloc.search.menu import Menu, on_each_kind
from rramalloc.search.objective import Area
from rramalloc.search.work import Work

LITTLE, SMALL, LARGE = 2, 60_000, 16_000


def test_two_kinds_are_never_behind_one() -> None:
    """Each alone is the problem of a hardware with that kind; with the same work two are no slower."""
    machine = hardware(SMALL, LARGE, areas=False)
    problem = Case(load("alexnet"), machine).problem(SMALL + LARGE)
    both = auto.solve(problem, Work(work=LITTLE), 0).choice.makespan
    each = dict(on_each_kind(problem))
    assert list(each) == [0, 1]
    for kind, alone in each.items():
        one = Case(load("alexnet"), machine.each_kind[kind]).problem((SMALL, LARGE)[kind])
        assert (alone.budget, alone.demand.tolist()) == (one.budget, one.demand.tolist())
        found, expected = (auto.solve(own, Work(work=LITTLE), 0).choice for own in (alone, one))
        assert (found.makespan, found.copies.tolist()) == (expected.makespan, expected.copies.tolist())
        assert {mode.kind for mode in found.modes} == {kind}
        assert both <= found.makespan


def _conv(
    name: str, source: str, channels: int, kernel: list[int], *, transposed: bool = False, **more: Any
) -> Any:
    op = "conv_transpose" if transposed else "conv"
    return {"name": name, "op": op, "inputs": [source], "out_channels": channels, "kernel": kernel} | more


CONVS = Network.build(
    "convs",
    [
        {"name": "in", "op": "input", "shape": [1, 7, 6]},
        _conv("n0", "in", 8, [2, 2], stride=[1, 3]),
        _conv("n1", "n0", 8, [2, 3], stride=[2, 1], pads=[0, 1, 0, 0]),
        _conv("n2", "n1", 3, [3, 2], transposed=True, stride=2, pads=[1, 0, 1, 0], output_padding=[0, 1]),
        _conv("n3", "n2", 2, [2, 2], stride=[1, 3], pads=[0, 1, 1, 1]),
        _conv("n4", "n3", 1, [2, 4], transposed=True, stride=2, pads=1),
    ],
)
LINEARS = Network.build(
    "linears",
    [
        {"name": "in", "op": "input", "shape": [1, 9, 1]},
        {"name": "n0", "op": "linear", "inputs": ["in"], "out_features": 6},
        {"name": "n1", "op": "linear", "inputs": ["n0"], "out_features": 12},
        {"name": "n2", "op": "linear", "inputs": ["n1"], "out_features": 6},
        {
            "name": "n3",
            "op": "linear",
            "inputs": ["n2"],
            "out_features": 10,
            "weight_bits": 1,
            "input_bits": 2,
        },
        {"name": "n4", "op": "linear", "inputs": ["n3"], "out_features": 7},
    ],
)


def _clocked(
    side: tuple[int, int], areas: tuple[int, int], numbers: tuple[int, int], **more: Any
) -> Hardware:
    """Two kinds with clocks of their own: the large one has twice the wordlines and bitlines."""
    kinds: list[dict[str, Any]] = [{"name": "small"}, {"name": "large"}]
    for factor, kind, area, number in zip((1, 2), kinds, areas, numbers, strict=True):
        kind |= {"arrays": number, "energy": {"area_um2": float(area)}}
        kind["crossbar"] = {"wordlines": factor * side[0], "bitlines": factor * side[1]}
    kinds[1]["timing"] = {"read_ns": 5.0}
    document = {"name": "two", "source": "generated", "energy": {"area_um2": float(areas[0])}, "kinds": kinds}
    more["crossbar"] |= {"wordlines": side[0], "bitlines": side[1], "cell_bits": 4}
    more["precision"] |= {"input_bits": 8, "output_bits": 8}
    more["timing"] |= {"read_ns": 5.0, "dac_bits": 1, "clock": "own"}
    return Hardware.model_validate(document | more)


CONVS_ON = _clocked(
    (8, 8), (5, 20), (9, 29),
    crossbar={}, precision={"weight_bits": 2, "signed": "offset"},
    timing={"adc_ns": 1.3, "columns_per_adc": 8, "tick_ns": 2.5},
)  # fmt: skip
LINEARS_ON = _clocked(
    (16, 32), (10, 5), (7, 5),
    crossbar={"slices": "arrays"}, precision={"weight_bits": 4, "signed": "differential"},
    timing={"rows_per_read": 4},
)  # fmt: skip


@pytest.mark.parametrize(
    ("network", "machine", "budget", "kinds", "copies", "makespan"),
    [
        pytest.param(CONVS, CONVS_ON, None, (1, 1, 1, 1, 0), (6, 3, 6, 6, 8), 126, id="the fastest"),
        pytest.param(CONVS, CONVS_ON, 380, (1, 1, 1, 0, 1), (4, 1, 4, 4, 5), 149, id="within an area"),
        pytest.param(LINEARS, LINEARS_ON, 55, (0, 0, 1, 1, 1), (1, 1, 2, 1, 2), 1080, id="the least area"),
    ],
)
def test_labels_keep_an_allocation_that_meets_the_target(
    network: Network, machine: Hardware, budget: int | None,
    kinds: tuple[int, ...], copies: tuple[int, ...], makespan: int,
) -> None:  # fmt: skip
    """Prices of what two limits leave: labels that the first one removes are paid for by the second, too.

    The makespans are those of all allocations, timed one by one.
    """
    problem = Case(network, machine).problem(MAX_ARRAYS)
    if budget is not None:
        problem = replace(problem, budget=budget * problem.resources.per_unit)
    modes = tuple(mode._replace(kind=kind) for mode, kind in zip(problem.graph.modes, kinds, strict=True))
    found = problem.choice(np.array(copies), modes)
    assert found.makespan == makespan
    assert problem.holds(found.copies, found.modes)
    menu = Menu.of(problem)
    bounder = ModeBounder(problem, menu)
    for left in bounder.tightening(bounder.everything, makespan, Work()):
        assert left is not None
        for stage, (mode, count, rows) in enumerate(zip(modes, copies, left, strict=True)):
            own = menu.stages[stage]
            kept = [at for at in rows.tolist() if own.mode(at).kind == mode.kind]
            assert any(own.low[at] <= count <= own.high[at] for at in kept)


@pytest.mark.parametrize("divide", [None, "windows"])
def test_a_kind_that_holds_a_layer_in_no_mode(divide: Any) -> None:
    """docs/sources/model.md 18: one small and one large array hold a and b, b none but the large one."""
    found = rramalloc.optimize(HAND, hardware=hardware(1, 1), mapping="sdk", copies_divide=divide)
    assert (found.makespan, found.lower_bound, found.arrays.used) == (5, 5, 2)
    assert [layer.kind for layer in found.layers] == ["small", "large"]


@pytest.mark.parametrize("divide", [None, "windows"])
def test_a_precision_that_fits_in_no_mode(divide: Any, tmp_path: Path) -> None:
    """Cells of 8 bits: b takes 4 arrays with 16 bits, of which a leaves 3, and 2 with 8 bits."""
    path = tmp_path / "bits.csv"
    path.write_text("layer,weight_bits,input_bits,sensitivity\na,8,16,0\nb,16,16,0\nb,8,16,1\n")
    machine = hardware(None, None, kinds=None, areas=False)
    machine = machine.with_values({"crossbar.cell_bits": 8})
    found = rramalloc.optimize(HAND, 4, hardware=machine, mapping="sdk", bits=path, copies_divide=divide)
    assert (found.makespan, found.lower_bound, found.layers[1].weight_bits) == (5, 5, 8)


def test_copies_that_are_held_share_the_arrays_of_every_kind() -> None:
    """Five layers of 24 windows on 6 small and 6 large arrays, which hold 4 and 8 copies; two at least.

    Layer i starts at i and must end at i + 2 for 6 steps: 12 copies, 3 small or 2 large arrays, 12 arrays in
    all. In 5 steps each would need 24 copies. One large array for each takes 3 batches: 7 steps.
    """
    nodes: list[dict[str, Any]] = [{"name": "in", "op": "input", "shape": [4, 24, 1]}]
    for name in "abcde":
        nodes.append({"name": name, "op": "linear", "inputs": [nodes[-1]["name"]], "out_features": 4})
    held = {"hardware": hardware(6, 6, areas=False), "mapping": "sdk", "copies": {"*": "2.."}}
    network = Network.build("held", nodes)
    found = rramalloc.optimize(network, **held)
    assert (found.makespan, found.lower_bound) == (6, 6)
    front = rramalloc.pareto(network, work=5, **held)
    assert [(point.arrays, point.value) for point in front.points] == [(5, 7), (12, 6)]


def test_the_least_sum_of_layer_times_keeps_to_every_kind() -> None:
    """docs/sources/model.md 18: 4 small arrays and a large one: a four times takes 1 step, b once 4.

    In all 5 arrays allow 4 steps, a and b twice, of which b would take 2 large ones.
    """
    found = rramalloc.optimize(HAND, hardware=hardware(4, 1, areas=False), objective="sequential")
    assert (found.objective_value, found.lower_bound, found.copies) == (5, 5, {"a": 4, "b": 1})


def test_an_interval_that_no_choice_of_kinds_reaches() -> None:
    """docs/sources/model.md 18: with one small and one large array a and b take 4 steps; none takes 1."""
    memory = {"bandwidth_gb_s": 1.0, "reuse": "none", "scope": "shared"}
    problem = Case(HAND, hardware(1, 1, timing={"step_ns": 10.0}, memory=memory)).problem(MAX_ARRAYS)
    search = interval.search_of_fewest(problem, Work(), 1e9)
    assert search.bound_of(problem, 1, 1, 1) == search.search_of(problem, 1, 1, 1).value == math.inf
    assert search.bound_of(problem, 4, 4, 1) == search.search_of(problem, 4, 4, 1).value == problem.minimum


def test_bits_without_a_choice_stay_on_each_kind_alone() -> None:
    """Each kind alone holds the layers with the bits of the table, not with their own 16."""
    table = BitTable({"a": (BitChoice(8, 8, 0.0),), "b": (BitChoice(8, 4, 0.0),)})
    case = Case(HAND, hardware(9, 9)).choosing(table.with_limit(1.0))
    alone = dict(on_each_kind(case.problem(MAX_ARRAYS)))
    assert list(alone) == [0, 1]
    for kind, problem in alone.items():
        modes = auto.solve(problem, Work(work=LITTLE), 0).choice.modes
        assert [mode[-3:] for mode in modes] == [(8, 8, kind), (8, 4, kind)]


@pytest.mark.usefixtures("no_enumeration")
def test_energy_with_no_work_is_that_of_the_best_first_allocation() -> None:
    """Every kind alone and the fullest kinds come before any search."""
    energy = {"read_pj": 1.0, "leakage_mw": 0.1, "area_um2": 100.0}
    document = hardware(SMALL, LARGE, energy=energy, timing={"step_ns": 10.0}, areas=False).to_dict()
    document["kinds"][1]["energy"] = {"read_pj": 9.0, "leakage_mw": 0.9, "area_um2": 150.0}
    machine = Hardware.model_validate(document)
    found = rramalloc.optimize("alexnet", hardware=machine, objective="energy", work=0).energy_pj
    assert found is not None
    for name in ("fullest-kind", "single-kind"):
        other = rramalloc.optimize("alexnet", hardware=machine, method=name, work=1).energy_pj
        assert other is not None
        assert found <= other


def test_no_time_at_all_leaves_a_menu() -> None:
    """A limit of time ends the search for the smallest interval at once: prices are those of any interval."""
    menu = Menu.of(Case(HAND, hardware(2, 1)).problem(MAX_ARRAYS), Work(work=1, time_limit_s=1e-9))
    assert {mode.kind for mode in menu.blocks.modes()} == {0, 1}


def test_energy_that_is_not_given_is_named_with_its_kind() -> None:
    """Each kind with the field that it lacks, of a digital unit under the name that its table has."""
    timing = {"step_ns": 10.0, "clock": "own", "tick_ns": 1.0}
    document = hardware(SMALL, LARGE, timing=timing, areas=False).to_dict()
    document["kinds"][0]["energy"] = {"read_pj": 1.0, "leakage_mw": 0.1}
    document["kinds"][1] = {"name": "unit", "arrays": 1, "processor": {"macs_per_ns": 1.0, "area_um2": 9.0}}
    machine = Hardware.model_validate(document)
    of_unit = r"\(kind 'unit' has no processor.pj_per_mac and no processor.leakage_mw\)"
    for options in ({"objective": "energy"}, {"at_most": {"power_mw": 1.0}}):
        with pytest.raises(RramallocError, match=f"{of_unit}$"):
            rramalloc.optimize(HAND, hardware=machine, **options)
    with pytest.raises(RramallocError, match=r"\(kind 'small' has no energy.area_um2\)$"):
        Area(Case(HAND, machine).problem(MAX_ARRAYS))


def test_budgets_of_one_menu_share_what_intervals_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least interval that fits is a length of a stage; what each costs is asked once."""
    problem = Case(load("alexnet"), hardware(SMALL, LARGE, areas=False)).problem(SMALL + LARGE)
    own, cheapest = Menu.of(problem), Menu.cheapest
    budgets = np.linspace(problem.minimum, int(problem.budget), 40).astype(int).tolist()
    asked = list[int]()

    def counted(menu: Menu, length: int, stop: Work | None = None) -> Any:
        asked.append(length)
        return cheapest(menu, length, stop)

    with monkeypatch.context() as patched:
        patched.setattr(Menu, "cheapest", counted)
        found = [own.smallest_interval(replace(problem, budget=budget)) for budget in budgets]
    assert len(asked) == len(set(asked)) <= len(own.lengths)
    for budget, least in zip(budgets, found, strict=True):
        assert cheapest(own, least)[1] <= budget < cheapest(own, least - 1)[1]
