"""View of an explanation: the layers that the result waits for, and the points beside it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from rramalloc.chart import BLUE, ORANGE, Chart, Key
from rramalloc.commands.explain.explanation import Explanation, step_words
from rramalloc.units import counted, duration, number_of
from rramalloc.view.charts import Bars, stacked_bars
from rramalloc.view.view import FIGURE, Detail, Fact, View, table

_MOST_NAMES = 4
"""Layers that set the interval, beyond which three dots stand."""


def explanation_view(made: Explanation) -> View:
    """Return the view: gains of changes, the layers and the parts of their step, and the neighbours."""
    layers = table(
        "Layers and the parts of their step",
        made.layers,
        "layer=name, block?, kind?, copies, arrays, batches, cycles?, busy, critical, waiting, slack, "
        "input_cycles?, reads?, conversions?, read_ns?, converter_ns?, array_ns?, memory_ns?, transfer_ns?, "
        "step_ns?, binds?",
        spare="batches input_cycles reads conversions copies arrays cycles busy array_ns transfer_ns",
    )
    return View.of(
        made,
        kind="Explanation",
        title=f"{made.network.name}: what holds {counted(made.arrays, 'array')} back",
        sentence=made.critical_path_text,
        facts=_facts(made),
        tables=(layers,),
        charts={"what_if": partial(gains_chart, made)},
    )


def _facts(made: Explanation) -> Iterator[Fact]:
    """Yield the bottlenecks and the neighbours as facts."""
    yield Fact("arrays", made.arrays)
    timed = made.latency_ns is not None and made.objective == "latency" and made.unit != "ns"
    yield Fact(made.objective, made.value, made.unit, f", {duration(made.latency_ns or 0)}" if timed else "")
    yield Fact("critical path", made.critical_path_text)
    setters = [layer.name for layer in made.layers if layer.sets_interval]
    names = ", ".join(setters[:_MOST_NAMES]) + (" ..." if len(setters) > _MOST_NAMES else "")
    if not names and made.options.states:
        names = "the next input, which waits for a state of this one"
    names = names or "the next input, which waits for this one's output"
    yield Fact("interval", f"{number_of(made.interval, made.time_unit)}, set by {names}")
    if step := step_words(made.layers, made.tick_ns, made.step_ns, made.slowest):
        yield Fact("step" if made.tick_ns is None else "batch", step)
    for kind in made.kinds or ():
        yield Fact("kind", kind.words)
    yield Fact("next cheaper", made.cheaper.words)
    yield Fact("next faster", made.faster.words)
    if made.speedup is not None:
        yield Fact(f"{made.speedup.factor:g} x as fast", made.speedup.words)
    if made.speedup_change is not None:
        yield Fact("by hardware", made.speedup_change.words)
    for change in made.what_if:
        if change.gain != 0:
            takes_none = change.gain_per_mm2 is None and change.more_um2 is not None
            yield Fact("no area" if takes_none else "what if", change.words)
    if idle := [change.change for change in made.what_if if change.gain == 0]:
        yield Fact("gains nothing", ", ".join(idle))


def gains_chart(made: Explanation, *, detail: Detail = FIGURE) -> Chart | None:
    """Chart a bar for every change of the hardware that gains anything."""
    names, least, more = list[str](), list[float](), list[float]()
    for change in made.what_if:
        if change.gain and change.as_it_is is not None:
            now = (change.searched or change.as_it_is).value / (1 - change.gain)
            names.append(change.change)
            least.append(100 * max(0.0, 1 - change.as_it_is.value / now))
            more.append(100 * change.gain - least[-1])
    bars: Bars = ((Key("as it is", BLUE), least), (Key("searched again", ORANGE), more))
    return stacked_bars("What if: gain of a change", "change", "shorter [%]", names, bars, detail=detail)
