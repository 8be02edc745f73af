"""`rramalloc place`: every array of every chip."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import typer

from rramalloc.choices import AllocationArguments
from rramalloc.cli.output import print_csv, print_lines, print_part, print_result, table_of, warn
from rramalloc.cli.parameters import OF_ALLOCATION, Format, Help, described, passed
from rramalloc.units import duration, number_of, rounded, share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rramalloc.commands.place.placement import Placement

_TABLE = table_of(
    "layer=name, arrays_per_copy, copies, block, tiles, straddling, utilisation",
    texts="name",
    spare="straddling utilisation arrays_per_copy tiles",
    whole="--format json",
)
_BUSIEST = 5  # links of the table
PLACE: Help = {
    **OF_ALLOCATION,
    "work": ("N", "Units of improvement; 0: construction only."),
    "output": ("FILE", "Write the placement as JSON."),
}


@described(PLACE)
def place(
    network: str,
    *,
    allocation: str,
    latency_table: str | None = None,
    seed: int = 0,
    work: int = 40,
    output_format: Format = "table",
    output: str | None = None,
    figure: str | None = None,
    quiet: bool = False,
    **shared: Unpack[AllocationArguments],
) -> None:
    """Place an allocation: every block of every copy on an array of a tile of a chip, with little traffic.

    Example: rramalloc place alexnet --allocation a.json --hardware isaac
    """
    given = locals()
    from rramalloc.commands.place.place import place as run_place

    placement = run_place(**passed(given, run_place))
    if output is not None:
        placement.save(output)
    if figure is not None:
        placement.plot.chip_map(save=figure)
    if output_format == "csv":
        frame = placement.to_frame()
        print_csv(list(frame.columns), frame.itertuples(index=False))
    elif print_result(placement.to_dict, _TABLE, placement.layers, output_format, quiet=quiet):
        _show(placement, quiet=quiet)
    warn(placement.warnings, quiet=quiet)


def _show(placement: Placement, *, quiet: bool) -> None:
    """Print the busiest links and the summary below the table of layers."""
    typer.echo()
    rows = [
        ("chips" if link.chip is None else f"chip {_at(link.chip)}", _at(link.start), _at(link.end),
         f"{rounded(link.size_bytes)}")
        for link in placement.links[:_BUSIEST]
    ]  # fmt: skip
    names = ("busiest links", "from tile", "to tile", "bytes")
    print_part(names, rows, names[:3], names[:1], quiet=quiet)
    print_lines(_summary(placement))


def _summary(placement: Placement) -> Iterator[tuple[str, str]]:
    traffic, chip, options_ = placement.traffic, placement.hardware.chip, placement.options
    there = 0 if chip is None else chip.tile_count
    yield "network", f"{placement.network.name}, {number_of(len(placement.layers), 'stage')}"
    yield "hardware", f"{placement.hardware.name}, mapping {options_.mapping}"
    yield "arrays", f"{len(placement.arrays)} used of {0 if chip is None else chip.arrays}"
    filled = sum(tile.utilisation for tile in placement.tiles) / len(placement.tiles)
    cells = sum(tile.cells for tile in placement.tiles) / len(placement.tiles)
    used = f"{share(filled)} of their arrays and {share(cells)} of their cells"
    yield "tiles", f"{len(placement.tiles)} used of {there}, {used}"
    yield (
        "traffic",
        f"{rounded(traffic.cost)} byte hops an input ({rounded(traffic.constructed)} as constructed)",
    )
    yield "lower bound", f"{rounded(traffic.lower_bound)} byte hops"
    yield "gap", f"{share(traffic.gap)} from the least traffic at most"
    yield "proof", traffic.proof
    timed = [(flow.transfer_ns, flow) for flow in placement.flows if flow.transfer_ns is not None]
    if timed:
        longest_ns, flow = max(timed, key=lambda each: each[0])
        yield "transfer", f"{duration(longest_ns)} at most, {flow.words}"
    busy = [(flow.busy, flow) for flow in placement.flows if flow.busy is not None]
    if busy:
        part, flow = max(busy, key=lambda each: each[0])
        words = f"{share(part)} of the time, {flow.words}"
        yield "links busy", words + (": it cannot keep up" if part > 1 else "")
    if chip is not None and chip.chips != (1, 1):
        yield "chip hop", f"counts as {traffic.chip_hop:g} tile hops"


def _at(place: tuple[int, int]) -> str:
    return f"{place[0]},{place[1]}"
