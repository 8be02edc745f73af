"""`rramalloc compare`: every method side by side."""

from __future__ import annotations

from typing import Any

from rramalloc.choices import By
from rramalloc.cli import complete
from rramalloc.cli.interrupt import end
from rramalloc.cli.live_line import LiveLine
from rramalloc.cli.output import check_names, deliver
from rramalloc.cli.parameters import (
    EFFICIENCY,
    LATEX,
    PLACED,
    SECONDS,
    Help,
    OptionValue,
    described,
    of_call,
    passed,
)

COMPARE: Help = {
    "arrays": ("N[,N...]", "Budgets; x2 is twice the minimum; small=512,large=64 of kinds."),
    "methods": (
        OptionValue("A,B,...", completion=complete.method_lists, plugins="rramalloc.methods"),
        "Methods; all that are compared if left out.",
    ),
    "objective": (None, "What methods are judged by."),
    "inputs": ("N", "Judge by the time of so many inputs that stream."),
    "placed": PLACED,
    "seeds": ("N", "Runs of methods that depend on the seed."),
    "efficiency": EFFICIENCY,
    "clock": (None, "Measure seconds too: they depend on the machine."),
    "work": ("N", "Effort of every single run at most, in units of 0.05 s of a core."),
    "time_limit_s": (SECONDS, "Stop every single run by the clock, e.g. 30s: machine-dependent."),
}


@described(
    COMPARE,
    problem="arrays",
    goal="objective inputs placed",
    search="methods seeds clock",
    output="efficiency",
)
@of_call(
    "rramalloc.commands.compare.compare:compare",
    outputs=LATEX,
    example="Example: rramalloc compare alexnet --arrays 400,x4 --figure alexnet.svg",
)
def command(
    given: dict[str, Any],
    *,
    quiet: bool,
    columns: str | None,
    methods: str | None = None,
    efficiency: bool = False,
    by: By | None = None,
) -> None:
    """Run `compare` for methods by name."""
    from rramalloc.commands.compare.compare import compare as run_compare
    from rramalloc.commands.compare.compare import progress_words
    from rramalloc.commands.compare.comparison import Row
    from rramalloc.methods.registry import method_names
    from rramalloc.search.work import CancelToken, interruptible

    check_names(columns, Row.model_fields if by is None else ("network", "arrays", *method_names()))
    given["methods"] = None if methods is None else [name.strip() for name in methods.split(",")]
    cancel = CancelToken()
    with LiveLine(quiet=quiet, every_s=0) as line, interruptible(cancel):
        comparison = run_compare(
            **passed(given, run_compare),
            ending=cancel,
            on_progress=lambda *progress: line.show(progress_words(*progress)),
        )
    known = {"efficiency": efficiency, "by": by}
    deliver(comparison, given, "methods" if comparison.rows else "", known=known, by=by)
    end(cancel, line, shown="these are the methods that were ready", quiet=quiet)
