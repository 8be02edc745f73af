"""`chiplet_cost`: the one call to the cost on chiplets, of a description or of a placed allocation."""

from __future__ import annotations

import os

from rramalloc.errors import SpecError
from rramalloc.importers import InputShapes, NetworkLike, as_network
from rramalloc.network.network import Network
from rramalloc.placement.check import check
from rramalloc.placement.placement import PlacementLike, as_placement
from rramalloc.results.allocation_input import AllocationLike, read_allocation
from rramalloc.studies.chiplet.cost import ChipletCost
from rramalloc.studies.chiplet.description import Description
from rramalloc.studies.chiplet.from_description import described_cost, read_description
from rramalloc.studies.chiplet.from_placement import placed_cost
from rramalloc.timing.measured_steps import measured_steps
from rramalloc.timing.stage_graph import StageGraph


def chiplet_cost(
    source: Description | NetworkLike,
    allocation: AllocationLike | None = None,
    placement: PlacementLike | None = None,
    *,
    input_shapes: InputShapes | None = None,
) -> ChipletCost:
    """Inference cost on chiplets: of a description or its file, or of a network as its allocation is placed.

    Raises RramallocError: FileError, SpecError, MisplacedError, UnsupportedError.
    """
    if isinstance(source, Description):
        return described_cost(source, "description")
    if allocation is None and placement is None and not isinstance(source, Network):
        return described_cost(read_description(source), os.fspath(source))
    if allocation is None or placement is None:
        missing = "allocation" if allocation is None else "placement"
        raise SpecError(missing, "a network needs both allocation and placement, a description neither")
    network, placed = as_network(source, input_shapes), as_placement(placement)
    given = read_allocation(allocation).made_for(network)
    check(placed, network, given.replication)
    own = given.measured if given.machine == placed.hardware else None
    measured = measured_steps(None, network, placed.options.fc, placed.hardware, own)
    cost = placed_cost(StageGraph.build(network, placed.options.fc), placed, measured)
    if given.measured is None or own is not None:
        return cost
    warning = "placed on other hardware than the allocation's: its measured step times do not hold there"
    return cost.model_copy(update={"warnings": (*cost.warnings, warning)})
