"""Allocation: the result of an optimisation, as it is shown and as it is kept (INTERFACE.md)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import Field, SerializerFunctionWrapHandler, TypeAdapter, model_serializer

from rramalloc.errors import SpecError
from rramalloc.files import read_json, to_json, write_text
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.demand import Mapping
from rramalloc.network.node import Name
from rramalloc.records import Record, brief, from_list, parse
from rramalloc.timing.measured_steps import MeasuredSteps

if TYPE_CHECKING:
    import pandas as pd

FORMAT: Literal["rramalloc-allocation/1"] = "rramalloc-allocation/1"
Steps = Annotated[int, Field(ge=0, le=2**53)]
Count = Annotated[int, Field(ge=1, le=2**53)]
Product = Annotated[int, Field(ge=1)]
"""Product of counts, which may be beyond 2**53: Python reads such integers exactly."""


class NetworkId(Record):
    """Which network an allocation belongs to; sha256 is of the graph, not of the file it came in."""

    name: str
    sha256: str


class Options(Record):
    """What the user asked for beyond network, hardware and budget.

    latency_table: measured step times, None if those of the hardware hold.
    """

    mapping: Mapping
    fc: Literal["host", "crossbar"]
    work: int
    time_limit_s: float | None
    gap: float
    target_steps: int | None
    target_ns: float | None
    latency_table: MeasuredSteps | None = None
    fold: bool = False


class Arrays(Record):
    """Arrays allowed, used, and needed with every layer stored once."""

    budget: Count
    used: Count
    minimum: Count


class Foldable(Record):
    """A row about a stage, which may be folded (SYSTEMS.md 3).

    fold: pixels (n_h, n_w) folded into one, (1, 1) where that would not help; None, and left out of files,
    unless folding was asked for.
    """

    fold: Annotated[tuple[Count, Count] | None, from_list(list[Count] | None)] = None

    @model_serializer(mode="wrap")
    def _with_fold_last(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        document: dict[str, Any] = handler(self)
        fold = document.pop("fold", None)
        return document if fold is None else document | {"fold": fold}


class Layer(Foldable):
    """One stage. demand: arrays of one copy; arrays: of all copies; batches: ceil(windows / replication).

    normal_op, pre_op, tail, op: terms of the tight recurrence in steps (MODEL.md 5);
    start, finish: exact steps (MODEL.md 4).
    """

    name: Name
    windows: Count
    demand: Count
    replication: Count
    arrays: Product
    batches: Count
    normal_op: Steps
    pre_op: Steps
    tail: int
    op: Steps
    start: Steps
    finish: Steps


class Progress(Record):
    """Best makespan and lower bound, in steps, after so many seconds of counted work."""

    seconds: float
    makespan: Steps
    lower_bound: Steps


class Placed(Record):
    """What `optimize --placed` found of the transfer between tiles, which the step time then includes.

    rounds: optimisations and placements in turn; converged: whether the last changed nothing;
    transfer_ns: time in which the outputs of one step of each layer reach their readers' tiles.
    """

    rounds: Count
    converged: bool
    transfer_ns: dict[Name, float]


class Allocation(Record):
    """How often every layer is stored, how fast that is, and how far from optimal it can be at most.

    makespan, interval, lower_bound: steps; gap: (makespan - lower_bound) / makespan; proof: what shows the
    bound, in words; seconds: work of the search in seconds of a reference core, counted and not measured,
    so that equal runs give equal files (None for methods that do not count it); step_ns, latency_ns,
    throughput_per_s: None without [timing]; history: how best and bound met; host: weight layers left to
    the host, untimed; warnings: what was assumed or ignored; placed: None unless the step includes the
    transfer between tiles.
    """

    format: Literal["rramalloc-allocation/1"] = FORMAT
    rramalloc_version: str
    network: NetworkId
    hardware: Hardware
    options: Options
    objective: Literal["latency", "interval", "arrays"]
    method: str
    seed: int
    seconds: float | None
    arrays: Arrays
    makespan: Steps
    interval: Steps
    lower_bound: Steps
    gap: float
    proof: str
    step_ns: float | None
    latency_ns: float | None
    throughput_per_s: float | None
    layers: tuple[Layer, ...]
    history: tuple[Progress, ...] = ()
    host: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    placed: Placed | None = None

    @property
    def replication(self) -> dict[str, int]:
        """Copies of every layer by name, in network order."""
        return {layer.name: layer.replication for layer in self.layers}

    def to_dict(self) -> dict[str, Any]:
        """The document of the allocation file; `placed` is there only if transfer was counted."""
        left_out = {"placed"} if self.placed is None else set()
        return self.model_dump(mode="json", exclude=left_out) | {"hardware": self.hardware.to_dict()}

    def to_frame(self) -> pd.DataFrame:
        """One row per layer, columns as the fields of Layer."""
        import pandas as pd

        return pd.DataFrame([layer.model_dump() for layer in self.layers])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the allocation file whole or not at all. Raises FileError."""
        write_text(path, to_json(self.to_dict()))

    def _repr_html_(self) -> str:
        import html

        title = (
            f"{self.network.name}: {self.makespan} steps on {self.arrays.used} of {self.arrays.budget} "
            f"arrays, at most {self.gap:.1%} from optimal"
        )
        return f"<p>{html.escape(title)}</p>" + self.to_frame().to_html(index=False, escape=True)


class BareReplication(Record):
    """The short form that `simulate` also reads: copies by layer name, layers left out have one."""

    replication: dict[Name, Count]


_HARDWARE: TypeAdapter[Hardware] = TypeAdapter(Hardware)
_MEASURED: TypeAdapter[MeasuredSteps] = TypeAdapter(MeasuredSteps)
_REPLICATION: TypeAdapter[BareReplication] = TypeAdapter(BareReplication)


class Saved(NamedTuple):
    """What `simulate` takes from a file: copies by layer name, and what a whole allocation says beside.

    hardware, measured: None, options (mapping, fc): empty, fold: False for a bare replication.
    """

    replication: dict[str, int]
    hardware: Hardware | None
    options: dict[str, str]
    fold: bool = False
    measured: MeasuredSteps | None = None


def read_saved(path: str | os.PathLike[str]) -> Saved:
    """An allocation file or a bare {"replication": {...}}. Raises FileError, SpecError."""
    return saved_of(read_json(path), os.fspath(path))


def saved_of(document: object, where: str) -> Saved:
    """What the parsed document of such a file says. Raises SpecError."""
    if not isinstance(document, dict):
        raise SpecError(where, f"must be an allocation or {{'replication': ...}}, got {brief(document)}")
    if "replication" in document:
        return Saved(parse(_REPLICATION, document, where).replication, None, {}, fold=False)
    if document.get("format") != FORMAT:
        got = brief(document.get("format"))
        raise SpecError(where, f"format: must be {FORMAT!r}, or give 'replication' alone; got {got}")
    return Saved(_of_layers(document, where), *_context(document, where))


def _of_layers(document: dict[str, Any], where: str) -> dict[str, int]:
    layers = document.get("layers")
    if not isinstance(layers, list):
        raise SpecError(where, f"layers: must be a list, got {brief(layers)}")
    copies: dict[str, Any] = {}
    for index, layer in enumerate(layers):
        name = layer.get("name") if isinstance(layer, dict) else None
        if not isinstance(name, str) or "replication" not in layer:
            raise SpecError(where, f"layers[{index}]: needs 'name' and 'replication', got {brief(layer)}")
        if name in copies:
            raise SpecError(where, f"layers[{index}]: {brief(name)} stands twice")
        copies[name] = layer["replication"]
    return parse(_REPLICATION, {"replication": copies}, where).replication


def _context(
    document: dict[str, Any], where: str
) -> tuple[Hardware | None, dict[str, str], bool, MeasuredSteps | None]:
    """Hardware, options (mapping, fc), fold and step times of an allocation file, as far as it has them."""
    hardware, options = document.get("hardware"), document.get("options")
    found = None if hardware is None else parse(_HARDWARE, hardware, f"{where}: hardware")
    if options is None:
        return found, {}, False, None
    if not isinstance(options, dict):
        raise SpecError(where, f"options: must be an object, got {brief(options)}")
    kept = {name: options[name] for name in ("mapping", "fc") if name in options}
    for name, value in kept.items():
        if not isinstance(value, str):
            raise SpecError(where, f"options.{name}: must be a text, got {brief(value)}")
    fold = options.get("fold", False)
    if not isinstance(fold, bool):
        raise SpecError(where, f"options.fold: must be true or false, got {brief(fold)}")
    steps = options.get("latency_table")
    measured = None if steps is None else parse(_MEASURED, steps, f"{where}: options.latency_table")
    return found, kept, fold, measured
