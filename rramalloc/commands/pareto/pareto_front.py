"""ParetoFront: the result of `pareto`, arrays against latency or other quantities."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rramalloc.allocation.allocation import LayerModes, NetworkResult, PositiveCount, SearchOptions
from rramalloc.choices import FrontAgainst, FrontObjective
from rramalloc.records import Record, Steps, absent
from rramalloc.status import Status
from rramalloc.units import Unit, counted

FORMAT: Literal["rramalloc-pareto/2"] = "rramalloc-pareto/2"


class FrontPoint(LayerModes):
    """One allocation that no other known one dominates.

    arrays: used; makespan, interval: exact, in steps; step_ns, latency_ns: None without [timing]; value: what
    is minimised, in the front's unit; lower_bound: no allocation with fewer arrays than the next point has a
    smaller value; gap: (value - lower_bound) / value; proven: that, and nothing with fewer arrays than this
    one has as small a value; against_value: what it is put against, in the front's against_unit, in place of
    arrays; None, and left out of files, where that is arrays.
    """

    arrays: PositiveCount
    makespan: Steps
    interval: Steps
    step_ns: float | None
    latency_ns: float | None
    value: int | float
    lower_bound: int | float
    gap: float
    proven: bool = False
    status: Status = Field(
        default_factory=lambda fields: Status.OPTIMAL if fields.get("proven") else Status.BOUNDED
    )
    against_value: int | float | None = Field(None, exclude_if=absent)

    @property
    def across(self) -> int | float:
        """Value on the axis that rises along the front."""
        return self.arrays if self.against_value is None else self.against_value


class BaselinePoint(Record):
    """Result of a method at a budget of `budget` arrays: arrays used, value in the front's unit."""

    method: str
    budget: PositiveCount
    arrays: PositiveCount
    makespan: Steps
    value: int | float


class ParetoFront(NetworkResult):
    """All non-dominated points of (arrays, objective) up to a budget, rising in arrays, or in `against`.

    against, against_unit: what the objective is put against; budget: most arrays, minimum: with every layer
    stored once, None where there are several kinds of arrays; unit: of values and bounds; proven: points that
    are; resolution: arrays within which only one point is kept, 1 unless the range is very wide; work_s:
    work counted in seconds of a reference core; coverage: how much of the network the front is about.
    """

    rows_in = "points"
    unlisted = frozenset(LayerModes.model_fields)

    format: Literal["rramalloc-pareto/2"] = FORMAT
    options: SearchOptions
    objective: FrontObjective
    unit: Unit
    against: FrontAgainst = "arrays"
    against_unit: Unit = "arrays"
    seed: int
    budget: PositiveCount
    minimum: PositiveCount | None
    proven: int
    resolution: PositiveCount
    work_s: float
    points: tuple[FrontPoint, ...]
    baselines: tuple[BaselinePoint, ...] = ()
    status: Status = Field(
        default_factory=lambda fields: (
            Status.OPTIMAL if all(point.proven for point in fields.get("points", ())) else Status.BOUNDED
        )
    )

    @property
    def least_arrays(self) -> int:
        """Arrays with every layer stored once; of several kinds those of the first point."""
        if self.minimum is not None or not self.points:
            return self.minimum or 0
        return self.points[0].arrays

    @property
    def mean_gap(self) -> float:
        """Mean of the gaps of all points."""
        return sum(point.gap for point in self.points) / len(self.points)

    def _headline(self) -> tuple[str, str]:
        words = f"{counted(len(self.points), 'point')} from {self.least_arrays:,} to {self.budget:,} arrays"
        return (
            self.network.name,
            f"{words}, {self.proven:,} proven{self.coverage.extent if self.coverage else ''}",
        )
