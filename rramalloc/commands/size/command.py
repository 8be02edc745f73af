"""`rramalloc size`: the cheapest chip on which networks reach their goals."""

from __future__ import annotations

import sys
from typing import Any, Literal

import typer

from rramalloc.choices import DEFAULT_WORK, Divided, FullyConnected, Mapping
from rramalloc.cli import EXIT_INTERRUPTED
from rramalloc.cli.interrupt import end
from rramalloc.cli.live_line import LiveLine
from rramalloc.cli.output import deliver, note
from rramalloc.cli.parameters import PLACED, Format, Help, Value, described
from rramalloc.errors import InfeasibleError, SpecError

_EVERY_S = 10.0  # between two lines of progress in a file
SIZE: Help = {
    "network": ("NETWORK|SPEC.toml", "Networks with one --target, or a file of networks, goals and choices."),
    "stored": (None, "Networks run in turn on a chip that holds one at a time (default), or all are stored."),
    "example": (None, "Print a file of networks, goals and choices to start from."),
    "choose": ("FIELD=V,V", "Values of the hardware to choose from; crossbar=64x64,128x128 of arrays."),
    "zip": ("FIELD,FIELD", "Lists of --choose that advance together."),
    "minimise": (None, "What the chip is to have least of."),
    "target": ("N", "The latency to be reached, in steps."),
    "target_ns": (Value("T", unit="ns"), "The latency to be reached, e.g. 2ms."),
    "target_interval": ("N|T", "The interval between inputs to be reached, in steps or as a time."),
    "target_throughput": (Value("N", unit="inputs/s"), "The inputs a second to be reached, e.g. 2k."),
    "placed": PLACED,
    "work": ("N", "Effort for a network on a candidate at most, in units of 0.05 s of a core."),
    "most_candidates": ("N", "Candidates above which nothing is searched."),
    "store": ("FILE", "Keep every search in it, so that the same command goes on from there."),
    "scheduler": ("ADDRESS", "Dask scheduler to use, e.g. tcp://host:8786."),
    "jobs": ("N", "Processes on this machine; default: one per core where there are many searches."),
    "output": ("FILE", "Write the chip as a hardware file (.toml), or the result (.json)."),
}


@described(
    SIZE,
    goal="choose zip minimise stored target target_ns target_interval target_throughput placed",
    search="most_candidates store scheduler jobs",
    output="example",
)
def command(
    context: typer.Context,
    network: list[str] | None = None,
    *,
    hardware: str | None = None,
    set_values: list[str] | None = None,
    choose: list[str] | None = None,
    zip: list[str] | None = None,  # noqa: A002 - as it stands in files
    minimise: Literal["area_um2", "arrays"] | None = None,
    stored: Literal["one", "all"] | None = None,
    target: int | None = None,
    target_ns: float | None = None,
    target_interval: str | None = None,
    target_throughput: float | None = None,
    placed: bool = False,
    mapping: Mapping | None = None,
    fc: FullyConnected | None = None,
    host: list[str] | None = None,
    allow_partial: bool = False,
    feeds_back: bool | None = None,
    sequences: int | None = None,
    copies: list[str] | None = None,
    copies_divide: Divided | None = None,
    at_most: list[str] | None = None,
    fold: bool = False,
    latency_table: str | None = None,
    seed: int | None = None,
    work: int | None = None,
    most_candidates: int | None = None,
    store: str | None = None,
    scheduler: str | None = None,
    jobs: int | None = None,
    time_limit_s: float | None = None,
    output_format: Format = "table",
    output: str | None = None,
    figure: str | None = None,
    figure_width: int | None = None,
    example: bool = False,
    quiet: bool = False,
) -> None:
    """Find the cheapest chip on which networks reach their goals, proven over all choices of its hardware.

    \b
    Example: rramalloc size vgg11 --target-throughput 2k --hardware isaac \\
      --choose timing.columns_per_adc=16,32,64 -o chip.toml

    Example: rramalloc size --example > question.toml
    """
    given = locals()
    _check_usage(context, network or [], example=example)
    if example:
        from rramalloc.shipped_files import example_text

        sys.stdout.write(example_text("size"))
        return
    from rramalloc.allocation.limits import at_most_of

    of_network = {
        "target": target,
        "target_ns": target_ns,
        "target_interval": target_interval,
        "target_throughput": target_throughput,
        "mapping": mapping,
        "fc": fc,
        "host": host,
        "allow_partial": allow_partial or None,
        "feeds_back": feeds_back,
        "sequences": sequences,
        "copies": copies,
        "copies_divide": copies_divide,
        "at_most": None if at_most is None else at_most_of(at_most),
        "fold": fold or None,
        "latency_table": latency_table,
    }
    of_question = {
        "hardware": hardware,
        "set_values": set_values,
        "choose": choose,
        "zip": zip,
        "minimise": minimise,
        "stored": stored,
        "seed": seed,
        "work": work,
        "most_candidates": most_candidates,
        "placed": placed or None,
    }
    from rramalloc.commands.size.size import progress_words
    from rramalloc.commands.size.size import size as run_size
    from rramalloc.search.work import Work, interruptible

    stop = Work(work=DEFAULT_WORK, time_limit_s=time_limit_s)
    try:
        with LiveLine(quiet=quiet, every_s=_EVERY_S) as line, interruptible(stop):
            sizing = run_size(
                _question(network or [], of_network, of_question),
                store=store,
                scheduler=scheduler,
                jobs=jobs,
                time_limit_s=time_limit_s,
                stop=stop,
                on_progress=lambda *state: line.show(progress_words(*state)),
            )
    except InfeasibleError:
        if stop.interrupted:
            note("interrupted: no chip was found yet")
            raise typer.Exit(EXIT_INTERRUPTED) from None
        raise
    deliver(sizing, given, "cost")
    end(stop, line, quiet=quiet)


def _check_usage(context: typer.Context, networks: list[str], *, example: bool) -> None:
    """Raise BadParameter unless networks, one file of a question or --example alone is given."""
    if example:
        for parameter in context.command.params:
            source = context.get_parameter_source(str(parameter.name))
            is_given = source is not None and source.name == "COMMANDLINE"
            if is_given and parameter.name not in ("example", "quiet"):
                name = "NETWORK" if parameter.name == "network" else parameter.opts[0]
                raise typer.BadParameter(f"--example prints a file to start from: leave {name} out")
        return
    if not networks:
        raise typer.BadParameter("give a NETWORK with a goal, or a SPEC.toml; --example prints one")
    spec = next((name for name in networks if _is_spec(name)), None)
    if spec is not None and len(networks) > 1:
        raise typer.BadParameter(f"{spec} says which networks there are: give it alone, or NETWORKs alone")


def _is_spec(name: str) -> bool:
    return name.lower().endswith(".toml")


def _question(
    networks: list[str], of_network: dict[str, Any], of_question: dict[str, Any]
) -> str | dict[str, Any]:
    """Return the file of a question, or what the options ask. Raises SpecError for both."""
    given = {name: value for name, value in of_network.items() if value is not None}
    asked = {name: value for name, value in of_question.items() if value is not None}
    if _is_spec(networks[0]):
        if given or asked:
            words = f"is given, and {networks[0]} says it: leave it out"
            raise SpecError(next(iter({**given, **asked})), words)
        return networks[0]
    from rramalloc.commands.size.question import values_to_choose

    if "choose" in asked:
        asked["choose"] = values_to_choose(asked["choose"])
    if "zip" in asked:
        asked["zip"] = [[name.strip() for name in group.split(",")] for group in asked["zip"]]
    return {**asked, "networks": [{"network": network, **given} for network in networks]}
