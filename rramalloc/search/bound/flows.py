"""A bound from path flows alone: of all networks the first, of the largest ones the best that work allows.

For given shares of candidates the longest path is one pass, for a given flow along paths every stage
chooses its candidate alone. Both sides answer each other's sums of all rounds so far, by exponential weights;
the mean flow is a set of multipliers of the program over places, so its value is a bound after every round.

Source: docs/sources/bound.md; optimistic exponential weights (Rakhlin, Sridharan, 2013).
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from rramalloc.ndarrays import Bools, Floats, Ints
from rramalloc.search import cost
from rramalloc.search.bound.places import LIMIT, MARGIN, Start, stage_candidates
from rramalloc.search.bound.turns import ProofTurn, raised_bound
from rramalloc.search.kernels.flows import (
    Flow,
    FlowPlaces,
    Lengths,
    flow_of,
    least_price,
    lengths_of,
    price_flow,
    shares_of,
)
from rramalloc.search.kernels.places import Candidates
from rramalloc.search.menu import Menu
from rramalloc.search.problem import Problem
from rramalloc.search.work import OutOfTime, Work
from rramalloc.timing.simulate import Copies

_MOST_ROWS = 6  # of a stage, at whose ends the program over places begins with a place
_THROUGH = 0.05  # part of the flow that enters or leaves there, from which on it does
_IN_USE = 0.02  # share from which on the program begins with a candidate
_FIRST_ROUNDS = 15  # rounds between the first bound and the second; each next one follows twice as many
_UNIT = 0.5  # of what a path takes in a stage on average: by a unit more, a weight falls to 1 / e
_FIRST_SCALE = 0.05  # of lengths, by whose exponentials the first shares go
_BISECTIONS = 30  # of the price of arrays, for a bound
_WORTHWHILE = 0.03  # of the gap, that twice as many rounds must close


@dataclass(eq=False)
class Flows:
    """The two sides of one problem without limits beside arrays.

    makespan: of some allocation; bound: every allocation takes at least so many ticks; rounds: so far;
    raised: what the last ones raised the bound by.
    """

    problem: Problem
    menu: Menu
    makespan: int
    bound: float = 0.0
    rounds: int = 0
    raised: float = math.inf

    def __post_init__(self) -> None:
        self._unit = _UNIT * max(1.0, self.makespan / len(self.menu.stages))
        limits = [self.problem.budget]
        own = [stage_candidates(each, (), limits, 0, self._unit) for each in self.menu.stages]
        self._entry = [entry for entry, _, _ in own]
        self._begin = np.cumsum([0, *(len(entry) for entry, _, _ in own)])
        parts = [candidates for _, candidates, _ in own]
        is_raster = np.array([bool((candidates.tall == 1).all()) for candidates in parts])
        self._places = _row_ends(self.problem, is_raster, self._unit)
        self._candidates = Candidates(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        self._taken = np.concatenate([taken[0] for _, _, taken in own])
        count, stages = len(self._places.row), len(own)
        looks = float((np.diff(self._begin) * np.diff(self._places.first)).sum())
        self.round_s = cost.FLOW_LOOK * looks + cost.FLOW_PLACE * count
        self._sums, self._newest = (Lengths(np.zeros(count), np.zeros(stages)) for _ in range(2))
        self._mean, self._flow = (Flow(np.zeros(count), np.zeros(count)) for _ in range(2))
        self._lags, self._weight, self._price = 0.0, 0.0, 0.0
        self._priced, self._total, self._share = np.zeros((3, len(self._taken)))
        self._time, self._enter = np.empty((2, count))
        batches = -(-self._candidates.total // self._candidates.high)
        self._answer(_FIRST_SCALE * batches * self._candidates.period)

    def run(self, rounds: int, stop: Work) -> None:
        """Let both sides answer each other in all `rounds`; bound by the mean flow. Raises OutOfTime."""
        for _ in range(rounds):
            stop.check()
            self._round()
        stop.charge(rounds * self.round_s)
        self._bound()

    @property
    def seconds(self) -> float:
        """Seconds of all rounds, counted."""
        return self.rounds * self.round_s

    def rounds_in(self, seconds: float) -> int:
        """Return the rounds of a turn of about `seconds`."""
        return max(_FIRST_ROUNDS, int(seconds / self.round_s))

    @property
    def pays(self) -> bool:
        """Whether so many rounds again may close enough of the gap: at best what the last ones did."""
        return self.raised >= _WORTHWHILE * (self.makespan - self.bound)

    @property
    def start(self) -> Start:
        """The rows at which most of the mean flow enters or leaves, and the candidates in use."""
        through = (self._mean.entering + self._mean.leaving) / max(self._weight, 1.0)
        rows, entry, low = list[Ints](), list[Ints](), list[Ints]()
        first = self._places.first
        for i in range(len(self._entry)):
            own = slice(first[i], first[i + 1])
            most = np.argsort(-through[own], kind="stable")[:_MOST_ROWS]
            rows.append(self._places.row[own][most[through[own][most] > _THROUGH]])
            used = np.flatnonzero(self._share[self._begin[i] : self._begin[i + 1]] > _IN_USE)
            entry.append(self._entry[i][used])
            low.append(self._candidates.low[self._begin[i] + used])
        return Start(rows, entry, low)

    @property
    def copies(self) -> Copies:
        """Mean copies of the newest shares, rounded down: of one block in every stage, a start."""
        mean = np.add.reduceat(self._share * self._candidates.low, self._begin[:-1])
        return np.floor(mean + 1e-9).astype(np.int64)

    def _round(self) -> None:
        self.rounds += 1
        for total, newest in zip(self._sums, self._newest, strict=True):
            total += newest
        lags = flow_of(self._places, self._sums, float(self.rounds), self._time, self._enter, self._flow)
        price_flow(self._places, self._candidates, self._begin, self._flow, self._priced)
        for mean, newest in zip(self._mean, self._flow, strict=True):
            mean += self.rounds * newest
        self._lags += self.rounds * lags
        self._weight += self.rounds
        self._total += self._priced
        # The newest prices count twice: they stand for those of the next round.
        self._answer(self._total + self._priced)

    def _answer(self, priced: Floats) -> None:
        """Choose shares for prices, and their lengths."""
        self._price = shares_of(self._begin, priced, self._taken, LIMIT, self._price, self._share)
        for lengths in self._newest:
            lengths[:] = 0.0
        lengths_of(self._places, self._candidates, self._begin, self._share, self._newest)

    def _bound(self) -> None:
        """Bound by the mean flow: each stage chooses alone, for the price of arrays that bounds best."""
        flow = Flow(*(own / self._weight for own in self._mean))
        price_flow(self._places, self._candidates, self._begin, flow, self._priced)
        low, high = 0.0, max(2 * self._price / self.rounds, 1e-6)
        for _ in range(_BISECTIONS):
            price = (low + high) / 2
            value, taken = least_price(self._begin, self._priced, self._taken, price)
            value += self._lags / self._weight - price * LIMIT
            value -= MARGIN * (abs(value) + 2 * price * LIMIT + self.makespan / self._unit)
            self.bound = max(self.bound, value * self._unit)
            if taken > LIMIT:
                low = price
            else:
                high = price


def _row_ends(problem: Problem, is_raster: Bools, unit: float) -> FlowPlaces:
    """Return the first pixel and the ends of all rows of every stage as places, with their hops.

    They follow each other whatever blocks a stage has. A hop comes from the last place of the producer that
    is neither below nor right of what is needed, or in raster order not later.
    """
    edges = problem.graph.flat_extents
    width = edges.width.tolist()
    sides = zip(edges.height.tolist(), width, strict=True)
    places = [
        np.array([[0, 0], *([y, wide - 1] for y in range(wide == 1, height))], dtype=np.int64)
        for height, wide in sides
    ]
    first = np.cumsum([0, *map(len, places)])
    row, column = np.concatenate(places).T.copy()
    hops = [(np.zeros(0), np.zeros(0), np.zeros(0))]
    for i in range(len(places)):
        at = np.arange(first[i], first[i + 1])
        for e in range(edges.pointer[i], edges.pointer[i + 1]):
            p = int(edges.producer[e])
            needed_row = edges.table[edges.row[e] + row[at]]
            needed_column = edges.table[edges.column[e] + column[at]]
            of_row = needed_row + (width[p] > 1)
            before = needed_row if is_raster[p] else 0
            number = np.where(needed_column == width[p] - 1, of_row, before)
            known = (needed_row >= 0) & (needed_column >= 0)
            lag = np.full(int(known.sum()), float(edges.lag[e]) / unit)
            hops.append((at[known], first[p] + number[known], lag))
    place, needed, lag = (np.concatenate(part) for part in zip(*hops, strict=True))
    order = np.argsort(place, kind="stable")
    pointer = np.searchsorted(place[order], np.arange(first[-1] + 1))
    return FlowPlaces(first, row, column, pointer, needed[order].astype(np.int64), lag[order])


def run_flows(flows: Flows, bound: int, makespan: int, most: int, stop: Work) -> ProofTurn:
    """Raise the bound by `most` rounds as long as they pay; rounds before a limit of time count."""
    end, problem = flows.rounds + most, flows.problem
    while (
        bound < makespan
        and flows.rounds < end
        and flows.bound + flows.raised > bound
        and flows.pays
        and not stop.out_of_time
    ):
        before, rounds = flows.bound, max(flows.rounds, _FIRST_ROUNDS) if flows.rounds else 1
        with suppress(OutOfTime):
            flows.run(min(rounds, end - flows.rounds), stop)
        flows.raised = flows.bound - before
        bound = raised_bound(bound, flows.bound, makespan)
    found = (problem.choice(flows.copies),) if flows.rounds and problem.one_block else ()
    return ProofTurn(bound, found)
