"""`rramalloc place`: every array of every chip."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rramalloc.cli import parameters
from rramalloc.cli.output import print_csv, print_lines, print_result, print_table, warn
from rramalloc.units import duration, number_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rramalloc.placement.placement import Placement

_COLUMNS = {
    "layer": "name",
    "demand": "demand",
    "replication": "replication",
    "block": "block",
    "tiles": "tiles",
    "straddling": "straddling",
    "utilisation": "utilisation",
}
_SPARE = ("straddling", "utilisation", "demand", "tiles")
_BUSIEST = 5


def place(
    network: parameters.NetworkArgument,
    allocation: parameters.AllocationFile,
    *,
    hardware: parameters.OwnHardware = None,
    mapping: parameters.OwnMapping = None,
    fc: parameters.OwnFc = None,
    latency_table: parameters.LatencyTable = None,
    seed: parameters.Seed = 0,
    work: Annotated[
        int, typer.Option("--work", metavar="N", help="Units of improvement; 0: construction only.")
    ] = 40,
    input_shape: parameters.InputShape = None,
    allow_partial: parameters.AllowPartial = False,
    output_format: parameters.OutputFormat = "table",
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Write the placement as JSON.")
    ] = None,
    figure: parameters.Figure = None,
    quiet: parameters.Quiet = False,
) -> None:
    """Place an allocation: every block of every copy on an array of a tile of a chip, with little traffic.

    Example: rramalloc place vgg16 --allocation vgg16_2048.json -o placed.json
    """
    from rramalloc import api
    from rramalloc.chart import check_figure

    check_figure(figure)
    placement = api.place(
        network, allocation, hardware=hardware, mapping=mapping,
        fc=fc, latency_table=latency_table, seed=seed, work=work,
        input_shapes=parameters.parse_input_shapes(input_shape), allow_partial=allow_partial,
    )  # fmt: skip
    if output is not None:
        placement.save(output)
    if figure is not None:
        placement.plot.chip_map(save=figure)
    if output_format == "csv":
        frame = placement.to_frame()
        print_csv(list(frame.columns), frame.itertuples(index=False))
    elif print_result(
        placement.to_dict, _COLUMNS, placement.layers, output_format, ("layer",),
        spare=_SPARE, whole="--format json", quiet=quiet,
    ):  # fmt: skip
        _show(placement, quiet=quiet)
    warn(placement.warnings, quiet=quiet)


def _show(placement: Placement, *, quiet: bool) -> None:
    """Busiest links and summary below the table of layers."""
    typer.echo()
    if placement.links:
        rows = [
            ("chips" if link.chip is None else f"chip {_at(link.chip)}", _at(link.start), _at(link.end),
             f"{link.size_bytes:,.0f}")
            for link in placement.links[:_BUSIEST]
        ]  # fmt: skip
        names = ("busiest links", "from tile", "to tile", "bytes")
        print_table(names, rows, names[:3], spare=names[:1], whole="--format json", quiet=quiet)
        typer.echo()
    print_lines(_summary(placement))


def _summary(placement: Placement) -> Iterator[tuple[str, str]]:
    traffic, chip, options_ = placement.traffic, placement.hardware.chip, placement.options
    there = 0 if chip is None else chip.tile_count
    yield "network", f"{placement.network.name}, {number_of(len(placement.layers), 'stage')}"
    yield "hardware", f"{placement.hardware.name}, mapping {options_.mapping}"
    yield "arrays", f"{len(placement.arrays)} used of {0 if chip is None else chip.arrays}"
    filled = sum(tile.utilisation for tile in placement.tiles) / len(placement.tiles)
    cells = sum(tile.cells for tile in placement.tiles) / len(placement.tiles)
    used = f"{filled:.1%} of their arrays and {cells:.1%} of their cells"
    yield "tiles", f"{len(placement.tiles)} used of {there}, {used}"
    yield "traffic", f"{traffic.cost:,.0f} byte hops an input ({traffic.constructed:,.0f} as constructed)"
    yield "lower bound", f"{traffic.lower_bound:,.0f} byte hops"
    yield "gap", f"{traffic.gap:.2%} from the least traffic at most"
    yield "proof", traffic.proof
    timed = [(flow.transfer_ns, flow) for flow in placement.flows if flow.transfer_ns is not None]
    if timed:
        longest_ns, flow = max(timed, key=lambda each: each[0])
        yield "transfer", f"{duration(longest_ns)} at most, {flow.words}"
    busy = [(flow.busy, flow) for flow in placement.flows if flow.busy is not None]
    if busy:
        share, flow = max(busy, key=lambda each: each[0])
        words = f"{share:.1%} of the time, {flow.words}"
        yield "links busy", words + (": it cannot keep up" if share > 1 else "")
    if chip is not None and chip.chips != (1, 1):
        yield "chip hop", f"counts as {traffic.chip_hop:g} tile hops"


def _at(place: tuple[int, int]) -> str:
    return f"{place[0]},{place[1]}"
