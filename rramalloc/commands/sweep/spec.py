"""Spec: the lists of a sweep; Grid: the points that they span, with networks and hardware."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, lru_cache
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter, model_validator

from rramalloc.allocation.budgets import MOST_INPUTS, multiple
from rramalloc.allocation.question import QuestionFields
from rramalloc.choices import DEFAULT_WORK, MAX_ARRAYS, Divided, FullyConnected, SweptObjective
from rramalloc.choices import Mapping as MappingName
from rramalloc.errors import RramallocError, SpecError, suggestion
from rramalloc.files import beside, read_toml
from rramalloc.frozen import FrozenDict
from rramalloc.hardware.axes import Axes, chosen_hardware
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.kinds import numbers_of_kinds
from rramalloc.hardware.loader import as_hardware
from rramalloc.hardware.preset_files import DEFAULT_PRESET, shipped_preset
from rramalloc.hardware.tables import MAX_BITS, MAX_LINES, Positive, parse_crossbar
from rramalloc.hardware.values import dotted_names, is_value
from rramalloc.importers import load
from rramalloc.methods.registry import method_names
from rramalloc.network.network import Network
from rramalloc.network.shipped import shipped_network
from rramalloc.records import MAX_WORK, brief, fault, is_whole, listed, parse
from rramalloc.timing.latency_table import LatencyTable
from rramalloc.units import number_of
from rramalloc.version import __version__

MAX_POINTS = 10**7  # the database of the folder has a key of 64 letters for each

LISTS = tuple(
    "networks hardware crossbars cell_bits bandwidths_gb_s weight_bits dac_bits columns_per_adc "
    "rows_per_read clock mappings fc arrays objectives methods seeds".split()
)
"""The lists whose product is the grid; the last one varies fastest."""
_BEFORE = "mappings"
"""List before which those of values by dotted name stand."""
SPELLED = {
    "crossbars": "crossbar",
    "cell_bits": "crossbar.cell_bits",
    "bandwidths_gb_s": "memory.bandwidth_gb_s",
    "weight_bits": "precision.weight_bits",
    "dac_bits": "timing.dac_bits",
    "columns_per_adc": "timing.columns_per_adc",
    "rows_per_read": "timing.rows_per_read",
    "clock": "timing.clock",
}
"""Value of the hardware that each list without a dotted name replaces."""
Cell = int | float | str
"""Value of a list as a row has it."""


def _repeated(values: tuple[Any, ...]) -> list[Any]:
    """Return the values that stand twice; "x2" is "x2.0"."""
    seen, again = set[Any](), list[Any]()
    for value in values:
        factor = multiple(value) if isinstance(value, str) else None
        key = (value if value.__hash__ else json.dumps(value),) if factor is None else factor
        if key in seen:
            again.append(value)
        seen.add(key)
    return again


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if again := _repeated(values):
        raise fault(f"{brief(again[0])} stands twice: give every value once")
    return values


def _arrays(value: Any) -> Any:
    if value is None:
        return value
    if isinstance(value, str) and "=" in value:
        numbers_of_kinds(value)  # raises for another form
    elif isinstance(value, str):
        factor = multiple(value)
        if factor is None or factor < 1:
            raise fault('must be a number of arrays, or "x2" for twice the minimum, at least "x1"')
    elif not is_whole(value, 1, MAX_ARRAYS):
        raise fault(f'must be a number of arrays from 1 to {MAX_ARRAYS}, or a multiple such as "x2"')
    return value


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
_Values = (BeforeValidator(listed), Field(min_length=1), AfterValidator(_distinct))
_Bits = Annotated[tuple[Annotated[int, Field(ge=1, le=MAX_BITS)], ...], *_Values]
_Lines = Annotated[tuple[Annotated[int, Field(ge=1, le=MAX_LINES)], ...], *_Values]


class Spec(QuestionFields):
    """Lists whose product is the grid; one value stands for a list of one.

    networks: files or shipped names; arrays: budgets, or "x2" for twice the minimum of the network on the
    hardware, rounded down, or the numbers of kinds, "small=512,large=64"; left out, those that the kinds or
    the chip of the hardware have.

    crossbars, cell_bits, bandwidths_gb_s, weight_bits, dac_bits, columns_per_adc, rows_per_read, clock:
    replace what the hardware says, None to keep it, and so does a list called by the dotted name of any value
    ("timing.adc_ns"), of which "none" takes it away; hardware: presets, files, or tables of their form;
    zip: groups of lists that advance together instead of making a product; work: units of search of each
    point; inputs: how many stream, whose time the objective latency then is; at_most: limits of quantities by
    their names; copies, host and others: as those of `optimize`, of layers that every network has;
    latency_table: measured step times of all points instead of those of the hardware; a target makes the
    objective "arrays"; placed: whether transfers between the tiles of a placement count; arrays: also numbers
    of kinds, left out all that the chip or the kinds have.
    Raises SpecError.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Annotated[tuple[Any, ...], BeforeValidator(listed), Field(min_length=1)]]

    name: Annotated[str, Field(max_length=200)] = ""
    networks: Annotated[tuple[_Text, ...], *_Values]
    arrays: Annotated[tuple[Annotated[int | str | None, BeforeValidator(_arrays)], ...], *_Values] = (None,)
    crossbars: Annotated[tuple[Annotated[str, BeforeValidator(_crossbar)], ...], *_Values] | None = None
    methods: Annotated[tuple[Annotated[str, BeforeValidator(_method)], ...], *_Values] = ("auto",)
    hardware: Annotated[tuple[_Text | dict[str, Any], ...], *_Values] = (DEFAULT_PRESET,)
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
    bits: _Text | None = None
    bits_layers: _Text | None = None
    sensitivity: Annotated[float, Field(ge=0)] | None = None
    placed: bool = False
    zip: Annotated[
        tuple[Annotated[tuple[str, ...], BeforeValidator(listed)], ...], BeforeValidator(listed)
    ] = ()

    @model_validator(mode="before")
    @classmethod
    def _singular(cls, document: Any) -> Any:
        """Accept `mapping` in place of `mappings`, and tables of TOML for dotted names."""
        if not isinstance(document, dict):
            return document
        flat = dict[Any, Any]()
        for name, value in document.items():
            is_table = name in Hardware.model_fields and isinstance(value, dict)
            flat |= _dotted(name, value) if is_table else {name: value}
        if "mapping" in flat and "mappings" not in flat:
            return {"mappings" if name == "mapping" else name: value for name, value in flat.items()}
        return flat

    @model_validator(mode="after")
    def _tied(self) -> Self:
        changed = dict[str, str]()
        for name in self.dotted:
            if not is_value(name):
                hint = suggestion(name, (*type(self).model_fields, *dotted_names()))
                raise fault(f"{brief(name)[1:-1]}: this field is not known{', ' if hint else ''}{hint}")
            if again := [] if any(name in group for group in self.zip) else _repeated(getattr(self, name)):
                raise fault(f"{name}: {brief(again[0])} stands twice: give every value once")
        for name in self.of_hardware:
            other = changed.setdefault(SPELLED.get(name, name), name)
            if other != name:
                raise fault(f"{name} and {other} are lists of the same value: give one of them")
        if not {"arrays", "hardware"} & self.model_fields_set:
            raise fault("arrays: this field is missing: give budgets, or hardware with kinds or a chip")
        if any(len(group) < 2 for group in self.zip):
            raise fault("zip: a group ties at least two lists: [['networks', 'arrays']]")
        try:
            self.axes.check(self.model_fields_set, LISTS)
        except SpecError as error:
            raise fault(f"zip: {error.reason}") from None
        if self.size > MAX_POINTS:
            raise fault(
                f"the lists make {brief(self.size)} points, the limit is {MAX_POINTS}: split the sweep"
            )
        return self

    @property
    def dotted(self) -> tuple[str, ...]:
        """Lists that are called by the dotted names of values of the hardware."""
        return tuple(self.__pydantic_extra__ or ())

    @cached_property
    def of_hardware(self) -> tuple[str, ...]:
        """Lists that are given of values of the hardware."""
        return tuple(name for name in self.axes.lists if name in SPELLED or name in self.dotted)

    @cached_property
    def axes(self) -> Axes:
        """The lists that are given, in the order of the product."""
        place = LISTS.index(_BEFORE)
        names = (*LISTS[:place], *self.dotted, *LISTS[place:])
        lists = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return Axes(FrozenDict(lists), self.zip)

    @property
    def size(self) -> int:
        """Number of points of the grid: the product of the lengths of all axes."""
        return self.axes.size

    def describe_size(self) -> str:
        """Return the size and its factors: "12 points: 2 networks x 6 arrays"."""
        factors = [
            f"{length} {group[0] if len(group) == 1 else '(' + ', '.join(group) + ')'}"
            for group, length in zip(self.axes.groups, self.axes.lengths, strict=True)
            if length > 1
        ]
        points = number_of(self.size, "point")
        return f"{points}: {' x '.join(factors)}" if factors else points

    def kind(self, name: str) -> type[Cell]:
        """Return the type of the column of a list: text where the values are not all numbers or all flags."""
        kinds = {type(value) for value in getattr(self, name)}
        return next(
            (kind for kind in (bool, int) if kinds == {kind}), float if kinds <= {int, float} else str
        )

    def cell(self, name: str, value: object) -> Cell:
        """Return a value of a list as rows have it."""
        if isinstance(value, int | float) and self.kind(name) is not str:
            return value
        return value if isinstance(value, str) else json.dumps(value)

    def changes(self, values: Mapping[str, object]) -> dict[str, object]:
        """Return the values of the hardware among those of a point, by dotted name."""
        return {SPELLED.get(name, name): values[name] for name in self.of_hardware}


def _dotted(name: str, value: Any) -> dict[str, Any]:
    """Return the lists in a table, and in the tables in it, by dotted name."""
    if not isinstance(value, dict):
        return {name: value}
    flat = dict[str, Any]()
    for field, inner in value.items():
        flat |= _dotted(f"{name}.{field}", inner)
    return flat


_SPEC: TypeAdapter[Spec] = TypeAdapter(Spec)
_HARDWARE: TypeAdapter[Hardware] = TypeAdapter(Hardware)
_TABLE: TypeAdapter[LatencyTable] = TypeAdapter(LatencyTable)


def read_spec(spec: str | os.PathLike[str] | Mapping[str, Any]) -> tuple[Spec, str, str]:
    """Read the spec, its name in messages, and the folder that its relative paths start from.

    Raises FileError, SpecError.
    """
    if isinstance(spec, Mapping):
        return parse(_SPEC, dict(spec), "sweep"), "sweep", ""
    where = os.fspath(spec)
    return parse(_SPEC, read_toml(spec), where), where, os.path.dirname(where)


class SweptCase(NamedTuple):
    """Common part, in plain values, of points that differ only in budget, objective, method or seed.

    network, network_sha256: its name and the hash of its graph; network_json, hardware_json, table_json: the
    documents, the hardware with all changes, the table of measured steps empty if there is none; dotted: what
    the lists called by dotted names give, as rows have it; more: options that are given beside these.
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
    dotted: tuple[tuple[str, Cell], ...] = ()
    more: tuple[tuple[str, Any], ...] = ()

    @property
    def hardware(self) -> Hardware:
        """The hardware with all changes."""
        return named_hardware(self.hardware_json)

    @property
    def table(self) -> LatencyTable | None:
        """Step times of the layers, None if those of the hardware hold."""
        return _table(self.table_json) if self.table_json else None


class SweepPoint(NamedTuple):
    """One point of the grid.

    arrays: a number, a multiple of the minimum such as "x2", numbers of kinds; None: the hardware's.
    """

    case: SweptCase
    arrays: int | str | None
    objective: str
    method: str
    seed: int
    work: int
    inputs: int

    @property
    def call(self) -> tuple[Any, ...]:
        """The function that a worker calls, and what it is given."""
        return "rramalloc.commands.sweep.compute:compute_row", __version__, tuple(self.case), *self[1:]

    @property
    def key(self) -> str:
        """Hash of everything that the row depends on: two sweeps share a row if they share its key."""
        table = self.case.table.sha256 if self.case.table else ""  # documents are known by their hashes
        case = self.case._replace(network_json="", table_json=table)
        values = [__version__, *(case if case.more else case[:-1]), *self[1:]]
        return hashlib.sha256(json.dumps(values, separators=(",", ":")).encode()).hexdigest()


@lru_cache(maxsize=256)
def named_hardware(text: str) -> Hardware:
    """Return the hardware of a document as JSON."""
    return parse(_HARDWARE, json.loads(text), "hardware")


@lru_cache(maxsize=4)
def _table(text: str) -> LatencyTable:
    return parse(_TABLE, json.loads(text), "latency_table")


@lru_cache(maxsize=256)
def _chosen_json(text: str, values: str) -> str:
    """Return a hardware with values by dotted name, all as JSON. Raises SpecError."""
    return json.dumps(chosen_hardware(named_hardware(text), json.loads(values)).to_dict())


@lru_cache(maxsize=256)
def _bits_json(path: str, layers: str | None, network: str, hardware: str) -> str:
    """Return the choices of bits for a network on a hardware, all as JSON. Raises FileError, SpecError."""
    source = Network.from_document(json.loads(network), "sweep")
    from rramalloc.allocation.bit_policy import read_bits  # which imports numba: few sweeps choose bits

    table = read_bits(path, layers, source, named_hardware(hardware).precision)
    return json.dumps(table.choices)


class Grid(NamedTuple):
    """The points of a spec. networks: name, hash and document of each; hardware, table: documents as JSON.

    folder: that relative paths start from.
    """

    spec: Spec
    networks: tuple[tuple[str, str, str], ...]
    hardware: tuple[str, ...]
    table: str
    folder: str

    @classmethod
    def read(cls, spec: Spec, where: str, folder: str, *, allow_partial: bool = False) -> Grid:
        """Read all that a spec names; relative paths start from `folder`.

        where: the spec's name in messages. Raises SpecError naming the entry that is wrong.
        """
        table = ""
        if spec.latency_table is not None:
            with _entry(f"{where}: latency_table"):
                table = json.dumps(spec.beside(folder).latency_table)
        networks: dict[tuple[str, str], str] = {}
        for index, entry in enumerate(spec.networks):
            with _entry(f"{where}: networks[{index}]"):
                partly = allow_partial or spec.allow_partial
                source = beside(folder, entry, shipped_network)
                network = load(source, allow_partial=partly, host=spec.host or ())
                network.in_turns(spec.feeds_back, spec.sequences, spec.states)
                text = json.dumps(network.to_dict(), separators=(",", ":"), ensure_ascii=False)
                _add(networks, (network.name, network.sha256), text)
        hardware: dict[str, None] = {}
        for index, given in enumerate(spec.hardware):
            with _entry(f"{where}: hardware[{index}]"):
                machine = as_hardware(beside(folder, given, shipped_preset))
                if None in spec.arrays and machine.kinds is None and machine.chip is None:
                    raise SpecError("arrays", "must be given: the hardware has no kinds and no [chip]")
                text = json.dumps(machine.to_dict())
                for values in spec.axes.around_first(spec.of_hardware):
                    _chosen_json(text, json.dumps(spec.changes(values)))
                _add(hardware, text, None)
        return cls(
            spec, tuple((*named, text) for named, text in networks.items()), tuple(hardware), table, folder
        )

    def point(self, number: int) -> SweepPoint:
        """Return the point of a number from 0. Raises SpecError where its values contradict each other."""
        places = self.spec.axes.places(number)
        values: dict[str, Any] = self.spec.axes.values(places)
        network = self.networks[places["networks"]]
        hardware = _chosen_json(self.hardware[places["hardware"]], json.dumps(self.spec.changes(values)))
        case = SweptCase(
            *network,
            hardware,
            self.table,
            mapping=values["mappings"],
            fc=values["fc"],
            at_most=tuple((name, float(limit)) for name, limit in (self.spec.at_most or {}).items()),
            copies=self.spec.copies or (),
            copies_divide=self.spec.copies_divide,
            host=self.spec.host or (),
            dotted=tuple((name, self.spec.cell(name, values[name])) for name in self.spec.dotted),
            more=self._more(network, hardware),
        )
        if self.spec.goal and "objectives" not in self.spec.model_fields_set:
            values["objectives"] = "arrays"
        asked = [values[name] for name in ("arrays", "objectives", "methods", "seeds")]
        return SweepPoint._make((case, *asked, self.spec.work, self.spec.inputs or 1))

    def _more(self, network: tuple[str, str, str], hardware: str) -> tuple[tuple[str, Any], ...]:
        """Return options that are given beside those that every sweep has, as plain values."""
        spec = self.spec
        given: dict[str, Any] = {"fold": spec.fold or None, **spec.goal}
        given |= {"feeds_back": spec.feeds_back, "sequences": spec.sequences, "placed": spec.placed or None}
        given["states"] = None if spec.states is None else tuple(spec.states.items())
        if spec.bits is not None:
            layers = spec.bits_layers and os.path.join(self.folder, spec.bits_layers)
            given["bits"] = _bits_json(os.path.join(self.folder, spec.bits), layers, network[2], hardware)
            given["sensitivity"] = spec.sensitivity
        return tuple((name, value) for name, value in given.items() if value is not None)

    def points(self) -> Iterator[SweepPoint]:
        """Yield all points in the order of the grid."""
        return map(self.point, range(self.spec.size))


def _add(entries: dict[Any, Any], key: object, value: object) -> None:
    if key in entries:
        raise SpecError("", f"is the same as [{list(entries).index(key)}]: give every one once")
    entries[key] = value


@contextmanager
def _entry(where: str) -> Iterator[None]:
    """Name the entry of the spec in errors."""
    try:
        yield
    except RramallocError as error:
        raise SpecError(where, str(error).removeprefix(": ")) from None
