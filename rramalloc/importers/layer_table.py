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
from rramalloc.files import CSV_LIMIT_BYTES, read_text
from rramalloc.network.geometry import MAX_EXTENT, MAX_PIXELS
from rramalloc.network.network import Network
from rramalloc.records import brief

MAX_ROWS = 50_000  # layers of a table
COLUMNS = ("name", "c_in", "c_out", "w_out", "h_out", "k", "s", "p", "k_pool", "s_pool", "p_pool")
_PADS = ("p", "p_pool")


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
    def pools(self) -> bool:
        return self.k_pool > 1 or self.s_pool > 1

    def handed_on(self, extent: int) -> int:
        """Return the pixels along one axis after the pooling, for `extent` before it."""
        return (extent + 2 * self.p_pool - self.k_pool) // self.s_pool + 1


def read(path: str | os.PathLike[str]) -> Network:
    """Read the chain that a layer table describes.

    The first layer's input is the smallest grid that gives its output: (out - 1) * s + k - 2 p, at least 1.
    Raises FileError, SpecError (with line and column).  Source: docs/sources/interface.md, layer table CSV.
    """
    where = os.fspath(path)
    layers = list(_layers(read_text(path, CSV_LIMIT_BYTES), where))
    if not layers:
        raise SpecError(where, "has no layers; write the header and one row for every conv layer")
    _check_names(layers)
    name = Path(path).stem or "network"
    return Network.build(name, _nodes(layers), source="layer table", where=where)


def _layers(text: str, where: str) -> Iterator[_TableRow]:
    for number, (place, row) in enumerate(csv_rows(text, where, COLUMNS, advice=", with commas"), 1):
        if number > MAX_ROWS:
            raise SpecError(place, f"the table has more than {MAX_ROWS} layers, the limit of this format")
        yield _layer(row, place)


def _layer(row: dict[str, str], place: str) -> _TableRow:
    name = row.pop("name")
    if not 1 <= len(name) <= 1000:
        raise SpecError(f"{place}: column 'name'", f"must have 1 to 1000 characters, got {len(name)}")
    layer = _TableRow(place, name, **{column: _whole(text, column, place) for column, text in row.items()})
    if layer.p_pool >= layer.k_pool:
        raise _fault(
            layer,
            "p_pool",
            f"must be below k_pool = {layer.k_pool}; no pooling is k_pool 1, s_pool 1, p_pool 0",
        )
    return layer


def _whole(text: str, column: str, place: str) -> int:
    least = 0 if column in _PADS else 1
    if re.fullmatch(r"\+?[0-9]{1,10}", text) and least <= int(text) <= MAX_EXTENT:
        return int(text)
    raise SpecError(
        f"{place}: column {column!r}",
        f"must be a whole number from {least} to {MAX_EXTENT}, got {brief(text)}",
    )


def _check_names(layers: Sequence[_TableRow]) -> None:
    lines: dict[str, str] = {}
    for layer in layers:
        for name in (layer.name, f"{layer.name}_pool") if layer.pools else (layer.name,):
            if name in lines:
                first = lines[name].rpartition(": ")[2]
                raise _fault(layer, "name", f"{first} already makes a node of the name {brief(name)}")
            lines[name] = layer.place


def _nodes(layers: Sequence[_TableRow]) -> Iterator[dict[str, Any]]:
    taken = {name for layer in layers for name in (layer.name, f"{layer.name}_pool")}
    source = "input"
    while source in taken:
        source += "_"
    height, width = (_first_extent(layers[0], axis) for axis in ("h_out", "w_out"))
    channels, previous = layers[0].c_in, None
    yield {"name": source, "op": "input", "shape": [channels, height, width]}
    for layer in layers:
        _check_follows(layer, previous, channels, height, width)
        yield {
            "name": layer.name,
            "op": "conv",
            "inputs": [source],
            "out_channels": layer.c_out,
            "kernel": layer.k,
            "stride": layer.s,
            "pads": layer.p,
        }
        source, channels, height, width = layer.name, layer.c_out, layer.h_out, layer.w_out
        if layer.pools:
            yield _pool(layer)
            source = f"{layer.name}_pool"
            height, width = layer.handed_on(height), layer.handed_on(width)
        previous = layer


def _pool(layer: _TableRow) -> dict[str, Any]:
    for column in ("h_out", "w_out"):
        padded = getattr(layer, column) + 2 * layer.p_pool
        if padded < layer.k_pool:
            raise _fault(layer, "k_pool", f"must be at most {padded}, the padded {column} of this layer")
    return {
        "name": f"{layer.name}_pool",
        "op": "maxpool",
        "inputs": [layer.name],
        "kernel": layer.k_pool,
        "stride": layer.s_pool,
        "pads": layer.p_pool,
    }


def _first_extent(layer: _TableRow, column: str) -> int:
    extent: int = max((getattr(layer, column) - 1) * layer.s + layer.k - 2 * layer.p, 1)
    if extent > MAX_PIXELS:
        raise _fault(
            layer, column, f"needs an input of {extent} pixels along this axis, the limit is {MAX_PIXELS}"
        )
    return extent


def _check_follows(
    layer: _TableRow, previous: _TableRow | None, channels: int, height: int, width: int
) -> None:
    """Check that the conv's stated input channels and output grid are those that its input gives."""
    if layer.c_in != channels:
        raise _fault(layer, "c_in", f"must be {channels}, the c_out of layer {previous and previous.name!r}")
    giver = f"layer {previous.name!r} hands on" if previous else "the smallest input has"
    for column, extent in (("h_out", height), ("w_out", width)):
        padded = extent + 2 * layer.p
        if padded < layer.k:
            raise _fault(layer, "k", f"must be at most {padded}: {giver} {height} x {width} pixels")
        result = (padded - layer.k) // layer.s + 1
        if getattr(layer, column) != result:
            raise _fault(
                layer, column, f"must be {result}: {giver} {height} x {width} pixels, then k, s and p apply"
            )


def _fault(layer: _TableRow, column: str, reason: str) -> SpecError:
    got = brief(getattr(layer, column))
    return SpecError(f"{layer.place}: column {column!r} of {brief(layer.name)}", f"{reason}; got {got}")
