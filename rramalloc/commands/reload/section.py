"""Section of a plan of segments: the time of each, written and run, and plain cuts beside it."""

from __future__ import annotations

from rramalloc.chart import BLUE, ORANGE, Key
from rramalloc.commands.reload.plan import ReloadPlan
from rramalloc.page.section import Bars, Detail, Fact, Section, section_of, stacked_bars, table
from rramalloc.units import counted, duration, energy, share


def reload_section(result: ReloadPlan, detail: Detail) -> Section:
    """Return the section: time per input, its bound, the segments, and the result of plain cuts."""
    segments, arrays = result.segments, result.arrays
    facts = [
        Fact("Per input", duration(result.per_input_ns), f"{counted(result.inputs, 'input')} per loading"),
        Fact("Gap", share(result.gap), f"bound {duration(result.lower_bound)} in all"),
        Fact("Segments", f"{len(segments):,}", f"writing takes {duration(result.write_ns)}"),
        Fact("Arrays", f"{arrays.used:,} of {arrays.budget:,}", f"all layers need {arrays.minimum:,}"),
    ]
    if result.energy_pj is not None:
        facts.append(Fact("Energy", energy(result.energy_pj), "for one input in the mean"))
    bars: Bars = (
        (Key("write", ORANGE), [segment.write_ns / 1e3 for segment in segments]),
        (Key("run", BLUE), [segment.run_ns / 1e3 for segment in segments]),
    )
    names = [segment.first for segment in segments]
    columns = (
        "First layer=first, Last layer=last, Layers int=stages, Arrays int, Makespan int, Interval int, "
        "Write float=write_ns, Run float=run_ns, Time float=time_ns"
    )
    others = "Cuts, Segments int, Time float=total_ns, Ratio float"
    longest = max(segments, key=lambda segment: segment.time_ns)
    return section_of(
        "Plan of segments",
        result,
        title=f"{result.network.name} in segments: {duration(result.per_input_ns)} an input",
        facts=facts,
        blocks=(
            stacked_bars("Time of the segments", "segment", "us", names, bars, detail),
            table("Segments", columns, segments, detail, folded=False),
            table("Plain cuts", others, result.other_cuts, detail, folded=False),
        ),
        headline=f"{counted(len(segments), 'segment')}, {duration(result.per_input_ns)} an input",
        limit=f"the segment from {longest.first} takes longest, {duration(longest.time_ns)}",
        made=(("Proof", result.proof),),
    )
