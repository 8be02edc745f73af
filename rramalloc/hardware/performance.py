"""ChipPerformance: the units that strategies assign, and the time in which they move and compute bytes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Any, NamedTuple, Self

from pydantic import BeforeValidator, Field, model_validator

from rramalloc.network.node import KINDS, WEIGHT_OPERATORS
from rramalloc.records import Record, brief, fault, from_list

MAX_UNITS = 2**20
"""Compute or storage units of one chip."""
DEFAULT = "default"
UNTIMED = ("input",)
"""Operators that compute nothing."""


def _by_operator(value: Any) -> Any:
    return {DEFAULT: value} if isinstance(value, int | float) and not isinstance(value, bool) else value


UnitCount = Annotated[int, Field(ge=1, le=MAX_UNITS)]
Numbers = Annotated[tuple[UnitCount, ...], from_list(list[UnitCount]), Field(min_length=1, max_length=4096)]
Bandwidth = Annotated[float, Field(ge=1e-6, le=1e15)]
CostPerByte = Annotated[float, Field(ge=0, le=1e15)]
Costs = Annotated[
    dict[str, CostPerByte],
    BeforeValidator(_by_operator, json_schema_input_type=CostPerByte | dict[str, CostPerByte]),
]


class Route(Record):
    """Bandwidths between some storage and some compute units.

    storage, compute: numbers of the units, from 1; bandwidth_in_gb_s, bandwidth_out_gb_s: of them, instead
    of the chip's.
    """

    storage: Numbers
    compute: Numbers
    bandwidth_in_gb_s: Bandwidth
    bandwidth_out_gb_s: Bandwidth


class Rates(NamedTuple):
    """Bandwidths of a route, or of the slowest route of a subtask."""

    in_gb_s: float
    out_gb_s: float


class ChipPerformance(Record):
    """Performance parameters of a chip that runs a network layer after layer: [units] of a hardware file.

    processors: compute units at most; storage_units: of unit_bytes each; bandwidth_in_gb_s: from storage to
    compute; bandwidth_out_gb_s: back; ns_per_byte: cost of a byte of input by operator, "default" for weight
    layers not named, one number for all weight layers; other operators are tasks where they are named;
    without a cost weight layers take a step of [timing] per window; routes: with bandwidths of their own, the
    last that has a pair of units counts.
    Raises SpecError for an operator that networks do not have.  Source: docs/sources/companions.md 1.
    """

    processors: UnitCount
    storage_units: UnitCount
    unit_bytes: Annotated[int, Field(ge=1, le=2**53)]
    bandwidth_in_gb_s: Bandwidth
    bandwidth_out_gb_s: Bandwidth
    ns_per_byte: Costs = Field(default_factory=dict)
    routes: Annotated[tuple[Route, ...], from_list(list[Route]), Field(max_length=1000)] = ()

    @model_validator(mode="after")
    def _operators_exist(self) -> Self:
        for name in self.ns_per_byte:
            if name != DEFAULT and (name not in KINDS or name in UNTIMED):
                timed = ", ".join((DEFAULT, *(name for name in KINDS if name not in UNTIMED)))
                raise fault(
                    f"ns_per_byte: no operator that takes time is named {brief(name)}; timed are {timed}"
                )
        return self

    @model_validator(mode="after")
    def _routes_exist(self) -> Self:
        for number, route in enumerate(self.routes):
            for field, most in (("storage", self.storage_units), ("compute", self.processors)):
                for unit in getattr(route, field):
                    if unit > most:
                        raise fault(f"routes[{number}].{field}: there is no unit {unit}, the chip has {most}")
        return self

    @property
    def own_rates(self) -> Rates:
        """Bandwidths of pairs of units without a route of their own."""
        return Rates(self.bandwidth_in_gb_s, self.bandwidth_out_gb_s)

    def rates(self, compute: Iterable[int], storage: Iterable[int]) -> Rates:
        """Return the bandwidths of a subtask, in and out: the lowest of all routes between its units."""
        if not self.routes:
            return self.own_rates
        table = self._table
        pairs = [table.get((unit, held), self.own_rates) for unit in compute for held in storage]
        return Rates(min(pair.in_gb_s for pair in pairs), min(pair.out_gb_s for pair in pairs))

    @cached_property
    def _table(self) -> dict[tuple[int, int], Rates]:
        return {
            (unit, held): Rates(route.bandwidth_in_gb_s, route.bandwidth_out_gb_s)
            for route in self.routes
            for unit in route.compute
            for held in route.storage
        }

    def cost_ns_per_byte(self, operator: str) -> float | None:
        """Return the compute time of one byte of input [ns]; None if the chip gives none."""
        default = self.ns_per_byte.get(DEFAULT) if operator in WEIGHT_OPERATORS else None
        return self.ns_per_byte.get(operator, default)
