"""Energy and area of an allocation by the hardware's [energy] (docs/sources/model.md 12)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.hardware.components import NM2_PER_UM2, array_area_nm2, array_leakage_mw, periphery_nm2
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.tables import Energy
from rramalloc.mapping.demand import Storage, active_lines, lines_of_copy
from rramalloc.mapping.mode import Mode, array_of
from rramalloc.mapping.options import MappingOptions
from rramalloc.ndarrays import Floats
from rramalloc.network.counts import macs
from rramalloc.network.geometry import Pair
from rramalloc.network.node import Stage
from rramalloc.timing.access import BITS_PER_BYTE
from rramalloc.timing.figures import EnergyArea
from rramalloc.timing.simulate import Copies
from rramalloc.timing.stage_graph import StageGraph


def left_out(hardware: Hardware) -> tuple[str, ...]:
    """Return warnings about terms of energy and area that the hardware gives no values for."""
    energy, words = hardware.energy or Energy(), []
    if energy.read_pj is not None and energy.pj_per_byte is None:
        words.append(f"hardware {hardware.name}: no pj_per_byte is given: energy is without moved bytes")
    if energy.area_um2 is not None and hardware.chip is not None and energy.periphery_um2 is None:
        words.append(f"hardware {hardware.name}: no periphery_um2 is given: area is that of arrays alone")
    return tuple(words)


@dataclass(frozen=True, eq=False)
class EnergyModel:
    """Energy and area of one network on a hardware with [energy].

    graph: in any blocks; only its stages and edges matter.
    """

    graph: StageGraph
    hardware: Hardware
    options: MappingOptions
    _reads: dict[tuple[int, Mode, int], int] = field(default_factory=dict, init=False, repr=False)
    _prices: dict[tuple[int, Mode], tuple[float, ...]] = field(default_factory=dict, init=False, repr=False)

    @property
    def energy(self) -> Energy:
        """The hardware's [energy], without any value if it has none."""
        return self.hardware.energy or Energy()

    @cached_property
    def sent_bytes(self) -> Floats:
        """Bytes that every stage sends for one input: to each reader once, up to the last pixel it needs."""
        graph, bits = self.graph.on_arrays, self.hardware.precision.output_bits
        sent = np.zeros(len(graph.stages))
        for edge in graph.edges:
            values = graph.sent_pixels(edge) * graph.channels(edge.producer)
            sent[edge.producer] += values * bits / BITS_PER_BYTE
        every = np.zeros(len(self.graph.stages))
        every[self.graph.weighted] = sent
        return every

    def crossing_bytes(self, ends: Sequence[int]) -> float:
        """Return the bytes for one input that cross the cuts between segments of stages.

        Segment s ends before stage ends[s]. Every pixel that a later segment reads is written once, and
        read once by each such segment. Source: docs/sources/model.md 13.
        """
        graph, bits = self.graph.on_arrays, self.hardware.precision.output_bits
        segment = np.searchsorted(ends, np.flatnonzero(self.graph.weighted), side="right").tolist()
        written, read = dict[int, int](), dict[Pair, int]()
        for edge in graph.edges:
            p, reader = edge.producer, segment[edge.consumer]
            if segment[p] != reader:
                values = graph.sent_pixels(edge) * graph.channels(p)
                # Readers of one segment, and of all segments, share what the most demanding of them needs.
                written[p] = max(written.get(p, 0), values)
                read[p, reader] = max(read.get((p, reader), 0), values)
        return (sum(written.values()) + sum(read.values())) * bits / BITS_PER_BYTE

    @property
    def moved_pj(self) -> Floats:
        """Energy of the bytes that every stage sends, 0 where it is not given."""
        return self.sent_bytes * (self.energy.pj_per_byte or 0.0)

    @cached_property
    def leakage_mw(self) -> tuple[float, ...] | None:
        """Leakage of an array of every kind with its converters; None where the hardware lacks one."""
        leakages = [array_leakage_mw(hardware) for hardware in self.hardware.each_kind]
        return None if None in leakages else tuple(leakage_mw or 0.0 for leakage_mw in leakages)

    @cached_property
    def array_nm2(self) -> tuple[int, ...] | None:
        """Area of an array of every kind with its converters, nm2; None where the hardware lacks one."""
        areas = [array_area_nm2(hardware) for hardware in self.hardware.each_kind]
        return None if None in areas else tuple(nm2 or 0 for nm2 in areas)

    @cached_property
    def gives_reads(self) -> bool:
        """Whether the hardware gives the energy of a read, of every kind."""
        energies = [hardware.energy for hardware in self.hardware.each_kind]
        return all(energy is not None and energy.read_pj is not None for energy in energies)

    @property
    def gives_energy(self) -> bool:
        """Whether the hardware gives all that an energy needs."""
        return self.gives_reads and self.leakage_mw is not None

    def leaking_arrays(self, used: int, kind: int = 0) -> int:
        """Return the arrays of a kind that leak: `used` without [chip], whole tiles if gated, else all."""
        if self.hardware.chip is None:
            return used
        if self.energy.idle == "gated":  # whole tiles are switched off, so all arrays of a tile in use leak
            return self._tiles(used, kind) * self.hardware.arrays_per_tile[kind]
        return max(used, self.hardware.chip_arrays[kind])  # a budget may be larger than the chips

    @property
    def counts_periphery(self) -> bool:
        """Whether the area is also that of tiles beside their arrays."""
        return periphery_nm2(self.hardware) > 0

    def _tiles(self, used: int, kind: int) -> int:
        """Return the fewest tiles that hold arrays of a kind."""
        return -(-used // self.hardware.arrays_per_tile[kind])

    @cached_property
    def chip_leakage_mw(self) -> float:
        """Leakage of the chips whatever is used of them, 0 without [chip] or where they are gated."""
        return math.fsum(
            leakage_mw * self.leaking_arrays(0, kind) for kind, leakage_mw in enumerate(self.leakage_mw or ())
        )

    def area_um2(self, used: int) -> float | None:
        """Return the area of `used` arrays of the first kind, and of the fewest tiles that hold them."""
        return self._in_tiles_um2([used])

    def _in_tiles_um2(self, used: Sequence[int]) -> float | None:
        """Return the area of arrays of every kind and of the periphery of the tiles that hold them."""
        if self.array_nm2 is None:
            return None
        arrays_nm2 = sum(arrays * nm2 for arrays, nm2 in zip(used, self.array_nm2, strict=False))
        tiles = 0 if self.hardware.chip is None else sum(self._tiles(own, at) for at, own in enumerate(used))
        return (arrays_nm2 + tiles * periphery_nm2(self.hardware)) / NM2_PER_UM2

    @property
    def chip_area_um2(self) -> float | None:
        """Area of all arrays and tiles of the chips, None where they are not given."""
        return None if self.hardware.chip is None else self._in_tiles_um2(self.hardware.chip_arrays)

    def measure(
        self, modes: Sequence[Mode], copies: Copies, storage: Storage, latency_ns: float | None
    ) -> Metrics:
        """Return energy and area of an allocation; latency_ns: of one input, None if no time is given."""
        used, kinds = storage.taken(modes, copies), np.array([mode.kind for mode in modes], dtype=np.int64)
        taken = used.astype(np.float64)
        of_kinds = [int(used[kinds == kind].sum()) for kind in range(len(self.hardware.each_kind))]
        reading = self._reading(modes, copies, storage)
        leakage_pj, idle_pj = None, 0.0
        if self.leakage_mw is not None and latency_ns is not None:
            leakage_pj = np.array(self.leakage_mw)[kinds] * taken * latency_ns
            idle_pj = math.fsum(  # arrays that no stage uses leak too
                leakage_mw * (self.leaking_arrays(arrays, kind) - arrays) * latency_ns
                for kind, (leakage_mw, arrays) in enumerate(zip(self.leakage_mw, of_kinds, strict=True))
            )
        area_um2, total_um2 = None, None
        if self.array_nm2 is not None:
            nm2 = np.array(self.array_nm2, dtype=np.int64)[kinds]
            area_um2 = taken * (nm2 / NM2_PER_UM2)
            total_um2 = self._in_tiles_um2(of_kinds)
        return Metrics(
            reading,
            None if reading is None or self.energy.pj_per_byte is None else self.moved_pj,
            leakage_pj,
            idle_pj,
            area_um2,
            total_um2,
            self.chip_area_um2,
            latency_ns,
        )

    def _reading(self, modes: Sequence[Mode], copies: Copies, storage: Storage) -> Reading | None:
        """Return energy of reads and lines in use of every stage; None if the hardware gives no read_pj."""
        if not self.gives_reads:
            return None
        numbered = list(enumerate(modes))
        counts = copies.tolist()
        per_step = np.array([self.reads_of_step(stage, mode, counts[stage]) for stage, mode in numbered])
        prices = np.array([self.prices(stage, mode) for stage, mode in numbered])
        totals, read_pj, adc_pj, row_pj, rows, columns, cycles, digital_pj = prices.T
        reads = array_reads(totals.astype(np.int64), copies, partial(storage.stored, modes)).astype(
            np.float64
        )
        return Reading(
            # ADCs convert and drivers drive only for the copies that compute, in every block once.
            reads * (per_step * read_pj),
            totals * columns * (per_step * adc_pj),
            totals * rows * (cycles * row_pj),
            (rows * copies).astype(np.int64),
            (columns * copies).astype(np.int64),
            digital_pj if self.has_processors else None,
        )

    @cached_property
    def has_processors(self) -> bool:
        """Whether a kind is digital units."""
        return any(own.processor is not None for own in self.hardware.each_kind)

    def prices(self, stage: int, mode: Mode) -> tuple[float, ...]:
        """Return what a stage pays for in a mode, 0 where it is not given.

        Its blocks; the pJ of a read, of a conversion and of a driven wordline; the wordlines and the bitlines
        in use of one copy; the parts of an input that are fed one after another in a step, 1 without
        `dac_bits`; the pJ of the products of one input in a digital unit.
        """
        key = self.graph.kinds[stage], mode
        if key not in self._prices:
            node = mode.of_stage(self.graph.stages[stage])
            own = array_of(self.hardware, node, mode)
            energy = own.energy or Energy()
            cycles = 1  # of a digital node, and of a step that is given as a whole
            lines = (0, 0)  # wordlines and bitlines
            products_pj = 0.0
            if isinstance(node, Stage):
                if own.timing is not None:
                    cycles = own.timing.cycles(own.precision.input_bits)
                if own.processor is None:
                    lines = lines_of_copy(self.graph.network, node, own, self.options, mode.block)
                else:
                    products_pj = macs(self.graph.network, node) * (own.processor.pj_per_mac or 0.0)
            self._prices[key] = (
                self.graph.grids[stage].recut(mode.block).total,
                energy.read_pj or 0.0,
                energy.adc_pj or 0.0,
                energy.row_pj or 0.0,
                *lines,
                cycles,
                products_pj,
            )
        return self._prices[key]

    def reads_of_step(self, stage: int, mode: Mode, copies: int) -> int:
        """Return the reads of an array in a step: cycles * turns, 1 without `dac_bits`."""
        key = self.graph.kinds[stage], mode, copies
        if key not in self._reads:
            node = mode.of_stage(self.graph.stages[stage])
            hardware = array_of(self.hardware, node, mode)
            self._reads[key] = 1
            if hardware.timing is not None and hardware.processor is None and isinstance(node, Stage):
                # All arrays of a batch take the turns of the fullest one.
                rows, _ = active_lines(self.graph.network, node, hardware, self.options, mode.block, copies)
                bits = hardware.precision.input_bits
                self._reads[key] = hardware.timing.reads(bits, hardware.crossbar, rows)
        return self._reads[key]


def array_reads(
    blocks: npt.NDArray[np.int64], copies: Copies, stored: Callable[[Copies], Copies]
) -> npt.NDArray[np.int64]:
    """Return how often arrays are read for one input, each once a batch that uses it; int64 by stage.

    A full batch reads the arrays of all copies, the last one those of the copies that it needs. Without
    shared arrays that is blocks * arrays of one copy. stored: arrays that store these copies of every stage.
    """
    full, rest = np.divmod(blocks, copies)
    reads: npt.NDArray[np.int64] = full * stored(copies) + stored(rest)
    return reads


class Reading(NamedTuple):
    """Energy [pJ] of reads, conversions and driven wordlines of every stage, and the lines of a full batch.

    rows_used, columns_used: of all arrays that a batch reads, int64; digital_pj: of products in digital
    units, None without any.
    """

    array_pj: Floats
    adc_pj: Floats
    row_pj: Floats
    rows_used: npt.NDArray[np.int64]
    columns_used: npt.NDArray[np.int64]
    digital_pj: Floats | None


@dataclass(frozen=True, eq=False)
class Metrics:
    """Energy for one input and area of an allocation; None where the hardware does not give it.

    reading, moved_pj, leakage_pj, area_um2: of every stage, canonical order; idle_pj: leakage of the arrays
    of the chips that are not used; total_um2: with the periphery of tiles; chip_um2: of the whole chip.
    """

    reading: Reading | None
    moved_pj: Floats | None
    leakage_pj: Floats | None
    idle_pj: float
    area_um2: Floats | None
    total_um2: float | None
    chip_um2: float | None
    latency_ns: float | None

    @cached_property
    def dynamic_pj(self) -> Floats | None:
        """Energy of reads, and of moved bytes where it is given, of every stage [pJ]."""
        if self.reading is None:
            return None
        dynamic: Floats = self.reading.array_pj + self.reading.adc_pj + self.reading.row_pj
        for part in (self.moved_pj, self.reading.digital_pj):
            dynamic = dynamic if part is None else dynamic + part
        return dynamic

    @cached_property
    def energy_pj(self) -> float | None:
        """Energy of one input [pJ], the leakage of unused arrays included."""
        if self.dynamic_pj is None or self.leakage_pj is None:
            return None
        # fsum rounds once, so the order of stages does not change the last digit.
        return math.fsum(self.dynamic_pj.tolist()) + math.fsum([*self.leakage_pj.tolist(), self.idle_pj])

    @cached_property
    def edp(self) -> float | None:
        """Energy times latency [pJ ns]."""
        if self.energy_pj is None or self.latency_ns is None:
            return None
        return self.energy_pj * self.latency_ns

    @property
    def total(self) -> EnergyArea:
        """Sums over all stages, with the leakage of unused arrays and the periphery of tiles."""
        static = None
        if self.leakage_pj is not None:
            static = math.fsum([*self.leakage_pj.tolist(), self.idle_pj])
        return EnergyArea(
            **{
                name: math.fsum(by_stage.tolist()) for name, by_stage in self._parts() if name != "leakage_pj"
            },
            leakage_pj=static,
            dynamic_pj=None if self.dynamic_pj is None else math.fsum(self.dynamic_pj.tolist()),
            static_pj=static,
            energy_pj=self.energy_pj,
            edp=self.edp,
            area_um2=self.total_um2,
            chip_area_um2=self.chip_um2,
        )

    def _parts(self) -> Iterator[tuple[str, Floats]]:
        """Yield (field, energy of every stage) of each part of the energy that is given."""
        if self.reading is not None:
            for name in ("array_pj", "adc_pj", "row_pj"):
                yield name, getattr(self.reading, name)
            if self.reading.digital_pj is not None:
                yield "digital_pj", self.reading.digital_pj
        if self.moved_pj is not None:
            yield "moved_pj", self.moved_pj
        if self.leakage_pj is not None:
            yield "leakage_pj", self.leakage_pj

    def of_stage(self, stage: int) -> dict[str, float | int]:
        """Return energy, area and lines of a stage by the names of their fields, without those not given."""
        parts = [*self._parts(), ("dynamic_pj", self.dynamic_pj), ("static_pj", self.leakage_pj)]
        parts.append(("area_um2", self.area_um2))
        given: dict[str, float | int] = {
            name: float(by_stage[stage]) for name, by_stage in parts if by_stage is not None
        }
        if "dynamic_pj" in given and "static_pj" in given:
            given["energy_pj"] = given["dynamic_pj"] + given["static_pj"]
        if self.reading is not None:
            given["rows_used"] = int(self.reading.rows_used[stage])
            given["columns_used"] = int(self.reading.columns_used[stage])
        return given
