"""Energy and area of an allocation, from what a hardware's [energy] gives (docs/sources/model.md 12)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rramalloc.hardware.hardware import Energy, Hardware
from rramalloc.mapping.demand import Modes, active_lines
from rramalloc.mapping.modes import Variant, block_of, precise
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.geometry import Pair
from rramalloc.network.node import Stage
from rramalloc.timing.access import BITS_PER_BYTE
from rramalloc.timing.simulate import Replication
from rramalloc.timing.stage_graph import StageGraph

Reals = npt.NDArray[np.float64]


class EnergyArea(NamedTuple):
    """Energy [pJ] for one input, its product with the latency [pJ ns], and area; None where not given.

    area_um2: of the arrays and tiles in use; chip_area_um2: of the whole chip.
    """

    dynamic_pj: float | None = None
    static_pj: float | None = None
    energy_pj: float | None = None
    edp: float | None = None
    area_um2: float | None = None
    chip_area_um2: float | None = None


def totals(metrics: Metrics | None) -> dict[str, float | None]:
    """Energy and area by the names of their fields in results, None where not given."""
    return (EnergyArea() if metrics is None else metrics.total)._asdict()


def without_missing(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document without the fields of energy and area if none of them is given."""
    if any(document.get(name) is not None for name in EnergyArea._fields):
        return document
    return {name: value for name, value in document.items() if name not in EnergyArea._fields}


def left_out(hardware: Hardware) -> tuple[str, ...]:
    """Return what energy and area leave out because the hardware does not give it."""
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
    _slots: dict[tuple[int, Variant, int], int] = field(default_factory=dict, init=False, repr=False)

    @property
    def energy(self) -> Energy:
        """The hardware's [energy], of nothing given where it has none."""
        return self.hardware.energy or Energy()

    @cached_property
    def sent_bytes(self) -> Reals:
        """Bytes that every stage on arrays sends to others: once to each, all pixels that it needs."""
        graph, bits = self.graph.on_arrays, self.hardware.precision.output_bits
        sent = np.zeros(len(graph.stages))
        for edge in graph.edges:
            values = graph.sent_pixels(edge) * graph.channels(edge.producer)
            sent[edge.producer] += values * bits / BITS_PER_BYTE
        every = np.zeros(len(self.graph.stages))
        every[self.graph.weighted] = sent
        return every

    def crossing_bytes(self, ends: Sequence[int]) -> float:
        """Bytes for one input that cross cuts of the stages in segments, each of which ends before `ends`.

        Every pixel that a later segment reads is written once, and read once by each such segment.
        """
        graph, bits = self.graph.on_arrays, self.hardware.precision.output_bits
        segment = np.searchsorted(ends, np.flatnonzero(self.graph.weighted), side="right").tolist()
        written, read = dict[int, int](), dict[Pair, int]()
        for edge in graph.edges:
            p, reader = edge.producer, segment[edge.consumer]
            if segment[p] != reader:
                values = graph.sent_pixels(edge) * graph.channels(p)
                written[p] = max(written.get(p, 0), values)
                read[p, reader] = max(read.get((p, reader), 0), values)
        return (sum(written.values()) + sum(read.values())) * bits / BITS_PER_BYTE

    @property
    def moved_pj(self) -> Reals:
        """Energy of the bytes that every stage sends, 0 where it is not given."""
        return self.sent_bytes * (self.energy.pj_per_byte or 0.0)

    def pj_per_read(self, blocks: Sequence[Variant], copies: Replication) -> Reals | None:
        """Energy of a step of one array of every stage in these modes: slots * read_pj."""
        read_pj = self.energy.read_pj
        if read_pj is None:
            return None
        modes = zip(blocks, copies.tolist(), strict=True)
        return np.array([self.slots(stage, *mode) * read_pj for stage, mode in enumerate(modes)])

    def leaking_arrays(self, used: int) -> int:
        """Arrays that leak: those used without [chip], of tiles in use if others are gated, else all."""
        chip = self.hardware.chip
        if chip is None:
            return used
        if self.energy.idle == "gated":
            return -(-used // chip.arrays_per_tile) * chip.arrays_per_tile
        return max(used, chip.arrays)

    def area_um2(self, used: int) -> float | None:
        """Return the area of `used` arrays, and of the periphery of the fewest tiles that hold them."""
        energy, chip = self.energy, self.hardware.chip
        if energy.area_um2 is None:
            return None
        tiles = 0 if chip is None else -(-used // chip.arrays_per_tile)
        return used * energy.area_um2 + tiles * (energy.periphery_um2 or 0.0)

    @property
    def chip_area_um2(self) -> float | None:
        """Area of all arrays and tiles of the chips, None where they are not given."""
        return None if self.hardware.chip is None else self.area_um2(self.hardware.chip.arrays)

    def measure(
        self, blocks: Sequence[Variant], copies: Replication, modes: Modes, latency_ns: float | None
    ) -> Metrics:
        """Energy and area of an allocation; latency_ns: of one input, None where no time is given."""
        taken = modes.each(blocks, copies).astype(np.float64)
        per_read, dynamic = self.pj_per_read(blocks, copies), None
        if per_read is not None:
            grids = zip(self.graph.grids, blocks, strict=True)
            totals = np.array([grid.recut(block).total for grid, block in grids], dtype=np.int64)
            reads = array_reads(totals, copies, partial(modes.stored, blocks)).astype(np.float64)
            dynamic = reads * per_read + self.moved_pj
        static, leak_mw = None, self.energy.leakage_mw
        idle_pj = 0.0
        if leak_mw is not None and latency_ns is not None:
            static, used = leak_mw * taken * latency_ns, int(taken.sum())
            idle_pj = leak_mw * (self.leaking_arrays(used) - used) * latency_ns
        area = self.energy.area_um2
        return Metrics(
            dynamic,
            static,
            idle_pj,
            None if area is None else area * taken,
            self.area_um2(int(taken.sum())),
            self.chip_area_um2,
            latency_ns,
        )

    def slots(self, stage: int, block: Variant, copies: int) -> int:
        """Return the reads of an array in a step of a stage; 1 if a step is not cut into reads."""
        key = self.graph.kinds[stage], block, copies
        if key not in self._slots:
            self._slots[key] = self._counted_slots(stage, block, copies)
        return self._slots[key]

    def _counted_slots(self, stage: int, variant: Variant, copies: int) -> int:
        node, block = precise(self.graph.stages[stage], variant), block_of(variant)
        if self.hardware.timing is None or not isinstance(node, Stage):
            return 1
        hardware = self.hardware.of_layer(node)
        rows, _ = active_lines(self.graph.network, node, hardware, self.options, block, copies)
        return self.hardware.timing.slots(hardware.precision.input_bits, hardware.crossbar, rows)


def array_reads(
    blocks: npt.NDArray[np.int64], copies: Replication, stored: Callable[[Replication], Replication]
) -> npt.NDArray[np.int64]:
    """Arrays read for one input, each once per batch that uses it: those of all copies in a full batch.

    Without shared arrays that is blocks * arrays of one copy. The last batch reads only the arrays of the
    copies that it needs. stored: arrays in which the weights of these copies of every stage are stored.
    """
    full, rest = np.divmod(blocks, copies)
    reads: npt.NDArray[np.int64] = full * stored(copies) + stored(rest)
    return reads


@dataclass(frozen=True, eq=False)
class Metrics:
    """Energy for one input and area of an allocation; None where the hardware does not give it.

    dynamic_pj, static_pj, area_um2: of every stage, canonical order; idle_pj: static energy of the arrays of
    the chips that are not used; total_um2: with the periphery of tiles; chip_um2: of the whole chip.
    """

    dynamic_pj: Reals | None
    static_pj: Reals | None
    idle_pj: float
    area_um2: Reals | None
    total_um2: float | None
    chip_um2: float | None
    latency_ns: float | None

    @property
    def total(self) -> EnergyArea:
        """Sums over all stages, with the parts that belong to none of them."""
        dynamic = None if self.dynamic_pj is None else math.fsum(self.dynamic_pj.tolist())
        static = None if self.static_pj is None else math.fsum([*self.static_pj.tolist(), self.idle_pj])
        energy = None if dynamic is None or static is None else dynamic + static
        edp = None if energy is None or self.latency_ns is None else energy * self.latency_ns
        return EnergyArea(dynamic, static, energy, edp, self.total_um2, self.chip_um2)

    def of_stage(self, stage: int) -> dict[str, float]:
        """Energy and area of one stage by the names of their fields, what is not given left out."""
        each = {"dynamic_pj": self.dynamic_pj, "static_pj": self.static_pj, "area_um2": self.area_um2}
        given = {name: float(values[stage]) for name, values in each.items() if values is not None}
        if "dynamic_pj" in given and "static_pj" in given:
            given["energy_pj"] = given["dynamic_pj"] + given["static_pj"]
        return given
