"""Networks, hardware and placements for the emulator, and convolutions by loops over every value."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from rramalloc.allocation.allocation_input import AllocationInput
from rramalloc.commands.place.place import StoredNetwork
from rramalloc.commands.place.placement import PlacedArray
from rramalloc.commands.verify.crossbars import Converters, CrossbarStorage
from rramalloc.commands.verify.layer import EmulatedLayer, ParallelWindow
from rramalloc.commands.verify.reference import Weights, Width
from rramalloc.commands.verify.verification import Verification
from rramalloc.commands.verify.verify import Task, in_order, verify_task
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.tables import Counting, Crossbar, Precision
from rramalloc.mapping.modes import largest_block, smallest_block
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.network import Network
from rramalloc.network.node import Conv, ConvTranspose

DENSE = Counting(groups="dense", classifiers="host", row_blocks="anywhere")


def hardware(
    lines: tuple[int, int] = (8, 8),
    *,
    weight_bits: int = 4,
    cell_bits: int = 2,
    bits: int = 5,
    signed: Any = "offset",
    **more: Any,
) -> Hardware:
    return Hardware(
        name="small",
        source="made for a test",
        crossbar=Crossbar(wordlines=lines[0], bitlines=lines[1], cell_bits=cell_bits),
        precision=Precision(weight_bits=weight_bits, input_bits=bits, output_bits=bits, signed=signed),
        **more,
    )


def random_hardware(random: Random, least_lines: int = 2, times: int = 1) -> Hardware:
    """times: factor of the lines, for arrays that hold several copies."""
    lines = (times * random.randint(least_lines, 40), times * random.randint(2, 20))
    return hardware(
        lines,
        weight_bits=random.randint(1, 9),
        cell_bits=random.randint(1, 5),
        bits=random.randint(2, 9),
        signed=random.choice(("offset", "differential")),
        counting=random.choice((None, None, DENSE)),
    )


def network(shape: Sequence[int], **conv: Any) -> Network:
    """One convolution `c` of an input."""
    nodes = [
        {"name": "in", "op": "input", "shape": list(shape)},
        {"name": "c", "op": "conv", "inputs": ["in"], **conv},
    ]
    return Network.build("one", nodes)


def random_conv(random: Random) -> Network:
    """Any kernel, stride, dilation, groups and pads that fit."""
    while True:
        groups = random.choice((1, 1, 2, 3, 6))
        inputs, outputs = groups * random.randint(1, 4), groups * random.randint(1, 4)
        kernel = [random.randint(1, 3), random.randint(1, 3)]
        dilation, stride = ([random.randint(1, 3), random.randint(1, 3)] for _ in range(2))
        pads = [random.randint(0, 3) for _ in range(4)]
        side = [random.randint(1, 7), random.randint(1, 7)]
        reach = [(kernel[a] - 1) * dilation[a] + 1 for a in (0, 1)]
        if all(side[a] + pads[a] + pads[a + 2] >= reach[a] for a in (0, 1)):
            return network(
                [inputs, *side],
                out_channels=outputs,
                kernel=kernel,
                dilation=dilation,
                stride=stride,
                pads=pads,
                groups=groups,
            )


def random_transposed(random: Random) -> Network:
    """Any transposed convolution `c` of an input: kernels below the stride, dilation, groups, cut borders."""
    while True:
        groups = random.choice((1, 1, 2, 3))
        inputs, outputs = groups * random.randint(1, 3), groups * random.randint(1, 3)
        kernel, stride, dilation = ([random.randint(1, most), random.randint(1, most)] for most in (4, 3, 3))
        added = [random.randint(0, max(stride[a], dilation[a]) - 1) for a in (0, 1)]
        pads, side = [random.randint(0, 3) for _ in range(4)], [random.randint(1, 5), random.randint(1, 5)]
        full = [(side[a] - 1) * stride[a] + (kernel[a] - 1) * dilation[a] + 1 + added[a] for a in (0, 1)]
        if all(full[a] > pads[a] + pads[a + 2] for a in (0, 1)):
            nodes = [
                {"name": "in", "op": "input", "shape": [inputs, *side]},
                {
                    "name": "c",
                    "op": "conv_transpose",
                    "inputs": ["in"],
                    "out_channels": outputs,
                    "kernel": kernel,
                    "stride": stride,
                    "dilation": dilation,
                    "pads": pads,
                    "output_padding": added,
                    "groups": groups,
                },
            ]
            return Network.build("one", nodes)


def random_block(random: Random, source: Network, stage: Any, most: int = 4) -> tuple[int, int]:
    """A block of up to most x most of a stage's smallest ones."""
    unit, largest = smallest_block(stage), largest_block(stage, source.shapes[stage.name])
    high, wide = (
        random.randint(1, min(limit // each, most)) * each for limit, each in zip(largest, unit, strict=True)
    )
    return high, wide


def task(
    source: Network,
    copies: dict[str, int],
    machine: Hardware,
    mapping: Any = "im2col",
    arrays: Sequence[PlacedArray] | None = None,
    fc: Any = "host",
    blocks: dict[str, Any] | None = None,
) -> Task:
    """Placed in order, or as `arrays` say."""
    options, blocks = MappingOptions(mapping=mapping, fc=fc), blocks or {}
    given = AllocationInput(copies=copies, where="test", blocks=blocks, hardware=machine, options=options)
    if arrays is None:
        arrays = in_order(StoredNetwork.of(source, given, {}), given.where)
    return Task(source, given, arrays, "in order")


def verified(what: Task, seed: int = 0, images: int = 1, **options: Any) -> Verification:
    """The verdict, with random weights unless given."""
    weights = options.pop("weights", None) or Weights(
        what.network, what.source.hardware.precision.weight_bits, seed
    )
    chosen = {"adc_bits": None, "noise": 0.0, "timing": None} | options
    timing, precision = what.source.hardware.timing, what.source.hardware.precision
    width = Width.of(precision).bits
    dac_bits = (timing and timing.dac_bits) or max(1, width - 1)
    converters = Converters(chosen["adc_bits"], chosen["noise"], dac_bits, width, seed)
    return verify_task(what, weights, converters, images=images, timing=chosen["timing"])


def convolved(conv: Conv, tensor: np.ndarray, weights: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A convolution, one product after the other."""
    result = np.zeros(shape, dtype=np.int64)
    group_in, group_out = len(tensor) // conv.groups, shape[0] // conv.groups
    for (c, y, x), _ in np.ndenumerate(result):
        for i in range(group_in):
            for ky in range(conv.kernel[0]):
                for kx in range(conv.kernel[1]):
                    row = y * conv.stride[0] - conv.pads[0] + ky * conv.dilation[0]
                    column = x * conv.stride[1] - conv.pads[1] + kx * conv.dilation[1]
                    if 0 <= row < tensor.shape[1] and 0 <= column < tensor.shape[2]:
                        value = tensor[c // group_out * group_in + i, row, column]
                        result[c, y, x] += int(value) * int(weights[c, i, ky, kx])
    return result


def transposed(
    conv: ConvTranspose, tensor: np.ndarray, weights: np.ndarray, shape: tuple[int, ...]
) -> np.ndarray:
    """A transposed convolution: every input value to every output that it reaches."""
    result = np.zeros(shape, dtype=np.int64)
    group_in, group_out = len(tensor) // conv.groups, shape[0] // conv.groups
    for (i, h, w), value in np.ndenumerate(tensor):
        for o in range(group_out):
            for ky in range(conv.kernel[0]):
                for kx in range(conv.kernel[1]):
                    row = h * conv.stride[0] - conv.pads[0] + ky * conv.dilation[0]
                    column = w * conv.stride[1] - conv.pads[1] + kx * conv.dilation[1]
                    if 0 <= row < shape[1] and 0 <= column < shape[2]:
                        c = i // group_in * group_out + o
                        result[c, row, column] += int(value) * int(weights[c, i % group_in, ky, kx])
    return result


def layer_of(
    source: Network,
    machine: Hardware,
    mapping: Any,
    copies: int,
    weights: np.ndarray,
    block: tuple[int, int] | None = None,
) -> EmulatedLayer:
    """The only stage of a network on its arrays."""
    (stage,) = source.stages
    blocks = {} if block is None else {stage.name: block}
    what = task(source, {stage.name: copies}, machine, mapping, blocks=blocks)
    on_arrays = StoredNetwork.of(source, what.source)
    graph, (held,) = on_arrays.graph, on_arrays.held
    storage, width = CrossbarStorage.of(machine, mapping), Width.of(machine.precision).bits
    window, channels = ParallelWindow.of(stage, graph.grids[0]), source.shapes[stage.name].channels
    converters = Converters(None, 0.0, 1, width, 0)
    layer = EmulatedLayer(stage, channels, storage, converters, copies, graph.grids[0], window)
    layer.program(what.arrays, held, weights)
    return layer
