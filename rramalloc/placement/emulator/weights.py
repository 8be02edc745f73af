"""Integer weights and inputs: of an ONNX file, or random by seed.

Weights as an ONNX file has them, layer by layer of the network that was read from it.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

import numpy as np
import numpy.typing as npt

from rramalloc.choices import NODE_NAMES
from rramalloc.errors import SpecError
from rramalloc.mapping.fold import Fold
from rramalloc.network.network import Network
from rramalloc.network.node import Input, Stage
from rramalloc.placement.emulator.folded import folded_filters
from rramalloc.placement.emulator.integers import Ints, Width, window_rows
from rramalloc.placement.emulator.parallel_window import ParallelWindow
from rramalloc.records import brief


def weights_in(path: str | os.PathLike[str], network: Network) -> dict[str, npt.NDArray[Any]]:
    """Weights by layer name, (C_out, C_in / groups, K_h, K_w).

    Left out: what another operator computes, what lies in another file, and tensors of one repeated value,
    which hold the place of weights that were taken out. Raises FileError, SpecError.
    """
    from rramalloc.importers.onnx.functions import inlined
    from rramalloc.importers.onnx.graph import decode, graph_of

    where = os.fspath(path)
    model = inlined(decode(Path(path)), where)
    layers = {stage.name for stage in network.stages}
    graphs = [graph_of(model, where, names) for names in NODE_NAMES]
    graph = max(graphs, key=lambda graph: len(layers.intersection(graph.names)))
    tensors = {proto.name: proto for proto in graph.proto.initializer}
    for node in graph.nodes:
        if node.op_type == "Constant":
            tensors.update((node.output[0], a.t) for a in node.attribute if a.name == "value")
    protos = dict(zip(graph.names, graph.nodes, strict=True))
    arrays: dict[str, npt.NDArray[Any]] = {}
    for stage in network.stages:
        proto = protos.get(stage.name)
        for position, name in enumerate(() if proto is None else proto.input):
            if name in tensors and stage.name not in arrays:
                weights = _weights(network, stage, proto, position, tensors[name])
                if weights is not None:
                    arrays[stage.name] = weights
    return arrays


def _weights(
    network: Network, stage: Stage, proto: Any, position: int, tensor: Any
) -> npt.NDArray[Any] | None:
    outputs, rows = network.shapes[stage.name].channels, window_rows(network, stage)
    if math.prod(tensor.dims) != outputs * rows or len(tensor.dims) < 2 or tensor.data_location:
        return None
    array = _values(network.where, tensor)
    if array.dtype.kind not in "fiu" or array.min() == array.max():
        return None
    kernel = stage.kernel
    shape = (outputs, rows // (kernel[0] * kernel[1]), *kernel)
    flips = {attribute.name: attribute.i for attribute in proto.attribute}
    if proto.op_type == "ConvTranspose":  # (inputs, outputs of a group, ...)
        array = array.reshape(stage.groups, -1, outputs // stage.groups, *kernel).swapaxes(1, 2)
    elif len(array.shape) == 2:
        stored_by_row = flips.get("transB", 0) if position else not flips.get("transA", 0)
        array = array if stored_by_row else array.T
    return np.ascontiguousarray(array).reshape(shape)


def _values(where: str, tensor: Any) -> npt.NDArray[Any]:
    from onnx import numpy_helper

    place = f"{where}: initializer {brief(tensor.name)}"
    try:
        array: npt.NDArray[Any] = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, RuntimeError, KeyError) as error:
        raise SpecError(place, f"cannot be read: {error}") from None
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise SpecError(place, "holds values that are not finite: weights must be numbers")
    return array


Source = Literal["file", "random"]
Real = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Weights:
    """Weights of every layer, made on demand: equal calls yield equal weights.

    bits: signed, two's complement, of layers that have no `weight_bits` of their own; given: real or whole
    weights by layer name, (C_out, C_in / groups, K_h, K_w); layers without are random.
    """

    network: Network
    bits: int
    seed: int
    given: dict[str, npt.NDArray[Any]] = field(default_factory=dict)

    def source(self, stage: Stage) -> Source:
        """Where a layer's weights come from."""
        return "file" if stage.name in self.given else "random"

    def bits_of(self, stage: Stage) -> int:
        """Bits of a layer's weights."""
        return self.bits if stage.weight_bits is None else stage.weight_bits

    def of(self, stage: Stage) -> npt.NDArray[np.signedinteger[Any]]:
        """Integer weights of a layer, (C_out, C_in / groups, K_h, K_w)."""
        if stage.name in self.given:
            return quantised(self.given[stage.name], self.bits_of(stage))
        kernel = stage.kernel
        outputs = self.network.shapes[stage.name].channels
        inputs = window_rows(self.network, stage) // (kernel[0] * kernel[1])
        bits = self.bits_of(stage)
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        draw = np.random.default_rng((self.seed, 0, crc32(stage.name.encode())))
        size = (outputs, inputs, *kernel)
        return draw.integers(low, high, size=size, dtype=np.min_scalar_type(low).type, endpoint=True)

    def stored(self, stage: Stage, groups: int, window: ParallelWindow, fold: Fold | None = None) -> Ints:
        """The same, shifted over a parallel window: (groups stored apart, columns of weights, rows).

        A column is an output of one window of the block, a row an input value of the parallel window.
        """
        weights = self.of(stage)
        if fold is not None:
            weights = folded_filters(weights, fold)
        kernels = weights.reshape(stage.groups, -1, *weights.shape[1:])
        if groups != len(kernels):
            count, outputs, inputs, *kernel = kernels.shape
            together = np.zeros((count, outputs, count, inputs, *kernel), dtype=kernels.dtype)
            together[range(count), :, range(count)] = kernels
            kernels = together.reshape(groups, count * outputs, count * inputs, *kernel)
        return window.shifted(kernels)


def quantised(weights: npt.NDArray[Any], bits: int) -> npt.NDArray[np.signedinteger[Any]]:
    """Whole numbers of so many bits, in proportion to real weights; whole weights that fit stay."""
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    kind = np.min_scalar_type(low)
    if weights.dtype.kind in "iu" and weights.min() >= low and weights.max() <= high:
        return weights.astype(kind)
    real = weights.astype(np.float64)
    most = float(np.abs(real).max())
    if most == 0:
        return np.zeros(real.shape, dtype=kind)
    return np.clip(np.rint(real * (max(high, 1) / most)), low, high).astype(kind)


def drawn_input(network: Network, node: Input, width: Width, seed: int, image: int) -> Ints:
    """Random integers of the full width as one input of the network, (channels, height, width)."""
    draw = np.random.default_rng((seed, 2, image, crc32(node.name.encode())))
    return draw.integers(width.low, width.high, size=network.shapes[node.name], endpoint=True, dtype=np.int64)
