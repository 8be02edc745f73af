"""Spec: the lists of a sweep and the grid of points that they span; Sources: what they name, read once."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as MappingOf
from contextlib import contextmanager
from functools import cached_property, lru_cache, partial
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, model_validator

from rramalloc.allocation.at_most import at_most_of
from rramalloc.allocation.budgets import MAX_ARRAYS, MOST_INPUTS, multiple
from rramalloc.choices import DEFAULT_WORK, Divided, FullyConnected, Mapping, SweptObjective
from rramalloc.errors import RramallocError, SpecError
from rramalloc.files import read_toml
from rramalloc.hardware.hardware import MAX_BITS, MAX_LINES, Hardware, Positive
from rramalloc.hardware.loader import DEFAULT_PRESET, load_hardware, parse_crossbar
from rramalloc.importers import load
from rramalloc.methods.registry import method_names
from rramalloc.records import MAX_WORK, Record, brief, fault, is_whole, parse
from rramalloc.timing.latency_table import LatencyTable, load_latency_table
from rramalloc.units import number_of
from rramalloc.version import __version__

MAX_POINTS = 10**7

LISTS = tuple(
    "networks hardware crossbars cell_bits bandwidths_gb_s weight_bits dac_bits columns_per_adc "
    "rows_per_read clock mappings fc arrays objectives methods seeds".split()
)
"""The lists whose product is the grid; the last one varies fastest."""


class Changes(NamedTuple):
    """Values that replace those of a hardware, None to keep them."""

    crossbar: str | None = None
    cell_bits: int | None = None
    bandwidth_gb_s: float | None = None
    weight_bits: int | None = None
    dac_bits: int | None = None
    columns_per_adc: int | None = None
    rows_per_read: int | None = None
    clock: str | None = None


Limits = tuple[tuple[str, float], ...]
"""Quantities and their limits."""


class SweepPoint(NamedTuple):
    """One point of the grid, of plain values so that it travels as JSON; fields in the order of `LISTS`.

    network, hardware: their positions in the spec; crossbar ... clock: None to keep the values of the
    hardware; arrays: a number, or a multiple of the minimum such as "x2".
    """

    network: int
    hardware: int
    crossbar: str | None
    cell_bits: int | None
    bandwidth_gb_s: float | None
    weight_bits: int | None
    dac_bits: int | None
    columns_per_adc: int | None
    rows_per_read: int | None
    clock: str | None
    mapping: str
    fc: str
    arrays: int | str
    objective: str
    method: str
    seed: int
    work: int
    inputs: int = 1
    at_most: Limits = ()
    copies: tuple[str, ...] = ()
    copies_divide: Divided | None = None

    @property
    def changes(self) -> Changes:
        """Values that replace those of the hardware."""
        return Changes(*(getattr(self, name) for name in Changes._fields))


LIST_OF = dict(zip(SweepPoint._fields, LISTS, strict=False))
"""List that the values of a field of a point are from."""


def _listed(value: Any) -> Any:
    """Return a list as a tuple, and a single value as a tuple of one."""
    return tuple(value) if isinstance(value, list) else value if isinstance(value, tuple) else (value,)


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    seen = set()
    for value in values:
        factor = multiple(value) if isinstance(value, str) else None
        key = (value,) if factor is None else factor
        if key in seen:
            raise fault(f"{brief(value)} stands twice: give every value once")
        seen.add(key)
    return values


def _arrays(value: Any) -> Any:
    if isinstance(value, str):
        factor = multiple(value)
        if factor is None or factor < 1:
            raise fault('must be a number of arrays, or "x2" for twice the minimum, at least "x1"')
    elif not is_whole(value, 1, MAX_ARRAYS):
        raise fault(f'must be a number of arrays from 1 to {MAX_ARRAYS}, or a multiple such as "x2"')
    return value


def _at_most(value: dict[str, float | str]) -> dict[str, float]:
    try:
        return at_most_of(value)
    except RramallocError as error:
        raise fault(str(error)) from None


def _crossbar(value: Any) -> Any:
    if not isinstance(value, str):
        raise fault('must be a text such as "128x128"')
    try:
        wordlines, bitlines = parse_crossbar(value)
    except SpecError as error:
        raise fault(error.reason) from None
    return f"{wordlines}x{bitlines}"


def _method(value: Any) -> Any:
    if value not in method_names():
        raise fault(f"is no method; known: {', '.join(method_names())}")
    return value


_Text = Annotated[str, Field(min_length=1, max_length=4096)]
_Values = (BeforeValidator(_listed), Field(min_length=1), AfterValidator(_distinct))
_Bits = Annotated[tuple[Annotated[int, Field(ge=1, le=MAX_BITS)], ...], *_Values]
_Lines = Annotated[tuple[Annotated[int, Field(ge=1, le=MAX_LINES)], ...], *_Values]
_Bandwidths = Annotated[tuple[Positive, ...], *_Values]


class Spec(Record):
    """Lists whose product is the grid; one value stands for a list of one.

    networks: files or shipped names; arrays: budgets, or "x2" for twice the minimum of the network on the
    hardware, rounded down.

    crossbars, cell_bits, bandwidths_gb_s, weight_bits, dac_bits, columns_per_adc, rows_per_read, clock:
    replace what the hardware says, None to keep it; hardware: presets or files; zip: groups of lists that
    advance together instead of making a product; work: units of search of each point; inputs: how many
    stream, whose time the objective latency then is; at_most: limits of quantities by their names;
    copies, copies_divide: as those of `optimize`, of layers that every network has;
    latency_table: file of measured step times of all points, instead of those of the hardware.
    Raises SpecError.
    """

    name: Annotated[str, Field(max_length=200)] = ""
    networks: Annotated[tuple[_Text, ...], *_Values]
    arrays: Annotated[tuple[Annotated[int | str, BeforeValidator(_arrays)], ...], *_Values]
    crossbars: Annotated[tuple[Annotated[str, BeforeValidator(_crossbar)], ...], *_Values] | None = None
    methods: Annotated[tuple[Annotated[str, BeforeValidator(_method)], ...], *_Values] = ("auto",)
    hardware: Annotated[tuple[_Text, ...], *_Values] = (DEFAULT_PRESET,)
    mappings: Annotated[tuple[Mapping, ...], *_Values] = ("im2col",)
    cell_bits: _Bits | None = None
    objectives: Annotated[tuple[SweptObjective, ...], *_Values] = ("latency",)
    bandwidths_gb_s: _Bandwidths | None = None
    weight_bits: _Bits | None = None
    dac_bits: _Bits | None = None
    columns_per_adc: _Lines | None = None
    rows_per_read: _Lines | None = None
    clock: Annotated[tuple[Literal["shared", "own"], ...], *_Values] | None = None
    fc: Annotated[tuple[FullyConnected, ...], *_Values] = ("host",)
    seeds: Annotated[tuple[Annotated[int, Field(ge=0, le=2**63 - 1)], ...], *_Values] = (0,)
    work: Annotated[int, Field(ge=0, le=MAX_WORK)] = DEFAULT_WORK
    inputs: Annotated[int, Field(ge=1, le=MOST_INPUTS)] | None = None
    at_most: Annotated[dict[str, float | str], AfterValidator(_at_most)] | None = None
    copies: Annotated[tuple[_Text, ...], BeforeValidator(_listed)] | None = None
    copies_divide: Divided | None = None
    latency_table: _Text | None = None
    zip: Annotated[
        tuple[Annotated[tuple[str, ...], BeforeValidator(_listed)], ...], BeforeValidator(_listed)
    ] = ()

    @model_validator(mode="before")
    @classmethod
    def _singular(cls, document: Any) -> Any:
        """Accept `mapping` in place of `mappings`."""
        if isinstance(document, dict) and "mapping" in document and "mappings" not in document:
            return {"mappings" if name == "mapping" else name: value for name, value in document.items()}
        return document

    @model_validator(mode="after")
    def _tied(self) -> Self:
        used: set[str] = set()
        for group in self.zip:
            if len(group) < 2:
                raise fault("zip: a group ties at least two lists: [['networks', 'arrays']]")
            for name in group:
                if name not in LISTS:
                    raise fault(f"zip: {brief(name)} is no list of a sweep; known: {', '.join(LISTS)}")
                if name in used:
                    raise fault(f"zip: {name!r} stands twice")
                if name not in self.model_fields_set or getattr(self, name) is None:
                    raise fault(f"zip: {name!r} is not given")
                used.add(name)
            lengths = {name: len(getattr(self, name)) for name in group}
            if len(set(lengths.values())) > 1:
                listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
                raise fault(f"zip: tied lists must be equally long, {listed}")
        if self.size > MAX_POINTS:
            raise fault(
                f"the lists make {brief(self.size)} points, the limit is {MAX_POINTS}: split the sweep"
            )
        return self

    @cached_property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Lists of the grid in the order of the product, tied ones together at the place of their first."""
        tied = {name: group for group in self.zip for name in group}
        ordered: list[tuple[str, ...]] = []
        for name in LISTS:
            group = tuple(sorted(tied.get(name, (name,)), key=LISTS.index))
            if group[0] == name and getattr(self, name) is not None:
                ordered.append(group)
        return tuple(ordered)

    @property
    def size(self) -> int:
        """Points of the grid, by multiplication."""
        return math.prod(len(getattr(self, group[0])) for group in self.groups)

    def describe_size(self) -> str:
        """Return the size and its factors: "12 points: 2 networks x 6 arrays"."""
        factors = [
            f"{len(getattr(self, group[0]))} {group[0] if len(group) == 1 else '(' + ', '.join(group) + ')'}"
            for group in self.groups
            if len(getattr(self, group[0])) > 1
        ]
        points = number_of(self.size, "point")
        return f"{points}: {' x '.join(factors)}" if factors else points

    def point(self, number: int) -> SweepPoint:
        """Return the point of that number, from 0, in mixed radix. Raises IndexError."""
        if not 0 <= number < self.size:
            raise IndexError(number)
        chosen = {name: values[0] for name, values in self._values.items()}
        for group in reversed(self.groups):
            number, position = divmod(number, len(self._values[group[0]]))
            chosen |= {name: self._values[name][position] for name in group}
        limits = tuple((name, float(limit)) for name, limit in (self.at_most or {}).items())
        return SweepPoint._make(
            (*chosen.values(), self.work, self.inputs or 1, limits, self.copies or (), self.copies_divide)
        )

    def points(self) -> Iterator[SweepPoint]:
        """Yield all points in the order of the grid."""
        return map(self.point, range(self.size))

    @cached_property
    def _values(self) -> dict[str, tuple[Any, ...]]:
        """Values of every list; networks and hardware by their positions."""
        values: dict[str, tuple[Any, ...]] = {name: getattr(self, name) or (None,) for name in LISTS}
        positions = {name: tuple(range(len(values[name]))) for name in ("networks", "hardware")}
        return values | positions


_SPEC: TypeAdapter[Spec] = TypeAdapter(Spec)


def read_spec(spec: str | os.PathLike[str] | MappingOf[str, Any]) -> tuple[Spec, str, str]:
    """Read the spec, its name in messages, and the folder that its relative paths start from.

    Raises FileError, SpecError.
    """
    if isinstance(spec, MappingOf):
        return parse(_SPEC, dict(spec), "sweep"), "sweep", ""
    where = os.fspath(spec)
    return parse(_SPEC, read_toml(spec), where), where, os.path.dirname(where)


_NO_CHANGES = Changes()
TABLES = {
    "cell_bits": "crossbar", "bandwidth_gb_s": "memory", "weight_bits": "precision", "dac_bits": "timing",
    "columns_per_adc": "timing", "rows_per_read": "timing", "clock": "timing",
}  # fmt: skip
"""Tables of a hardware that have what a sweep changes."""
_HARDWARE: TypeAdapter[Hardware] = TypeAdapter(Hardware)
_TABLE: TypeAdapter[LatencyTable] = TypeAdapter(LatencyTable)
T = TypeVar("T")


class NetworkText(NamedTuple):
    """A network: its name, the hash of its graph, its network JSON, and a latency table as JSON if any."""

    name: str
    sha256: str
    text: str
    latency_table: str = ""

    @property
    def measured(self) -> LatencyTable | None:
        """Step times of its layers, None if those of the hardware hold."""
        return _table(self.latency_table) if self.latency_table else None


class Machine(NamedTuple):
    """A hardware with a point's changes, and the hash of all its values."""

    hardware: Hardware
    sha256: str


class Sources(NamedTuple):
    """Networks, and hardware as JSON, to which the points of a spec refer by position."""

    networks: tuple[NetworkText, ...]
    hardware: tuple[str, ...]

    def of(self, point: SweepPoint) -> tuple[NetworkText, str]:
        """Return the network and the hardware of a point."""
        return self.networks[point.network], self.hardware[point.hardware]

    def arguments(self, point: SweepPoint) -> tuple[Any, ...]:
        """Return the arguments of `compute_row` in plain values: a Dask scheduler need not have the
        package."""
        network, hardware = self.of(point)
        return __version__, tuple(point), tuple(network), hardware

    def key(self, point: SweepPoint) -> str:
        """Return the key of the row of a point."""
        network, hardware = self.of(point)
        return key_of(point, network, machine_of(hardware, point.changes))


def key_of(point: SweepPoint, network: NetworkText, machine: Machine) -> str:
    """Return the hash of everything that a point's row depends on: two sweeps share a row if they share its
    key."""
    asked = (point.mapping, point.fc, point.arrays, point.objective, point.method, point.seed, point.work)
    values = [__version__, network.name, network.sha256, machine.sha256, *asked]
    if network.measured is not None:
        values.append(network.measured.sha256)
    if point.inputs > 1:
        values.append(f"{point.inputs} inputs")
    values += [f"{name}={limit!r}" for name, limit in point.at_most]
    values += [f"copies {limit}" for limit in point.copies]
    if point.copies_divide is not None:
        values.append(f"copies divide {point.copies_divide}")
    return hashlib.sha256(json.dumps(values, separators=(",", ":")).encode()).hexdigest()


@lru_cache(maxsize=4)
def _table(text: str) -> LatencyTable:
    return parse(_TABLE, json.loads(text), "latency_table")


@lru_cache(maxsize=256)
def machine_of(text: str, changes: Changes = _NO_CHANGES) -> Machine:
    """Return the hardware of a point: its document as JSON text, with the point's changes. Raises
    SpecError."""
    hardware = _changed(parse(_HARDWARE, json.loads(text), "hardware"), changes)
    return Machine(hardware, hashlib.sha256(json.dumps(hardware.to_dict()).encode()).hexdigest())


def read_sources(spec: Spec, where: str, folder: str, *, allow_partial: bool = False) -> Sources:
    """Read all networks and hardware of a spec; relative paths start from `folder`.

    where: the spec's name in messages. Raises SpecError naming the entry that is wrong.
    """
    table = ""
    if spec.latency_table is not None:
        with _entry(f"{where}: latency_table"):
            table = json.dumps(load_latency_table(os.path.join(folder, spec.latency_table)).to_dict())
    networks: list[NetworkText] = []
    for index, entry in enumerate(spec.networks):
        with _entry(f"{where}: networks[{index}]"):
            network = _read(partial(load, allow_partial=allow_partial), entry, folder)
            _check_new([(other.name, other.sha256) for other in networks], (network.name, network.sha256))
            text = json.dumps(network.to_dict(), separators=(",", ":"), ensure_ascii=False)
            networks.append(NetworkText(network.name, network.sha256, text, table))
    hardware: list[str] = []
    for index, entry in enumerate(spec.hardware):
        with _entry(f"{where}: hardware[{index}]"):
            machine = _read(load_hardware, entry, folder)
            for name in Changes._fields:
                for value in getattr(spec, LIST_OF[name]) or ():
                    _changed(machine, Changes(**{name: value}))
            text = json.dumps(machine.to_dict())
            _check_new(hardware, text)
            hardware.append(text)
    return Sources(tuple(networks), tuple(hardware))


def _changed(hardware: Hardware, changes: Changes) -> Hardware:
    """Return the hardware with another array, or other values; None keeps a value.

    Raises SpecError for a value of a table that the hardware does not have, or that contradicts others.
    """
    if changes.crossbar is not None:
        hardware = hardware.with_crossbar(*parse_crossbar(changes.crossbar))
    asked = ((name, getattr(changes, name)) for name in TABLES)
    given = {name: value for name, value in asked if value is not None}
    if not given:
        return hardware
    document = hardware.to_dict()
    for name, value in given.items():
        table = TABLES[name]
        if table not in document:
            words = f"hardware {hardware.name!r} has no [{table}] to change"
            raise SpecError(LIST_OF[name], words)
        document[table][name] = value
    if changes.clock == "shared":
        document["timing"].pop("tick_ns", None)  # there are no ticks then
    confirmed = {f"{TABLES[name]}.{name}" for name in given}
    document["unconfirmed"] = [name for name in hardware.unconfirmed if name not in confirmed]
    return parse(_HARDWARE, document, f"hardware {hardware.name[:60]!r}")


def _check_new(before: Sequence[object], latest: object) -> None:
    if latest in before:
        raise SpecError("", f"is the same as [{before.index(latest)}]: give every one once")


def _read(read: Callable[[str], T], entry: str, folder: str) -> T:
    """Read a file beside the spec, else what ships by that name."""
    beside = os.path.join(folder, entry)
    is_bare = os.path.basename(entry) == entry
    return read(entry if is_bare and not os.path.exists(beside) else beside)


@contextmanager
def _entry(where: str) -> Iterator[None]:
    """Name the entry of the spec in errors."""
    try:
        yield
    except RramallocError as error:
        raise SpecError(where, str(error).removeprefix(": ")) from None
