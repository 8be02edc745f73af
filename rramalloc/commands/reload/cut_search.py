"""Cuts of a network into segments that are written and run one after another, searched with a bound.

The stages in canonical order are cut into segments. The time of a segment is bounded from below without a
search, by the wordlines that it writes and the arrays that its batches read; a search for its allocation
gives a time and a better bound. Dynamic programming over the cuts gives the least time of all segments that
were searched, and a bound of all cuts from the bounds of all segments. The search alternates between segments
of three plans: the one that would be fastest if segments not searched yet were as fast as their bounds, the
one with the smallest bound, and the best so far. A segment gets twice the work each time. The search ends
when the bound reaches the best time or the work is used up.

Source: docs/sources/model.md 13; the problem is that of COMPASS, arXiv 2501.06780, which searches cuts with a
genetic algorithm.

Floors are times that no allocation of a segment undercuts, of all segments at once and without a search. An
allocation with an interval of I needs modes of every stage that take no longer: the fewest wordlines of
such modes bound the time of writing, their fewest arrays must fit, and every input takes an interval at
least. The least over all I bounds the segment (docs/sources/model.md 13).

A segment is searched as a network of its own, with inputs for what earlier segments computed, for the time to
write it and to run so many inputs through it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from rramalloc.allocation.case import Case
from rramalloc.allocation.check import recheck_bound
from rramalloc.allocation.question import Question
from rramalloc.choices import MAX_ARRAYS
from rramalloc.commands.reload.writing import Writing, written_rows
from rramalloc.errors import BudgetError, SpecError, UnsupportedError
from rramalloc.hardware.tables import Write
from rramalloc.mapping.demand import demands, once, storage_of
from rramalloc.mapping.mode import Mode
from rramalloc.ndarrays import Ints
from rramalloc.network.network import Network
from rramalloc.network.node import Input, Node, Stage
from rramalloc.rounding import SAME_SUM
from rramalloc.search.menu import StageModes, modes_of
from rramalloc.search.objective import Interval, Latency, RangedByArrays, capped_bound
from rramalloc.search.problem import Answer, Choice, Problem
from rramalloc.search.ranges import FasterThan
from rramalloc.search.resources import Cost, cheapest_options
from rramalloc.search.work import Work
from rramalloc.timing.clocks import timed_graph
from rramalloc.timing.stage_graph import StageGraph
from rramalloc.units import Unit


def segment_network(network: Network, timed: Collection[str], chosen: Collection[str], name: str) -> Network:
    """Return the network of the stages `chosen` and of the digital nodes before them.

    timed: all stages; what one of the others computes is an input, buffered outside and there from the start
    (docs/sources/model.md 13).
    """
    nodes = {node.name: node for node in network.nodes}
    kept: dict[str, Node] = {}
    pending = list(chosen)
    while pending:
        node = nodes[pending.pop()]
        if node.name in kept:
            continue
        if node.name in timed and node.name not in chosen:
            shape = network.shapes[node.name]
            node = Input(name=node.name, shape=shape.as_tuple(), images=shape.images)
        elif isinstance(node, Stage):
            node = node.model_copy(update={"shares": None})
        kept[node.name] = node
        pending += node.inputs
    return Network.build(
        name,
        [kept[node.name] for node in network.nodes if node.name in kept],
        source=network.source,
        where=network.where,
        approximations=[item for item in network.approximations if item.name in kept],
    )


_STEPS = 3  # steps of a staircase that are tried in each direction
_MOST_TRIED = 400  # modes that are tried before the last round
_SECONDS_PER_STAGE = 1e-4  # charge for timing an allocation in other blocks, in seconds of a reference core
_SECONDS_PER_MODE = 1e-5  # charge for the time of one mode of a single stage, in seconds of a reference core


class LoadedRun(RangedByArrays):
    """Time to write the weights, and from the first of `inputs` inputs until the last output."""

    name, label = "reload", "time of writing and running"
    unit: Unit = "ns"

    def __init__(self, problem: Problem, writing: Writing, inputs: int) -> None:
        super().__init__(problem)
        if problem.step_time is None:
            raise SpecError(
                "reload",
                "needs the time of a step in the hardware's [timing]: writing takes ns, running steps",
            )
        self.writing, self.inputs = writing, inputs

    def write_ns(self, found: Choice) -> float:
        """Time to write the weights."""
        return self.writing.ns(self.writing.wordlines(found.modes, found.copies))

    def run_ns(self, found: Choice) -> float:
        """Time of all inputs: the latency of one, and an interval for each of the others."""
        interval = self.problem.time.interval(found.copies, found.modes) if self.inputs > 1 else 0
        step_ns = self.problem.time.step_ns(found.copies, found.modes)
        return (found.makespan + (self.inputs - 1) * interval) * step_ns

    @override
    def value(self, found: Choice) -> float:
        return self.write_ns(found) + self.run_ns(found)

    @override
    def search(self, stop: Work, seed: int) -> Answer:
        return self._fastest_mode(stop) if self._alone else self.improved(super().search(stop, seed), stop)

    @override
    def fastest(self, problem: Problem, stop: Work, seed: int) -> FasterThan:
        """Return the faster of the least latency and the smallest interval, with the bounds of both."""
        bound_ns, found = 0.0, list[Choice]()
        for times, kind in ((1, Latency), (self.inputs - 1, Interval)):
            if times:
                objective = kind(problem)
                share = stop.nested(stop.work)
                answer = objective.solve(share, seed)
                stop.charge(share.spent_s)
                found.append(answer.choice)
                bound_ns += times * objective.in_ns(answer.lower_bound)
        return FasterThan(min(found, key=self.run_ns), bound_ns)

    @property
    def _alone(self) -> bool:
        """Whether there is one stage, whose batches take as long whatever its copies."""
        step_time = self.problem.step_time
        one_kind = len(self.problem.demand) == 1 and self.problem.alternatives is None
        return one_kind and step_time is not None and not step_time.depends_on_copies

    def _fastest_mode(self, stop: Work) -> Answer:
        """Return the best mode of a single stage: its makespan and interval are the time of its batches.

        Copies alone that write more wordlines and take longer than others are no better in any round,
        so this is the optimum of them; with blocks it need not be.
        """
        best, best_ns, (stairs,) = None, math.inf, self._stairs
        modes = stairs.near(0, len(stairs.modes))
        for (mode, copies), length in modes:
            written = self.writing.ns(self.writing.of_stage(0, mode, copies))
            found = self.problem.choice(np.array([copies], dtype=np.int64), (mode,))
            value = written + self.inputs * Latency(self.problem).in_ns(length)
            if value < best_ns and self.problem.holds(found.copies, found.modes):
                best, best_ns = found, value
        if best is None:
            raise AssertionError("one copy fits")
        stop.charge(len(modes) * _SECONDS_PER_MODE)
        bound = self.bound(1, stop) if self.problem.chooses_blocks else best_ns
        return Answer(best, bound, "every mode tried")

    def improved(self, answer: Answer, stop: Work) -> Answer:
        """Return a local optimum over modes: no mode near a stage's on its staircase of wordlines is faster.

        stop: ends it before it is one.
        """
        if self.problem.one_block or stop.out_of_time:
            return answer
        problem, tried, improved = self.problem, 0, True
        best_choice = answer.choice
        best = self.value_of(problem.timing(best_choice))
        while improved and tried < _MOST_TRIED:
            improved = False
            for stage, stairs in enumerate(self._stairs):
                timing = problem.timing(best_choice)
                length = int(timing.batches[stage] * timing.cycles[stage])
                for (mode, count), _ in stairs.near(length, _STEPS):
                    if stop.out_of_time:
                        return replace(answer, choice=best_choice)
                    modes, copies = list(best_choice.modes), best_choice.copies.copy()
                    modes[stage], copies[stage] = mode, count
                    trial = problem.choice(copies, tuple(modes))
                    if not problem.holds(copies, trial.modes):
                        continue
                    tried += 1
                    value = self.value_of(problem.timing(trial))
                    if value < best * (1 - SAME_SUM):
                        best, best_choice, improved = value, trial, True
        stop.charge(tried * len(self._stairs) * _SECONDS_PER_STAGE)
        return replace(answer, choice=best_choice)

    @cached_property
    def _stairs(self) -> list[Staircase]:
        stages, most = range(len(self.problem.demand)), self.problem.budget
        return [Staircase.of(self.problem, self.writing, stage, most) for stage in stages]

    @override
    def bound(self, steps: int, stop: Work) -> float:
        return self.least(self.problem.minimum, 0.0)

    @override
    def least(self, arrays: int, latency_ns: float) -> float:
        return self.writing.floor_ns(arrays, self.problem.minimum) + latency_ns


@dataclass(frozen=True, eq=False)
class Staircase:
    """All modes of a stage, the shortest first.

    arrays, rows: fewest of all modes up to each.
    """

    modes: StageModes
    arrays: Ints
    rows: Ints

    @classmethod
    def of(cls, problem: Problem, writing: Writing, stage: int, most: int) -> Staircase:
        """Return the staircase of a stage's modes with up to `most` arrays."""
        listed = modes_of(problem, stage, most)
        rows = _rows(problem, writing, stage, listed)
        order = np.lexsort((rows, listed.length))
        modes, rows = listed.take(order), rows[order]
        return cls(modes, np.minimum.accumulate(modes.arrays), np.minimum.accumulate(rows))

    def least(self, longest: int) -> tuple[int, int, int]:
        """Return 1 if no mode takes at most `longest`, else 0; the fewest arrays and wordlines of those."""
        at = int(np.searchsorted(self.modes.length, longest, side="right")) - 1
        return (0, int(self.arrays[at]), int(self.rows[at])) if at >= 0 else (1, 0, 0)

    def near(self, length: int, steps: int) -> list[tuple[tuple[Mode, int], int]]:
        """Return the modes (mode, copies) that write fewer wordlines than all faster ones, with their
        length.

        Those about as long as `length`: so many steps of the staircase in both directions.
        """
        falls = np.concatenate(([True], self.rows[1:] < self.rows[:-1]))
        rows = np.flatnonzero(falls)
        at = int(np.searchsorted(self.modes.length[rows], length))
        modes = self.modes.take(rows[max(0, at - steps) : at + steps + 1])
        listed = map(modes.mode, range(len(modes)))
        return list(zip(zip(listed, modes.low.tolist(), strict=True), modes.length.tolist(), strict=True))


def _rows(problem: Problem, writing: Writing, stage: int, listed: StageModes) -> Ints:
    """Return the wordlines that the copies of every mode take."""
    if problem.chooses_blocks:
        blocks = [
            (problem.storage.of(stage, mode), problem.storage.is_digital(mode)) for mode in listed.modes
        ]
        written = [
            block.rows
            * block.groups
            * block.arrays_per_block
            * (1 if block.sharing else -(-block.columns // block.crossbar.bitlines))
            * (not is_digital)
            for block, is_digital in blocks
        ]
    else:
        written = [written_rows(writing.of_stage(stage, mode, 1)) for mode in listed.modes]
    rows: Ints = listed.low * np.array(written, dtype=np.int64)[listed.row]
    return rows


SegmentTimes = list[npt.NDArray[np.float64]]
"""A time for every pair of a first stage and of stages from it on that fit the arrays with one copy each."""

_MOST_LOOKS = 2**24
"""Pairs of a segment and an interval that are looked at: beyond them intervals are looked at in ranges."""


def segment_floors(
    problem: Problem, writing: Writing, arrays: int, step_ns: float, inputs: int
) -> SegmentTimes:
    """Return a bound of each segment's time in ns; infinite where no interval fits, which may also be found
    out later.

    problem: of all stages, as if all fitted; arrays: their cost where there are several kinds, of which each
    is limited, too; step_ns: shortest step, or tick, of any stage.
    """
    demand = np.concatenate(([0], np.cumsum(problem.lowest)))
    axes = problem.resources.axes
    most = (np.searchsorted(demand, demand[:-1] + arrays, side="right") - 1).tolist()
    stages = [Staircase.of(problem, writing, stage, arrays) for stage in range(len(most))]
    if axes:
        options = [own.modes.cheapest_alike(axes) for own in stages]
        last = 0
        for first, furthest in enumerate(most):  # a segment that fits does so without its first stage
            last = max(last, first + 1)
            while last < furthest and cheapest_options(options[first : last + 1], axes)[0]:
                last += 1
            most[first] = last
    times = [np.full(last - first, math.inf) for first, last in enumerate(most)]
    row_ns = writing.write.write_ns_per_row / writing.write.lanes
    for shortest, longest in _intervals(stages, sum(map(len, times))):
        least = np.array([stage.least(longest) for stage in stages])
        slow, taken, rows = np.concatenate((np.zeros((1, 3), np.int64), np.cumsum(least, axis=0))).T
        run_ns = inputs * shortest * step_ns
        for first, known in enumerate(times):
            ends = slice(first + 1, first + 1 + len(known))
            fits = (slow[ends] == slow[first]) & (taken[ends] - taken[first] <= arrays)
            bound = np.where(fits, (rows[ends] - rows[first]) * row_ns + run_ns, math.inf)
            np.minimum(known, bound * (1 - SAME_SUM), out=known)
    return times


def _intervals(stages: Sequence[Staircase], segments: int) -> list[tuple[int, int]]:
    """Return the shortest and longest interval of each range that is looked at; all intervals where they are
    few."""
    lengths = np.unique(np.concatenate([stage.modes.length for stage in stages]))
    longest, few = lengths, max(2, _MOST_LOOKS // max(1, segments))
    if len(lengths) > few:
        longest = lengths[np.unique(np.geomspace(1, len(lengths), few).astype(np.int64)) - 1]
    after = np.searchsorted(lengths, longest, side="right")
    shortest = lengths[np.concatenate(([0], after[:-1]))]
    return list(zip(shortest.tolist(), longest.tolist(), strict=True))


_FIRST_WORK = 2  # units of search of a segment; they double each time that it is searched again
_TURNS = (0, 1, 0, 2)
"""Kind of segment that each turn searches: 0 of the plan that could be fastest, 1 of least bound, 2 of the
best."""
_SECONDS_PER_SEGMENT = 0.01  # charge for making the problem of a segment, in seconds of a reference core

SegmentBounds = tuple[int, int]  # number of the first stage of a segment, and of the first one after it


class SearchedSegment(NamedTuple):
    """A segment that was searched. bound_ns: of all its allocations; work: units of the last search."""

    objective: LoadedRun
    answer: Answer
    value_ns: float
    bound_ns: float
    work: int


@dataclass(eq=False)
class CutSearch:
    """The cuts of one network.

    case: with all its stages in one; graph: of all of them, with clocks that no segment is faster than;
    alone: the same with copies alone, where this one is over modes: what it found is tried here too;
    plain_s: counted seconds for plain cuts and copies alone, which the work allowed does not limit.
    """

    case: Case
    write: Write
    arrays: int
    request: Question
    stop: Work
    inputs: int
    alone: CutSearch | None = None
    plain_s: float = 0.0
    searched: dict[SegmentBounds, SearchedSegment] = field(default_factory=dict)

    def __post_init__(self) -> None:
        options, network, hardware = self.case.mapping, self.case.network, self.case.hardware
        memory, alone = hardware.memory, hardware
        if memory is not None and memory.scope == "shared":  # no stage is slower than alone with all of it
            memory = memory.model_copy(update={"scope": "per_layer"})
            alone = hardware.model_copy(update={"memory": memory})
        self.graph: StageGraph = timed_graph(network, alone, options, graph=self.case.graph)
        timed, step_ns = self.graph, hardware.tick_ns
        if not hardware.own_clock:
            each = itertools.product(hardware.each_kind, timed.stages)
            step_ns = min(own.of_layer(stage).compute_ns or 0.0 for own, stage in each)
        if hardware.kinds is None:
            demand = np.array(demands(network, timed.stages, hardware, options), dtype=np.int64)
            modes = storage_of(network, timed.stages, hardware, options)
            least = np.array(once(network, timed.stages, hardware, options), dtype=np.int64)
            most = self.arrays
            problem = Problem(timed, demand, Cost(max(int(least.sum()), most)), modes, once=least)
        else:
            kinds = tuple(kind.model_copy(update={"arrays": None}) for kind in hardware.kinds)
            free = self.case.on(alone.model_copy(update={"kinds": kinds}))
            resources, most = self.case.kinds_within(self.arrays)
            problem = replace(free.problem(MAX_ARRAYS, advise=False), resources=resources)
        writing = Writing(timed, hardware, self.write, options.mapping)
        self.bounds = segment_floors(problem, writing, most, step_ns, self.inputs)
        if not all(len(of_start) for of_start in self.bounds):
            raise AssertionError("layers that do not fit are cut before")
        self.values = [np.full(len(of_start), math.inf) for of_start in self.bounds]

    def run(self) -> None:
        """Evaluate the segments of the simple cuts, then alternately refine the limiting segments.

        These are the segment that limits the lower bound and the one that limits the incumbent.
        """
        before = 0.0 if self.alone is None else self.alone.counted_s
        alone = shortest(self.alone.values).cuts if self.alone else []
        for cuts in (self.greedy, self.layers, alone):
            for cut in cuts:
                if self.stop.out_of_time and shortest(self.values).ns < math.inf:
                    break
                self._search(cut, _FIRST_WORK)
        self.plain_s = before + self.stop.taken()
        for turn in itertools.count():
            best, least = shortest(self.values), shortest(self.bounds)
            if best.ns < math.inf:
                self.stop.report(self.counted_s, round(best.ns), math.floor(least.ns))
            if not self.stop.is_open(best.ns, least.ns):
                return
            moves = (self._promising, partial(self._next, least.cuts), partial(self._next, best.cuts))
            chosen = moves[_TURNS[turn % len(_TURNS)]]() or next(
                filter(None, (move() for move in moves)), None
            )
            if chosen is None:
                return
            known = self.searched.get(chosen)
            self._search(chosen, _FIRST_WORK if known is None else 2 * known.work)

    @property
    def counted_s(self) -> float:
        """Seconds of work of the whole search."""
        return self.plain_s + self.stop.spent_s

    def _promising(self) -> SegmentBounds | None:
        """Return a segment of the fastest plan there could be if those not searched were as fast as their
        bound."""
        times = [
            np.where(values < math.inf, values, bounds)
            for values, bounds in zip(self.values, self.bounds, strict=True)
        ]
        return next((cut for cut in shortest(times).cuts if cut not in self.searched), None)

    def _next(self, cuts: Sequence[SegmentBounds]) -> SegmentBounds | None:
        """Return the first of a plan's segments that was never searched; else, if it may be searched with
        more work, the one whose bound is furthest below its time."""
        for cut in cuts:
            if cut not in self.searched:
                return cut
        open_ns = {
            cut: known.value_ns - known.bound_ns  # that more work might save
            for cut, known in ((cut, self.searched[cut]) for cut in cuts)
            if known.work < self.stop.work
        }
        furthest = max(open_ns, key=lambda cut: open_ns[cut], default=None)
        return furthest if furthest and open_ns[furthest] > 0 else None

    @property
    def greedy(self) -> list[SegmentBounds]:
        """As many stages as fit with one copy each, then the next ones."""
        cuts, first = [], 0
        while first < len(self.bounds):
            cuts.append((first, first + len(self.bounds[first])))
            first = cuts[-1][1]
        return cuts

    @property
    def layers(self) -> list[SegmentBounds]:
        """Each layer alone, with the digital nodes that follow it."""
        begin = [0, *(stage for stage in np.flatnonzero(self.graph.weighted).tolist() if stage)]
        if len(begin) > 1 and not self.graph.weighted[: begin[1]].any():
            begin.pop(1)
        return list(zip(begin, [*begin[1:], len(self.bounds)], strict=True))

    def total_ns(self, cuts: Sequence[SegmentBounds]) -> float:
        """Time of segments that were searched."""
        return sum(self.searched[cut].value_ns for cut in cuts)

    def _search(self, cut: SegmentBounds, work: int) -> None:
        """Search a segment with `work` units of work; one that cannot be placed is never chosen again."""
        (first, last), known = cut, self.searched.get(cut)
        if known is not None and known.work >= work:
            return
        at = last - first - 1
        try:
            objective = self.objective(cut) if known is None else known.objective
        except (BudgetError, SpecError, UnsupportedError):
            if last == first + 1 and self.graph.weighted[first]:
                raise
            self.bounds[first][at] = math.inf
            return
        share = self.stop.nested(work, gap=0.0)
        answer = objective.solve(share, self.request.seed)
        self.stop.charge(share.spent_s + _SECONDS_PER_SEGMENT)
        bound_ns = max(answer.lower_bound, float(self.bounds[first][at]))
        answers = [answer]
        if known is not None:
            answers.append(known.answer)
            bound_ns = max(bound_ns, known.bound_ns)
        elif self.alone is not None and cut in self.alone.searched:
            copies = self.alone.searched[cut].answer
            choice = objective.problem.choice(copies.choice.copies, copies.choice.modes)
            answers.append(objective.improved(replace(copies, choice=choice), share))
        values = [objective.value_of(objective.problem.timing(answer.choice)) for answer in answers]
        value_ns = min(values)
        bound_ns = capped_bound(value_ns, bound_ns)
        recheck_bound(value_ns, bound_ns, "ns", f"the search of a segment of {self.case.network.name[:60]!r}")
        best = answers[values.index(value_ns)]
        self.searched[cut] = SearchedSegment(objective, best, value_ns, bound_ns, work)
        self.bounds[first][at], self.values[first][at] = bound_ns, value_ns

    def objective(self, cut: SegmentBounds) -> LoadedRun:
        """Return a segment's objective. Raises BudgetError, UnsupportedError."""
        names, (first, last), network = self.graph.names, cut, self.case.network
        name = f"{network.name}/{first + 1}-{last}"
        part = segment_network(network, set(names), names[first:last], name)
        case = replace(self.case, network=part, mapping=self.case.mapping.of_part(part))
        problem = case.problem(self.arrays, advise=False)
        writing = Writing(problem.graph, case.hardware, self.write, case.mapping.mapping)
        return LoadedRun(problem, writing, self.inputs)


class Way(NamedTuple):
    """Segments that hold all stages, and their time; none, and infinite, where there is no way."""

    ns: float
    cuts: list[SegmentBounds]


def shortest(times: SegmentTimes) -> Way:
    """Return the way with the least time; times[a][b - a - 1]: of segment (a, b)."""
    n = len(times)
    least, before = np.full(n + 1, math.inf), np.zeros(n + 1, dtype=np.int64)
    least[0] = 0.0
    for first, of_start in enumerate(times):
        reached = least[first] + of_start
        ends = slice(first + 1, first + 1 + len(of_start))
        shorter = reached < least[ends]
        least[ends][shorter] = reached[shorter]
        before[ends][shorter] = first
    cuts, end = [], n
    while end and least[n] < math.inf:
        cuts.append((int(before[end]), end))
        end = int(before[end])
    return Way(float(least[n]), cuts[::-1])
