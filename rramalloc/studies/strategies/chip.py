"""ChipPerformance: what the strategies share out, and how fast it moves and computes bytes."""

from __future__ import annotations

import os
from typing import Annotated, Any, Self, get_args

from pydantic import BeforeValidator, Field, TypeAdapter, model_validator

from rramalloc.errors import SpecError
from rramalloc.files import read_toml
from rramalloc.network.node import Node, Stage
from rramalloc.records import Record, brief, fault, parse

MAX_UNITS = 2**20
"""Compute or storage units of one chip."""
DEFAULT = "default"
OPERATORS: tuple[str, ...] = tuple(
    operator
    for kind in get_args(get_args(Node)[0])
    for operator in get_args(kind.model_fields["op"].annotation)
)
"""Every operator of the network JSON."""
TIMED: tuple[str, ...] = tuple(
    operator for kind in get_args(Stage) for operator in get_args(kind.model_fields["op"].annotation)
)
"""Those of weight layers, which are the tasks of a network; nothing else takes time."""


def _by_operator(value: Any) -> Any:
    return {DEFAULT: value} if isinstance(value, int | float) and not isinstance(value, bool) else value


Units = Annotated[int, Field(ge=1, le=MAX_UNITS)]
Bandwidth = Annotated[float, Field(ge=1e-6, le=1e15)]
Cost = Annotated[float, Field(ge=0, le=1e15)]
Costs = Annotated[
    dict[str, Cost], BeforeValidator(_by_operator, json_schema_input_type=Cost | dict[str, Cost])
]


class ChipPerformance(Record):
    """Performance parameters of a chip that runs a network layer after layer.

    processors: compute units at most; storage_units: of unit_bytes each; bandwidth_in_gb_s: from storage to
    compute, bandwidth_out_gb_s: back; ns_per_byte: cost of a byte of input by operator, "default" for those
    not named; one number is the cost for all.
    Raises SpecError for an operator that networks do not have.  Source: docs/sources/companions.md 1.
    """

    name: Annotated[str, Field(max_length=1000)] = ""
    source: Annotated[str, Field(max_length=10_000)] = ""
    processors: Units
    storage_units: Units
    unit_bytes: Annotated[int, Field(ge=1, le=2**53)]
    bandwidth_in_gb_s: Bandwidth
    bandwidth_out_gb_s: Bandwidth
    ns_per_byte: Costs

    @model_validator(mode="after")
    def _operators_exist(self) -> Self:
        timed = f"timed are weight layers: {', '.join((DEFAULT, *TIMED))}"
        for name in self.ns_per_byte:
            if name != DEFAULT and name not in OPERATORS:
                raise fault(f"ns_per_byte: no operator is named {brief(name)}; {timed}")
            if name != DEFAULT and name not in TIMED:
                raise fault(f"ns_per_byte: {name!r} takes no time here, so its cost has no effect; {timed}")
        return self

    def cost_ns_per_byte(self, operator: str, where: str) -> float:
        """Compute time of one byte of input; `where` names the layer. Raises SpecError if none is given."""
        cost = self.ns_per_byte.get(operator, self.ns_per_byte.get(DEFAULT))
        if cost is None:
            reason = f"the chip gives no ns_per_byte for {operator!r} and no default: add one of them"
            raise SpecError(where, reason)
        return cost


_CHIP: TypeAdapter[ChipPerformance] = TypeAdapter(ChipPerformance)


def load_chip(path: str | os.PathLike[str]) -> ChipPerformance:
    """The chip in a TOML file. Raises FileError, SpecError."""
    return parse(_CHIP, read_toml(path), os.fspath(path))
