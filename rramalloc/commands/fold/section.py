"""Section of folded filters."""

from __future__ import annotations

from collections.abc import Sequence

from rramalloc.chart import BLUE, ORANGE, Chart, Key
from rramalloc.columns import Column, columns_of
from rramalloc.commands.fold.filter_folding import FilterFold, Folded, NetworkFold
from rramalloc.page.section import Bars, Detail, Fact, Section, stacked_bars, table, warning_notes
from rramalloc.units import share


def fold_section(result: FilterFold | NetworkFold, detail: Detail) -> Section:
    """Return the section: filters before and after, and what that saves."""
    blocks: tuple[Chart, ...] = ()
    if isinstance(result, FilterFold):
        facts = (
            Fact("Work saved", share(result.saving), f"{result.work_before:,} to {result.work_after:,}"),
            Fact("Fold", f"{result.n_h} x {result.n_w}", f"rule {result.chosen}"),
        )
        folds: Sequence[Folded] = [result]
        title = f"Filter {' x '.join(map(str, result.filter_before))}, folded"
    else:
        folded = [layer for layer in result.layers if layer.size is not None]
        saved, before, after = "Arrays saved", result.arrays_before, result.arrays_after
        if result.array_steps_before is not None and result.array_steps_after is not None:
            saved, before, after = "Array-steps saved", result.array_steps_before, result.array_steps_after
        facts = (
            Fact(saved, share(result.saving), f"{before:,} to {after:,}"),
            Fact("Layers folded", f"{len(folded):,}", f"of {len(result.layers):,}"),
        )
        folds = result.layers
        title = f"{result.network.name}, folded: {result.arrays_after:,} arrays"
        bars: Bars = (
            (Key("folded", BLUE), [layer.arrays_after for layer in result.layers]),
            (Key("saved", ORANGE), [layer.arrays_before - layer.arrays_after for layer in result.layers]),
        )
        names = [layer.name for layer in result.layers]
        blocks = (stacked_bars("Arrays of one copy", "layer", "arrays", names, bars, detail),)
    columns = (
        Column("Layer", value=lambda each: getattr(each, "name", "filter")),
        *columns_of("Filter before, Filter, Stride, Dilation"),
    )
    warnings = result.warnings if isinstance(result, NetworkFold) else ()
    filters = table("Filters (C_o, K_h, K_w, C_i)", columns, folds, detail, folded=False)
    return Section(
        title=title,
        subtitle="Filter folding",
        facts=facts,
        blocks=(*warning_notes(warnings), *blocks, filters),
        headline=f"{share(result.saving)} saved",
    )
