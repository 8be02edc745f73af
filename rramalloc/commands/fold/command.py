"""`rramalloc fold`: kernel pixels moved into input channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import typer

from rramalloc.choices import FOLD_RULES, FoldMapping, FoldRule, FullyConnected, NetworkArguments
from rramalloc.cli.output import deliver, note
from rramalloc.cli.parameters import Format, Help, OptionValue, described, passed, typed, whole_numbers
from rramalloc.hardware.preset_files import DEFAULT_PRESET

if TYPE_CHECKING:
    from rramalloc.commands.fold.filter_folding import FilterFold, NetworkFold

FOLD: Help = {
    "network": ("NETWORK", "A whole network, folded to the fewest arrays."),
    "align": ("A", "Input channels that the hardware wants filled."),
    "th1": ("C", "Leave filters of more input channels than this as they are."),
    "align_outputs": ("A", "Output channels that it wants filled. Left out: --align."),
    "rule": ("RULE", f"How the fold is split: {', '.join(FOLD_RULES)}."),
    "stride": ("SY,SX", "Stride of the filter."),
    "filter_": ("CO,KH,KW,CI", "Or one filter; CI of one group."),
    "input_size": (OptionValue("H,W", option="--input"), "Input size; else work is per output pixel."),
    "padding": ("P|PY,PX|T,L,B,R", "Zeros around the input."),
    "dilation": ("DY,DX", "Of the filter; dilated ones are refused."),
    "groups": ("G", "Groups, folded each for itself."),
    "onnx": (OptionValue("FILE.onnx", writes="file"), "Write the folded network; needs .onnx."),
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
def command(
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
    hardware: str = DEFAULT_PRESET,
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
    also = []
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
            folded = result
            source = as_network(**passed(given, as_network))

            def write_onnx() -> None:
                for reason in save_folded_onnx(network, source, folded, onnx):
                    note(f"not folded in {onnx}: {reason}", quiet=quiet)

            also.append(write_onnx)
    deliver(result, given, also=also)


_OF_A_FILTER = "align align_outputs th1 stride rule input_size padding dilation groups"
_OF_A_NETWORK = "hardware crossbar set_values mapping fc host input_shapes input_values allow_partial onnx"


def _check_usage(context: typer.Context, network: str | None, filter_: str | None, align: int | None) -> None:
    """Check that one of the two ways is given, with its own options alone."""
    if (network is None) == (filter_ is None):
        raise typer.BadParameter("give either a NETWORK or --filter")
    names, whose = (_OF_A_NETWORK, "a NETWORK") if network is None else (_OF_A_FILTER, "--filter")
    for name, option in typed(context).items():
        if name in names.split():
            raise typer.BadParameter(f"{option} is for {whose} only")
    if filter_ is not None and align is None:
        raise typer.BadParameter("--filter needs --align, the input channels to fill")
