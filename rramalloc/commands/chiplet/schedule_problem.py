"""ScheduleProblem: what may be chosen for every operator of a description, and what each choice costs.

An *option* of an operator is a strategy together with a place. The cost of a schedule is the sum over the
groups of the largest cost within each, plus the cost of every edge, which depends on the options of its two
ends: T* = sum_g max_{v in g} c_v + sum_{u -> v} e_uv.  Source: docs/sources/companions.md 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.commands.chiplet.cost import check_submeshes, compute_cycles, moved_cycles
from rramalloc.commands.chiplet.description import ChipletEdge, Description, entry
from rramalloc.commands.chiplet.places import Floats, Ints, Places, Submesh, Topology, hops_of_pairs
from rramalloc.errors import SpecError
from rramalloc.records import brief

MOST_OPERATORS = 1000
"""Operators at most of a description that is optimised."""


class OperatorOptions(NamedTuple):
    """Strategy, place and cost of every option of an operator; reduced: its result is in one unit."""

    strategy: Ints
    place: Ints
    cost: Floats
    reduced: npt.NDArray[np.bool_]


class EdgeLink(NamedTuple):
    """An edge. table: by the strategies of both ends, cycles or, divided by a bandwidth, bytes.

    pairs: (cycles of hops a transfer takes, whether all stays in one chiplet) where units are listed.
    """

    source: int
    to: int
    transfers: int
    table: Floats | None
    in_bytes: bool
    pairs: tuple[float, bool] | None


@dataclass(frozen=True, eq=False)
class ScheduleProblem:
    """Operators by number, in the order of the description.

    options: of every operator; links: edges; fixed: operators that stay where they are described, as their
    edges list pairs of units.
    """

    description: Description
    names: tuple[str, ...]
    places: Places
    options: tuple[OperatorOptions, ...]
    links: tuple[EdgeLink, ...]
    fixed: tuple[str, ...]

    @classmethod
    def of(cls, description: Description, where: str) -> ScheduleProblem:
        """Return the choices that a description leaves open. Raises SpecError."""
        names = tuple(description.operators)
        if len(names) > MOST_OPERATORS:
            raise SpecError(where, f"has {len(names)} operators, schedules are sought for {MOST_OPERATORS}")
        check_submeshes(description, where)
        listed = {name for edge in description.edges if edge.pairs for name in (edge.source, edge.to)}
        limits = _strategy_limits(description)
        described = {name: Submesh.of(operator) for name, operator in description.operators.items()}
        counts = [
            count
            for name in names
            if name not in listed
            for count in _counts(description, name, limits[name])
        ]
        places = Places.of(
            description.chip, counts, (submesh for submesh in described.values() if submesh is not None)
        )
        options = tuple(
            _options(description, name, places, described[name], limits[name], listed, where)
            for name in names
        )
        links = tuple(_links(description, where))
        return cls(description, names, places, options, links, tuple(n for n in names if n in listed))

    @cached_property
    def count(self) -> int:
        """Options of all operators."""
        return sum(len(options.cost) for options in self.options)

    @cached_property
    def entering(self) -> tuple[tuple[EdgeLink, ...], ...]:
        """Edges into every operator."""
        return tuple(tuple(link for link in self.links if link.to == v) for v in range(len(self.names)))

    @cached_property
    def leaving(self) -> tuple[tuple[EdgeLink, ...], ...]:
        """Edges out of every operator."""
        return tuple(tuple(link for link in self.links if link.source == v) for v in range(len(self.names)))

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Operators, each behind all that it reads from, as the groups of the description say."""
        index = {name: number for number, name in enumerate(self.names)}
        return tuple(index[name] for group in self.description.groups for name in group)

    def link_costs(self, link: EdgeLink, here: Ints, there: Ints) -> Floats:
        """Return the costs of an edge for some options of its source (rows) and some of its reader
        (columns)."""
        source, to = self.options[link.source], self.options[link.to]
        cycles, within = self._hops(link, here, there)
        costs = link.transfers * cycles
        if link.table is not None:
            moved = link.table[source.strategy[here][:, None], to.strategy[there]]
            costs = costs + (moved * self._per_byte(within) if link.in_bytes else moved)
        return np.broadcast_to(costs, (len(here), len(there)))

    def _hops(self, link: EdgeLink, here: Ints, there: Ints) -> tuple[Floats, npt.NDArray[np.bool_]]:
        if link.pairs is not None:
            return np.full((1, 1), link.pairs[0]), np.full((1, 1), link.pairs[1])
        source, to = self.options[link.source], self.options[link.to]
        rows, columns = source.place[here][:, None], to.place[there]
        reduced = source.reduced[here]
        hopped = self.places.between_all
        cycles, within = hopped.cycles[rows, columns], hopped.within[rows, columns]
        if reduced.any():
            last = self.places.from_last
            cycles[reduced] = last.cycles[rows[reduced], columns]
            within[reduced] = last.within[rows[reduced], columns]
        return cycles, within

    def _per_byte(self, within: npt.NDArray[np.bool_]) -> Floats:
        inside, between = self.description.chip.bandwidth_inside, self.description.chip.bandwidth_between
        return np.where(within, 1 / (inside or np.inf), 1 / (between or np.inf))

    def edge_total(self, chosen: Sequence[int]) -> float:
        """Return the cost of all edges for one option of every operator."""
        one = [np.array([option], dtype=np.int64) for option in chosen]
        return sum(float(self.link_costs(link, one[link.source], one[link.to])[0, 0]) for link in self.links)

    def group_total(self, groups: Sequence[Sequence[int]], chosen: Sequence[int]) -> float:
        """Return the cost of the slowest operator of every group, summed."""
        return sum(max(float(self.options[v].cost[chosen[v]]) for v in group) for group in groups)

    def start(self) -> tuple[list[list[int]], list[int]] | None:
        """Return the schedule as described; None if it gives an operator no place or two of a group the same
        unit."""
        index = {name: number for number, name in enumerate(self.names)}
        groups = [[index[name] for name in group] for group in self.description.groups]
        chosen = []
        for name, options in zip(self.names, self.options, strict=True):
            operator = self.description.operators[name]
            submesh = Submesh.of(operator)
            place = self.places.nowhere if submesh is None else self.places.index[submesh]
            at = np.flatnonzero((options.strategy == operator.strategy) & (options.place == place))
            if not len(at):
                return None
            chosen.append(int(at[0]))
        return (groups, chosen) if self.disjoint(groups, chosen) else None

    def disjoint(self, groups: Sequence[Sequence[int]], chosen: Sequence[int]) -> bool:
        """Return True if the operators of every group have units of their own."""
        used = [self.options[v].place[chosen[v]] for v in range(len(chosen))]
        return all(self.places.members[[used[v] for v in group]].sum(axis=0).max() <= 1 for group in groups)

    def described(self, groups: Sequence[Sequence[int]], chosen: Sequence[int]) -> Description:
        """Return the description with this schedule in it."""
        operators = {}
        for v, name in enumerate(self.names):
            options, option = self.options[v], chosen[v]
            update: dict[str, object] = {"strategy": int(options.strategy[option])}
            place = int(options.place[option])
            if place != self.places.nowhere:
                submesh = self.places.submeshes[place]
                update |= {
                    "submesh": (submesh.chiplets, submesh.units),
                    "first": submesh.first,
                    "last": submesh.last,
                }
            operators[name] = self.description.operators[name].model_copy(update=update)
        named = tuple(tuple(self.names[v] for v in group) for group in groups)
        return self.description.model_copy(update={"groups": named, "operators": operators})


def _strategy_limits(description: Description) -> dict[str, int]:
    """Return the strategies of every operator: as many as it lists, or else as all tables of its edges have
    entries."""
    limits = {name: operator.listed for name, operator in description.operators.items()}
    tables: dict[str, int] = {}
    for edge in description.edges:
        table = edge.latency or edge.bytes
        if table is not None:
            for name, most in ((edge.source, len(table)), (edge.to, min(map(len, table)))):
                tables[name] = min(tables.get(name, most), most)
    for name, operator in description.operators.items():
        given = limits[name] or tables.get(name, 0)
        limits[name] = max(operator.strategy + 1, min(given, tables.get(name, given)))
    return limits


def _counts(description: Description, name: str, strategies: int) -> Iterator[int]:
    """Yield the units that the strategies of an operator take: those given, or as many as it is
    described on."""
    operator = description.operators[name]
    submesh = Submesh.of(operator)
    if operator.units is not None:
        yield from (entry(operator.units, strategy) for strategy in range(strategies))
    elif submesh is not None:
        yield submesh.size(description.chip.units)


def _options(
    description: Description, name: str, places: Places, submesh: Submesh | None, strategies: int,
    listed: set[str], where: str,
) -> OperatorOptions:  # fmt: skip
    """Return every strategy at every place with as many units as it takes."""
    operator, chip = description.operators[name], description.chip
    rows: list[tuple[int, Ints]] = []
    for strategy in range(strategies):
        if operator.units is not None:
            size: int | None = entry(operator.units, strategy)
        else:
            size = None if submesh is None else submesh.size(chip.units)
        if size is None:
            at = np.array([places.nowhere])
        elif name in listed and submesh is not None:
            at = np.array([places.index[submesh]] if size == submesh.size(chip.units) else [], dtype=int)
        else:
            at = np.flatnonzero(places.sizes[:-1] == size)
        rows.append((strategy, at.astype(np.int64)))
    if not any(len(at) for _, at in rows):
        raise SpecError(f"{where}: operators.{brief(name)}.units", "no submesh of the chip has so many units")
    parts = [_of_strategy(description, name, places, strategy, at, where) for strategy, at in rows]
    joined = (np.concatenate(each) for each in zip(*parts, strict=True))
    return OperatorOptions(*joined)


def _of_strategy(
    description: Description, name: str, places: Places, strategy: int, at: Ints, where: str
) -> OperatorOptions:
    operator, chip, where = description.operators[name], description.chip, f"{where}: operators.{brief(name)}"
    cost = np.full(len(at), compute_cycles(operator, strategy, chip, where))
    if operator.latency is not None:
        cost += entry(operator.latency, strategy)
    elif operator.bytes is not None:
        size_bytes = entry(operator.bytes, strategy)
        single = [place == places.nowhere or places.submeshes[place].chiplets == (1, 1) for place in at]
        for one in (True, False):
            some = np.array(single, dtype=bool) == one
            if some.any():
                cost[some] += moved_cycles(size_bytes, chip, where, one=one)
    reduced = entry(operator.reduce_to, strategy) == "last"
    if reduced:
        # hops are counted from all units to the last one; there and back are equally far
        cost += entry(operator.transfers, strategy) * places.from_last.cycles[at, at]
    return OperatorOptions(np.full(len(at), strategy), at, cost, np.full(len(at), reduced))


def _links(description: Description, where: str) -> Iterator[EdgeLink]:
    index = {name: number for number, name in enumerate(description.operators)}
    chip = description.chip
    topology = Topology(chip.chiplets, chip.units)
    for number, edge in enumerate(description.edges):
        place = f"{where}: edges[{number}]"
        table = edge.latency or edge.bytes
        several = chip.chiplets != (1, 1)
        for one in ((True, False) if several else (True,)) if edge.bytes is not None else ():
            moved_cycles(0.0, chip, place, one=one)
        width = min(map(len, table)) if table is not None else 0
        values = None if table is None else np.array([row[:width] for row in table], dtype=np.float64)
        pairs = None
        if edge.pairs is not None:
            hops = hops_of_pairs(topology, edge.pairs)
            each = hops.cycles(1, chip.hop_cycles_inside, chip.hop_cycles_between)
            pairs = (each, hops.between == 0)
        else:
            _check_placed(description, edge, place)
        yield EdgeLink(
            index[edge.source], index[edge.to], edge.transfers, values, edge.bytes is not None, pairs
        )


def _check_placed(description: Description, edge: ChipletEdge, place: str) -> None:
    for name in (edge.source, edge.to) if edge.transfers else ():
        operator = description.operators[name]
        if operator.submesh is None and operator.units is None:
            raise SpecError(place, f"needs pairs, or units, or submesh and first of {brief(name)}, to route")
