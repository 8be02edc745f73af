"""Spec: the lists of a sweep; Grid: the points that they span, with all that they name."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, lru_cache, partial
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, model_validator

from rramalloc.allocation.budgets import MOST_INPUTS, multiple
from rramalloc.allocation.limits import at_most_of
from rramalloc.choices import DEFAULT_WORK, MAX_ARRAYS, Divided, FullyConnected, SweptObjective
from rramalloc.choices import Mapping as MappingName
from rramalloc.errors import RramallocError, SpecError
from rramalloc.files import read_toml
from rramalloc.hardware.hardware import MAX_BITS, MAX_LINES, Hardware, Positive, parse_crossbar
from rramalloc.hardware.loader import DEFAULT_PRESET, load_hardware
from rramalloc.importers import load
from rramalloc.methods.registry import method_names
from rramalloc.records import MAX_WORK, Record, as_tuple, brief, fault, is_whole, parse
from rramalloc.timing.latency_table import LatencyTable, load_latency_table
from rramalloc.units import number_of
from rramalloc.version import __version__

MAX_POINTS = 10**7

LISTS = tuple(
    "networks hardware crossbars cell_bits bandwidths_gb_s weight_bits dac_bits columns_per_adc "
    "rows_per_read clock mappings fc arrays objectives methods seeds".split()
)
"""The lists whose product is the grid; the last one varies fastest."""
CHANGED = {
    "cell_bits": ("crossbar", "cell_bits"),
    "bandwidths_gb_s": ("memory", "bandwidth_gb_s"),
    "weight_bits": ("precision", "weight_bits"),
    "dac_bits": ("timing", "dac_bits"),
    "columns_per_adc": ("timing", "columns_per_adc"),
    "rows_per_read": ("timing", "rows_per_read"),
    "clock": ("timing", "clock"),
}
"""Table and name of the value of a hardware that a list replaces, as `crossbars` replaces the whole array."""
Changes = tuple[tuple[str, Any], ...]
"""Lists that replace values of a hardware, each with its value at a point, None to keep that of the hardware.
"""


def _listed(value: Any) -> Any:
    """Return a list as a tuple, and a single value as a tuple of one."""
    value = as_tuple(value)
    return value if isinstance(value, tuple) else (value,)


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


class Spec(Record):
    """Lists whose product is the grid; one value stands for a list of one.

    networks: files or shipped names; arrays: budgets, or "x2" for twice the minimum of the network on the
    hardware, rounded down.

    crossbars, cell_bits, bandwidths_gb_s, weight_bits, dac_bits, columns_per_adc, rows_per_read, clock:
    replace what the hardware says, None to keep it; hardware: presets or files; zip: groups of lists that
    advance together instead of making a product; work: units of search of each point; inputs: how many
    stream, whose time the objective latency then is; at_most: limits of quantities by their names;
    copies, copies_divide, host: as those of `optimize`, of layers that every network has;
    latency_table: file of measured step times of all points, instead of those of the hardware.
    Raises SpecError.
    """

    name: Annotated[str, Field(max_length=200)] = ""
    networks: Annotated[tuple[_Text, ...], *_Values]
    arrays: Annotated[tuple[Annotated[int | str, BeforeValidator(_arrays)], ...], *_Values]
    crossbars: Annotated[tuple[Annotated[str, BeforeValidator(_crossbar)], ...], *_Values] | None = None
    methods: Annotated[tuple[Annotated[str, BeforeValidator(_method)], ...], *_Values] = ("auto",)
    hardware: Annotated[tuple[_Text, ...], *_Values] = (DEFAULT_PRESET,)
    mappings: Annotated[tuple[MappingName, ...], *_Values] = ("im2col",)
    cell_bits: _Bits | None = None
    objectives: Annotated[tuple[SweptObjective, ...], *_Values] = ("latency",)
    bandwidths_gb_s: Annotated[tuple[Positive, ...], *_Values] | None = None
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
    host: Annotated[tuple[_Text, ...], BeforeValidator(_listed)] | None = None
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

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Values of each group."""
        return tuple(len(getattr(self, group[0])) for group in self.groups)

    @property
    def size(self) -> int:
        """Points of the grid, by multiplication."""
        return math.prod(self.lengths)

    def describe_size(self) -> str:
        """Return the size and its factors: "12 points: 2 networks x 6 arrays"."""
        factors = [
            f"{length} {group[0] if len(group) == 1 else '(' + ', '.join(group) + ')'}"
            for group, length in zip(self.groups, self.lengths, strict=True)
            if length > 1
        ]
        points = number_of(self.size, "point")
        return f"{points}: {' x '.join(factors)}" if factors else points

    def places(self, number: int) -> dict[str, int]:
        """Return the place in its list of every value of a point, in mixed radix; numbers count from 0."""
        places = dict.fromkeys(LISTS, 0)
        for group, length in zip(reversed(self.groups), reversed(self.lengths), strict=True):
            number, place = divmod(number, length)
            places |= dict.fromkeys(group, place)
        return places


_SPEC: TypeAdapter[Spec] = TypeAdapter(Spec)
_HARDWARE: TypeAdapter[Hardware] = TypeAdapter(Hardware)
_TABLE: TypeAdapter[LatencyTable] = TypeAdapter(LatencyTable)
T = TypeVar("T")


def read_spec(spec: str | os.PathLike[str] | Mapping[str, Any]) -> tuple[Spec, str, str]:
    """Read the spec, its name in messages, and the folder that its relative paths start from.

    Raises FileError, SpecError.
    """
    if isinstance(spec, Mapping):
        return parse(_SPEC, dict(spec), "sweep"), "sweep", ""
    where = os.fspath(spec)
    return parse(_SPEC, read_toml(spec), where), where, os.path.dirname(where)


class SweptCase(NamedTuple):
    """What points share that differ in budget, objective, method or seed alone, in plain values.

    network, network_sha256: its name and the hash of its graph; network_json, hardware_json, table_json: the
    documents, the hardware with all changes, the table of measured steps empty if there is none.
    """

    network: str
    network_sha256: str
    network_json: str
    hardware_json: str
    table_json: str
    mapping: str
    fc: str
    at_most: tuple[tuple[str, float], ...]
    copies: tuple[str, ...]
    copies_divide: Divided | None
    host: tuple[str, ...] = ()

    @property
    def hardware(self) -> Hardware:
        """The hardware with all changes."""
        return hardware_of(self.hardware_json)

    @property
    def table(self) -> LatencyTable | None:
        """Step times of the layers, None if those of the hardware hold."""
        return _table(self.table_json) if self.table_json else None


class SweepPoint(NamedTuple):
    """One point of the grid. arrays: a number, or a multiple of the minimum such as "x2"."""

    case: SweptCase
    arrays: int | str
    objective: str
    method: str
    seed: int
    work: int
    inputs: int

    @property
    def key(self) -> str:
        """Hash of everything that the row depends on: two sweeps share a row if they share its key."""
        case = self.case
        machine = hashlib.sha256(case.hardware_json.encode()).hexdigest()
        asked = (case.mapping, case.fc, self.arrays, self.objective, self.method, self.seed, self.work)
        values = [__version__, case.network, case.network_sha256, machine, *asked]
        values += [] if case.table is None else [case.table.sha256]
        values += [f"{self.inputs} inputs"] if self.inputs > 1 else []
        values += [f"{name}={limit!r}" for name, limit in case.at_most]
        values += [f"copies {limit}" for limit in case.copies]
        values += [] if case.copies_divide is None else [f"copies divide {case.copies_divide}"]
        values += [f"host {layer}" for layer in case.host]
        return hashlib.sha256(json.dumps(values, separators=(",", ":")).encode()).hexdigest()


@lru_cache(maxsize=256)
def hardware_of(text: str) -> Hardware:
    """Return the hardware of a document as JSON."""
    return parse(_HARDWARE, json.loads(text), "hardware")


@lru_cache(maxsize=4)
def _table(text: str) -> LatencyTable:
    return parse(_TABLE, json.loads(text), "latency_table")


@lru_cache(maxsize=256)
def _changed_json(text: str, changes: Changes) -> str:
    return json.dumps(_changed(hardware_of(text), changes).to_dict())


class Grid(NamedTuple):
    """The points of a spec. networks: name, hash and document of each; hardware, table: documents as JSON."""

    spec: Spec
    networks: tuple[tuple[str, str, str], ...]
    hardware: tuple[str, ...]
    table: str

    @classmethod
    def read(cls, spec: Spec, where: str, folder: str, *, allow_partial: bool = False) -> Grid:
        """Read all that a spec names; relative paths start from `folder`.

        where: the spec's name in messages. Raises SpecError naming the entry that is wrong.
        """
        table = ""
        if spec.latency_table is not None:
            with _entry(f"{where}: latency_table"):
                table = json.dumps(load_latency_table(os.path.join(folder, spec.latency_table)).to_dict())
        networks: dict[tuple[str, str], str] = {}
        for index, entry in enumerate(spec.networks):
            with _entry(f"{where}: networks[{index}]"):
                network = _read(partial(load, allow_partial=allow_partial), entry, folder)
                text = json.dumps(network.to_dict(), separators=(",", ":"), ensure_ascii=False)
                _add(networks, (network.name, network.sha256), text)
        hardware: dict[str, None] = {}
        for index, entry in enumerate(spec.hardware):
            with _entry(f"{where}: hardware[{index}]"):
                machine = _read(load_hardware, entry, folder)
                for name in ("crossbars", *CHANGED):
                    for value in getattr(spec, name) or ():
                        _changed(machine, ((name, value),))
                _add(hardware, json.dumps(machine.to_dict()), None)
        return cls(spec, tuple((*named, text) for named, text in networks.items()), tuple(hardware), table)

    def point(self, number: int) -> SweepPoint:
        """Return the point of a number from 0. Raises SpecError where its values contradict each other."""
        places = self.spec.places(number)
        values: dict[str, Any] = {
            name: (getattr(self.spec, name) or (None,))[place] for name, place in places.items()
        }
        changes = tuple((name, values[name]) for name in ("crossbars", *CHANGED))
        case = SweptCase(
            *self.networks[places["networks"]],
            _changed_json(self.hardware[places["hardware"]], changes),
            self.table,
            mapping=values["mappings"],
            fc=values["fc"],
            at_most=tuple((name, float(limit)) for name, limit in (self.spec.at_most or {}).items()),
            copies=self.spec.copies or (),
            copies_divide=self.spec.copies_divide,
            host=self.spec.host or (),
        )
        asked = [values[name] for name in ("arrays", "objectives", "methods", "seeds")]
        return SweepPoint._make((case, *asked, self.spec.work, self.spec.inputs or 1))

    def points(self) -> Iterator[SweepPoint]:
        """Yield all points in the order of the grid."""
        return map(self.point, range(self.spec.size))


def _changed(hardware: Hardware, changes: Changes) -> Hardware:
    """Return the hardware with some values replaced.

    Raises SpecError for a value of a table that the hardware does not have, or that contradicts others.
    """
    given = {name: value for name, value in changes if value is not None}
    if "crossbars" in given:
        hardware = hardware.with_crossbar(*parse_crossbar(given.pop("crossbars")))
    if not given:
        return hardware
    document = hardware.to_dict()
    for name, value in given.items():
        table, field = CHANGED[name]
        if table not in document:
            raise SpecError(name, f"hardware {hardware.name!r} has no [{table}] to change")
        document[table][field] = value
    if given.get("clock") == "shared":
        document["timing"].pop("tick_ns", None)  # there are no ticks then
    confirmed = {".".join(CHANGED[name]) for name in given}
    document["unconfirmed"] = [name for name in hardware.unconfirmed if name not in confirmed]
    return parse(_HARDWARE, document, f"hardware {hardware.name[:60]!r}")


def _add(entries: dict[Any, Any], key: object, value: object) -> None:
    if key in entries:
        raise SpecError("", f"is the same as [{list(entries).index(key)}]: give every one once")
    entries[key] = value


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
