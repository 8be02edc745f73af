"""Placements of several networks that share the tiles of a chip, as one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

from rramalloc.allocation.allocation import NetworkId
from rramalloc.commands.place.placement import Link, Placement, PlacementOptions, TileUse, Traffic
from rramalloc.records import Record
from rramalloc.units import duration

BY_TILE = attrgetter("chip", "tile", "index")
"""Place of an array, by which placements list them."""


def together(parts: Sequence[Placement], tiles: tuple[TileUse, ...]) -> Placement:
    """Return placements of several networks on one chip as one, whose layers are "network/layer".

    tiles: in use by all of them. Times are of each network, as they do not run at the same time: its warnings
    say them.
    """
    names = [part.network.name for part in parts]
    options = max((part.options for part in parts), key=lambda options: options.mapping == "sdk")
    named = [
        _named(part, name if names.count(name) == 1 else f"{name} {number}", options)
        for number, (name, part) in enumerate(zip(names, parts, strict=True), 1)
    ]
    links: dict[Any, list[Link]] = {}
    for link in chain.from_iterable(part.links for part in parts):
        links.setdefault((link.chip, link.start, link.end), []).append(link)
    # They do not run at the same time: a link is as busy as with the network that it carries most of.
    merged = [
        own[0].model_copy(
            update={
                "size_bytes": sum(link.size_bytes for link in own),
                "busy": max((link.busy for link in own if link.busy is not None), default=None),
            }
        )
        for own in links.values()
    ]
    return Placement(
        rramalloc_version=parts[0].rramalloc_version,
        network=NetworkId(
            name=" + ".join(names),
            sha256=hashlib.sha256("".join(part.network.sha256 for part in parts).encode()).hexdigest(),
        ),
        hardware=parts[0].hardware,
        options=options,
        traffic=Traffic(
            cost=sum(part.traffic.cost for part in parts),
            constructed=sum(part.traffic.constructed for part in parts),
            chip_hop=parts[0].traffic.chip_hop,
        ),
        layers=tuple(chain.from_iterable(part.layers for part in named)),
        flows=tuple(chain.from_iterable(part.flows for part in named)),
        links=tuple(sorted(merged, key=lambda link: -link.size_bytes)),
        tiles=tiles,
        arrays=tuple(sorted(chain.from_iterable(part.arrays for part in named), key=BY_TILE)),
        not_counted=tuple(dict.fromkeys(chain.from_iterable(part.not_counted for part in parts))),
        warnings=tuple(chain.from_iterable(part.warnings for part in named)),
    )


def _named(part: Placement, name: str, options: PlacementOptions) -> Placement:
    """Return a placement with the name of its network before those of layers, and before its warnings.

    options: that stand for all networks; a warning says in which others this one was placed.
    """
    said = [f"{name}: {words}" for words in part.warnings]
    of_all = dict(options)
    differing = [
        f"{field} = {'its own' if isinstance(value, Record) else value}"
        for field, value in part.options
        if value != of_all[field]
    ]
    if differing:
        said.append(f"{name}: placed with other options: {', '.join(differing)}")
    if part.latency_ns is not None:
        said.append(f"{name}: latency {duration(part.latency_ns)} with transfers, alone on the links")
    return part.model_copy(
        update={
            "layers": [each.model_copy(update={"name": f"{name}/{each.name}"}) for each in part.layers],
            "arrays": [each.model_copy(update={"layer": f"{name}/{each.layer}"}) for each in part.arrays],
            "flows": [
                each.model_copy(
                    update={"producer": f"{name}/{each.producer}", "consumer": f"{name}/{each.consumer}"}
                )
                for each in part.flows
            ],
            "warnings": said,
        }
    )
