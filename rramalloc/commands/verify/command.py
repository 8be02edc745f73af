"""`rramalloc verify`: whether the placed arrays compute the right numbers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from rramalloc.cli import EXIT_CANNOT_SERVE
from rramalloc.cli.live_line import LiveLine
from rramalloc.cli.output import deliver, note, print_text, print_view_as, written
from rramalloc.cli.parameters import Help, OptionValue, described, of_call, passed
from rramalloc.units import printable

if TYPE_CHECKING:
    from rramalloc.commands.verify.verification import Verification

VERIFY: Help = {
    "placement": ("FILE", "As `place` writes it; without, it is placed here."),
    "seed": ("N", "Seed of inputs, of weights not in a file, of noise."),
    "images": ("N", "Inputs that are computed."),
    "adc_bits": ("B", "Bits of the converters; default: enough."),
    "noise": (OptionValue("SIGMA", unit=""), "Relative deviation of a programmed cell."),
}


@described(VERIFY, problem="placement images adc_bits noise")
@of_call(
    "rramalloc.commands.verify.verify:verify",
    example="Prints `equal`, or the first value that differs (exit 1). With --adc-bits or --noise: the error "
    "of each layer and `approximate`.\n\nExample: rramalloc verify alexnet --allocation a.json",
)
def command(given: dict[str, Any], *, quiet: bool, output: str | None, output_format: str) -> None:
    """Run `verify`, and print its verdict; exit code 1 if a value differs."""
    from rramalloc.commands.verify.verify import verify as run_verify

    with LiveLine(quiet=quiet) as line:
        result = run_verify(
            **passed(given, run_verify),
            on_progress=lambda done, of, name: line.show(printable(f"node {done + 1} of {of}, {name}")),
        )
    if output_format == "table":
        with written([] if output is None else [partial(result.save, output)]):
            _print(result, quiet=quiet)
    else:
        deliver(result, given)
        if output_format != "json" and result.difference is not None:
            note(str(result.difference))
    if result.verdict == "different":
        raise typer.Exit(EXIT_CANNOT_SERVE)


def _print(result: Verification, *, quiet: bool) -> None:
    """Print the verdict alone, or below the errors of the layers where converters may change values."""
    view = replace(result.view(), facts=())
    print_view_as(view, "table", quiet=quiet)
    if view.tables[0].shown != 0:
        typer.echo()
    print_text(result.verdict if result.difference is None else printable(str(result.difference)))
    for text in view.notes:
        note(text, quiet=quiet)
