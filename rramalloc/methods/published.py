"""`published`: the least steps by the published recurrence of a chain (MODEL.md 5).

The recurrence is a model: its best allocation is judged by exact timing like any other. A dynamic
program from the last layer to the first decides whether a target can be met. It keeps the most promising
states of every layer; where all of them fit, a target that it does not meet is out of reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.errors import UnsupportedError
from rramalloc.methods.published_kernel import extend, least_box, published_steps, undominated
from rramalloc.search import bandwidth, interval
from rramalloc.search.problem import SECONDS_PER_WORK, Candidate, Problem, Stop
from rramalloc.timing.published import ChainLayer, chain_layers
from rramalloc.timing.simulate import Replication

Ints = npt.NDArray[np.int64]

_NS_PER_LAYER_LOOKED_AT, _NS_PER_STATE = 16.0, 1000.0
_WIDTHS = (16, 1024, 8192)
"""States kept per layer, in one attempt after the other."""
_WIDTH_FOR_TIES = 256
_SECONDS_PER_PIECE = 1e-3
_CHILDREN, _SLICE, _LOOK = 8, 64, 256
"""Room for so many times the states kept; states between two looks at the clock, and compared with one."""
_MOST_ENTRIES = 2**21
"""Room for states times layers."""


def solve(problem: Problem, stop: Stop, seed: int) -> Candidate:  # noqa: ARG001
    """Least published recurrence within the budget. Same problem and work give the same candidate.

    Where memory access lengthens the step, least published steps * step_ns, the total delay of the source.
    Raises UnsupportedError if the network is not a chain, or a layer is timed that the recurrence lacks.
    """
    chain = _Chain.of(problem)
    if problem.step_time is not None and problem.step_time.moves:
        return _least_delay(chain, stop)
    search = _Search(problem, stop, chain)
    search.run()
    return Candidate(chain.whole(search.best), 1, search.words, search.spent_s)


def _least_delay(chain: _Chain, stop: Stop) -> Candidate:
    """Least published steps * step_ns, by bounds on pieces of the range of step times."""
    model = _PublishedSteps(chain, stop)
    best = bandwidth.minimise(chain.problem, stop, model)
    words = (
        f"{best.latency_ns:.6g} ns by {model.steps(best.replication)} steps of the published recurrence, "
        f"{'no less than' if chain.is_monotone else 'heuristic: about'} {best.bound_ns:.6g} ns: dynamic "
        f"programs over ranges of step times; no proof of the exact latency"
    )
    return Candidate(best.replication, 1, words, best.seconds)


@dataclass(frozen=True, slots=True)
class _PublishedSteps:
    """The published recurrence as the model of the steps that `bandwidth` minimises the product of."""

    chain: _Chain
    stop: Stop

    def steps(self, replication: Replication) -> int:
        return int(published_steps(self.chain.layers, replication[self.chain.stages]))

    def bound(self, relaxed: Problem) -> int:
        search = self._search(relaxed, self.stop.work)
        search.begin()
        return search.bound

    def solve(self, relaxed: Problem, work: int) -> Candidate:
        search = self._search(relaxed, work)
        search.run()
        seconds = search.spent_s + _SECONDS_PER_PIECE
        return Candidate(search.chain.whole(search.best), search.bound, "", seconds)

    def improve(self, replication: Replication) -> tuple[Replication, float]:
        return replication, 0.0

    def _search(self, relaxed: Problem, work: int) -> _Search:
        chain = _Chain(self.chain.layers, self.chain.stages, relaxed)
        return _Search(relaxed, replace(self.stop, work=work, history=[]), chain)


class _States(NamedTuple):
    """Choices for the layers from some layer on, one a row (published_kernel.py, `extend`)."""

    copies: Ints
    arrays: Ints
    rest: Ints
    least: Ints
    asks: Ints
    dues: Ints
    asked: Ints

    @classmethod
    def room(cls, states: int, layers: int) -> _States:
        wide, narrow = (states, layers), (states,)
        return cls(*(np.zeros(shape, dtype=np.int64) for shape in (wide, *[narrow] * 3, wide, wide, narrow)))


@dataclass(frozen=True, slots=True, eq=False)
class _Chain:
    """The layers of the recurrence, and the part of the problem that is theirs."""

    layers: Ints
    stages: Ints
    problem: Problem

    @classmethod
    def of(cls, problem: Problem) -> _Chain:
        """Raises UnsupportedError."""
        chain = chain_layers(problem.graph.network)
        position = {name: stage for stage, name in enumerate(problem.graph.names)}
        for name in sorted(set(position) - {layer.name for layer in chain}):
            if problem.graph.windows[position[name]] > 1:
                raise UnsupportedError(
                    f"{problem.graph.network.name}: node {name[:60]!r}",
                    "the published recurrence covers convolutions only, and copies of this layer are of use",
                )
        stages = np.array([position[layer.name] for layer in chain], dtype=np.int64)
        return cls(rows_of(chain), stages, problem)

    @property
    def is_monotone(self) -> bool:
        """Whether more windows always need later pixels; if not, dominance and bounds do not hold."""
        return bool((self.layers[1:, 3] >= 1).all())

    @property
    def demand(self) -> Ints:
        """Arrays of one copy of every layer."""
        return self.problem.demand[self.stages]

    @property
    def budget(self) -> int:
        """Arrays for the layers; other stages are stored as often as they must."""
        others = np.delete(np.arange(len(self.problem.demand)), self.stages)
        return self.problem.budget - int((self.problem.demand * self.problem.smallest)[others].sum())

    def whole(self, copies: Ints) -> Replication:
        """Copies of all stages."""
        replication: Replication = self.problem.smallest.copy()
        replication[self.stages] = copies
        return replication


@dataclass(eq=False)
class _Search:
    problem: Problem
    stop: Stop
    chain: _Chain
    best: Ints = field(init=False)
    steps: int = field(init=False)
    bound: int = 1
    spent_s: float = 0.0
    _states: int = 0

    def run(self) -> None:
        self.begin()
        for width in _WIDTHS:
            if self._done():
                break
            self._close_in(width)
        self._decide(self.steps, _WIDTH_FOR_TIES)

    def begin(self) -> None:
        """A first allocation and a first bound."""
        self._layers, self._demand, self._budget = self.chain.layers, self.chain.demand, self.chain.budget
        self._low = self.problem.smallest[self.chain.stages].copy()
        self._high = self.problem.largest[self.chain.stages].copy()
        self.best = self._low
        self.steps = int(published_steps(self._layers, self.best))
        start = interval.solve(self.problem, self.stop, 0).replication
        if self.problem.fits(start):
            self._take(start[self.chain.stages])
        self._raise_bound()

    def _raise_bound(self) -> None:
        """The smallest target that the box alone does not rule out."""
        high = self.steps
        while self.bound < high and not self._out_of_work:
            target = (self.bound + high) // 2
            if self._box(target) is None:
                self.bound = target + 1
            else:
                high = target

    def _close_in(self, width: int) -> None:
        """Bisect between bound and best with that many states per layer."""
        low = self.bound
        while low < self.steps and not self._done():
            target = (low + self.steps - 1) // 2
            steps, complete = self.steps, self._decide(target, width)
            if complete and self.steps == steps:
                self.bound = target + 1
            low = target + 1 if self.steps == steps else low

    def _decide(self, target: int, width: int) -> bool:
        """Look for an allocation that meets the target; whether nothing was left out."""
        box = self._box(target)
        if box is None:
            return True
        layers = len(self._layers)
        states = _States.room(1, layers)
        room = _States.room(min(_CHILDREN * width, max(1, _MOST_ENTRIES // layers)), layers)
        complete = True
        for layer in range(layers - 1, -1, -1):
            filled = 0
            for begin in range(0, len(states.least), _SLICE):
                if self._out_of_work or filled == len(room.least):
                    complete = False
                    break
                end, limit = min(begin + _SLICE, len(states.least)), self._work_left
                filled, work = extend(
                    self._layers, self._demand, self._budget, target, layer, box, states, begin, end, room,
                    filled, limit,
                )  # fmt: skip
                self.spent_s += 1e-9 * _NS_PER_LAYER_LOOKED_AT * work
                complete = complete and work <= limit
            complete = complete and filled < len(room.least)
            states, all_kept = self._most_promising(room, filled, width)
            complete = complete and all_kept
        for copies in states.copies[:1]:
            self._take(copies)
        return complete

    def _most_promising(self, room: _States, filled: int, width: int) -> tuple[_States, bool]:
        """States that no other dominates, those of the smallest bound; whether these are all."""
        self._states += filled
        self.spent_s += 1e-9 * _NS_PER_STATE * filled
        order = np.lexsort((room.rest[:filled], room.arrays[:filled])).astype(np.int64)
        kept = order[: undominated(room, order, _LOOK)]
        kept = kept[np.lexsort((room.arrays[kept], room.least[kept]))]
        return _States(*(field[kept[:width]] for field in room)), len(kept) <= width

    def _box(self, target: int) -> tuple[Ints, Ints] | None:
        low, high = self._low.copy(), self._high.copy()
        none, layers = np.empty(0, dtype=np.int64), len(self._layers)
        self.spent_s += 1e-9 * _NS_PER_LAYER_LOOKED_AT * layers * layers
        arrays = least_box(
            self._layers, self._demand, self._budget, target, 0, none, none, 0, layers, low, high,
            np.zeros(layers, dtype=np.int64),
        )  # fmt: skip
        return (low, high) if arrays >= 0 else None

    def _take(self, copies: Ints) -> None:
        steps = int(published_steps(self._layers, copies))
        fewer = (copies * self._demand).sum() < (self.best * self._demand).sum()
        if steps < self.steps or (steps == self.steps and fewer):
            self.best, self.steps = copies.copy(), steps

    @property
    def _work_left(self) -> int:
        """Layers that may still be looked at."""
        left_s = self.stop.work * SECONDS_PER_WORK - self.spent_s
        return int(left_s / (1e-9 * _NS_PER_LAYER_LOOKED_AT))

    @property
    def _out_of_work(self) -> bool:
        return self.stop.out_of_time or self.spent_s >= self.stop.work * SECONDS_PER_WORK

    def _done(self) -> bool:
        return self._out_of_work or self.stop.close_enough(self.steps, self.bound)

    @property
    def words(self) -> str:
        """What was reached in the model, and what is known of it."""
        reached = f"{self.steps} steps by the published recurrence"
        how = f"dynamic program, {self._states} states; no proof of the exact makespan"
        if not self.chain.is_monotone:
            return f"{reached}, heuristic: {how}"
        if self.bound >= self.steps:
            return f"{reached}, the fewest there are: {how}"
        return f"{reached}, no fewer than {self.bound}: {how}"


def rows_of(chain: Sequence[ChainLayer]) -> Ints:
    """The layers as published_kernel.py reads them (`_last`): of each one and of the layer before it."""
    rows = []
    for layer, before in zip(chain, (chain[0], *chain), strict=False):
        pooled = (before.w_out - before.k_pool + 2 * before.p_pool) // before.s_pool + 1
        first = before.k_pool + before.s_pool * (layer.k - layer.p - 1) - before.p_pool
        end = min(before.k_pool + before.s_pool * (pooled - 1) - before.p_pool, before.w_out)
        tail = layer.w_out * (layer.p // layer.s)
        windows = layer.w_out * layer.h_out
        rows.append((layer.w_out, before.w_out, layer.s * before.s_pool, first, end, windows, tail))
    return np.array(rows, dtype=np.int64)
