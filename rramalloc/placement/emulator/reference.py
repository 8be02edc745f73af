"""The reference: every node as an ONNX model of its own, computed by `onnx.reference.ReferenceEvaluator`.

It shares no code with the emulator: integers are kept in float64, in which they are exact (`integers`
demands it), and every rule is written with ONNX operators. Convolutions and poolings too large for the
evaluator, which walks pools pixel by pixel in Python, are computed by `direct`.

Large convolutions and poolings of the reference: sums over kernel positions of shifted images.

A small ONNX model in the making, fed with arrays and run by the reference evaluator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rramalloc.network.geometry import Shape
from rramalloc.network.network import Network
from rramalloc.network.node import (
    Barrier,
    Concat,
    Conv,
    ConvTranspose,
    Elementwise,
    Flatten,
    GlobalPool,
    Linear,
    Node,
    Pixelwise,
    Pool,
    Regrid,
    Select,
    Stage,
    Take,
    Upsample,
)
from rramalloc.placement.emulator.weights import Weights

Reals = npt.NDArray[np.float64]


def convolve_directly(node: Conv, tensor: Reals, weights: npt.NDArray[Any], output: Shape) -> Reals:
    """A convolution, (channels, height, width); weights: (C_out, C_in / groups, K_h, K_w)."""
    groups = node.groups
    taken = len(tensor) // groups
    made = output.channels // groups
    total = np.zeros((groups, made, output.pixels))
    for (y, x), image in _shifted(node, tensor, output, 0.0):
        flat = image.reshape(groups, taken, -1)
        kernel = weights[:, :, y, x].astype(np.float64).reshape(groups, made, taken)
        total += kernel @ flat
    return total.reshape(output)


def transpose_directly(node: ConvTranspose, tensor: Reals, weights: npt.NDArray[Any], output: Shape) -> Reals:
    """A transposed convolution: every input value added to the outputs that it reaches."""
    (top, left, bottom, right), (down, across) = node.pads, node.stride
    full = (output.height + top + bottom, output.width + left + right)
    groups, (height, width) = node.groups, tensor.shape[1:]
    made, image = output.channels // groups, tensor.reshape(groups, len(tensor) // groups, -1)
    total = np.zeros((groups, made, *full))
    for y in range(node.kernel[0]):
        for x in range(node.kernel[1]):
            kernel = weights[:, :, y, x].astype(np.float64).reshape(groups, made, -1)
            first = y * node.dilation[0], x * node.dilation[1]
            reached = total[:, :, first[0] :: down, first[1] :: across][:, :, :height, :width]
            reached += (kernel @ image).reshape(groups, made, height, width)
    return total[:, :, top : full[0] - bottom, left : full[1] - right].reshape(output)


def pool_directly(node: Pool, tensor: Reals, output: Shape, low: int) -> Reals:
    """Maximum, or mean over the whole kernel rounded down; low: what the border of a maximum holds."""
    is_max = node.op == "maxpool"
    joined = np.full(output, float(low if is_max else 0))
    for _, image in _shifted(node, tensor, output, float(low if is_max else 0)):
        joined = np.maximum(joined, image) if is_max else joined + image
    return joined if is_max else np.floor(joined / (node.kernel[0] * node.kernel[1]))


def _shifted(
    node: Conv | Pool, tensor: Reals, output: Shape, fill: float
) -> Iterator[tuple[tuple[int, int], Reals]]:
    """For every kernel position the input values that it meets at each output pixel."""
    for y in range(node.kernel[0]):
        for x in range(node.kernel[1]):
            image = np.full((len(tensor), output.height, output.width), fill)
            rows = _met(output.height, node.stride[0], y * node.dilation[0] - node.pads[0], tensor.shape[1])
            columns = _met(output.width, node.stride[1], x * node.dilation[1] - node.pads[1], tensor.shape[2])
            (top, bottom, first_row), (left, right, first_column) = rows, columns
            if top < bottom and left < right:
                image[:, top:bottom, left:right] = tensor[
                    :, first_row :: node.stride[0], first_column :: node.stride[1]
                ][:, : bottom - top, : right - left]
            yield (y, x), image


def _met(outputs: int, stride: int, shift: int, extent: int) -> tuple[int, int, int]:
    """Outputs first ... last - 1 meet inputs within the extent; the input that the first one meets."""
    first = max(0, -(shift // stride))
    last = min(outputs, (extent - 1 - shift) // stride + 1)
    return first, last, first * stride + shift


OPSET = 19


class Model:
    """Operators one after the other; values are named by number."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._feeds: dict[str, npt.NDArray[Any]] = {}

    def feed(self, value: npt.NDArray[Any] | float) -> str:
        """An input of the model with its value."""
        name = f"in{len(self._feeds)}"
        self._feeds[name] = np.asarray(value)
        return name

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """An operator with one output."""
        from onnx import helper

        name = f"out{len(self._nodes)}"
        lists = {key: list(v) if isinstance(v, tuple) else v for key, v in attributes.items()}
        self._nodes.append(helper.make_node(op, list(inputs), [name], **lists))
        return name

    def run(self, output: str) -> npt.NDArray[np.float64]:
        """The value of an output."""
        from onnx import TensorProto, helper
        from onnx.reference import ReferenceEvaluator

        kinds = {"f": TensorProto.DOUBLE, "i": TensorProto.INT64}
        inputs = [
            helper.make_tensor_value_info(name, kinds[value.dtype.kind], value.shape)
            for name, value in self._feeds.items()
        ]
        outputs = [helper.make_tensor_value_info(output, TensorProto.DOUBLE, None)]
        graph = helper.make_graph(self._nodes, "node", inputs, outputs)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        computed: npt.NDArray[np.float64] = ReferenceEvaluator(model).run(None, self._feeds)[0]
        return computed


Way = Literal["onnx", "direct"]
UNROLLED_LIMIT = 2**21
"""Values of an unrolled input (windows times values of a window) that the evaluator convolves; about 1 s."""
POOLED_LIMIT = 2**18
"""Outputs of a pooling that the evaluator computes; about 3 s."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Values of nodes from values of their inputs, float64 (channels, height, width), whole numbers.

    low, high: of the integers of a tensor; all_direct: never ask the evaluator for what `direct` can do.
    """

    network: Network
    weights: Weights
    low: int
    high: int
    all_direct: bool = False

    def way(self, node: Node) -> Way:
        """Who computes a node."""
        output = self.network.shapes[node.name]
        if isinstance(node, Conv | ConvTranspose):
            channels = self.network.input_shape(node).channels
            unrolled = output.pixels * channels * node.kernel[0] * node.kernel[1]
            return "direct" if self.all_direct or unrolled > UNROLLED_LIMIT else "onnx"
        if isinstance(node, Pool):
            work = output.channels * output.pixels
            return "direct" if self.all_direct or work > POOLED_LIMIT else "onnx"
        return "onnx"

    def output(self, node: Node, inputs: Sequence[Reals]) -> Reals:
        """Output of a node that is no input; sums and products in full."""
        shape = self.network.shapes[node.name]
        if isinstance(node, Stage) and node.input_bits is not None:
            inputs = [self._highest_bits(inputs[0], node.input_bits)]
        if isinstance(node, Linear):
            return _linear(inputs[0], self.weights.of(node)).reshape(shape)
        if isinstance(node, Conv):
            weights = self.weights.of(node)
            if self.way(node) == "direct":
                return convolve_directly(node, inputs[0], weights, shape)
            return _convolved(node, inputs[0], weights.astype(np.float64)).reshape(shape)
        if isinstance(node, ConvTranspose):
            weights = self.weights.of(node)
            if self.way(node) == "direct":
                return transpose_directly(node, inputs[0], weights, shape)
            return _transposed(node, inputs[0], weights.astype(np.float64)).reshape(shape)
        if isinstance(node, Pool) and self.way(node) == "direct":
            return pool_directly(node, inputs[0], shape, self.low)
        return self._digital(node, inputs).reshape(shape)

    def _highest_bits(self, tensor: Reals, bits: int) -> Reals:
        """Integers of so many bits, what is left of a tensor whose integers have more."""
        step = (self.high - self.low + 1) / 2.0**bits
        return tensor if step <= 1 else np.floor(tensor / step)

    def narrowed(self, sums: Reals, shift: int) -> Reals:
        """Sums divided by 2**shift, rounded down, saturated."""
        model = Model()
        scaled = model.add("Floor", model.add("Div", model.feed(sums), model.feed(float(2**shift))))
        return model.run(self._clip(model, scaled))

    def _clip(self, model: Model, name: str) -> str:
        return model.add("Clip", name, model.feed(float(self.low)), model.feed(float(self.high)))

    def _digital(self, node: Node, inputs: Sequence[Reals]) -> Reals:
        model = Model()
        names = [model.feed(each[None]) for each in inputs]
        shape = (1, *self.network.shapes[node.name])
        match node:
            case Elementwise():
                result = names[0]
                for name in names[1:]:
                    result = model.add("Add" if node.op == "add" else "Mul", result, name)
            case Concat():
                grid = model.feed(np.array([1, 1, *shape[2:]]))
                result = model.add("Concat", *(model.add("Expand", name, grid) for name in names), axis=1)
            case Pool():
                result = self._pool(model, node, names[0], shape)
            case GlobalPool() if node.op == "global_maxpool":
                result = model.add("ReduceMax", names[0], model.feed(np.array([2, 3])))
            case GlobalPool():
                result = _mean(model, names[0], [2, 3], inputs[0][0].size)
            case Flatten():
                result = model.add("Flatten", names[0], axis=1)
            case Pixelwise():
                result = self._pixelwise(model, node, names[0], len(inputs[0]))
            case Select():
                chosen = np.array([c % len(inputs[0]) for c in range(node.channels)])
                result = model.add("Gather", names[0], model.feed(chosen), axis=1)
            case Upsample():
                result = _upsampled(model, names[0], inputs[0].shape, node)
            case Take():
                name = model.add("Pad", names[0], model.feed(np.array([0, 0, 0, 0, 0, 0, 1, 1])))
                for axis, runs in ((2, node.rows), (3, node.columns)):
                    kept = [(0, inputs[0].shape[axis - 1], 1)] if runs is None else runs
                    taken = [run[0] + run[2] * turn for run in kept for turn in range(run[1])]
                    name = model.add("Gather", name, model.feed(np.array(taken)), axis=axis)
                result = name
            case Regrid():
                result = model.add("Reshape", names[0], model.feed(np.array(shape)))
            case Barrier():
                result = _barrier(model, names, sum(each.size for each in inputs), shape)
            case _:
                raise AssertionError(f"{node.op} has no rule")
        return model.run(result)

    def _pool(self, model: Model, node: Pool, name: str, shape: tuple[int, ...]) -> str:
        """The border is added first, so far that ceil_mode needs no rule of its own."""
        source = self.network.input_shape(node)
        window = _window(node)
        reach = [(shape[2 + a] - 1) * node.stride[a] + node.geometry.span(a) for a in (0, 1)]
        before = node.pads[:2]
        after = [max(0, reach[a] - before[a] - source[1 + a]) for a in (0, 1)]
        is_max = node.op == "maxpool"
        fill = model.feed(float(self.low if is_max else 0))
        border = model.feed(np.array([0, 0, *before, 0, 0, *after]))
        name = model.add("Pad", name, border, fill)
        if is_max:
            return model.add("MaxPool", name, **window)
        ones = model.feed(np.ones((source.channels, 1, *node.kernel)))
        total = model.add("Conv", name, ones, group=source.channels, **window)
        return model.add("Floor", model.add("Div", total, model.feed(float(node.kernel[0] * node.kernel[1]))))

    def _pixelwise(self, model: Model, node: Pixelwise, name: str, channels: int) -> str:
        match node.op:
            case "relu":
                return model.add("Relu", name)
            case "activation":
                eighth = model.add("Floor", model.add("Div", name, model.feed(8.0)))
                return model.add("Max", name, eighth)
            case "softmax":
                most = model.add("ReduceMax", name, model.feed(np.array([1])))
                return self._clip(model, model.add("Sub", name, most))
            case "layernorm":
                return self._clip(model, model.add("Sub", name, _mean(model, name, [1], channels)))
        return model.add("Identity", name)


def _linear(tensor: Reals, weights: npt.NDArray[Any]) -> Reals:
    """Weights times every pixel, some outputs after the others."""
    pixels, flat = tensor.reshape(len(tensor), -1), weights.reshape(len(weights), -1)
    several = max(1, 2**22 // flat.shape[1])
    parts = []
    for at in range(0, len(flat), several):
        model = Model()
        few = model.feed(flat[at : at + several].astype(np.float64))
        parts.append(model.run(model.add("MatMul", few, model.feed(pixels))))
    return np.concatenate(parts)


def _window(node: Conv | ConvTranspose | Pool) -> dict[str, Any]:
    """Attributes of its receptive field."""
    return {"kernel_shape": node.kernel, "strides": node.stride, "dilations": node.dilation}


def _convolved(node: Conv, tensor: Reals, weights: Reals) -> Reals:
    model = Model()
    fed = model.feed(tensor[None]), model.feed(weights)
    return model.run(model.add("Conv", *fed, pads=node.pads, group=node.groups, **_window(node)))


def _transposed(node: ConvTranspose, tensor: Reals, weights: Reals) -> Reals:
    """Each group by itself, in full; what is added behind and cut off are operators of their own.

    The evaluator of a transposed convolution has no groups, and fails on some paddings of the output.
    """
    model = Model()
    kernels = weights.reshape(node.groups, -1, *weights.shape[1:]).swapaxes(1, 2)
    groups = tensor.reshape(node.groups, 1, -1, *tensor.shape[1:])
    fed = [
        (model.feed(one), model.feed(np.ascontiguousarray(k))) for one, k in zip(groups, kernels, strict=True)
    ]
    parts = [model.add("ConvTranspose", *each, **_window(node)) for each in fed]
    name = model.add("Concat", *parts, axis=1)
    name = model.add("Pad", name, model.feed(np.array([0] * 6 + list(node.output_padding))), model.feed(0.0))
    top, left, bottom, right = node.pads
    most = np.iinfo(np.int64).max
    ends = [-bottom if bottom else most, -right if right else most]
    cuts = (np.array([top, left]), np.array(ends), np.array([2, 3]))
    return model.run(model.add("Slice", name, *(model.feed(cut) for cut in cuts)))


def _mean(model: Model, name: str, axes: list[int], count: int) -> str:
    """Sum over axes divided by their length, rounded down."""
    total = model.add("ReduceSum", name, model.feed(np.array(axes)))
    return model.add("Floor", model.add("Div", total, model.feed(float(count))))


def _upsampled(model: Model, name: str, shape: tuple[int, ...], node: Upsample) -> str:
    channels, height, width = shape
    scale = node.scale
    if node.mode != "nearest":
        for axis in (0, 1):
            last = [last for _, last in node.needed(axis, shape[axis + 1])]
            name = model.add("Gather", name, model.feed(np.array(last)), axis=axis + 2)
        return name
    name = model.add("Reshape", name, model.feed(np.array([channels, height, 1, width, 1])))
    name = model.add("Expand", name, model.feed(np.array([channels, height, scale[0], width, scale[1]])))
    return model.add(
        "Reshape", name, model.feed(np.array([1, channels, height * scale[0], width * scale[1]]))
    )


def _barrier(model: Model, names: list[str], size: int, shape: tuple[int, ...]) -> str:
    wanted = int(np.prod(shape))
    flat = model.add("Concat", *(model.add("Flatten", name, axis=1) for name in names), axis=1)
    many = model.add("Tile", flat, model.feed(np.array([1, -(-wanted // size)])))
    cut = model.add("Slice", many, *(model.feed(np.array([at])) for at in (0, wanted, 1)))
    return model.add("Reshape", cut, model.feed(np.array(shape)))
