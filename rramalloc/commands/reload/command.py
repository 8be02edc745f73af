"""`rramalloc optimize --reload`: a plan of segments in place of an allocation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from rramalloc.choices import signature_of
from rramalloc.cli.interrupt import interruptible
from rramalloc.cli.output import coverage_line, hardware_words, mapping_words, print_result, table_of, warn
from rramalloc.cli.parameters import passed
from rramalloc.units import duration, energy, number_of, rounded, share

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rramalloc.commands.reload.plan import ReloadPlan
    from rramalloc.search.work import Work

_TABLE = table_of(
    "first, last, stages, arrays, makespan, interval, write=write_ns, run=run_ns, time=time_ns",
    texts="first last",
    spare="interval makespan run_ns write_ns",
)
_WITH_RELOAD = ("reload", "output_format", "output", "quiet")
"""Options of the command itself that --reload goes with."""
_NOT_WITH_RELOAD = ("fold", "latency_table", "copies", "copies_divide", "at_most")
"""Shared arguments that it does not go with."""


def reload(given: Mapping[str, Any], defaults: Mapping[str, Any], stop: Work) -> None:
    """Run `optimize --reload`.

    given: the parameters of `optimize`; defaults: of those that it has itself.
    """
    from rramalloc.commands.reload.reload import optimize_reload as run_optimize_reload

    of_plan = {*signature_of(run_optimize_reload).parameters, *_WITH_RELOAD}.difference(_NOT_WITH_RELOAD)
    for name, default in defaults.items():
        if name not in of_plan and given[name] != default:
            raise typer.BadParameter(f"--{name.replace('_', '-')} is not for --reload")
    with interruptible(stop):
        plan = run_optimize_reload(**passed(given, run_optimize_reload), stop=stop)
    if given["output"] is not None:
        plan.save(given["output"])
    quiet: bool = given["quiet"]
    print_result(plan.to_dict, _TABLE, plan.segments, given["output_format"], _summary(plan), quiet=quiet)
    warn(plan.warnings, quiet=quiet)


def _summary(plan: ReloadPlan) -> Iterator[tuple[str, str]]:
    arrays = plan.arrays
    yield "network", f"{plan.network.name}, {number_of(len(plan.segments), 'segment')}"
    yield "hardware", hardware_words(plan.hardware, mapping_words(plan.options))
    yield "arrays", f"{arrays.used} used at most of {arrays.budget} (all layers need {arrays.minimum})"
    for name, parts in plan.cut_layers.items():
        yield "cut layer", f"{name}, {number_of(parts, 'part')}"
    yield "time", f"{duration(plan.total_ns)} for {number_of(plan.inputs, 'input')} per loading"
    yield "per input", f"{duration(plan.per_input_ns)}, {rounded(plan.throughput_per_s)} inputs/s"
    yield "writing", f"{duration(plan.write_ns)} of it"
    yield "lower bound", duration(plan.lower_bound)
    yield "gap", f"{share(plan.gap)} from optimal at most"
    yield "proof", plan.proof
    for other in plan.other_cuts:
        words = "as many layers as fit" if other.cuts == "greedy" else "each layer alone"
        number = number_of(other.segments, "segment")
        yield "other cuts", f"{words}: {other.ratio:.3f} times as long, {number}"
    if plan.energy_pj is not None:
        yield "energy", f"{energy(plan.energy_pj)} an input"
    yield "search", f"{duration(1e9 * plan.work_s)} of work on a reference core"
    yield from coverage_line(plan.coverage)
