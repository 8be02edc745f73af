"""Digital nodes on integers. What a network file does not tell of an operator, a stand-in replaces.

add, mul             sum and product (brought back to the width like the sums of a layer)
maxpool              the border counts as the least integer
avgpool              sum over the whole kernel, border and what is beyond as 0, divided and rounded down
global pools         maximum; sum divided by the pixels and rounded down
relu                 max(x, 0);      activation: max(x, x / 8 rounded down)
softmax              x minus the maximum over channels, saturated
layernorm            x minus the mean over channels rounded down, saturated
batchnorm, identity, dropout    x
select               channel c is channel c modulo those there are
barrier              all values of all inputs in order, from the first again when they end
"""

from __future__ import annotations

import numpy as np

from rramalloc.network.geometry import Shape
from rramalloc.network.node import (
    Barrier,
    Concat,
    Elementwise,
    Flatten,
    GlobalPool,
    Node,
    Pixelwise,
    Pool,
    Select,
    Upsample,
)
from rramalloc.placement.emulator.integers import Ints, Width
from rramalloc.placement.emulator.windows import field, padded

LEAK = 8


def computed(node: Node, inputs: list[Ints], output: Shape, width: Width) -> Ints:
    """Output of a digital node, (channels, height, width); sums and products in full."""
    first = inputs[0]
    match node:
        case Elementwise():
            return _folded(node, inputs, output)
        case Concat():
            grid = (output.height, output.width)
            return np.concatenate([np.broadcast_to(each, (len(each), *grid)) for each in inputs])
        case Pool():
            return _pooled(node, first, output, width)
        case GlobalPool():
            values = first.reshape(len(first), -1)
            pooled: Ints = values.max(1) if node.op == "global_maxpool" else values.sum(1) // values.shape[1]
            return pooled.reshape(output)
        case Flatten():
            return first.reshape(output)
        case Pixelwise():
            return _pixelwise(node, first, width)
        case Select():
            return first[np.arange(output.channels) % len(first)]
        case Upsample():
            return first.repeat(node.scale[0], axis=1).repeat(node.scale[1], axis=2)
        case Barrier():
            return np.resize(np.concatenate([each.ravel() for each in inputs]), output)
    raise AssertionError(f"{node.op} is no digital node")


def _folded(node: Elementwise, inputs: list[Ints], output: Shape) -> Ints:
    result = np.broadcast_to(inputs[0], output)
    for each in inputs[1:]:
        result = result + each if node.op == "add" else result * each
    return result


def _pooled(node: Pool, tensor: Ints, output: Shape, width: Width) -> Ints:
    """Kernel position by kernel position, each over the whole grid."""
    is_max = node.op == "maxpool"
    windows = field(padded(tensor, node.geometry, output, width.low if is_max else 0), node.geometry)
    result = np.full(output, width.low if is_max else 0, dtype=np.int64)
    for y in range(node.kernel[0]):
        for x in range(node.kernel[1]):
            pixel = windows[:, :, :, y, x].transpose(2, 0, 1)
            result = np.maximum(result, pixel) if is_max else result + pixel
    return result if is_max else result // (node.kernel[0] * node.kernel[1])


def _pixelwise(node: Pixelwise, tensor: Ints, width: Width) -> Ints:
    result: Ints = tensor
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
