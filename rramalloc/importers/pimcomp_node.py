"""One node of a PIMCOMP / PIMSYN network JSON: typed access that names the node and field at fault."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rramalloc.errors import SpecError
from rramalloc.network.geometry import MAX_EXTENT, Shape
from rramalloc.records import brief, is_whole

_MAX_RANK = 8


@dataclass(frozen=True, slots=True)
class PimcompNode:
    """place: file and node for messages; shape: the stated `output_dim`; param: geometry, unchecked."""

    place: str
    name: str
    operation: str
    shape: Shape
    providers: tuple[str, ...]
    param: Mapping[str, Any]

    @classmethod
    def parse(cls, entry: object, place: str) -> PimcompNode:
        """Check the fields that every node has. Raises SpecError."""
        if not isinstance(entry, dict):
            raise SpecError(place, f"must be an object, got {brief(entry)}")
        name = entry.get("name")
        if not isinstance(name, str) or not 1 <= len(name) <= 1000:
            raise SpecError(f"{place}.name", f"must be a text of 1 to 1000 characters, got {brief(name)}")
        place = f"{place} {brief(name)}"
        operation = entry.get("operation")
        if not isinstance(operation, str) or not operation:
            raise SpecError(f"{place}.operation", f"must be a text such as 'OP_CONV', got {brief(operation)}")
        shape = _shape(entry.get("output_dim"), f"{place}.output_dim")
        param = entry.get("param") or {}
        if not isinstance(param, dict):
            raise SpecError(f"{place}.param", f"must be an object, got {brief(param)}")
        return cls(place, name, operation, shape, _providers(entry, operation, place), param)

    def fault(self, field: str, reason: str) -> SpecError:
        """The error to raise for a field of this node."""
        return SpecError(f"{self.place}.{field}", reason)

    def number(self, key: str, default: int | None = None, *, least: int = 1) -> int:
        """A whole number of `param`; without a default the field is required. Raises SpecError."""
        value = self.param.get(key, default)
        if not is_whole(value, least, MAX_EXTENT):
            got = brief(value) if key in self.param else "nothing"
            raise self.fault(
                f"param.{key}", f"must be a whole number from {least} to {MAX_EXTENT}, got {got}"
            )
        return value

    def pair(self, stem: str, default: int | None = None) -> tuple[int, int]:
        """(`stem`_h, `stem`_w) of `param`."""
        return self.number(f"{stem}_h", default), self.number(f"{stem}_w", default)

    def pads(self) -> tuple[int, int, int, int]:
        """Top, left, bottom, right; 0 where left out."""
        top, left, bottom, right = (
            self.number(key, 0, least=0) for key in ("pad_h0", "pad_w0", "pad_h1", "pad_w1")
        )
        return top, left, bottom, right


def _providers(entry: Mapping[str, Any], operation: str, place: str) -> tuple[str, ...]:
    providers = entry.get("provider") or []
    if not isinstance(providers, list) or not all(isinstance(name, str) for name in providers):
        raise SpecError(f"{place}.provider", f"must be a list of node names, got {brief(providers)}")
    if bool(providers) == (operation == "OP_INPUT"):
        wanted = "must be empty for OP_INPUT" if providers else "must name at least one node"
        raise SpecError(f"{place}.provider", f"{wanted}, got {brief(providers)}")
    return tuple(providers)


def _shape(dims: object, place: str) -> Shape:
    """[1, F]: vector; [1, T, C]: tokens; [1, ..., H, W]: grid, the axes in between count as channels."""
    if not isinstance(dims, list) or not 1 <= len(dims) <= _MAX_RANK:
        raise SpecError(place, f"must be a list such as [1, channels, height, width], got {brief(dims)}")
    for index, extent in enumerate(dims):
        if not is_whole(extent, 1, MAX_EXTENT):
            raise SpecError(
                f"{place}[{index}]", f"must be a whole number from 1 to {MAX_EXTENT}, got {brief(extent)}"
            )
    if len(dims) > 1 and dims[0] != 1:
        raise SpecError(f"{place}[0]", f"the batch must be 1, got {dims[0]}")
    match dims:
        case [features] | [_, features]:
            return Shape(features, 1, 1)
        case [_, tokens, channels]:
            return Shape(channels, tokens, 1)
    return Shape(math.prod(dims[1:-2]), dims[-2], dims[-1])
