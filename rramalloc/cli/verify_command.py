"""`rramalloc verify`: whether the placed arrays compute the right numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rramalloc.cli import EXIT_CANNOT_SERVE, parameters
from rramalloc.cli.live_line import LiveLine
from rramalloc.cli.output import note, print_csv, print_json, print_table, print_text, warn
from rramalloc.units import printable

if TYPE_CHECKING:
    from rramalloc.placement.emulator.verification import Verification

_COLUMNS = {
    "layer": "name",
    "computed": "computed",
    "replication": "replication",
    "arrays": "arrays",
    "shift": "shift",
    "relative error": "relative_error",
    "worst": "worst",
}
_SPARE = ("shift", "arrays", "replication", "computed", "worst")


PlacementFile = Annotated[
    str | None,
    typer.Option("--placement", metavar="FILE", help="As `place` writes it; without, it is placed here."),
]
Seed = Annotated[
    int, typer.Option("--seed", metavar="N", help="Seed of inputs, of weights not in a file, of noise.")
]
Images = Annotated[int, typer.Option("--images", metavar="N", help="Inputs that are computed.")]
AdcBits = Annotated[
    int | None, typer.Option("--adc-bits", metavar="B", help="Bits of the converters; default: enough.")
]
Noise = Annotated[
    float, typer.Option("--noise", metavar="SIGMA", help="Relative deviation of a programmed cell.")
]


def verify(
    network: parameters.NetworkArgument,
    allocation: parameters.AllocationFile,
    *,
    placement: PlacementFile = None,
    hardware: parameters.OwnHardware = None,
    mapping: parameters.OwnMapping = None,
    fc: parameters.OwnFc = None,
    seed: Seed = 0,
    images: Images = 1,
    adc_bits: AdcBits = None,
    noise: Noise = 0.0,
    input_shape: parameters.InputShape = None,
    allow_partial: parameters.AllowPartial = False,
    output_format: parameters.OutputFormat = "table",
    output: parameters.Output = None,
    quiet: parameters.Quiet = False,
) -> None:
    """Compute a network through its placed arrays and compare every value with a reference.

    Prints `equal`, or the first value that differs (exit 1). With --adc-bits or --noise: the error of each
    layer and `approximate`.

    Example: rramalloc verify vgg16 --allocation vgg16_2048.json --images 4
    """
    from rramalloc import api

    with LiveLine(quiet=quiet) as line:
        result = api.verify(
            network, allocation, placement, hardware=hardware,
            mapping=mapping, fc=fc,
            seed=seed, images=images, adc_bits=adc_bits, noise=noise,
            input_shapes=parameters.parse_input_shapes(input_shape), allow_partial=allow_partial,
            on_progress=lambda done, of, name: line.show(printable(f"node {done + 1} of {of}, {name}")),
        )  # fmt: skip
    if output is not None:
        result.save(output)
    if output_format == "json":
        print_json(result.to_dict())
    elif output_format == "csv":
        frame = result.to_frame()
        print_csv(list(frame.columns), frame.itertuples(index=False))
        if result.difference is not None:
            note(str(result.difference))
    else:
        _show(result, quiet=quiet)
    warn(result.warnings, quiet=quiet)
    if result.verdict == "different":
        raise typer.Exit(EXIT_CANNOT_SERVE)


def _show(result: Verification, *, quiet: bool) -> None:
    """The verdict alone, or below the errors of the layers where converters may change values."""
    if result.options.adc_bits is not None or result.options.noise:
        rows = [[getattr(layer, name) for name in _COLUMNS.values()] for layer in result.layers]
        print_table(list(_COLUMNS), rows, ("layer", "computed"), spare=_SPARE, quiet=quiet)
        typer.echo()
    print_text(result.verdict if result.difference is None else printable(str(result.difference)))
