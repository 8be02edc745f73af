"""Results show themselves: one line, a table that escapes names, a frame and plain data."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
import warnings
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands.evaluate import worked

import rramalloc
from rramalloc.commands.chiplet.chiplet_optimize import describe_network
from rramalloc.commands.export.export import export
from rramalloc.frozen import FrozenDict, FrozenList, frozen
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.performance import ChipPerformance
from rramalloc.mapping.options import DEFAULT_MAPPING
from rramalloc.network.network import Network
from rramalloc.result import Result
from rramalloc.timing.latency_table import LatencyRow, LatencyTable
from rramalloc.timing.measured_layer import MeasuredLayer
from rramalloc.units import counted
from rramalloc.view.charts import Charts as Figures
from rramalloc.view.html import section_html
from rramalloc.view.terminal import print_view
from rramalloc.view.text import csv_of, latex_of, markdown_of

HOSTILE = "<script>alert('&')</script>\n"
TAGS = {"div", "p", "small", "table", "thead", "tbody", "tr", "th", "td"}


class Steps:
    """A simulator whose figure is the makespan."""

    name = HOSTILE

    def evaluate(self, network: Network, allocation: rramalloc.Allocation) -> float:
        return allocation.makespan


def hostile_network() -> Network:
    nodes = [
        {"name": "in", "op": "input", "shape": [3, 6, 6]},
        {"name": HOSTILE, "op": "conv", "inputs": ["in"], "out_channels": 4, "kernel": 3},
    ]
    return Network.build(HOSTILE, nodes, warnings=[HOSTILE])


def hostile_hardware() -> Hardware:
    isaac = rramalloc.load_hardware("isaac").to_dict() | {"name": HOSTILE, "source": HOSTILE}
    return Hardware.model_validate_json(json.dumps(isaac))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One result of every kind, about a network, a layer and hardware whose names are markup."""
    network, hardware = hostile_network(), hostile_hardware()
    allocation = rramalloc.optimize(network, 4, hardware=hardware)
    placement = rramalloc.place(network, allocation)
    row = MeasuredLayer.of(network, network.nodes[1]).model_dump()
    table = LatencyTable(rows=(LatencyRow(**row, latency_ns=5.0, device=HOSTILE),), warnings=(HOSTILE,))
    folder = tmp_path_factory.mktemp("swept")
    spec = {"name": HOSTILE, "networks": "alexnet", "arrays": [100, 200], "methods": "uniform"}
    swept = rramalloc.sweep(spec, folder, jobs=1)
    writable = Hardware.model_validate(hardware.to_dict() | {"write": {"write_ns_per_row": 5.0}})
    described, _ = describe_network(network, hardware, DEFAULT_MAPPING)
    found = (
        network, hardware, allocation, placement, table, swept, rramalloc.sweep_status(folder),
        rramalloc.inspect(network, hardware=hardware), rramalloc.simulate(network, allocation),
        rramalloc.compare(network, 4, hardware=hardware, methods=["none", "uniform"]),
        rramalloc.pareto(network, 4, hardware=hardware), rramalloc.verify(network, allocation, placement),
        rramalloc.fold(network), rramalloc.fold_filter((64, 3, 3, 3), align=16),
        rramalloc.chiplet_cost(network, allocation, placement), rramalloc.estimate_latency(network, table),
        rramalloc.evaluate(network, ChipPerformance(**worked.CHIP), allocations={HOSTILE: 2}),
        export(network, allocation, "pimcomp"), rramalloc.chiplet_compare([described, described]),
        rramalloc.chiplet_optimize(network, hardware=hardware, work=0), rramalloc.tune(network, 4, Steps()),
        rramalloc.optimize_reload(network, 4, hardware=writable),
    )  # fmt: skip
    return {type(result).__name__: result for result in found}


KINDS = (
    "Allocation", "ChipletComparison", "ChipletCost", "ChipletSchedule", "Comparison",
    "Evaluation", "Export", "FilterFold", "Hardware", "Inspection",
    "LatencyEstimate", "LatencyTable", "Network", "NetworkFold", "ParetoFront", "Placement", "ReloadPlan",
    "Simulation",
    "SweepResult", "SweepStatus", "Tuning", "Verification",
)  # fmt: skip


def changeable(value: Any, path: str, seen: set[int]) -> list[str]:
    """Where something that can be changed is reached from a value by its attributes and items."""
    if id(value) in seen or isinstance(value, str | bytes | int | float | Path | type(None) | type):
        return []
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        return [path] if value.flags.writeable else []
    if isinstance(value, dict | Mapping):
        inner = [changeable(each, f"{path}[{name!r}]", seen) for name, each in value.items()]
        return [*([] if isinstance(value, FrozenDict) else [path]), *itertools.chain(*inner)]
    if isinstance(value, list | set | bytearray) and not isinstance(value, FrozenList):
        return [path]
    if isinstance(value, tuple | frozenset | list):
        return [*itertools.chain(*(changeable(each, f"{path}[]", seen) for each in value))]
    if not type(value).__module__.startswith("rramalloc") or isinstance(value, Figures):
        return []
    own = {name: getattr(value, name) for name in dir(value) if not name.startswith("_")}
    # a property such as Hardware.without_write makes another of its kind, with the same property
    inner = [
        changeable(each, f"{path}.{name}", seen)
        for name, each in own.items()
        if type(each) is not type(value)
    ]
    return [*itertools.chain(*inner)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_cannot_be_changed(results: dict[str, Any], kind: str) -> None:
    result = results[kind]
    assert not changeable(result, kind, set())
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of pydantic, where a value is not of its annotation
        assert result.to_dict() == result.to_dict()
    copied = copy.deepcopy(result)
    assert copied.to_dict() == result.to_dict()
    assert not changeable(copied, kind, set())
    if kind != "Evaluation":  # it holds the functions that divide its tasks
        again = pickle.loads(pickle.dumps(result))  # noqa: S301
        assert again == result
        assert not changeable(again, kind, set())


@pytest.mark.parametrize("kind", KINDS)
def test_dir_shows_what_is_ours(results: dict[str, Any], kind: str) -> None:
    """Fields, properties and calls: nothing of pydantic, and nothing that is not for users."""
    names = dir(results[kind])
    assert not [name for name in names if name.startswith(("_", "model_"))]
    assert not {"construct", "parse_obj", "schema_json", "gather", "rows_in"} & {*names}
    assert {"to_dict", "to_frame", "save"} <= {*names}
    assert {name for name in results[kind].to_dict() if hasattr(results[kind], name)} <= {*names}


def test_a_frozen_dict_is_a_dict_that_stays() -> None:
    value = FrozenDict({"conv1": 4, "conv2": (1, 2)})
    for change in (
        lambda: value.__setitem__("conv1", 9),
        lambda: value.__delitem__("conv1"),
        lambda: value.__ior__({"conv1": 9}),
        lambda: value.update(conv1=9),
        lambda: value.pop("conv1"),
        lambda: value.setdefault("conv3", 9),
        value.popitem,
        value.clear,
    ):
        with pytest.raises(TypeError, match="cannot be changed"):
            change()
    assert value == {"conv1": 4, "conv2": (1, 2)}
    assert json.dumps(value) == '{"conv1": 4, "conv2": [1, 2]}'
    assert repr(value) == "{'conv1': 4, 'conv2': (1, 2)}"
    assert type(value | {"conv3": 1}) is type(dict(value)) is type(value.copy()) is dict
    for again in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):  # noqa: S301
        assert type(again) is FrozenDict
        assert again == value
    assert frozen({"a": [1, {2}], "b": ({"c": []},)}) == {"a": [1, frozenset({2})], "b": ({"c": []},)}
    assert not changeable(frozen({"a": [1, {2}], "b": ({"c": [[]]},)}), "", set())


def test_a_frozen_list_is_a_list_that_stays() -> None:
    value = FrozenList([3, 1, 2])
    changes = ("append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "__setitem__")
    for name in (*changes, "__delitem__", "__iadd__", "__imul__"):
        with pytest.raises(TypeError, match="cannot be changed"):
            getattr(value, name)(0)
    assert value == [3, 1, 2]
    assert json.dumps(value) == repr(value) == "[3, 1, 2]"
    for again in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):  # noqa: S301
        assert type(again) is FrozenList
        assert again == value


def test_copies_are_found_and_not_changed() -> None:
    allocation = rramalloc.optimize("alexnet", 400, work=1, copies={"conv1": 4})
    with pytest.raises(TypeError, match="results cannot be changed"):
        allocation.copies["conv1"] = 9
    with pytest.raises(TypeError, match="results cannot be changed"):
        allocation.options.copies["conv1"] = (9, 9)  # type: ignore[index]
    assert allocation.copies["conv1"] == 4
    assert rramalloc.simulate("alexnet", dict(allocation.copies) | {"conv1": 2}).layers[0].copies == 2
    assert rramalloc.simulate("alexnet", allocation.copies).makespan == allocation.makespan
    again = allocation.model_copy(update={"options": allocation.options.model_copy(update={"copies": {}})})
    with pytest.raises(TypeError):
        again.options.copies["conv1"] = (9, 9)  # type: ignore[index]


class Tags(HTMLParser):
    """Collects the tags of a page, and fails where they are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_has_all_forms(results: dict[str, Any], kind: str, tmp_path: Path) -> None:
    result = results[kind]
    assert json.loads(json.dumps(result.to_dict())) == result.to_dict()
    assert len(result.to_frame().columns) > 0
    for text in (str(result), repr(result)):
        assert text.isprintable()
        assert 10 < len(text) < 300
    assert repr(result) == f"<{kind} {result}>"
    if kind != "Export":
        result.save(tmp_path / "result.json")
        assert json.loads((tmp_path / "result.json").read_text()) == result.to_dict()
        again = rramalloc.read(tmp_path / "result.json")
        assert again.to_dict() == result.to_dict()
        assert again == result or kind in ("Evaluation", "Network", "SweepResult")
    page, tags = result._repr_html_(), Tags()
    tags.feed(page)
    tags.close()
    assert not tags.open
    assert tags.seen <= TAGS
    assert f"<small>({kind})</small>" in page
    named = kind not in ("FilterFold", "ChipletComparison", "ChipletCost", "SweepResult")
    assert not named or "&lt;script&gt;alert(" in page


@pytest.mark.parametrize("kind", KINDS)
def test_a_view_is_drawn_everywhere(results: dict[str, Any], kind: str) -> None:
    """By a terminal, a page and every file format; names of files and layers stay text in all of them."""
    view = results[kind].view()
    printed = print_view(view, None).text
    assert all(line.isprintable() for line in printed.splitlines())
    for fact in view.facts:
        assert fact.name in printed
    for text in (csv_of(view), markdown_of(view), latex_of(view)):
        assert all(line.isprintable() for line in text.splitlines())
    assert "<script>" not in markdown_of(view).replace("\\<", "")
    page = section_html(view, "r1")
    assert page.count("<script") == page.count('<script type="application/json"')
    assert page.count("<table") == len([table for table in view.tables if table.records])


class Long(Result):
    """As many rows as are wanted."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def _headline(self) -> tuple[str, str]:
        return "long", counted(self._rows, "row")

    def to_frame(self) -> pd.DataFrame:
        return pd.DataFrame({"row": range(self._rows), "half": [row / 2 for row in range(self._rows)]})


@pytest.mark.parametrize(
    ("rows", "shown", "cut"),
    [(0, 0, False), (1, 1, False), (24, 24, False), (25, 24, True), (4000, 24, True)],
)
def test_long_tables_are_cut_in_the_middle(rows: int, shown: int, cut: bool) -> None:
    page = Long(rows)._repr_html_()
    assert page.count("<tr><td>") == shown
    assert (f"The first and the last of {rows:,} rows." in page) == cut
    assert ("<table>" in page) == (rows > 0)
    assert not rows or f"<td>{rows - 1:,}</td>" in page


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (1234567, "1,234,567"),
        (0.123456789, "0.1235"),
        (None, "-"),
        (float("nan"), "-"),
        (pd.NA, "-"),
        (True, "yes"),
        ((3, 224, 224), "3x224x224"),
        ("a\tb", "a\\tb"),
        ("<b>", "&lt;b&gt;"),
        ({"a": 1}, "{&#x27;a&#x27;: 1}"),
    ],
)
def test_cells(value: object, cell: str) -> None:
    class One(Long):
        def to_frame(self) -> pd.DataFrame:
            return pd.DataFrame({"value": pd.Series([value], dtype=object)})

    assert f"<tr><td>{cell}</td></tr>" in One(1)._repr_html_()


@pytest.mark.parametrize(
    ("kind", "figures"),
    [
        ("Allocation", ("copies", "timeline", "convergence")),
        ("Simulation", ("copies", "timeline")),
        ("Comparison", ("methods",)),
        ("ParetoFront", ("front",)),
        ("Placement", ("chip_map",)),
    ],
)
def test_figures_of_results(
    results: dict[str, Any], kind: str, figures: tuple[str, ...], tmp_path: Path
) -> None:
    from rramalloc.chart import Chart

    plot = results[kind].plot
    assert repr(plot) == f"<figures of {kind}: {', '.join(sorted(figures))}>"
    for name in figures:
        drawn = getattr(plot, name)(save=tmp_path / f"{name}.svg")
        assert isinstance(drawn, Chart)
        assert drawn.panels
        assert (tmp_path / f"{name}.svg").read_text() == drawn._repr_svg_()
        assert drawn._repr_svg_().startswith("<svg")
