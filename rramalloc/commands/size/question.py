"""The question of `size`: networks with goals, and choices of the hardware (docs/sources/model.md 20)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, TypeAdapter, model_validator

from rramalloc.allocation.question import TARGETS, QuestionFields
from rramalloc.choices import DEFAULT_WORK, FullyConnected
from rramalloc.choices import Mapping as MappingName
from rramalloc.errors import RramallocError, SpecError
from rramalloc.files import beside, read_toml
from rramalloc.hardware.axes import Axes, chosen_hardware
from rramalloc.hardware.components import NM2_PER_UM2, array_area_nm2, in_tiles_nm2
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.kinds import MOST_KINDS
from rramalloc.hardware.loader import as_hardware
from rramalloc.hardware.preset_files import DEFAULT_PRESET, shipped_preset
from rramalloc.hardware.values import values_of
from rramalloc.network.network import Network
from rramalloc.records import MAX_WORK, Record, as_tuple, brief, fault, listed, parse

Minimised = Literal["area_um2", "arrays"]
Stored = Literal["one", "all"]
MOST_CANDIDATES = 10_000  # by default: at a second of search each they take three hours on a core
_HARDWARE = "hardware"
"""Name of the choice that is a whole hardware."""
_ARRAYS_PER_TILE = "chip.arrays_per_tile"
_SITES = MOST_KINDS
"""Placeholder for the number of tiles, which `size` finds: one of every kind."""


_Texts = Annotated[tuple[str, ...], BeforeValidator(listed)]


def _network(value: Any) -> Any:
    if not isinstance(value, str | os.PathLike | Network):
        raise fault("must be a file or the name of a shipped network")
    return value


_SOURCES = (str, os.PathLike, Mapping, Hardware)
_NO_HARDWARE = "must be a file, the name of a preset, or a table of a file's form"


def _hardware(value: Any) -> Any:
    if not isinstance(value, _SOURCES):
        raise fault(_NO_HARDWARE)
    return value


class SizedNetwork(QuestionFields):
    """A network and its goal, one of the targets of `optimize`.

    network: a file or a shipped name, or a Network; the others are options of `optimize`.
    """

    network: Annotated[Any, BeforeValidator(_network)]
    mapping: MappingName = "im2col"
    fc: FullyConnected = "host"

    @model_validator(mode="after")
    def _one_goal(self) -> Self:
        if len(self.goal) != 1:
            words = "must be exactly one of target, target_ns, target_interval and target_throughput"
            raise fault(f"goal: {words}, got {' and '.join(self.goal) or 'none'}")
        return self

    @property
    def options(self) -> dict[str, Any]:
        """Options of `optimize` beside the network and its target."""
        return {
            name: getattr(self, name)
            for name in type(self).model_fields
            if name != "network" and name not in TARGETS
        }


class SizeQuestion(Record):
    """The question of `size`: which chip is sought, for which networks.

    minimise: the area of the chip, or its number of arrays; stored: "one" network at a time, which run in
    turn, or "all" of them; hardware: a file or preset; set_values: values of it that every candidate has, as
    `--set` takes them; networks: with their goals;
    choose: values by dotted name, `crossbar` for rows and columns together, `hardware` for whole files or
    presets; zip: groups of these lists that advance together; work: units of search of a network on one
    candidate at most; most_candidates: above which nothing is searched; placed: whether goals are to be
    reached with the transfers between the tiles of a placement.
    Raises SpecError.
    """

    minimise: Minimised = "area_um2"
    stored: Stored = "one"
    hardware: Annotated[Any, BeforeValidator(_hardware)] = DEFAULT_PRESET
    networks: Annotated[tuple[SizedNetwork, ...], BeforeValidator(as_tuple), Field(min_length=1)]
    set_values: _Texts = ()
    choose: dict[str, Annotated[tuple[Any, ...], BeforeValidator(listed), Field(min_length=1)]] = Field(
        default_factory=dict
    )
    zip: Annotated[tuple[_Texts, ...], BeforeValidator(as_tuple)] = ()
    work: Annotated[int, Field(ge=1, le=MAX_WORK)] = DEFAULT_WORK
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = 0
    most_candidates: Annotated[int, Field(ge=1, le=10**6)] = MOST_CANDIDATES
    placed: bool = False

    @model_validator(mode="after")
    def _tied(self) -> Self:
        unknown = [name for group in self.zip for name in group if name not in self.choose]
        if unknown:
            known = ", ".join(self.choose)
            raise fault(f"zip: {brief(unknown[0])} is not in choose; known: {known}")
        for value in self.choose.get(_HARDWARE, ()):
            if not isinstance(value, _SOURCES):
                raise fault(f"choose.hardware: {_NO_HARDWARE}, got {brief(value)}")
        try:
            self.axes.check(self.choose, self.choose)
        except SpecError as error:
            raise fault(f"zip: {error.reason}") from None
        if self.size > self.most_candidates:
            words = f"choose: gives {self.size:,} candidates, the limit is {self.most_candidates:,}"
            raise fault(f"{words}: leave values out, tie lists with zip, or raise most_candidates")
        return self

    @cached_property
    def axes(self) -> Axes:
        """The lists of `choose`, whose product the candidates are."""
        return Axes(self.choose, self.zip)

    @property
    def size(self) -> int:
        """Number of candidates: the product of the lengths of all axes."""
        return self.axes.size

    def candidates(self, folder: str) -> Iterator[tuple[dict[str, Any], Hardware]]:
        """Yield the values of every candidate by name and its hardware, in the order of the choices.

        Raises RramallocError, naming the choices.
        """
        loaded = dict[int, Hardware]()  # by the place of its choice: files are read once
        for number in range(self.size):
            places = self.axes.places(number)
            choices = self.axes.values(places)
            yield choices, self._hardware_of(choices, folder, loaded, places.get(_HARDWARE, 0))

    def _hardware_of(
        self, choices: dict[str, Any], folder: str, loaded: dict[int, Hardware], place: int
    ) -> Hardware:
        values = {name: value for name, value in choices.items() if name != _HARDWARE}
        remedy = "tie lists of {fields} to those of crossbar with zip"
        try:
            if place not in loaded:
                base = beside(folder, choices.get(_HARDWARE, self.hardware), shipped_preset)
                given = _with_tiles(values_of(self.set_values))
                per_tile = {**given, **values}.get(_ARRAYS_PER_TILE)
                of_chip = (
                    {"tiles": _SITES}
                    if per_tile in (None, "none")
                    else {"tiles": _SITES, "arrays_per_tile": per_tile}
                )
                loaded[place] = as_hardware(base, None, given, of_chip=of_chip)
            return chosen_hardware(loaded[place], _with_tiles(values), remedy)
        except SpecError as error:
            if not choices:
                raise
            shown = ", ".join(f"{name} = {value}" for name, value in choices.items())
            raise SpecError(f"choose ({shown[:200]})", str(error).removeprefix(": ")) from None


def _with_tiles(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with a placeholder number of tiles beside the arrays of each: `size` finds the number."""
    is_given = values.get(_ARRAYS_PER_TILE, "none") not in (None, "none")
    return {"chip.tiles": _SITES, **values} if is_given else dict(values)


MILLIONTHS = NM2_PER_UM2
"""Parts of a um2 or an array in which costs are counted, so that their sums are exact."""


def costs_of_kinds(hardware: Hardware, minimise: Minimised) -> tuple[tuple[int, int], ...]:
    """Return the cost of a tile of every kind, of an array without [chip], and the arrays that it holds."""
    costs = list[tuple[int, int]]()
    for own in hardware.each_kind:
        arrays = 1 if own.chip is None else own.chip.arrays_per_tile
        area_nm2 = in_tiles_nm2(own, arrays, arrays * (array_area_nm2(own) or 0))
        costs.append((arrays * MILLIONTHS if minimise == "arrays" else area_nm2, arrays))
    return tuple(costs)


def cost_of_tiles(hardware: Hardware, minimise: Minimised, tiles: Sequence[int]) -> float:
    """Return the um2 or arrays of so many tiles of every kind; arrays without [chip]."""
    costs = costs_of_kinds(hardware, minimise)
    return sum(number * cost for number, (cost, _) in zip(tiles, costs, strict=True)) / MILLIONTHS


_QUESTION: TypeAdapter[SizeQuestion] = TypeAdapter(SizeQuestion)


def read_question(spec: str | os.PathLike[str] | Mapping[str, Any]) -> tuple[SizeQuestion, str]:
    """Return the question of a TOML file, or of a dict of its form, and the folder of its relative paths.

    Raises FileError, SpecError.
    """
    where = "size" if isinstance(spec, Mapping) else os.fspath(spec)
    document = dict(spec) if isinstance(spec, Mapping) else read_toml(where)
    question = parse(_QUESTION, document, where)
    folder = os.path.dirname(where)
    networks = tuple(network.beside(folder) for network in question.networks)
    return question.model_copy(update={"networks": networks}), folder


_BETWEEN_VALUES = re.compile(r",(?![^\[]*\])")
"""Commas but those of a list in brackets."""


def values_to_choose(texts: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Return {"crossbar": ("64x64", "128x128")} from ["crossbar=64x64,128x128"]. Raises SpecError."""
    chosen = dict[str, tuple[Any, ...]]()
    for text in texts:
        name, equals, values = text.partition("=")
        name = name.strip()
        if not equals or not name or not values:
            raise SpecError("choose", f"must be FIELD=V,V such as crossbar=64x64,128x128, got {brief(text)}")
        if name in chosen:
            raise SpecError("choose", f"{brief(name)} is given twice: give all its values at once")
        try:
            options = _BETWEEN_VALUES.split(values)
            chosen[name] = tuple(values_of([f"v={value}"], "choose")["v"] for value in options)
        except RramallocError as error:
            raise SpecError("choose", f"{brief(text)}: {error}") from None
    return chosen
