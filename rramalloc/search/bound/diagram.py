"""Relaxed decision diagrams: refute a target for all allocations of a box at once, stage by stage.

Other bounds average over allocations, or look at one path of stages. A diagram keeps every choice whole: it
goes from stage to stage with all allocations of the stages so far that may still meet the target, as a
limited number of states (kernels/diagram.py). More states and more points bound deeper and take longer.

Source: docs/sources/model.md 4; Andersen, Hadzic, Hooker and Tiedemann, A constraint store based on
multivalued decision diagrams, CP 2007, doi 10.1007/978-3-540-74970-7_11; Bergman, Cire, van Hoeve and Hooker,
Decision Diagrams for Optimization, 2016, doi 10.1007/978-3-319-42849-9.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rramalloc.mapping.modes import BlockGrid
from rramalloc.ndarrays import Floats, Ints
from rramalloc.search import cost
from rramalloc.search.bound.boxes import Bounder, Box, PropagatedBox, WaysToEnd
from rramalloc.search.kernels import diagram as kernels
from rramalloc.search.kernels.diagram import Carry, Choices, Points, StateLimits, States, StateTable
from rramalloc.search.kernels.prices import with_slack
from rramalloc.search.work import Work

_MOST_CHOICES = 100
"""Intervals of copies of a stage."""
_MOST_WINDOWS = 2**23  # windows of all stages: above this no diagram is tried, its tables would be too large
_MOST_ALIVE = 32  # stages that later ones wait for, in the mean: above this states are too wide
_MOST_GROUPS = 4  # groups of these stages: above this no diagram is tried
_ROOM = 4
"""States found before they are merged, in widths."""
_FINEST = 8192
"""Part of the target up to which finishes count as equal at once."""
_FIRST_SLACK = 2048
"""The same of the first slack that is tried beyond none."""
_NEAR_PRICES = 2
"""Prices on either side of the best one that states are held to."""

_LEVELS = (250, 256), (500, 256), (500, 512), (1000, 512), (2000, 512), (2000, 1024)
"""States of a diagram and points of a stage: diagrams that take longer and longer."""
_LEVEL_COST = 1.9  # time of a level of diagrams, as a multiple of the level before
_TARGETS = 12  # targets that the first level after a trial should have time for
_FIRST_PART = 3  # parts of the gap of which the first stride of a level is one
_GRAIN = 12  # parts of the gap of which the last stride of a level is one
_FIRST_SHARE = 0.1  # of the work planned, that the trial may take
_DIAGRAM_SHARE = 0.4  # of the work planned, that each other diagram may take
_AGAIN = 2  # times as much work that is planned when a trial that took too long is repeated
_HOPELESS = 6  # successive targets that resisted after which no other is tried
_FRUITFUL = 10.0  # seconds of work on diagrams for each second on other proofs
_RESISTED = 0.7  # factor of that for each target that resisted last

Stages = tuple[int, ...]


class Layer(NamedTuple):
    """Parts of a stage that are the same in all diagrams of a problem; int64.

    edges, places: of every entry of `Choices` an edge, and where the finishes of its producer begin in a
    state; group, lag: as in `Choices`; finishes, groups: of a state after the stage; features: as in
    `StateTable`, three of every group; telling: the same, those of the stage itself first.
    """

    edges: Ints
    places: Ints
    group: Ints
    lag: Ints
    carry: Carry
    finishes: int
    groups: int
    features: Ints
    telling: Ints


@dataclass(eq=False)
class Diagram:
    """Diagrams of the boxes of one problem. most_points: of a stage."""

    bounder: Bounder
    most_points: int

    def refute(self, target: int, left: PropagatedBox, width: int, most_s: float, stop: Work) -> bool:
        """Return True if the diagram proves that no allocation in a propagated box meets the target.

        width: states of a layer at most; most_s: seconds after which it gives up, counted, as it does when
        the time is up.
        """
        walk, states = _Walk(self, target, left, width), 1
        for states in walk.counts():
            if states == 0 or walk.seconds > most_s or stop.out_of_time:
                break
        stop.charge(walk.seconds)
        return states == 0

    @cached_property
    def points(self) -> Points:
        """The points of all stages."""
        grids = self.bounder.problem.graph.grids
        chosen = [_points_of(grid, self.most_points) for grid in grids]
        at = [
            np.repeat(np.arange(len(own), dtype=np.int32), np.diff(own, append=own[-1] + 1)) for own in chosen
        ]
        return Points(
            np.concatenate(chosen),
            np.cumsum([0, *map(len, chosen)]),
            np.concatenate(at),
            np.cumsum([0, *map(len, at)]),
        )

    @cached_property
    def tractable(self) -> bool:
        """Whether there are not too many windows, nor stages that are waited for at a time."""
        edges = self.bounder.problem.graph.flat_binding
        last = edges.last_consumer
        alive = int((last - np.arange(len(last))).sum())
        if alive > _MOST_ALIVE * len(last) or int(edges.windows.sum()) > _MOST_WINDOWS:
            return False
        return max(map(len, self.groups)) <= _MOST_GROUPS

    @cached_property
    def groups(self) -> tuple[tuple[Stages, ...], ...]:
        """Return for every stage those that later ones wait for. Stages with the same points for which the
        same ones wait in the same way are together: of these only the latest matters.
        """
        graph = self.bounder.problem.graph
        edges, consumer = graph.flat_binding, graph.flat_binding.consumer
        # of each stage, for every consumer from the last one on, a number of it and those after it
        later: list[list[int]] = [[] for _ in graph.stages]
        numbers: dict[object, int] = {}
        for edge in range(len(edges.producer) - 1, -1, -1):
            own = later[edges.producer[edge]]
            use = int(consumer[edge]), int(edges.offset[edge]), int(edges.lag[edge])
            own.append(numbers.setdefault((use, own[-1] if own else 0), len(numbers) + 1))
        after = []
        live: list[int] = []
        for i in range(len(later)):
            for edge in range(edges.pointer[i], edges.pointer[i + 1]):
                later[edges.producer[edge]].pop()
            live = [p for p in (*live, i) if later[p]]
            together: dict[object, list[int]] = {}
            for p in live:
                grid = graph.grids[p]
                together.setdefault((later[p][-1], grid.total, grid.columns), []).append(p)
            after.append(tuple(map(tuple, together.values())))
        return tuple(after)

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """One for every stage."""
        before = ((), *self.groups[:-1])
        return tuple(
            self._layer(stage, *groups) for stage, groups in enumerate(zip(before, self.groups, strict=True))
        )

    def _layer(self, stage: int, groups: tuple[Stages, ...], following: tuple[Stages, ...]) -> Layer:
        """Return the layer of a stage, with the groups before and after it."""
        graph, old, new = (
            self.bounder.problem.graph.flat_binding,
            self._places(groups),
            self._places(following),
        )
        entries: dict[tuple[int, int, int], int] = {}
        for edge in range(graph.pointer[stage], graph.pointer[stage + 1]):
            number = next(g for g, own in enumerate(groups) if graph.producer[edge] in own)
            entries.setdefault((number, int(graph.offset[edge]), int(graph.lag[edge])), edge)
        group, _, lag = np.array([*entries], dtype=np.int64).reshape(-1, 3).T.copy()
        pieces = [
            (old[g], new[h], old[g + 1] - old[g], g, h)
            for g, own in enumerate(groups)
            for h, other in enumerate(following)
            if set(own) & set(other)
        ]
        source, goal, length, old_group, new_group = np.array(pieces, dtype=np.int64).reshape(-1, 5).T.copy()
        own_group = next((h for h, other in enumerate(following) if stage in other), -1)
        own_place = int(new[own_group]) if own_group >= 0 else -1
        features = np.array(
            [place for a, b in pairwise(new) for place in (a, (a + b) // 2, b - 1)], dtype=np.int64
        )
        return Layer(
            np.array([*entries.values()], dtype=np.int64),
            old[group],
            group,
            lag,
            Carry(source, goal, length, old_group, new_group, own_place, own_group),
            int(new[-1]),
            len(following),
            features,
            np.roll(features, -3 * max(0, own_group)),
        )

    def _places(self, groups: tuple[Stages, ...]) -> Ints:
        """Return the places at which the finishes of every group begin in a state, and their number."""
        size = np.diff(self.points.first)
        places: Ints = np.cumsum([0, *(size[own[0]] for own in groups)])
        return places


def _points_of(grid: BlockGrid, most: int) -> Ints:
    """Return the first and the last window of a grid, and others spread evenly over its rows."""
    if grid.total <= most:
        return np.arange(grid.total)
    if grid.rows <= most:
        each = most // grid.rows
        ends = np.arange(1, each + 1) * grid.columns // each
        chosen = (np.arange(grid.rows)[:, None] * grid.columns + ends - 1).ravel()
    else:
        chosen = np.linspace(1, grid.rows, most).astype(np.int64) * grid.columns - 1
    return np.unique(np.append(chosen, (0, grid.total - 1)))


def _intervals(windows: int, low: int, high: int) -> tuple[Ints, Ints]:
    """Return the fewest and most copies of each choice: of one number, or of batches if they are many."""
    # A choice is an interval of copies. Single copies bound best; equal batches come next, since within them
    # only arrays differ; intervals of equal ratios are the coarsest and still cover all copies.
    if high - low < _MOST_CHOICES:
        each = np.arange(low, high + 1)
        return each, each
    most, fewest = -(-windows // low), -(-windows // high)
    if most - fewest < _MOST_CHOICES:
        first = np.maximum(-(-windows // np.arange(most, fewest - 1, -1)), low)
    else:
        first = np.unique(np.geomspace(low, high + 1, _MOST_CHOICES + 1).astype(np.int64)[:-1])
        first[0] = low
    return first, np.append(first[1:] - 1, high)


@dataclass(eq=False)
class _Walk:
    """A diagram of one box, made from the first stage to the last."""

    diagram: Diagram
    target: int
    left: PropagatedBox
    width: int
    seconds: float = 0.0
    _slack: int = 0

    def __post_init__(self) -> None:
        self._bounder = bounder = self.diagram.bounder
        self._problem = problem = bounder.problem
        best = self.left.price
        # Each price is a valid Lagrangian bound, and the best of the box is seldom far from that of a state.
        numbers = range(max(0, best - _NEAR_PRICES), best + _NEAR_PRICES + 1)
        self._prices = np.array([bounder.price(self.target, number) for number in numbers])
        self._ways = bounder.ways_to_end(self._prices, self.left)
        self.seconds += len(numbers) * bounder.node_seconds
        self._least = np.cumsum(self.left.box[0] * problem.demand)
        self._work = np.zeros(3, dtype=np.int64)

    def counts(self) -> Iterator[int]:
        """Yield the number of states after every stage, until the target is refuted."""
        states = States.of(1, 0, 0)
        states.arrays[0] = 0
        for stage, layer in enumerate(self.diagram.layers):
            states = self._next_states(stage, layer, states)
            yield len(states.arrays)

    def _choices(self, stage: int, layer: Layer) -> Choices:
        graph, points = self._problem.graph.flat_binding, self.diagram.points
        low, high = _intervals(
            int(graph.windows[stage]), int(self.left.box[0][stage]), int(self.left.box[1][stage])
        )
        size = int(points.first[stage + 1] - points.first[stage])
        times, looked_up = (len(low), size), (len(low), len(layer.edges), size + 1)
        choices = Choices(
            low,
            high,
            self._bounder.ticks(stage, low),
            low * self._problem.demand[stage],
            np.empty(times, dtype=np.int64),
            np.empty(times, dtype=np.int64),
            layer.group,
            layer.lag,
            np.empty(looked_up, dtype=np.int64),
            np.empty(looked_up, dtype=np.int64),
        )
        kernels.fill_choices(graph, points, stage, layer.edges, layer.places, choices)
        self.seconds += cost.DIAGRAM_FINISH * (choices.base.size + choices.at.size)
        return choices

    def _limits(self, stage: int, choices: Choices) -> StateLimits:
        """Return the limits that states after a stage must keep to, whatever the later stages do."""
        begin, end = self.diagram.points.first[stage], self.diagram.points.first[stage + 1]
        # The later stages take their fewest copies at least: no state may use more than what that leaves.
        most = self._problem.budget - int(self._least[-1]) + int(self._least[stage])
        return StateLimits(
            self._bounder.latest(self.left, stage, self.diagram.points.window[begin:end]),
            int(self.left.times.start[stage]),
            most,
            self._prices,
            with_slack(self.target) + self._prices * most,
            *least_of_each(self._ways, stage, choices.low, choices.high),
        )

    def _next_states(self, stage: int, layer: Layer, states: States) -> States:
        """Return the states after a stage, merged to as many as there may be."""
        room, before = _ROOM * self.width, self._work.copy()
        choices = self._choices(stage, layer)
        new = States.of(room, layer.finishes, layer.groups)
        slots = 1 << (2 * room).bit_length()
        table = StateTable(
            np.empty(slots, dtype=np.uint64),
            np.full(slots, -1),
            layer.features,
            min(1.0, _FINEST / self.target),
            np.empty(layer.finishes, dtype=np.int64),
            np.empty(choices.base.shape[1], dtype=np.int64),
        )
        limits, at, count = self._limits(stage, choices), np.zeros(2, dtype=np.int64), 0
        turn = kernels.Turn(at, self._work)
        # The slack that the last stage needed is the first guess; half of it, as merging should stay tight.
        self._slack //= 2
        while True:
            count = kernels.expand(choices, limits, states, layer.carry, table, new, count, turn)
            merged = self._merged(new, count, layer.telling)
            if at[0] == len(states.arrays):
                break
            # There was no room for all successors: merge those there are and go on at `at`.
            count = len(merged.arrays)
            for column, kept in zip(new, merged, strict=True):
                column[:count] = kept
            table.number[:] = -1
        spent = self._work - before
        self.seconds += cost.DIAGRAM_LAYER + (
            cost.DIAGRAM_CANDIDATE * int(spent[0])
            + cost.DIAGRAM_POINT * (1 + len(choices.group)) * int(spent[1])
            + cost.DIAGRAM_CENTRE * int(spent[2])
            + cost.DIAGRAM_FINISH * merged.finish.size
        )
        return merged

    def _merged(self, states: States, count: int, telling: Ints) -> States:
        """Return the first `count` states, merged with the least slack that leaves no more than the width."""
        states = States(*(own[:count] for own in states))
        if count < 2:
            return states
        order = np.lexsort((states.finish.sum(axis=1), states.arrays))
        near = np.empty((3, self.width + kernels.LANES), dtype=np.int64)
        centres, centre = np.empty(self.width, dtype=np.int64), np.empty(count, dtype=np.int64)
        while True:
            kept = kernels.cover(states, order, telling, self._slack, near, centres, centre, self._work)
            if kept <= self.width:
                break
            self._slack = max(2 * self._slack, 1, self.target // _FIRST_SLACK)
        merged = States(*(own[centres[:kept]] for own in states))
        kernels.merge(states, centre, merged)
        return merged


def least_of_each(ways: WaysToEnd, stage: int, low: Ints, high: Ints) -> tuple[Floats, Floats]:
    """Return the least times of the intervals that share copies with each choice of low ... high.

    Ahead and after, a row for every price.
    """
    size = ways.size[stage]
    first = np.searchsorted(ways.high[stage, :size], low)
    last = np.searchsorted(ways.low[stage, :size], high, side="right")
    ends, none = np.stack([first, last], axis=1).ravel(), np.full((len(ways.ahead), 1), np.inf)
    ahead, after = (
        np.minimum.reduceat(np.append(times[:, stage, :size], none, axis=1), ends, axis=1)[:, ::2]
        for times in (ways.ahead, ways.after)
    )
    return ahead, after


@dataclass(eq=False)
class Diagrams:
    """Targets between the bound and the shortest one that resisted, refuted by decision diagrams.

    A first small diagram tells what level there is time for; where bound and resisting target come close
    together, the next level follows.
    """

    bounder: Bounder
    seconds: float = 0.0
    nodes: int = 0
    _level: int = 0
    _resisting: int = 0
    """The shortest target that resisted the diagrams of this level, 0 if none has."""
    _resisted: int = 0
    """Successive targets that resisted."""
    _longest_s: float = 0.0

    def __post_init__(self) -> None:
        self._diagram = Diagram(self.bounder, _LEVELS[0][1])

    def fits(self, left_s: float) -> bool:
        """Return True if another target is worth a try in `left_s` seconds of work."""
        quick = self._longest_s <= _DIAGRAM_SHARE * left_s
        return self._level < len(_LEVELS) and quick and self._diagram.tractable

    @property
    def weight(self) -> float:
        """Seconds of work on diagrams for each on other proofs: less while they refute no target."""
        return _FRUITFUL * _RESISTED**self._resisted

    def target(self, bound: int, makespan: int) -> int:
        """Return the next target, from the bound to below the makespan."""
        # Another proof may have passed the target that resisted.
        if self._resisting <= bound:  # it was refuted otherwise
            self._resisting = 0
        limit = min(self._resisting or makespan, makespan)
        return bound + (limit - bound - 1) // (2 if self._resisting else _FIRST_PART)

    def raised(self, target: int, box: Box, bound: int, makespan: int, left_s: float, stop: Work) -> int:
        """Return target + 1 if a decision diagram proves the target infeasible, else the old bound.

        box: holds every allocation that meets the target.
        """
        begun_s = stop.spent_s
        stop.charge(self.bounder.sweep_seconds)
        left = self.bounder.propagated(target, box)
        if left is None:
            self.seconds += self.bounder.sweep_seconds
            return target + 1
        first, before_s = self.nodes == 0, stop.spent_s
        most_s = (_FIRST_SHARE if first else _DIAGRAM_SHARE) * left_s
        refuted = self._diagram.refute(target, left, _LEVELS[self._level][0], most_s, stop)
        took_s = stop.spent_s - before_s
        self.nodes += 1
        self.seconds += stop.spent_s - begun_s
        self._longest_s = max(self._longest_s, took_s)
        # A diagram that ends with states proves nothing; the target counts as resisting for this level only.
        if refuted:
            self._resisted, bound = 0, target + 1
        else:
            self._resisted, self._resisting = self._resisted + 1, target
        if first:
            levels = int(math.log(max(1.0, left_s / (_TARGETS * took_s)), _LEVEL_COST))
            if took_s > most_s:  # it did not end: tried again once more is planned
                self.nodes, self._longest_s = 0, _AGAIN * _DIAGRAM_SHARE * left_s
            else:
                self._go_up(min(levels, len(_LEVELS) - 1))
        elif self._resisted == _HOPELESS:
            self._go_up(len(_LEVELS))
        elif self._resisting and self._resisting - bound <= (makespan - bound) // _GRAIN:
            self._go_up(1)
        return bound

    def _go_up(self, levels: int) -> None:
        """Go on with larger diagrams."""
        self._level += levels
        self._longest_s *= _LEVEL_COST**levels
        self._resisting = 0
        if self._level < len(_LEVELS) and self._diagram.most_points != _LEVELS[self._level][1]:
            self._diagram = Diagram(self.bounder, _LEVELS[self._level][1])
