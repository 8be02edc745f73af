"""Networks and hardware of a sweep, read once, as texts that travel with the work."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from rramalloc.errors import RramallocError, SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.network.network import Network
from rramalloc.studies.sweep.point import Point, changed, key_of, machine_of
from rramalloc.studies.sweep.spec import Spec

T = TypeVar("T")


class NetworkText(NamedTuple):
    """A network: its name, the hash of its graph, and its network JSON."""

    name: str
    sha256: str
    text: str


class Sources(NamedTuple):
    """What the points of a spec refer to by place: networks, and hardware as JSON."""

    networks: tuple[NetworkText, ...]
    hardware: tuple[str, ...]

    def key(self, point: Point) -> str:
        """The key that the row of `point` will have."""
        network = self.networks[point.network]
        machine = machine_of(self.hardware[point.hardware], *point[2:5])
        return key_of(point, network.name, network.sha256, machine.sha256)


def read_sources(spec: Spec, where: str, folder: str) -> Sources:
    """Read all networks and hardware of a spec; relative paths start from `folder`.

    where: how messages call the spec. Raises SpecError naming the entry that is wrong.
    """
    networks: list[NetworkText] = []
    for index, entry in enumerate(spec.networks):
        with _telling(f"{where}: networks[{index}]"):
            network = _found(load, entry, folder)
            _check_new([(other.name, other.sha256) for other in networks], (network.name, network.sha256))
            networks.append(_text(network))
    hardware: list[str] = []
    for index, entry in enumerate(spec.hardware):
        with _telling(f"{where}: hardware[{index}]"):
            found = _found(load_hardware, entry, folder)
            _check_changes(spec, found)
            text = json.dumps(found.to_dict())
            _check_new(hardware, text)
            hardware.append(text)
    return Sources(tuple(networks), tuple(hardware))


def _text(network: Network) -> NetworkText:
    text = json.dumps(network.to_dict(), separators=(",", ":"), ensure_ascii=False)
    return NetworkText(network.name, network.sha256, text)


def _check_changes(spec: Spec, hardware: Hardware) -> None:
    changed(hardware, None, None, spec.bandwidths_gb_s[0] if spec.bandwidths_gb_s else None)


def _check_new(before: Sequence[object], latest: object) -> None:
    if latest in before:
        raise SpecError("", f"is the same as [{before.index(latest)}]: give every one once")


def _found(read: Callable[[str], T], entry: str, folder: str) -> T:
    """A file beside the spec, or else what ships by that name."""
    beside = os.path.join(folder, entry)
    is_bare = os.path.basename(entry) == entry
    return read(entry if is_bare and not os.path.exists(beside) else beside)


@contextmanager
def _telling(where: str) -> Iterator[None]:
    """Errors name the entry of the spec."""
    try:
        yield
    except RramallocError as error:
        raise SpecError(where, str(error).removeprefix(": ")) from None
