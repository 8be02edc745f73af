"""`rramalloc explain`: the bottlenecks of an allocation, and remedies."""

from __future__ import annotations

from typing import Any

from rramalloc.cli.interrupt import end
from rramalloc.cli.live_line import SearchLine
from rramalloc.cli.output import deliver
from rramalloc.cli.parameters import PLACED, Help, OptionValue, described, of_call, parse_budget, passed
from rramalloc.errors import SpecError

EXPLAIN: Help = {
    "arrays": ("N|xF", "Budget to find an allocation for; or --allocation.", parse_budget),
    "hardware": ("FILE|PRESET", "The allocation's, or plain."),
    "mapping": (None, "The allocation's, or im2col."),
    "fold": (OptionValue("", option="--fold/--no-fold"), "The allocation's, or not."),
    "fc": (None, "The allocation's, or host."),
    "objective": (None, "What faster means; the allocation's, or latency."),
    "placed": PLACED,
    "speedup": ("X", "Also find the arrays, or the change of the hardware, that are X times as fast."),
    "what_if": ("FIELD=VALUE", "Try this change of the hardware, not those of the list; can be repeated."),
    "no_what_if": (None, "Try no change of the hardware, which saves several searches."),
    "work": ("N", "Most units of every search, 0.05 s of a core each."),
}


@described(EXPLAIN, problem="arrays", goal="objective placed speedup what_if no_what_if")
@of_call(
    "rramalloc.commands.explain.explain:explain",
    example="Example: rramalloc explain alexnet --arrays 400 --speedup 2",
)
def command(given: dict[str, Any], *, quiet: bool, no_what_if: bool = False) -> None:
    """Run `explain`, without changes of the hardware for --no-what-if."""
    if no_what_if:
        if given["what_if"]:
            raise SpecError("what_if", "is given beside --no-what-if, which tries no change: leave one out")
        given["what_if"] = ()
    from rramalloc.commands.explain.explain import explain as run_explain
    from rramalloc.search.work import Work, interruptible

    stop = Work(work=given["work"], time_limit_s=given["time_limit_s"])
    with SearchLine(quiet=quiet) as line, interruptible(stop):
        made = run_explain(
            **passed(given, run_explain),
            stop=stop,
            on_progress=lambda what, best, bound: line.update(best, bound, what),
        )
    deliver(made, given)
    end(stop, line, shown="the searches ended early", quiet=quiet)
