"""`rramalloc inspect`: stages, demand and the smallest budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from rramalloc.cli import parameters
from rramalloc.cli.output import print_lines, print_result, print_table, warn
from rramalloc.units import number_of

if TYPE_CHECKING:
    from rramalloc.results.inspection import Inspection

_COLUMNS = {
    "layer": "name",
    "op": "op",
    "input": "input",
    "output": "output",
    "kernel": "kernel",
    "groups": "groups",
    "windows": "windows",
    "demand": "demand",
    "utilisation": "utilisation",
    "weights": "weights",
    "MACs": "macs",
    "fold": "fold",
    "weight bits": "weight_bits",
    "input bits": "input_bits",
}
_SPARE = (
    "groups", "MACs", "weights", "op", "output", "input", "kernel", "fold", "utilisation", "windows",
)  # fmt: skip


def inspect(
    network: parameters.NetworkArgument,
    *,
    hardware: parameters.Hardware = "plain",
    crossbar: parameters.Crossbar = None,
    mapping: parameters.Mapping = "im2col",
    fold: parameters.Fold = False,
    fc: parameters.Fc = "host",
    shared: parameters.Shared = "copies",
    input_shape: parameters.InputShape = None,
    allow_partial: parameters.AllowPartial = False,
    output_format: parameters.OutputFormat = "table",
    output: parameters.Output = None,
    quiet: parameters.Quiet = False,
) -> None:
    """Stages, windows, demand, utilisation of the arrays, and the smallest budget.

    Example: rramalloc inspect resnet18 --hardware isaac
    """
    from rramalloc import api
    from rramalloc.files import write_json

    inspection = api.inspect(
        network, hardware=hardware, crossbar=crossbar, mapping=mapping, fc=fc, fold=fold, shared=shared,
        input_shapes=parameters.parse_input_shapes(input_shape), allow_partial=allow_partial,
    )  # fmt: skip
    if output is not None:
        write_json(output, inspection.to_dict())
    if print_result(
        inspection.to_dict,
        _COLUMNS,
        inspection.layers,
        output_format,
        ("layer", "op"),
        spare=_SPARE,
        quiet=quiet,
    ):
        typer.echo()
        _show_modes(inspection, quiet=quiet)
        print_lines(
            [
                ("network", f"{inspection.network.name}, {number_of(len(inspection.layers), 'stage')}"),
                ("source", inspection.source or "-"),
                (
                    "hardware",
                    parameters.hardware_words(inspection.hardware, parameters.mapping_words(inspection)),
                ),
                ("minimum", f"{number_of(inspection.minimum, 'array')} with every layer stored once"),
                ("saturation", f"{number_of(inspection.saturation, 'array')}; more cannot be used"),
                *parameters.coverage_line(inspection),
            ]
        )
    warn(inspection.warnings, quiet=quiet)


def _show_modes(inspection: Inspection, *, quiet: bool) -> None:
    """The fastest modes of every layer for its arrays, where the mapping has several."""
    rows = [
        (layer.name, mode.arrays, mode.block, mode.copies, mode.batches, mode.utilisation)
        for layer in inspection.layers
        for mode in layer.modes or ()
    ]
    if rows:
        names = ("layer", "arrays", "block", "copies", "batches", "utilisation")
        print_table(names, rows, names[:1], spare=names[-1:], whole="--format json", quiet=quiet)
        typer.echo()
