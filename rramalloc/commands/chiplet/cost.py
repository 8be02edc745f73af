"""Inference cost on a topology of chiplets: groups, what lies between them, and the cost of a description.

Source: docs/sources/companions.md 2.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field

from rramalloc.commands.chiplet.description import (
    DESCRIPTION,
    ChipletChip,
    ChipletEdge,
    ChipletOperator,
    Description,
    entry,
)
from rramalloc.commands.chiplet.places import (
    Hops,
    Place,
    Submesh,
    Topology,
    Unit,
    Units,
    hops_of_pairs,
    hops_of_sets,
)
from rramalloc.errors import SpecError
from rramalloc.files import read_json
from rramalloc.network.node import Name
from rramalloc.records import Record, brief, parse
from rramalloc.result import ResultRecord, frame_of
from rramalloc.units import counted, quantity

if TYPE_CHECKING:
    import pandas as pd


class Work(NamedTuple):
    """A product of an m x k by a k x n matrix, per unit."""

    m: int
    k: int
    n: int


def systolic_cycles(work: Work, side: int) -> float:
    """Return the cycles on a systolic array of `side` x `side` cells.

    m * k * n / side^2 + 2 * (side - 1), the ratio not rounded, if m or n exceeds the side; else, and where
    one equals it, m + k + n - 1.  Source: docs/sources/companions.md 2.
    """
    if work.m > side or work.n > side:
        return work.m * work.k * work.n / (side * side) + 2 * (side - 1)
    return float(work.m + work.k + work.n - 1)


def compute_cycles(operator: ChipletOperator, strategy: int, chip: ChipletChip, where: str) -> float:
    """Return what an operator computes for. Raises SpecError without the side of a systolic array."""
    if operator.compute is not None:
        return entry(operator.compute, strategy)
    if chip.systolic is None or operator.work is None:
        raise SpecError(f"{where}.work", "needs chip.systolic, the side of a unit's array; or give compute")
    return systolic_cycles(Work(*entry(operator.work, strategy)), chip.systolic)


def moved_cycles(size_bytes: float, chip: ChipletChip, where: str, *, one: bool) -> float:
    """Return the cycles to move `size_bytes` inside one chiplet, or else between chiplets. Raises
    SpecError."""
    field = "bandwidth_inside" if one else "bandwidth_between"
    bandwidth: float | None = getattr(chip, field)
    if bandwidth is None:
        raise SpecError(f"{where}.bytes", f"needs chip.{field}; or give latency in cycles")
    return size_bytes / bandwidth


class OperatorCost(Record):
    """compute, communication inside the operator and its routing; cost: their sum."""

    compute: float
    communication: float
    routing: float
    cost: float


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


class ChipletCost(ResultRecord):
    """Cost of a network on chiplets: the groups one after the other, with what is moved between them.

    total: of the groups one after the other (sequential); pipelined: of the same allocation with all stages
    at work at the same time, as `optimize` counts and without transfers, None where only a description is
    given; between: for each group and the next, the sum of `edges` into that next group; unit: of all costs.
    """

    format: Literal["rramalloc-chiplet-cost/1"] = "rramalloc-chiplet-cost/1"
    total: float
    pipelined: float | None = None
    unit: Literal["cycles", "ns"]
    groups: tuple[GroupCost, ...]
    between: tuple[float, ...]
    edges: tuple[EdgeCost, ...]
    warnings: tuple[str, ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with one row per operator, with the fields of ComputedOperator."""
        return frame_of(self.rows(), ComputedOperator._fields)

    def rows(self) -> list[ComputedOperator]:
        """Return the operators in the order of their groups."""
        return [
            ComputedOperator(number, name, **dict(cost))
            for number, group in enumerate(self.groups)
            for name, cost in group.operators.items()
        ]

    def _headline(self) -> tuple[str, str]:
        return "", f"{quantity(self.total, self.unit)} in {counted(len(self.groups), 'group')} of operators"


class ComputedOperator(NamedTuple):
    """An operator and its cost; group: from 0."""

    group: int
    operator: str
    compute: float
    communication: float
    routing: float
    cost: float


class Terms(NamedTuple):
    """The parts of one operator's cost, or of an edge's, which computes nothing."""

    compute: float
    communication: float
    routing: float


def total_cost(
    groups: Sequence[Mapping[str, Terms]],
    edges: Iterable[tuple[str, str, Terms]],
    unit: Literal["cycles", "ns"],
    warnings: Sequence[str] = (),
    pipelined: float | None = None,
) -> ChipletCost:
    """Sum of the groups and of what lies between them.

    An edge that leaps over groups counts before the group that reads it.
    """
    group_of = {name: index for index, group in enumerate(groups) for name in group}
    costs = tuple(_group(group) for group in groups)
    between = [0.0] * max(0, len(groups) - 1)
    written = []
    for source, to, terms in edges:
        cost = terms.communication + terms.routing
        between[group_of[to] - 1] += cost
        fields = {"from": source, "to": to, "communication": terms.communication}
        written.append(EdgeCost(**fields, routing=terms.routing, cost=cost))
    return ChipletCost(
        total=sum(group.cost for group in costs) + sum(between),
        pipelined=pipelined,
        unit=unit,
        groups=costs,
        between=tuple(between),
        edges=tuple(written),
        warnings=tuple(warnings),
    )


def _group(group: Mapping[str, Terms]) -> GroupCost:
    operators = {name: OperatorCost.gather(terms, cost=sum(terms)) for name, terms in group.items()}
    return GroupCost(operators=operators, cost=max(operator.cost for operator in operators.values()))


MAX_LISTED = 2**18
"""Units of all different submeshes together: bounds the time that hops take."""
SCHEDULE: Literal["rramalloc-chiplet-schedule/1"] = "rramalloc-chiplet-schedule/1"


def read_description(path: str | os.PathLike[str]) -> Description:
    """Read a description file, or the description in what `chiplet optimize` wrote. Raises FileError,
    SpecError."""
    document, where = read_json(path), os.fspath(path)
    if isinstance(document, dict) and document.get("format") == SCHEDULE:
        document = document.get("description")
    return parse(DESCRIPTION, document, where)


def check_submeshes(description: Description, where: str) -> None:
    """Raise SpecError for a submesh that the chip does not have, or that has another number of units."""
    _ = _Described(description, where).units


def described_cost(description: Description, where: str) -> ChipletCost:
    """Return the cost of a description in cycles; `where` names it in messages. Raises SpecError."""
    return _Described(description, where).cost()


class _Described:
    def __init__(self, description: Description, where: str) -> None:
        self.description, self.where = description, where
        self.chip = description.chip
        self.topology = Topology(self.chip.chiplets, self.chip.units)
        self._known: dict[tuple[int, int], Hops] = {}

    def cost(self) -> ChipletCost:
        groups = [{name: self._operator(name) for name in group} for group in self.description.groups]
        edges = [
            (edge.source, edge.to, self._edge(edge, f"edges[{index}]"))
            for index, edge in enumerate(self.description.edges)
        ]
        return total_cost(groups, edges, self.description.unit, tuple(self._warnings()))

    @cached_property
    def units(self) -> dict[str, Units]:
        """Units of every operator that has a submesh, equal ones once. Raises SpecError."""
        units, distinct, total = dict[str, Units](), dict[object, Units](), 0
        for name, operator in self.description.operators.items():
            submesh = Submesh.of(operator)
            if submesh is None:
                continue
            key = (submesh, operator.last)
            if key not in distinct:
                distinct[key] = self._submesh(name, operator, submesh)
                total += len(distinct[key].members)
                if total > MAX_LISTED:
                    raise self._fault(
                        name, "submesh", f"different submeshes have over {MAX_LISTED} units together"
                    )
            units[name] = distinct[key]
        return units

    def _submesh(self, name: str, operator: ChipletOperator, submesh: Submesh) -> Units:
        """Return all units of a submesh, of the chiplet with the largest coordinates only those of the
        submesh."""
        (tall, wide), first, last = submesh.chiplets, submesh.first, submesh.last
        if tall * wide > 1 and first[1] != (0, 0):
            raise self._fault(
                name, "first", "must be unit [0, 0] of its chiplet in a submesh of several chiplets"
            )
        size = submesh.size(self.chip.units)
        if operator.units is not None and entry(operator.units, operator.strategy) != size:
            wanted = entry(operator.units, operator.strategy)
            raise self._fault(
                name, "submesh", f"has {size} units, strategy {operator.strategy} takes {wanted}"
            )
        for field, unit in (("first", first), ("submesh", last)):
            if not self.topology.holds(unit):
                raise self._fault(name, field, f"reaches {_shown(unit)}, which the chip does not have")
        if operator.last not in (None, last):
            raise self._fault(name, "last", f"is {_shown(last)} of this submesh, got {_shown(operator.last)}")
        members = [(last[0], unit) for unit in _cells(first[1], submesh.units)]
        for chiplet in _cells(first[0], submesh.chiplets):
            if chiplet != last[0]:
                members += [(chiplet, unit) for unit in _cells((0, 0), self.chip.units)]
        return Units(self.topology, frozenset(members))

    def _operator(self, name: str) -> Terms:
        operator, where = self.description.operators[name], f"{self.where}: operators.{brief(name)}"
        routing = 0.0
        if self._reduced(name):
            hops = self._hops_of_sets(self.units[name], self.units[name].last)
            routing = self._cycles(entry(operator.transfers, operator.strategy), hops)
        one = operator.submesh is None or operator.submesh[0] == (1, 1)
        communication = 0.0
        if operator.latency is not None:
            communication = operator.latency[operator.strategy]
        elif operator.bytes is not None:
            communication = moved_cycles(operator.bytes[operator.strategy], self.chip, where, one=one)
        return Terms(compute_cycles(operator, operator.strategy, self.chip, where), communication, routing)

    def _reduced(self, name: str) -> bool:
        """Return True if the result of an operator is in its last unit alone."""
        operator = self.description.operators[name]
        reduced = entry(operator.reduce_to, operator.strategy) == "last"
        if reduced and name not in self.units:
            raise self._fault(name, "reduce_to", "needs submesh and first: `chiplet optimize` chooses them")
        return reduced

    def _warnings(self) -> Iterator[str]:
        """Yield a warning for operators that share units although they run at the same time."""
        for index, group in enumerate(self.description.groups):
            owner: dict[Unit, str] = {}
            for name in group:
                units = self.units[name].members if name in self.units else frozenset()
                shared = min(units & owner.keys(), default=None)
                if shared is not None:
                    yield (
                        f"groups[{index}]: {brief(name)} and {brief(owner[shared])} run at the same time and "
                        f"share unit {_shown(shared)}: the cost takes no account of it"
                    )
                    break
                owner |= dict.fromkeys(units, name)

    def _edge(self, edge: ChipletEdge, place: str) -> Terms:
        hops = self._hops(edge, place)
        communication = 0.0
        table = edge.latency or edge.bytes
        if table is not None:
            communication = self._entry(edge, table, place)
        if edge.bytes is not None:
            place = f"{self.where}: {place}"
            communication = moved_cycles(communication, self.chip, place, one=not hops.between)
        return Terms(0.0, communication, self._cycles(edge.transfers, hops))

    def _entry(self, edge: ChipletEdge, table: tuple[tuple[float, ...], ...], place: str) -> float:
        """Return the entry of the two strategies; a table has as many rows and columns as they have
        strategies."""
        row, column = (self.description.operators[name].strategy for name in (edge.source, edge.to))
        if row >= len(table) or column >= len(table[row]):
            shown = f"{len(table)} x {len(table[min(row, len(table) - 1)])}"
            raise SpecError(
                f"{self.where}: {place}",
                f"its table is {shown}, it has no entry for strategy {row} of {brief(edge.source)} and "
                f"{column} of {brief(edge.to)}",
            )
        return table[row][column]

    def _hops(self, edge: ChipletEdge, place: str) -> Hops:
        if edge.pairs is not None:
            for unit in (unit for pair in edge.pairs for unit in pair):
                if not self.topology.holds(unit):
                    raise SpecError(f"{self.where}: {place}.pairs", f"the chip has no unit {_shown(unit)}")
            return hops_of_pairs(self.topology, edge.pairs)
        ends = (edge.source, edge.to)
        if all(name in self.units for name in ends):
            sources = self.units[edge.source]
            sources = sources.last if self._reduced(edge.source) else sources
            return self._hops_of_sets(sources, self.units[ends[1]])
        if edge.transfers:
            name = next(name for name in ends if name not in self.units)
            raise SpecError(
                f"{self.where}: {place}",
                f"needs pairs, or submesh and first of {brief(name)}, to route transfers",
            )
        return Hops(0, 0, 0)

    def _hops_of_sets(self, sources: Units, destinations: Units) -> Hops:
        """Return the hops between two sets, counted once for every two sets."""
        key = (id(sources), id(destinations))  # both stay as long as this object does
        if key not in self._known:
            self._known[key] = hops_of_sets(sources, destinations)
        return self._known[key]

    def _cycles(self, transfers: int, hops: Hops) -> float:
        return hops.cycles(transfers, self.chip.hop_cycles_inside, self.chip.hop_cycles_between)

    def _fault(self, name: str, field: str, reason: str) -> SpecError:
        return SpecError(f"{self.where}: operators.{brief(name)}.{field}", reason)


def _cells(first: Place, size: Place) -> Iterator[Place]:
    """Return the cells of a rectangle of rows and columns."""
    return product(range(first[0], first[0] + size[0]), range(first[1], first[1] + size[1]))


def _shown(unit: Unit | None) -> str:
    return "nothing" if unit is None else str([list(place) for place in unit])
