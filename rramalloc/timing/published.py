"""The published recurrence for chains of fused convolution and pooling layers (docs/sources/model.md 5)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from rramalloc.errors import UnsupportedError
from rramalloc.network.network import Network
from rramalloc.network.node import Conv, Flatten, GlobalPool, Linear, Pixelwise, Pool, Windowed


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainLayer:
    """One fused layer in the published parameters; no pooling: k_pool = s_pool = 1, p_pool = 0.

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


@dataclass(frozen=True, slots=True)
class Published:
    """Terms of every layer in steps, in chain order; `op[-1]` is the latency."""

    normal_op: tuple[int, ...]
    pre_op: tuple[int, ...]
    tail: tuple[int, ...]
    op: tuple[int, ...]

    @property
    def steps(self) -> int:
        """Latency in steps."""
        return self.op[-1]


def published(layers: Sequence[ChainLayer], replication: Sequence[int]) -> Published:
    """Evaluate the recurrence as it was published: pixels handed on within a step, rows not clamped.

    Source: docs/sources/model.md 5; Algorithm 1 of ACM TODAES 29(1):21, doi 10.1145/3631523.
    """
    normal_op, pre_op, tail, op = [], [0] * len(layers), [], [0] * len(layers)
    for i, (layer, d) in enumerate(zip(layers, replication, strict=True)):
        normal_op.append(-(-layer.w_out * layer.h_out // d))
        tail.append(-(-layer.w_out * (layer.p // layer.s) // d))
        starts = (steps + pre_op[k] for k, steps in _intervals(layers, replication, i))
        pre_op[i] = max(starts, default=0)
        op[i] = normal_op[i] + pre_op[i]
        if i:
            op[i] = max(op[i], op[i - 1] + tail[i])
    return Published(tuple(normal_op), tuple(pre_op), tuple(tail), tuple(op))


def _intervals(layers: Sequence[ChainLayer], replication: Sequence[int], i: int) -> Iterator[tuple[int, int]]:
    """(k, steps of layer k until layer i can start its first batch), from the layer before i to the first."""
    n = replication[i]
    for j in range(i, 0, -1):
        own, before, copies = layers[j], layers[j - 1], replication[j - 1]
        row = -(-n // own.w_out)
        column = n - (row - 1) * own.w_out
        pooled = (before.w_out - before.k_pool + 2 * before.p_pool) // before.s_pool + 1
        prow = (row - 1) * own.s + own.k - own.p
        pcol = min((column - 1) * own.s + own.k - own.p, pooled)
        crow = before.k_pool + before.s_pool * (prow - 1) - before.p_pool
        ccol = min(before.k_pool + before.s_pool * (pcol - 1) - before.p_pool, before.w_out)
        batches = -(-((crow - 1) * before.w_out + ccol) // copies)
        yield j - 1, batches - 1
        n = batches * copies


def chain_layers(network: Network, stages: Collection[str] | None = None) -> tuple[ChainLayer, ...]:
    """Return the fused layers of a network that is a chain of square convolutions and pools.

    stages: weight layers on arrays, None for all of them. What stands behind the first layer that needs all
    pixels, as one left to the host does, is passed over where it is not on arrays. Raises UnsupportedError
    naming the node that the published model does not cover.
    """
    layers: list[ChainLayer] = []
    previous, ended = "", False
    for node in network.nodes:
        reason = ""
        is_left = isinstance(node, Conv) and stages is not None and node.name not in stages
        if len(node.inputs) > 1 or (node.inputs and node.inputs[0] != previous):
            reason = "it is not a chain"
        elif is_left or isinstance(node, Linear | Flatten | GlobalPool) or (ended and isinstance(node, Pool)):
            ended = True
        elif isinstance(node, Windowed):
            (k, wide), (s, across), pads = node.kernel, node.stride, node.geometry.pads
            if isinstance(node, Conv) and ended:
                reason = "it follows a layer that needs all pixels"
            elif isinstance(node, Pool) and (not layers or layers[-1].k_pool * layers[-1].s_pool > 1):
                reason = "a pool must directly follow a convolution"
            elif k != wide or s != across or node.dilation != (1, 1) or pads.top != pads.left:
                reason = "kernel, stride and padding must be square and not dilated"
            elif isinstance(node, Conv):
                _, high, wide = network.shapes[node.name]
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
