"""Every allocation of a small problem with kinds of arrays and bits, timed by compiled code of its own.

Modes by docs/sources/model.md 3, 7, 10 to 12 and 16 to 18, word by word; which pixels a window needs by the
walk of `reference`. Nothing of rramalloc.mapping, rramalloc.timing or rramalloc.search.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from laws.reference import Pixel, reference

from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.tables import Energy, Processor, Timing
from rramalloc.network.network import Network
from rramalloc.network.node import Conv, ConvTranspose, Linear

EXACTLY = 1 - 1e-12
"""Ticks are rounded up, but not for what rounding of the quotient adds."""
Ints = npt.NDArray[np.int64]
Columns = npt.NDArray[Any]
AnyStage = Conv | ConvTranspose | Linear
Bits = tuple[int, int, float]
"""Bits of weights and inputs of a layer, and its sensitivity to them."""


class Mode(NamedTuple):
    """A mode of a stage and what it takes.

    length: ticks of a batch, 1 of a common step; compute_ns, access_ns: that a common step lasts at least;
    read_pj: of all reads for one input.
    """

    kind: int
    bits: tuple[int, int]
    block: Pixel
    copies: int
    blocks: int
    in_row: int
    arrays: int
    sensitivity: float
    length: int
    compute_ns: float
    access_ns: float
    read_pj: float


@dataclass(frozen=True)
class Machine:
    """A network on a hardware. sdk: whether blocks are chosen, else im2col; bits: choices for some layers."""

    network: Network
    hardware: Hardware
    sdk: bool
    bits: Mapping[str, Sequence[Bits]]

    @cached_property
    def stages(self) -> list[Any]:
        """Layers on arrays, and digital nodes with a rate, producers first."""
        digital = self.hardware.digital
        rated = {} if digital is None else digital.ns_per_pixel
        return [node for node in self.network.nodes if self.is_layer(node) or node.op in rated]

    @cached_property
    def layers(self) -> list[AnyStage]:
        """Layers on arrays, producers first."""
        return [node for node in self.network.nodes if self.is_layer(node)]

    def is_layer(self, node: Any) -> bool:
        if isinstance(node, Linear):
            return self.network.shapes[node.name].pixels > 1
        return isinstance(node, Conv | ConvTranspose)

    def modes(self, stage: Any, most: Sequence[int]) -> Iterator[Mode]:
        """Yield all modes of a stage with no more arrays of each kind than these."""
        if not self.is_layer(stage):
            assert self.hardware.digital is not None
            ticks = math.ceil(self.hardware.digital.ns_per_pixel[stage.op] / self.hardware.tick_ns * EXACTLY)
            shape = self.network.shapes[stage.name]
            yield Mode(0, (0, 0), (1, 1), 1, shape.pixels, shape.width, 0, 0.0, max(1, ticks), 0.0, 0.0, 0.0)
            return
        precision, shape = self.hardware.precision, self.network.shapes[stage.name]
        own = stage.weight_bits or precision.weight_bits, stage.input_bits or precision.input_bits
        for kind, (weight_bits, input_bits, sensitivity) in product(
            range(len(most)), self.bits.get(stage.name, [(*own, 0.0)])
        ):
            machine = self.hardware.each_kind[kind]
            unit = None if self.hardware.kinds is None else self.hardware.kinds[kind].processor
            for block in self.blocks(stage) if unit is None else [unit_of(stage)]:
                top = [pad % size for pad, size in zip(pads_of(stage), unit_of(stage), strict=True)]
                in_row = -(-(shape.width + top[1]) // block[1])
                blocks = shape.images * -(-(shape.height + top[0]) // block[0]) * in_row
                of = _BlockOf(self, stage, machine, block, weight_bits, input_bits, unit)
                for copies in range(1, blocks + 1):
                    arrays = of.arrays(copies)
                    if arrays > most[kind]:
                        break
                    bits = weight_bits, input_bits
                    taken = kind, bits, block, copies, blocks, in_row, arrays, sensitivity
                    yield Mode(*taken, *of.times(copies), of.read_pj(copies, blocks))

    def blocks(self, stage: AnyStage) -> Iterator[Pixel]:
        """Yield the blocks of windows that a copy may compute in a step."""
        shape, (high, wide) = self.network.shapes[stage.name], unit_of(stage)
        if not self.sdk or isinstance(stage, Linear):
            yield high, wide
            return
        tops = [pad % size for pad, size in zip(pads_of(stage), (high, wide), strict=True)]
        tall, broad = -(-(shape.height + tops[0]) // high), -(-(shape.width + tops[1]) // wide)
        yield from product(range(high, tall * high + 1, high), range(wide, broad * wide + 1, wide))


def unit_of(stage: AnyStage) -> Pixel:
    """Return the smallest block: a transposed convolution's is aligned to its stride."""
    return stage.stride if isinstance(stage, ConvTranspose) else (1, 1)


def pads_of(stage: AnyStage) -> Pixel:
    return stage.pads[:2] if isinstance(stage, ConvTranspose) else (0, 0)


class _BlockOf(NamedTuple):
    """One block of a stage on the arrays of one kind, with bits."""

    machine: Machine
    stage: AnyStage
    hardware: Hardware
    block: Pixel
    weight_bits: int
    input_bits: int
    unit: Processor | None

    @property
    def macs(self) -> int:
        """Products of the layer: of every window, or of every input pixel that a transposed one spreads."""
        stage, shape = self.stage, self.machine.network.shapes[self.stage.name]
        taps = 1 if isinstance(stage, Linear) else stage.kernel[0] * stage.kernel[1]
        of_pixel = taps * self.source.channels // self.groups * shape.channels
        return of_pixel * (self.source if isinstance(stage, ConvTranspose) else shape).pixels

    @property
    def timing(self) -> Timing:
        assert self.hardware.timing is not None
        return self.hardware.timing

    @property
    def groups(self) -> int:
        return 1 if isinstance(self.stage, Linear) else self.stage.groups

    def extent(self, axis: int) -> int:
        """Different rows or columns of the input that the block reads, whatever is outside of the input."""
        stage = self.stage
        if isinstance(stage, Linear):
            return 1
        places = product(range(self.block[axis]), range(stage.kernel[axis]))
        if isinstance(stage, Conv):
            return len({at * stage.stride[axis] + tap * stage.dilation[axis] for at, tap in places})
        apart = {at - tap * stage.dilation[axis] for at, tap in places}
        return len({each for each in apart if each % stage.stride[axis] == 0})

    @property
    def slices(self) -> int:
        return -(-self.weight_bits // self.hardware.crossbar.cell_bits)

    @property
    def lines(self) -> tuple[int, int]:
        """Rows and columns of one group (3 and 10)."""
        shape, source = self.machine.network.shapes[self.stage.name], self.source
        wide = 1 if self.hardware.crossbar.slices == "arrays" else self.slices
        wide *= 2 if self.hardware.precision.signed == "differential" else 1
        windows = self.block[0] * self.block[1]
        rows = source.channels // self.groups * self.extent(0) * self.extent(1)
        return rows, windows * (shape.channels // self.groups) * wide

    @property
    def source(self) -> Any:
        return self.machine.network.shapes[self.stage.inputs[0]]

    @property
    def together(self) -> int:
        """Groups that share an array, 0 if one does not fit."""
        rows, columns = self.lines
        return min(self.hardware.crossbar.wordlines // rows, self.hardware.crossbar.bitlines // columns)

    def arrays(self, copies: int) -> int:
        if self.unit is not None:
            return copies
        (rows, columns), crossbar = self.lines, self.hardware.crossbar
        deep = self.slices if crossbar.slices == "arrays" else 1
        if self.together and self.machine.sdk:
            return deep * -(-copies * self.groups // self.together)
        if self.together:
            return deep * copies * -(-self.groups // self.together)
        whole = -(-rows // crossbar.wordlines) * -(-columns // crossbar.bitlines)
        return deep * copies * self.groups * whole

    def slots(self, rows: int) -> int:
        """Reads of a step; 1 where the hardware gives the step as a whole."""
        if self.timing.step_ns is not None:
            return 1
        turns = 1 if self.timing.rows_per_read is None else -(-rows // self.timing.rows_per_read)
        return -(-self.input_bits // (self.timing.dac_bits or 1)) * turns

    def compute_ns(self, rows: int, columns: int) -> float:
        timing, bitlines = self.timing, self.hardware.crossbar.bitlines
        if timing.step_ns is not None:
            return timing.step_ns
        conversions = -(-(timing.columns_per_adc or 0) * columns // bitlines)
        return self.slots(rows) * max(timing.read_ns or 0.0, (timing.adc_ns or 0.0) * conversions)

    def active(self, copies: int) -> tuple[int, int]:
        """Rows and columns of everything that the fullest array of a batch holds (11)."""
        (rows, columns), crossbar = self.lines, self.hardware.crossbar
        if self.together:
            held = min(self.together, self.groups * (copies if self.machine.sdk else 1))
            return held * rows, held * columns
        return min(rows, crossbar.wordlines), min(columns, crossbar.bitlines)

    def access_ns(self, copies: int) -> float:
        """Time of a step of all copies with the whole bandwidth (7)."""
        hardware, memory = self.hardware, self.hardware.memory
        if memory is None:
            return 0.0
        source, output = self.source, self.machine.network.shapes[self.stage.name]
        rows, columns = self.extent(0), self.extent(1)
        step = self.block[1] * (1 if isinstance(self.stage, Linear) else self.stage.stride[1])
        if isinstance(self.stage, ConvTranspose):
            step = self.block[1] // self.stage.stride[1]
        windows = self.block[0] * self.block[1]
        values = {
            "none": float(rows * columns * source.channels),
            "row": float(rows * min(step, columns) * source.channels),
            "full": source.pixels * source.channels / output.pixels * windows,
        }[memory.reuse]
        bits = values * self.input_bits + windows * output.channels * hardware.precision.output_bits
        return copies * bits / 8 / memory.bandwidth_gb_s

    def times(self, copies: int) -> tuple[int, float, float]:
        """Ticks of a batch, and the times that a common step lasts at least."""
        access_ns, hardware = self.access_ns(copies), self.hardware
        if not hardware.own_clock:
            whole = hardware.crossbar.wordlines, hardware.crossbar.bitlines
            return 1, self.compute_ns(*whole), access_ns
        if hardware.memory is not None and hardware.memory.scope == "shared":
            access_ns *= len(self.machine.layers)
        if self.unit is None:
            compute_ns = self.compute_ns(*self.active(copies))
        else:
            windows = self.machine.network.shapes[self.stage.name].pixels
            compute_ns = self.block[0] * self.block[1] * self.macs / windows / self.unit.macs_per_ns
        longest_ns = max(compute_ns, access_ns)
        return max(1, math.ceil(longest_ns / hardware.tick_ns * EXACTLY)), 0.0, 0.0

    def read_pj(self, copies: int, blocks: int) -> float:
        """Energy of all reads: copies that share an array share its read, the last batch reads a part."""
        if self.unit is not None:
            return self.macs * (self.unit.pj_per_mac or 0.0)
        energy = self.hardware.energy
        if energy is None or energy.read_pj is None:
            return 0.0
        full, rest = divmod(blocks, copies)
        reads = full * self.arrays(copies) + (self.arrays(rest) if rest else 0)
        return float(reads * self.slots(self.active(copies)[0]) * energy.read_pj)


class _Layout(NamedTuple):
    """What the walk reads: the windows that each window needs, and those of every block of a block shape.

    Windows are numbered over all stages; block_end: where those of every block begin, and where all end.
    """

    window_first: Any
    need_first: Any
    need: Any
    block_first: Any
    block_end: Any
    windows: Any


class _Table(NamedTuple):
    """Modes of all stages, those of a stage from first[stage] on; layout: number of the block shape."""

    first: Any
    layout: Any
    copies: Any
    length: Any
    kind: Any
    arrays: Any
    area: Any
    sensitivity: Any


class _Limits(NamedTuple):
    """Limits of the arrays of every kind, of all arrays, of the area in nm2 and of the sensitivity."""

    kinds: Any
    arrays: int
    area: int
    sensitivity: float


@numba.njit(cache=True)
def _walk(
    layout: Any, table: Any, limits: Any, least: Any, rows: Any, makespans: Any
) -> int:  # pragma: no cover - compiled
    """Write every allocation within the limits; return their number, -1 if they are more than there is room.

    least: arrays, area and sensitivity that the stages from each on take at least.
    """
    n = len(table.first) - 1
    at = np.empty(n, dtype=np.int64)
    kinds = np.zeros((n + 1, len(limits.kinds)), dtype=np.int64)
    used, area = np.zeros(n + 1, dtype=np.int64), np.zeros(n + 1, dtype=np.int64)
    sensitivity, end = np.zeros(n + 1), np.zeros(n + 1, dtype=np.int64)
    available = np.zeros(layout.window_first[n], dtype=np.int64)
    ready = np.zeros(layout.window_first[n], dtype=np.int64)
    count, stage = 0, 0
    at[0] = table.first[0] - 1
    while stage >= 0:
        at[stage] += 1
        m = at[stage]
        if m == table.first[stage + 1]:
            stage -= 1
            continue
        if m == table.first[stage]:  # the producers have new modes
            for window in range(layout.window_first[stage], layout.window_first[stage + 1]):
                ready[window] = 0
                for place in range(layout.need_first[window], layout.need_first[window + 1]):
                    ready[window] = max(ready[window], available[layout.need[place]])
        kinds[stage + 1] = kinds[stage]
        kinds[stage + 1, table.kind[m]] += table.arrays[m]
        used[stage + 1] = used[stage] + table.arrays[m]
        area[stage + 1] = area[stage] + table.area[m]
        sensitivity[stage + 1] = sensitivity[stage] + table.sensitivity[m]
        if (
            kinds[stage + 1, table.kind[m]] > limits.kinds[table.kind[m]]
            or used[stage + 1] + least[0, stage + 1] > limits.arrays
            or area[stage + 1] + least[1, stage + 1] > limits.area
            or sensitivity[stage + 1] + least[2, stage + 1] > limits.sensitivity
        ):
            continue
        number, start = 0, -table.length[m]
        begin = layout.block_first[table.layout[m]]
        blocks = layout.block_first[table.layout[m] + 1] - begin - 1
        while number < blocks:
            stop = min(number + table.copies[m], blocks)
            start += table.length[m]
            of, until = layout.block_end[begin + number], layout.block_end[begin + stop]
            for place in range(of, until):
                start = max(start, ready[layout.windows[place]])
            for place in range(of, until):
                available[layout.windows[place]] = start + table.length[m]
            number = stop
        end[stage + 1] = max(end[stage], start + table.length[m])
        if stage == n - 1:
            if count == len(rows):
                return -1
            rows[count] = at
            makespans[count] = end[n]
            count += 1
        else:
            stage += 1
            at[stage] = table.first[stage] - 1
    return count


@dataclass(frozen=True)
class Everything:
    """All allocations of a machine within limits: modes by stage, the mode of each, and the makespans."""

    machine: Machine
    modes: list[list[Mode]]
    rows: Ints
    makespan: Ints

    def column(self, name: str) -> Columns:
        """Return a field of the modes, one row an allocation and one column a stage."""
        every = [np.array([getattr(mode, name) for mode in some]) for some in self.modes]
        return np.stack([own[self.rows[:, stage]] for stage, own in enumerate(every)], axis=1)

    def fits(self, stage: int, allowed: Sequence[bool]) -> npt.NDArray[np.bool_]:
        """Return which allocations have one of the allowed modes of a stage."""
        chosen: npt.NDArray[np.bool_] = np.array(allowed, dtype=np.bool_)[self.rows[:, stage]]
        return chosen

    @cached_property
    def quantities(self) -> dict[str, Columns]:
        """Every quantity of every allocation, by name."""
        hardware = self.machine.hardware
        batches = -(-self.column("blocks") // self.column("copies"))
        lengths, access_ns, arrays = (
            batches * self.column("length"),
            *map(self.column, ("access_ns", "arrays")),
        )
        compute_ns = self.column("compute_ns").max(axis=1)
        shared = hardware.memory is not None and hardware.memory.scope == "shared"
        step_ns = np.maximum(compute_ns, access_ns.sum(axis=1) if shared else access_ns.max(axis=1))
        alone_ns = np.maximum(compute_ns[:, None], access_ns)
        if hardware.own_clock:
            step_ns = np.full(len(self.rows), hardware.tick_ns)
            alone_ns = np.full(access_ns.shape, hardware.tick_ns)
        latency_ns, kinds = self.makespan * step_ns, self.column("kind")
        each: list[Energy | Processor | None] = [own.energy for own in hardware.each_kind]
        units = [kind.processor for kind in hardware.kinds or ()] or [None]
        each = [energy if unit is None else unit for energy, unit in zip(each, units, strict=True)]
        leakage_mw = np.array([0.0 if own is None else own.leakage_mw or 0.0 for own in each])
        area_um2 = np.array([0.0 if own is None else own.area_um2 or 0.0 for own in each])
        energy_pj = self.column("read_pj").sum(axis=1) + (leakage_mw[kinds] * arrays).sum(axis=1) * latency_ns
        interval = lengths.max(axis=1)
        return {
            "makespan": self.makespan,
            "interval": interval,
            "step_ns": step_ns,
            "latency_ns": latency_ns,
            "interval_ns": interval * step_ns,
            "sequential_ns": (lengths * alone_ns).sum(axis=1),
            "arrays": arrays.sum(axis=1),
            "area": (area_um2[kinds] * arrays).sum(axis=1),
            "energy": energy_pj,
            "edp": energy_pj * latency_ns,
            "power_mw": energy_pj / latency_ns,
            "sensitivity": self.column("sensitivity").sum(axis=1),
        }


class Limits(NamedTuple):
    """Limits of the arrays of every kind and in all, of the area and of the sensitivity."""

    kinds: tuple[int, ...]
    arrays: int
    area_um2: float = math.inf
    sensitivity: float = math.inf


def everything(machine: Machine, limits: Limits, most: int) -> Everything | None:
    """Return all allocations within limits, None if they are more than `most`."""
    modes = [
        list(machine.modes(stage, [min(own, limits.arrays) for own in limits.kinds]))
        for stage in machine.stages
    ]
    rows, makespans = np.empty((most, len(modes)), dtype=np.int32), np.empty(most, dtype=np.int64)
    if not all(modes):
        return Everything(machine, modes, rows[:0].astype(np.int64), makespans[:0])
    areas_nm2 = [
        round(1e6 * (own.energy.area_um2 or 0.0)) if own.energy else 0 for own in machine.hardware.each_kind
    ]
    layouts = {
        key: number
        for number, key in enumerate(
            dict.fromkeys((stage, mode.block) for stage, some in enumerate(modes) for mode in some)
        )
    }
    every = [(stage, mode) for stage, some in enumerate(modes) for mode in some]
    table = _Table(
        np.cumsum([0, *map(len, modes)]),
        np.array([layouts[stage, mode.block] for stage, mode in every]),
        *(
            np.array([getattr(mode, name) for _, mode in every])
            for name in ("copies", "length", "kind", "arrays")
        ),
        np.array([areas_nm2[mode.kind] * mode.arrays for _, mode in every]),
        np.array([float(mode.sensitivity) for _, mode in every]),
    )
    least = np.zeros((3, len(modes) + 1))
    for row, column in enumerate((table.arrays, table.area, table.sensitivity)):
        least[row, :-1] = np.cumsum(np.minimum.reduceat(column, table.first[:-1])[::-1])[::-1]
    area = min(limits.area_um2 * 1e6 * (1 + 1e-9), 2.0**62)
    bounds = _Limits(np.array(limits.kinds), limits.arrays, int(area), limits.sensitivity * (1 + 1e-9))
    count = _walk(_layout(machine, list(layouts)), table, bounds, least, rows, makespans)
    if count < 0:
        return None
    return Everything(
        machine, modes, rows[:count].astype(np.int64) - table.first[:-1], makespans[:count].copy()
    )


def _layout(machine: Machine, shapes: Sequence[tuple[int, Pixel]]) -> _Layout:
    network, stages = machine.network, machine.stages
    needs = reference(network, {}, cycles={stage.name: 1 for stage in stages}).needs
    sizes = [network.shapes[stage.name].pixels for stage in stages]
    first = np.cumsum([0, *sizes])
    begins = {stage.name: int(begin) for stage, begin in zip(stages, first, strict=False)}
    need = [[begins[name] + at for name, at in needed] for stage in stages for needed in needs[stage.name]]
    block_first, block_end, windows = [0], [0], list[int]()
    for number, block in shapes:
        stage, shape = stages[number], network.shapes[stages[number].name]
        top, left = (pad % size for pad, size in zip(pads_of(stage), unit_of(stage), strict=True))
        cut: dict[tuple[int, int, int], list[int]] = {}
        for y, x in product(range(shape.images * shape.height), range(shape.width)):
            image, row = divmod(y, shape.height)
            place = image, (row + top) // block[0], (x + left) // block[1]
            cut.setdefault(place, []).append(int(first[number]) + y * shape.width + x)
        for place in sorted(cut):
            windows += cut[place]
            block_end.append(len(windows))
        block_first.append(len(block_end))
        block_end.append(len(windows))
    return _Layout(
        first,
        np.cumsum([0, *map(len, need)]),
        np.array([at for some in need for at in some], dtype=np.int64),
        np.array(block_first),
        np.array(block_end),
        np.array(windows),
    )
