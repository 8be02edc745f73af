"""Section of a placement: the chips' tiles coloured by layer, and what moves between them."""

from __future__ import annotations

from rramalloc.placement.placement import Placement
from rramalloc.report.chip_map import chip_map
from rramalloc.report.section import Block, Column, Detail, Fact, Section, Table, section_of, shown
from rramalloc.units import counted, rounded, share, size


def placement_section(placement: Placement, detail: Detail) -> Section:
    """Headline, chip map, layers, flows and the busiest links."""
    traffic, chip = placement.traffic, placement.hardware.chip
    room = 0 if chip is None else chip.arrays
    facts = (
        Fact("Arrays placed", f"{len(placement.arrays):,}", f"of {room:,}" if room else ""),
        Fact("Tiles in use", f"{len(placement.tiles):,}"),
        Fact("Traffic", rounded(traffic.cost), "byte hops an input"),
        Fact("Gap", share(traffic.gap), "at most from the least traffic"),
    )
    limit = ""
    if placement.flows:
        most = max(placement.flows, key=lambda flow: flow.byte_hops)
        part = most.byte_hops / traffic.cost if traffic.cost else 0.0
        limit = f"The largest flow is {most.words}: {share(part)} of the traffic"
    options = placement.options
    drawn: tuple[Block, ...] = (chip_map(placement, detail),) if placement.arrays else ()
    return section_of(
        "Placement",
        placement,
        title=f"{placement.network.name} placed on {counted(len(placement.tiles), 'tile')}",
        facts=facts,
        limit=limit,
        blocks=(*drawn, *_tables(placement, detail)),
        headline=f"{rounded(traffic.cost)} byte hops, gap {share(traffic.gap)}",
        made=(
            ("Seed, work", f"{options.seed}, {options.work} units"),
            ("Bound shown by", traffic.proof),
        ),
    )


def _tables(placement: Placement, detail: Detail) -> tuple[Table, ...]:
    in_blocks = bool(placement.blocks)
    layers = Table(
        "Placed layers",
        (
            Column("#", "int"),
            Column("Layer"),
            Column("Demand", "int"),
            Column("Replication", "int"),
            Column("Tiles", "int"),
            Column("Straddling copies", "int"),
            *((Column("Block"), Column("Utilisation", "percent")) if in_blocks else ()),
        ),
        [
            (
                number,
                layer.name,
                layer.demand,
                layer.replication,
                layer.tiles,
                layer.straddling,
                *(("x".join(map(str, layer.block or (1, 1))), layer.utilisation) if in_blocks else ()),
            )
            for number, layer in enumerate(placement.layers, 1)
        ],
        "Tiles: that hold some of it. Straddling: copies that lie in several tiles."
        + (
            " Block: windows that a copy computes in a step. Utilisation: cells of its arrays with weights."
            if in_blocks
            else ""
        ),
        folded=False,
    )
    flows = Table(
        "Flows between layers",
        (
            Column("Producer"),
            Column("Consumer"),
            Column("Bytes", "int"),
            Column("Mean hops", "float"),
            Column("Byte hops", "int"),
        ),
        [
            (flow.producer, flow.consumer, round(flow.size_bytes), flow.hops, round(flow.byte_hops))
            for flow in sorted(placement.flows, key=lambda flow: -flow.byte_hops)
        ],
        "Per input of the network, largest first. From a layer to itself: partial sums of its copies.",
    )
    links = Table(
        "Busiest links",
        (Column("Chip"), Column("From"), Column("To"), Column("Traffic")),
        [
            (
                "between chips" if link.chip is None else _place(link.chip),
                _place(link.start),
                _place(link.end),
                size(link.size_bytes),
            )
            for link in placement.links[:20]
        ],
        f"The first 20 of {len(placement.links):,}." if len(placement.links) > 20 else "",
    )
    return tuple(shown(table, detail) for table in (layers, flows, links) if table.rows)


def _place(at: tuple[int, int]) -> str:
    return f"{at[0]}, {at[1]}"
