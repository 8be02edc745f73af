"""The one reading of an allocation that a user hands over: an object, its file, or copies by layer name."""

from __future__ import annotations

import os
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ConfigDict, Field, TypeAdapter

from rramalloc.errors import SpecError, UnsupportedError
from rramalloc.files import read_json
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import DEFAULT_PRESET, load_hardware
from rramalloc.mapping.options import DEFAULT_MAPPING, MappingOptions
from rramalloc.network.network import Network
from rramalloc.network.node import Name
from rramalloc.records import Record, brief, parse
from rramalloc.results.allocation import FORMAT, Allocation, BareReplication, Count, NetworkId
from rramalloc.timing.measured_steps import MeasuredSteps

AllocationLike = Allocation | MappingOf[str, int] | str | os.PathLike[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationInput:
    """Copies by layer name, and what a whole allocation says besides.

    Parameters
    ----------
    replication
        Copies by layer name; layers left out have one.
    where
        How messages call the allocation: its file, or what the caller named it.
    machine
        Hardware it was made for; None for bare copies.
    options
        Mapping, fc and fold; the defaults for bare copies.
    measured
        Step times that replace those of the hardware.
    network
        The network it was made for; None for bare copies and where a file does not say.
    """

    replication: MappingOf[str, int]
    where: str
    machine: Hardware | None = None
    options: MappingOptions = DEFAULT_MAPPING
    measured: MeasuredSteps | None = None
    network: NetworkId | None = None

    @property
    def hardware(self) -> Hardware:
        """The hardware it was made for, or the default preset."""
        return self.machine or load_hardware(DEFAULT_PRESET)

    def changed(
        self, *, hardware: Hardware | None = None, mapping: str | None = None, fc: str | None = None,
        fold: bool | None = None,
    ) -> AllocationInput:  # fmt: skip
        """The same copies with what is not None replaced; other hardware ends measured step times.

        Raises SpecError, UnknownNameError.
        """
        options = self.options.changed(mapping=mapping, fc=fc, fold=fold)
        if hardware is None:
            return replace(self, options=options)
        return replace(self, options=options, machine=hardware, measured=None)

    def made_for(self, network: Network) -> AllocationInput:
        """Itself. Raises SpecError if it was made for another network."""
        if self.network is None or self.network.sha256 == network.sha256:
            return self
        raise SpecError(
            self.where,
            f"was made for another network, {self.network.name[:60]!r}, not for {network.name[:60]!r} as it "
            f'is given: give that network, or only {{"replication": {{...}}}}',
        )


def read_allocation(allocation: AllocationLike, origin: str = "allocation") -> AllocationInput:
    """What an allocation says; `origin` names one that is no file in messages.

    Raises FileError, SpecError.
    """
    if isinstance(allocation, Allocation):
        return AllocationInput(
            replication=allocation.replication, where=origin, machine=allocation.hardware,
            options=allocation.options.changed(), measured=allocation.options.latency_table,
            network=allocation.network,
        )  # fmt: skip
    if isinstance(allocation, MappingOf):
        return AllocationInput(replication=dict(allocation), where=origin)
    return _of_document(read_json(allocation), os.fspath(allocation))


class _Lenient(Record):
    """A part of an allocation file of which only some fields are read here."""

    model_config = ConfigDict(extra="ignore")


class _Layer(_Lenient):
    name: Name
    replication: Count
    block: list[int] = Field(default_factory=lambda: [1, 1])


class _Options(MappingOptions):
    model_config = ConfigDict(extra="ignore")

    latency_table: MeasuredSteps | None = None


class _Network(_Lenient):
    name: str = ""
    sha256: str | None = None


class _Document(_Lenient):
    """An allocation file as far as copies depend on it; whole files are read by their own type."""

    network: _Network = _Network()
    hardware: Hardware | None = None
    options: _Options = _Options()
    layers: list[_Layer]


_BARE: TypeAdapter[BareReplication] = TypeAdapter(BareReplication)
_DOCUMENT: TypeAdapter[_Document] = TypeAdapter(_Document)


def _of_document(document: Any, where: str) -> AllocationInput:
    if not isinstance(document, dict):
        raise SpecError(where, f"must be an allocation or {{'replication': ...}}, got {brief(document)}")
    if "replication" in document:
        return AllocationInput(replication=parse(_BARE, document, where).replication, where=where)
    if document.get("format") != FORMAT:
        got = brief(document.get("format"))
        raise SpecError(where, f"format: must be {FORMAT!r}, or give 'replication' alone; got {got}")
    whole = parse(_DOCUMENT, document, where)
    replication: dict[str, int] = {}
    for index, layer in enumerate(whole.layers):
        if layer.block != [1, 1]:
            raise UnsupportedError(
                f"{where}: layers[{index}] {brief(layer.name)}.block",
                f"copies that compute blocks of {brief(layer.block)} windows are not read: allocate with "
                f"--mapping im2col",
            )
        if layer.name in replication:
            raise SpecError(where, f"layers[{index}]: {brief(layer.name)} stands twice")
        replication[layer.name] = layer.replication
    network = whole.network
    return AllocationInput(
        replication=replication, where=where, machine=whole.hardware, options=whole.options.changed(),
        measured=whole.options.latency_table,
        network=None if network.sha256 is None else NetworkId(name=network.name, sha256=network.sha256),
    )  # fmt: skip
