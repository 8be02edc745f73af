"""`rramalloc pareto`: the front of arrays and latency, or of other quantities."""

from __future__ import annotations

from typing import Any

from rramalloc.cli import complete
from rramalloc.cli.interrupt import end
from rramalloc.cli.live_line import LiveLine
from rramalloc.cli.output import deliver
from rramalloc.cli.parameters import DRAWN, EFFICIENCY, PLACED, Help, OptionValue, described, of_call, passed

PARETO: Help = {
    "arrays": ("N", "Most crossbar arrays; x2 is twice the minimum; small=512,large=64 of kinds."),
    "objective": (None, "What is put against arrays."),
    "against": (None, "Another quantity instead of arrays."),
    "placed": PLACED,
    "work": ("N", "Effort for all points at most, in units of 0.05 s of a core."),
    "baselines": (
        OptionValue("A,B,...", completion=complete.method_lists, plugins="rramalloc.methods"),
        "Methods to put beside the front. Left out: none, quick ones in a figure.",
    ),
    "efficiency": EFFICIENCY,
}


@described(PARETO, problem="arrays", goal="objective against placed", search="baselines", output="efficiency")
@of_call(
    "rramalloc.commands.pareto.pareto:pareto",
    outputs=DRAWN,
    example="Example: rramalloc pareto alexnet --arrays 1000 --figure front.svg",
)
def command(
    given: dict[str, Any],
    *,
    quiet: bool,
    baselines: str | None = None,
    efficiency: bool = False,
) -> None:
    """Run `pareto`, with quick baselines where a figure of time over arrays is drawn."""
    from rramalloc.commands.pareto.pareto import DEFAULT_BASELINES, progress_words
    from rramalloc.commands.pareto.pareto import pareto as run_pareto
    from rramalloc.search.work import Work, interruptible

    of_time = given["objective"] in ("makespan", "latency", "latency_ns", "interval")
    drawn = given["figure"] is not None and given["against"] == "arrays" and of_time
    given["baselines"] = DEFAULT_BASELINES if drawn else ()
    if baselines is not None:
        given["baselines"] = tuple(name.strip() for name in baselines.split(",") if name.strip())
    stop = Work(work=given["work"], time_limit_s=given["time_limit_s"])
    with LiveLine(quiet=quiet) as line, interruptible(stop):
        front = run_pareto(
            **passed(given, run_pareto),
            stop=stop,
            on_progress=lambda *progress: line.show(progress_words(*progress)),
        )
    deliver(front, given, "front", known={"efficiency": efficiency})
    end(stop, line, shown="these are the points found so far", quiet=quiet)
