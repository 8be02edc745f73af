"""`rramalloc fold`: kernel pixels moved into input channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import typer

from rramalloc.choices import FOLD_RULES, FoldMapping, FoldRule, FullyConnected, NetworkArguments
from rramalloc.cli.output import hardware_words, note, print_lines, print_result, table_of, warn
from rramalloc.cli.parameters import Format, Help, Value, described, passed, whole_numbers
from rramalloc.units import number_of, share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rramalloc.commands.fold.filter_folding import FilterFold, NetworkFold

_FILTER = table_of(
    "n_total, n_h, n_w, filter_before, filter, stride_before, stride, dilation, padding_added, overlap, "
    "folded_input, chosen, work_before, work_after, saving, exact, checked"
)
FOLD: Help = {
    "network": ("NETWORK", "A whole network, folded to the fewest arrays."),
    "align": ("A", "Input channels that the hardware wants filled."),
    "th1": ("C", "Leave filters of more input channels than this as they are."),
    "align_outputs": ("A", "Output channels that it wants filled. Left out: --align."),
    "rule": ("RULE", f"How the fold is split: {', '.join(FOLD_RULES)}."),
    "stride": ("SY,SX", "Stride of the filter."),
    "filter_": ("CO,KH,KW,CI", "Or one filter; CI of one group."),
    "input_size": (Value("H,W", option="--input"), "Input size; else work is per output pixel."),
    "padding": ("P|PY,PX|T,L,B,R", "Zeros around the input."),
    "dilation": ("DY,DX", "Of the filter; dilated ones are refused."),
    "groups": ("G", "Groups, folded each for itself."),
    "onnx": (Value("FILE.onnx", writes="file"), "Write the folded network; needs .onnx."),
    "mapping": (None, "How weights lie on crossbars; 'best' chooses it for every layer."),
    "check": (None, "Prove the folds on random integers."),
    "seed": ("N", "Seed of the random integers."),
}


@described(
    FOLD,
    problem="filter_ stride input_size padding dilation groups",
    goal="align rule th1 align_outputs check",
    output="onnx",
)
def fold(
    context: typer.Context,
    network: str | None = None,
    *,
    filter_: str | None = None,
    stride: str = "1,1",
    align: int | None = None,
    rule: FoldRule = "least_work",
    th1: int | None = None,
    align_outputs: int | None = None,
    input_size: str | None = None,
    padding: str = "0",
    dilation: str = "1,1",
    groups: int = 1,
    hardware: str = "plain",
    crossbar: str | None = None,
    set_values: list[str] | None = None,
    mapping: FoldMapping = "kernel_split",
    fc: FullyConnected = "host",
    host: list[str] | None = None,
    check: bool = False,
    onnx: str | None = None,
    seed: int = 0,
    output_format: Format = "table",
    output: str | None = None,
    quiet: bool = False,
    **shared: Unpack[NetworkArguments],
) -> None:
    """Fold kernel pixels of filters into input channels, so that few channels fill the arrays.

    Example: rramalloc fold vgg16 --crossbar 128x128

    Example: rramalloc fold --filter 64,6,6,4 --stride 2,2 --align 64 --check
    """
    given = locals()
    from rramalloc.commands.fold import filter_folding
    from rramalloc.commands.fold.filter_folding import save_folded_onnx
    from rramalloc.importers import as_network

    _check_usage(context, network, filter_, align)
    result: FilterFold | NetworkFold
    if network is None:
        shape = whole_numbers("--filter", filter_ or "")
        for name in ("stride", "padding", "dilation"):
            given[name] = whole_numbers(f"--{name}", given[name])
        given["input_size"] = None if input_size is None else whole_numbers("--input", input_size)
        result = filter_folding.fold_filter(shape, **passed(given, filter_folding.fold_filter))
    else:
        result = filter_folding.fold(**passed(given, filter_folding.fold))
        if onnx is not None:
            source = as_network(**passed(given, as_network))
            for reason in save_folded_onnx(network, source, result, onnx):
                note(f"not folded in {onnx}: {reason}", quiet=quiet)
    if output is not None:
        result.save(output)
    _print(result, output_format, quiet=quiet)


_OF_A_FILTER = "align align_outputs th1 stride rule input_size padding dilation groups"
_OF_A_NETWORK = "hardware crossbar set_values mapping fc host input_shapes input_values allow_partial onnx"


def _check_usage(context: typer.Context, network: str | None, filter_: str | None, align: int | None) -> None:
    """Check that one of the two ways is given, with its own options alone."""
    if (network is None) == (filter_ is None):
        raise typer.BadParameter("give either a NETWORK or --filter")
    names, whose = (_OF_A_NETWORK, "a NETWORK") if network is None else (_OF_A_FILTER, "--filter")
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if parameter.name in names.split() and source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"{parameter.opts[0]} is for {whose} only")
    if filter_ is not None and align is None:
        raise typer.BadParameter("--filter needs --align, the input channels to fill")


def _print(fold: FilterFold | NetworkFold, output_format: Format, *, quiet: bool) -> None:
    from rramalloc.commands.fold.filter_folding import FilterFold

    if isinstance(fold, FilterFold):
        if output_format == "table":
            print_lines(_lines(fold))
        else:
            print_result(fold.to_dict, _FILTER, [fold], output_format)
        return
    mapping, block = ("mapping, ", "block, copies, ") if fold.mapping == "best" else ("", "")
    table = table_of(
        f"layer=name, filter_before, {mapping}fold=size, {block}filter, stride_before, stride, dilation, "
        "zeros=padding_added, arrays_before, arrays_after, saving",
        texts="name",
        spare="dilation stride_before stride padding_added filter_before filter saving",
    )
    print_result(fold.to_dict, table, fold.layers, output_format, _summary(fold), quiet=quiet)
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
    yield "saving", share(fold.saving)
    yield "exact", "yes" if fold.exact else "no"
    if fold.checked is not None:
        yield "checked", "equal to the direct convolution on random integers"


def _summary(fold: NetworkFold) -> Iterator[tuple[str, str]]:
    folded = [layer for layer in fold.layers if layer.size is not None]
    stages = f"{number_of(len(fold.layers), 'stage')}, {len(folded)} of them folded"
    yield "network", f"{fold.network.name}, {stages}"
    yield "hardware", hardware_words(fold.hardware, fold.mapping)
    best = fold.mapping == "best"
    whose = "of one mode of every layer" if best else "with every layer stored once"
    yield "arrays", f"{fold.arrays_before} -> {fold.arrays_after} arrays {whose}"
    if best:
        yield "array-steps", f"{fold.array_steps_before} -> {fold.array_steps_after} for one input"
    yield "saving", share(fold.saving)
    if any(layer.checked is not None for layer in folded):
        checked = sum(layer.checked is True for layer in folded)
        yield "checked", f"{checked} folds equal to the direct convolution on random integers"


def _sizes(sizes: tuple[int, ...]) -> str:
    return " x ".join(str(size) for size in sizes)
