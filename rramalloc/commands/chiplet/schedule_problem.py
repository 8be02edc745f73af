"""ScheduleProblem: the options of every operator of a description, and the cost of each option.

An *option* of an operator is a strategy together with a place. The cost of a schedule is the sum over the
groups of the largest cost within each, plus the cost of every edge, which depends on the options of its two
ends: T* = sum_g max_{v in g} c_v + sum_{u -> v} e_uv.  Source: docs/sources/companions.md 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rramalloc.commands.chiplet.cost import compute_cycles, moved_cycles, units_of
from rramalloc.commands.chiplet.description import ChipletChip, ChipletEdge, Description, entry
from rramalloc.commands.chiplet.places import ChipletPlaces, Submesh, hops_of_pairs
from rramalloc.errors import SpecError
from rramalloc.ndarrays import Bools, Floats, Ints
from rramalloc.records import brief

MOST_OPERATORS = 1000
"""Operators at most of a description that is optimised."""


class OperatorOptions(NamedTuple):
    """Strategy, place and cost of every option of an operator; result: its row of `ChipletPlaces.cycles`."""

    strategy: Ints
    place: Ints
    cost: Floats
    result: Ints


class EdgeLink(NamedTuple):
    """An edge. tables: cycles by the strategies of both ends, between chiplets [0] and within one [1].

    pairs: (cycles of hops a transfer takes, whether all stays in one chiplet) where units are listed.
    """

    source: int
    to: int
    transfers: int
    tables: Floats
    pairs: tuple[float, bool] | None


@dataclass(frozen=True, eq=False)
class ScheduleProblem:
    """Operators by number, in the order of the description.

    options: of every operator; links: edges; fixed: operators that stay where they are described, as their
    edges list pairs of units.
    """

    description: Description
    names: tuple[str, ...]
    places: ChipletPlaces
    options: tuple[OperatorOptions, ...]
    links: tuple[EdgeLink, ...]
    fixed: tuple[str, ...]

    @classmethod
    def of(cls, description: Description, where: str) -> ScheduleProblem:
        """Return the problem of a description: the options that it leaves open. Raises SpecError."""
        names = tuple(description.operators)
        chip = description.chip
        if len(names) > MOST_OPERATORS:
            raise SpecError(where, f"has {len(names)} operators, schedules are sought for {MOST_OPERATORS}")
        units_of(description, where)
        listed = {name for edge in description.edges if edge.pairs for name in (edge.source, edge.to)}
        sizes = _sizes(description)
        counts = [count for name in names if name not in listed for count in sizes[name] if count is not None]
        described = (Submesh.of(operator) for operator in description.operators.values())
        places = ChipletPlaces.of(chip, counts, (submesh for submesh in described if submesh is not None))
        options = tuple(
            _options(description, name, places, sizes[name], where, held=name in listed) for name in names
        )
        index = {name: number for number, name in enumerate(names)}
        links = []
        for number, edge in enumerate(description.edges):
            place = f"{where}: edges[{number}]"
            pairs = None
            if edge.pairs is not None:
                hops = hops_of_pairs(chip, edge.pairs)
                pairs = (hops.mean(*chip.hop_cycles), hops.between == 0)
            elif edge.transfers:
                for name in (edge.source, edge.to):
                    operator = description.operators[name]
                    if operator.submesh is None and operator.units is None:
                        words = f"needs pairs, or units, or submesh and first of {brief(name)}, to route"
                        raise SpecError(place, words)
            strategies = len(sizes[edge.source]), len(sizes[edge.to])
            tables = _tables(edge, chip, strategies, place)
            links.append(EdgeLink(index[edge.source], index[edge.to], edge.transfers, tables, pairs))
        fixed = tuple(name for name in names if name in listed)
        return cls(description, names, places, options, tuple(links), fixed)

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
    def groups(self) -> list[list[int]]:
        """Operators that run at the same time, as the description says."""
        index = {name: number for number, name in enumerate(self.names)}
        return [[index[name] for name in group] for group in self.description.groups]

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Operators, each behind all that it reads from, as the groups of the description say."""
        return tuple(v for group in self.groups for v in group)

    def link_costs(self, link: EdgeLink, here: Ints, there: Ints) -> Floats:
        """Return the costs of an edge for some options of its source (rows) and its reader (columns)."""
        source = self.options[link.source]
        to = self.options[link.to]
        cycles: Floats | float
        within: Bools | bool
        if link.pairs is not None:
            cycles, within = link.pairs
        else:
            at = source.result[here][:, None], to.place[there]
            cycles = self.places.cycles[at]
            within = self.places.within[at]
        which = np.asarray(within, dtype=np.intp)
        moved: Floats = link.tables[which, source.strategy[here][:, None], to.strategy[there]]
        return link.transfers * cycles + moved

    def total(self, groups: Sequence[Sequence[int]], chosen: Sequence[int]) -> float:
        """Return the cost of the slowest operator of every group and of all edges."""
        slowest = sum(max(float(self.options[v].cost[chosen[v]]) for v in group) for group in groups)
        one = [np.array([option], dtype=np.int64) for option in chosen]
        return slowest + sum(
            float(self.link_costs(link, one[link.source], one[link.to])[0, 0]) for link in self.links
        )

    def start(self) -> tuple[list[list[int]], list[int]] | None:
        """Return the schedule as described; None if operators have no place or share units in a group."""
        chosen = []
        for name, options in zip(self.names, self.options, strict=True):
            operator = self.description.operators[name]
            place = self.places.index[Submesh.of(operator)]
            at = np.flatnonzero((options.strategy == operator.strategy) & (options.place == place))
            if not len(at):
                return None
            chosen.append(int(at[0]))
        used = [options.place[option] for options, option in zip(self.options, chosen, strict=True)]
        taken = (self.places.members[[used[v] for v in group]].sum(axis=0) for group in self.groups)
        return (self.groups, chosen) if all(units.max() <= 1 for units in taken) else None

    def described(self, groups: Sequence[Sequence[int]], chosen: Sequence[int]) -> Description:
        """Return the description with this schedule in it."""
        operators = {}
        submeshes = tuple(self.places.index)
        for name, options, option in zip(self.names, self.options, chosen, strict=True):
            update: dict[str, object] = {"strategy": int(options.strategy[option])}
            if (submesh := submeshes[options.place[option]]) is not None:
                shape = (submesh.chiplets, submesh.units)
                update |= {"submesh": shape, "first": submesh.first, "last": submesh.last}
            operators[name] = self.description.operators[name].model_copy(update=update)
        named = tuple(tuple(self.names[v] for v in group) for group in groups)
        return self.description.model_copy(update={"groups": named, "operators": operators})


def _sizes(description: Description) -> dict[str, list[int | None]]:
    """Return the units that every strategy of an operator takes: those given, or as many as it is described
    on, or None.

    An operator has as many strategies as it lists, or else as all tables of its edges have entries.
    """
    tables: dict[str, int] = {}
    for edge in description.edges:
        table = edge.latency or edge.bytes
        if table is not None:
            for name, most in ((edge.source, len(table)), (edge.to, min(map(len, table)))):
                tables[name] = min(tables.get(name, most), most)
    sizes: dict[str, list[int | None]] = {}
    for name, operator in description.operators.items():
        given = operator.listed or tables.get(name, 0)
        strategies = max(operator.strategy + 1, min(given, tables.get(name, given)))
        submesh = Submesh.of(operator)
        described = None if submesh is None else submesh.size(description.chip)
        sizes[name] = [
            described if operator.units is None else entry(operator.units, strategy)
            for strategy in range(strategies)
        ]
    return sizes


def _options(
    description: Description,
    name: str,
    places: ChipletPlaces,
    sizes: Sequence[int | None],
    where: str,
    *,
    held: bool,
) -> OperatorOptions:
    """Return every strategy at every place of as many units; held: only where it is described."""
    operator = description.operators[name]
    chip = description.chip
    submesh = Submesh.of(operator)
    where = f"{where}: operators.{brief(name)}"
    parts = []
    for strategy, size in enumerate(sizes):
        right = places.sizes == (size or 0)
        if held and submesh is not None:
            right &= np.arange(len(right)) == places.index[submesh]
        at = np.flatnonzero(right)
        cost = np.full(len(at), compute_cycles(operator, strategy, chip, where))
        if operator.latency is not None:
            cost += entry(operator.latency, strategy)
        elif operator.bytes is not None:
            for one in (True, False):
                some = places.one_chiplet[at] == one
                if some.any():
                    cost[some] += moved_cycles(entry(operator.bytes, strategy), chip, where, one=one)
        result = at
        if entry(operator.reduce_to, strategy) == "last":
            # hops are counted from all units to the last one; there and back are equally far
            result = at + len(places.index)
            cost += entry(operator.transfers, strategy) * places.cycles[result, at]
        parts.append((np.full(len(at), strategy), at, cost, result))
    joined = OperatorOptions(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    if not len(joined.cost):
        raise SpecError(f"{where}.units", "no submesh of the chip has so many units")
    return joined


def _tables(edge: ChipletEdge, chip: ChipletChip, strategies: tuple[int, int], place: str) -> Floats:
    """Return the cycles that an edge moves for: [between chiplets or within one, source, reader]."""
    table = edge.latency or edge.bytes
    if table is None:
        return np.broadcast_to(np.zeros(1), (2, *strategies))
    width = min(map(len, table))
    if len(table) < strategies[0] or width < strategies[1]:
        needed = f"{strategies[0]} x {strategies[1]} strategies are in use"
        raise SpecError(place, f"its table is {len(table)} x {width}, {needed}: give an entry for each")
    moved = np.array([row[:width] for row in table], dtype=np.float64)
    if edge.bytes is None:
        return np.stack([moved, moved])
    within = moved_cycles(1.0, chip, place, one=True)
    between = within if chip.chiplets == (1, 1) else moved_cycles(1.0, chip, place, one=False)
    return np.stack([moved * between, moved * within])
