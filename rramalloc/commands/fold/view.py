"""Views of folded filters: one, or those of a network."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from rramalloc.chart import BLUE, ORANGE, Chart, Key
from rramalloc.commands.fold.filter_folding import FilterFold, NetworkFold
from rramalloc.units import number_of
from rramalloc.view.charts import Bars, stacked_bars
from rramalloc.view.view import FIGURE, Detail, Fact, View, table


def filter_view(fold: FilterFold) -> View:
    """Return the view of one filter before and after folding, and the saving."""
    row = table(
        "Filter (C_o, K_h, K_w, C_i)",
        [fold],
        "n_total, n_h, n_w, filter_before, filter, stride_before, stride, dilation, padding_added, overlap, "
        "folded_input, chosen, work_before, work_after, saving, exact, checked",
        shown=0,
    )
    return View.of(
        fold,
        kind="Filter folding",
        title=f"Filter {_sizes(fold.filter_before)}, folded",
        facts=_of_filter(fold),
        tables=(row,),
    )


def _of_filter(fold: FilterFold) -> Iterator[Fact]:
    per = "per output pixel" if fold.output is None else f"for {fold.output[0]} x {fold.output[1]} pixels"
    yield Fact("filter", f"{_sizes(fold.filter_before)} -> {_sizes(fold.filter)}")
    yield Fact("stride", f"{_sizes(fold.stride_before)} -> {_sizes(fold.stride)}")
    yield Fact("dilation", f"1 x 1 -> {_sizes(fold.dilation)}")
    yield Fact("fold", fold.n_h * fold.n_w, note=f"= {fold.n_h} high x {fold.n_w} wide, rule {fold.chosen}")
    yield Fact("padding", fold.padding_added, note="zeros added to the kernel of each pair of channels")
    yield Fact("overlap", f"{_sizes(fold.overlap)} pixels")
    if fold.folded_input is not None:
        yield Fact("input", f"{_sizes(fold.folded_input)}, height, width and channels, folded")
    yield Fact("work", f"{fold.work_before} -> {fold.work_after} multiplications {per}")
    yield Fact("saving", fold.saving, "share")
    yield Fact("exact", "yes" if fold.exact else "no")
    if fold.checked is not None:
        yield Fact("checked", "equal to the direct convolution on random integers")


def network_view(fold: NetworkFold) -> View:
    """Return the view of a network: arrays that folding saves, and the filters before and after."""
    mapping, block = ("mapping, ", "block, copies, ") if fold.mapping == "best" else ("", "")
    layers = table(
        "Filters (C_o, K_h, K_w, C_i)",
        fold.layers,
        f"layer=name, filter_before, {mapping}fold=size, {block}filter, stride_before, stride, dilation, "
        "zeros=padding_added, arrays_before, arrays_after, saving",
        spare="dilation stride_before stride padding_added filter_before filter saving",
    )
    return View.of(
        fold,
        kind="Filter folding",
        title=f"{fold.network.name}, folded: {number_of(fold.arrays_after, 'array')}",
        extent=f"{number_of(len(fold.layers), 'stage')}, {len(_folded(fold))} of them folded",
        facts=_of_network(fold),
        tables=(layers,),
        charts={"saved": partial(saved_chart, fold)},
        notes=(f"{layer.name}: {layer.reason}" for layer in fold.layers if layer.reason),
    )


def _folded(fold: NetworkFold) -> list[str]:
    """Return the names of the layers that are folded."""
    return [layer.name for layer in fold.layers if layer.size is not None]


def _of_network(fold: NetworkFold) -> Iterator[Fact]:
    best = fold.mapping == "best"
    whose = "of one mode of every layer" if best else "with every layer stored once"
    yield Fact("arrays", f"{fold.arrays_before} -> {fold.arrays_after} arrays {whose}")
    if best:
        yield Fact("array-steps", f"{fold.array_steps_before} -> {fold.array_steps_after} for one input")
    yield Fact("saving", fold.saving, "share")
    if any(layer.checked is not None for layer in fold.layers):
        checked = sum(layer.checked is True for layer in fold.layers)
        yield Fact("checked", checked, note="folds equal to the direct convolution on random integers")


def saved_chart(fold: NetworkFold, *, detail: Detail = FIGURE) -> Chart | None:
    """Stack the arrays of one copy of every layer and those that folding saves."""
    layers = fold.layers
    bars: Bars = (
        (Key("folded", BLUE), [layer.arrays_after for layer in layers]),
        (Key("saved", ORANGE), [layer.arrays_before - layer.arrays_after for layer in layers]),
    )
    names = [layer.name for layer in layers]
    return stacked_bars("Arrays of one copy", "layer", "arrays", names, bars, detail=detail)


def _sizes(sizes: tuple[int, ...]) -> str:
    return " x ".join(str(size) for size in sizes)
