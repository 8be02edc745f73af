"""Transfer time: how long a step's outputs take from the tiles that compute them to those that read them.

In a step each copy of a stage yields one pixel, which goes to every consumer. With all stages busy, a link
carries what all edges send over it in one step; an edge needs

    transfer_ns = hops of its longest route, each with its hop_ns + max over its links of load / bandwidth

and a stage as long as the slowest of its edges. It runs beside the access to memory (MODEL.md 7): the step
lasts as long as the slower of them, or the computation. The load of the slowest link is taken to grow with
the stage's own copies, so that a search can trade copies for time; at the replication that was placed the
time is exact.
"""

from __future__ import annotations

import numpy as np

from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Chip, Hardware
from rramalloc.placement.arrange import Arrangement, chip_of
from rramalloc.placement.flows import Spread
from rramalloc.placement.links import Loads, routes
from rramalloc.placement.mesh import Ints
from rramalloc.timing.access import Transfer


def check_transfer(hardware: Hardware) -> None:
    """Raise SpecError unless the hardware gives all times and bandwidths that transfer needs."""
    chip, where = chip_of(hardware), f"hardware {hardware.name[:60]!r}"
    needed = ["hop_ns_tile", "bandwidth_tile_gb_s"]
    if chip.chips != (1, 1):
        needed += ["hop_ns_chip", "bandwidth_chip_gb_s"]
    missing = [name for name in needed if getattr(chip, name) is None]
    if missing:
        raise SpecError(where, f"[chip] has no {' and no '.join(missing)}, which transfer time needs")


def transfer(found: Arrangement, replication: Ints, hardware: Hardware) -> Transfer:
    """The transfer time of every stage of a placement. Raises SpecError if a number is missing."""
    check_transfer(hardware)
    chip, spread, flows = chip_of(hardware), found.layout.spread, found.flows
    loads = Loads.total(spread, flows, flows.pixel_bytes * replication[flows.producer])
    fixed, per_copy = np.zeros((2, flows.stages))
    slowest = np.zeros(flows.stages)
    for edge, (p, c) in enumerate(zip(flows.producer.tolist(), flows.consumer.tolist(), strict=True)):
        queue_ns = 0.0
        for route in routes(spread, flows, edge):
            used = route.of(loads.of_key[route.key])[route.pairs > 0]
            gb_s = chip.bandwidth_tile_gb_s if route.key is not None else chip.bandwidth_chip_gb_s
            queue_ns = max(queue_ns, float(used.max(initial=0.0)) / (gb_s or 1.0))
        way_ns = _longest_ns(spread, p, c, chip)
        if way_ns + queue_ns > slowest[p]:
            slowest[p] = way_ns + queue_ns
            fixed[p], per_copy[p] = way_ns, queue_ns / int(replication[p])
    return Transfer(fixed, per_copy)


def _longest_ns(spread: Spread, producer: int, consumer: int, chip: Chip) -> float:
    """Time of the hops between the two tiles of two stages that are farthest apart."""
    one, other = spread.entries[producer][0], spread.entries[consumer][0]
    longest = 0.0
    for mine in np.unique(one[:, :2], axis=0):
        for yours in np.unique(other[:, :2], axis=0):
            a = one[(one[:, :2] == mine).all(axis=1), 2:]
            b = other[(other[:, :2] == yours).all(axis=1), 2:]
            between = int(np.abs(mine - yours).sum())
            tiles = _apart(a, b) if not between else int(a.sum(axis=1).max() + b.sum(axis=1).max())
            longest = max(longest, tiles * (chip.hop_ns_tile or 0.0) + between * (chip.hop_ns_chip or 0.0))
    return longest


def _apart(one: Ints, other: Ints) -> int:
    """Most hops between two sets of tiles of a mesh, by the four corners of the Manhattan distance."""
    found = 0
    for sign in (1, -1):
        a, b = one[:, 0] + sign * one[:, 1], other[:, 0] + sign * other[:, 1]
        found = max(found, int(a.max() - b.min()), int(b.max() - a.min()))
    return found
