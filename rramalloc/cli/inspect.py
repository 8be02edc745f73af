"""`rramalloc inspect`: stages, demand and the smallest budget."""

from __future__ import annotations

import typer

from rramalloc.cli import options
from rramalloc.cli.output import note, print_lines, print_result

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
}
_SPARE = (
    "groups", "MACs", "weights", "op", "output", "input", "kernel", "fold", "utilisation", "windows",
)  # fmt: skip


def inspect(
    network: options.NetworkArgument,
    hardware: options.Hardware = "plain",
    crossbar: options.Crossbar = None,
    mapping: options.Mapping = options.MappingChoice.im2col,
    fold: options.Fold = False,
    fc: options.Fc = options.FullyConnected.host,
    input_shape: options.InputShape = None,
    output_format: options.OutputFormat = options.Format.table,
    output: options.Output = None,
    quiet: options.Quiet = False,
) -> None:
    """Stages, windows, demand, utilisation of the arrays, and the smallest budget.

    Example: rramalloc inspect resnet18 --hardware isaac
    """
    from rramalloc import api
    from rramalloc.files import to_json, write_text

    found = api.inspect(
        network, hardware=hardware, crossbar=crossbar, mapping=mapping.value, fc=fc.value, fold=fold,
        input_shapes=options.parse_input_shapes(input_shape),
    )  # fmt: skip
    if output is not None:
        write_text(output, to_json(found.to_dict()))
    columns = _COLUMNS | (options.FOLD_COLUMN if fold else {})
    if print_result(
        found.to_dict, columns, found.layers, output_format, ("layer", "op"), spare=_SPARE, quiet=quiet
    ):
        typer.echo()
        size = f"{found.hardware.crossbar.wordlines}x{found.hardware.crossbar.bitlines}"
        layout = options.mapping_words(found)
        print_lines(
            [
                ("network", f"{found.network.name}, {len(found.layers)} stages"),
                ("source", found.source or "-"),
                ("hardware", f"{found.hardware.name}, arrays of {size}, mapping {layout}"),
                ("minimum", f"{found.minimum} arrays with every layer stored once"),
                ("saturation", f"{found.saturation} arrays; more cannot be used"),
                ("left to host", ", ".join(found.host) or "no weight layer"),
            ]
        )
    for warning in found.warnings:
        note(f"warning: {warning}", quiet=quiet)
