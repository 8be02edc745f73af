"""A linear program over places in every layer, whose value no allocation undercuts.

Every stage has a share of each of its candidates (a mode and copies), 1 in all, and at a few of its pixels,
its places, the finish of the batch that holds them. Rows along the network relate finishes of neighbouring
places; the limits are rows too. Places and rows join where the longest path over all pixels, under the shares
of the last solution, is longer than the program knows; candidates join where the multipliers price them
below those that it has. So the program is small, and its bound one of all candidates and of all paths.
Aimed at a target, it speaks only of allocations that meet it, with the candidates that these may use.

Source: docs/sources/bound.md; a linear program solved by HiGHS, with rows and columns generated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from rramalloc.ndarrays import Bools, Floats, Ints
from rramalloc.search import cost
from rramalloc.search.kernels.places import (
    Candidates,
    LongestPaths,
    batches_of_pixel,
    longest_paths,
    pair_waits,
    potentials,
    price_legs,
)
from rramalloc.search.menu import Menu, StageModes
from rramalloc.search.problem import Problem
from rramalloc.search.resources import Axis
from rramalloc.search.work import Work
from rramalloc.timing.simulate import Copies

_MOST_CANDIDATES = 2**19  # candidates of all stages up to which every number of copies is one of its own
_FEWEST_CANDIDATES = 256  # of a stage, up to which the same holds in every network
_FIRST_CANDIDATES = 12  # of a stage, from its staircase, in the first program
_FIRST_ROWS = ((6, 30), (1, 100))
"""(Rows of a stage at whose ends it has a place in the first program, solutions for which there must be work
left): a program that begins with fewer rows takes more solutions."""
_ROWS_FROM_START = (2, 15)  # the same where it begins near the solution
_NEW_CANDIDATES = 4  # of a stage that join after a solution
_MOST_TRACES = 100  # paths that are traced back after a solution
_UNIT_BITS = 16  # bits of a target counted in units
LIMIT = 100.0  # every limit in the program: of the size of shares and times, whatever it counts
MARGIN = 1e-9  # of the sum of all terms of a bound, taken off for their rounding
_SMOOTHING = 0.5  # weight of the newest shares in the mean whose longest paths are sought
_MEMORY = 2  # successive solutions in which a row that is slack stays
_MOST_PIVOTS = 50_000  # pivots of one solution: any multipliers prove a bound, so ending early is valid
_PIVOTS_PER_CALL = 20  # pivots that take as long as a call of the solver
_VIOLATION = 1e-3  # by which a longest path must exceed a place's finish, in units
_MOST_PAIRS = 2**16  # pairs of candidates of two stages up to which their pair rows are sought
_SHARPNESS = 40.0  # of the smoothed transport problem, for the longest of its waits
_IN_USE = 1e-7  # share from which on a candidate is in use: the tolerance of the solver
_WORTHWHILE = 0.02  # of the gap up to the target, that rounds must close

_END = 0  # column of the makespan
_NONE = -1


class _Row(NamedTuple):
    """finish `late` >= finish `early` + lag + what the candidates of a stage take.

    late, early: columns, _NONE for the start of the network; a candidate takes `batches` of its batches and
    those from place `enter` to place `leave`. pair, producer: of a pair row, the number of its potentials and
    the other stage that has some of them; of other rows _NONE.
    """

    late: int
    early: int
    lag: float
    stage: int
    batches: int = 0
    enter: int = _NONE
    leave: int = _NONE
    pair: int = _NONE
    producer: int = _NONE


class _Hop(NamedTuple):
    """A pixel of a stage and the pixel of the producer that it needs by an edge."""

    stage: int
    pixel: tuple[int, int]
    edge: int
    needed: tuple[int, int]


class _Leg(NamedTuple):
    """All rows as columns: a field for each of `_Row`."""

    late: Ints
    early: Ints
    lag: Floats
    stage: Ints
    batches: Ints
    enter: Ints
    leave: Ints
    pair: Ints
    producer: Ints


@dataclass(eq=False)
class _Stage:
    """Candidates and places of one stage.

    entry: entry of the StageModes of every candidate; taken: of every limit; place: number of each pixel;
    finish: column of each place; earliest, latest: batch of each place and candidate; share: column of each
    candidate in the program; mean: of its shares in the solutions so far; potentials: of pair rows; is_left:
    whether each candidate may be in an allocation that meets the target.
    """

    entry: Ints
    candidates: Candidates
    taken: Floats
    place: dict[tuple[int, int], int] = field(default_factory=dict)
    finish: list[int] = field(default_factory=list)
    earliest: Ints = field(init=False)
    latest: Ints = field(init=False)
    share: dict[int, int] = field(default_factory=dict)
    mean: dict[int, float] = field(default_factory=dict)
    potentials: dict[int, Floats] = field(default_factory=dict)
    is_left: Bools = field(init=False)

    def __post_init__(self) -> None:
        self.earliest = np.empty((_FIRST_ROWS[0][0] + 1, len(self.entry)), dtype=np.int32)
        exact = np.array_equal(self.candidates.low, self.candidates.high)
        self.latest = self.earliest if exact else self.earliest.copy()
        self.is_left = np.ones(len(self.entry), dtype=np.bool_)

    def new_place(self, pixel: tuple[int, int], column: int) -> int:
        """Add a place and return its number."""
        number = self.place[pixel] = len(self.finish)
        self.finish.append(column)
        if number == len(self.earliest):
            exact, more = self.latest is self.earliest, np.empty_like(self.earliest)
            self.earliest = np.concatenate((self.earliest, more))
            self.latest = self.earliest if exact else np.concatenate((self.latest, more))
        batches_of_pixel(self.candidates, *pixel, self.earliest[number], self.latest[number])
        return number

    def used(self, values: Floats) -> dict[int, float]:
        """Return the shares of the candidates that a solution uses; it may be older than some of them."""
        return {m: float(values[c]) for m, c in self.share.items() if c < len(values) and values[c] > _IN_USE}

    def mix(self, values: Floats, lowest: int) -> None:
        """Mix the shares of a solution with the mean of those before; lowest: candidate without any."""
        newest = self.used(values) or {lowest: 1.0}
        part = _SMOOTHING if self.mean else 1.0
        every = sorted(newest | self.mean)
        mixed = {m: part * newest.get(m, 0.0) + (1.0 - part) * self.mean.get(m, 0.0) for m in every}
        whole = sum(share for share in mixed.values() if share > _IN_USE)
        self.mean = {m: share / whole for m, share in mixed.items() if share > _IN_USE}

    def by_use(self, values: Floats) -> tuple[Ints, Floats, int]:
        """Return the candidates, those in use first, the shares of these and how many they are."""
        used = self.used(values) or self.mean
        numbers = np.array(list(used), dtype=np.int64)
        others = np.delete(np.arange(len(self.entry)), numbers)
        shares = np.array(list(used.values()))
        return np.concatenate((numbers, others)), shares / shares.sum(), len(numbers)

    def costs(self, rows: Sequence[_Row], stage: int, numbers: Any) -> Floats:
        """Return what some of the candidates of this stage take in rows, float64 (rows, candidates)."""
        legs = _legs(rows)
        walked = self.earliest[legs.leave][:, numbers] - self.latest[legs.enter][:, numbers]
        walked = np.where((legs.enter >= 0)[:, None], np.maximum(walked, 0), 0)
        batches = np.where(legs.stage == stage, legs.batches, 0)
        taken: Floats = self.candidates.period[numbers] * (batches[:, None] + walked)
        for row in np.flatnonzero(legs.pair >= 0).tolist():
            taken[row] += self.potentials[int(legs.pair[row])][numbers]
        return taken


class Start(NamedTuple):
    """Rows and candidates of each stage with which the program begins beside those of its own.

    rows: at whose ends are places; entry, low: of candidates.
    """

    rows: Sequence[Ints]
    entry: Sequence[Ints]
    low: Sequence[Ints]


class BudgetCut(NamedTuple):
    """With A arrays an allocation takes at least `ticks` - `per_array` * A, or longer than the target."""

    ticks: float
    per_array: float


@dataclass(eq=False)
class Places:
    """The program of one problem, aimed at a target.

    rows: of a stage at whose ends it has a place at first; bound: every allocation whose makespan is at most
    the target takes at least so many ticks; value: the bound of the last solution alone, in units of `_unit`
    ticks.
    """

    problem: Problem
    menu: Menu
    target: int
    rows: int = _FIRST_ROWS[0][0]
    start: Start | None = None
    bound: float = 0.0

    def __post_init__(self) -> None:
        graph = self.problem.graph
        self._edges = graph.flat_extents
        self._unit = 2.0 ** max(0, self.target.bit_length() - _UNIT_BITS)
        stages = self.menu.stages
        most = max(_FEWEST_CANDIDATES, _MOST_CANDIDATES // len(stages))
        limits = [self.problem.budget, *(axis.limit for axis in self.menu.axes)]
        self._stages = [
            _Stage(*stage_candidates(each, self.menu.axes, limits, most, self._unit)) for each in stages
        ]
        self._is_raster = np.array([bool((own.candidates.tall == 1).all()) for own in self._stages])
        pixels = self._edges.height * self._edges.width
        self._begin = np.concatenate(([0], np.cumsum(pixels))).astype(np.int64)
        self._paths = LongestPaths(
            np.empty(self._begin[-1]), *(np.empty((2, self._begin[-1]), dtype=np.int64))
        )
        self._history: list[float] = []
        self._priced: list[Floats] = []
        self._solver = _Solver(len(stages), len(limits))
        self._rows: list[_Row] = []
        self._known: set[_Row] = set()
        self._slack = np.zeros(0, dtype=np.int64)
        self._hops: dict[_Row, _Hop] = {}
        self.has_pairs, self._pairs = False, 0
        self._begin_program()

    def _begin_program(self) -> None:
        """Begin with a few candidates of the staircase, places at the ends of some rows, and their rows."""
        edges = self._edges
        for i, own in enumerate(self._stages):
            height, right = int(edges.height[i]), int(edges.width[i]) - 1
            self._place(i, 0, 0)
            ends = np.append(np.linspace(0, height - 1, min(height, self.rows)), height - 1).astype(np.int64)
            if self.start is not None:
                ends = np.concatenate((ends, self.start.rows[i]))
            for y in np.unique(ends).tolist():
                self._place(i, y, right)
            each = own.candidates
            length, spent = each.period * -(-each.total // each.low), own.taken[0]
            order = np.lexsort((length, spent))
            least = np.minimum.accumulate(length[order])
            stairs = order[np.concatenate(([True], least[1:] < least[:-1]))]
            picks = np.unique(np.linspace(0, len(stairs) - 1, _FIRST_CANDIDATES).astype(np.int64))
            self._add_candidates(i, stairs[picks].tolist())
            if self.start is not None:
                for entry, low in zip(self.start.entry[i], self.start.low[i], strict=True):
                    held = (own.entry == entry) & (each.low <= low) & (low <= each.high)
                    self._add_candidates(i, np.flatnonzero(held).tolist())
        rows = []
        for i, own in enumerate(self._stages):
            pixels = sorted(own.place)
            finish = [own.finish[own.place[pixel]] for pixel in pixels]
            rows += [_Row(finish[0], _NONE, 0.0, i, batches=1), _Row(_END, finish[-1], 0.0, i)]
            rows += [self._walk(i, a, b) for a, b in pairwise(pixels)]
            for pixel in pixels:
                for e in range(edges.pointer[i], edges.pointer[i + 1]):
                    rows += self._near_hop(i, pixel, e)
        self._add_rows(rows)

    def _place(self, stage: int, y: int, x: int) -> int:
        """Return the number of a place, which is added if it is new."""
        own = self._stages[stage]
        number = own.place.get((y, x), _NONE)
        return own.new_place((y, x), self._solver.add_column(0.0)) if number < 0 else number

    def _walk(self, stage: int, start: tuple[int, int], end: tuple[int, int]) -> _Row:
        own = self._stages[stage]
        enter, leave = own.place[start], own.place[end]
        return _Row(own.finish[leave], own.finish[enter], 0.0, stage, 0, enter, leave)

    def _hop(self, stage: int, pixel: tuple[int, int], edge: int, needed: tuple[int, int]) -> _Row:
        own, other = self._stages[stage], self._stages[self._edges.producer[edge]]
        early, lag = other.finish[other.place[needed]], float(self._edges.lag[edge]) / self._unit
        row = _Row(own.finish[own.place[pixel]], early, lag, stage, batches=1)
        self._hops[row] = _Hop(stage, pixel, edge, needed)
        return row

    def _needed(self, pixel: tuple[int, int], edge: int) -> tuple[int, int]:
        """Return the last row and the last column of the producer that a pixel needs, -1 for none."""
        table = self._edges.table
        row, column = self._edges.row[edge] + pixel[0], self._edges.column[edge] + pixel[1]
        return int(table[row]), int(table[column])

    def _near_hop(self, stage: int, pixel: tuple[int, int], edge: int) -> list[_Row]:
        """Return the row of a hop from the last place of the producer that is no later than needed."""
        row, column = self._needed(pixel, edge)
        p = int(self._edges.producer[edge])
        if row < 0 or column < 0:
            return []
        near = [
            (y, x)
            for y, x in self._stages[p].place
            if (y <= row and x <= column) or (self._is_raster[p] and (y, x) <= (row, column))
        ]
        return [self._hop(stage, pixel, edge, max(near))]

    def _add_candidates(self, stage: int, numbers: Iterable[int]) -> int:
        """Add candidates of a stage to the program; return how many are new."""
        own = self._stages[stage]
        new = [m for m in numbers if m not in own.share]
        if not new:
            return 0
        rows = np.array(
            [r for r, row in enumerate(self._rows) if stage in (row.stage, row.producer)], dtype=np.int64
        )
        costs = own.costs([self._rows[r] for r in rows.tolist()], stage, new)
        first = self._solver.first_row
        for column, m in enumerate(new):
            own.share[m] = self._solver.add_column(
                0.0, stage, own.taken[:, m], first + rows, -costs[:, column]
            )
        return len(new)

    def _add_rows(self, rows: Iterable[_Row]) -> int:
        """Add rows that are not yet in the program; return how many are new."""
        new = [row for row in dict.fromkeys(rows) if row not in self._known]
        self._known.update(new)
        self._rows += new
        by_stage: dict[int, list[int]] = {}
        parts = list[tuple[list[int], list[float]]]()
        for number, row in enumerate(new):
            parts.append(([row.late], [1.0]) if row.early < 0 else ([row.late, row.early], [1.0, -1.0]))
            for stage in {row.stage, row.producer} - {_NONE}:
                by_stage.setdefault(stage, []).append(number)
        for stage, numbers in by_stage.items():
            own = self._stages[stage]
            costs = own.costs([new[number] for number in numbers], stage, list(own.share))
            columns = list(own.share.values())
            for number, of_row in zip(numbers, costs.tolist(), strict=True):
                parts[number][0].extend(columns)
                parts[number][1].extend(-taken for taken in of_row)
        self._solver.add_rows(parts, [row.lag for row in new])
        self._slack = np.concatenate((self._slack, np.zeros(len(new), dtype=np.int64)))
        return len(new)

    @classmethod
    def affordable(
        cls,
        problem: Problem,
        menu: Menu,
        target: int,
        left_s: float,
        stop: Work,
        start: Start | None = None,
        *,
        for_cuts: bool = False,
    ) -> Places | None:
        """Return the program with the most rows at first for which there is work, None if for none.

        stop: is charged for building it; for_cuts: with the fewest rows, as others are violated for each
        number of arrays.
        """
        stages = len(problem.demand)
        first_rows = () if for_cuts else _FIRST_ROWS
        if for_cuts or start is not None:
            first_rows = (*first_rows, _ROWS_FROM_START)
        for rows, solutions in first_rows:
            every = (2 * rows + 3) * stages
            if solutions * every * _pivot_s(every) <= left_s:
                program = cls(problem, menu, target, rows, start)
                stop.charge(cost.PLACE_COLUMN * program._solver.columns)
                return program
        return None

    def round(self, left_s: float, stop: Work) -> bool:
        """Solve, bound, and add what is missing; return False if nothing is. Raises OutOfTime.

        left_s: of work, at most.
        """
        solver, pivot_s = self._solver, _pivot_s(self._solver.first_row + len(self._rows))
        pivots = solver.solve(min(_MOST_PIVOTS, int(left_s / pivot_s)), stop)
        stop.charge(cost.PLACE_ROW * len(self._rows) + pivot_s * pivots)
        legs, flow = _legs(self._rows), np.maximum(solver.multipliers[solver.first_row :], 0.0)
        priced = self._price(legs, flow, stop)
        used = legs.early[(flow > _IN_USE) & (legs.early >= 0)]
        hops = [self._rows[r] for r in np.flatnonzero((flow > _IN_USE) & (legs.batches > 0)).tolist()]
        added = self._add_priced(priced)
        self._priced = priced
        for own, each in zip(self._stages, priced, strict=True):
            own.mix(solver.values, int(np.argmin(each)))
        self._forget()
        added += self._separate(set(used.tolist()), stop)
        if self.has_pairs:
            added += self._separate_pairs(hops, stop)
        self._history.append(self.bound)
        return added > 0

    def limit_arrays(self, arrays: int) -> None:
        """Solve for `arrays` from now on; bounds still hold for all within the budget."""
        self._solver.limit(len(self._stages), LIMIT * arrays / self.problem.budget)

    @property
    def cut(self) -> BudgetCut:
        """The last solution for every budget: its multipliers are feasible whatever the limits are.

        Holds until candidates are left out, of every number of arrays within the budget of the problem.
        """
        price = max(-float(self._solver.multipliers[len(self._stages)]), 0.0) * LIMIT * self._unit
        return BudgetCut(self.value * self._unit + price, price / self.problem.budget)

    @property
    def copies(self) -> Copies:
        """Mean copies of the shares so far, rounded down: of one block in every stage, a start."""
        means = (
            sum(share * int(own.candidates.low[m]) for m, share in own.mean.items()) for own in self._stages
        )
        return np.array([max(1, math.floor(mean + 1e-9)) for mean in means], dtype=np.int64)

    def rises(self, rounds: int) -> bool:
        """Return True if the last `rounds` at this target closed some of the gap up to it."""
        if len(self._history) <= rounds:
            return True
        return self.bound - self._history[-1 - rounds] >= _WORTHWHILE * (self.target + 1 - self.bound)

    def begin_pairs(self) -> None:
        """Seek pair rows, too, from the next round on."""
        self.has_pairs, self._history = True, []

    def _price(self, legs: _Leg, flow: Floats, stop: Work) -> list[Floats]:
        """Bound by the multipliers of the last solution; return the price of every candidate above the least.

        legs: all rows; flow: their multipliers, at least 0. For given multipliers every stage chooses alone,
        so they prove a bound whatever their quality.
        """
        solver, target = self._solver, self.target / self._unit
        prices = np.maximum(-solver.multipliers[len(self._stages) : solver.first_row], 0.0)
        terms = float(flow @ legs.lag)
        value = terms - LIMIT * float(prices.sum())
        terms += LIMIT * float(prices.sum())
        # What flows into a place but not out of it costs at most its time, which is at most the target.
        inflow = np.bincount(legs.late, flow, solver.columns)
        inflow -= np.bincount(np.maximum(legs.early, 0), np.where(legs.early >= 0, flow, 0.0), solver.columns)
        inflow[_END] -= 1.0
        value -= target * float(np.maximum(inflow, 0.0).sum())
        order = np.argsort(legs.stage, kind="stable")
        order = order[flow[order] > 0.0]
        cuts = np.searchsorted(legs.stage[order], np.arange(len(self._stages) + 1))
        pairs = np.flatnonzero((legs.pair >= 0) & (flow > 0.0))
        priced, looks = [], 0
        for i, own in enumerate(self._stages):
            rows = order[cuts[i] : cuts[i + 1]]
            walks = rows[legs.enter[rows] >= 0]
            each = np.empty(len(own.entry))
            batches = float(flow[rows] @ legs.batches[rows])
            price_legs(
                own.candidates.period, own.earliest, own.latest,
                legs.enter[walks], legs.leave[walks], flow[walks], batches, each,
            )  # fmt: skip
            each += prices @ own.taken
            for row in pairs[(legs.stage[pairs] == i) | (legs.producer[pairs] == i)].tolist():
                each += flow[row] * own.potentials[int(legs.pair[row])]
                terms += float(flow[row] * np.abs(own.potentials[int(legs.pair[row])]).max())
            each[~own.is_left] = np.inf
            least = float(each.min())
            value += least
            terms += abs(least)
            each -= least
            priced.append(each)
            looks += (len(walks) + 2) * len(each)
        stop.charge(cost.PLACE_LEG * looks)
        value -= MARGIN * (terms + target)
        self.value = value
        self.bound = max(self.bound, value * self._unit)
        return priced

    def _add_priced(self, priced: Sequence[Floats]) -> int:
        """Add the candidates with the lowest prices that are below those of the program."""
        added = 0
        for i, (own, each) in enumerate(zip(self._stages, priced, strict=True)):
            known = min((float(each[m]) for m in own.share), default=np.inf)
            if known > _IN_USE:
                fewest = min(_NEW_CANDIDATES, len(each))
                # Of equal prices the first ones: which ones argpartition takes depends on the processor.
                edge = np.partition(each, fewest - 1)[fewest - 1]
                near = np.flatnonzero((each <= edge) & (each < known))
                lowest = near[np.argsort(each[near], kind="stable")[:fewest]]
                added += self._add_candidates(i, sorted(lowest.tolist()))
        return added

    def _forget(self) -> None:
        """Take away rows that were slack in the last solutions."""
        multipliers = self._solver.multipliers[self._solver.first_row :]
        self._slack = np.where(multipliers > _IN_USE, 0, self._slack + 1)
        dropped = np.flatnonzero(self._slack >= _MEMORY)
        if len(dropped):
            self._solver.remove_rows(dropped)
            gone = set(dropped.tolist())
            for row in (self._rows[r] for r in gone):
                self._known.discard(row)
                self._hops.pop(row, None)
                for stage in {row.stage, row.producer} if row.pair >= 0 else ():
                    del self._stages[stage].potentials[row.pair]
            self._rows = [row for r, row in enumerate(self._rows) if r not in gone]
            self._slack = np.delete(self._slack, dropped)

    def _separate(self, used: set[int], stop: Work) -> int:
        """Add the rows of paths that are longer than the program knows; return how many are new."""
        first = np.concatenate(([0], np.cumsum([len(own.mean) for own in self._stages]))).astype(np.int64)
        parts = [own.candidates.take(list(own.mean)) for own in self._stages]
        mixture = Candidates(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        weight = np.array([share for own in self._stages for share in own.mean.values()])
        edges, begin = self._edges, self._begin
        longest_paths(edges, begin, self._is_raster, self._unit, first, mixture, weight, self._paths)
        stop.charge(cost.PLACE_PIXEL * float((np.diff(begin) * np.diff(first)).sum()))
        time, values = self._paths.time, self._solver.values
        starts: list[tuple[float, int, int]] = []
        for i, own in enumerate(self._stages):
            for (y, x), number in own.place.items():
                if own.finish[number] in used:
                    q = int(begin[i]) + y * int(edges.width[i]) + x
                    excess = float(time[q] - values[own.finish[number]])
                    if excess > _VIOLATION:
                        starts.append((-excess, i, q))
        last = int(np.argmax(time[begin[1:] - 1]))
        chosen = [(last, int(begin[last + 1]) - 1), *((i, q) for _, i, q in sorted(starts)[:_MOST_TRACES])]
        rows, seen = list[_Row](), set[int]()
        for stage, pixel in chosen:
            rows += self._trace(stage, pixel, seen)
        return self._add_rows(rows)

    def _trace(self, stage: int, pixel: int, seen: set[int]) -> list[_Row]:
        """Return the rows of the longest path to a pixel, up to one that was traced already."""
        rows = []
        while pixel not in seen:
            seen.add(pixel)
            width, begin = int(self._edges.width[stage]), int(self._begin[stage])
            end, start = (divmod(int(q) - begin, width) for q in (pixel, self._paths.entered[pixel]))
            for place in (end, start):
                self._place(stage, *place)
            if end != start:
                rows.append(self._walk(stage, start, end))
            edge = int(self._paths.edge[begin + start[0] * width + start[1]])
            if edge < 0:
                own = self._stages[stage]
                rows.append(_Row(own.finish[own.place[start]], _NONE, 0.0, stage, batches=1))
                break
            needed, stage_before = self._needed(start, edge), int(self._edges.producer[edge])
            self._place(stage_before, *needed)
            rows.append(self._hop(stage, start, edge, needed))
            stage = stage_before
            pixel = int(self._begin[stage]) + needed[0] * int(self._edges.width[stage]) + needed[1]
        return rows

    def _separate_pairs(self, rows: Sequence[_Row], stop: Work) -> int:
        """Add the pair rows of hops in use that the solution violates; return how many are new."""
        values, new, looks = self._solver.values, dict[_Row, _Hop](), 0
        for hop, row in {self._hops[row]: row for row in rows if row in self._hops}.items():
            p = int(self._edges.producer[hop.edge])
            own, other = self._stages[hop.stage], self._stages[p]
            if len(own.entry) * len(other.entry) > _MOST_PAIRS:
                continue
            looks += len(own.entry) * len(other.entry)
            found, violated = self._potentials(hop, own, other)
            excess = violated + values[row.early] + row.lag - values[row.late]
            if excess > _VIOLATION:
                self._pairs += 1
                own.potentials[self._pairs], other.potentials[self._pairs] = found
                new[row._replace(pair=self._pairs, producer=p)] = hop
        stop.charge(cost.PLACE_PAIR * looks)
        self._hops |= new
        return self._add_rows(new)

    def _potentials(self, hop: _Hop, own: _Stage, other: _Stage) -> tuple[tuple[Floats, Floats], float]:
        """Return potentials of the candidates of both stages, and what the solution takes with them."""
        values = self._solver.values
        (one, one_weight, one_used), (two, two_weight, two_used) = own.by_use(values), other.by_use(values)
        waits = np.empty((len(one), len(two)))
        pair_waits(
            self._edges,
            hop.edge,
            own.candidates.take(one),
            hop.pixel,
            other.candidates.take(two),
            hop.needed,
            waits,
        )
        first, second = np.empty(len(one)), np.empty(len(two))
        sharpness = _SHARPNESS / max(float(waits[:one_used, :two_used].max()), 1e-9)
        potentials(waits, one_weight, two_weight, sharpness, first, second)
        taken = float(first[:one_used] @ one_weight + second[:two_used] @ two_weight)
        taken += float(own.candidates.period[one[:one_used]] @ one_weight)
        ordered = np.empty_like(first), np.empty_like(second)
        ordered[0][one], ordered[1][two] = first, second
        return ordered, taken

    def aim(self, target: int) -> None:
        """Speak of another target, with all rows so far; for a longer one all candidates are back.

        After a target that is refuted only longer ones make sense.
        """
        if target > self.target:
            # Allocations between the two targets take longer than the shorter one.
            self.bound = min(self.bound, self.target + 1.0)
            for own in self._stages:
                gone = [column for m, column in own.share.items() if not own.is_left[m]]
                self._solver.limit_shares(gone, math.inf)
                own.is_left[:] = True
        self.target, self._history = target, []

    def fix(self) -> bool:
        """Leave out candidates that no allocation within the target uses; return False if a stage has none.

        The price of a candidate above the least of its stage lifts the bound.
        """
        spare = self.target / self._unit - self.value
        return not math.isfinite(spare) or self._keep([each <= spare for each in self._priced])

    def keep_box(self, box: tuple[Copies, Copies]) -> bool:
        """Leave out candidates outside a box of copies; return False if a stage has none left."""
        each = (own.candidates for own in self._stages)
        sides = zip(each, *box, strict=True)
        return self._keep([(own.low <= most) & (own.high >= least) for own, least, most in sides])

    def keep_entries(self, entries: Sequence[Ints]) -> bool:
        """Leave out candidates of other entries of the StageModes; return False if a stage has none left."""
        pairs = zip(self._stages, entries, strict=True)
        return self._keep([np.isin(own.entry, kept) for own, kept in pairs])

    def _keep(self, kept: Sequence[Bools]) -> bool:
        for own, each in zip(self._stages, kept, strict=True):
            gone = own.is_left & ~each
            self._solver.limit_shares([column for m, column in own.share.items() if gone[m]], 0.0)
            own.is_left &= each
        return all(own.is_left.any() for own in self._stages)

    @property
    def entries(self) -> tuple[Ints, ...]:
        """Entries of the StageModes of every stage that still have a candidate."""
        return tuple(np.unique(own.entry[own.is_left]) for own in self._stages)

    @property
    def box(self) -> tuple[Ints, Ints]:
        """Fewest and most copies of the candidates left of every stage."""
        low = [own.candidates.low[own.is_left].min() for own in self._stages]
        high = [own.candidates.high[own.is_left].max() for own in self._stages]
        return np.array(low, dtype=np.int64), np.array(high, dtype=np.int64)


def stage_candidates(
    each: StageModes, axes: Sequence[Axis], limits: Sequence[int], most: int, unit: float
) -> tuple[Ints, Candidates, Floats]:
    """Return the entry of every candidate of a stage, the candidates, and what each takes of every limit.

    Each number of copies of an entry is one; if these are more than `most`, all copies of an entry that
    begins with many are one. unit: of times, in ticks.
    """
    count = each.high - each.low + 1
    if count.sum() > most:
        count = np.where(each.low < _FEWEST_CANDIDATES // 2, count, 1)
    entry = np.repeat(np.arange(len(each)), count)
    low = each.low[entry] + np.arange(len(entry)) - np.repeat(np.cumsum(count) - count, count)
    high = np.where((count == 1)[entry], each.high[entry], low)
    row = each.row[entry]
    table = each.table.take(row)
    period = each.clock.of_each(row, low) / unit
    columns = {
        name: getattr(table, name) for name in ("tall", "wide", "top", "left", "image", "columns", "total")
    }
    cost = table.arrays(low)
    taken = [
        cost,
        *(axis.amounts(table.kind, cost // table.weight, table.sensitivity) for axis in axes),
    ]
    scaled = [own * (LIMIT / max(limit, 1)) for own, limit in zip(taken, limits, strict=True)]
    return entry, Candidates(**columns, low=low, high=high, period=period), np.stack(scaled)


def _pivot_s(rows: int) -> float:
    """Return the seconds of a pivot, counted."""
    return cost.PLACE_PIVOT + cost.PLACE_PIVOT_ROW * rows


def _legs(rows: Iterable[_Row]) -> _Leg:
    """Return rows as columns."""
    late, early, lag, *others = np.array(list(rows), dtype=np.float64).reshape(-1, len(_Row._fields)).T
    stage, *rest = (own.astype(np.int64) for own in others)
    return _Leg(late.astype(np.int64), early.astype(np.int64), lag, stage, *rest)


class _Solver:
    """HiGHS for a program that grows: minimise the column _END.

    Row i says that the shares of stage i are 1 in sum, the rows after these that the limits hold.
    """

    def __init__(self, stages: int, limits: int) -> None:
        import highspy  # only here: small networks are proven without a linear program

        self._infinite = highspy.kHighsInf
        self.values, self.multipliers = np.zeros(0), np.zeros(0)
        self._highs = highspy.Highs()
        for option, setting in (
            ("output_flag", False),
            ("threads", 1),
            ("solver", "simplex"),
            ("presolve", "off"),
        ):
            self._highs.setOptionValue(option, setting)
        self.columns, self.first_row = 0, stages + limits
        for row in range(self.first_row):
            least, most = (1.0, 1.0) if row < stages else (-self._infinite, LIMIT)
            self._highs.addRow(least, most, 0, np.zeros(0, dtype=np.int32), np.zeros(0))
        self.add_column(1.0)

    def add_column(
        self, price: float, stage: int = _NONE, taken: Floats | None = None, rows: Any = (), costs: Any = ()
    ) -> int:
        """Add a column, a share with what it takes of every limit if `stage` is given; return its number."""
        at, values = np.zeros(0, dtype=np.int32), np.zeros(0)
        if taken is not None:
            limits = np.arange(self.first_row - len(taken), self.first_row)
            at = np.concatenate(([stage], limits, rows)).astype(np.int32)
            values = np.concatenate(([1.0], taken, costs))
            at, values = at[values != 0.0], values[values != 0.0]
        self._highs.addCol(price, 0.0, self._infinite, len(at), at, values)
        self.columns += 1
        return self.columns - 1

    def add_rows(self, rows: Sequence[tuple[Any, Any]], least: Sequence[float]) -> None:
        """Add rows of columns and coefficients, each no less than `least`."""
        if not rows:
            return
        starts = np.concatenate(([0], np.cumsum([len(at) for at, _ in rows])[:-1])).astype(np.int32)
        at, values = (np.concatenate(part) for part in zip(*rows, strict=True))
        at = at.astype(np.int32)
        most = np.full(len(rows), self._infinite)
        self._highs.addRows(len(rows), np.array(least), most, len(at), starts, at, values)

    def remove_rows(self, numbers: Ints) -> None:
        """Remove rows by their number after the first ones."""
        self._highs.deleteRows(len(numbers), (numbers + self.first_row).astype(np.int32))
        self.multipliers = np.delete(self.multipliers, numbers + self.first_row)

    def limit(self, row: int, most: float) -> None:
        """Change what a limit allows."""
        self._highs.changeRowBounds(row, -self._infinite, most)

    def limit_shares(self, columns: Sequence[int], most: float) -> None:
        """Limit shares to `most`."""
        for column in columns:
            self._highs.changeColBounds(column, 0.0, most)

    def solve(self, most: int, stop: Work) -> int:
        """Solve from the last basis with at most `most` pivots; return their number and some for the call.

        Raises OutOfTime, but only once the solver is done.
        """
        self._highs.setOptionValue("simplex_iteration_limit", most)
        if stop.time_limit_s is not None:  # HiGHS counts from its first solution
            left_s = max(0.0, stop.time_limit_s - stop.seconds)
            self._highs.setOptionValue("time_limit", self._highs.getRunTime() + left_s)
        self._highs.run()
        stop.check()
        solution = self._highs.getSolution()
        self.values = np.array(solution.col_value)
        self.multipliers = np.array(solution.row_dual)
        return int(max(0, self._highs.getInfo().simplex_iteration_count)) + _PIVOTS_PER_CALL
