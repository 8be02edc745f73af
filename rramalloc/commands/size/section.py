"""Section of a sizing: the chip, what every candidate costs at least and at most, and the networks on it."""

from __future__ import annotations

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
    lists,
    named,
    row_height,
    rule,
)
from rramalloc.commands.size.sizing import CHOSEN, Candidate, Sizing
from rramalloc.page.section import (
    FIGURE,
    Block,
    Detail,
    Fact,
    Section,
    hardware_words,
    network_words,
    table,
    warning_notes,
)
from rramalloc.units import counted, share

_MOST_DRAWN = 32  # candidates, one below the other, so that their names can be read
_LONGEST_CHOICES = 44  # letters of the names of candidates
_CHOSEN = Key("cost of the chosen chip", GREEN, "diamond")
_COST = Key("cost with the best allocations known", BLUE, "circle")
_BOUND = Key("least cost possible", RED)


def sizing_section(sizing: Sizing, detail: Detail) -> Section:
    """Return the section: the chip, the costs of candidates, what the networks reach, and all candidates."""
    chip, many = sizing.chip, len(sizing.candidates)
    tiles = "" if chip.tiles is None else f"in {counted(chip.tiles, 'tile')}"
    facts = (
        Fact("Area" if sizing.minimise == "area_um2" else "Arrays", sizing.quantity(sizing.cost)),
        Fact("Gap", share(sizing.gap), sizing.status),
        Fact("Arrays used", f"{chip.arrays:,}", tiles),
        Fact("Candidates", f"{many:,}", f"{sizing.searched:,} searched to their end"),
    )
    names = ", ".join(network.name for network in sizing.networks)
    blocks: list[Block] = [cost_chart(sizing, detail)]
    reached = "Network=name, Goal=wanted, Reached float=reaches, Arrays int"
    blocks.append(table("Networks on the chip", reached, sizing.networks, detail, folded=False))
    unit = sizing.cost_unit
    every = (
        f"Choices=text, Arrays int=arrays_at_most, At least [{unit}] float=cost_at_least, "
        f"Cost [{unit}] float=cost_at_most, Why"
    )
    blocks.append(table("Candidates", every, sizing.candidates, detail))
    return Section(
        title=f"A chip for {label(names, 60)}",
        subtitle=f"Size · {hardware_words(chip.hardware)}",
        facts=facts,
        blocks=(*warning_notes(sizing.warnings), *blocks),
        limit=f"{sizing.proof[0].upper()}{sizing.proof[1:]}",
        headline=f"{sizing.quantity(sizing.cost)}, {sizing.status}",
        made=(
            *(("Network", network_words(network.allocation.network)) for network in sizing.networks),
            ("Hardware", hardware_words(chip.hardware)),
            ("Seed, work", f"{sizing.seed}, {sizing.work} units for a network on a candidate"),
            ("rramalloc", sizing.rramalloc_version),
        ),
    )


def cost_chart(sizing: Sizing, detail: Detail = FIGURE) -> Chart:
    """Chart what candidates cost at least, and with the best allocations known; the cheapest bounds first."""
    able = [own for own in sizing.candidates if not own.is_infeasible]
    shown = sorted(able, key=lambda own: (own.cost_at_least, own.why != CHOSEN))
    shown = shown[: min(_MOST_DRAWN, detail.marks)]
    unit = sizing.cost_unit
    hover = named(f"candidate, at least [{unit}]=least, cost [{unit}]=cost, arrays, why")
    tick = {"type": "tick", "orient": "vertical", "thickness": 2.5, "size": 13, "opacity": 1}
    layers = [Marks(tick, _data(shown, shown), {"x": "least", "y": "row"}, _BOUND, hover)]
    for key, is_chosen in ((_COST, False), (_CHOSEN, True)):
        known = [own for own in shown if own.cost_at_most is not None and (own.why == CHOSEN) == is_chosen]
        point = {"type": "point", "filled": True, "size": 60, "opacity": 1}
        if known:
            layers.append(
                Marks(point, _data(known, shown), {"x": "cost", "y": "row", "shape": {}}, key, hover)
            )
    layers.append(rule(sizing.cost, "x"))
    costs = [sizing.cost, *(own.cost_at_least for own in shown)]
    costs += [own.cost_at_most for own in shown if own.cost_at_most is not None]
    choices = tuple(label(own.text, _LONGEST_CHOICES) for own in shown)
    names = Axis("", -0.6, len(shown) - 0.4, names=choices)
    what = "area" if sizing.minimise == "area_um2" else "arrays of the chip"
    across = Axis.around(f"{what} [{unit}]" if unit != "arrays" else what, costs)
    beyond = []
    if infeasible := len(sizing.candidates) - len(able):
        beyond.append(f"{counted(infeasible, 'candidate')} out of reach of the goals.")
    if len(shown) < len(able):
        beyond.append(
            f"The {len(shown):,} of {len(able):,} other candidates with the least bounds are drawn."
        )
    networks = ", ".join(network.name for network in sizing.networks)
    return Chart(
        "Cost of the candidates",
        (Panel(across, names, row_height(len(shown)), tuple(layers)),),
        f"The chosen chip costs {sizing.quantity(sizing.cost)}, no candidate less than "
        f"{sizing.quantity(sizing.lower_bound)}; the table has all candidates.",
        (f"{label(networks, 40)}: {sizing.quantity(sizing.cost)}, {sizing.status}",),
        zoom="x",
        note=" ".join(beyond),
    )


def _data(candidates: list[Candidate], shown: list[Candidate]) -> Lists:
    """Return the columns of marks; the row of each is its place among the candidates shown."""
    data = lists(
        candidates, "candidate=text, least=cost_at_least, cost=cost_at_most, arrays=arrays_at_most, why"
    )
    return data | {"row": [shown.index(own) for own in candidates]}
