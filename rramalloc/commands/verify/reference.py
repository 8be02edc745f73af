"""Expected integers, weights and outputs of a network: every node is computed with them.

Every tensor holds signed integers of one width, the narrower of inputs and outputs of the hardware, so that
each layer's inputs fit its converters. A layer with fewer input bits of its own takes the highest of them.
Sums (and products) are shifted right by a number of bits of their layer, rounding down, and saturate.

Layers with weights are convolutions, kernel position by kernel position over the whole grid, in double
precision, in which their integers are exact: no code is shared with the arrays. Digital nodes work on
integers; a stand-in replaces what a network file omits of an operator.

    add, mul             sum and product (brought back to the width like the sums of a layer);
    maxpool              the border counts as the least integer;
    avgpool              sum over the whole kernel, border and what is beyond as 0, divided and rounded down;
    global pools         maximum; sum divided by the pixels and rounded down;
    relu                 max(x, 0);      activation: max(x, x / 8 rounded down)
    softmax              x minus the maximum over channels, saturated
    layernorm            x minus the mean over channels rounded down, saturated
    batchnorm, identity, dropout    x
    upsample             the last pixel that is needed; of the nearest one that is it;
    take, regrid         the pixels that they take, 0 where they take none;
    select               channel c is channel c modulo those there are;
    barrier              all values of all inputs in order, from the first again when they end
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

import numpy as np
import numpy.typing as npt

from rramalloc.choices import NODE_NAMES
from rramalloc.errors import SpecError
from rramalloc.hardware.tables import Precision
from rramalloc.ndarrays import Ints
from rramalloc.network.geometry import Shape
from rramalloc.network.network import Network
from rramalloc.network.node import (
    Barrier,
    Concat,
    ConvTranspose,
    Elementwise,
    Flatten,
    GlobalPool,
    Input,
    Node,
    Pixelwise,
    Pool,
    Reduce,
    Regrid,
    Select,
    Stage,
    Take,
    Upsample,
)
from rramalloc.records import brief

LEAK = 8  # `activation` divides negative values by it: any slope does, a power of two stays exact
_WEIGHTS_AT_ONCE = 2**22  # weights of a layer that are held in double precision at once, 32 MB


@dataclass(frozen=True, slots=True)
class Width:
    """Signed integers of `bits` bits, two's complement."""

    bits: int

    @classmethod
    def of(cls, precision: Precision) -> Width:
        """Return the width of all tensors."""
        return cls(min(precision.input_bits, precision.output_bits))

    def entering(self, layer: Stage) -> Width:
        """Return the width of the inputs of a layer: its own input bits where they are fewer."""
        return self if layer.input_bits is None else Width(min(self.bits, layer.input_bits))

    @property
    def low(self) -> int:
        """The least of them."""
        return -(1 << (self.bits - 1))

    @property
    def high(self) -> int:
        """The largest of them."""
        return (1 << (self.bits - 1)) - 1

    def shift_for(self, sums: Ints) -> int:
        """Return the smallest right shift after which all of `sums` are of this width."""
        most = max(int(sums.max(initial=0)), -1 - int(sums.min(initial=0)))
        return max(0, most.bit_length() - (self.bits - 1))

    def narrowed(self, sums: Ints, shift: int) -> Ints:
        """Return sums brought back to this width: shifted, rounded down, saturated."""
        narrow: Ints = np.clip(sums >> shift, self.low, self.high)
        return narrow

    def drawn(self, network: Network, node: Input, seed: int, image: int) -> Ints:
        """Return random integers as one input of the network, (channels, height, width)."""
        draw = np.random.default_rng((seed, 2, image, crc32(node.name.encode())))
        return draw.integers(
            self.low, self.high, size=network.shapes[node.name].array, endpoint=True, dtype=np.int64
        )


TensorSource = Literal["file", "random"]


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

    def source(self, stage: Stage) -> TensorSource:
        """Return where a layer's weights come from."""
        return "file" if stage.name in self.given else "random"

    def of(self, stage: Stage) -> npt.NDArray[np.signedinteger[Any]]:
        """Return the integer weights of a layer, (C_out, C_in / groups, K_h, K_w)."""
        bits = self.bits if stage.weight_bits is None else stage.weight_bits
        if stage.name in self.given:
            return quantised(self.given[stage.name], bits)
        range_of_weights, kernel = Width(bits), stage.kernel
        outputs = self.network.shapes[stage.name].channels
        inputs = window_rows(self.network, stage) // (kernel[0] * kernel[1])
        draw = np.random.default_rng((self.seed, 0, crc32(stage.name.encode())))
        size, kind = (outputs, inputs, *kernel), np.min_scalar_type(range_of_weights.low).type
        return draw.integers(
            range_of_weights.low, range_of_weights.high, size=size, dtype=kind, endpoint=True
        )


def window_rows(network: Network, stage: Stage) -> int:
    """Return how many values of a window one output depends on: K_h * K_w * C_in of a group."""
    channels = network.input_shape(stage).channels
    return stage.weight_count(channels) // network.shapes[stage.name].channels


def quantised(weights: npt.NDArray[Any], bits: int) -> npt.NDArray[np.signedinteger[Any]]:
    """Return whole numbers of `bits` bits, in proportion to real weights; whole weights that fit stay."""
    range_of_weights = Width(bits)
    kind = np.min_scalar_type(range_of_weights.low)
    if (
        weights.dtype.kind in "iu"
        and weights.min() >= range_of_weights.low
        and weights.max() <= range_of_weights.high
    ):
        return weights.astype(kind)
    real = weights.astype(np.float64)
    most = float(np.abs(real).max())
    if most == 0:
        return np.zeros(real.shape, dtype=kind)
    return np.clip(
        np.rint(real * (max(range_of_weights.high, 1) / most)), range_of_weights.low, range_of_weights.high
    ).astype(kind)


def weights_in(path: str | os.PathLike[str], network: Network) -> dict[str, npt.NDArray[Any]]:
    """Return the weights of an ONNX file by layer name, (C_out, C_in / groups, K_h, K_w).

    Left out: what another operator computes, what lies in another file, and tensors of one repeated value,
    which hold the place of weights that were taken out. Raises FileError, SpecError.
    """
    from rramalloc.importers.onnx.graph import decode, graph_of, inlined

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


def node_output(
    node: Node, inputs: list[Ints], sources: list[Shape], output: Shape, weights: Weights, width: Width
) -> Ints:
    """Return the output of a node that is no input, (channels, rows, width); sums and products in full.

    sources: shapes of the inputs. Every image of the output is computed by itself.
    """
    if isinstance(node, Regrid):
        return regridded(node, inputs[0], sources[0], output)
    if max(output.images, *(source.images for source in sources)) == 1:
        return _image_output(node, inputs, output, weights, width)
    images, alone = list[Ints](), output.of_images(1)
    for image in range(output.images):
        read = images_read(node, inputs, sources, output, image)
        if isinstance(node, Reduce):
            read = [stacked.sum(axis=1, keepdims=True) // stacked.shape[1] for stacked in read]
        if isinstance(node, Select):  # other channels for each part of an image, all those of a group
            parts = max(1, output.images // sources[0].images)
            stacked = read[0].reshape(-1, 1, *read[0].shape[2:])
            read = [np.roll(stacked, -(image % parts) * output.channels, axis=0)]
        joined = [stacked.reshape(len(stacked), -1, stacked.shape[-1]) for stacked in read]
        images.append(_image_output(node, joined, alone, weights, width))
    return np.concatenate(images, axis=1)


def images_read(
    node: Node, inputs: list[Ints], sources: list[Shape], output: Shape, image: int, fill: int = 0
) -> list[Ints]:
    """Return what an image of a node's output reads of each input, (channels, images, height, width).

    An image of `fill` where it reads none; along images a concatenation has one input.
    """
    read = []
    for position, (tensor, source) in enumerate(zip(inputs, sources, strict=True)):
        first, last = node.images_needed(sources, position, output.images)[image]
        stacked = tensor.reshape(len(tensor), source.images, *source.grid)
        if first <= last:
            read.append(stacked[:, first : last + 1])
        elif not isinstance(node, Concat):
            read.append(np.full_like(stacked[:, :1], fill))
    return read


def regridded(node: Regrid, tensor: Ints, source: Shape, output: Shape) -> Ints:
    """Return the pixels (channels, rows, width) of images on another grid."""
    if node.order == "raster" or source.grid == output.grid:
        return tensor.reshape(len(tensor), output.rows, output.width)
    large, small = (source, output) if source.images < output.images else (output, source)
    down, across = large.height // small.height, large.width // small.width
    # From or to: window row, row, window column, column; strided windows take every so many rows.
    cut, order = (down, small.height, across, small.width), (0, 1, 2, 4, 3, 5)
    if node.order == "strided":
        cut, order = (small.height, down, small.width, across), (0, 1, 3, 5, 2, 4)
    if large is source:
        moved = tensor.reshape(len(tensor), large.images, *cut).transpose(order)
    else:
        windows = tensor.reshape(len(tensor), large.images, down, across, *small.grid)
        moved = windows.transpose(np.argsort(order, kind="stable"))
    return moved.reshape(len(tensor), output.rows, output.width)


def _image_output(node: Node, inputs: list[Ints], output: Shape, weights: Weights, width: Width) -> Ints:
    """Return the output of one image."""
    if isinstance(node, Stage):
        highest = inputs[0] >> (width.bits - width.entering(node).bits)
        return convolved(node, highest, weights.of(node), output)
    return _digital(node, inputs, output, width)


def convolved(node: Stage, tensor: Ints, weights: npt.NDArray[Any], output: Shape) -> Ints:
    """Return the sums of a layer with weights (C_out, C_in / groups, K_h, K_w)."""
    groups = node.groups
    taken, made = len(tensor) // groups, output.channels // groups
    total = np.zeros((groups, made, output.pixels))
    several = max(1, _WEIGHTS_AT_ONCE // (groups * taken))
    for (y, x), image in _shifted(node, tensor.astype(np.float64), output, 0):
        pixels = image.reshape(groups, taken, -1)
        kernel = weights[:, :, y, x].reshape(groups, made, taken)
        for at in range(0, made, several):
            few = kernel[:, at : at + several].astype(np.float64)
            total[:, at : at + several] += few @ pixels
    return total.astype(np.int64).reshape(output.array)


def _shifted(
    node: Stage | Pool, tensor: npt.NDArray[Any], output: Shape, fill: int
) -> Iterator[tuple[tuple[int, int], npt.NDArray[Any]]]:
    """Yield for every kernel position the values that it meets at each output pixel, where it meets any."""
    bordered = np.pad(tensor, ((0, 0), (0, 1), (0, 1)), constant_values=fill)
    height, width = tensor.shape[1:]
    for y in range(node.kernel[0]):
        rows = pixels_met(node, 0, y, output.height, height)
        if rows.min() == height:
            continue
        lines = bordered.take(rows, axis=1)
        for x in range(node.kernel[1]):
            columns = pixels_met(node, 1, x, output.width, width)
            if columns.min() < width:
                yield (y, x), lines.take(columns, axis=2)


def pixels_met(node: Stage | Pool, axis: int, position: int, outputs: int, extent: int) -> Ints:
    """Return the input pixel that a kernel position meets for each output pixel; `extent` for none."""
    stride, reach, before = node.stride[axis], position * node.dilation[axis], node.pads[axis]
    if isinstance(node, ConvTranspose):
        pixels, beside = np.divmod(np.arange(outputs) + before - reach, stride)
    else:
        pixels, beside = np.arange(outputs) * stride + reach - before, np.zeros(outputs, dtype=np.int64)
    return np.where((beside == 0) & (pixels >= 0) & (pixels < extent), pixels, extent)


def _digital(node: Node, inputs: list[Ints], output: Shape, width: Width) -> Ints:
    first = inputs[0]
    match node:
        case Elementwise():
            result = np.broadcast_to(first, output.array)
            for othersor in inputs[1:]:
                result = result + othersor if node.op == "add" else result * othersor
            return result
        case Concat():
            grid = (output.height, output.width)
            return np.concatenate([np.broadcast_to(othersor, (len(othersor), *grid)) for othersor in inputs])
        case Pool():
            return _pooled(node, first, output, width)
        case GlobalPool():
            values = first.reshape(len(first), -1)
            pooled: Ints = values.max(1) if node.op == "global_maxpool" else values.sum(1) // values.shape[1]
            return pooled.reshape(output.array)
        case Reduce() if first[0].shape != output.grid:
            mean: Ints = first.sum(axis=(1, 2)) // first[0].size
            return mean.reshape(output.array)
        case Reduce():
            return first
        case Flatten():
            return first.reshape(output.array)
        case Pixelwise():
            return _pixelwise(node, first, width)
        case Select():
            return first[np.arange(output.channels) % len(first)]
        case Upsample() | Take():
            needed = (node.needed(axis, Shape(*first.shape)) for axis in (0, 1))
            rows, columns = ([last for _, last in othersor] for othersor in needed)
            bordered = np.pad(first, ((0, 0), (0, 1), (0, 1)))  # -1 takes a row or column of zeros
            return bordered[:, rows][:, :, columns]
        case Barrier():
            return np.resize(np.concatenate([othersor.ravel() for othersor in inputs]), output.array)
    raise AssertionError(f"{node.op} is no digital node")


def _pooled(node: Pool, tensor: Ints, output: Shape, width: Width) -> Ints:
    """Return the maximum, or mean over the whole kernel rounded down."""
    fill = width.low if node.op == "maxpool" else 0
    result = np.full(output.array, fill, dtype=np.int64)
    for _, image in _shifted(node, tensor, output, fill):
        result = np.maximum(result, image) if node.op == "maxpool" else result + image
    return result if node.op == "maxpool" else result // (node.kernel[0] * node.kernel[1])


def _pixelwise(node: Pixelwise, tensor: Ints, width: Width) -> Ints:
    result = tensor
    match node.op:
        case "relu":
            result = np.maximum(tensor, 0)
        case "activation":
            result = np.maximum(tensor, tensor // LEAK)
        case "softmax":
            result = np.maximum(tensor - tensor.max(axis=0), width.low)
        case "layernorm":
            result = np.clip(tensor - tensor.sum(axis=0) // len(tensor), width.low, width.high)
    return result
