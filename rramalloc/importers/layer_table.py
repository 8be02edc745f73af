"""Reader of the layer table CSV: a chain of fused conv + pool layers, one a row.

Source: docs/sources/interface.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rramalloc.csv_rows import csv_rows
from rramalloc.errors import SpecError
from rramalloc.files import CSV_LIMIT_BYTES, as_utf8, read_text
from rramalloc.network.geometry import MAX_EXTENT, MAX_PIXELS
from rramalloc.network.network import Network
from rramalloc.records import brief

MAX_LAYER_ROWS = 50_000  # layers of a table


class _TableRow(NamedTuple):
    """One row. place: file and line for messages; h_out, w_out: the conv's output before pooling."""

    place: str
    name: str
    c_in: int
    c_out: int
    w_out: int
    h_out: int
    k: int
    s: int
    p: int
    k_pool: int
    s_pool: int
    p_pool: int

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its nodes: convolution, and pooling if it has one."""
        return (self.name, f"{self.name}_pool")[: 1 + (self.k_pool > 1 or self.s_pool > 1)]

    def fault(self, column: str, reason: str) -> SpecError:
        """Return the error of a value of this row."""
        got = brief(getattr(self, column))
        return SpecError(f"{self.place}: column {column!r} of {brief(self.name)}", f"{reason}; got {got}")


LAYER_COLUMNS = _TableRow._fields[1:]


def read_layer_table(path: str | os.PathLike[str]) -> Network:
    """Read the chain that a layer table describes.

    The first layer's input is the smallest grid that gives its output: (out - 1) * s + k - 2 p, at least 1.
    Raises FileError, SpecError (with line and column).  Source: docs/sources/interface.md, layer table CSV.
    """
    where = os.fspath(path)
    layers: list[_TableRow] = []
    lines: dict[str, str] = {}
    for place, cells in csv_rows(
        read_text(path, CSV_LIMIT_BYTES), where, LAYER_COLUMNS, advice=", with commas"
    ):
        if len(layers) == MAX_LAYER_ROWS:
            raise SpecError(
                place, f"the table has more than {MAX_LAYER_ROWS} layers, the limit of this format"
            )
        layers.append(layer := _layer(cells, place))
        for name in layer.names:
            if name in lines:
                first = lines[name].rpartition(": ")[2]
                raise layer.fault("name", f"{first} already makes a node of the name {brief(name)}")
            lines[name] = place
    if not layers:
        raise SpecError(where, "has no layers; write the header and one row for every conv layer")
    name = as_utf8(Path(path).stem) or "network"
    return Network.build(name, _nodes(layers), source="layer table", where=where)


def _layer(cells: dict[str, str], place: str) -> _TableRow:
    name, numbers = cells.pop("name"), dict[str, int]()
    if not 1 <= len(name) <= 1000:
        raise SpecError(f"{place}: column 'name'", f"must have 1 to 1000 characters, got {len(name)}")
    for column, text in cells.items():
        least = 0 if column in ("p", "p_pool") else 1
        if not re.fullmatch(r"\+?[0-9]{1,10}", text) or not least <= int(text) <= MAX_EXTENT:
            reason = f"must be a whole number from {least} to {MAX_EXTENT}, got {brief(text)}"
            raise SpecError(f"{place}: column {column!r}", reason)
        numbers[column] = int(text)
    layer = _TableRow(place, name, **numbers)
    if layer.p_pool >= layer.k_pool:
        reason = f"must be below k_pool = {layer.k_pool}; no pooling is k_pool 1, s_pool 1, p_pool 0"
        raise layer.fault("p_pool", reason)
    return layer


def _nodes(layers: Sequence[_TableRow]) -> Iterator[dict[str, Any]]:
    """Yield the nodes. Raises SpecError where a row does not follow from the one before."""
    first, source = layers[0], "input"
    taken = {name for layer in layers for name in layer.names}
    while source in taken:
        source += "_"
    channels, sides = first.c_in, [first.h_out, first.w_out]
    for at, column in enumerate(("h_out", "w_out")):
        sides[at] = max((sides[at] - 1) * first.s + first.k - 2 * first.p, 1)
        if sides[at] > MAX_PIXELS:
            reason = f"needs an input of {sides[at]} pixels along this axis, the limit is {MAX_PIXELS}"
            raise first.fault(column, reason)
    yield {"name": source, "op": "input", "shape": [channels, *sides]}
    giver = "the smallest input has"
    for layer in layers:
        if layer.c_in != channels:
            raise layer.fault("c_in", f"must be {channels}, the c_out of the layer before")
        given = f"{giver} {sides[0]} x {sides[1]} pixels"
        sides = [
            _slid(layer, ("k", column), (size, layer.k, layer.s, layer.p), given)
            for column, size in zip(("h_out", "w_out"), sides, strict=True)
        ]
        node = {"op": "conv", "out_channels": layer.c_out}
        yield node | _window(layer.name, source, layer.k, layer.s, layer.p)
        source, channels, giver = layer.names[-1], layer.c_out, f"layer {layer.name!r} hands on"
        if source != layer.name:
            window = (layer.k_pool, layer.s_pool, layer.p_pool)
            sides = [
                _slid(layer, ("k_pool", ""), (size, *window), f"it pools {size} pixels") for size in sides
            ]
            yield {"op": "maxpool"} | _window(source, layer.name, *window)


def _window(name: str, source: str, kernel: int, stride: int, pads: int) -> dict[str, Any]:
    return {"name": name, "inputs": [source], "kernel": kernel, "stride": stride, "pads": pads}


def _slid(layer: _TableRow, columns: tuple[str, str], window: tuple[int, int, int, int], given: str) -> int:
    """Return the windows along an axis (size, kernel, stride, pad), which must be those of the row."""
    size, kernel, stride, pad = window
    padded, (column, stated) = size + 2 * pad, columns
    if padded < kernel:
        raise layer.fault(column, f"must be at most {padded}: {given}")
    result = (padded - kernel) // stride + 1
    if stated and getattr(layer, stated) != result:
        raise layer.fault(stated, f"must be {result}: {given}, then k, s and p apply")
    return result
