"""The published recurrence for chains of fused convolution and pooling layers (docs/sources/model.md 5)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rramalloc.compiled import compiled, compiled_inline
from rramalloc.errors import UnsupportedError
from rramalloc.ndarrays import Ints
from rramalloc.network.network import Network
from rramalloc.network.node import Conv, Flatten, GlobalPool, Linear, Pixelwise, Pool, Windowed
from rramalloc.timing.recurrence import Recurrence

_WINDOWS = 5  # column of `chain_rows`: windows of the layer
_TAIL = 6  # column of `chain_rows`: windows of its tail
_MOST_PIXELS = 2**53  # whole numbers up to it are exact as doubles, so `ceil_div` is exact


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainLayer:
    """A convolution with the pool behind it, in the published parameters; no pool: k_pool = s_pool = 1.

    w_out, h_out: grid of the convolution's output, before pooling.
    """

    name: str
    w_out: int
    h_out: int
    k: int
    s: int
    p: int
    k_pool: int = 1
    s_pool: int = 1
    p_pool: int = 0


def published(layers: Sequence[ChainLayer], copies: Sequence[int]) -> Recurrence:
    """Evaluate the recurrence as published: pixels are handed on within a step, rows are not clamped.

    Its steps are those of the last layer, and stages are layers in chain order.

    Raises UnsupportedError if unclamped rows ask a layer for more pixels than can be counted.
    Source: docs/sources/model.md 5; Algorithm 1 of ACM TODAES 29(1):21, doi 10.1145/3631523.
    """
    rows, counts = chain_rows(layers), np.array(copies, dtype=np.int64)
    windows, tail_windows = rows[:, _WINDOWS], rows[:, _TAIL]
    normal_op = -(-windows // counts)
    tail = -(-tail_windows // counts)
    pre_op = np.zeros(len(layers), dtype=np.int64)
    # Windows of a layer up to which all its products with rows and columns stay below 2^53.
    most = _MOST_PIXELS // int((rows[:, 2] + np.abs(rows[:, 3]) + 1).max() * rows[:, 1].max())
    overrun = _wait(rows, counts, most, pre_op)
    if overrun >= 0:
        raise UnsupportedError(
            f"node {layers[overrun].name[:60]!r}",
            "the published recurrence does not clamp rows: the layers behind ask this one for more than "
            f"{most} windows",
        )
    op = normal_op + pre_op
    for i in range(1, len(layers)):
        op[i] = max(op[i], op[i - 1] + tail[i])
    return Recurrence(normal_op, pre_op, tail, op)


def chain_rows(chain: Sequence[ChainLayer]) -> Ints:
    """Return a row of parameters for each layer and its predecessor, as `last_pixel_needed` reads them."""
    rows = []
    for layer, before in zip(chain, (chain[0], *chain), strict=False):
        pooled = (before.w_out - before.k_pool + 2 * before.p_pool) // before.s_pool + 1
        first = before.k_pool + before.s_pool * (layer.k - layer.p - 1) - before.p_pool
        end = min(before.k_pool + before.s_pool * (pooled - 1) - before.p_pool, before.w_out)
        tail = layer.w_out * (layer.p // layer.s)
        windows = layer.w_out * layer.h_out
        rows.append((layer.w_out, before.w_out, layer.s * before.s_pool, first, end, windows, tail))
    return np.array(rows, dtype=np.int64)


@compiled_inline
def ceil_div(dividend: int, divisor: int) -> int:
    """Return ceil(part / whole), exact below 2^53 and faster than a division of integers."""
    return int(np.ceil(dividend / divisor))


@compiled_inline
def last_pixel_needed(layers: Any, i: int, n: int) -> int:
    """Return the last pixel of layer i - 1 that the first n windows of layer i need; rows are not clamped.

    layers: int64, a row per layer: w_out; and of the layer before it: w_out, conv pixels per window along
    an axis, conv row that the first window ends in, last conv column that any window needs; windows; tail.
    """
    before, step, first, end = layers[i, 1], layers[i, 2], layers[i, 3], layers[i, 4]
    row = ceil_div(n, layers[i, 0]) - 1
    column = n - row * layers[i, 0] - 1
    return int((row * step + first - 1) * before + min(column * step + first, end))


@compiled
def _wait(layers: Any, copies: Any, most: int, pre_op: Any) -> int:
    """Write PreOp of every layer; return the layer that is asked for more than `most` windows, or -1."""
    for i in range(1, len(copies)):
        n, wait = copies[i], -most
        for j in range(i, 0, -1):
            batches = ceil_div(last_pixel_needed(layers, j, n), copies[j - 1])
            wait = max(wait, batches - 1 + pre_op[j - 1])
            n = batches * copies[j - 1]
            if n > most:
                return j - 1
        pre_op[i] = wait
    return -1


def chain_layers(network: Network, stages: Collection[str] | None = None) -> tuple[ChainLayer, ...]:
    """Return the fused layers of a network that is a chain of square convolutions and pools.

    stages: weight layers on arrays, None for all of them. The chain ends at the first layer that needs all
    pixels, such as one left to the host; later layers must not be on arrays. Raises UnsupportedError naming
    the node that the published model does not cover.
    """
    layers: list[ChainLayer] = []
    previous, ended = "", False
    for node in network.nodes:
        reason = ""
        is_left = isinstance(node, Conv) and stages is not None and node.name not in stages
        if network.shapes[node.name].images > 1:
            reason = "it has several images"
        elif len(node.inputs) > 1 or (node.inputs and node.inputs[0] != previous):
            reason = "it is not a chain"
        elif is_left or isinstance(node, Linear | Flatten | GlobalPool) or (ended and isinstance(node, Pool)):
            ended = True
        elif isinstance(node, Windowed):  # a convolution or a pool
            (k, wide), (s, across), pads = node.kernel, node.stride, node.geometry.pads
            if isinstance(node, Conv) and ended:
                reason = "it follows a layer that needs all pixels"
            elif isinstance(node, Pool) and (not layers or layers[-1].k_pool * layers[-1].s_pool > 1):
                reason = "a pool must directly follow a convolution"
            elif k != wide or s != across or node.dilation != (1, 1) or pads.top != pads.left:
                reason = "kernel, stride and padding must be square and not dilated"
            elif isinstance(node, Conv):
                high, wide = network.shapes[node.name].grid
                layers.append(ChainLayer(name=node.name, w_out=wide, h_out=high, k=k, s=s, p=pads.top))
            else:
                layers[-1] = replace(layers[-1], k_pool=k, s_pool=s, p_pool=pads.top)
        elif not isinstance(node, Pixelwise) and node.inputs:
            reason = f"{node.op} is not part of the model"
        if reason:
            where = f"{network.name}: node {node.name[:60]!r}"
            raise UnsupportedError(where, f"the published recurrence covers chains only: {reason}")
        previous = node.name
    if not layers:
        raise UnsupportedError(network.name, "the published recurrence needs a convolution, there is none")
    return tuple(layers)
