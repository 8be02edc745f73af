"""`rramalloc inspect`: stages, arrays per copy and the smallest budget."""

from __future__ import annotations

from typing import Unpack

import typer

from rramalloc.choices import MappedArguments
from rramalloc.cli.output import (
    coverage_line,
    hardware_words,
    mapping_words,
    print_lines,
    print_part,
    print_result,
    table_of,
    warn,
)
from rramalloc.cli.parameters import Format, described, passed
from rramalloc.units import number_of

_TABLE = table_of(
    "layer=name, op, input, output, kernel, groups, windows, arrays_per_copy, utilisation, weights, "
    "MACs=macs, fold, weight_bits, input_bits",
    texts="name op",
    spare="groups macs weights op output input kernel fold utilisation windows",
)


@described({})
def inspect(
    network: str,
    *,
    output_format: Format = "table",
    output: str | None = None,
    quiet: bool = False,
    **shared: Unpack[MappedArguments],
) -> None:
    """Show stages, windows, arrays per copy, utilisation of the arrays, and the smallest budget.

    Example: rramalloc inspect resnet18 --hardware isaac
    """
    given = locals()
    from rramalloc import api

    inspection = api.inspect(**passed(given, api.inspect))
    if output is not None:
        inspection.save(output)
    if print_result(inspection.to_dict, _TABLE, inspection.layers, output_format, quiet=quiet):
        typer.echo()
        modes = [
            (layer.name, mode.arrays, mode.block, mode.copies, mode.batches, mode.utilisation)
            for layer in inspection.layers
            for mode in layer.modes or ()
        ]
        names = ("layer", "arrays", "block", "copies", "batches", "utilisation")
        print_part(names, modes, names[:1], names[-1:], quiet=quiet)
        print_lines(
            [
                ("network", f"{inspection.network.name}, {number_of(len(inspection.layers), 'stage')}"),
                ("source", inspection.source or "-"),
                ("hardware", hardware_words(inspection.hardware, mapping_words(inspection))),
                ("minimum", f"{number_of(inspection.minimum, 'array')} with every layer stored once"),
                ("saturation", f"{number_of(inspection.saturation, 'array')}; more cannot be used"),
                *coverage_line(inspection.coverage),
            ]
        )
    warn(inspection.warnings, quiet=quiet)
