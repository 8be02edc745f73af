"""`rramalloc fold`: kernel pixels moved into input channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rramalloc import choices
from rramalloc.cli import complete, parameters
from rramalloc.cli.output import note, print_lines, print_result, warn
from rramalloc.units import number_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rramalloc.results.filter_folding import FilterFold, NetworkFold

_FILTER_COLUMNS = {
    name: name
    for name in (
        "n_total", "n_h", "n_w", "filter_before", "filter", "stride_before", "stride", "dilation",
        "padding_added", "overlap", "folded_input", "chosen", "work_before", "work_after", "saving", "exact",
        "checked",
    )
}  # fmt: skip
_LAYER_COLUMNS = {
    "layer": "name",
    "filter before": "filter_before",
    "mapping": "mapping",
    "fold": "size",
    "block": "block",
    "copies": "copies",
    "filter": "filter",
    "stride before": "stride_before",
    "stride": "stride",
    "dilation": "dilation",
    "zeros": "padding_added",
    "demand before": "demand_before",
    "demand": "demand_after",
    "saving": "saving",
}
_OF_BEST = ("mapping", "block", "copies")
"""Columns for mapping `best` alone."""
_SPARE = ("dilation", "stride before", "stride", "zeros", "filter before", "filter", "saving")


Network = Annotated[
    str | None,
    typer.Argument(
        metavar="NETWORK", autocompletion=complete.networks,
        help="A whole network, folded to the fewest arrays.",
    ),
]  # fmt: skip
Filter = Annotated[
    str | None, typer.Option("--filter", metavar="CO,KH,KW,CI", help="Or one filter; CI of one group.")
]
Align = Annotated[
    int | None, typer.Option("--align", metavar="A", help="Input channels that the hardware wants filled.")
]
Th1 = Annotated[
    int | None, typer.Option("--th1", metavar="C", help="Leave filters of more input channels as they are.")
]
AlignOutputs = Annotated[
    int | None, typer.Option("--align-outputs", metavar="A", help="Of output channels; by default --align.")
]
Rule = Annotated[
    choices.FoldRule,
    typer.Option("--rule", metavar="RULE", help=f"How the fold is split: {', '.join(choices.FOLD_RULES)}."),
]
Stride = Annotated[str, typer.Option("--stride", metavar="SY,SX", help="Stride of the filter.")]
InputSize = Annotated[
    str | None, typer.Option("--input", metavar="H,W", help="Input size; else work is per output pixel.")
]
Padding = Annotated[str, typer.Option("--padding", metavar="P|PY,PX|T,L,B,R", help="Zeros around the input.")]
Dilation = Annotated[
    str, typer.Option("--dilation", metavar="DY,DX", help="Of the filter; dilated ones are refused.")
]
Groups = Annotated[int, typer.Option("--groups", metavar="G", help="Groups, folded each for itself.")]
Onnx = Annotated[
    str | None, typer.Option("--onnx", metavar="FILE.onnx", help="Write the folded network; needs .onnx.")
]
Mapping = Annotated[
    choices.FoldMapping,
    typer.Option("--mapping", help="How weights lie on crossbars; 'best' chooses it for every layer."),
]
Check = Annotated[bool, typer.Option("--check", help="Prove the folds on random integers.")]


def fold(
    context: typer.Context,
    network: Network = None,
    *,
    filter_: Filter = None,
    stride: Stride = "1,1",
    align: Align = None,
    rule: Rule = "least_work",
    th1: Th1 = None,
    align_outputs: AlignOutputs = None,
    input_size: InputSize = None,
    padding: Padding = "0",
    dilation: Dilation = "1,1",
    groups: Groups = 1,
    hardware: parameters.Hardware = "plain",
    crossbar: parameters.Crossbar = None,
    mapping: Mapping = "kernel_split",
    fc: parameters.Fc = "host",
    input_shape: parameters.InputShape = None,
    allow_partial: parameters.AllowPartial = False,
    check: Check = False,
    onnx: Onnx = None,
    seed: parameters.Seed = 0,
    output_format: parameters.OutputFormat = "table",
    output: parameters.Output = None,
    quiet: parameters.Quiet = False,
) -> None:
    """Filters whose kernel pixels become input channels, so that few channels fill the arrays.

    Example: rramalloc fold vgg16 --crossbar 128x128

    Example: rramalloc fold --filter 64,6,6,4 --stride 2,2 --align 64 --check
    """
    from rramalloc.files import write_json
    from rramalloc.importers import as_network
    from rramalloc.results import filter_folding
    from rramalloc.results.folded_onnx import save_folded_onnx

    _check_usage(context, network, filter_, align)
    result: FilterFold | NetworkFold
    if network is None:
        result = filter_folding.fold_filter(
            parameters.whole_numbers("--filter", filter_ or ""), align=align or 0, rule=rule,
            th1=th1, align_outputs=align_outputs,
            stride=parameters.whole_numbers("--stride", stride), groups=groups, check=check, seed=seed,
            input_size=None if input_size is None else parameters.whole_numbers("--input", input_size),
            padding=parameters.whole_numbers("--padding", padding),
            dilation=parameters.whole_numbers("--dilation", dilation),
        )  # fmt: skip
    else:
        result = filter_folding.fold(
            network, hardware=hardware, crossbar=crossbar, mapping=mapping, fc=fc,
            input_shapes=parameters.parse_input_shapes(input_shape), allow_partial=allow_partial,
            check=check, seed=seed,
        )  # fmt: skip
        if onnx is not None:
            shapes = parameters.parse_input_shapes(input_shape)
            source = as_network(network, shapes, allow_partial=allow_partial)
            for reason in save_folded_onnx(network, source, result, onnx):
                note(f"not folded in {onnx}: {reason}", quiet=quiet)
    if output is not None:
        write_json(output, result.to_dict())
    _print(result, output_format, quiet=quiet)


_OF_A_FILTER = (
    "align",
    "align_outputs",
    "th1",
    "stride",
    "rule",
    "input_size",
    "padding",
    "dilation",
    "groups",
)
_OF_A_NETWORK = ("hardware", "crossbar", "mapping", "fc", "input_shape", "allow_partial", "onnx")


def _check_usage(context: typer.Context, network: str | None, filter_: str | None, align: int | None) -> None:
    """One of the two ways, with its own options alone."""
    if (network is None) == (filter_ is None):
        raise typer.BadParameter("give either a NETWORK or --filter")
    names, whose = (_OF_A_NETWORK, "a NETWORK") if network is None else (_OF_A_FILTER, "--filter")
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = "input" if name == "input_size" else name.replace("_", "-")
            raise typer.BadParameter(f"--{option} is for {whose} only")
    if filter_ is not None and align is None:
        raise typer.BadParameter("--filter needs --align, the input channels to fill")


def _print(fold: FilterFold | NetworkFold, output_format: parameters.Format, *, quiet: bool) -> None:
    from rramalloc.results.filter_folding import FilterFold

    if isinstance(fold, FilterFold):
        if output_format == "table":
            print_lines(_lines(fold))
        else:
            print_result(fold.to_dict, _FILTER_COLUMNS, [fold], output_format, texts=())
        return
    columns = {
        head: field
        for head, field in _LAYER_COLUMNS.items()
        if fold.mapping == "best" or field not in _OF_BEST
    }
    if print_result(fold.to_dict, columns, fold.layers, output_format, ("layer",), spare=_SPARE, quiet=quiet):
        typer.echo()
        print_lines(_summary(fold))
    for layer in fold.layers:
        if layer.reason:
            note(f"{layer.name}: {layer.reason}", quiet=quiet)
    warn(fold.warnings, quiet=quiet)


def _lines(fold: FilterFold) -> Iterator[tuple[str, str]]:
    per = "per output pixel" if fold.output is None else f"for {fold.output[0]} x {fold.output[1]} pixels"
    yield "filter", f"{_sizes(fold.filter_before)} -> {_sizes(fold.filter)}"
    yield "stride", f"{_sizes(fold.stride_before)} -> {_sizes(fold.stride)}"
    yield "dilation", f"1 x 1 -> {_sizes(fold.dilation)}"
    yield "fold", f"{fold.n_h * fold.n_w} = {fold.n_h} high x {fold.n_w} wide, rule {fold.chosen}"
    yield "padding", f"{fold.padding_added} zeros added to the kernel of each pair of channels"
    yield "overlap", f"{_sizes(fold.overlap)} pixels"
    if fold.folded_input is not None:
        yield "input", f"{_sizes(fold.folded_input)}, height, width and channels, folded"
    yield "work", f"{fold.work_before} -> {fold.work_after} multiplications {per}"
    yield "saving", f"{fold.saving:.2%}"
    yield "exact", "yes" if fold.exact else "no"
    if fold.checked is not None:
        yield "checked", "equal to the direct convolution on random integers"


def _summary(fold: NetworkFold) -> Iterator[tuple[str, str]]:
    folded = [layer for layer in fold.layers if layer.size is not None]
    yield (
        "network",
        f"{fold.network.name}, {number_of(len(fold.layers), 'stage')}, {len(folded)} of them folded",
    )
    yield "hardware", parameters.hardware_words(fold.hardware, fold.mapping)
    if fold.mapping == "best":
        yield "demand", f"{fold.demand_before} -> {fold.demand_after} arrays of one mode of every layer"
        yield "array-steps", f"{fold.array_steps_before} -> {fold.array_steps_after} for one input"
    else:
        yield (
            "demand",
            f"{fold.demand_before} -> {fold.demand_after} arrays with every layer stored once",
        )
    yield "saving", f"{fold.saving:.2%}"
    checked = sum(layer.checked is True for layer in folded)
    if any(layer.checked is not None for layer in folded):
        yield "checked", f"{checked} folds equal to the direct convolution on random integers"


def _sizes(sizes: tuple[int, ...]) -> str:
    return " x ".join(str(size) for size in sizes)
