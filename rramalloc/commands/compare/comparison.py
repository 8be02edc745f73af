"""Comparison: the result of `compare`, all methods side by side."""

from __future__ import annotations

import operator
from typing import Literal

from pydantic import Field

from rramalloc.allocation.allocation import LayerModes, NetworkId, PositiveCount, SearchOptions
from rramalloc.frozen import FrozenDict
from rramalloc.hardware.hardware import Hardware
from rramalloc.network.coverage import Coverage
from rramalloc.records import Record, Steps, absent
from rramalloc.result import AnswerRecord
from rramalloc.status import Status, Stopped, of_fields
from rramalloc.timing.figures import FIGURES
from rramalloc.units import Unit, counted

FORMAT: Literal["rramalloc-comparison/2"] = "rramalloc-comparison/2"
REFERENCE = "auto"
"""The method that is listed first."""


class CompareOptions(SearchOptions):
    """Options beyond network, hardware and budgets; time_limit_s and work are those of every single run.

    inputs: how many stream, where latency is the time of several.
    """

    methods: tuple[str, ...]
    seed: int
    seeds: int
    inputs: PositiveCount | None = Field(None, exclude_if=absent)


class Row(LayerModes):
    """One method at one budget.

    network: name; arrays: the budget; makespan, interval, used: of the allocation in `copies`, exact;
    objective_value: of that allocation, in the comparison's objective_unit; ratio: objective_value over the
    best at this budget; work_s: work counted in seconds of
    a reference core, None where a method counts none; clock_s: measured seconds of a run, only if asked for,
    and all that depends on the machine; lower_bound: of the objective, in its unit, the best bound that any
    method proved at this budget; gap: (objective_value - lower_bound) / objective_value; recurrence,
    published: steps by the models (docs/sources/model.md 5), published None unless the network is a chain it
    covers; step_ns, latency_ns: None without [timing]; repaired: copies were taken away because what the
    method asked for did not fit; runs: seeds tried; best, median, worst: makespans of the best, the middle
    (the lower of two) and the worst run; the row is of the middle one.
    """

    network: str
    arrays: PositiveCount
    method: str
    makespan: Steps
    interval: Steps
    used: PositiveCount
    objective_value: int | float
    ratio: float
    work_s: float | None
    clock_s: float | None
    lower_bound: int | float
    gap: float
    recurrence: Steps
    published: Steps | None
    step_ns: float | None
    latency_ns: float | None
    repaired: bool
    runs: PositiveCount
    best: Steps
    median: Steps
    worst: Steps
    proof: str
    status: Status = Field(default_factory=of_fields)
    stopped: Stopped | None = Field(None, exclude_if=absent)


SCALARS = (*(name for name in Row.model_fields if name not in LayerModes.model_fields), *FIGURES)
"""Fields of a row that fit in a cell of a table."""


class Skipped(Record):
    """A method without a row at a budget, with the reason; network: its name, absent where there is one."""

    network: str | None = Field(None, exclude_if=absent)
    arrays: PositiveCount
    method: str
    reason: str


class Comparison(AnswerRecord):
    """Methods side by side: rows by network and budget as given, `auto` first, then the fastest first.

    network, coverage: the network, and how much of it this is about; of several, `networks` are listed
    instead, and warnings tell what is not covered; skipped: methods that do not apply or found nothing;
    warnings: what was assumed or ignored, and where another method was faster than `auto`.
    """

    rows_in = "rows"
    unlisted = frozenset(LayerModes.model_fields)

    format: Literal["rramalloc-comparison/2"] = FORMAT
    network: NetworkId | None = Field(None, exclude_if=absent)
    networks: tuple[NetworkId, ...] = Field((), exclude_if=operator.not_)
    hardware: Hardware
    coverage: Coverage | None = None
    options: CompareOptions
    objective: str = "latency"
    objective_unit: Unit = "steps"
    rows: tuple[Row, ...]
    skipped: tuple[Skipped, ...] = ()

    @property
    def subject(self) -> str:
        """The network's name, or how many there are."""
        return counted(len(self.networks), "network") if self.network is None else self.network.name

    @property
    def budgets(self) -> tuple[int, ...]:
        """Budgets that have rows, in the order given."""
        return tuple(dict.fromkeys(row.arrays for row in self.rows))

    def at(self, arrays: int) -> tuple[Row, ...]:
        """Return the rows at one budget, of all networks."""
        return tuple(row for row in self.rows if row.arrays == arrays)

    @property
    def groups(self) -> dict[tuple[str, int], tuple[Row, ...]]:
        """Rows by network and budget, in the order given; methods are compared within a group."""
        places = dict.fromkeys((row.network, row.arrays) for row in self.rows)
        return FrozenDict(
            (place, tuple(row for row in self.rows if (row.network, row.arrays) == place)) for place in places
        )

    def group_name(self, network: str, arrays: int) -> str:
        """Return a group in words; a network is named where there are several."""
        return (f"{network}, " if self.networks else "") + counted(arrays, "array")

    def _headline(self) -> tuple[str, str]:
        methods = counted(len({row.method for row in self.rows}), "method")
        return self.subject, f"{methods} on {', '.join(f'{size:,}' for size in self.budgets)} arrays"
