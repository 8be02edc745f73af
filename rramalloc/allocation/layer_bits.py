"""Bits of every layer and copies of it, chosen together under a limit of sensitivity.

A table gives each layer some choices of weight and input bits, each with a sensitivity: what the choice costs
in accuracy, by a measure of the user's. Fewer bits take fewer arrays and less time. The sum of sensitivities
must not exceed a limit. Layers are decided one after another; a layer that is not decided yet has the fewest
bits that the limit leaves it, which no choice undercuts, so its bound holds for all choices.

LRMP (doi 10.3389/frai.2024.1268317) searches both by reinforcement learning; here it is branch and bound.
"""

from __future__ import annotations

import heapq
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rramalloc.allocation.allocation import Allocation
from rramalloc.allocation.case import Case
from rramalloc.allocation.optimize import Request, checked_allocation, objective_of
from rramalloc.csv_rows import csv_rows
from rramalloc.errors import BudgetError, SolverError, SpecError
from rramalloc.files import read_text
from rramalloc.hardware.hardware import MAX_BITS
from rramalloc.network.network import Network
from rramalloc.records import brief
from rramalloc.search.objective import within
from rramalloc.search.problem import Answer, Choice, Problem
from rramalloc.search.work import SECONDS_PER_WORK, Work

COLUMNS = ("layer", "weight_bits", "input_bits", "sensitivity")
_LARGEST_BYTES = 2**26
_FIRST_WORK = 2  # units of search of a node; they double each time that its choices are searched again
_CLOSE = 1e-9  # relative rounding of sums of sensitivities, and the least gap


class BitChoice(NamedTuple):
    """Bits of a layer's weights and inputs, and the sensitivity to them."""

    weight_bits: int
    input_bits: int
    sensitivity: float


@dataclass(frozen=True)
class BitTable:
    """Choices by layer name, without those that another one is as good as in everything; where: the file."""

    choices: dict[str, tuple[BitChoice, ...]]
    where: str = "bits"

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> BitTable:
        """Read a CSV with the columns layer, weight_bits, input_bits, sensitivity. Raises FileError,
        SpecError."""
        where = os.fspath(path)
        rows: dict[str, list[BitChoice]] = {}
        for place, row in csv_rows(read_text(path, _LARGEST_BYTES), where, COLUMNS):
            choice = BitChoice(
                _bits(row, "weight_bits", place), _bits(row, "input_bits", place), _sensitivity(row, place)
            )
            rows.setdefault(row["layer"], []).append(choice)
        return cls({name: _useful(choices) for name, choices in rows.items()}, where)

    def of(self, network: Network) -> list[str]:
        """Names of the layers in network order. Raises SpecError for one that the network does not have."""
        layers = {stage.name: stage for stage in network.stages}
        for name in self.choices:
            if name not in layers:
                raise SpecError(self.where, f"layer {brief(name)} is no weight layer of the network")
            if layers[name].shares is not None:
                reason = f"layer {brief(name)} uses the weights of another one: choose its bits there"
                raise SpecError(self.where, reason)
        return [name for name in layers if name in self.choices]


def optimize_bits(
    case: Case, arrays: int, request: Request, stop: Work, table: BitTable, most_sensitivity: float
) -> Allocation:
    """Return the bits and the allocation with the best objective, sensitivities adding up to no more than a
    limit.

    The allocation is of the network with these bits, `network.with_bits(allocation.bits)`.
    Raises SpecError if no choice keeps to the limit, BudgetError if none of those that do fits the budget.
    """
    names = table.of(case.network)
    least = math.fsum(min(choice.sensitivity for choice in table.choices[name]) for name in names)
    if least > most_sensitivity:
        raise SpecError("sensitivity", f"must be at least {least:g}, the sum of the least of all layers")
    search = _BitSearch(case, arrays, request, stop, names, table, most_sensitivity)
    search.run()
    if search.best is None and search.nodes:
        raise SolverError("no bits that fit were found in time: raise --time-limit or --arrays")
    if search.best is None:
        raise search.unfit or BudgetError(0, arrays, [])
    best = search.best
    own = search.case_with(best.chosen)
    problem = own.problem(arrays)
    bound = min([best.value, *(node.bound for node in search.nodes)]) / search.unit_of(problem)
    words = f"bits of {len(names)} layers by branch and bound, {len(search.solved)} ways bounded"
    answer = Answer(best.choice, 1, words, objective_bound=bound)
    allocation = checked_allocation(own, arrays, problem, request, stop, answer)
    picked = [choices[at] for choices, at in zip(search.choices, best.options, strict=True)]
    return allocation.model_copy(update={"sensitivity": math.fsum(choice.sensitivity for choice in picked)})


Bits = tuple[tuple[int, int], ...]
"""(weight bits, input bits) of every layer of the table."""


class _Solved(NamedTuple):
    """The best allocation with some bits, in the unit that all bits share, and a bound of all of them."""

    value: float
    bound: float
    choice: Choice


class _Best(NamedTuple):
    value: float
    chosen: Bits
    options: tuple[int, ...]
    choice: Choice


@dataclass(order=True)
class _BitNode:
    """Layers decided so far by the number of their choice; work: units of search its bound was given."""

    bound: float
    number: int
    options: tuple[int | None, ...] = field(compare=False)
    work: int = field(compare=False, default=_FIRST_WORK)


@dataclass(eq=False)
class _BitSearch:
    case: Case
    arrays: int
    request: Request
    stop: Work
    names: Sequence[str]
    table: BitTable
    limit: float
    best: _Best | None = None
    unfit: BudgetError | None = None

    def __post_init__(self) -> None:
        self.nodes: list[_BitNode] = []
        self.solved: dict[tuple[Bits, int], _Solved | None] = {}
        self.choices: list[tuple[BitChoice, ...]] = []
        for name in self.names:
            choices = self.table.choices[name]
            timed = name in self.case.stages.names  # bits of a layer on the host change nothing
            self.choices.append(choices if timed else (min(choices, key=lambda choice: choice.sensitivity),))

    def run(self) -> None:
        self._add((None,) * len(self.names), 0.0, _FIRST_WORK)
        while self.nodes and self._open():
            node = heapq.heappop(self.nodes)
            undecided = [place for place, option in enumerate(node.options) if option is None]
            if not self._conflict(node.options) or not undecided:
                if node.work >= max(self.stop.work, _FIRST_WORK):
                    heapq.heappush(self.nodes, node)
                    return
                self._add(node.options, node.bound, 2 * node.work)
                continue
            place = max(undecided, key=lambda at: (self._spread(node.options, at), -at))
            for option in range(len(self.choices[place])):
                self._add(
                    (*node.options[:place], option, *node.options[place + 1 :]), node.bound, _FIRST_WORK
                )

    def case_with(self, bits: Bits) -> Case:
        """Return the case with the bits of the layers of the table."""
        return self.case.with_bits(dict(zip(self.names, bits, strict=True)))

    def unit_of(self, problem: Problem) -> float:
        """Return the factor that makes the objective's value comparable between bits: steps become ns."""
        counts = objective_of(problem, self.request).unit in ("steps", "ticks")
        return 1.0 if not counts or problem.step_time is None else problem.step_time.compute_ns

    def _open(self) -> bool:
        if self.stop.is_used_up:
            return self.best is None and not self.stop.out_of_time
        if self.best is None:  # inf - bound > share * inf is never true
            return True
        return self.best.value - self.nodes[0].bound > max(self.stop.gap, _CLOSE) * self.best.value

    def _add(self, options: tuple[int | None, ...], bound: float, work: int) -> None:
        """Bound all choices that agree with these, and try one of them."""
        fewest = self._fewest(options)
        if fewest is None:
            return
        relaxed = self._solve(tuple((choice.weight_bits, choice.input_bits) for choice in fewest), work)
        if relaxed is None:
            return
        heapq.heappush(self.nodes, _BitNode(max(bound, relaxed.bound), len(self.solved), options, work))
        completed = self._completed(options)
        chosen = tuple(
            (choices[at].weight_bits, choices[at].input_bits)
            for choices, at in zip(self.choices, completed, strict=True)
        )
        solved = self._solve(chosen, work)
        if solved is not None and (self.best is None or solved.value < self.best.value):
            self.best = _Best(solved.value, chosen, completed, solved.choice)

    def _solve(self, bits: Bits, work: int) -> _Solved | None:
        """None if these bits do not fit the budget."""
        if (bits, work) not in self.solved:
            self.solved[bits, work] = self._searched(bits, work)
        return self.solved[bits, work]

    def _searched(self, bits: Bits, work: int) -> _Solved | None:
        try:
            problem = self.case_with(bits).problem(self.arrays)
        except BudgetError as error:
            self.unfit = self.unfit or error
            return None
        objective, unit = objective_of(problem, self.request), self.unit_of(problem)
        share = self.stop.nested(work)
        answer = objective.solve(share, self.request.seed)
        self.stop.charge(max(share.spent_s, SECONDS_PER_WORK))
        timing = problem.timing(answer.choice)
        value = objective.value_of(timing)
        return _Solved(value * unit, within(value, objective.bound(answer, share)) * unit, answer.choice)

    def _left(self, options: tuple[int | None, ...]) -> float:
        """Return the limit's remainder above the least sensitivity of undecided layers."""
        used = [
            min(choice.sensitivity for choice in choices) if option is None else choices[option].sensitivity
            for choices, option in zip(self.choices, options, strict=True)
        ]
        return self.limit * (1 + _CLOSE) - math.fsum(used)

    def _allowed(self, choices: Sequence[BitChoice], left: float) -> list[int]:
        least = min(choice.sensitivity for choice in choices)
        return [at for at, choice in enumerate(choices) if choice.sensitivity <= least + left]

    def _fewest(self, options: tuple[int | None, ...]) -> list[BitChoice] | None:
        """Bits that no completion undercuts, None if there is none within the limit."""
        left = self._left(options)
        if left < 0:
            return None
        fewest = []
        for choices, option in zip(self.choices, options, strict=True):
            some = (
                [choices[at] for at in self._allowed(choices, left)] if option is None else [choices[option]]
            )
            fewest.append(
                BitChoice(min(each.weight_bits for each in some), min(each.input_bits for each in some), 0.0)
            )
        return fewest

    def _conflict(self, options: tuple[int | None, ...]) -> bool:
        """Whether the fewest bits are not a choice within the limit."""
        fewest, completed = self._fewest(options), self._completed(options)
        return fewest is not None and any(
            (choices[at].weight_bits, choices[at].input_bits) != each[:2]
            for choices, at, each in zip(self.choices, completed, fewest, strict=True)
        )

    def _spread(self, options: tuple[int | None, ...], place: int) -> float:
        """Return the range of sensitivity over the choices of a layer that are still allowed."""
        some = [
            self.choices[place][at].sensitivity
            for at in self._allowed(self.choices[place], self._left(options))
        ]
        return max(some) - min(some) if len(some) > 1 else -1.0

    def _completed(self, options: tuple[int | None, ...]) -> tuple[int, ...]:
        """Choices within the limit: the fewest bits, then more where a bit saves most sensitivity."""
        left = self._left(options)
        least = [min(range(len(each)), key=lambda at: each[at].sensitivity) for each in self.choices]
        chosen = [at if option is None else option for at, option in zip(least, options, strict=True)]
        while True:
            steps = []
            for place, option in enumerate(options):
                if option is None:
                    now = self.choices[place][chosen[place]]
                    for at, other in enumerate(self.choices[place]):
                        more = other.sensitivity - now.sensitivity
                        saved = now.weight_bits + now.input_bits - other.weight_bits - other.input_bits
                        if saved > 0 and more <= left:
                            steps.append((-saved / max(more, _CLOSE), place, at, more))
            if not steps:
                return tuple(chosen)
            _, place, at, more = min(steps)
            chosen[place], left = at, left - more


def _bits(row: dict[str, str], name: str, place: str) -> int:
    text = row[name]
    if not text.isdecimal() or not 1 <= int(text) <= MAX_BITS:
        raise SpecError(place, f"{name} must be from 1 to {MAX_BITS}, got {brief(text)}")
    return int(text)


def _sensitivity(row: dict[str, str], place: str) -> float:
    try:
        value = float(row["sensitivity"])
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise SpecError(place, f"sensitivity must be a number from 0 on, got {brief(row['sensitivity'])}")
    return value


def _useful(choices: Sequence[BitChoice]) -> tuple[BitChoice, ...]:
    """Without choices that another one is no worse than in bits and sensitivity."""
    kept: list[BitChoice] = []
    for choice in sorted(set(choices)):
        if not any(all(a <= b for a, b in zip(other, choice, strict=True)) for other in kept):
            kept.append(choice)
    return tuple(kept)
