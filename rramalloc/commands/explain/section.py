"""Section of an explanation: the layers that the result waits for, and the points beside it."""

from __future__ import annotations

from collections.abc import Iterator

from rramalloc.chart import BLUE, ORANGE, Chart, Key
from rramalloc.commands.explain.explanation import Explanation
from rramalloc.page.section import Bars, Detail, Fact, Section, section_of, stacked_bars, table_of
from rramalloc.units import counted, quantity

_COLUMNS = (
    "name kind copies arrays busy critical waiting slack reads conversions read_ns converter_ns "
    "array_ns memory_ns transfer_ns step_ns binds"
).split()


def explanation_section(made: Explanation, detail: Detail) -> Section:
    """Return the section: headline, time on the critical path, and the layers."""
    layers, lines = made.layers, dict(made.lines)
    points = (("Next cheaper", made.cheaper.point), ("Next faster", made.faster.point))
    return section_of(
        "Explanation",
        made,
        title=f"{made.network.name}: what holds {counted(made.arrays, 'array')} back",
        facts=(
            Fact(made.objective.capitalize(), quantity(made.value, made.unit)),
            *(
                Fact(label, counted(point.arrays, "array"), quantity(point.value, made.unit))
                for label, point in points
                if point is not None
            ),
        ),
        blocks=(
            *_gains(made, detail),
            table_of("Layers and the parts of their step", layers, _COLUMNS, detail, folded=False),
        ),
        limit=". ".join(lines[label] for label in ("critical path", "step", "batch") if label in lines),
        headline=quantity(made.value, made.unit),
        made=tuple((label.capitalize(), words) for label, words in made.lines[3:]),
    )


def _gains(made: Explanation, detail: Detail) -> Iterator[Chart]:
    """Yield a bar for every change of the hardware that gains anything."""
    names, least, more = list[str](), list[float](), list[float]()
    for each in made.what_if:
        if each.gain and each.as_it_is is not None and each.searched is not None:
            now = each.searched.value / (1 - each.gain)
            names.append(each.change)
            least.append(100 * max(0.0, 1 - each.as_it_is.value / now))
            more.append(100 * each.gain - least[-1])
    if names:
        bars: Bars = ((Key("as it is", BLUE), least), (Key("searched again", ORANGE), more))
        yield stacked_bars("What if: gain of a change", "change", "shorter [%]", names, bars, detail)
