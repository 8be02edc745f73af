"""Section of an explanation: the layers that the result waits for, and the points beside it."""

from __future__ import annotations

from rramalloc.commands.explain.explanation import Explanation
from rramalloc.page.section import Detail, Fact, Section, section_of, table_of
from rramalloc.units import counted, quantity

_COLUMNS = (
    "name replication arrays busy critical waiting slack reads conversions read_ns converter_ns array_ns "
    "memory_ns transfer_ns step_ns binds"
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
        blocks=(table_of("Layers and the parts of their step", layers, _COLUMNS, detail, folded=False),),
        limit=". ".join(lines[label] for label in ("critical path", "step", "batch") if label in lines),
        headline=quantity(made.value, made.unit),
        made=tuple((label.capitalize(), words) for label, words in made.lines[3:]),
    )
