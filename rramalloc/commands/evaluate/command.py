"""`rramalloc evaluate`: allocation strategies side by side, layer after layer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Unpack

import typer

from rramalloc.choices import FullyConnected, Mapping, NetworkArguments
from rramalloc.cli.live_line import LiveLine
from rramalloc.cli.output import note, print_lines, print_part, print_result, table_of, warn
from rramalloc.cli.parameters import Format, Help, Value, described, passed
from rramalloc.units import duration, share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rramalloc.commands.evaluate.evaluation import Evaluation, EvaluationDocument

_TABLE = table_of(
    "task=name, operator, windows, bytes in=bytes_in, bytes out=bytes_out, subtasks, split, share, in=in_ns, "
    "compute=compute_ns, out=out_ns, time=time_ns, dominant",
    texts="name operator split dominant",
    spare="windows bytes_in bytes_out operator share split out_ns in_ns compute_ns subtasks",
)
_PROPOSED = ("layer", "arrays per copy", "copies", "arrays", "time")
_SHOWN = 10  # strategies of the table
_QUICK = 8192
"""Strategies up to which the matrices are written without a word: a user does not wait for them."""

_ENUMERATE = "All ways to share N compute and M storage units out."
EVALUATE: Help = {
    "strategies": ("FILE...", "Strategies, JSON or CSV, one a file."),
    "allocations": ("FILE...", "Allocations: a copy of a layer is a subtask."),
    "load": (Value("FILE.json", writes="file"), "Write the load matrix."),
    "performance": (Value("FILE", writes="file"), "Write the performance matrix: .csv or .parquet."),
    "propose": (Value("FILE", writes="file"), "Write what --arrays found, or the composed strategy."),
    "hardware": ("FILE|PRESET", "Hardware with [units]. Left out: that of the allocations."),
    "mapping": (None, "How weights lie on crossbars. Left out: the allocations'."),
    "fc": (None, "Where classifiers run. Left out: the allocations', or host."),
    "host": ("LAYER", "Leave layers to the host. Left out: the allocations'."),
}


@described(
    EVALUATE, problem="strategies allocations arrays", search="units", output="load performance propose"
)
def evaluate(
    network: str,
    *,
    strategies: list[str] | None = None,
    allocations: list[str] | None = None,
    units: Annotated[
        str | None,
        typer.Option("--enumerate", metavar="N,M", help=_ENUMERATE),
    ] = None,
    arrays: Annotated[
        int | None,
        typer.Option("--arrays", metavar="A", min=1, help="Find the copies of least time in A arrays."),
    ] = None,
    load: str | None = None,
    performance: str | None = None,
    propose: str | None = None,
    hardware: str | None = None,
    crossbar: str | None = None,
    set_values: list[str] | None = None,
    mapping: Mapping | None = None,
    fc: FullyConnected | None = None,
    host: list[str] | None = None,
    latency_table: str | None = None,
    output_format: Format = "table",
    output: str | None = None,
    quiet: bool = False,
    **shared: Unpack[NetworkArguments],
) -> None:
    """Time many ways to share a chip out among layers that run one after the other, and find the best.

    Example: rramalloc evaluate alexnet --hardware units.toml --enumerate 4,4
    """
    given = locals() | {"chip": hardware, "strategies": strategies or (), "allocations": allocations or ()}
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
        for path, save, what in (
            (performance, evaluation.save_performance, "performance"),
            (load, evaluation.save_load, "load"),
        ):
            if path is not None:
                if evaluation.document.strategies > _QUICK:
                    line.show(f"writing the {what} matrix")
                save(path)
        if propose is not None:
            evaluation.save_proposal(propose)
    if output is not None:
        evaluation.save(output)
    if print_result(evaluation.to_dict, _TABLE, evaluation.document.tasks, output_format, quiet=quiet):
        _show(evaluation, quiet=quiet)
    warn(evaluation.document.warnings, quiet=quiet)
    note(f"done in {line.seconds:.2f} s", quiet=quiet)


def _units(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = re.fullmatch(r"\s*([0-9]{1,9})\s*,\s*([0-9]{1,9})\s*", text)
    if match is None:
        raise typer.BadParameter(f"--enumerate takes N,M such as 4,4, got {text[:60]!r}")
    return int(match[1]), int(match[2])


def _show(evaluation: Evaluation, *, quiet: bool) -> None:
    """Print the fastest strategies and the summary, below the tasks under the best one."""
    document = evaluation.document
    rows = [(one.name, duration(one.time_ns), f"{one.ratio:.3f}") for one in document.ranking[:_SHOWN]]
    typer.echo()
    columns = ("strategy", "time", "ratio")
    print_part(columns, rows, columns[:1], columns[2:], quiet=quiet)
    if document.composed is not None and document.composed.time_ns < document.time_ns:
        ways = [
            (task.name, task.strategy, task.subtasks, task.split, task.share, duration(task.time_ns),
             task.dominant)
            for task in document.composed.tasks
        ]  # fmt: skip
        heads = ("task", "best strategy", "subtasks", "split", "share", "time", "dominant")
        texts = ("task", "best strategy", "split", "dominant")
        print_part(heads, ways, texts, heads[:1:-1], quiet=quiet)
    if document.proposal is not None:
        layers = [
            (layer.name, layer.arrays_per_copy, layer.copies, layer.arrays, duration(layer.time_ns))
            for layer in document.proposal.layers
        ]
        print_part(_PROPOSED, layers, _PROPOSED[:1], _PROPOSED[1:2], quiet=quiet)
    print_lines(_summary(document))


def _summary(document: EvaluationDocument) -> Iterator[tuple[str, str]]:
    yield "network", f"{document.network.name}, {len(document.tasks)} tasks, one after the other"
    chip = document.chip
    units = f"{chip.processors} processors, {chip.storage_units} storage units of {chip.unit_bytes} bytes"
    yield "chip", units
    many = document.enumerated
    if many is not None:
        units = f"{many.compute_units} compute and {many.storage_units} storage units"
        several = "1 class" if len(many.classes) == 1 else f"{len(many.classes)} classes"
        classes = f"{several} of equal time that fit every task"
        yield "enumerated", f"{many.ways} ways to share {units} out; {classes}"
    yield "strategies", str(document.strategies)
    others = document.equals - 1
    equal = ", as does one other" if others == 1 else f", as do {others} others" if others else ""
    yield "best", f"{document.best} takes {duration(document.time_ns)}{equal}"
    if document.composed is not None:
        yield "composed", f"{duration(document.composed.time_ns)} with the best strategy of every task"
    proposal = document.proposal
    if proposal is not None:
        arrays = f"{proposal.used} arrays used of {proposal.budget}"
        proof = "no other numbers of copies are faster" if proposal.proven else "not proven the least"
        yield "proposed", f"{duration(proposal.time_ns)} in {arrays}; {proof}"
    terms = {"in-transfer": "in_ns", "compute": "compute_ns", "out-transfer": "out_ns"}
    parts = {name: sum(getattr(task, term) for task in document.tasks) for name, term in terms.items()}
    shares = [f"{name} {share(part / document.time_ns)}" for name, part in parts.items() if document.time_ns]
    yield "held back by", ", ".join(shares) or "nothing"
