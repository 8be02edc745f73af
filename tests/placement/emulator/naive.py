"""Networks, hardware and placements for the emulator, and convolutions by loops over every value."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from rramalloc.hardware.hardware import Counting, Crossbar, Hardware, Precision
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.network import Network
from rramalloc.network.node import Conv, Elementwise, Input, Linear
from rramalloc.placement.emulator.accelerator import Accelerator, held_by
from rramalloc.placement.emulator.cells import Storage
from rramalloc.placement.emulator.converters import Converters
from rramalloc.placement.emulator.emulator import Emulator
from rramalloc.placement.emulator.integers import Width
from rramalloc.placement.emulator.schedule import Schedule
from rramalloc.placement.emulator.verification import Verification
from rramalloc.placement.emulator.verify import Task, in_order, verify_task
from rramalloc.placement.emulator.weights import Weights, drawn_input
from rramalloc.placement.placement import PlacedArray
from rramalloc.timing.simulate import simulate
from rramalloc.timing.stage_graph import StageGraph

DENSE = Counting(groups="dense", classifiers="host", row_blocks="anywhere")


def hardware(
    lines: tuple[int, int] = (8, 8), *, weight_bits: int = 4, cell_bits: int = 2, bits: int = 5,
    signed: Any = "offset", **more: Any,
) -> Hardware:  # fmt: skip
    return Hardware(
        name="small",
        source="made for a test",
        crossbar=Crossbar(wordlines=lines[0], bitlines=lines[1], cell_bits=cell_bits),
        precision=Precision(weight_bits=weight_bits, input_bits=bits, output_bits=bits, signed=signed),
        **more,
    )


def random_hardware(random: Random, least_lines: int = 2) -> Hardware:
    lines = (random.randint(least_lines, 40), random.randint(2, 20))
    return hardware(
        lines, weight_bits=random.randint(1, 9), cell_bits=random.randint(1, 5), bits=random.randint(2, 9),
        signed=random.choice(("offset", "differential")), counting=random.choice((None, None, DENSE)),
    )  # fmt: skip


def network(shape: Sequence[int], **conv: Any) -> Network:
    """One convolution `c` of an input."""
    nodes = [{"name": "in", "op": "input", "shape": list(shape)}, {"name": "c", "op": "conv",
             "inputs": ["in"], **conv}]  # fmt: skip
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
                [inputs, *side], out_channels=outputs, kernel=kernel, dilation=dilation, stride=stride,
                pads=pads, groups=groups,
            )  # fmt: skip


def task(
    source: Network, replication: dict[str, int], machine: Hardware, mapping: Any = "im2col",
    arrays: Sequence[PlacedArray] | None = None, fc: Any = "host",
) -> Task:  # fmt: skip
    """Placed in order, or as `arrays` say."""
    options = MappingOptions(mapping=mapping, fc=fc)
    placed = in_order(source, replication, machine, options, "test") if arrays is None else arrays
    return Task(source, replication, machine, options, placed, "in order", "test")


def verified(what: Task, seed: int = 0, images: int = 1, **options: Any) -> Verification:
    """The verdict, with random weights unless given."""
    weights = options.pop("weights", None) or Weights(what.network, what.hardware.precision.weight_bits, seed)
    chosen = {"adc_bits": None, "noise": 0.0} | options
    return verify_task(what, weights, seed=seed, images=images, **chosen)


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


def emulated(what: Task, weights: Weights, image: int = 0) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Every node's output by the emulator alone, and by how many bits its sums were shifted."""
    network, machine = what.network, what.hardware
    stages = {stage.name: stage for stage in network.stages if stage.name in what.replication}
    held = held_by(network, list(stages.values()), machine, what.options.mapping)
    storage, width = Storage.of(machine), Width.of(machine.precision)
    accelerator = Accelerator.programmed(
        what.arrays,
        held,
        storage,
        lambda name: weights.stored(stages[name], None, storage.groups(stages[name])),
    )
    graph = StageGraph.build(network, what.options.fc)
    copies = [what.replication[name] for name in graph.names]
    emulator = Emulator(
        network, accelerator, storage, Converters(None, 0.0, 1, width.bits, 0),
        Schedule.of(simulate(graph, copies)), weights, width,
    )  # fmt: skip
    values: dict[str, np.ndarray] = {}
    shifts: dict[str, int] = {}
    for node in network.nodes:
        if isinstance(node, Input):
            values[node.name] = drawn_input(network, node, width, weights.seed, image)
            continue
        values[node.name] = emulator.output(node, [values[name] for name in node.inputs])
        if isinstance(node, Conv | Linear | Elementwise):
            shifts[node.name] = width.shift_for(values[node.name])
            values[node.name] = emulator.narrowed(values[node.name], shifts[node.name])
    return values, shifts
