"""The input of a search (Problem), an allocation inside it (Choice), and what a method answers (Answer)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from rramalloc.errors import BudgetError
from rramalloc.mapping.demand import Storage
from rramalloc.mapping.mode import Mode, ModeOfEach
from rramalloc.ndarrays import Floats, Ints
from rramalloc.rounding import SAME_PRODUCT
from rramalloc.search.exact_time import ExactTime
from rramalloc.search.resources import ONE_KIND, Alternatives, Cost, Resources
from rramalloc.search.work import Work
from rramalloc.status import Stopped
from rramalloc.timing.access import StepTime
from rramalloc.timing.metrics import EnergyModel, Metrics
from rramalloc.timing.simulate import Copies, ExactTiming
from rramalloc.timing.stage_graph import StageGraph
from rramalloc.units import TimeUnit


class Held(NamedTuple):
    """What is held of an allocation.

    least, most: bounds on the copies of each stage, None for 1 and for its windows; start: modes and copies
    to begin a search with.
    """

    least: Copies | None = None
    most: Copies | None = None
    start: tuple[ModeOfEach, Copies] | None = None


NOTHING_HELD = Held()


Rules = Callable[["Problem", Work], "list[Choice]"]
"""Returns what simple rules propose for a problem, of what fits it, and charges their work."""


class Limits(NamedTuple):
    """What an allocation may cost beside its arrays, None without such a limit.

    at_most: limits of energy_pj, power_mw, latency_ns, interval_ns, makespan and interval; fed_ns: longest
    access of a mode of each stage in a step; longest: of all batches of a stage together; longest_step_ns:
    longest step that a stage's bits may take.
    """

    at_most: Mapping[str, float] | None = None
    fed_ns: Floats | None = None
    longest: int | None = None
    longest_step_ns: float | None = None


NO_LIMITS = Limits()


@dataclass(frozen=True, eq=False)
class Problem:
    """Find the modes and copies with the smallest makespan that fits the budget.

    In three parts: what is stored, with its time and energy, what that may cost, and what is held of it.

    graph: stages and edges; demand: int64, arrays of one copy of each stage (canonical order); budget: what
    the arrays may cost in sum; storage: arrays of every mode; step_time: None if results are in steps;
    energy: what the hardware says of energy and area, None if nothing; alternatives: the kinds of arrays and
    the bits that stages choose from, None where there is one of each; once: arrays of every stage in its
    cheapest mode, None for the fewest copies of the graph's block; resources: what is limited beside the
    budget, which counts arrays by the weight of their kind; limits: of other quantities; placer: what places
    allocations where links are counted, of which compiled searches know nothing.
    Raises BudgetError if one copy of every stage does not fit.
    """

    graph: StageGraph
    demand: Ints
    budget: Cost
    storage: Storage
    step_time: StepTime | None = None
    energy: EnergyModel | None = None
    alternatives: Alternatives | None = None
    once: Copies | None = None
    resources: Resources = ONE_KIND
    limits: Limits = NO_LIMITS
    held: Held = NOTHING_HELD
    rules: Rules | None = None
    """Propose allocations that every search begins with."""
    placer: Placer | None = None
    root_bounds: dict[str, float] = field(default_factory=dict, init=False, repr=False)
    """Bounds by objective that took little work and are the same for every method tried."""

    def __post_init__(self) -> None:
        if self.minimum > self.budget:
            held = bool((self.smallest > 1).any())
            in_unit = self.resources.unit, self.resources.per_unit
            needs = [(self.graph.names[i], int(self.lowest[i])) for i in self.graph.network_order]
            raise BudgetError(self.minimum, self.budget, needs, held=held, in_unit=in_unit)

    def lacking(self, *fields: str) -> str:
        """Return which kinds give no such fields of [energy], as `Hardware.lacking`."""
        return "" if self.alternatives is None else self.alternatives.hardware.lacking(*fields)

    @property
    def one_block(self) -> bool:
        """Whether every stage has the one block of the graph, and each copy takes its `demand`."""
        return self.storage.is_proportional

    @property
    def chooses_blocks(self) -> bool:
        """Whether a stage has several blocks to choose from, rather than copies alone."""
        return self.storage.chooses_blocks

    @property
    def in_whole_tiles(self) -> bool:
        """Whether a tile holds arrays of one stage, so that modes take whole tiles."""
        return self.storage.hardware is not None and self.storage.hardware.own_tiles is not None

    @property
    def is_limited(self) -> bool:
        """True if modes were removed that exceed `fed_ns` or `longest`, whatever else is limited."""
        return self.limits.fed_ns is not None or self.limits.longest is not None

    @cached_property
    def time(self) -> ExactTime:
        """What times its allocations."""
        return ExactTime(self.graph, self.step_time, self.storage.hardware, self.alternatives)

    @property
    def time_unit(self) -> TimeUnit:
        """Unit that makespans count."""
        return self.graph.unit

    @cached_property
    def minimum(self) -> Cost:
        """Cost of every stage stored once, or in its fewest copies."""
        return Cost(int(self.lowest.sum()))

    @cached_property
    def lowest(self) -> Copies:
        """Arrays of every stage in the fewest copies that are allowed, int64."""
        return self.demand * self.smallest if self.once is None else self.once

    def with_most(self, most: Copies) -> Problem:
        """Return this problem with no more copies of each stage than these, and its own limits."""
        most = most if self.held.most is None else np.minimum(most, self.held.most)
        return replace(self, held=self.held._replace(most=most))

    @cached_property
    def smallest(self) -> Copies:
        """Fewest copies of each stage that are allowed."""
        return np.ones_like(self.demand) if self.held.least is None else self.held.least

    @cached_property
    def largest(self) -> Copies:
        """Most copies of each stage that can be used: its limit, or what the budget leaves for it."""
        limit = self.graph.most_copies
        limit = limit if self.held.most is None else np.minimum(limit, self.held.most)
        spare = self.budget - self.arrays(self.smallest)
        most = self.storage.most_copies(self.graph.modes, self.arrays_of_stages(self.smallest) + spare)
        return np.maximum(np.minimum(limit, most), self.smallest)

    def arrays(self, copies: Copies, modes: ModeOfEach | None = None) -> Cost:
        """Return what the arrays of an allocation cost in sum; modes: the graph's if left out."""
        return Cost(int(self.arrays_of_stages(copies, modes).sum()))

    def arrays_of_stages(self, copies: Copies, modes: ModeOfEach | None = None) -> Copies:
        """Return what the arrays of every stage cost."""
        return self.storage.costs(modes or self.graph.modes, copies)

    def arrays_of_stage(self, stage: int, mode: Mode, copies: int) -> int:
        """Return the arrays of `copies` of a mode of one stage."""
        return self.storage.count(stage, mode).arrays(copies)

    def ticks(self, stage: int, mode: Mode, copies: int) -> int:
        """Return the ticks of a batch of a stage."""
        return int(self.graph.clocks(stage, mode).of(np.array(copies)))

    def copies_allowed(self, stage: int, mode: Mode) -> tuple[int, int]:
        """Return the fewest and the most copies of a mode of one stage."""
        if self.one_block:
            return int(self.smallest[stage]), int(self.largest[stage])
        alone = self.graph.most_copies[stage] < self.graph.windows[stage]
        most = 1 if alone else self.time.total(stage, mode)
        if self.held.most is not None:
            most = min(most, int(self.held.most[stage]))
        return int(self.smallest[stage]), most

    def divided(self, stage: int, mode: Mode) -> int:
        """Return the number of which copies of a block must be a divisor, 0 if any number will do."""
        grid = self.graph.grids[stage].recut(mode.block)
        return {None: 0, "width": grid.columns, "windows": grid.total}[self.storage.divide]

    def keeps_limits(self, copies: Copies, modes: ModeOfEach) -> bool:
        """Return whether every stage has a number of copies that is allowed."""
        over = self.held.most is not None and bool((copies > self.held.most).any())
        each = enumerate(zip(copies.tolist(), modes, strict=True))
        divides = all(self.divided(stage, mode) % count == 0 for stage, (count, mode) in each)
        return divides and not over and bool((copies >= self.smallest).all())

    def excess(self, found: Choice, only: str = "") -> float:
        """Return the part by which an allocation exceeds its worst limit, or only one of them; 0 for none."""
        limits, over = self.limits.at_most or {}, [0.0]
        if not limits:
            return 0.0
        step_ns = 1.0 if self.step_time is None else self.time.step_ns(found.copies, found.modes)
        latency_ns, energy_pj, area_um2 = found.makespan * step_ns, 0.0, 0.0
        if not limits.keys().isdisjoint(("energy_pj", "power_mw", "area_um2")):
            metrics = self.measured(found.makespan, found.copies, found.modes)
            energy_pj, area_um2 = metrics.energy_pj or 0.0, metrics.total_um2 or 0.0
        interval = self.time.interval(found.copies, found.modes)
        values = {
            "makespan": found.makespan, "interval": interval, "latency_ns": latency_ns,
            "interval_ns": interval * step_ns, "energy_pj": energy_pj, "power_mw": energy_pj / latency_ns,
            "area_um2": area_um2,
        }  # fmt: skip
        over += [values[name] / limit - 1 for name, limit in limits.items() if only in ("", name)]
        return worst if (worst := max(over)) > SAME_PRODUCT else 0.0

    def measured(self, makespan: int, copies: Copies, modes: ModeOfEach) -> Metrics:
        """Return energy and area of an allocation. Raises ValueError without [energy]."""
        if self.energy is None:
            raise ValueError("the hardware has no [energy]")
        latency_ns = None if self.step_time is None else makespan * self.time.step_ns(copies, modes)
        return self.energy.measure(modes, copies, self.storage, latency_ns)

    def metrics(self, timing: ExactTiming) -> Metrics | None:
        """Return energy and area of an allocation; None without [energy]."""
        if self.energy is None:
            return None
        return self.measured(timing.makespan, timing.copies, timing.graph.modes)

    def in_modes(self, modes: ModeOfEach | None) -> Problem:
        """Return this problem with the modes of all stages fixed, for timing and step length."""
        graph = self.graph if modes is None or modes is self.graph.modes else self.graph.in_modes(modes)
        if graph is self.graph:
            return self
        step_time, hardware = self.step_time, self.storage.hardware
        if step_time is not None and hardware is not None:
            step_time = step_time.in_modes(graph, hardware)
        return replace(self, graph=graph, step_time=step_time)

    def timed(self, found: Choice) -> Problem:
        """Return this problem in the modes of an allocation, with its transfers if links are counted."""
        if self.placer is None:
            return self.in_modes(found.modes)
        return self.placer.placed(self.choice(found.copies, found.modes)).choice.problem

    def choice(self, copies: Copies, modes: ModeOfEach | None = None, makespan: int | None = None) -> Choice:
        """Return an allocation; modes: the graph's if left out, makespan: the exact one if it is known."""
        return Choice(self, modes or self.graph.modes, copies, makespan)

    def choices(self, rows: Sequence[Copies] | Copies, modes: ModeOfEach) -> Iterator[Choice]:
        """Yield allocations in the same modes, timed in one call where that pays."""
        if modes != self.graph.modes and not self.time.is_timed_together(len(rows)):
            yield from (self.choice(copies, modes) for copies in rows)
        elif len(rows):
            makespans = self.time.makespans(np.array(rows, dtype=np.int64), modes)
            for copies, makespan in zip(rows, makespans.tolist(), strict=True):
                yield self.choice(copies, modes, makespan)

    def timing(self, choice: Choice) -> ExactTiming:
        """Return the exact timing of an allocation."""
        return self.time.timing(choice.copies, choice.modes)

    def is_allowed(self, copies: Copies) -> bool:
        """Return True if an allocation keeps to the budget and to the bounds of every stage."""
        in_range = (copies >= self.smallest).all() and (copies <= self.largest).all()
        return bool(in_range) and self.holds(copies)

    def starts(self, stop: Work) -> list[Choice]:
        """Return allocations to begin a search with: the one that is given, then those of rules."""
        given = self.start_within
        # Where modes are left out, rules would propose those.
        by_rules = [] if self.rules is None or self.is_limited else self.rules(self, stop)
        return by_rules if given is None else [given, *by_rules]

    @property
    def start_within(self) -> Choice | None:
        """The allocation to begin with, if this problem has one and allows it."""
        if self.held.start is None or self.is_limited:
            return None
        modes, copies = self.held.start
        fixed = not self.chooses_blocks and self.alternatives is None
        if not self.keeps_limits(copies, modes) or (fixed and modes != self.graph.modes):
            return None
        return self.choice(copies, modes) if self.holds(copies, modes) else None

    def holds(self, copies: Copies, modes: ModeOfEach | None = None) -> bool:
        """Return True if an allocation keeps to the budget and to every other limit."""
        if self.arrays(copies, modes) > self.budget:
            return False
        if not self.resources.axes:
            return True
        modes = modes or self.graph.modes
        kinds, parts = np.array([mode.kind for mode in modes]), np.zeros(len(modes), dtype=np.int64)
        stored = self.storage.stored(modes, copies)
        if self.alternatives is not None:
            parts[0] = self.alternatives.sensitivity(modes)
        return all(
            int(axis.amounts(kinds, stored, parts).sum()) <= axis.limit for axis in self.resources.axes
        )

    @property
    def apart(self) -> Problem:
        """The same problem with arrays of numbers that code of others may change without harm."""
        numbers = self.held.least, self.held.most, self.once
        least, most, once = (None if own is None else own.copy() for own in numbers)
        held = self.held._replace(least=least, most=most)
        return replace(self, demand=self.demand.copy(), once=once, held=held)

    @cached_property
    def on_arrays(self) -> Problem:
        """The same problem of the stages with weights alone."""
        graph, placed = self.graph.on_arrays, self.graph.weighted
        if graph is self.graph:
            return self
        step_time, energy = self.step_time, self.energy
        if step_time is not None:
            step_time = replace(step_time, access_ns_per_copy=step_time.access_ns_per_copy[placed])
        numbers = self.held.least, self.held.most, self.once
        least, most, once = (None if own is None else own[placed] for own in numbers)
        return replace(
            self,
            graph=graph,
            demand=self.demand[placed],
            step_time=step_time,
            once=once,
            storage=self.storage.of_stages(graph.stages, placed),
            energy=None if energy is None else replace(energy, graph=graph),
            held=Held(least, most),
        )


@dataclass(frozen=True, eq=False)
class Choice:
    """Blocks and copies of every stage of a problem; makespan and arrays are worked out when they are needed.

    known: the exact makespan where it has been simulated already.
    """

    problem: Problem
    modes: ModeOfEach
    copies: Copies
    known: int | None = None

    @cached_property
    def makespan(self) -> int:
        """The exact makespan."""
        if self.known is not None:
            return self.known
        return self.problem.time.makespan(self.copies, self.modes)

    @cached_property
    def arrays(self) -> Cost:
        """What its arrays cost in sum."""
        return self.problem.arrays(self.copies, self.modes)

    @property
    def used(self) -> int:
        """Arrays that it uses, of all kinds together."""
        return int(self.problem.storage.taken(self.modes, self.copies).sum())

    @property
    def identity(self) -> bytes:
        """Key that distinguishes it from all others of its problem."""
        return np.array(self.modes).tobytes() + self.copies.tobytes()

    @property
    def key(self) -> tuple[int, int]:
        """Faster ones first, of equals those with fewer arrays."""
        return self.makespan, self.arrays

    def with_digital(self, problem: Problem) -> Choice:
        """Return a choice of `problem.on_arrays` with the digital nodes of `problem`, one of each."""
        graph = problem.graph
        copies, modes = np.ones_like(graph.windows), list[Mode](graph.modes)
        copies[graph.weighted] = self.copies
        for stage, mode in zip(np.flatnonzero(graph.weighted).tolist(), self.modes, strict=True):
            modes[stage] = mode
        return problem.choice(copies, tuple(modes))


class Placed(NamedTuple):
    """An allocation with the placement found for it.

    choice: of a problem that is timed with its transfers; is_hidden: whether they take no time beside the
    rest; transfer_ns: of every stage on arrays; places: of its pieces, as files keep them.
    """

    choice: Choice
    is_hidden: bool
    transfer_ns: dict[str, float]
    places: tuple[Any, ...]

    def applied_to(self, problem: Problem) -> Problem:
        """Return another problem of the same stages with the transfers of this placement."""
        own, graph = self.choice.problem, problem.graph
        if own.step_time is None or problem.step_time is None:
            raise AssertionError("links are timed beside a step")
        if graph.unit == "ticks":
            graph = graph.timed(own.graph.clocks).delayed(own.graph.lags)
        step_time = replace(problem.step_time, transfer=own.step_time.transfer)
        return replace(problem, graph=graph, step_time=step_time)


class Placer(Protocol):
    """What places allocations of one case, and remembers their placements."""

    @property
    def placed_count(self) -> int:
        """Number of allocations that were placed."""
        ...

    def placed(
        self, found: Choice, stop: Work | None = None, *, quick: bool = False, again: bool = False
    ) -> Placed:
        """Return an allocation with the placement that is remembered, else with a new one.

        quick: with little work, else with as much as pays; again: as much, also where a quick one is
        remembered. What is remembered is charged as when it was placed. Raises CapacityError.
        """
        ...

    def for_interval(self) -> Placer:
        """Return the same placer, which places for the least interval in place of the least latency."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The answer of a search or a method, to be checked; its work is charged to the `Work` it was given.

    lower_bound: value that no allocation within the budget undercuts: of an objective in its unit, of a
    method in steps of the makespan, 1 if it proves nothing; proof: what shows that, in words; repaired:
    whether copies were taken away because what the method asked for did not fit; stopped: why it ended, None
    of a method that ran through, and of a search until it is over.
    """

    choice: Choice
    lower_bound: float
    proof: str
    repaired: bool = False
    stopped: Stopped | None = None
