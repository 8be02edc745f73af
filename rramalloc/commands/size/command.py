"""`rramalloc size`: the cheapest chip on which networks reach their goals."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Literal

import typer

from rramalloc.choices import DEFAULT_WORK
from rramalloc.cli import EXIT_INTERRUPTED
from rramalloc.cli.interrupt import end
from rramalloc.cli.live_line import LiveLine
from rramalloc.cli.output import deliver, note
from rramalloc.cli.parameters import (
    DRAWN,
    PLACED,
    Help,
    OptionValue,
    described,
    of_call,
    parse_states,
    passed,
    typed,
)
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
    "target_ns": (OptionValue("T", unit="ns"), "The latency to be reached, e.g. 2ms."),
    "target_interval": ("N|T", "The interval between inputs to be reached, in steps or as a time."),
    "target_throughput": (OptionValue("N", unit="inputs/s"), "The inputs a second to be reached, e.g. 2k."),
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
@of_call(
    "rramalloc.commands.size.size:size",
    shared="TargetArguments",
    outputs=DRAWN,
    without="spec crossbar input_shapes input_values",
    example="\b\nExample: rramalloc size vgg11 --target-throughput 2k --hardware isaac \\\n"
    "  --choose timing.columns_per_adc=16,32,64 -o chip.toml\n\n"
    "Example: rramalloc size --example > question.toml",
)
def command(
    given: dict[str, Any],
    network: list[str] | None = None,
    *,
    context: typer.Context,
    quiet: bool,
    choose: list[str] | None = None,  # noqa: ARG001 - as four more, a field of the question
    zip: list[str] | None = None,  # noqa: A002, ARG001
    minimise: Literal["area_um2", "arrays"] | None = None,  # noqa: ARG001
    stored: Literal["one", "all"] | None = None,  # noqa: ARG001
    most_candidates: int | None = None,  # noqa: ARG001
    example: bool = False,
) -> None:
    """Run `size` on a file, or on the question that the options ask."""
    _check_usage(typed(context), network or [], example=example)
    if example:
        from rramalloc.shipped_files import example_text

        sys.stdout.write(example_text("size"))
        return
    from rramalloc.commands.size.size import progress_words
    from rramalloc.commands.size.size import size as run_size
    from rramalloc.search.work import Work, interruptible

    stop = Work(work=DEFAULT_WORK, time_limit_s=given["time_limit_s"])
    try:
        with LiveLine(quiet=quiet, every_s=_EVERY_S) as line, interruptible(stop):
            sizing = run_size(
                **passed(given, run_size),
                spec=_question(network or [], given, typed(context)),
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


def _check_usage(written: Mapping[str, str], networks: list[str], *, example: bool) -> None:
    """Raise BadParameter unless networks, one file of a question or --example alone is given."""
    if example:
        for name in written.keys() - {"example", "quiet"}:
            raise typer.BadParameter(f"--example prints a file to start from: leave {written[name]} out")
        return
    if not networks:
        raise typer.BadParameter("give a NETWORK with a goal, or a SPEC.toml; --example prints one")
    spec = next((name for name in networks if _is_spec(name)), None)
    if spec is not None and len(networks) > 1:
        raise typer.BadParameter(f"{spec} says which networks there are: give it alone, or NETWORKs alone")


def _is_spec(name: str) -> bool:
    return name.lower().endswith(".toml")


def _question(
    networks: list[str], given: Mapping[str, Any], written: Mapping[str, str]
) -> str | dict[str, Any]:
    """Return the file of a question, or what the options ask. Raises SpecError for both."""
    from rramalloc.allocation.limits import at_most_of
    from rramalloc.commands.size.question import SizedNetwork, SizeQuestion, values_to_choose

    asked = {name: given[name] for name in written if name in SizeQuestion.model_fields}
    of_network = {
        name: given[name] for name in written if name in SizedNetwork.model_fields and name != "network"
    }
    if _is_spec(networks[0]):
        for name in (*of_network, *asked):
            raise SpecError(name, f"is given, and {networks[0]} says it: leave it out")
        return networks[0]
    if "at_most" in of_network:
        of_network["at_most"] = at_most_of(of_network["at_most"])
    if "states" in of_network:
        of_network["states"] = parse_states(of_network["states"])
    if "choose" in asked:
        asked["choose"] = values_to_choose(asked["choose"])
    if "zip" in asked:
        asked["zip"] = [[name.strip() for name in group.split(",")] for group in asked["zip"]]
    return {**asked, "networks": [{"network": network, **of_network} for network in networks]}
