"""Lower bound of the arrays of a network on a hardware, before any of its modes are listed.

A stage with W windows that must be done within T steps is stored ceil(W / T) times at least, and a copy takes
the arrays of `demands`; so the sum over stages bounds the arrays for a latency or an interval of T steps.
Memory, transfer and own clocks only lengthen steps, and modes (`sdk`) are stored once at least.
Source: docs/sources/model.md 20.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rramalloc.allocation.case import Case
from rramalloc.commands.size.question import Minimised, costs_of_kinds
from rramalloc.errors import TargetError
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.demand import demands
from rramalloc.ndarrays import Ints
from rramalloc.rounding import SAME_SUM
from rramalloc.search.resources import Cost
from rramalloc.search.target import Target

_LONGER = 1 + SAME_SUM  # of a time: steps that exceed it by rounding are counted as within it


@dataclass(frozen=True)
class FirstBounds:
    """Bounds of one network for one goal, on any hardware of a question.

    case: of the network on some hardware; target: what it must reach; minimise: what arrays of kinds cost.
    """

    case: Case
    target: Target
    minimise: Minimised = "area_um2"
    _demand: dict[object, Ints] = field(default_factory=dict, repr=False)

    def least(self, hardware: Hardware) -> Cost:
        """Return a cost that no allocation undercuts.

        Raises TargetError where no allocation reaches the goal.
        """
        step_ns = self._step_ns(hardware)
        steps = self._steps(step_ns)
        self._check(steps, step_ns)
        if steps is None or self.case.mapping.mapping == "sdk":
            return self.once(hardware)
        return self._of_copies(-(-self.case.stages.windows // steps), hardware)

    def once(self, hardware: Hardware) -> Cost:
        """Return the cost of every stage stored once."""
        return self._of_copies(np.ones_like(self.case.stages.windows), hardware)

    def _of_copies(self, copies: Ints, hardware: Hardware) -> Cost:
        if hardware.kinds is None:
            return Cost(int((copies * self._demand_on(hardware)).sum()))
        costs = [
            copies * self._demand_on(of_kind) * (cost // arrays)
            for of_kind, (cost, arrays) in zip(
                hardware.each_kind, costs_of_kinds(hardware, self.minimise), strict=True
            )
        ]
        return Cost(int(np.min(costs, axis=0).sum()))

    def _step_ns(self, hardware: Hardware) -> float | None:
        """Return a lower bound of the time of a step (of a batch with own clocks), None if none is known."""
        own_bits = any(stage.weight_bits or stage.input_bits for stage in self.case.network.stages)
        if hardware.own_clock:
            return hardware.tick_ns
        return None if own_bits or self.case.measured is not None else hardware.compute_ns

    def _steps(self, step_ns: float | None) -> int | None:
        """Return the most steps that reach the goal, None where a step has no time."""
        target = self.target
        in_steps = target.target_steps if target.target_steps is not None else target.target_interval
        if in_steps is not None:
            return in_steps
        longest_ns = target.target_ns if target.target_ns is not None else target.longest_ns
        return None if not step_ns or longest_ns is None else int(longest_ns * _LONGER / step_ns)

    def _check(self, steps: int | None, step_ns: float | None) -> None:
        """Raise TargetError if the slowest stage with all its copies takes longer than the goal allows."""
        if steps is None:
            return
        stages, target = self.case.stages, self.target
        least = 1
        if self.case.mapping.mapping != "sdk":
            least = int((-(-stages.windows // stages.most_copies)).max())
        if steps >= least:
            return
        goal = "latency" if target.target_steps is not None or target.target_ns is not None else "interval"
        bound, unit = float(least), "steps"
        if target.target_throughput is not None:
            goal, bound, unit = "throughput", 1e9 / (least * (step_ns or 1.0)), "inputs/s"
        elif target.target_steps is None and target.target_interval is None:
            bound, unit = least * (step_ns or 1.0), "ns"
        raise TargetError(target.value, bound, unit, proven=True, goal=goal)

    def _demand_on(self, hardware: Hardware) -> Ints:
        """Return the arrays of a copy of every stage, in canonical order."""
        key = hardware.crossbar, hardware.precision, hardware.counting, hardware.processor
        if key not in self._demand:
            case = self.case
            taken = demands(case.network, case.stages.stages, hardware, case.mapping)
            self._demand[key] = np.array(taken, dtype=np.int64)
        return self._demand[key]
