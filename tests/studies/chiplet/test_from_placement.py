"""The cost of a placed allocation, worked by hand on a network of two convolutions."""

from __future__ import annotations

import pytest

import rramalloc.api as api
from rramalloc.errors import MisplacedError, SpecError
from rramalloc.hardware.hardware import Chip, Crossbar, Hardware, Precision, Timing
from rramalloc.network.network import Network
from rramalloc.placement.placement import PlacedArray, Placement
from rramalloc.studies.chiplet.chiplet_cost import chiplet_cost


def network() -> Network:
    """conv1: 9 rows, 4 columns, 16 windows; conv2: 36 rows, 4 columns, 16 windows."""
    nodes = [
        {"name": "x", "op": "input", "shape": [1, 4, 4]},
        {"name": "conv1", "op": "conv", "inputs": ["x"], "out_channels": 4, "kernel": 3, "pads": 1},
        {"name": "conv2", "op": "conv", "inputs": ["conv1"], "out_channels": 4, "kernel": 3, "pads": 1},
    ]
    return Network.build("two", nodes)


def hardware(**fields: object) -> Hardware:
    chip = {"arrays_per_tile": 1, "straddle": True, "tiles": (1, 3), "chips": (1, 2), "hop_ns_tile": 1.0,
            "hop_ns_chip": 10.0, "bandwidth_tile_gb_s": 8.0, "bandwidth_chip_gb_s": 2.0}  # fmt: skip
    return Hardware(
        name="m", source="test",
        crossbar=Crossbar(wordlines=16, bitlines=4, cell_bits=8),
        precision=Precision(weight_bits=8, input_bits=8, output_bits=8, signed="offset"),
        timing=Timing(step_ns=100.0),
        chip=Chip(**(chip | fields)),  # type: ignore[arg-type]
    )  # fmt: skip


def placed(machine: Hardware) -> Placement:
    """Copies of conv1 on tiles 0 and 1 of chip 0; blocks of conv2 on its tile 2 and tiles 0, 1 of chip 1."""
    base = api.place(network(), {"conv1": 2}, hardware=machine, work=0)
    where = {
        ("conv1", 0, 0): (0, 0),
        ("conv1", 1, 0): (0, 1),
        ("conv2", 0, 0): (0, 2),
        ("conv2", 0, 1): (1, 0),
        ("conv2", 0, 2): (1, 1),
    }
    arrays = []
    for array in base.arrays:
        chip, tile = where[array.layer, array.replica, array.row_block]
        arrays.append(
            PlacedArray(**(array.model_dump() | {"chip": (0, chip), "tile": (0, tile), "index": 0}))
        )
    return base.model_copy(update={"arrays": tuple(arrays)})


def test_worked_by_hand() -> None:
    """Mesh of 1 x 6 tiles, 3 a chip: conv1 at 0 and 1; conv2 at 2, 3 and, where its sums are made, 4.

    conv1: 8 batches of 100 ns. conv2: 16 of 100 ns; partial sums of 4 bytes for 16 windows from 2 tiles:
    128 bytes between chips at 2 bytes/ns: 64 ns; hops of 2 -> 4: 1 inside, 1 between; 3 -> 4: 1 inside:
    16 * (2 * 1 + 1 * 10) / 2 = 96 ns.
    Between: from 0, 1 to 2, 3, 4: steps 2 3 4 1 2 3 = 15, of which 4 cross to chip 1; 8 * (11 + 40) / 6 = 68.
    """
    placement = placed(hardware())
    found = chiplet_cost(network(), {"conv1": 2}, placement)
    assert found.unit == "ns"
    first, second = (group.operators for group in found.groups)
    assert (first["conv1"].compute, first["conv1"].communication, first["conv1"].routing) == (800, 0, 0)
    assert (second["conv2"].compute, second["conv2"].communication, second["conv2"].routing) == (1600, 64, 96)
    (edge,) = found.edges
    assert edge.routing == 68
    (flow,) = placement.flows
    assert edge.communication == flow.size_bytes / 2
    assert found.total == 800 + 1760 + 68 + flow.size_bytes / 2
    assert found.warnings == ()


def test_what_the_hardware_does_not_give_is_left_out_and_told() -> None:
    found = chiplet_cost(
        network(), {"conv1": 2}, placed(hardware(hop_ns_chip=None, bandwidth_chip_gb_s=None))
    )
    assert len(found.warnings) == 2
    assert found.groups[1].operators["conv2"].communication == 0
    assert found.groups[1].operators["conv2"].routing == 16 * 2 / 2


def test_steps_need_a_time() -> None:
    machine = hardware().model_copy(update={"timing": None})
    with pytest.raises(SpecError, match=r"needs \[timing\]"):
        chiplet_cost(network(), {"conv1": 2}, placed(machine))


def test_a_placement_of_something_else_is_refused() -> None:
    placement = placed(hardware())
    with pytest.raises(MisplacedError):
        chiplet_cost(network(), {"conv1": 3}, placement)
    with pytest.raises(MisplacedError):
        chiplet_cost(network(), {"conv1": 2}, placement.model_copy(update={"arrays": placement.arrays[1:]}))
    with pytest.raises(SpecError, match="both allocation and placement"):
        chiplet_cost(network(), {"conv1": 2})
    with pytest.raises(SpecError, match="both allocation and placement"):
        chiplet_cost(network())
