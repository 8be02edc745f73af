"""`rramalloc evaluate`: allocation strategies side by side, layer after layer."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer

from rramalloc.cli.live_line import LiveLine
from rramalloc.cli.output import deliver, note
from rramalloc.cli.parameters import Help, OptionValue, described, of_call, passed

_QUICK = 8192
"""Strategies up to which the matrices are written without a word: a user does not wait for them."""

EVALUATE: Help = {
    "units": (
        OptionValue("N,M", option="--enumerate"),
        "All ways to share N compute and M storage units out.",
    ),
    "strategies": ("FILE...", "Strategies, JSON or CSV, one a file."),
    "allocations": ("FILE...", "Allocations: a copy of a layer is a subtask."),
    "load": (OptionValue("FILE.json", writes="file"), "Write the load matrix."),
    "performance": (OptionValue("FILE", writes="file"), "Write the performance matrix: .csv or .parquet."),
    "propose": (OptionValue("FILE", writes="file"), "Write what --arrays found, or the composed strategy."),
    "hardware": ("FILE|PRESET", "Hardware with [units]. Left out: that of the allocations."),
    "mapping": (None, "How weights lie on crossbars. Left out: the allocations'."),
    "fc": (None, "Where classifiers run. Left out: the allocations', or host."),
    "host": ("LAYER", "Leave layers to the host. Left out: the allocations'."),
    "placed": (None, "Refused: layers hand their outputs on through storage units, whose bandwidths count."),
}


@described(
    EVALUATE,
    problem="strategies allocations arrays",
    goal="placed",
    search="units",
    output="load performance propose",
)
@of_call(
    "rramalloc.commands.evaluate.evaluate:evaluate",
    without="chip",
    example="Example: rramalloc evaluate alexnet --hardware units.toml --enumerate 4,4",
)
def command(
    given: dict[str, Any],
    *,
    quiet: bool,
    strategies: list[str],
    allocations: list[str],
    arrays: Annotated[
        int | None,
        typer.Option("--arrays", metavar="A", min=1, help="Find the copies of least time in A arrays."),
    ] = None,
    units: str | None = None,
    load: str | None = None,
    performance: str | None = None,
    propose: str | None = None,
    hardware: str | None = None,
) -> None:
    """Run `evaluate`, and write its matrices and its proposal."""
    given["chip"] = hardware
    if not (strategies or allocations or units or arrays):
        raise typer.BadParameter("give --strategies, --allocations, --enumerate or --arrays")
    if hardware is None and not allocations:
        raise typer.BadParameter("--hardware is needed, a file with [units]")
    from rramalloc.commands.evaluate.evaluate import evaluate as run_evaluate
    from rramalloc.commands.evaluate.evaluation import check_performance_path

    check_performance_path(performance)
    given["units"] = _units(units)
    with LiveLine(quiet=quiet) as line:
        evaluation = run_evaluate(**passed(given, run_evaluate))
    is_quick = quiet or evaluation.document.strategies <= _QUICK
    writes = (
        (performance, evaluation.save_performance, "the performance matrix"),
        (load, evaluation.save_load, "the load matrix"),
        (propose, evaluation.save_proposal, "the proposal"),
    )

    def write(path: str, save: Callable[[str], object], what: str) -> None:
        note(f"writing {what}", quiet=is_quick)
        save(path)

    also = [partial(write, path, save, what) for path, save, what in writes if path is not None]
    deliver(evaluation, given, also=also)
    note(f"done in {line.seconds:.2f} s", quiet=quiet)


def _units(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = re.fullmatch(r"\s*([0-9]{1,9})\s*,\s*([0-9]{1,9})\s*", text)
    if match is None:
        raise typer.BadParameter(f"--enumerate takes N,M such as 4,4, got {text[:60]!r}")
    return int(match[1]), int(match[2])
