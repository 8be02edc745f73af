"""Bits of layers that other tools chose: policies of CIM-AQ, and quantised networks.

A policy of CIM-AQ (arXiv 2601.21737, repository rpelke/cim-aq-dev) is an array of NumPy: a row a layer, its
weight bits and input bits. What a row stands for is only in the YAML with the sizes of the layers, so both
files are needed. A layer is that of our network with as many rows, columns and windows; of several with the
same three the first is the first, where one computes what the other reads (docs/sources/model.md 16).
"""

from __future__ import annotations

import math
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from rramalloc.allocation.layer_bits import BitChoice, BitPair, BitTable
from rramalloc.errors import SpecError
from rramalloc.files import read_bytes, read_text
from rramalloc.hardware.tables import MAX_BITS, Precision
from rramalloc.importers import load
from rramalloc.network import counts
from rramalloc.network.network import Network
from rramalloc.network.node import Stage
from rramalloc.records import brief

DYNAMIC = "MatMul"
"""Products of two computed tensors: they have no weights and no stage here."""
_KINDS = ("Conv2D", "Dense", DYNAMIC)
_FIELDS = ("type", "output_dim", "input_dim", "mvm_invocations", "repeat_factor")
_HEAD = "layer_dimensions:"
_LINE = re.compile(r"(?P<indent> *)(?P<dash>- )?(?P<name>\w+): +(?P<value>\S.*)")
_PRODUCT = re.compile(r"\d{1,12}( ?\* ?\d{1,12}){0,9}")
_NPY = re.compile(
    rb"\x93NUMPY(?:\x01\x00..|\x02\x00....)\{'descr': '(?P<kind>[<>|][iu][1248])', "
    rb"'fortran_order': (?P<by_column>True|False), 'shape': \((?P<rows>\d{1,9}), 2\), \} *\n",
    re.DOTALL,
)
"""Head of what numpy.save writes; numpy.load would set memory aside for whatever shape a file names."""
_LARGEST_BYTES = 2**24  # of a policy: a million layers of two 8-byte numbers each
_LARGEST = 2**40  # dimension of a layer: far from the end of int64

LayerShape = tuple[int, int, int]
"""Rows, columns and windows of a layer."""


class PolicyLayer(NamedTuple):
    """A layer of CIM-AQ's YAML; repeat: how often it runs, with other weights each time."""

    where: str
    kind: str
    columns: int
    rows: int
    windows: int = 1
    repeat: int = 1


class _Chosen(NamedTuple):
    """Bits of a layer of another file. where: file and line, or layer; name: "" if it has none."""

    where: str
    size: LayerShape
    bits: BitPair
    name: str = ""


def read_bits(
    path: str | os.PathLike[str],
    layers: str | os.PathLike[str] | None,
    network: Network,
    precision: Precision,
) -> BitTable:
    """Return the choices of a table in CSV, of a policy with its layers, or of a quantised network.

    precision: of the hardware, for what a quantised network leaves open. Raises FileError, SpecError.
    """
    shown = os.fspath(path)
    ending = os.path.splitext(shown)[1].lower()
    if ending == ".npy":
        if layers is None:
            raise SpecError(shown, "does not say what its rows are: give CIM-AQ's YAML, --bits-layers FILE")
        chosen = _of_policy(read_layers(layers), read_policy(path), shown)
    elif layers is not None:
        raise SpecError("bits_layers", f"is for a policy, a file .npy, the bits are {brief(shown)}")
    elif ending in (".json", ".onnx", ".pt2"):
        chosen = list(_of_network(load(path), precision, shown))
    else:
        return BitTable.read(path)
    bits = _matched(chosen, network, os.fspath(layers or path))
    return BitTable({name: (BitChoice(*of_layer, 0.0),) for name, of_layer in bits.items()}, shown)


def read_policy(path: str | os.PathLike[str]) -> list[BitPair]:
    """Return weight bits and input bits of every row of a policy. Raises FileError, SpecError."""
    shown = os.fspath(path)
    content = read_bytes(path, _LARGEST_BYTES)
    head = _NPY.match(content)
    if head is None:
        words = "must be what numpy.save writes: whole numbers in two columns, weight bits and input bits"
        raise SpecError(shown, words)
    kind = np.dtype(head["kind"].decode())
    count = int(head["rows"])
    held = len(content) - head.end()
    if held != 2 * count * kind.itemsize:
        raise SpecError(shown, f"names {count} rows of two numbers, but holds {held} bytes of them")
    order: Literal["F", "C"] = "F" if head["by_column"] == b"True" else "C"
    rows = np.frombuffer(content, kind, offset=head.end()).reshape((count, 2), order=order).tolist()
    for number, row in enumerate(rows):
        for name, bits in zip(("weight bits", "input bits"), row, strict=True):
            if not 1 <= bits <= MAX_BITS:
                raise SpecError(f"{shown}: row {number}", f"{name} must be from 1 to {MAX_BITS}, got {bits}")
    return [(weight, inputs) for weight, inputs in rows]


def read_layers(path: str | os.PathLike[str]) -> list[PolicyLayer]:
    """Return the layers of CIM-AQ's YAML, a list of lines `name: value`. Raises FileError, SpecError."""
    shown = os.fspath(path)
    lines = _lines(read_text(path, _LARGEST_BYTES), shown)
    place, head = next(lines, (shown, ""))
    if head != _HEAD:
        raise SpecError(place, f"must begin with {_HEAD!r}, got {brief(head)}")
    found: list[tuple[str, dict[str, str]]] = []
    indent = 0
    for place, line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            raise SpecError(place, f"must be 'name: value', got {brief(line)}")
        if match["dash"]:
            indent = indent if found else len(match["indent"]) + 2
            found.append((place, {}))
        if not found or match.start("name") != indent:
            raise SpecError(place, "must be indented as the first field of the first layer is")
        name = match["name"]
        fields = found[-1][1]
        if name not in _FIELDS:
            raise SpecError(place, f"field {brief(name)} is not known; the fields are {', '.join(_FIELDS)}")
        if name in fields:
            raise SpecError(place, f"field {name!r} appears twice in a layer")
        fields[name] = _checked(place, name, match["value"])
    return [_layer(place, fields) for place, fields in found]


def _lines(text: str, shown: str) -> Iterator[tuple[str, str]]:
    """Yield the place and text of every line that is not empty, without its comment."""
    for number, line in enumerate(text.splitlines(), 1):
        kept = line.partition("#")[0].rstrip()
        if kept not in ("", "---"):
            yield f"{shown}: line {number}", kept


def _checked(place: str, name: str, value: str) -> str:
    if name == "type":
        if value not in _KINDS:
            raise SpecError(place, f"type must be one of {', '.join(_KINDS)}, got {brief(value)}")
    elif not _PRODUCT.fullmatch(value) or not 1 <= _product(value) <= _LARGEST:
        words = f"{name} must be a whole number from 1 on, or a product such as 64*3*3, got {brief(value)}"
        raise SpecError(place, words)
    return value


def _product(value: str) -> int:
    return math.prod(map(int, value.split("*")))


def _layer(place: str, fields: dict[str, str]) -> PolicyLayer:
    for name in _FIELDS[:3]:
        if name not in fields:
            raise SpecError(place, f"field {name!r} of this layer is missing")
    return PolicyLayer(place, fields["type"], *(_product(fields.get(name, "1")) for name in _FIELDS[1:]))


def _of_policy(layers: Sequence[PolicyLayer], policy: Sequence[BitPair], shown: str) -> list[_Chosen]:
    """Join layers and their bits, without products of two computed tensors."""
    if len(layers) != len(policy):
        raise SpecError(shown, f"has {len(policy)} rows, the YAML has {len(layers)} layers")
    kept = [(layer, bits) for layer, bits in zip(layers, policy, strict=True) if layer.kind != DYNAMIC]
    for layer, _ in kept:
        if layer.repeat != 1:
            raise SpecError(layer.where, f"repeat_factor of a {layer.kind} must be 1, got {layer.repeat}")
    return [_Chosen(layer.where, (layer.rows, layer.columns, layer.windows), bits) for layer, bits in kept]


def _of_network(network: Network, precision: Precision, shown: str) -> Iterator[_Chosen]:
    """Yield the bits of the layers of a quantised network. Raises SpecError if none has any."""
    if all(stage.weight_bits is None and stage.input_bits is None for stage in network.stages):
        raise SpecError(shown, "no layer of this network has bits of its own: it is not quantised")
    for stage in network.stages:
        bits = stage.weight_bits or precision.weight_bits, stage.input_bits or precision.input_bits
        yield _Chosen(f"{shown}: layer {brief(stage.name)}", _size(network, stage), bits, stage.name)


def _size(network: Network, stage: Stage) -> LayerShape:
    columns = network.shapes[stage.name].channels
    return counts.weights(network, stage) // columns, columns, counts.windows(network, stage)


def _matched(chosen: Sequence[_Chosen], network: Network, where: str) -> dict[str, BitPair]:
    """Return the bits of every layer by name. Raises SpecError for one without a partner, or with several."""
    ours = defaultdict[LayerShape, list[str]](list)
    theirs = defaultdict[LayerShape, list[_Chosen]](list)
    for stage in network.stages:
        ours[_size(network, stage)].append(stage.name)
    for layer in chosen:
        theirs[layer.size].append(layer)
    bits: dict[str, BitPair] = {}
    place = {node.name: index for index, node in enumerate(network.nodes)}
    upstream = _upstream(network)
    for size in dict.fromkeys((*theirs, *ours)):
        names = ours[size]
        rows = theirs[size]
        what = "layers of {} rows, {} columns and {} windows".format(*size)
        if len(names) != len(rows):
            words = f"has {len(rows)} {what}, the network has {len(names)}: {', '.join(names[:3])}"
            raise SpecError(rows[0].where if rows else where, words.rstrip(": "))
        if {row.name for row in rows} == set(names):
            bits |= {row.name: row.bits for row in rows}
            continue
        for first, second in pairwise(names):
            if len({row.bits for row in rows}) > 1 and not upstream[second] >> place[first] & 1:
                words = (
                    f"bits differ between {what}, and neither {first!r} nor {second!r} is before the other"
                )
                raise SpecError(rows[0].where, f"{words}: give a CSV with their names")
        bits |= {name: row.bits for name, row in zip(names, rows, strict=True)}
    return bits


def _upstream(network: Network) -> dict[str, int]:
    """Return a bit set for each node: bit i is 1 if it depends on node i, directly or not."""
    upstream: dict[str, int] = {}
    for index, node in enumerate(network.nodes):
        upstream[node.name] = 1 << index
        for source in node.inputs:
            upstream[node.name] |= upstream[source]
    return upstream
