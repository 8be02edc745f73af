"""One search of `size`: the fewest arrays with which a network reaches its goal on one hardware.

A task is plain values, so that it can be computed by any process, and its result a JSON document, which a
store keeps by the key of the task: a call that was killed goes on from there with the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import math
import operator
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from pydantic import TypeAdapter
from typing_extensions import override

from rramalloc.allocation.allocation_input import read_allocation
from rramalloc.allocation.case import Case
from rramalloc.allocation.optimize import checked_allocation, objective_of, propose, start_choice
from rramalloc.allocation.question import Question
from rramalloc.choices import MAX_ARRAYS
from rramalloc.commands.size.question import MILLIONTHS, Minimised, SizedNetwork
from rramalloc.errors import BudgetError, LimitError, RramallocError, TargetError, WorkerError
from rramalloc.files import code_sha256
from rramalloc.hardware.hardware import Hardware
from rramalloc.network.network import Network
from rramalloc.records import parse
from rramalloc.rounding import EXACTLY
from rramalloc.search.cost import ALLOCATION
from rramalloc.search.limited import UnderLimits, with_limits
from rramalloc.search.menu import unlimited, with_least_cost
from rramalloc.search.objective import FewestArrays
from rramalloc.search.problem import Answer, Choice, Problem
from rramalloc.search.resources import Axis, Cost, Resources
from rramalloc.search.target import Target
from rramalloc.search.work import Work
from rramalloc.version import __version__

_NETWORK: TypeAdapter[SizedNetwork] = TypeAdapter(SizedNetwork)
_HARDWARE: TypeAdapter[Hardware] = TypeAdapter(Hardware)
_WORK_PER_CHIP = 8  # units of work for a chip that is tried, as for a budget of `fewest`
_MOST_CHIPS = 2**17  # of kinds in tiles that are listed: above, the bound is that of the arrays
Kinds = tuple[tuple[int, int], ...]
TaskResult = dict[str, Any]
"""found: an allocation as JSON, None for none; least: no allocation costs less;
impossible: why the goal is out of reach, "" where it is not; miss: by what factor, None for any; work_s.
"""


class SizeTask(NamedTuple):
    """network, sized: a network and its goal as JSON; hardware: as JSON, with tiles and kinds without limit.

    kinds: cost of a tile of every kind and its arrays, none of one kind; least: known before; work: units of
    search; start: an allocation to begin with as bare JSON, "" for none.
    """

    network: str
    sized: str
    hardware: str
    kinds: Kinds
    minimise: Minimised
    least: Cost
    work: int
    seed: int
    start: str

    @property
    def key(self) -> str:
        """Hash of all that the result depends on, the code included."""
        return hashlib.sha256(json.dumps([code_sha256(), *self]).encode()).hexdigest()

    @property
    def call(self) -> tuple[Any, ...]:
        """The function that a worker calls by its name, and what it is given."""
        return f"{__name__}:compute", __version__, *self


def compute(version: str, *values: Any) -> TaskResult:
    """Compute a task in a worker. Raises WorkerError for another version."""
    if version != __version__:
        words = f"a worker has rramalloc {__version__}, the driver has {version}"
        raise WorkerError(f"{words}: install the same rramalloc everywhere")
    task = SizeTask(*values)
    try:
        return result_of(task, Work(work=task.work, cores=1))
    except RramallocError as error:  # which the driver raises: not all errors can be sent as they are
        return {"error": str(error)}


def result_of(task: SizeTask, stop: Work) -> TaskResult:
    """Return the result of a search, which depends on the task alone. Raises RramallocError."""
    sized = _sized(task.sized)
    case, problem = _opened(task.network, task.sized, task.hardware, task.kinds, task.minimise)
    result: TaskResult = {"found": None, "least": max(task.least, problem.minimum)}
    result |= {"impossible": "", "miss": 1.0, "work_s": 0.0}
    request = Question(objective="arrays", seed=task.seed, target=sized.wanted)
    if task.start:
        start = start_choice(problem, read_allocation(json.loads(task.start), "start"))
        problem = replace(problem, held=problem.held._replace(start=(start.modes, start.copies)))
    objective = objective_of(problem, request)
    if task.kinds:
        inner = objective.inner if isinstance(objective, UnderLimits) else objective
        if not isinstance(inner, FewestArrays):
            raise AssertionError("of arrays")
        tiles = WholeTiles(inner.problem, inner.target, task.kinds)
        objective = tiles if inner is objective else UnderLimits(tiles)
    try:
        answer = propose(objective, request, stop)
    except TargetError as error:
        if error.proven:
            error.limit = error.limit or problem.resources.beyond(problem.budget)
            result["impossible"] = f"{case.network.name}: {out_of_reach(error)}"
            result["miss"] = missed_by(error)
    except LimitError as error:
        result["impossible"] = f"{case.network.name}: {error}"
    else:
        found = checked_allocation(case, MAX_ARRAYS, objective, request, stop, answer)
        result["found"] = found.to_dict()
        least = math.ceil(found.lower_bound * problem.resources.per_unit * EXACTLY)
        result["least"] = max(result["least"], least)
    return result | {"work_s": stop.counted_s or 0.0}


def out_of_reach(error: TargetError) -> str:
    """Return the reason why a target is out of reach for any number of arrays."""
    held = f", {error.limit}" if error.limit else ""
    what = f"the {error.goal} of {error.target:.10g} {error.unit} cannot be met"
    return f"{what}, the bound is {error.bound:.10g}{held}"


def missed_by(error: TargetError) -> float | None:
    """Return the bound as a multiple of the goal, or its inverse for a rate; None for any."""
    factor = error.bound / error.target
    return max(factor, 1 / factor) if factor > 0 else None


@lru_cache(maxsize=64)
def _sized(text: str) -> SizedNetwork:
    return parse(_NETWORK, json.loads(text), "size")


@lru_cache(maxsize=16)
def _case(network: str, sized: str) -> Case:
    """Return the case of a network, whose stages are traced once for all hardware."""
    options: Any = _sized(sized).options
    source = Network.from_document(json.loads(network), "size")
    case = Case.of(source, options)
    return case.with_stages(case.stages)


@lru_cache(maxsize=128)
def _opened(
    network: str, sized: str, hardware: str, kinds: Kinds, minimise: Minimised
) -> tuple[Case, Problem]:
    machine = parse(_HARDWARE, json.loads(hardware), "hardware")
    case = _case(network, sized).on(machine)
    problem = case.problem(MAX_ARRAYS, advise=False)
    if kinds:
        weights = tuple(cost // arrays for cost, arrays in kinds)
        resources = Resources(weights, (), "arrays" if minimise == "arrays" else "um2", MILLIONTHS)
        storage = problem.storage.with_weights(weights)
        free = replace(problem, budget=resources.most, resources=resources, storage=storage)
        problem = with_limits(with_least_cost(free), case.at_most)
    return case, unlimited(problem)


class WholeTiles(FewestArrays):
    """Cost of the whole tiles of every kind that hold the arrays, of allocations that meet a target.

    kinds: cost of a tile of every kind, no less than the weight of the arrays that it holds, and these.
    """

    def __init__(self, problem: Problem, target: Target, kinds: Kinds) -> None:
        super().__init__(problem, target)
        self._kinds = kinds

    @override
    def check_cost(self) -> None:
        """Accept every hardware: tiles cost what `kinds` says."""

    @override
    def value(self, found: Choice) -> float:
        return self.problem.resources.in_unit(self._cost(found))

    def _cost(self, found: Choice) -> int:
        taken = self.problem.storage.taken(found.modes, found.copies)
        of_stages = np.array([mode.kind for mode in found.modes])
        used = (int(taken[of_stages == number].sum()) for number in range(len(self._kinds)))
        return sum(
            cost * -(-arrays // of_tile) for arrays, (cost, of_tile) in zip(used, self._kinds, strict=True)
        )

    @override
    def search(self, stop: Work, seed: int) -> Answer:
        """Search for the arrays that cost least, then on every chip between their bound and their tiles."""
        answer = super().search(stop, seed)
        best = answer.choice
        undecided = list[int]()
        low = math.ceil(answer.lower_bound * MILLIONTHS * EXACTLY)
        chips = self._chips(low, self._cost(best))
        for cost, tiles in chips or ():
            if stop.is_used_up:
                undecided.append(cost)
                break
            share = stop.nested(_WORK_PER_CHIP)
            stop.charge(ALLOCATION * len(self.problem.demand))  # of making its problem
            try:
                found = self.on(tiles, cost).search(share, seed)
            except BudgetError:  # it does not hold every layer
                continue
            except TargetError as error:
                undecided += [] if error.proven else [cost]
                continue
            finally:
                stop.charge(share.spent_s)
            best = found.choice
            break
        bound = low if chips is None else min([*undecided, self._cost(best)])
        words = f"at least {bound / MILLIONTHS:.10g} {self.unit} in whole tiles"
        return replace(answer, choice=best, lower_bound=bound / MILLIONTHS, proof=words)

    def _chips(self, low: int, high: int) -> list[tuple[int, tuple[int, ...]]] | None:
        """Return the cost and the tiles of every chip of cost `low` to `high` - 1, None for too many."""
        costs = [cost for cost, _ in self._kinds]
        if math.prod(high // cost + 1 for cost in costs) > _MOST_CHIPS:
            return None
        each = product(*(range(high // cost + 1) for cost in costs))
        every = ((sum(map(operator.mul, tiles, costs)), tiles) for tiles in each)
        return sorted(chip for chip in every if low <= chip[0] < high)

    def on(self, tiles: Sequence[int], cost: int) -> FewestArrays:
        """Return the fewest arrays on a chip. Raises BudgetError where it does not hold every layer."""
        kinds = range(len(tiles))
        axes = tuple(
            Axis(f"arrays of kind {number}", tiles[number] * of_tile, tuple(int(i == number) for i in kinds))
            for number, (_, of_tile) in enumerate(self._kinds)
        )
        resources = replace(self.problem.resources, axes=axes)
        within = replace(self.problem, budget=Cost(min(self.problem.budget, cost)), resources=resources)
        return FewestArrays(with_least_cost(within), self.target)
