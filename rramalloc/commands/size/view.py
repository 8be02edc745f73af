"""View of a sizing: the chip, the bounds of the cost of every candidate, and the networks on the chip."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from rramalloc.chart import (
    BLUE,
    GREEN,
    RED,
    Axis,
    Chart,
    Key,
    Lists,
    Marks,
    Panel,
    label,
    labels,
    lists,
    named,
    row_height,
    rule,
)
from rramalloc.commands.size.sizing import CHOSEN, Candidate, Sizing
from rramalloc.units import counted, duration, number_of
from rramalloc.view.view import FIGURE, Detail, Fact, View, table

_MOST_DRAWN = 32  # candidates, one below the other, so that their names can be read
_LONGEST_CHOICES = 44  # letters of the names of candidates
_CHOSEN = Key("cost of the chosen chip", GREEN, "diamond")
_COST = Key("cost with the best allocations known", BLUE, "circle")
_BOUND = Key("least cost possible", RED)


def sizing_view(sizing: Sizing) -> View:
    """Return the view: the costs of candidates, the values of the networks' goals, and all candidates."""
    unit = sizing.cost_unit
    candidates = table(
        "Candidates",
        sizing.candidates,
        f"choices=text, arrays=arrays_at_most, at least=cost_at_least[{unit}], "
        f"cost=cost_at_most[{unit}], why",
    )
    reached = "network=name, goal=wanted, reached, arrays"
    names = ", ".join(network.name for network in sizing.networks)
    return View.of(
        sizing,
        kind="Size",
        title=f"A chip for {label(names, 60)}",
        sentence=f"The chosen chip costs {sizing.quantity(sizing.cost)}; {sizing.proof}",
        facts=_facts(sizing),
        tables=(candidates, table("Networks on the chip", sizing.networks, reached, shown=0)),
        charts={"cost": partial(cost_chart, sizing)},
    )


def _facts(sizing: Sizing) -> Iterator[Fact]:
    chip = sizing.chip
    for network in sizing.networks:
        reached = "" if network.reached is None else f", reached {network.reached}"
        words = f"{network.wanted}{reached} with {number_of(network.arrays, 'array')}"
        yield Fact("network", f"{network.name}, {words}")
    tiles = "" if chip.tiles is None else f" in {number_of(chip.tiles, 'tile')}"
    each = ", ".join(f"{number:,} {name}" for name, number in sizing.by_kind.items())
    kinds = f" ({each})" if each else ""
    arrays = f"{number_of(chip.arrays, 'array')}{kinds} of {chip.hardware.sizes}{tiles}"
    yield Fact("chip", f"{chip.hardware.name}, {arrays}")
    yield Fact(sizing.minimise.partition("_")[0], sizing.cost, sizing.cost_unit, sizing.counted_tiles)
    yield Fact("lower bound", sizing.lower_bound, sizing.cost_unit)
    yield Fact("gap", sizing.gap, "share", "from optimal at most")
    yield Fact("proof", sizing.proof)
    every = number_of(len(sizing.candidates), "candidate")
    work = f", {duration(1e9 * sizing.work_s)} of work" if sizing.work_s else ", by bounds alone"
    to_end = "to its end" if len(sizing.candidates) == 1 else "to their end"
    yield Fact("search", f"{sizing.searched} of {every} {to_end}{work}")


def cost_chart(sizing: Sizing, *, detail: Detail = FIGURE) -> Chart:
    """Chart the lower bound and the best known cost of candidates, the lowest bounds first."""
    able = [candidate for candidate in sizing.candidates if not candidate.is_infeasible]
    shown = sorted(able, key=lambda candidate: (candidate.cost_at_least, candidate.why != CHOSEN))
    shown = shown[: min(_MOST_DRAWN, detail.marks)]
    unit = sizing.cost_unit
    hover = named(f"candidate, at least [{unit}]=least, cost [{unit}]=cost, arrays, why")
    tick = {"type": "tick", "orient": "vertical", "thickness": 2.5, "size": 13, "opacity": 1}
    layers = [Marks(tick, _data(shown, shown), {"x": "least", "y": "row"}, _BOUND, hover)]
    for key, is_chosen in ((_COST, False), (_CHOSEN, True)):
        known = [
            candidate
            for candidate in shown
            if candidate.cost_at_most is not None and (candidate.why == CHOSEN) == is_chosen
        ]
        point = {"type": "point", "filled": True, "size": 60, "opacity": 1}
        if known:
            layers.append(
                Marks(point, _data(known, shown), {"x": "cost", "y": "row", "shape": {}}, key, hover)
            )
    layers.append(rule(sizing.cost, "x"))
    costs = [sizing.cost, *(candidate.cost_at_least for candidate in shown)]
    costs += [candidate.cost_at_most for candidate in shown if candidate.cost_at_most is not None]
    choices = labels(_names(shown), _LONGEST_CHOICES)
    names = Axis("", -0.6, len(shown) - 0.4, names=choices)
    what = "area" if sizing.minimise == "area_um2" else "arrays of the chip"
    across = Axis.around(what, costs, unit="" if unit == "arrays" else unit)
    notes = []
    if infeasible := len(sizing.candidates) - len(able):
        notes.append(f"{counted(infeasible, 'candidate')} out of reach of the goals.")
    if len(shown) < len(able):
        notes.append(f"The {len(shown):,} of {len(able):,} other candidates with the least bounds are drawn.")
    networks = ", ".join(network.name for network in sizing.networks)
    return Chart(
        "Cost of the candidates",
        (Panel(across, names, row_height(len(shown)), tuple(layers)),),
        f"The chosen chip costs {sizing.quantity(sizing.cost)}, no candidate less than "
        f"{sizing.quantity(sizing.lower_bound)}; the table has all candidates.",
        (f"{label(networks, 40)}: {sizing.quantity(sizing.cost)}, {sizing.status}",),
        zoom="x",
        note=" ".join(notes),
    )


def _names(shown: list[Candidate]) -> list[str]:
    """Return names of candidates by the values in which they differ, without those tied to an earlier one."""
    differing: dict[str, list[str]] = {}
    for field in shown[0].choices:
        values = [str(candidate.choices[field]) for candidate in shown]
        others = [set(zip(earlier, values, strict=True)) for earlier in differing.values()]
        is_tied = any(len(pairs) == len({earlier for earlier, _ in pairs}) for pairs in others)
        if len(set(values)) > 1 and not is_tied:
            differing[field] = values
    if not differing:
        return [candidate.text for candidate in shown]
    short = [field.rpartition(".")[2] for field in differing]
    names = short if len(set(short)) == len(short) else list(differing)
    rows = zip(*differing.values(), strict=True)
    return [", ".join(f"{field} {value}" for field, value in zip(names, row, strict=True)) for row in rows]


def _data(candidates: list[Candidate], shown: list[Candidate]) -> Lists:
    """Return the columns of marks; the row of each is its place among the candidates shown."""
    data = lists(
        candidates, "candidate=text, least=cost_at_least, cost=cost_at_most, arrays=arrays_at_most, why"
    )
    return data | {"row": [shown.index(candidate) for candidate in candidates]}
