"""The fewest steps of a chain by the published recurrence.

Source: ACM TODAES 29(1):21, doi 10.1145/3631523: Algorithm 2 looks for the copies with the smallest latency
by Algorithm 1, the published recurrence (docs/sources/model.md 5). The search here has the same objective
and proves its optimum, so by that recurrence it is at least as good as theirs; the allocation is judged by
exact timing like any other.

A compiled dynamic program from the last layer to the first decides whether a target can be met. It keeps the
most promising states of every layer; where all of them fit, a target that it does not meet is out of reach.
The layers chosen so far ask the others for a short list of demands: pixel `ask` of the layer before must be
there by step `deadline`. A state that asks for less, with fewer arrays and shorter tails, dominates. The
recurrence is written as

    PreOp_i = G_{i-1}(last_i(d_i))
    G_k(x)  = max(ceil(x / d_k) - 1 + PreOp_k, G_{k-1}(last_k(ceil(x / d_k) * d_k)))
    Op_L    = max over i of ( NormalOp_i + PreOp_i + sum over j > i of Tail_j )

where last_i(n) is the last pixel of layer i - 1 that the first n windows of layer i need, counted from 1.
It rises with n where padding is smaller than the kernel, and then the program is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from rramalloc.compiled import compiled, compiled_inline, compiled_maker, compiled_part
from rramalloc.errors import UnsupportedError
from rramalloc.mapping.demand import Storage
from rramalloc.methods.method import Method
from rramalloc.ndarrays import Ints
from rramalloc.search import cost, interval
from rramalloc.search.kernels.limits import copy_to
from rramalloc.search.problem import Answer, Choice, Problem
from rramalloc.search.ranges import Incumbent, StepBound, StepSearch
from rramalloc.search.work import Work
from rramalloc.timing.published import (
    ChainLayer,
    ceil_div,
    chain_layers,
    chain_rows,
    last_pixel_needed,
    published,
)
from rramalloc.timing.simulate import Copies
from rramalloc.units import duration

_ROUNDS = 4  # passes that tighten the box; a box larger than the fixed point is valid too


class Goal(NamedTuple):
    """Steps to meet. layers: as `chain_rows` gives them; demand: arrays of a copy of each layer."""

    layers: Any
    demand: Any
    target: int


class CopyBox(NamedTuple):
    """Copies of every layer that may meet a goal, and bounds of PreOp with them."""

    low: Any
    high: Any
    wait: Any


class Demands(NamedTuple):
    """Demands of the layers behind: pixel asks[r] by step dues[r], for the first `size` of them."""

    asks: Any
    deadlines: Any
    size: int


class Span(NamedTuple):
    """Where an extension of states goes on: at the state `begin`, with that many copies, 0 for the fewest.

    filled: places that are taken; limit: work after which it ends; pause: after which it returns to go on.
    """

    begin: int
    copies: int
    filled: int
    limit: int
    pause: int


@compiled
def least_box(goal: Any, room: int, rest: int, demands: Any, free: int, box: Any) -> int:
    """Shrink the box of the first `free` layers to what can meet the goal; arrays of its low end, or -1.

    room: arrays these layers may take; rest: tails of the layers behind them; box.wait: written.
    """
    layers, demand, target = goal.layers, goal.demand, goal.target
    low, high, wait = box.low, box.high, box.wait
    arrays = 0
    for _ in range(_ROUNDS):
        before = arrays
        for r in range(demands.size):
            if not _reach(layers, demands.asks[r], demands.deadlines[r], free, box):
                return -1
        arrays = _narrow(demand, room, free, low, high)
        if arrays < 0:
            return -1
        for j in range(free):
            wait[j] = _least_wait(layers, j, low, high, wait)
        after = rest
        for j in range(free - 1, -1, -1):
            left = target - after - wait[j]
            if left < 1:
                return -1
            low[j] = max(low[j], ceil_div(layers[j, 5], left))
            if low[j] > high[j]:
                return -1
            after += ceil_div(layers[j, 6], high[j])
        arrays = _narrow(demand, room, free, low, high)
        if arrays <= before:
            break
    return arrays


@compiled_inline
def _narrow(demand: Any, room: int, free: int, low: Any, high: Any) -> int:
    """Lower `high` to what the arrays leave beside `low`, which takes as many as returned; -1: too many."""
    arrays = 0
    for j in range(free):
        arrays += demand[j] * low[j]
    if arrays > room:
        return -1
    for j in range(free):
        high[j] = min(high[j], low[j] + (room - arrays) // demand[j])
    return arrays


@compiled_inline
def _least_wait(layers: Any, j: int, low: Any, high: Any, wait: Any) -> int:
    """Return the least PreOp of layer j with copies in low ... high, given those of the layers before."""
    least = 0
    n = low[j]
    for m in range(j - 1, -1, -1):
        ask = last_pixel_needed(layers, m + 1, n)
        batches = ceil_div(ask, high[m])
        least = max(least, batches - 1 + wait[m])
        n = max(ask, batches * low[m])
    return least


@compiled_part
def _reach(layers: Any, ask: int, deadline: int, free: int, box: Any) -> bool:
    """Raise the low end of the first `free` layers so that the last has pixel `ask` by `deadline`."""
    low, high, wait = box.low, box.high, box.wait
    for j in range(free - 1, -1, -1):
        left = deadline + 1 - wait[j]
        if left < 1:
            return False
        low[j] = max(low[j], ceil_div(ask, left))
        if low[j] > high[j]:
            return False
        if j:
            ask = last_pixel_needed(layers, j, max(ask, ceil_div(ask, high[j]) * low[j]))
    return True


@compiled_part
def _asked(goal: Any, i: int, copies: int, rest: int, demands: Any, new_asks: Any, new_deadlines: Any) -> int:
    """Write the demands on layer i - 1 if layer i has these copies, given those on layer i; -1 if unmet.

    The first is for the start of layer i, the others for its batches that the layers behind ask for.
    """
    layers, asks, deadlines, count = goal.layers, demands.asks, demands.deadlines, demands.size
    wait = goal.target - rest - ceil_div(layers[i, 5], copies)
    for r in range(count):
        wait = min(wait, deadlines[r] + 1 - ceil_div(asks[r], copies))
    if wait < 0:
        return -1
    if i == 0:
        return 0
    new_asks[0], new_deadlines[0] = last_pixel_needed(layers, i, copies), wait
    least = 1
    for r in range(count):
        ask = last_pixel_needed(layers, i, ceil_div(asks[r], copies) * copies)
        least = _add(new_asks, new_deadlines, least, ask, deadlines[r])
    return least


@compiled_inline
def _add(asks: Any, deadlines: Any, count: int, ask: int, deadline: int) -> int:
    """Add a demand unless another one implies it, and drop those that it implies; how many there are."""
    implied = False
    for m in range(count):
        implied = implied or (asks[m] >= ask and deadlines[m] <= deadline)
    if implied:
        return count
    kept = 0
    for m in range(count):
        if asks[m] > ask or deadlines[m] < deadline:
            asks[kept], deadlines[kept] = asks[m], deadlines[m]
            kept += 1
    asks[kept], deadlines[kept] = ask, deadline
    return kept + 1


@compiled_maker
def extend(
    goal: Any, budget: int, i: int, whole: Any, states: Any, out: Any, span: Any
) -> tuple[int, int, int, int]:
    """Append the states from `span.begin` on with every useful number of copies of layer i to `out`.

    states, out: _States; whole: the box of all layers. Returns the number of states in `out`; the layers
    that were examined, a count of work; and the state and copies at which to go on. It ends early, after the
    last state, if `out` is full or the work passes the limit.
    """
    layers, demand = goal.layers, goal.demand
    room = np.empty((6, len(layers)), dtype=np.int64)
    box, smaller = CopyBox(room[0], room[1], room[2]), CopyBox(room[3], room[4], room[5])
    to, work = span.filled, 0
    for s in range(span.begin, len(states.least)):
        _copy_box(box, whole)
        left = budget - states.arrays[s]
        demands = Demands(states.asks[s], states.deadlines[s], states.asked[s])
        goes_on = s == span.begin and span.copies > 0
        if not goes_on:
            work += (i + 1) * (i + 1 + demands.size)
        if least_box(goal, left, states.rest[s], demands, i + 1, box) < 0:
            continue
        for d in range(span.copies if goes_on else box.low[i], box.high[i] + 1):
            if to == len(out.least) or work > span.limit:
                return to, work, len(states.least), 0
            if work > span.pause:
                return to, work, s, d
            count = _asked(goal, i, d, states.rest[s], demands, out.asks[to], out.deadlines[to])
            if count < 0:
                continue
            out.rest[to] = states.rest[s] + ceil_div(layers[i, 6], d)
            _copy_box(smaller, box)
            work += (i + 1) * (i + 1 + count)
            asked = Demands(out.asks[to], out.deadlines[to], count)
            least = least_box(goal, left - d * demand[i], out.rest[to], asked, i, smaller)
            if least < 0:
                continue
            copy_to(out.copies[to], states.copies[s])
            out.copies[to, i] = d
            out.arrays[to] = states.arrays[s] + d * demand[i]
            out.least[to] = out.arrays[to] + least
            out.asked[to] = count
            to += 1
            if i == 0:
                break
    return to, work, len(states.least), 0


@compiled_part
def _copy_box(target: Any, source: Any) -> None:
    copy_to(target.low, source.low)
    copy_to(target.high, source.high)
    copy_to(target.wait, source.wait)


@compiled
def keep_undominated(states: Any, order: Any, look: int) -> int:
    """Move to the front of `order` the states that none of the `look` ones kept before them dominates.

    order: states by rising arrays. A state dominates if it takes no more arrays, has no longer tails and
    the other asks for all that it asks for. Returns the number kept.
    """
    _, arrays, rest, _, asks, deadlines, count = states
    kept = 0
    for b in order:
        dominated = False
        for at in range(kept - 1, max(-1, kept - 1 - look), -1):
            a = order[at]
            if rest[a] <= rest[b] and arrays[a] <= arrays[b]:
                dominated = _implied(asks[a], deadlines[a], count[a], asks[b], deadlines[b], count[b])
                if dominated:
                    break
        if not dominated:
            order[kept] = b
            kept += 1
    return kept


@compiled_inline
def _implied(
    asks: Any, deadlines: Any, count: int, other_asks: Any, other_deadlines: Any, other_count: int
) -> bool:
    """Return True if meeting the other demands meets these too."""
    for r in range(count):
        met = False
        for t in range(other_count):
            if other_asks[t] >= asks[r] and other_deadlines[t] <= deadlines[r]:
                met = True
                break
        if not met:
            return False
    return True


_WIDTHS = (16, 1024, 8192)
"""States kept per layer, in one attempt after the other."""
_WIDTH_FOR_TIES = 256  # states kept per layer when only the arrays of the best steps are lowered
_CHILDREN = 8  # room for children, as a multiple of the states kept
_PAUSE = int(0.02 / cost.DEMAND_LAYER)  # layers examined between two looks at the clock
_LOOK = 256  # kept states that a new one is compared with for dominance
_MOST_ENTRIES = 2**21
"""Room for states times layers."""


def solve(problem: Problem, stop: Work, seed: int) -> Answer:  # noqa: ARG001
    """Minimise the published recurrence within the budget. Same problem and work give the same answer.

    Where memory access lengthens the step, least published steps * step_ns, the total delay of the source.
    Raises UnsupportedError if the network is not a chain, or a layer is timed that the recurrence lacks.
    """
    chain = _Chain.of(problem)
    if problem.step_time is not None and problem.step_time.moves:
        return _least_delay(chain, replace(problem, storage=Storage.of_copies(problem.demand)), stop)
    search = _TargetSearch(chain, problem, stop)
    search.run()
    return Answer(problem.choice(search.whole), 1, search.words)


def _least_delay(chain: _Chain, problem: Problem, stop: Work) -> Answer:
    """Minimise published steps * step_ns, by lower bounds on pieces of the range of step times."""

    def delay_ns(found: Choice) -> float:
        return chain.steps(found.copies[chain.stages]) * problem.step_ns(found.copies, found.modes)

    model = _PublishedSteps(chain, Incumbent(problem, delay_ns), stop)
    model.incumbent.propose(problem.choice(problem.smallest))
    bound_ns = StepSearch.of(problem, model, stop.work).run(model.incumbent)
    words = (
        f"{duration(model.incumbent.value)} by the published recurrence, "
        f"{'no less than' if chain.is_monotone else 'heuristic: about'} {duration(bound_ns)}: dynamic "
        f"programs over ranges of step times; no proof of the exact latency"
    )
    return replace(model.incumbent.answer(words, bound_ns), lower_bound=1)


@dataclass(frozen=True, slots=True)
class _PublishedSteps:
    """The `StepModel` of the published recurrence."""

    chain: _Chain
    incumbent: Incumbent
    stop: Work

    def bound(self, relaxed: Problem, step_ns: float, steps: int) -> float:
        """Return the lower bound of a range of steps, as `StepModel.bound`."""
        search = _TargetSearch(self.chain, relaxed, self.stop.nested(self.stop.work))
        search.begin()
        return search.bound * step_ns

    def search(self, relaxed: Problem, step_ns: float, longest_ns: float, work: int) -> StepBound:
        """Search a range of steps, as `StepModel.search`."""
        search = _TargetSearch(self.chain, relaxed, self.stop.nested(work))
        search.run()
        self.stop.charge(search.stop.spent_s + cost.STEP_PIECE)
        self.incumbent.propose(self.incumbent.problem.choice(search.whole))
        return StepBound(search.bound * step_ns, search.bound)


class _States(NamedTuple):
    """Choices for the layers from some layer on, one a row (`extend`)."""

    copies: Ints
    arrays: Ints
    rest: Ints
    least: Ints
    asks: Ints
    deadlines: Ints
    asked: Ints

    @classmethod
    def room(cls, states: int, layers: int) -> _States:
        wide, narrow = (states, layers), (states,)
        return cls(*(np.zeros(shape, dtype=np.int64) for shape in (wide, *[narrow] * 3, wide, wide, narrow)))


class _Chain(NamedTuple):
    """The layers of the recurrence, as rows that the compiled functions read, and the stages they are."""

    layers: tuple[ChainLayer, ...]
    rows: Ints
    stages: Ints

    @classmethod
    def of(cls, problem: Problem) -> _Chain:
        """Return the chain of a problem. Raises UnsupportedError."""
        layers = chain_layers(problem.graph.network, problem.graph.names)
        position = {name: stage for stage, name in enumerate(problem.graph.names)}
        for name in sorted(set(position) - {layer.name for layer in layers}):
            if problem.graph.windows[position[name]] > 1:
                raise UnsupportedError(
                    f"{problem.graph.network.name}: node {name[:60]!r}",
                    "the published recurrence covers convolutions only, and copies of this layer are of use",
                )
        stages = np.array([position[layer.name] for layer in layers], dtype=np.int64)
        return cls(layers, chain_rows(layers), stages)

    @property
    def is_monotone(self) -> bool:
        """Whether more windows always need later pixels; if not, dominance and bounds do not hold."""
        return bool((self.rows[1:, 3] >= 1).all())

    def steps(self, copies: Ints) -> int:
        """Return the latency by the published recurrence."""
        return published(self.layers, copies.tolist()).steps


class _TargetSearch:
    """Closes in on the fewest steps of a chain in a problem. Other stages have the fewest copies."""

    def __init__(self, chain: _Chain, problem: Problem, stop: Work) -> None:
        self.chain, self.problem, self.stop = chain, problem, stop
        stages, self._layers, self._states, self.bound = chain.stages, chain.rows, 0, 1
        self._demand = problem.demand[stages]
        self._low, self._high = problem.smallest[stages], problem.largest[stages]
        self._budget = problem.budget - int(problem.demand @ problem.smallest - self._demand @ self._low)
        self.best, self.steps = self._low, chain.steps(self._low)

    def run(self) -> None:
        self.begin()
        for width in _WIDTHS:
            if self._done():
                break
            self._close_in(width)
        self._decide(self.steps, _WIDTH_FOR_TIES)

    def begin(self) -> None:
        """Take a first allocation and a first bound."""
        start = interval.even_copies(self.problem)
        if self.problem.is_allowed(start):
            self._take(start[self.chain.stages])
        self._raise_bound()

    @property
    def whole(self) -> Copies:
        """The copies of all stages."""
        copies: Copies = self.problem.smallest.copy()
        copies[self.chain.stages] = self.best
        return copies

    def _raise_bound(self) -> None:
        """Raise the bound to the smallest target that the box alone does not rule out."""
        high = self.steps
        while self.bound < high and not self.stop.is_used_up:
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
        if self.stop.out_of_time:
            return False
        box = self._box(target)
        if box is None:
            return True
        layers, goal = len(self._layers), Goal(self._layers, self._demand, target)
        states = _States.room(1, layers)
        room = _States.room(min(_CHILDREN * width, max(1, _MOST_ENTRIES // layers)), layers)
        complete = True
        for layer in range(layers - 1, -1, -1):
            filled, at, copies = 0, 0, 0
            while at < len(states.least):
                if self.stop.is_used_up or filled == len(room.least):
                    complete = False
                    break
                limit = self._work_left
                span = Span(at, copies, filled, limit, _PAUSE)
                filled, work, at, copies = extend(goal, self._budget, layer, box, states, room, span)
                self.stop.charge(cost.DEMAND_LAYER * work)
                complete = complete and work <= limit
            complete = complete and filled < len(room.least)
            states, all_kept = self._most_promising(room, filled, width)
            complete = complete and all_kept
        for found in states.copies[:1]:
            self._take(found)
        return complete

    def _most_promising(self, room: _States, filled: int, width: int) -> tuple[_States, bool]:
        """Return (undominated states of the smallest bound, whether these are all)."""
        self._states += filled
        self.stop.charge(cost.STATE * filled)
        order = np.lexsort((room.rest[:filled], room.arrays[:filled])).astype(np.int64)
        kept = order[: keep_undominated(room, order, _LOOK)]
        kept = kept[np.lexsort((room.arrays[kept], room.least[kept]))]
        return _States(*(field[kept[:width]] for field in room)), len(kept) <= width

    def _box(self, target: int) -> CopyBox | None:
        """Return the box of copies that meet a target within the budget, None if it is empty."""
        none, layers = np.empty(0, dtype=np.int64), len(self._layers)
        self.stop.charge(cost.DEMAND_LAYER * layers * layers)
        box = CopyBox(self._low.copy(), self._high.copy(), np.zeros(layers, dtype=np.int64))
        goal = Goal(self._layers, self._demand, target)
        arrays = least_box(goal, self._budget, 0, Demands(none, none, 0), layers, box)
        return box._replace(wait=np.zeros_like(box.wait)) if arrays >= 0 else None

    def _take(self, copies: Ints) -> None:
        steps = self.chain.steps(copies)
        fewer = (copies * self._demand).sum() < (self.best * self._demand).sum()
        if steps < self.steps or (steps == self.steps and fewer):
            self.best, self.steps = copies.copy(), steps

    @property
    def _work_left(self) -> int:
        """Layers that may still be examined."""
        return int((self.stop.work_s - self.stop.spent_s) / cost.DEMAND_LAYER)

    def _done(self) -> bool:
        return self.stop.is_used_up or self.stop.close_enough(self.steps, self.bound)

    @property
    def words(self) -> str:
        """The best allocation in the model, and its bound."""
        reached = f"{self.steps} steps by the published recurrence"
        how = f"dynamic program, {self._states} states; no proof of the exact makespan"
        if not self.chain.is_monotone:
            return f"{reached}, heuristic: {how}"
        if self.bound >= self.steps:
            return f"{reached}, the fewest there are: {how}"
        return f"{reached}, no fewer than {self.bound}: {how}"


PUBLISHED = Method(
    "published",
    solve,
    minimises="the published recurrence; chains only",
    source="ACM TODAES 29(1):21, doi 10.1145/3631523; docs/sources/model.md 5",
    proves="its optimum; nothing about the makespan",
)
