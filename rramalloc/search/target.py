"""Target of the fewest arrays (docs/sources/model.md 8); imports nothing that is compiled."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rramalloc.errors import TargetError
from rramalloc.frozen import FrozenDict
from rramalloc.rounding import SAME_PRODUCT

if TYPE_CHECKING:
    from rramalloc.search.problem import Choice


@dataclass(frozen=True, slots=True)
class Target:
    """Target of the fewest arrays: a latency or an interval in steps, ticks or ns, or a throughput.

    target_throughput: inputs a second, which is an interval of 1e9 / X ns.
    """

    target_steps: int | None = None
    target_ns: float | None = None
    target_interval: int | None = None
    target_interval_ns: float | None = None
    target_throughput: float | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """Names of what is given."""
        return tuple(name for name in self.__slots__ if getattr(self, name) is not None)

    @property
    def limits(self) -> FrozenDict[str, float]:
        """The same as limits of an allocation."""
        named = {
            "makespan": self.target_steps,
            "latency_ns": self.target_ns,
            "interval": self.target_interval,
            "interval_ns": self.longest_ns,
        }
        return FrozenDict({name: limit for name, limit in named.items() if limit is not None})

    @property
    def longest_ns(self) -> float | None:
        """The longest interval in ns that meets it, None for a target of another kind."""
        if self.target_throughput is None:
            return self.target_interval_ns
        longest_ns = 1e9 / self.target_throughput
        while 1e9 / longest_ns < self.target_throughput:  # the quotient may be rounded up
            longest_ns = math.nextafter(longest_ns, 0)
        while 1e9 / (above := math.nextafter(longest_ns, math.inf)) >= self.target_throughput:
            longest_ns = above
        return longest_ns

    @property
    def value(self) -> float:
        """Value of the target that is set; nan where none is."""
        return next((float(getattr(self, name)) for name in self.given), math.nan)

    def changed_to(self, value: float) -> Target:
        """Return the same target with another value."""
        (name,) = self.given
        in_steps = name in ("target_steps", "target_interval")
        given: dict[str, Any] = {name: round(value) if in_steps else value}
        return replace(self, **given)

    def of_latency(self, sequences: int) -> Target:
        """Return the same of a network whose next input needs this one's output.

        With so many sequences that take turns an input comes every makespan / `sequences`, if the busiest
        stage allows that.
        """
        longest_ns = self.longest_ns
        steps = self.target_steps if self.target_interval is None else self.target_interval * sequences
        return Target(steps, self.target_ns if longest_ns is None else longest_ns * sequences)

    @property
    def is_of_interval(self) -> bool:
        """Whether it is an interval or a throughput."""
        return self.target_interval is not None or self.longest_ns is not None

    def missed_by(self, found: Choice, bound: float, factor: float) -> TargetError:
        """Return the error about an allocation that takes `factor` times as long.

        bound: of the time, in the unit of the target.
        """
        goal = "interval" if self.is_of_interval else "latency"
        unit = found.problem.time_unit if {"target_steps", "target_interval"} & {*self.given} else "ns"
        if self.target_throughput is None:
            return TargetError(self.value, bound, unit, proven=False, goal=goal, reached=self.value * factor)
        reached = self.value / factor
        return TargetError(
            self.value, 1e9 / bound, "inputs/s", proven=False, goal="throughput", reached=reached
        )

    def is_met_by(self, found: Choice) -> bool:
        """Return whether an allocation reaches what is given."""
        problem, copies, blocks = found.problem, found.copies, found.modes
        interval = problem.time.interval(copies, blocks)
        step_ns = math.inf if problem.step_time is None else problem.time.step_ns(copies, blocks)
        return (
            found.makespan <= (self.target_steps or math.inf)
            and interval <= (self.target_interval or math.inf)
            and (self.target_ns is None or found.makespan * step_ns <= self.target_ns * (1 + SAME_PRODUCT))
            and (self.longest_ns is None or interval * step_ns <= self.longest_ns * (1 + SAME_PRODUCT))
        )


NO_TARGET = Target()
