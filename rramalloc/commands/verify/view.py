"""View of a verification: the verdict, and the errors of the layers."""

from __future__ import annotations

from rramalloc.commands.verify.verification import Verification
from rramalloc.units import counted, share
from rramalloc.view.view import Fact, View, table


def verification_view(result: Verification) -> View:
    """Return the view: the verdict, what was compared, and the error of every layer."""
    options = result.options
    worst = max(result.layers, key=lambda layer: layer.relative_error, default=None)
    sentence = result.verdict if result.difference is None else str(result.difference)
    if result.difference is None and worst is not None and worst.relative_error:
        sentence += f"; {worst.name} differs most, its sums by {share(worst.relative_error)}"
    layers = table(
        "Layers",
        result.layers,
        "layer=name, computed, copies, arrays, weights, values, shift, relative_error, worst",
        spare="weights values shift arrays copies computed worst",
        shown=None if options.adc_bits is not None or options.noise else 0,
    )
    unit = "steps" if result.tick_ns is None else "ticks"
    return View.of(
        result,
        kind="Verification",
        title=f"{result.network.name}: {result.verdict}",
        sentence=sentence,
        facts=(
            Fact("verdict", result.verdict, note=", against the reference, value by value"),
            Fact("values", result.values, note=f"of {counted(options.images, 'input')}"),
            Fact("arrays", result.arrays, note=f"placed {options.placed}"),
            Fact("makespan", result.makespan, unit, ", every window read when its inputs were there"),
            Fact("converters", f"{options.adc_bits or 'enough'} bits; deviation {options.noise:g}"),
        ),
        tables=(layers,),
    )
