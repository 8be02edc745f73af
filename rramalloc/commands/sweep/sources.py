"""Networks and hardware of a sweep, read once, as texts that travel with the points."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import NamedTuple, TypeVar

from pydantic import TypeAdapter

from rramalloc.commands.sweep.spec import LIST_OF, Changes, Spec, SweepPoint
from rramalloc.errors import RramallocError, SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import load_hardware, parse_crossbar
from rramalloc.importers import load
from rramalloc.records import parse
from rramalloc.timing.latency_table import LatencyTable, load_latency_table
from rramalloc.version import __version__

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
    """What the points of a spec refer to by position: networks, and hardware as JSON."""

    networks: tuple[NetworkText, ...]
    hardware: tuple[str, ...]

    def of(self, point: SweepPoint) -> tuple[NetworkText, str]:
        """The network and the hardware of a point."""
        return self.networks[point.network], self.hardware[point.hardware]

    def task(self, point: SweepPoint) -> str:
        """What a worker needs to compute a point, as JSON."""
        return json.dumps([__version__, point, *self.of(point)])

    def key(self, point: SweepPoint) -> str:
        """The key of the row of a point."""
        network, hardware = self.of(point)
        return key_of(point, network, machine_of(hardware, point.changes))


def key_of(point: SweepPoint, network: NetworkText, machine: Machine) -> str:
    """Hash of everything that a point's row depends on: two sweeps share a row if they share its key."""
    asked = (point.mapping, point.fc, point.arrays, point.objective, point.method, point.seed, point.work)
    values = [__version__, network.name, network.sha256, machine.sha256, *asked]
    if network.measured is not None:
        values.append(network.measured.sha256)
    return hashlib.sha256(json.dumps(values, separators=(",", ":")).encode()).hexdigest()


@lru_cache(maxsize=4)
def _table(text: str) -> LatencyTable:
    return parse(_TABLE, json.loads(text), "latency_table")


@lru_cache(maxsize=256)
def machine_of(text: str, changes: Changes = _NO_CHANGES) -> Machine:
    """The hardware of a point: its document as JSON text, with the point's changes. Raises SpecError."""
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
    """Hardware with another array, or other values; None keeps a value.

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
    """A file beside the spec, else what ships by that name."""
    beside = os.path.join(folder, entry)
    is_bare = os.path.basename(entry) == entry
    return read(entry if is_bare and not os.path.exists(beside) else beside)


@contextmanager
def _entry(where: str) -> Iterator[None]:
    """Errors name the entry of the spec."""
    try:
        yield
    except RramallocError as error:
        raise SpecError(where, str(error).removeprefix(": ")) from None
