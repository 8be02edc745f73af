"""`rramalloc tune`: the allocation that is best in the user's own simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rramalloc import choices
from rramalloc.cli import EXIT_INTERRUPTED, complete, parameters
from rramalloc.cli.interrupt import interruptible
from rramalloc.cli.live_line import LiveLine
from rramalloc.cli.output import note, print_lines, print_result, warn
from rramalloc.progress import of_tuning
from rramalloc.units import number_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rramalloc.studies.tune.tuning import Tuning

_COLUMNS = {
    "no.": "number",
    "origin": "origin",
    "figure": "figure",
    "expected": "expected",
    "arrays": "arrays",
    "makespan": "makespan",
    "failure": "failure",
}
_SPARE = ("makespan", "expected", "arrays")
_EVERY_S, _LIVE_EVERY_S = 10.0, 0.2

Arrays = Annotated[
    str,
    typer.Option(
        "--arrays", metavar="N|xF", callback=parameters.check_budget,
        help="Crossbar arrays there are; x2 is twice the minimum.",
    ),
]  # fmt: skip
SimulatorText = Annotated[
    str,
    typer.Option(
        "--simulator", metavar="TOOL|COMMAND", autocompletion=complete.simulators,
        help="A tool, or a command with {allocation} whose last line is the figure, lower is better.",
    ),
]  # fmt: skip
ToolPath = Annotated[
    list[str] | None,
    typer.Option("--tool-path", metavar="DIR", help="Sources of the tool; else RRAMALLOC_TOOL names them."),
]
Evaluations = Annotated[
    int, typer.Option("--evaluations", metavar="N", help="Answers after which the search ends.")
]
Jobs = Annotated[
    int, typer.Option("--jobs", metavar="N", help="Evaluations at a time; the result depends on it.")
]
Timeout = Annotated[float, typer.Option("--timeout", metavar="S", help="Seconds for one evaluation.")]
StoreFile = Annotated[
    str, typer.Option("--store", metavar="FILE", help="SQLite file of all answers; runs go on from it.")
]
Hardware = Annotated[
    str | None,
    typer.Option(
        "--hardware", metavar="FILE|PRESET", autocompletion=complete.presets,
        help="Left out: as the tool counts arrays, plain for a command.",
    ),
]  # fmt: skip
Mapping = Annotated[
    choices.Mapping | None,
    typer.Option("--mapping", help="Left out: as the tool lays weights out, im2col for a command."),
]
AllocationFile = Annotated[
    str | None, typer.Option("-o", "--output", metavar="FILE", help="Write the best allocation as JSON.")
]


def tune(
    network: parameters.NetworkArgument,
    *,
    arrays: Arrays,
    simulator: SimulatorText,
    tool_path: ToolPath = None,
    evaluations: Evaluations = 100,
    jobs: Jobs = 1,
    timeout: Timeout = 600.0,
    store: StoreFile = "tune.sqlite",
    hardware: Hardware = None,
    crossbar: parameters.Crossbar = None,
    mapping: Mapping = None,
    fc: parameters.Fc = "host",
    seed: parameters.Seed = 0,
    input_shape: parameters.InputShape = None,
    allow_partial: parameters.AllowPartial = False,
    output_format: parameters.OutputFormat = "table",
    output: AllocationFile = None,
    quiet: parameters.Quiet = False,
) -> None:
    """The allocation that is best in your simulator: proposed by the search, judged by the simulator.

    Example: rramalloc tune vgg16 --arrays x2 --simulator "./mine {allocation}"
    """
    from rramalloc.studies.tune.tune import TuneCancel
    from rramalloc.studies.tune.tune import tune as run_tune

    cancel = TuneCancel()
    with (
        LiveLine(quiet=quiet, every_s=_EVERY_S, live_every_s=_LIVE_EVERY_S) as line,
        interruptible(cancel),
    ):
        tuning = run_tune(
            network, arrays if arrays[:1] in "xX" else int(arrays), simulator, evaluations=evaluations,
            jobs=jobs, seed=seed, store=store, timeout_s=timeout, tool_paths=tool_path or (),
            hardware=hardware, crossbar=crossbar, mapping=mapping, fc=fc,
            input_shapes=parameters.parse_input_shapes(input_shape), allow_partial=allow_partial,
            on_progress=lambda *state: line.show(of_tuning(*state)), cancel=cancel,
        )  # fmt: skip
    if output is not None:
        tuning.allocation.save(output)
    if print_result(
        tuning.to_dict, _COLUMNS, tuning.judged, output_format, ("origin", "failure"), spare=_SPARE,
        quiet=quiet,
    ):  # fmt: skip
        typer.echo()
        print_lines(_summary(tuning))
    warn(tuning.warnings, quiet=quiet)
    note(f"done in {line.seconds:.2f} s; answers are kept in {store}", quiet=quiet)
    if cancel.interrupted:
        note("interrupted: this is the best found so far; the same command goes on from here")
        raise typer.Exit(EXIT_INTERRUPTED)


def _summary(tuning: Tuning) -> Iterator[tuple[str, str]]:
    hardware, chosen, model = tuning.hardware, tuning.options, tuning.model
    yield "network", tuning.network.name
    yield "hardware", parameters.hardware_words(hardware, parameters.mapping_words(chosen))
    yield "simulator", chosen.simulator
    failed = f", {tuning.failed} failed" if tuning.failed else ""
    yield "evaluations", f"{tuning.evaluations} of {chosen.evaluations}{failed}"
    if tuning.own is not None:
        yield "tool's own", f"{tuning.own.figure:.6g} on {number_of(tuning.own.arrays, 'array')}"
    yield "before", "failed" if tuning.before is None else f"{tuning.before:.6g}, with the fewest steps"
    used = tuning.allocation.arrays.used
    change = "" if not tuning.before else f", {tuning.figure / tuning.before - 1:+.1%}"
    yield "tuned", f"{tuning.figure:.6g} on {used} of {number_of(tuning.arrays, 'array')}{change}"
    if model is not None:
        rank = "" if model.spearman is None else f", rank correlation {model.spearman:.2f}"
        misses = f"clocks alone miss by {model.residual:.1%}, left-out answers by {model.left_out:.1%}"
        yield "model", f"{model.form}: {misses}{rank}"
