"""Inference cost on a topology of chiplets: of a description, or of an allocation as it is placed.

The groups run one after the other; what lies between them is added.  Source: docs/sources/companions.md 2.
Of a placed allocation a tile is a processing unit, a chip is a chiplet, times are in ns. Stages of equal
depth in the network form a group. A stage computes for batches x step. Partial sums and outputs travel as
`place.transfer` says, one transfer a batch: the slowest link carries its bytes, and the hops are those of
the pairs of arrays that move something, on average.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field

from rramalloc.allocation.allocation_input import AllocationLike, read_case
from rramalloc.allocation.case import Case
from rramalloc.allocation.goes_with import check_command
from rramalloc.choices import InputShapes, InputValues
from rramalloc.commands.chiplet.description import (
    ChipletChip,
    ChipletEdge,
    ChipletOperator,
    ChipUnit,
    Description,
    entry,
    read_description,
)
from rramalloc.commands.chiplet.places import Submesh, UnitSet, hops_of_pairs, hops_of_sets
from rramalloc.commands.place.check import check_placement
from rramalloc.commands.place.layout import Flows
from rramalloc.commands.place.links import Loads
from rramalloc.commands.place.mesh import Hops
from rramalloc.commands.place.placement import Placement, PlacementLike, as_placement
from rramalloc.commands.place.transfer import TileRoutes
from rramalloc.errors import SpecError
from rramalloc.importers import NetworkLike
from rramalloc.mapping.options import DEFAULT_MAPPING
from rramalloc.network.network import Network
from rramalloc.network.node import Name
from rramalloc.records import Record, brief
from rramalloc.result import AnswerRecord, frame_of
from rramalloc.timing.access import StepTime
from rramalloc.timing.clocks import timed_graph
from rramalloc.timing.latency_table import LatencyTableLike
from rramalloc.timing.measured_steps import MeasuredSteps, measured_steps
from rramalloc.timing.simulate import simulate
from rramalloc.timing.stage_graph import StageGraph
from rramalloc.units import counted, quantity

if TYPE_CHECKING:
    import pandas as pd

MAX_LISTED = 2**18
"""Units of all different submeshes together: bounds the time that hops take."""


class OperatorCost(Record):
    """compute, communication inside the operator and its routing; cost: their sum."""

    compute: float
    communication: float
    routing: float
    cost: float

    @classmethod
    def of(cls, compute: float, communication: float = 0.0, routing: float = 0.0) -> Self:
        """Return the cost of some parts."""
        cost = compute + communication + routing
        return cls(compute=compute, communication=communication, routing=routing, cost=cost)


class GroupCost(Record):
    """Operators that run at the same time; cost: of the slowest."""

    operators: dict[Name, OperatorCost]
    cost: float


class EdgeCost(Record):
    """Operator `to` reads what `from` wrote; cost: communication + routing."""

    source: Name = Field(alias="from")
    to: Name
    communication: float
    routing: float
    cost: float

    @classmethod
    def of(cls, source: str, to: str, communication: float, routing: float) -> Self:
        """Return the cost of an edge."""
        moved = {"communication": communication, "routing": routing, "cost": communication + routing}
        return cls(**{"from": source, "to": to}, **moved)


class OperatorRow(NamedTuple):
    """An operator and its cost; group: from 0; first, last: unit as "chiplet row,column / row,column"."""

    group: int
    operator: str
    strategy: str | None
    units: int | None
    first: str | None
    last: str | None
    compute: float
    communication: float
    routing: float
    cost: float


class ChipletCost(AnswerRecord):
    """Cost of a network on chiplets: the groups one after the other, with the transfers between them.

    total: of the groups one after the other (sequential), without what not_counted lists; pipelined: of the
    same allocation with all stages at work at the same time, as `optimize` counts and without transfers, None
    where only a description is given; between: for each group and the next, the sum of `edges` into that next
    group; unit: of all costs.
    """

    format: Literal["rramalloc-chiplet-cost/1"] = "rramalloc-chiplet-cost/1"
    total: float
    pipelined: float | None = None
    unit: Literal["cycles", "ns"]
    groups: tuple[GroupCost, ...]
    between: tuple[float, ...]
    edges: tuple[EdgeCost, ...]

    @classmethod
    def of(
        cls,
        groups: Sequence[Mapping[str, OperatorCost]],
        edges: Sequence[EdgeCost],
        unit: Literal["cycles", "ns"],
        warnings: Sequence[str],
        pipelined: float | None = None,
    ) -> Self:
        """Return the sum of the groups and the edges between them.

        An edge that leaps over groups counts before the group that reads it.
        """
        group_of = {name: index for index, group in enumerate(groups) for name in group}
        slowest = [max(operator.cost for operator in group.values()) for group in groups]
        between = [0.0] * max(0, len(groups) - 1)
        for edge in edges:
            between[group_of[edge.to] - 1] += edge.cost
        return cls(
            total=sum(slowest) + sum(between),
            pipelined=pipelined,
            unit=unit,
            groups=tuple(
                GroupCost(operators=dict(group), cost=cost)
                for group, cost in zip(groups, slowest, strict=True)
            ),
            between=tuple(between),
            edges=tuple(edges),
            warnings=tuple(warnings),
        )

    @property
    def computed(self) -> float:
        """The cost of all groups."""
        return sum(group.cost for group in self.groups)

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with one row per operator: its group (from 0), name and cost."""
        return frame_of(self.rows(), ("group", "operator", *OperatorCost.model_fields))

    def rows(self) -> list[OperatorRow]:
        """Return the operators in the order of their groups."""
        return [
            OperatorRow(number, name, None, None, None, None, **dict(cost))
            for number, group in enumerate(self.groups)
            for name, cost in group.operators.items()
        ]

    def _headline(self) -> tuple[str, str]:
        return "", f"{quantity(self.total, self.unit)} in {counted(len(self.groups), 'group')} of operators"


class OperatorWork(NamedTuple):
    """A product of an m x k by a k x n matrix, per unit."""

    m: int
    k: int
    n: int


def systolic_cycles(work: OperatorWork, side: int) -> float:
    """Return the cycles on a systolic array of `side` x `side` cells.

    m * k * n / side^2 + 2 * (side - 1), the ratio not rounded, if m or n exceeds the side; else, and where
    one equals it, m + k + n - 1.  Source: docs/sources/companions.md 2.
    """
    if work.m > side or work.n > side:
        return work.m * work.k * work.n / (side * side) + 2 * (side - 1)
    return float(work.m + work.k + work.n - 1)


def compute_cycles(operator: ChipletOperator, strategy: int, chip: ChipletChip, where: str) -> float:
    """Return the cycles that an operator computes. Raises SpecError without the side of a systolic array."""
    if operator.compute is not None:
        return entry(operator.compute, strategy)
    if chip.systolic is None or operator.work is None:
        raise SpecError(f"{where}.work", "needs chip.systolic, the side of a unit's array; or give compute")
    return systolic_cycles(OperatorWork(*entry(operator.work, strategy)), chip.systolic)


def moved_cycles(size_bytes: float, chip: ChipletChip, where: str, *, one: bool) -> float:
    """Return the cycles to move bytes inside one chiplet, or else between chiplets. Raises SpecError."""
    field = "bandwidth_inside" if one else "bandwidth_between"
    bandwidth: float | None = getattr(chip, field)
    if bandwidth is None:
        raise SpecError(f"{where}.bytes", f"needs chip.{field}; or give latency in cycles")
    return size_bytes / bandwidth


def units_of(description: Description, where: str) -> dict[str, UnitSet]:
    """Return the units of every operator that has a submesh; operators with equal units share one object.

    Raises SpecError for a submesh that the chip does not have, or that has another number of units.
    """
    units = dict[str, UnitSet]()
    distinct = dict[object, UnitSet]()
    total = 0
    for name, operator in description.operators.items():
        submesh = Submesh.of(operator)
        if submesh is None:
            continue
        key = (submesh, operator.last)
        if key not in distinct:
            _check_submesh(operator, submesh, description.chip, f"{where}: operators.{brief(name)}")
            distinct[key] = submesh.members(description.chip)
            total += len(distinct[key].members)
            if total > MAX_LISTED:
                raise SpecError(
                    f"{where}: operators.{brief(name)}.submesh",
                    f"different submeshes have over {MAX_LISTED} units together",
                )
        units[name] = distinct[key]
    return units


def _check_submesh(operator: ChipletOperator, submesh: Submesh, chip: ChipletChip, where: str) -> None:
    (tall, wide), first, last = submesh.chiplets, submesh.first, submesh.last
    if tall * wide > 1 and first[1] != (0, 0):
        raise SpecError(
            f"{where}.first", "must be unit [0, 0] of its chiplet in a submesh of several chiplets"
        )
    size = submesh.size(chip)
    if operator.units is not None and entry(operator.units, operator.strategy) != size:
        wanted = entry(operator.units, operator.strategy)
        raise SpecError(f"{where}.submesh", f"has {size} units, strategy {operator.strategy} takes {wanted}")
    for field, unit in (("first", first), ("submesh", last)):
        if not chip.holds(unit):
            raise SpecError(f"{where}.{field}", f"reaches {_shown(unit)}, which the chip does not have")
    if operator.last not in (None, last):
        raise SpecError(f"{where}.last", f"is {_shown(last)} of this submesh, got {_shown(operator.last)}")


def described_cost(description: Description, where: str) -> ChipletCost:
    """Return the cost of a description in cycles; `where` names it in messages. Raises SpecError."""
    pricing = _Pricing(description, where)
    groups = [{name: pricing.operator(name) for name in group} for group in description.groups]
    edges = [pricing.edge(edge, f"{where}: edges[{at}]") for at, edge in enumerate(description.edges)]
    return ChipletCost.of(groups, edges, description.unit, tuple(pricing.warnings()))


class _Pricing:
    """Prices the parts of a description. where: its name in messages."""

    def __init__(self, description: Description, where: str) -> None:
        self._groups, self._operators, self._chip = (
            description.groups,
            description.operators,
            description.chip,
        )
        self._where, self._units = where, units_of(description, where)
        self._hops_of_sets = cache(hops_of_sets)

    def operator(self, name: str) -> OperatorCost:
        operator = self._operators[name]
        where = f"{self._where}: operators.{brief(name)}"
        communication = routing = 0.0
        if self._reduced(name):
            hops = self._hops_of_sets(self._units[name], self._units[name].last)
            routing = self._routing(hops, entry(operator.transfers, operator.strategy))
        if operator.latency is not None:
            communication = operator.latency[operator.strategy]
        elif operator.bytes is not None:
            one = operator.submesh is None or operator.submesh[0] == (1, 1)
            communication = moved_cycles(operator.bytes[operator.strategy], self._chip, where, one=one)
        compute = compute_cycles(operator, operator.strategy, self._chip, where)
        return OperatorCost.of(compute, communication, routing)

    def _routing(self, hops: Hops, transfers: int) -> float:
        return hops.mean(*self._chip.hop_cycles, transfers)

    def _reduced(self, name: str) -> bool:
        """Return True if the result of an operator is in its last unit alone."""
        operator = self._operators[name]
        reduced = entry(operator.reduce_to, operator.strategy) == "last"
        if reduced and name not in self._units:
            raise SpecError(
                f"{self._where}: operators.{brief(name)}.reduce_to",
                "needs submesh and first: `chiplet optimize` chooses them",
            )
        return reduced

    def edge(self, edge: ChipletEdge, place: str) -> EdgeCost:
        hops = self._hops(edge, place)
        communication = 0.0
        table = edge.latency or edge.bytes
        if table is not None:
            row, column = (self._operators[name].strategy for name in (edge.source, edge.to))
            if row >= len(table) or column >= len(table[row]):
                shown = f"{len(table)} x {len(table[min(row, len(table) - 1)])}"
                reason = (
                    f"its table is {shown}, it has no entry for strategy {row} of {brief(edge.source)} and "
                )
                raise SpecError(place, f"{reason}{column} of {brief(edge.to)}")
            communication = table[row][column]
        if edge.bytes is not None:
            communication = moved_cycles(communication, self._chip, place, one=not hops.between)
        return EdgeCost.of(edge.source, edge.to, communication, self._routing(hops, edge.transfers))

    def _hops(self, edge: ChipletEdge, place: str) -> Hops:
        if edge.pairs is not None:
            for unit in (unit for pair in edge.pairs for unit in pair):
                if not self._chip.holds(unit):
                    raise SpecError(f"{place}.pairs", f"the chip has no unit {_shown(unit)}")
            return hops_of_pairs(self._chip, edge.pairs)
        unplaced = [name for name in (edge.source, edge.to) if name not in self._units]
        if not unplaced:
            sources = self._units[edge.source]
            sources = sources.last if self._reduced(edge.source) else sources
            return self._hops_of_sets(sources, self._units[edge.to])
        if edge.transfers:
            reason = f"needs pairs, or submesh and first of {brief(unplaced[0])}, to route transfers"
            raise SpecError(place, reason)
        return Hops(0, 0, 0)

    def warnings(self) -> Iterator[str]:
        """Yield a warning for operators that share units although they run at the same time."""
        for index, group in enumerate(self._groups):
            owner: dict[ChipUnit, str] = {}
            for name in group:
                units = self._units[name].members if name in self._units else frozenset()
                shared = min(units & owner.keys(), default=None)
                if shared is not None:
                    yield (
                        f"groups[{index}]: {brief(name)} and {brief(owner[shared])} run at the same time and "
                        f"share unit {_shown(shared)}: the cost takes no account of it"
                    )
                    break
                owner |= dict.fromkeys(units, name)


def _shown(unit: ChipUnit | None) -> str:
    return "nothing" if unit is None else str([list(place) for place in unit])


def placed_cost(
    graph: StageGraph, placement: Placement, measured: MeasuredSteps | None = None
) -> ChipletCost:
    """Return the cost in ns of a network as it is placed; measured: step times instead of the hardware's.

    Raises SpecError without [chip], or [timing] where nothing is measured.
    """
    hardware = placement.hardware
    chip = placement.hardware.chip
    copies = np.array([placement.copies.get(name, 1) for name in graph.names], dtype=np.int64)
    step_time = StepTime.of(graph, hardware, measured)
    if chip is None or step_time is None:
        missing = "[chip]" if chip is None else "[timing]"
        raise SpecError(
            f"hardware {hardware.name[:60]!r}", f"needs {missing} to compute the cost of a placement"
        )
    step_ns = step_time.step_ns(copies)
    timing = simulate(graph, copies)
    batches = dict(zip(graph.names, timing.batches.tolist(), strict=True))
    costs = {
        name: OperatorCost.of(batches[name] * cycles * step_ns)
        for name, cycles in zip(graph.names, timing.cycles.tolist(), strict=True)
    }
    weighted = graph.on_arrays
    edges = []
    absent = dict[str, None]()

    def given(field: str, *, needed: bool) -> float | None:
        """Return a rate of the chip; one that is needed and absent costs nothing."""
        value: float | None = getattr(chip, field) if needed else None
        if needed and value is None:
            absent[field] = None
        return value

    routes = TileRoutes.of(
        placement.arrays, weighted.names, Flows.of(weighted, hardware), copies[graph.weighted]
    )
    for route, size_bytes, p, c in zip(
        routes, routes.input_bytes.tolist(), routes.sender.tolist(), routes.receiver.tolist(), strict=True
    ):
        producer = weighted.names[p]
        consumer = weighted.names[c]
        loads = Loads()
        hops = route.hops()
        route.onto(loads, size_bytes)  # of the slowest link, with no other traffic
        tile = given("bandwidth_tile_gb_s", needed=any(key is not None for key in loads.of_key))
        carried = route.slowest_ns(loads, tile, given("bandwidth_chip_gb_s", needed=None in loads.of_key))
        inside = given("hop_ns_tile", needed=hops.inside > 0) or 0.0
        between = given("hop_ns_chip", needed=hops.between > 0) or 0.0
        routed = batches[producer] * hops.mean(inside, between)
        if p == c:
            costs[producer] = OperatorCost.of(costs[producer].compute, carried, routed)
        else:
            edges.append(EdgeCost.of(producer, consumer, carried, routed))
    groups = [{name: costs[name] for name in level} for level in _levels(graph)]
    warnings = [f"the hardware gives no {field}: that time is left out" for field in absent]
    warnings += measured.warnings if measured else ()
    return ChipletCost.of(groups, edges, "ns", warnings, timing.makespan * step_ns)


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
    input_values: InputValues | None = None,
) -> ChipletCost:
    """Compute the cost of a description, or of an allocation as it is placed; of several, side by side.

    Parameters
    ----------
    source
        A description or its file, or a network with `allocation` and `placement`.
    allocation
        An Allocation, its file, or copies by layer name.
    placement
        A Placement or its file, of the allocation.
    latency_table
        Measured step times of a network: a LatencyTable, a file, or a dict of its form; those of the
        allocation unless given.
    input_shapes
        Shape with batch of every input of an ONNX file that has open axes, by name.
    input_values
        Values of inputs of an ONNX file that decide what runs, by name.

    Returns
    -------
    ChipletCost
        Time of computing and of moving data, of every group.

    Raises
    ------
    RramallocError
        FileError, SpecError, MisplacedError, UnsupportedError.
    """
    alone = allocation is None and placement is None
    if isinstance(source, Description) or (alone and not isinstance(source, Network | Mapping)):
        if latency_table is not None:
            raise SpecError("latency table", "is for a network, a description has its own times")
        return described_cost(*read_description(source))
    if allocation is None or placement is None:
        missing = "allocation" if allocation is None else "placement"
        raise SpecError(missing, "a network needs both allocation and placement, a description neither")
    placed = as_placement(placement)
    case, given = read_case(source, allocation, {"input_shapes": input_shapes, "input_values": input_values})
    network = case.network
    given.made_for(network).without_blocks(network, "chiplet cost")
    check_command("chiplet", "chiplet cost", replace(case, mapping=DEFAULT_MAPPING))
    check_placement(placed, network, given.copies, kinds=given.kinds)
    of_allocation = given.measured if given.hardware == placed.hardware else None
    measured = measured_steps(latency_table, network, placed.options, placed.hardware, of_allocation)
    graph = timed_graph(network, placed.hardware, placed.options, measured)
    kinds = {layer.name: layer.kind for layer in placed.layers if layer.kind is not None}
    graph = graph.in_modes(replace(given, kinds=kinds).modes(graph, placed.hardware.kinds))
    cost = placed_cost(graph, placed, measured)
    case = Case(network, placed.hardware, placed.options, measured)
    cost = cost.model_copy(update={"not_counted": case.not_counted(links=True)})
    if given.measured is None or of_allocation is not None or latency_table is not None:
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


class ChipletComparison(AnswerRecord):
    """Descriptions side by side.

    descriptions: in the order given.
    """

    format: Literal["rramalloc-chiplet-comparison/1"] = "rramalloc-chiplet-comparison/1"
    descriptions: tuple[ComparedDescription, ...]
    rows_in: ClassVar[str] = "descriptions"

    def _headline(self) -> tuple[str, str]:
        best = min(self.descriptions, key=lambda description: description.total)
        return "", f"{best.name} costs least, {quantity(best.total, best.unit)}, of {len(self.descriptions)}"


def chiplet_compare(sources: Sequence[Description | str | os.PathLike[str]]) -> ChipletComparison:
    """Return the costs of several descriptions side by side.

    Parameters
    ----------
    sources
        Descriptions, or their TOML files.

    Returns
    -------
    ChipletComparison
        A row for each description.

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
                between=sum(cost.between),
                ratio=cost.total / least if least else 1.0,
            )
            for name, cost in zip(names, costs, strict=True)
        ),
        warnings=tuple(f"{n}: {w}" for n, cost in zip(names, costs, strict=True) for w in cost.warnings),
    )
