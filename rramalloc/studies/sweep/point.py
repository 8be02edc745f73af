"""Point: one combination of a sweep's lists, what it stands for, and the key of its result."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from typing import NamedTuple

from pydantic import TypeAdapter

from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Crossbar, Hardware, Memory
from rramalloc.hardware.loader import parse_crossbar
from rramalloc.records import parse
from rramalloc.version import __version__

_HARDWARE: TypeAdapter[Hardware] = TypeAdapter(Hardware)


class Point(NamedTuple):
    """One point, of plain values so that it travels as JSON; fields in the order of spec.LISTS.

    network, hardware: their places in the spec; crossbar, cell_bits, bandwidth_gb_s: None to keep what the
    hardware says; arrays: a number, or a multiple of the minimum such as "x2".
    """

    network: int
    hardware: int
    crossbar: str | None
    cell_bits: int | None
    bandwidth_gb_s: float | None
    mapping: str
    fc: str
    arrays: int | str
    objective: str
    method: str
    seed: int
    work: int


class Machine(NamedTuple):
    """A hardware with a point's changes, and the hash of all it says."""

    hardware: Hardware
    sha256: str


@lru_cache(maxsize=256)
def machine_of(
    text: str, crossbar: str | None, cell_bits: int | None, bandwidth_gb_s: float | None
) -> Machine:
    """The hardware of a point: its document as JSON text, with the point's changes. Raises SpecError."""
    hardware = changed(parse(_HARDWARE, json.loads(text), "hardware"), crossbar, cell_bits, bandwidth_gb_s)
    return Machine(hardware, hashlib.sha256(json.dumps(hardware.to_dict()).encode()).hexdigest())


def changed(
    hardware: Hardware, crossbar: str | None, cell_bits: int | None, bandwidth_gb_s: float | None
) -> Hardware:
    """Hardware with another array, bits per cell or memory bandwidth; None keeps what it says.

    Raises SpecError for a bandwidth without a [memory].
    """
    if crossbar is not None:
        hardware = hardware.with_crossbar(*parse_crossbar(crossbar))
    if cell_bits is not None:
        size = hardware.crossbar
        array = Crossbar(wordlines=size.wordlines, bitlines=size.bitlines, cell_bits=cell_bits)
        hardware = _confirmed(hardware.model_copy(update={"crossbar": array}), "crossbar.cell_bits")
    if bandwidth_gb_s is not None:
        if hardware.memory is None:
            raise SpecError("bandwidths_gb_s", f"hardware {hardware.name!r} has no [memory] to change")
        memory = Memory(
            bandwidth_gb_s=bandwidth_gb_s, reuse=hardware.memory.reuse, scope=hardware.memory.scope
        )
        hardware = _confirmed(hardware.model_copy(update={"memory": memory}), "memory.bandwidth_gb_s")
    return hardware


def _confirmed(hardware: Hardware, field: str) -> Hardware:
    """Without the note that no source confirms a value that the user has given."""
    unconfirmed = tuple(name for name in hardware.unconfirmed if name != field)
    return hardware.model_copy(update={"unconfirmed": unconfirmed})


def key_of(point: Point, network: str, network_sha256: str, machine_sha256: str) -> str:
    """Hash of all that a point's row depends on, so that rows can be reused in any other sweep."""
    content = [__version__, network, network_sha256, machine_sha256, *point[5:]]
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()
