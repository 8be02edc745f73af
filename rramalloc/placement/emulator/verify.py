"""`verify`: from placed arrays, by computing node after node on both sides, to the verdict."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

from rramalloc.allocation.allocation import NetworkId
from rramalloc.allocation.allocation_input import AllocationInput, AllocationLike, read_allocation
from rramalloc.choices import FullyConnected, Mapping
from rramalloc.errors import SpecError
from rramalloc.hardware.loader import HardwareLike, as_hardware
from rramalloc.importers import InputShapes, NetworkLike, as_network
from rramalloc.network.network import Network
from rramalloc.network.node import Elementwise, Input, Node, Stage
from rramalloc.placement.check import check
from rramalloc.placement.emulator.accelerator import Accelerator
from rramalloc.placement.emulator.batch_schedule import BatchSchedule, Written
from rramalloc.placement.emulator.cells import Storage
from rramalloc.placement.emulator.converters import Converters
from rramalloc.placement.emulator.emulator import Emulator
from rramalloc.placement.emulator.folded import NO_FOLDS, Folds, fold_for
from rramalloc.placement.emulator.integers import Ints, Width, check_exact, check_memory, check_work
from rramalloc.placement.emulator.parallel_window import ParallelWindow
from rramalloc.placement.emulator.reference import Reals, Reference
from rramalloc.placement.emulator.verification import (
    Difference,
    Verification,
    VerificationOptions,
    VerifiedLayer,
)
from rramalloc.placement.emulator.weights import Weights, drawn_input, weights_in
from rramalloc.placement.place import StoredNetwork, array_of, place_network
from rramalloc.placement.placement import MAX_PLACED, PlacedArray, Placement, PlacementLike, as_placement
from rramalloc.records import brief, check_range
from rramalloc.timing.simulate import ExactTiming, simulate
from rramalloc.version import __version__

VerifyProgress = Callable[[int, int, str], None]
"""Called with the number of nodes done, of all of them, and the name of the next."""
_DIGITS = 6


@dataclass(slots=True)
class Tally:
    """Sums over all images of what a layer's values are and by how much they differ."""

    values: int = 0
    expected: float = 0.0
    apart: float = 0.0
    worst: int = 0

    def add(self, expected: Ints, got: Ints) -> None:
        """Count the values of one image."""
        apart = np.abs(got - expected)
        self.values += expected.size
        self.worst = max(self.worst, int(apart.max(initial=0)))
        self.expected += float(np.square(expected.astype(np.float64)).sum())
        self.apart += float(np.square(apart.astype(np.float64)).sum())

    @property
    def relative_error(self) -> float:
        """Root of the sum of squares of the differences over that of the expected values."""
        if not self.apart:
            return 0.0
        return float(f"{(self.apart / self.expected) ** 0.5 if self.expected else 1.0:.{_DIGITS}g}")


@dataclass(slots=True)
class EmulatorComparison:
    """Computes images on both sides. shifts: of every node that sums, from the first image's reference."""

    network: Network
    emulator: Emulator
    reference: Reference
    seed: int
    exact: bool
    shifts: dict[str, int] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)
    values: int = 0

    def run(self, image: int, on_progress: VerifyProgress | None = None) -> Difference | None:
        """Compute one image; the first difference, where everything must be equal.

        Raises EarlyReadError, MisplacedError.
        """
        expected, got = dict[str, Reals](), dict[str, Ints]()
        written = dict[str, Written]()
        left = {name: len(readers) for name, readers in self.network.consumers.items()}
        for number, node in enumerate(self.network.nodes):
            if on_progress is not None:
                on_progress(number, len(self.network.nodes), node.name)
            inputs = list(node.inputs)
            written[node.name] = self.emulator.schedule.written(
                self.network, node, [written[name] for name in inputs]
            )
            right, computed = self._both(node, [expected[n] for n in inputs], [got[n] for n in inputs], image)
            difference = self._compared(node, right, computed, image)
            if difference is not None:
                return difference
            expected[node.name], got[node.name] = self._narrowed(node, right, computed)
            for name in inputs:
                left[name] -= 1
                if not left[name]:
                    for kept in (expected, got, written):
                        kept.pop(name, None)
        return None

    def _both(self, node: Node, expected: list[Reals], got: list[Ints], image: int) -> tuple[Reals, Ints]:
        if isinstance(node, Input):
            drawn = drawn_input(self.network, node, self.emulator.width, self.seed, image)
            return drawn.astype(np.float64), drawn
        return self.reference.output(node, expected), self.emulator.output(node, got)

    def _compared(self, node: Node, expected: Reals, computed: Ints, image: int) -> Difference | None:
        whole = expected.astype(np.int64)
        if computed.shape != whole.shape:
            raise AssertionError(f"{node.name}: {computed.shape} for {whole.shape}")
        self.values += whole.size
        if isinstance(node, Stage):
            self.tallies.setdefault(node.name, Tally()).add(whole, computed)
        if not self.exact or np.array_equal(computed, whole):
            return None
        channel, row, column = map(int, np.argwhere(computed != whole)[0])
        at = (channel, row, column)
        return Difference(
            image=image, layer=node.name, position=at, expected=int(whole[at]), got=int(computed[at])
        )

    def _narrowed(self, node: Node, expected: Reals, computed: Ints) -> tuple[Reals, Ints]:
        if not isinstance(node, Stage | Elementwise):
            return expected, computed
        if node.name not in self.shifts:
            self.shifts[node.name] = self.emulator.width.shift_for(expected.astype(np.int64))
        shift = self.shifts[node.name]
        return self.reference.narrowed(expected, shift), self.emulator.narrowed(computed, shift)


Placer = Literal["given", "placer", "in order"]


class Task(NamedTuple):
    """What is computed, on what.

    source: the allocation, with hardware and options of the placement; folds: of the layers folded first.
    """

    network: Network
    source: AllocationInput
    arrays: Sequence[PlacedArray]
    placed: Placer
    folds: Folds = NO_FOLDS


def _to_place(network: Network, source: AllocationInput) -> Task:
    """Placed by the placer on a chip, block after block where there is none."""
    if source.hardware.chip is not None:
        return _placed_task(network, source, place_network(network, source, work=0, seed=0), "placer")
    stored = StoredNetwork.of(network, source)
    folded = {} if stored.sizes is None else dict(zip(stored.graph.names, stored.sizes, strict=True))
    return Task(network, source, in_order(stored, source.where), "in order", folded)


def _as_placed(network: Network, source: AllocationInput, placement: PlacementLike) -> Task:
    """On the arrays of a placement, which is checked."""
    where = "placement" if isinstance(placement, Placement) else os.fspath(placement)
    given = as_placement(placement)
    check(given, network, source.replication, where, source.blocks)
    return _placed_task(network, source, given, "given")


def _placed_task(network: Network, source: AllocationInput, placement: Placement, placer: Placer) -> Task:
    if source.machine != placement.hardware:
        source = source.changed(hardware=placement.hardware)
    measured = placement.options.latency_table or source.measured
    source = replace(source, options=placement.options.changed(), measured=measured)
    sizes = {layer.name: layer.fold for layer in placement.layers if layer.fold is not None}
    return Task(network, source, placement.arrays, placer, sizes)


def _timing(network: Network, source: AllocationInput) -> ExactTiming | None:
    """With own clocks, rates of digital nodes and transfers; None where all layers step together."""
    hardware = source.hardware
    untimed = hardware.compute_ns is None and source.measured is None
    if untimed if hardware.own_clock else not source.cycles:
        return None
    return source.timing(source.graph(network))


def in_order(stored: StoredNetwork, where: str) -> list[PlacedArray]:
    """Every block of every copy on an array, one after the other in a single tile.

    where: the file of the allocation. Raises SpecError for more arrays than a placement can have.
    """
    needed = sum(len(each) * each.together for each in stored.held)
    if needed > MAX_PLACED:
        raise SpecError(where, f"takes {needed} arrays, the limit of a placement is {MAX_PLACED}")
    arrays: list[PlacedArray] = []
    for name, stage in zip(stored.graph.names, stored.held, strict=True):
        for number in range(len(stage)):
            replica, several = stage[number]
            for block in several:
                arrays.append(array_of((0, 0), (0, 0), len(arrays), name, replica, block))
    return arrays


def summary(
    task: Task, comparison: EmulatorComparison, difference: Difference | None, images: int
) -> Verification:
    """The verdict and the results of every layer."""
    emulator, layers = comparison.emulator, _layers(task, comparison)
    timing, hardware = emulator.schedule.timing, task.source.hardware
    changed = any(layer.worst for layer in layers)
    converters = emulator.converters
    sources = task.source.options, task, comparison, converters
    dac_bits = None if converters.adc_bits is None else converters.dac_bits
    options = VerificationOptions.gather(*sources, images=images, dac_bits=dac_bits)
    return Verification(
        rramalloc_version=__version__,
        network=NetworkId.of(task.network),
        hardware=task.source.hardware.name,
        options=options,
        verdict="different" if difference is not None else "approximate" if changed else "equal",
        difference=difference,
        makespan=timing.makespan,
        tick_ns=None if timing.graph.clocks is None else hardware.tick_ns,
        arrays=len(task.arrays),
        values=comparison.values,
        layers=layers,
        warnings=(*task.network.warnings, *_random_layers(layers)),
    )


def _layers(task: Task, comparison: EmulatorComparison) -> tuple[VerifiedLayer, ...]:
    emulator, reference, verified = comparison.emulator, comparison.reference, list[VerifiedLayer]()
    used: dict[str, int] = {}
    for array in task.arrays:
        used[array.layer] = used.get(array.layer, 0) + 1
    for node in task.network.nodes:
        if isinstance(node, Stage) and node.name in comparison.tallies:
            tally = comparison.tallies[node.name]
            timed = node.name in emulator.schedule.stage
            verified.append(
                VerifiedLayer.gather(
                    tally, name=node.name, computed="arrays" if timed else "host",
                    replication=emulator.schedule.copies(node.name) if timed else 0,
                    arrays=used.get(node.name, 0), weights=emulator.weights.source(node),
                    reference=reference.way(node), shift=comparison.shifts.get(node.name, 0),
                )
            )  # fmt: skip
    return tuple(verified)


def _random_layers(layers: Sequence[VerifiedLayer]) -> list[str]:
    """A file that gives some weights and not others."""
    drawn = [layer.name for layer in layers if layer.weights == "random"]
    if not drawn or len(drawn) == len(layers):
        return []
    return [f"{len(drawn)} layers, first {brief(drawn[0])}, have no weights in the file: they are random"]


MAX_IMAGES = 1000
MAX_ADC_BITS = 52


def verify(
    network: NetworkLike,
    allocation: AllocationLike,
    placement: PlacementLike | None = None,
    *,
    hardware: HardwareLike | None = None,
    mapping: Mapping | None = None,
    fc: FullyConnected | None = None,
    seed: int = 0,
    images: int = 1,
    adc_bits: int | None = None,
    noise: float = 0.0,
    input_shapes: InputShapes | None = None,
    allow_partial: bool = False,
    on_progress: VerifyProgress | None = None,
) -> Verification:
    """Compute a network through its placed arrays and compare every value with a reference.

    allocation: an Allocation, its file, or copies by layer name; placement: a Placement or its file, None to
    place it here; hardware, mapping and fc: instead of the allocation's, where there is no placement to say
    them; seed: of inputs, of weights that no ONNX file gives, and of noise; adc_bits, noise: converters
    that lose bits, relative deviation of programmed cells: the verdict is then "approximate", unless equal;
    allow_partial: take operators whose weights cannot be modelled as barriers.
    Raises RramallocError: MisplacedError, CapacityError, FileError, SpecError, UnknownNameError,
    UnsupportedError, EarlyReadError.
    """
    check_range("seed", seed, 0, 2**53)
    check_range("images", images, 1, MAX_IMAGES)
    check_range("noise", noise, 0, 1)
    check_range("adc_bits", adc_bits, 1, MAX_ADC_BITS)
    source = as_network(network, input_shapes, allow_partial=allow_partial)
    machine = None if hardware is None else as_hardware(hardware)
    what = read_allocation(allocation).made_for(source)
    if placement is None:
        task = _to_place(source, what.changed(hardware=machine, mapping=mapping, fc=fc))
    else:
        for name, value in (("hardware", hardware), ("mapping", mapping), ("fc", fc)):
            if value is not None:
                raise SpecError(name, "is what the placement says: leave it out, or place anew")
        task = _as_placed(source, what, placement)
    file = (
        None if isinstance(network, Network) or not os.fspath(network).lower().endswith(".onnx") else network
    )
    weights = {} if file is None else weights_in(file, source)
    bits = task.source.hardware.precision.weight_bits
    return verify_task(
        task, Weights(source, bits, seed, weights), seed=seed, images=images, adc_bits=adc_bits, noise=noise,
        on_progress=on_progress,
    )  # fmt: skip


def verify_task(
    task: Task, weights: Weights, *, seed: int, images: int, adc_bits: int | None, noise: float,
    on_progress: VerifyProgress | None = None, timing: ExactTiming | None = None,
) -> Verification:  # fmt: skip
    """The same with everything at hand. timing: of the allocation, simulated if None.

    Raises MisplacedError, UnsupportedError, EarlyReadError.
    """
    network, source, hardware = task.network, task.source, task.source.hardware
    on_arrays = StoredNetwork.of(network, source, task.folds)
    graph, matrices = on_arrays.graph, on_arrays.weights
    check_exact(network, hardware, dict(zip(graph.names, (each.rows for each in matrices), strict=True)))
    check_memory(network)
    blocks = zip(graph.names, graph.windows.tolist(), matrices, strict=True)
    check_work(network, {name: total * matrix.cells for name, total, matrix in blocks})
    timing = timing or _timing(network, source) or simulate(graph, on_arrays.copies)
    width = Width.of(hardware.precision)
    timed = hardware.timing.dac_bits if hardware.timing is not None else None
    converters = Converters(adc_bits, noise, timed or max(1, width.bits - 1), width.bits, seed)
    storage = Storage.of_layers(hardware, graph.layers, source.options.mapping)
    stages = dict(zip(graph.names, zip(graph.layers, graph.grids, strict=True), strict=True))

    def stored(name: str) -> Ints:
        stage, grid = stages[name]
        fold = fold_for(network, stage, task.folds)
        window, own = ParallelWindow.of(stage, grid, fold), storage[name]
        return own.stored(weights.stored(stage, own.groups(stage), window, fold), window.positions)

    held = {name: each.of_number for name, each in zip(graph.names, on_arrays.held, strict=True)}
    accelerator = Accelerator.programmed(task.arrays, held, storage, stored)
    schedule = BatchSchedule.of(timing)
    comparison = EmulatorComparison(
        network,
        Emulator(network, accelerator, storage, converters, schedule, weights, width, task.folds),
        Reference(network, weights, width.low, width.high),
        seed,
        converters.exact,
    )
    difference = None
    for image in range(images):
        difference = difference or comparison.run(image, on_progress)
    return summary(task, comparison, difference, images)
