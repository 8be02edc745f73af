"""Every allocation of a tiny network, its arrays and its times, word by word from docs/sources/model.md.

Without a line from rramalloc.mapping, rramalloc.timing or rramalloc.search: arrays by sections 3 and 10, the
length of a step and of a batch by 7 and 11, timing by the walk of `reference`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import product
from random import Random
from typing import Any, NamedTuple

from laws.reference import Pixel, reference

from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.tables import Timing
from rramalloc.network.network import Network
from rramalloc.network.node import Conv

EXACTLY = 1 - 1e-12
"""Ticks are rounded up, but not for what rounding of the quotient adds."""


class Mode(NamedTuple):
    """Block of a convolution and copies of it; blocks: that cover its output, and those of a row."""

    block: Pixel
    copies: int
    blocks: int
    in_row: int


class Timed(NamedTuple):
    """An allocation: its modes by layer, arrays, and times in steps, in ticks, or in ns with a memory."""

    modes: Mapping[str, Mode]
    arrays: int
    latency: float
    interval: float

    def bare(self) -> dict[str, dict[str, Any]]:
        """Return what a bare allocation file says of it."""
        return {
            "copies": {name: mode.copies for name, mode in self.modes.items()},
            "block": {name: mode.block for name, mode in self.modes.items()},
        }


class Law(NamedTuple):
    """A network and a hardware by the definitions. sdk: whether blocks are chosen, else im2col."""

    network: Network
    hardware: Hardware
    sdk: bool

    @property
    def timing(self) -> Timing:
        assert self.hardware.timing is not None
        return self.hardware.timing

    @property
    def convs(self) -> list[Conv]:
        return [node for node in self.network.nodes if isinstance(node, Conv)]

    def modes(self, conv: Conv) -> list[Mode]:
        """All modes of a convolution."""
        shape = self.network.shapes[conv.name]
        sides = [range(1, extent + 1) for extent in (shape.height, shape.width)]
        every = []
        for high, wide in product(*sides) if self.sdk else [(1, 1)]:
            in_row = -(-shape.width // wide)
            blocks = -(-shape.height // high) * in_row
            every += [Mode((high, wide), copies, blocks, in_row) for copies in range(1, blocks + 1)]
        return every

    def lines(self, conv: Conv, block: Pixel) -> tuple[int, int]:
        """Rows and columns of one group with a block (docs/sources/model.md 3 and 10)."""
        hardware, source = self.hardware, self.network.input_shape(conv)
        rows = source.channels // conv.groups * self.extent(conv, 0, block) * self.extent(conv, 1, block)
        slices = -(-hardware.precision.weight_bits // hardware.crossbar.cell_bits)
        return rows, block[0] * block[1] * (conv.out_channels // conv.groups) * slices

    def extent(self, conv: Conv, axis: int, block: Pixel) -> int:
        """Different rows or columns of the input that a block reads, whatever is outside of the input."""
        places = product(range(block[axis]), range(conv.kernel[axis]))
        return len({at * conv.stride[axis] + tap * conv.dilation[axis] for at, tap in places})

    def arrays(self, conv: Conv, mode: Mode) -> int:
        """Arrays of all copies: whole tiles where each is of one layer (docs/sources/model.md 15)."""
        stored, chip = self.stored(conv, mode), self.hardware.chip
        return stored if chip is None else -(-stored // chip.arrays_per_tile) * chip.arrays_per_tile

    def stored(self, conv: Conv, mode: Mode) -> int:
        """Arrays that hold the weights of all copies."""
        rows, columns = self.lines(conv, mode.block)
        wordlines, bitlines = self.hardware.crossbar.wordlines, self.hardware.crossbar.bitlines
        fits = rows <= wordlines and columns <= bitlines
        if fits and (self.sdk or conv.groups > 1):
            together = min(wordlines // rows, bitlines // columns)
            if self.sdk:
                return -(-mode.copies * conv.groups // together)
            return mode.copies * -(-conv.groups // together)
        return mode.copies * conv.groups * -(-rows // wordlines) * -(-columns // bitlines)

    def access_ns(self, conv: Conv, mode: Mode) -> float:
        """Time of a step of all copies with the whole bandwidth to itself."""
        hardware, (high, wide) = self.hardware, mode.block
        source, output = self.network.input_shape(conv), self.network.shapes[conv.name]
        if hardware.memory is None:
            return 0.0
        rows, columns = self.extent(conv, 0, mode.block), self.extent(conv, 1, mode.block)
        values = {
            "none": float(rows * columns * source.channels),
            "row": float(rows * min(wide * conv.stride[1], columns) * source.channels),
            "full": source.pixels * source.channels / output.pixels * high * wide,
        }[hardware.memory.reuse]
        bits = values * hardware.precision.input_bits
        bits += high * wide * output.channels * hardware.precision.output_bits
        return mode.copies * bits / 8 / hardware.memory.bandwidth_gb_s

    def compute_ns(self, conv: Conv, mode: Mode) -> float:
        """Time of a batch of its own clock (docs/sources/model.md 11)."""
        timing, crossbar = self.timing, self.hardware.crossbar
        rows, columns = self.lines(conv, mode.block)
        if rows <= crossbar.wordlines and columns <= crossbar.bitlines:
            together = min(crossbar.wordlines // rows, crossbar.bitlines // columns)
            held = min(together, conv.groups * (mode.copies if self.sdk else 1))
            rows, columns = held * rows, held * columns
        rows, columns = min(rows, crossbar.wordlines), min(columns, crossbar.bitlines)
        turns = 1 if timing.rows_per_read is None else -(-rows // timing.rows_per_read)
        conversions = -(-(timing.columns_per_adc or 0) * columns // crossbar.bitlines)
        return self.slots(turns) * max(timing.read_ns or 0.0, (timing.adc_ns or 0.0) * conversions)

    def slots(self, turns: int) -> int:
        """Slots of a step whose rows are read in so many turns."""
        return -(-self.hardware.precision.input_bits // (self.timing.dac_bits or 1)) * turns

    def timed(self, modes: Mapping[str, Mode]) -> Timed:
        """Arrays and times of an allocation."""
        convs, hardware = self.convs, self.hardware
        access = [self.access_ns(conv, modes[conv.name]) for conv in convs]
        shared = hardware.memory is not None and hardware.memory.scope == "shared"
        cycles, step = {}, 1.0
        if hardware.own_clock:
            parts = len(convs) if shared else 1
            for conv, moved_ns in zip(convs, access, strict=True):
                longest_ns = max(self.compute_ns(conv, modes[conv.name]), parts * moved_ns)
                cycles[conv.name] = max(1, math.ceil(longest_ns / hardware.tick_ns * EXACTLY))
        elif hardware.memory is not None:
            whole = self.compute_of_full_arrays()
            step = max(whole, sum(access) if shared else max(access))
        walk = reference(
            self.network,
            {name: mode.copies for name, mode in modes.items()},
            blocks={name: mode.block for name, mode in modes.items()},
            cycles=cycles,
        )
        arrays = sum(self.arrays(conv, modes[conv.name]) for conv in convs)
        return Timed(modes, arrays, walk.makespan * step, walk.interval * step)

    def compute_of_full_arrays(self) -> float:
        """Time of a common step: that of arrays which are in use as a whole (docs/sources/model.md 7)."""
        timing, crossbar = self.timing, self.hardware.crossbar
        turns = 1 if timing.rows_per_read is None else -(-crossbar.wordlines // timing.rows_per_read)
        converted_ns = (timing.adc_ns or 0.0) * (timing.columns_per_adc or 0)
        return self.slots(turns) * max(timing.read_ns or 0.0, converted_ns)


def allocations(
    law: Law, limits: Mapping[str, tuple[int, int]], divide: str | None, most: int
) -> Iterator[Timed]:
    """Yield every allocation that keeps the limits of copies, none where there are more than `most`.

    divide: what copies must divide, blocks of a row ("width") or all ("windows"), None for nothing.
    """
    choices = []
    for conv in law.convs:
        low, high = limits.get(conv.name, (1, 2**40))
        allowed = [mode for mode in law.modes(conv) if low <= mode.copies <= high]
        if divide is not None:
            allowed = [m for m in allowed if (m.in_row if divide == "width" else m.blocks) % m.copies == 0]
        choices.append(allowed)
    if math.prod(map(len, choices)) <= most:
        for chosen in product(*choices):
            yield law.timed({conv.name: mode for conv, mode in zip(law.convs, chosen, strict=True)})


def random_law(random: Random) -> Law:
    """Draw a chain of one to three convolutions on a few pixels, and a hardware."""
    sides = [random.choice((1, 2, 2, 3)), random.choice((1, 2, 2, 3))]
    nodes: list[dict[str, Any]] = [{"name": "in", "op": "input", "shape": [random.choice((2, 4)), *sides]}]
    for number in range(random.randint(1, 3)):
        kernels = (
            {"kernel": 1},
            {"kernel": 3, "pads": 1},
            {"kernel": 2, "pads": [0, 0, 1, 1]},
            {"kernel": [1, 3], "pads": [0, 1, 0, 1]},
            {"kernel": 1, "stride": [1, 2]},
        )
        groups = random.choice((1, 1, 1, 2))
        node = {"name": f"n{number}", "op": "conv", "inputs": [nodes[-1]["name"]], "groups": groups}
        nodes.append(node | random.choice(kernels) | {"out_channels": 2 * random.randint(1, 4)})
    network = Network.build("tiny", nodes, source="generated")
    return Law(network, random_hardware(random), random.random() < 0.6)


def random_hardware(random: Random) -> Hardware:
    """Draw a small crossbar, and often converters, a clock of each stage, a memory, tiles of one layer."""
    tables: dict[str, Any] = {
        "name": "tiny",
        "source": "generated",
        "crossbar": {"wordlines": random.choice((8, 16)), "bitlines": random.choice((4, 8)), "cell_bits": 4},
        "precision": {
            "weight_bits": random.choice((4, 8)),
            "input_bits": random.choice((4, 8)),
            "output_bits": 8,
            "signed": "offset",
        },
        "timing": {"read_ns": random.choice((1.0, 5.0)), "dac_bits": random.choice((1, 8))},
    }
    if random.random() < 0.5:
        tables["timing"] |= {"adc_ns": 0.5, "columns_per_adc": random.choice((1, 4))}
    if random.random() < 0.5:
        tables["timing"]["rows_per_read"] = 4
    if random.random() < 0.4:
        tables["timing"] |= {"clock": "own", "tick_ns": random.choice((1.0, 2.5))}
    if random.random() < 0.7:
        tables["memory"] = {
            "bandwidth_gb_s": random.choice((0.3, 1.0, 3.0)),
            "reuse": random.choice(("none", "row", "full")),
            "scope": random.choice(("per_layer", "shared")),
        }
    if random.random() < 0.2:
        tiles = {"arrays_per_tile": random.choice((2, 3)), "tiles": [16, 16], "chips": [1, 1]}
        tables["chip"] = tiles | {"sharing": "layer"}
    return Hardware.model_validate(tables)
