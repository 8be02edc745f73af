"""`chiplet_cost`: the cost of a description, or of a placed allocation.

Of a placed allocation a tile is a processing unit, a chip is a chiplet, times are in ns. Stages of equal
depth in the network form a group. A stage computes for batches x step. Partial sums and outputs travel as
`place.transfer` says, one transfer a batch: the slowest link carries its bytes, and the hops are those of
the pairs of arrays that move something, on average.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from rramalloc.allocation.allocation_input import AllocationLike, read_allocation
from rramalloc.commands.chiplet.cost import ChipletCost, Terms, described_cost, read_description, total_cost
from rramalloc.commands.chiplet.description import Description
from rramalloc.commands.place.check import check
from rramalloc.commands.place.layout import Flows
from rramalloc.commands.place.links import Loads
from rramalloc.commands.place.placement import Placement, PlacementLike, as_placement
from rramalloc.commands.place.transfer import Way, Ways
from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Chip
from rramalloc.importers import InputShapes, NetworkLike, as_network
from rramalloc.network.network import Network
from rramalloc.records import Record
from rramalloc.result import ResultRecord
from rramalloc.timing.access import StepTime
from rramalloc.timing.clocks import timed_graph
from rramalloc.timing.measured_steps import LatencyTableLike, MeasuredSteps, measured_steps
from rramalloc.timing.simulate import simulate
from rramalloc.timing.stage_graph import StageGraph
from rramalloc.units import quantity


def placed_cost(
    graph: StageGraph, placement: Placement, measured: MeasuredSteps | None = None
) -> ChipletCost:
    """Return the cost in ns of a network as it is placed; measured: step times instead of those of the
    hardware.

    graph: with the stages' own clocks if the hardware has them.
    Raises SpecError without [chip], or [timing] where nothing is measured.
    """
    hardware, chip = placement.hardware, placement.hardware.chip
    copies = np.array([placement.replication.get(name, 1) for name in graph.names], dtype=np.int64)
    step_time = StepTime.of(graph, hardware, measured)
    if chip is None or step_time is None:
        missing = "[chip]" if chip is None else "[timing]"
        raise SpecError(
            f"hardware {hardware.name[:60]!r}", f"needs {missing} to compute the cost of a placement"
        )
    step_ns, timing = step_time.step_ns(copies), simulate(graph, copies)
    batches = dict(zip(graph.names, timing.batches.tolist(), strict=True))
    cycles = dict(zip(graph.names, timing.cycles.tolist(), strict=True))
    rates, own = _Rates(chip), graph.on_arrays
    ways = Ways.of(placement.arrays, own.names, Flows.of(own, hardware), copies[graph.weighted])
    terms = {name: Terms(batches[name] * cycles[name] * step_ns, 0.0, 0.0) for name in graph.names}
    edges = []
    for way, size_bytes, p, c in zip(
        ways, ways.input_bytes.tolist(), ways.sender.tolist(), ways.receiver.tolist(), strict=True
    ):
        producer, consumer = own.names[p], own.names[c]
        carried, routed = rates.carried(way, size_bytes), rates.routed(batches[producer], way)
        if p == c:
            terms[producer] = Terms(terms[producer].compute, carried, routed)
        else:
            edges.append((producer, consumer, Terms(0.0, carried, routed)))
    levels = _levels(graph)
    groups = [{name: terms[name] for name in level} for level in levels]
    warnings = [*rates.warnings(), *(measured.warnings if measured else ())]
    pipelined = timing.makespan * step_ns
    return total_cost(groups, edges, "ns", warnings, pipelined)


class _Rates:
    """Bandwidths and times per hop of a chip; what is not given costs nothing, with a warning."""

    def __init__(self, chip: Chip) -> None:
        self._chip, self._missing = chip, dict[str, None]()

    def carried(self, way: Way, size_bytes: float) -> float:
        """Return the time in which the slowest link carries `size_bytes` bytes of a way, with no other
        traffic."""
        loads = Loads()
        way.onto(loads, size_bytes)
        tile = self._value("bandwidth_tile_gb_s") if any(key is not None for key in loads.of_key) else None
        between = self._value("bandwidth_chip_gb_s") if None in loads.of_key else None
        return way.slowest_ns(loads, tile, between)

    def routed(self, transfers: int, way: Way) -> float:
        """Time on the way: so many transfers of the mean hops of the pairs that move."""
        moved = way.moved()
        inside = self._value("hop_ns_tile") if moved.inside else None
        between = self._value("hop_ns_chip") if moved.between else None
        return transfers * moved.mean_ns(inside or 0.0, between or 0.0)

    def warnings(self) -> list[str]:
        """Return the fields of the hardware that were needed and are not given."""
        return [f"the hardware gives no {field}: that time is left out" for field in self._missing]

    def _value(self, field: str) -> float | None:
        value: float | None = getattr(self._chip, field)
        if value is None:
            self._missing[field] = None
        return value


def _levels(graph: StageGraph) -> list[list[str]]:
    """Return the stages by the most stages on a way to them; in each, in network order."""
    depth = [0] * len(graph.names)
    for edge in graph.edges:
        depth[edge.consumer] = max(depth[edge.consumer], depth[edge.producer] + 1)
    levels: list[list[str]] = [[] for _ in range(max(depth) + 1)]
    for stage in graph.network_order:
        levels[depth[stage]].append(graph.names[stage])
    return levels


def chiplet_cost(
    source: Description | NetworkLike,
    allocation: AllocationLike | None = None,
    placement: PlacementLike | None = None,
    *,
    latency_table: LatencyTableLike | None = None,
    input_shapes: InputShapes | None = None,
) -> ChipletCost:
    """Return the inference cost on chiplets: of a description or its file, or of a network as its allocation
    is placed.

    latency_table: measured step times of a network, those of the allocation unless given.
    Raises RramallocError: FileError, SpecError, MisplacedError, UnsupportedError.
    """
    described = isinstance(source, Description) or (
        allocation is None and placement is None and not isinstance(source, Network)
    )
    if described and latency_table is not None:
        raise SpecError("latency table", "is for a network, a description has its own times")
    if isinstance(source, Description):
        return described_cost(source, "description")
    if allocation is None and placement is None and not isinstance(source, Network):
        return described_cost(read_description(source), os.fspath(source))
    if allocation is None or placement is None:
        missing = "allocation" if allocation is None else "placement"
        raise SpecError(missing, "a network needs both allocation and placement, a description neither")
    network, placed = as_network(source, input_shapes), as_placement(placement)
    given = read_allocation(allocation).made_for(network).without_blocks(network, "chiplet cost")
    check(placed, network, given.replication)
    own = given.measured if given.machine == placed.hardware else None
    measured = measured_steps(latency_table, network, placed.options.fc, placed.hardware, own)
    graph = timed_graph(network, placed.hardware, placed.options, measured)
    cost = placed_cost(graph, placed, measured)
    if given.measured is None or own is not None or latency_table is not None:
        return cost
    warning = "placed on other hardware than the allocation's: its measured step times do not hold there"
    return cost.model_copy(update={"warnings": (*cost.warnings, warning)})


class ComparedDescription(Record):
    """One of several.

    name: its file; computed: cost of all groups; between: of what lies between them; total: both together;
    unit: of all costs; ratio: to the least total.
    """

    name: str
    groups: int
    computed: float
    between: float
    total: float
    unit: str
    ratio: float


class ChipletComparison(ResultRecord):
    """Descriptions side by side.

    descriptions: in the order given.
    """

    format: Literal["rramalloc-chiplet-comparison/1"] = "rramalloc-chiplet-comparison/1"
    descriptions: tuple[ComparedDescription, ...]
    warnings: tuple[str, ...] = ()
    rows_in: ClassVar[str] = "descriptions"

    def _headline(self) -> tuple[str, str]:
        best = min(self.descriptions, key=lambda each: each.total)
        return "", f"{best.name} costs least, {quantity(best.total, best.unit)}, of {len(self.descriptions)}"


def chiplet_compare(sources: Sequence[Description | str | os.PathLike[str]]) -> ChipletComparison:
    """Return the costs of several descriptions side by side.

    Raises
    ------
    RramallocError
        FileError, SpecError; SpecError too if some are in cycles and others in ns.
    """
    names = [
        f"description {number}" if isinstance(source, Description) else os.fspath(source)
        for number, source in enumerate(sources, 1)
    ]
    if not names:
        raise SpecError("descriptions", "there are none to compare")
    costs = [chiplet_cost(source) for source in sources]
    if len({cost.unit for cost in costs}) > 1:
        raise SpecError("descriptions", "some are in cycles, others in ns: compare those of one unit")
    least = min(cost.total for cost in costs)
    return ChipletComparison(
        descriptions=tuple(
            ComparedDescription.gather(
                cost,
                name=name,
                groups=len(cost.groups),
                computed=sum(group.cost for group in cost.groups),
                between=sum(cost.between),
                ratio=cost.total / least if least else 1.0,
            )
            for name, cost in zip(names, costs, strict=True)
        ),
        warnings=tuple(f"{n}: {w}" for n, cost in zip(names, costs, strict=True) for w in cost.warnings),
    )
