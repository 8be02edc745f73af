"""Section of an inspection: the stages, what they take, and the least budget."""

from __future__ import annotations

from rramalloc.allocation.inspection import Inspection
from rramalloc.chart import BLUE, Key
from rramalloc.page.section import Bars, Detail, Fact, Section, section_of, stacked_bars, table_of
from rramalloc.units import counted

_COLUMNS = (
    "name", "op", "input", "output", "kernel", "stride", "groups", "windows", "arrays_per_copy",
    "utilisation", "weights", "macs", "weight_bits", "input_bits",
)  # fmt: skip


def inspection_section(result: Inspection, detail: Detail) -> Section:
    """Headline, arrays of one copy of every stage, and the stages."""
    layers, weights = result.layers, result.coverage.weights
    bars: Bars = ((Key("arrays of one copy", BLUE), [float(layer.arrays_per_copy) for layer in layers]),)
    names = [layer.name for layer in layers]
    blocks = (
        stacked_bars("Arrays per copy of the stages", "stage", "arrays", names, bars, detail),
        table_of("Stages", layers, _COLUMNS, detail, folded=False),
    )
    most = max(layers, key=lambda layer: layer.arrays_per_copy, default=None)
    return section_of(
        "Inspection",
        result,
        title=f"{result.network.name}: {counted(len(layers), 'stage')}",
        facts=(
            Fact("Least budget", counted(result.minimum, "array"), "every stage stored once"),
            Fact("Saturation", counted(result.saturation, "array"), "more are of no use"),
            Fact("Weights on arrays", f"{weights.on_arrays:,}", f"of {weights.total or weights.on_arrays:,}"),
        ),
        blocks=blocks if layers else (),
        limit="" if most is None else f"{most.name} takes most arrays for one copy, {most.arrays_per_copy:,}",
        headline=f"at least {counted(result.minimum, 'array')}",
        made=(("Source", result.source), ("Mapping", result.mapping)),
    )
