"""View of an inspection: the stages, their arrays, and the least budget."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

from rramalloc.allocation.inspection import Inspection
from rramalloc.chart import BLUE, Key
from rramalloc.units import number_of
from rramalloc.view.charts import stacked_bars
from rramalloc.view.view import Fact, View, table


def inspection_view(result: Inspection) -> View:
    """Return the view: arrays of one copy of every stage, the stages, and the fastest modes of each."""
    layers = result.layers
    stages = table(
        "Stages",
        layers,
        "layer=name, op, input, output, kernel, groups, windows, arrays_per_copy, utilisation, weights, "
        "MACs=macs, fold?, weight_bits?, input_bits?",
        spare="groups macs weights op output input kernel fold utilisation windows",
    )
    modes = table(
        "Fastest modes of the stages",
        [SimpleNamespace(layer=layer.name, **dict(mode)) for layer in layers for mode in layer.modes or ()],
        "layer, arrays, block, copies, batches, utilisation",
        spare="utilisation",
    )
    names = [layer.name for layer in layers]
    title = "Arrays per copy of the stages"
    bars = ((Key("arrays of one copy", BLUE), [float(layer.arrays_per_copy) for layer in layers]),)
    return View.of(
        result,
        kind="Inspection",
        extent=number_of(len(layers), "stage"),
        facts=(
            Fact("source", result.source or "-"),
            Fact("minimum", result.minimum, "arrays", "with every layer stored once"),
            Fact("saturation", result.saturation, "arrays", "; more cannot be used"),
        ),
        tables=(stages, modes),
        charts={"arrays_per_copy": partial(stacked_bars, title, "stage", "arrays", names, bars)},
    )
