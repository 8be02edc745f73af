"""`rramalloc tune`: the allocation that is best in the user's own simulator."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from rramalloc.cli import complete
from rramalloc.cli.interrupt import end
from rramalloc.cli.live_line import LiveLine
from rramalloc.cli.output import deliver
from rramalloc.cli.parameters import PLACED, Help, OptionValue, described, of_call, parse_budget, passed
from rramalloc.files import check_outputs, is_stream

_STORE = "tune.sqlite"
_EVERY_S = 10.0  # between two lines of progress in a file
_LIVE_EVERY_S = 0.2  # between two changes of the line on a terminal
_SIMULATORS = complete.names_of("commands.tune.simulators:simulator_names")
TUNE: Help = {
    "arrays": ("N|xF", "Crossbar arrays; x2 is twice the minimum.", parse_budget),
    "placed": PLACED,
    "simulator": (
        OptionValue("TOOL|COMMAND", completion=_SIMULATORS, plugins="rramalloc.simulators"),
        "A tool, or a command with {allocation} whose last line is the figure, lower is better.",
    ),
    "tool_paths": (
        OptionValue("DIR", option="--tool-path"),
        "Sources of the tool; else RRAMALLOC_TOOL names them.",
    ),
    "evaluations": ("N", "Answers after which the search ends."),
    "jobs": ("N", "Evaluations at a time; the result depends on it."),
    "timeout_s": (OptionValue("S", option="--timeout", unit="s"), "Time for one evaluation, e.g. 5min."),
    "store": (
        OptionValue("FILE", writes="file"),
        "SQLite file of all answers; runs go on from it. Left out: tune.sqlite beside the output.",
    ),
    "hardware": ("FILE|PRESET", "Left out: as the tool counts arrays, plain for a command."),
    "fc": (None, "Where classifiers on one pixel run: host (not timed, the default), or arrays."),
    "mapping": (None, "Left out: as the tool lays weights out, im2col for a command."),
    "output": ("FILE", "Write the best allocation as JSON."),
}


@described(
    TUNE, problem="arrays", goal="placed", search="simulator tool_paths evaluations jobs timeout_s store"
)
@of_call(
    "rramalloc.commands.tune.tune:tune",
    example="\b\nExample: rramalloc tune alexnet --arrays x2 \\\n"
    '  --simulator "./mine {allocation}" --evaluations 20',
)
def command(given: dict[str, Any], *, quiet: bool, store: str | None, output: str | None) -> None:
    """Run `tune`, whose answers are kept beside the output."""
    if store is None:
        store = _STORE
        if output is not None and not is_stream(output):  # answers are kept beside the output
            store = os.path.join(os.path.dirname(output), _STORE)
            check_outputs({"-o": output, "--store": store}, ())
    given["store"] = store
    from rramalloc.commands.tune.tune import progress_words
    from rramalloc.commands.tune.tune import tune as run_tune
    from rramalloc.search.work import CancelToken, interruptible

    cancel = CancelToken()
    with (
        LiveLine(quiet=quiet, every_s=_EVERY_S, live_every_s=_LIVE_EVERY_S) as line,
        interruptible(cancel),
    ):
        tuning = run_tune(
            **passed(given, run_tune),
            on_progress=lambda *state: line.show(progress_words(*state)),
            cancel=cancel,
        )
    also = [] if output is None else [partial(tuning.allocation.save, output)]
    deliver(tuning, given | {"output": None}, also=also)
    shown = "this is the best found so far; the same command goes on from here"
    end(cancel, line, shown=shown, also=f"; answers are kept in {store}", quiet=quiet)
