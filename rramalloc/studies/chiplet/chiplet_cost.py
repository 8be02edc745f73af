"""`chiplet_cost`: the one call to the cost on chiplets, of a description or of a placed allocation."""

from __future__ import annotations

import os

from rramalloc.allocation.given import given
from rramalloc.allocation.saved import AllocationLike
from rramalloc.errors import SpecError
from rramalloc.network.network import Network
from rramalloc.network.readers import InputShapes, load
from rramalloc.placement.check import check
from rramalloc.placement.placement import Placement, read_placement
from rramalloc.studies.chiplet.cost import ChipletCost
from rramalloc.studies.chiplet.description import Description
from rramalloc.studies.chiplet.from_description import described_cost, read_description
from rramalloc.studies.chiplet.from_placement import placed_cost
from rramalloc.timing.stage_graph import StageGraph


def chiplet_cost(
    source: Description | Network | str | os.PathLike[str],
    allocation: AllocationLike | None = None,
    placement: Placement | str | os.PathLike[str] | None = None,
    *,
    input_shapes: InputShapes | None = None,
) -> ChipletCost:
    """Inference cost on chiplets: of a description or its file, or of a network as its allocation is placed.

    Raises RramallocError: FileError, SpecError, MisplacedError, UnsupportedError.
    """
    if isinstance(source, Description):
        return described_cost(source, "description")
    if (allocation is None) != (placement is None) or (allocation is None and isinstance(source, Network)):
        missing = "allocation" if allocation is None else "placement"
        raise SpecError(missing, "a network needs both allocation and placement, a description neither")
    if allocation is None or placement is None:
        return described_cost(read_description(_path(source)), os.fspath(_path(source)))
    network = source if isinstance(source, Network) else load(source, input_shapes)
    placed = placement if isinstance(placement, Placement) else read_placement(placement)
    options = placed.options
    known = given(network, allocation, hardware=placed.hardware, mapping=options.mapping, fc=options.fc)
    check(placed, network, known.replication)
    return placed_cost(StageGraph.build(network, known.fc), placed)


def _path(source: Network | str | os.PathLike[str]) -> str | os.PathLike[str]:
    if isinstance(source, Network):
        raise AssertionError("checked before")
    return source
