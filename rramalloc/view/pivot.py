"""Values of networks, budgets and methods: a table with a column a method, and a chart of small multiples."""

from __future__ import annotations

from collections.abc import Sequence
from operator import methodcaller
from typing import Any, NamedTuple

from rramalloc.chart import LAYERS, SHAPES, Axis, Chart, Key, Lists, Marks, Panel, label, labels, named
from rramalloc.choices import By
from rramalloc.units import counted
from rramalloc.view.view import Column, Table

MOST_PANELS = 24  # of a picture that is still readable
BESIDE = 3  # panels beside each other
_LONGEST_TITLE = 36  # characters above a panel that stands beside others


class Cell(NamedTuple):
    """A value of a method on a network within a budget."""

    network: str
    budget: int | str
    method: str
    value: float


def pivot_table(cells: Sequence[Cell], unit: str) -> Table:
    """Return a row for each network and budget, with a column for each method, all in one unit."""
    lines: dict[tuple[str, int | str], dict[str, Any]] = {}
    for cell in cells:
        line = {"network": cell.network, "arrays": cell.budget}
        lines.setdefault((cell.network, cell.budget), line)[cell.method] = cell.value
    largest = max((abs(cell.value) for cell in cells), default=0.0)
    columns = [Column(name, name, methodcaller("get", name)) for name in ("network", "arrays")]
    columns += [
        Column(name, name, methodcaller("get", name), given=unit or "steps", largest=largest)
        for name in dict.fromkeys(cell.method for cell in cells)
    ]
    return Table("Methods", [*lines.values()], tuple(columns))


def pivot_chart(cells: Sequence[Cell], by: By, up: str, unit: str, of: str, order: Sequence[str]) -> Chart:
    """Return a panel for each network, budget or method; every method has one colour, in whatever chart.

    up, unit: what the values are; of: what all are about; order: of all methods, from which colours follow.
    """
    groups: dict[str, list[Cell]] = {}
    ranks = _ranks(cells) if by == "budget" else {}
    for cell in cells:
        own = {"network": cell.network, "budget": _arrays(cell.budget), "method": cell.method}[by]
        groups.setdefault(ranks.get(cell[:2], own), []).append(cell)
    drawn = [*groups.values()][:MOST_PANELS]
    titles = labels([*groups], _LONGEST_TITLE)
    panels = tuple(
        _panel(title, group, by, up, unit, order) for title, group in zip(titles, drawn, strict=False)
    )
    heading: tuple[str, ...] = (label(of, 80),)
    if len(drawn) < len(groups):
        heading += (f"the first {len(drawn)} of {len(groups):,} panels",)
    summary = f"{up}: {counted(len(groups), 'panel')}, one a {by}; the table has all values."
    return Chart(f"Methods by {by}", panels, summary, heading, zoom="", columns=BESIDE)


def _ranks(cells: Sequence[Cell]) -> dict[tuple[Any, ...], str]:
    """Return the panels of networks and budgets where budgets are multiples of each network's minimum.

    Few networks share a number then: the first budgets of all are one panel, the second ones the next.
    """
    budgets: dict[str, list[Any]] = {}
    for network, budget in dict.fromkeys(cell[:2] for cell in cells):
        budgets.setdefault(network, []).append(budget)
    if len({len(own) for own in budgets.values()}) > 1 or len({tuple(own) for own in budgets.values()}) == 1:
        return {}
    ranks: dict[tuple[Any, ...], str] = {}
    for place, alike in enumerate(zip(*budgets.values(), strict=True), 1):
        words = f"budget {place}: {min(alike):,} to {_arrays(max(alike))}"
        ranks |= dict.fromkeys(zip(budgets, alike, strict=True), words)
    return ranks


def _across(cell: Cell, by: By) -> str:
    """Return the name below a value in its panel."""
    whole = f"{cell.network}, {cell.budget}"
    return {"network": str(cell.budget), "budget": cell.network, "method": whole}[by]


def _arrays(budget: int | str) -> str:
    return counted(budget, "array") if isinstance(budget, int) else f"{budget} arrays"


def _panel(title: str, cells: Sequence[Cell], by: By, up: str, unit: str, order: Sequence[str]) -> Panel:
    """Return a panel: points in the colours of their methods, joined along the budgets of a network."""
    names = [*dict.fromkeys(_across(cell, by) for cell in cells)]
    layers = []
    for method in dict.fromkeys(cell.method for cell in cells):
        members = [cell for cell in cells if cell.method == method]
        data: Lists = {
            "x": [names.index(_across(cell, by)) for cell in members],
            "y": [cell.value for cell in members],
            "method": [method] * len(members),
            "at": [f"{cell.network}, {_arrays(cell.budget)}" for cell in members],
        }
        key = _key(method, order)
        if by == "network":
            layers.append(Marks({"type": "line"}, data, {"x": "x", "y": "y"}, key))
        points = {"type": "point", "filled": True, "opacity": 1, "size": 45}
        hover = {**named("method, at"), f"{up} [{unit}]" if unit else up: "y"}
        layers.append(Marks(points, data, {"x": "x", "y": "y", "shape": {}}, key, hover))
    across = Axis.of_names(names, "arrays" if by == "network" else "")
    axis = Axis.around(up, [cell.value for cell in cells], unit=unit)
    return Panel(across, axis, 150, tuple(layers), title)


def _key(method: str, order: Sequence[str]) -> Key:
    """Return the colour and shape of a method, also of one that is not installed here."""
    place = order.index(method) if method in order else sum(method.encode())
    return Key(label(method, 60), LAYERS[place % len(LAYERS)], SHAPES[place % len(SHAPES)])
