"""Facts about the networks that ship with the package."""

from __future__ import annotations

from typing import NamedTuple

from rramalloc.importers import load
from rramalloc.network.coverage import Coverage
from rramalloc.network.shipped import shipped_names


class ShippedNetwork(NamedTuple):
    """weights: as `Coverage` counts them; macs: those of products of computed tensors among them."""

    name: str
    weight_layers: int
    weights: int
    macs: int
    source: str


def shipped_networks() -> list[ShippedNetwork]:
    """Return the facts about every shipped network, by name."""
    rows = []
    for name in shipped_names():
        network = load(name)
        coverage = Coverage.of(network, [stage.name for stage in network.stages])
        macs = coverage.macs.on_arrays
        if coverage.dynamic is not None:
            macs += coverage.dynamic.macs
        weights = coverage.weights.on_arrays
        rows.append(ShippedNetwork(name, len(network.stages), weights, macs, network.source))
    return rows
