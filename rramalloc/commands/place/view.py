"""View of a placement: the chips' tiles coloured by layer, and what moves between them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from rramalloc.commands.place.chip_map import chip_map
from rramalloc.commands.place.placement import Link, Placement
from rramalloc.result import frame_table
from rramalloc.units import counted, duration, number_of, rounded, share
from rramalloc.view.view import Fact, Table, View, table

_BUSIEST = 20
"""Links of the table on a page."""
_SHOWN = 5
"""Links that a terminal prints."""


def placement_view(placement: Placement) -> View:
    """Return the view: chip map, layers, the busiest links and the flows."""
    return View.of(
        placement,
        kind="Placement",
        title=f"{placement.network.name} placed on {counted(len(placement.tiles), 'tile')}",
        extent=number_of(len(placement.layers), "stage"),
        facts=_facts(placement),
        tables=_tables(placement),
        charts={"chip_map": partial(chip_map, placement)},
        csv=frame_table("Arrays", placement.to_frame()),
    )


def _tables(placement: Placement) -> Iterator[Table]:
    yield table(
        "Placed layers",
        placement.layers,
        "layer=name, kind?, arrays_per_copy, copies, block?, tiles, straddling, utilisation?",
        spare="straddling utilisation arrays_per_copy tiles",
        note="Tiles: that hold some of it. Straddling: copies that lie in several tiles. Utilisation: cells "
        "of its arrays with weights.",
        numbered=True,
    )
    yield table(
        "Busiest links",
        placement.links[:_BUSIEST],
        "busiest links=chip, from tile=start, to tile=end, bytes=size_bytes, busy?",
        spare="chip",
        shown=_SHOWN,
        chip=_chip,
        start=lambda link: _at(link.start),
        end=lambda link: _at(link.end),
    )
    yield table(
        "Flows between layers",
        sorted(placement.flows, key=lambda flow: -flow.byte_hops),
        "producer, consumer, bytes=size_bytes, mean hops=hops, byte_hops",
        shown=0,
        note="Per input of the network, largest first. From a layer to itself: partial sums of its copies.",
    )


def _facts(placement: Placement) -> Iterator[Fact]:
    traffic, chip = placement.traffic, placement.hardware.chip
    yield Fact("arrays", len(placement.arrays), note=f"used of {sum(placement.hardware.chip_arrays)}")
    filled = sum(tile.utilisation for tile in placement.tiles) / len(placement.tiles)
    cells = sum(tile.cells for tile in placement.tiles) / len(placement.tiles)
    used = f"{share(filled)} of their arrays and {share(cells)} of their cells"
    there = 0 if chip is None else chip.tile_count
    yield Fact("tiles", len(placement.tiles), note=f"used of {there}, {used}")
    constructed = f"byte hops an input ({rounded(traffic.constructed)} as constructed)"
    yield Fact("traffic", rounded(traffic.cost), note=constructed)
    if placement.latency_ns is not None and placement.latency_ns_alone is not None:
        without = f"with transfers, {duration(placement.latency_ns_alone)} without: x{placement.factor:.2f}"
        yield Fact("latency", placement.latency_ns, "ns", without)
        yield Fact("proof", placement.proof or "")
    timed = [(flow.transfer_ns, flow) for flow in placement.flows if flow.transfer_ns is not None]
    if timed:
        longest_ns, flow = max(timed, key=lambda each: each[0])
        yield Fact("transfer", longest_ns, "ns", f"at most, {flow.words}")
    busy = [(link.busy, link) for link in placement.links if link.busy is not None]
    if busy:
        part, link = max(busy, key=lambda each: each[0])
        late = ": it cannot keep up" if part > 1 else ""
        where = f"{_chip(link)}, {_at(link.start)} to {_at(link.end)}"
        yield Fact("busiest link", part, "share", f"of the interval without transfers, {where}{late}")
    if placement.flows and traffic.cost:
        most = max(placement.flows, key=lambda flow: flow.byte_hops)
        yield Fact("largest flow", most.byte_hops / traffic.cost, "share", f"of the traffic, {most.words}")
    if chip is not None and chip.chip_count > 1:
        yield Fact("chip hop", f"counts as {traffic.chip_hop:g} tile hops")


def _chip(link: Link) -> str:
    return "chips" if link.chip is None else f"chip {_at(link.chip)}"


def _at(place: tuple[int, int]) -> str:
    return f"{place[0]},{place[1]}"
