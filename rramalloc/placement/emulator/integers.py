"""Integers of the emulated accelerator: their width, and how sums are brought back to it.

Every tensor holds signed integers of `width` bits, the narrower of inputs and outputs of the hardware, so
that each layer's inputs fit its converters. A layer with fewer input bits of its own takes the highest of
them. Sums (and products) are shifted right by a number of bits of their layer, rounding down, and saturate.

What can be verified: sums that stay exact, tensors that fit the memory, work that ends.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rramalloc.errors import UnsupportedError
from rramalloc.hardware.hardware import Hardware, Precision
from rramalloc.network.network import Network
from rramalloc.network.node import Conv, ConvTranspose, Elementwise, Node, Pool, Recurrent, Stage
from rramalloc.records import brief

MEMORY_LIMIT_BYTES = 2**32
WORK_LIMIT = 2**42
"""Products, and values that poolings look at, of one image."""
POSITIONS_LIMIT = 2**17
"""Kernel positions of one node."""


def window_rows(network: Network, stage: Stage) -> int:
    """Values of a window that one output depends on: K_h * K_w * C_in of a group."""
    channels = network.input_shape(stage).channels
    return stage.weight_count(channels) // network.shapes[stage.name].channels


def check_exact(network: Network, hardware: Hardware, lines: MappingOf[str, int] | None = None) -> None:
    """Raise UnsupportedError if a sum of any layer could leave the integers that are exact.

    lines: wordlines that one output depends on, by layer name, where they are not those of a window.
    """
    precision, width = hardware.precision, Width.of(hardware.precision).bits
    for stage in network.stages:
        if isinstance(stage, Recurrent):
            reason = "is a recurrence, which is not emulated: verify the layers before it and behind it apart"
            raise UnsupportedError(_where(network, stage), reason)
        rows = (lines or {}).get(stage.name, window_rows(network, stage)).bit_length()
        own = precision.of_layer(stage)
        _demand_bits(network, stage, rows + own.weight_bits + min(width, own.input_bits) - 1)
    for node in network.nodes:
        if isinstance(node, Elementwise):
            many = len(node.inputs)
            _demand_bits(network, node, width * many if node.op == "mul" else width + many.bit_length())
    if width + 24 > EXACT_BITS:  # sums over the at most 2**24 pixels of a grid
        reason = f"tensors of {width} bits are too wide for exact sums: use fewer input_bits or output_bits"
        raise UnsupportedError(network.where, reason)


def check_memory(network: Network) -> None:
    """Raise UnsupportedError if one node's tensors or weights take more than MEMORY_LIMIT_BYTES."""
    for node in network.nodes:
        sizes = [network.shapes[name] for name in (*node.inputs, node.name)]
        values = sum(shape.channels * shape.pixels for shape in sizes)
        if isinstance(node, Conv | ConvTranspose | Pool):
            top, left, bottom, right = node.pads
            source, span = network.input_shape(node), (node.geometry.span(0), node.geometry.span(1))
            if isinstance(node, ConvTranspose):  # the full output, of which the pads are cut off
                source = network.shapes[node.name]
            height, width = source.height + top + bottom, source.width + left + right
            values += source.channels * (height + span[0]) * (width + span[1])
        needs = [("tensors", 32 * values, "a smaller input shape")]
        if isinstance(node, Stage):
            weights = node.weight_count(network.input_shape(node).channels)
            needs.append(("weights", 16 * weights, "a smaller network"))
        for what, needed, remedy in needs:
            if needed > MEMORY_LIMIT_BYTES:
                reason = f"its {what} take {needed >> 20} MiB, the limit is {MEMORY_LIMIT_BYTES >> 20}"
                raise UnsupportedError(_where(network, node), f"{reason}: use {remedy}")


def check_work(network: Network, computed: MappingOf[str, int] | None = None) -> None:
    """Raise UnsupportedError if computing one image takes more than WORK_LIMIT.

    computed: products of layers on arrays, those with the zeros between shifted kernels included.
    """
    work = 0
    for node in network.nodes:
        output = network.shapes[node.name]
        if isinstance(node, Conv | ConvTranspose | Pool):
            positions = node.kernel[0] * node.kernel[1]
            if positions > POSITIONS_LIMIT:
                reason = f"its kernel has {positions} positions, the limit is {POSITIONS_LIMIT}"
                raise UnsupportedError(_where(network, node), f"{reason}: use a smaller kernel")
            work += output.channels * output.pixels * positions if isinstance(node, Pool) else 0
        if isinstance(node, Stage):
            products = node.weight_count(network.input_shape(node).channels) * output.pixels
            work += max(products, (computed or {}).get(node.name, 0))
    if work > WORK_LIMIT:
        reason = f"computing it takes {work} products, the limit is {WORK_LIMIT}"
        raise UnsupportedError(network.where, f"{reason}: use a smaller input shape")


def _demand_bits(network: Network, node: Node, bits: int) -> None:
    if bits > EXACT_BITS:
        what = "products" if node.op == "mul" else "sums"
        remedy = "use fewer weight_bits, input_bits or output_bits"
        reason = f"its {what} take {bits} bits, exact arithmetic has {EXACT_BITS}: {remedy}"
        raise UnsupportedError(_where(network, node), reason)


def _where(network: Network, node: Node) -> str:
    return f"{network.where}: node {brief(node.name)} ({node.op})"


Ints = npt.NDArray[np.int64]
EXACT_BITS = 53
"""Whole numbers below 2**53 are exact in double precision, whatever the order of their sums."""
EXACT_SINGLE_BITS = 24


@dataclass(frozen=True, slots=True)
class Width:
    """Signed integers of `bits` bits, two's complement."""

    bits: int

    @classmethod
    def of(cls, precision: Precision) -> Width:
        """The width of all tensors."""
        return cls(min(precision.input_bits, precision.output_bits))

    def entering(self, layer: Stage) -> Width:
        """The width of the inputs of a layer: its own input bits where they are fewer."""
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
        """The smallest right shift after which all of `sums` are of this width."""
        most = max(int(sums.max(initial=0)), -1 - int(sums.min(initial=0)))
        return max(0, most.bit_length() - (self.bits - 1))
