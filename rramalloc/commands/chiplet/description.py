"""Description of a network on chiplets: the records of its JSON (docs/sources/companions.md 2)."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BeforeValidator, FailFast, Field, TypeAdapter, model_validator

from rramalloc.files import read_json
from rramalloc.hardware.tables import NonNegative as Cycles
from rramalloc.hardware.tables import Positive as Bandwidth
from rramalloc.network.node import Name
from rramalloc.records import Record, as_tuple, brief, fault, from_list, parse
from rramalloc.upgrade import upgraded

T = TypeVar("T")
SCHEDULE: Literal["rramalloc-chiplet-schedule/2"] = "rramalloc-chiplet-schedule/2"
MAX_GRID_EXTENT = 2**16
"""Units of a whole chip at most."""
MAX_OPERATORS = 10_000  # of a description
MAX_EDGES = 100_000  # of a description
MAX_PAIRS = 100_000  # entries of one list of pairs


def each_of(kind: Any) -> BeforeValidator:
    """Return the validator of a field that has one value for all strategies, or a list with one for each."""
    return BeforeValidator(
        lambda value: tuple(value) if isinstance(value, list | tuple) else (value,),
        json_schema_input_type=kind | list[kind],
    )


def _sizes_of_strategies(value: Any) -> Any:
    """Return one (m, k, n) or a list of them as a tuple of tuples; see `each_of`."""
    if not isinstance(value, list | tuple):
        return value
    # A list of lists has one entry per strategy, a list of numbers is the entry of all strategies.
    several = bool(value) and all(isinstance(item, list | tuple) for item in value)
    return tuple(map(as_tuple, value if several else (value,)))


def _index(value: Any) -> Any:
    """Return the index of the 1 in a one-hot list."""
    if not isinstance(value, list | tuple):
        return value
    are_integers = all(isinstance(item, int) and not isinstance(item, bool) for item in value)
    if not are_integers or sorted(value) != [0] * (len(value) - 1) + [1]:
        raise fault("must be an index from 0, or a list of zeros with a single 1")
    return list(value).index(1)


UnitExtent = Annotated[int, Field(ge=1, le=MAX_GRID_EXTENT)]
UnitIndex = Annotated[int, Field(ge=0, lt=MAX_GRID_EXTENT)]
UnitGrid = Annotated[tuple[UnitExtent, UnitExtent], from_list(list[UnitExtent])]
UnitPlace = Annotated[tuple[UnitIndex, UnitIndex], from_list(list[UnitIndex])]
ChipUnit = Annotated[tuple[UnitPlace, UnitPlace], from_list(list[UnitPlace])]
"""((chiplet row, chiplet column), (row, column)), all from 0."""
UnitPair = Annotated[tuple[ChipUnit, ChipUnit], from_list(list[ChipUnit])]
UnitPairs = Annotated[tuple[UnitPair, ...], from_list(list[UnitPair]), Field(max_length=MAX_PAIRS)]
Transfers = Annotated[int, Field(ge=0, le=2**53)]
ByteCount = Annotated[int, Field(ge=1, le=2**31 - 1)]
Reduction = Literal["last", "none"]
Several = Field(min_length=1, max_length=10_000)
Sizes = Annotated[
    tuple[tuple[ByteCount, ByteCount, ByteCount], ...],
    BeforeValidator(_sizes_of_strategies, json_schema_input_type=list[ByteCount] | list[list[ByteCount]]),
    Several,
]
Partition = Annotated[
    int, Field(ge=0, le=10_000), BeforeValidator(_index, json_schema_input_type=int | list[int])
]
Entries = Annotated[tuple[Cycles, ...], from_list(list[float])]
PerStrategy = Annotated[Entries, Several]
PerStrategies = Annotated[tuple[Entries, ...], from_list(list[list[float]]), Several]
NameGroup = Annotated[tuple[Name, ...], from_list(list[Name]), Field(min_length=1)]


class ChipletChip(Record):
    """Chiplets in rows and columns, each of units in rows and columns.

    bandwidth_*: bytes per cycle; hop_cycles_*: cycles per hop; *_inside: a chiplet, *_between: chiplets;
    systolic: side of a unit's systolic array, needed where an operator gives its work.
    """

    chiplets: UnitGrid
    units: UnitGrid
    bandwidth_inside: Bandwidth | None = None
    bandwidth_between: Bandwidth | None = None
    hop_cycles_inside: Cycles
    hop_cycles_between: Cycles
    systolic: ByteCount | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.count > MAX_GRID_EXTENT:
            raise fault(f"has {self.count} units, the limit is {MAX_GRID_EXTENT}")
        return self

    @property
    def count(self) -> int:
        """Units of all chiplets."""
        return self.chiplets[0] * self.chiplets[1] * self.units[0] * self.units[1]

    @property
    def hop_cycles(self) -> tuple[float, float]:
        """Cycles of a hop inside a chiplet, and of one between chiplets."""
        return self.hop_cycles_inside, self.hop_cycles_between

    def holds(self, unit: ChipUnit) -> bool:
        """Return True if there is such a unit."""
        return all(
            0 <= at < extent
            for place, extents in zip(unit, (self.chiplets, self.units), strict=True)
            for at, extent in zip(place, extents, strict=True)
        )

    def along(self, unit: ChipUnit, axis: int) -> int:
        """Return the row (0) or column (1) of a unit in the mesh of all units."""
        return unit[0][axis] * self.units[axis] + unit[1][axis]


EACH = ("work", "compute", "latency", "bytes", "transfers", "reduce_to", "units", "strategies")
"""Fields of an operator with an entry per strategy."""


class ChipletOperator(Record):
    """One operator, the ways it can be partitioned (its strategies), and where it runs.

    work: (m, k, n) of the product per unit, on a systolic array, or `compute`; compute: cycles, or `work`;
    strategy: index of the one in use, from 0, or a one-hot list; latency: cycles of the communication inside
    the operator, per strategy, or `bytes`; bytes: moved inside the operator, per strategy; transfers: routed
    from all of its units to the last one, where `reduce_to` is "last"; reduce_to: "last" if partial sums are
    added up in the last unit; units: that a strategy takes, without it as many as the submesh has;
    strategies: their names; submesh: chiplets, and the units of the last of them; first: first unit; last:
    last unit, which follows from the others.

    Each of `work`, `compute`, `transfers`, `reduce_to` and `units` has one entry for all strategies, or one
    per strategy.
    """

    work: Sizes | None = None
    compute: Annotated[tuple[Cycles, ...], each_of(float), Several] | None = None
    strategy: Partition = 0
    latency: PerStrategy | None = None
    bytes: PerStrategy | None = None
    submesh: Annotated[tuple[UnitGrid, UnitGrid] | None, from_list(list[UnitGrid] | None)] = None
    first: ChipUnit | None = None
    last: ChipUnit | None = None
    transfers: Annotated[tuple[Transfers, ...], each_of(Transfers), Several] = (0,)
    reduce_to: Annotated[tuple[Reduction, ...], each_of(Reduction), Several] = ("none",)
    units: Annotated[tuple[UnitExtent, ...], each_of(UnitExtent), Several] | None = None
    strategies: Annotated[tuple[Name, ...], from_list(list[Name]), Several] | None = None

    @model_validator(mode="before")
    @classmethod
    def _one_hot(cls, data: Any) -> Any:
        """Check that a one-hot list has as many entries as there are strategies."""
        hot = data.get("strategy") if isinstance(data, dict) else None
        if isinstance(hot, list | tuple):
            for field in ("latency", "bytes", "strategies"):
                given = data.get(field)
                if isinstance(given, list | tuple) and len(given) != len(hot):
                    raise fault(f"strategy has {len(hot)} entries, {field} has {len(given)}")
        return data

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.work is None) == (self.compute is None):
            raise fault("needs either work or compute")
        if self.latency is not None and self.bytes is not None:
            raise fault("latency and bytes exclude each other")
        if self.strategy >= (self.listed or self.strategy + 1):
            raise fault(f"strategy is {self.strategy}, there are {self.listed} from 0")
        for field in EACH:
            given = getattr(self, field)
            if given is not None and len(given) not in (1, self.listed):
                raise fault(f"{field} has {len(given)} entries, there are {self.listed} strategies")
        if (self.submesh is None) != (self.first is None):
            raise fault("submesh and first belong together: give both or neither")
        reduces = self.units is None and "last" in self.reduce_to
        if self.submesh is None and (self.last is not None or reduces):
            raise fault("last and reduce_to need submesh and first")
        return self

    @property
    def listed(self) -> int:
        """Strategies that the lists of this operator have; 0 if it has none."""
        most = max(len(getattr(self, field) or ()) for field in EACH)
        exact = self.latency or self.bytes or self.strategies
        return most if most > 1 or exact else 0


def entry(given: tuple[T, ...], strategy: int) -> T:
    """Return the entry of a strategy in a list that has one for each, or one for all."""
    return given[strategy] if len(given) > 1 else given[0]


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
    pairs: UnitPairs | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.latency is not None and self.bytes is not None:
            raise fault("latency and bytes exclude each other")
        return self


class Description(Record):
    """A network on chiplets.

    groups: operators that run at the same time, one group after the other; name: of the network; unit: what
    all times are given in.
    """

    name: Name | None = None
    unit: Literal["cycles", "ns"] = "cycles"
    chip: ChipletChip
    groups: Annotated[tuple[NameGroup, ...], FailFast(), from_list(list[NameGroup]), Field(min_length=1)]
    operators: Annotated[dict[Name, ChipletOperator], Field(min_length=1, max_length=MAX_OPERATORS)]
    edges: Annotated[
        tuple[ChipletEdge, ...], FailFast(), from_list(list[ChipletEdge]), Field(max_length=MAX_EDGES)
    ] = ()

    @model_validator(mode="after")
    def _grouped(self) -> Self:
        group_of: dict[str, int] = {}
        for index, group in enumerate(self.groups):
            for name in group:
                self._check_named(name, f"groups[{index}]")
                if name in group_of:
                    raise fault(f"groups[{index}]: {brief(name)} is in groups[{group_of[name]}] too")
                group_of[name] = index
        for name in self.operators:
            if name not in group_of:
                raise fault(f"operators: {brief(name)} is in no group")
        for index, edge in enumerate(self.edges):
            for name in (edge.source, edge.to):
                self._check_named(name, f"edges[{index}]")
            if group_of[edge.source] >= group_of[edge.to]:
                raise fault(
                    f"edges[{index}]: {brief(edge.to)} of groups[{group_of[edge.to]}] cannot depend on "
                    f"{brief(edge.source)} of groups[{group_of[edge.source]}]: groups run one after the other"
                )
        return self

    def _check_named(self, name: str, where: str) -> None:
        if name not in self.operators:
            raise fault(f"{where}: no operator is named {brief(name)}")

    def to_dict(self) -> dict[str, Any]:
        """Return the document of the description file, without absent values."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)


DESCRIPTION: TypeAdapter[Description] = TypeAdapter(Description)


def read_description(source: Description | str | os.PathLike[str]) -> tuple[Description, str]:
    """Return a description and its name in messages, read from its file or that of a schedule if need be.

    Raises FileError, SpecError.
    """
    if isinstance(source, Description):
        return source, "description"
    document = upgraded(read_json(source))
    where = os.fspath(source)
    if isinstance(document, dict) and document.get("format") == SCHEDULE:
        document = document.get("description")
    return parse(DESCRIPTION, document, where), where
