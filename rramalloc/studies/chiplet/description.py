"""Description of a network on chiplets: the records of its JSON (docs/sources/companions.md 2)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, FailFast, Field, model_validator

from rramalloc.network.node import Name
from rramalloc.records import Record, brief, fault, from_list

MAX_UNITS = 2**16
"""Of a whole chip."""
MAX_OPERATORS = 10_000
MAX_EDGES = 100_000
MAX_PAIRS = 100_000


def _number(value: Any) -> Any:
    """Whole numbers are numbers too; 10^400 stays what it is and is refused."""
    is_whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**60
    return float(value) if is_whole else value


def _numbers(value: Any) -> Any:
    return tuple(_number(item) for item in value) if isinstance(value, list | tuple) else value


def _table(value: Any) -> Any:
    return tuple(_numbers(row) for row in value) if isinstance(value, list | tuple) else value


Extent = Annotated[int, Field(ge=1, le=MAX_UNITS)]
Line = Annotated[int, Field(ge=0, lt=MAX_UNITS)]
Grid = Annotated[tuple[Extent, Extent], from_list(list[Extent])]
Place = Annotated[tuple[Line, Line], from_list(list[Line])]
Unit = Annotated[tuple[Place, Place], from_list(list[Place])]
Pair = Annotated[tuple[Unit, Unit], from_list(list[Unit])]
Cycles = Annotated[float, Field(ge=0, le=1e15), BeforeValidator(_number)]
Bandwidth = Annotated[float, Field(gt=0, le=1e15), BeforeValidator(_number)]
Transfers = Annotated[int, Field(ge=0, le=2**53)]
Size = Annotated[int, Field(ge=1, le=2**31 - 1)]
Sizes = Annotated[tuple[Size, Size, Size], from_list(list[Size])]
Pairs = Annotated[tuple[Pair, ...], from_list(list[Pair]), Field(max_length=MAX_PAIRS)]
PerStrategy = Annotated[
    tuple[Annotated[float, Field(ge=0, le=1e15)], ...],
    BeforeValidator(_numbers, json_schema_input_type=list[float]),
    Field(min_length=1, max_length=10_000),
]
PerStrategies = Annotated[
    tuple[tuple[Annotated[float, Field(ge=0, le=1e15)], ...], ...],
    BeforeValidator(_table, json_schema_input_type=list[list[float]]),
    Field(min_length=1, max_length=10_000),
]
Group = Annotated[tuple[Name, ...], from_list(list[Name]), Field(min_length=1)]


class ChipletChip(Record):
    """Chiplets in rows and columns, each of units in rows and columns.

    bandwidth_*: bytes per cycle; hop_cycles_*: cycles per hop; *_inside: a chiplet, *_between: chiplets;
    systolic: side of a unit's systolic array, needed where an operator gives its work.
    """

    chiplets: Grid
    units: Grid
    bandwidth_inside: Bandwidth | None = None
    bandwidth_between: Bandwidth | None = None
    hop_cycles_inside: Cycles
    hop_cycles_between: Cycles
    systolic: Size | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        count = self.chiplets[0] * self.chiplets[1] * self.units[0] * self.units[1]
        if count > MAX_UNITS:
            raise fault(f"has {count} units, the limit is {MAX_UNITS}")
        return self


class ChipletOperator(Record):
    """One operator, and where it runs.

    work: (m, k, n) per unit, or compute: cycles; strategy: index of the way it is partitioned;
    latency: cycles of its communication per strategy, or bytes: moved per strategy; submesh: chiplets and the
    units of the last of them; first, last: unit; transfers: that are routed when reduce_to is "last": from
    all of its units to the last one.
    """

    work: Sizes | None = None
    compute: Cycles | None = None
    strategy: Annotated[int, Field(ge=0, le=10_000)] = 0
    latency: PerStrategy | None = None
    bytes: PerStrategy | None = None
    submesh: Annotated[tuple[Grid, Grid] | None, from_list(list[Grid] | None)] = None
    first: Unit | None = None
    last: Unit | None = None
    transfers: Transfers = 0
    reduce_to: Literal["last", "none"] = "none"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.work is None) == (self.compute is None):
            raise fault("needs either work or compute")
        if self.latency is not None and self.bytes is not None:
            raise fault("latency and bytes exclude each other")
        given = self.latency or self.bytes
        if given is not None and self.strategy >= len(given):
            raise fault(f"strategy is {self.strategy}, there are {len(given)} from 0")
        if (self.submesh is None) != (self.first is None):
            raise fault("submesh and first belong together: give both or neither")
        if self.submesh is None and (self.last is not None or self.reduce_to == "last"):
            raise fault("last and reduce_to need submesh and first")
        return self


class ChipletEdge(Record):
    """Operator `to` depends on `from`.

    latency: cycles by strategy of `from` and of `to`, or bytes: moved, by these; transfers: that are routed
    over `pairs` of units; without pairs from the units that hold the result of `from` to all units of `to`.
    """

    source: Name = Field(alias="from")
    to: Name
    latency: PerStrategies | None = None
    bytes: PerStrategies | None = None
    transfers: Transfers = 0
    pairs: Pairs | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.latency is not None and self.bytes is not None:
            raise fault("latency and bytes exclude each other")
        return self


class Description(Record):
    """A network on chiplets. groups: operators that run at the same time, one group after the other."""

    chip: ChipletChip
    groups: Annotated[
        tuple[Group, ...],
        FailFast(),
        from_list(list[Group]),
        Field(min_length=1),
    ]
    operators: Annotated[dict[Name, ChipletOperator], Field(min_length=1, max_length=MAX_OPERATORS)]
    edges: Annotated[
        tuple[ChipletEdge, ...],
        FailFast(),
        from_list(list[ChipletEdge]),
        Field(max_length=MAX_EDGES),
    ] = ()

    @model_validator(mode="after")
    def _grouped(self) -> Self:
        group_of: dict[str, int] = {}
        for index, group in enumerate(self.groups):
            for name in group:
                if name not in self.operators:
                    raise fault(f"groups[{index}]: no operator is named {brief(name)}")
                if name in group_of:
                    raise fault(f"groups[{index}]: {brief(name)} is in groups[{group_of[name]}] too")
                group_of[name] = index
        for name in self.operators:
            if name not in group_of:
                raise fault(f"operators: {brief(name)} is in no group")
        for index, edge in enumerate(self.edges):
            for name in (edge.source, edge.to):
                if name not in self.operators:
                    raise fault(f"edges[{index}]: no operator is named {brief(name)}")
            if group_of[edge.source] >= group_of[edge.to]:
                raise fault(
                    f"edges[{index}]: {brief(edge.to)} of groups[{group_of[edge.to]}] cannot depend on "
                    f"{brief(edge.source)} of groups[{group_of[edge.source]}]: groups run one after the other"
                )
        return self
