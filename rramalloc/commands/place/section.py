"""Section of a placement: the chips' tiles coloured by layer, and what moves between them."""

from __future__ import annotations

from rramalloc.columns import Column, columns_of
from rramalloc.commands.place.chip_map import chip_map
from rramalloc.commands.place.placement import Placement
from rramalloc.page.section import Block, Detail, Fact, Section, Table, block_words, section_of, table
from rramalloc.units import counted, rounded, share, size


def placement_section(placement: Placement, detail: Detail) -> Section:
    """Return the section: headline, chip map, layers, flows and the busiest links."""
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
    of_layers = columns_of(
        "Layer=name, Arrays per copy int, Copies int, Tiles int, Straddling copies int=straddling"
    )
    note = "Tiles: that hold some of it. Straddling: copies that lie in several tiles."
    if placement.blocks:
        of_layers.append(Column("Block", value=lambda layer: block_words(layer.block)))
        of_layers.append(Column("Utilisation", "percent"))
        note += (
            " Block: windows that a copy computes in a step. Utilisation: cells of its arrays with weights."
        )
    of_flows = (
        Column("Producer"),
        Column("Consumer"),
        Column("Bytes", "int", lambda flow: round(flow.size_bytes)),
        Column("Mean hops", "float", "hops"),
        Column("Byte hops", "int", lambda flow: round(flow.byte_hops)),
    )
    of_links = (
        Column("Chip", value=lambda link: "between chips" if link.chip is None else _place(link.chip)),
        Column("From", value=lambda link: _place(link.start)),
        Column("To", value=lambda link: _place(link.end)),
        Column("Traffic", value=lambda link: size(link.size_bytes)),
    )
    flows = sorted(placement.flows, key=lambda flow: -flow.byte_hops)
    moved = "Per input of the network, largest first. From a layer to itself: partial sums of its copies."
    links = f"The first 20 of {len(placement.links):,}." if len(placement.links) > 20 else ""
    tables = (
        table("Placed layers", of_layers, placement.layers, detail, note, folded=False, numbered=True),
        table("Flows between layers", of_flows, flows, detail, moved),
        table("Busiest links", of_links, placement.links[:20], detail, links),
    )
    return tuple(each for each in tables if each.rows)


def _place(at: tuple[int, int]) -> str:
    return f"{at[0]}, {at[1]}"
