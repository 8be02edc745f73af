"""The cost of a placed allocation, worked by hand on a network of two convolutions."""

from __future__ import annotations

from typing import Any

import pytest
from commands.place.machines import chain, chip, machine

import rramalloc
from rramalloc.allocation.allocation import Allocation
from rramalloc.commands.chiplet.cost import chiplet_cost
from rramalloc.commands.place.placement import PlacedArray, Placement
from rramalloc.errors import MisplacedError, SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.tables import Timing
from rramalloc.timing.latency_table import LatencyRow, LatencyTable
from rramalloc.timing.measured_layer import MeasuredLayer

NETWORK = chain(4, 4, kernel=3)
"""c1: 9 rows, 4 columns, 16 windows; c2: 36 rows, 4 columns, 16 windows."""


def hardware(**fields: Any) -> Hardware:
    """Three tiles of one array a chip, two chips."""
    links = {"hop_ns_tile": 1.0, "hop_ns_chip": 10.0, "bandwidth_tile_gb_s": 8.0, "bandwidth_chip_gb_s": 2.0}
    board = chip(1, (1, 3), (1, 2), **(links | fields))
    return machine(board, (16, 4), Timing(step_ns=100.0))


def placed(on: Hardware) -> Placement:
    """Copies of c1 on tiles 0 and 1 of chip 0; blocks of c2 on its tile 2 and tiles 0, 1 of chip 1."""
    base = rramalloc.place(NETWORK, {"c1": 2}, hardware=on, work=0)
    where = {
        ("c1", 0, 0): (0, 0),
        ("c1", 1, 0): (0, 1),
        ("c2", 0, 0): (0, 2),
        ("c2", 0, 1): (1, 0),
        ("c2", 0, 2): (1, 1),
    }
    arrays = []
    for array in base.arrays:
        board, tile = where[array.layer, array.replica, array.row_block]
        arrays.append(
            PlacedArray(**(array.model_dump() | {"chip": (0, board), "tile": (0, tile), "index": 0}))
        )
    return base.model_copy(update={"arrays": tuple(arrays)})


def test_worked_by_hand() -> None:
    """Two chips of tiles 0 1 2, joined at their tiles 0: c1 at 0 and 1 of the first; c2 at its 2, and at 0
    and, where its sums are made, 1 of the second.

    c1: 8 batches of 100 ns. c2: 16 of 100 ns; partial sums of 4 bytes for 16 windows from 2 tiles. The 64
    bytes between chips at 2 bytes/ns take 32 ns, all 128 over the last link at 8 bytes/ns 16; hops: 2 to the
    gate and 1 on, 1 between; and 1 inside: 16 * (4 * 1 + 1 * 10) / 2 = 112 ns.
    Between: from 0 to 2, 0', 1': 2 + 0 + 1 inside; from 1: 1 + 1 + 2; 4 of 6 cross: 8 * (7 + 40) / 6. The
    link between chips carries the bytes of 4 of 6 pairs.
    """
    placement = placed(hardware())
    found = chiplet_cost(NETWORK, {"c1": 2}, placement)
    assert found.unit == "ns"
    first, second = (group.operators for group in found.groups)
    assert (first["c1"].compute, first["c1"].communication, first["c1"].routing) == (800, 0, 0)
    assert (second["c2"].compute, second["c2"].communication, second["c2"].routing) == (1600, 32, 112)
    (edge,) = found.edges
    assert edge.routing == pytest.approx(8 * 47 / 6)
    (flow,) = (flow for flow in placement.flows if flow.producer != flow.consumer)
    assert edge.communication == pytest.approx(flow.size_bytes * 4 / 6 / 2)
    assert found.total == pytest.approx(800 + 1744 + 8 * 47 / 6 + flow.size_bytes / 3)
    assert found.warnings == ()


def test_what_the_hardware_does_not_give_is_left_out_and_told() -> None:
    found = chiplet_cost(NETWORK, {"c1": 2}, placed(hardware(hop_ns_chip=None, bandwidth_chip_gb_s=None)))
    assert len(found.warnings) == 2
    assert found.groups[1].operators["c2"].communication == 128 / 8
    assert found.groups[1].operators["c2"].routing == 16 * 4 / 2


def measured(on: Hardware) -> Allocation:
    """Two copies of c1, with 25 ns a window measured for it and 40 ns for c2."""
    layers = [MeasuredLayer.of(NETWORK, node) for node in NETWORK.nodes if node.name in ("c1", "c2")]
    rows = tuple(
        LatencyRow(**layer.model_dump(), latency_ns=16 * ns)
        for layer, ns in zip(layers, (25.0, 40.0), strict=True)
    )
    base = rramalloc.optimize(NETWORK, 5, hardware=on, latency_table=LatencyTable(rows=rows), work=1)
    assert base.copies == {"c1": 2, "c2": 1}
    return base


def test_measured_steps_of_the_allocation_hold() -> None:
    """As above, but a step takes 40 ns, those of the slowest stage: also where there is no [timing]."""
    timeless = hardware().model_copy(update={"timing": None})
    for on in (hardware(), timeless):
        cost = chiplet_cost(NETWORK, measured(on), placed(on))
        first, second = (group.operators for group in cost.groups)
        assert (first["c1"].compute, second["c2"].compute) == (8 * 40, 16 * 40)
        assert cost.warnings == ()


def test_a_placement_of_something_else_is_refused() -> None:
    placement = placed(hardware())
    with pytest.raises(MisplacedError):
        chiplet_cost(NETWORK, {"c1": 3}, placement)
    with pytest.raises(MisplacedError):
        chiplet_cost(NETWORK, {"c1": 2}, placement.model_copy(update={"arrays": placement.arrays[1:]}))
    with pytest.raises(SpecError, match="both allocation and placement"):
        chiplet_cost(NETWORK, {"c1": 2})
    with pytest.raises(SpecError, match="both allocation and placement"):
        chiplet_cost(NETWORK)
