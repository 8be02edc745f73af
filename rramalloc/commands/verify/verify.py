"""`verify`: from placed arrays, by computing node after node on both sides, to the verdict."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal, NamedTuple, Unpack

import numpy as np

from rramalloc.allocation.allocation import NetworkId
from rramalloc.allocation.allocation_input import AllocationInput, AllocationLike, read_allocation
from rramalloc.choices import AllocationArguments
from rramalloc.commands.place.check import check
from rramalloc.commands.place.place import StoredNetwork, array_of, place_network
from rramalloc.commands.place.placement import MAX_PLACED, PlacedArray, Placement, PlacementLike, as_placement
from rramalloc.commands.verify.crossbars import (
    EXACT_BITS,
    MEMORY_LIMIT_BYTES,
    Converters,
    Ints,
    Storage,
    programmed,
)
from rramalloc.commands.verify.layer import EmulatedLayer, ParallelWindow
from rramalloc.commands.verify.reference import Weights, Width, computed, weights_in, window_rows
from rramalloc.commands.verify.schedule import BatchSchedule, Written
from rramalloc.commands.verify.verification import (
    Difference,
    Verification,
    VerificationOptions,
    VerifiedLayer,
)
from rramalloc.errors import SpecError, UnsupportedError
from rramalloc.hardware.hardware import Hardware
from rramalloc.importers import NetworkLike, network_of
from rramalloc.mapping.demand import filter_of
from rramalloc.mapping.fold import UNFOLDED, Fold
from rramalloc.network.geometry import Pair
from rramalloc.network.network import Network
from rramalloc.network.node import Conv, ConvTranspose, Elementwise, Input, Node, Pool, Recurrent, Stage
from rramalloc.records import brief, check_range
from rramalloc.timing.simulate import ExactTiming, simulate
from rramalloc.version import __version__

VerifyProgress = Callable[[int, int, str], None]
"""Called with the number of nodes done, of all of them, and the name of the next."""
Folds = MappingOf[str, Pair]
"""Pixels (n_h, n_w) folded into one, by layer name; layers left out are as they are."""
NO_FOLDS: Folds = MappingProxyType({})
_DIGITS = 6  # significant digits of an error


class Values(NamedTuple):
    """A tensor as the reference expects it and as the accelerator yields it, (channels, height, width)."""

    expected: Ints
    got: Ints


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
class Comparison:
    """Computes images on both sides. shifts: of every node that sums, from the first image's reference.

    layers: those on arrays, by name; values: compared, which must be equal where converters are exact.
    """

    network: Network
    layers: dict[str, EmulatedLayer]
    schedule: BatchSchedule
    weights: Weights
    width: Width
    converters: Converters
    shifts: dict[str, int] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)
    values: int = 0

    def run(self, image: int, on_progress: VerifyProgress | None = None) -> Difference | None:
        """Compute one image; return the first difference, where everything must be equal.

        Raises EarlyReadError, MisplacedError.
        """
        known, written = dict[str, Values](), dict[str, Written]()
        left = {name: len(readers) for name, readers in self.network.consumers.items()}
        for number, node in enumerate(self.network.nodes):
            if on_progress is not None:
                on_progress(number, len(self.network.nodes), node.name)
            inputs = list(node.inputs)
            written[node.name] = self.schedule.written(self.network, node, [written[name] for name in inputs])
            both = self._both(node, [known[name] for name in inputs], image)
            difference = self._compared(node, both, image)
            if difference is not None:
                return difference
            known[node.name] = self._narrowed(node, both)
            for name in inputs:
                left[name] -= 1
                if not left[name]:
                    known.pop(name, None)
                    written.pop(name, None)
        return None

    def _both(self, node: Node, inputs: list[Values], image: int) -> Values:
        """Return the values as expected and as the accelerator yields them; one tensor where no array lies
        between."""
        if isinstance(node, Input):
            drawn = self.width.drawn(self.network, node, self.converters.seed, image)
            return Values(drawn, drawn)
        shape = self.network.shapes[node.name]
        expected = computed(node, [each.expected for each in inputs], shape, self.weights, self.width)
        if node.name in self.layers and isinstance(node, Stage):
            entering = inputs[0].got >> (self.width.bits - self.width.entering(node).bits)
            return Values(expected, self.layers[node.name].sums(entering))
        if all(each.expected is each.got for each in inputs):
            return Values(expected, expected)
        return Values(
            expected, computed(node, [each.got for each in inputs], shape, self.weights, self.width)
        )

    def _compared(self, node: Node, both: Values, image: int) -> Difference | None:
        expected, got = both
        if got.shape != expected.shape:
            raise AssertionError(f"{node.name}: {got.shape} for {expected.shape}")
        self.values += expected.size
        if isinstance(node, Stage):
            self.tallies.setdefault(node.name, Tally()).add(expected, got)
        if not self.converters.exact or np.array_equal(expected, got):
            return None
        channel, row, column = map(int, np.argwhere(expected != got)[0])
        at = (channel, row, column)
        return Difference(
            image=image, layer=node.name, position=at, expected=int(expected[at]), got=int(got[at])
        )

    def _narrowed(self, node: Node, both: Values) -> Values:
        expected, got = both
        if isinstance(node, Stage | Elementwise):
            if node.name not in self.shifts:
                self.shifts[node.name] = self.width.shift_for(expected)
            expected, got = (self.width.narrowed(each, self.shifts[node.name]) for each in both)
        return Values(expected, expected if self.converters.exact else got)


Placer = Literal["given", "placer", "in order"]


class Task(NamedTuple):
    """Network, allocation and options of a computation.

    source: the allocation, with hardware and options of the placement; folds: of the layers folded first.
    """

    network: Network
    source: AllocationInput
    arrays: Sequence[PlacedArray]
    placed: Placer
    folds: Folds = NO_FOLDS


def _to_place(network: Network, source: AllocationInput) -> Task:
    """Return the task placed on a chip, block after block where there is none."""
    if source.hardware.chip is not None:
        return _placed_task(network, source, place_network(network, source, work=0, seed=0), "placer")
    stored = StoredNetwork.of(network, source)
    folded = {} if stored.sizes is None else dict(zip(stored.graph.names, stored.sizes, strict=True))
    return Task(network, source, in_order(stored, source.where), "in order", folded)


def _as_placed(network: Network, source: AllocationInput, placement: PlacementLike) -> Task:
    """Return the task on the arrays of a placement, which is checked."""
    where = "placement" if isinstance(placement, Placement) else os.fspath(placement)
    given = as_placement(placement)
    check(given, network, source.replication, where, source.blocks)
    return _placed_task(network, source, given, "given")


def _placed_task(network: Network, source: AllocationInput, placement: Placement, placer: Placer) -> Task:
    if source.hardware != placement.hardware:
        source = source.changed(hardware=placement.hardware)
    measured = placement.options.latency_table or source.measured
    source = replace(source, options=placement.options.changed(), measured=measured)
    sizes = {layer.name: layer.fold for layer in placement.layers if layer.fold is not None}
    return Task(network, source, placement.arrays, placer, sizes)


def _timing(network: Network, source: AllocationInput) -> ExactTiming | None:
    """Return the times with own clocks, rates of digital nodes and transfers; None where all layers step
    together."""
    hardware = source.hardware
    untimed = hardware.compute_ns is None and source.measured is None
    if untimed if hardware.own_clock else not source.cycles:
        return None
    return source.timing(source.graph(network))


def in_order(stored: StoredNetwork, where: str) -> list[PlacedArray]:
    """Place every block of every copy on an array, one after the other in a single tile.

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


def summary(task: Task, comparison: Comparison, difference: Difference | None, images: int) -> Verification:
    """Return the verdict and the results of every layer."""
    timing, converters = comparison.schedule.timing, comparison.converters
    layers = _layers(task, comparison)
    changed = any(layer.worst for layer in layers)
    dac_bits = None if converters.adc_bits is None else converters.dac_bits
    sources = task.source.options, task, converters
    return Verification(
        rramalloc_version=__version__,
        network=NetworkId.of(task.network),
        hardware=task.source.hardware.name,
        options=VerificationOptions.gather(*sources, images=images, dac_bits=dac_bits),
        verdict="different" if difference is not None else "approximate" if changed else "equal",
        difference=difference,
        makespan=timing.makespan,
        tick_ns=task.source.hardware.tick_ns if timing.graph.unit == "ticks" else None,
        arrays=len(task.arrays),
        values=comparison.values,
        layers=layers,
        warnings=(*task.network.warnings, *_random_layers(layers)),
    )


def _layers(task: Task, comparison: Comparison) -> tuple[VerifiedLayer, ...]:
    verified = []
    for stage in task.network.stages:
        if stage.name in comparison.tallies:
            layer = comparison.layers.get(stage.name)
            verified.append(
                VerifiedLayer.gather(
                    comparison.tallies[stage.name],
                    name=stage.name,
                    computed="host" if layer is None else "arrays",
                    replication=0 if layer is None else layer.copies,
                    arrays=0 if layer is None else len(layer.arrays),
                    weights=comparison.weights.source(stage),
                    shift=comparison.shifts.get(stage.name, 0),
                )
            )
    return tuple(verified)


def _random_layers(layers: Sequence[VerifiedLayer]) -> list[str]:
    """Return a warning for a file that gives some weights and not others."""
    drawn = [layer.name for layer in layers if layer.weights == "random"]
    if not drawn or len(drawn) == len(layers):
        return []
    return [f"{len(drawn)} layers, first {brief(drawn[0])}, have no weights in the file: they are random"]


WORK_LIMIT = 2**42  # products, and values that poolings look at, of one image
POSITIONS_LIMIT = 2**17  # kernel positions of one node


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


MAX_IMAGES = 1000  # of one run
MAX_ADC_BITS = 52  # codes stay exact in a double


def verify(
    network: NetworkLike,
    allocation: AllocationLike,
    placement: PlacementLike | None = None,
    *,
    seed: int = 0,
    images: int = 1,
    adc_bits: int | None = None,
    noise: float = 0.0,
    on_progress: VerifyProgress | None = None,
    **given: Unpack[AllocationArguments],
) -> Verification:
    """Compute a network through its placed arrays and compare every value with a reference.

    allocation: an Allocation, its file, or copies by layer name; placement: a Placement or its file, None to
    place it here; hardware, mapping and fc: instead of the allocation's, where there is no placement to say
    them; seed: of inputs, of weights that no ONNX file gives, and of noise; adc_bits, noise: converters
    that lose bits, relative deviation of programmed cells: the verdict is then "approximate", unless equal.
    Raises RramallocError: MisplacedError, CapacityError, FileError, SpecError, UnknownNameError,
    UnsupportedError, EarlyReadError.
    """
    check_range("seed", seed, 0, 2**53)
    check_range("images", images, 1, MAX_IMAGES)
    check_range("noise", noise, 0, 1)
    check_range("adc_bits", adc_bits, 1, MAX_ADC_BITS)
    source = network_of(network, given)
    what = read_allocation(allocation).made_for(source)
    if placement is None:
        task = _to_place(source, what.with_arguments(source, given))
    else:
        for name in ("hardware", "mapping", "fc"):
            if given.get(name) is not None:
                raise SpecError(name, "is what the placement says: leave it out, or place anew")
        task = _as_placed(source, what, placement)
    file = (
        None if isinstance(network, Network) or not os.fspath(network).lower().endswith(".onnx") else network
    )
    weights = {} if file is None else weights_in(file, source)
    precision, timing = task.source.hardware.precision, task.source.hardware.timing
    width = Width.of(precision).bits
    timed = None if timing is None else timing.dac_bits
    converters = Converters(adc_bits, noise, timed or max(1, width - 1), width, seed)
    held = Weights(source, precision.weight_bits, seed, weights)
    return verify_task(task, held, converters, images=images, on_progress=on_progress)


def verify_task(
    task: Task,
    weights: Weights,
    converters: Converters,
    *,
    images: int = 1,
    on_progress: VerifyProgress | None = None,
    timing: ExactTiming | None = None,
) -> Verification:
    """Return the same with everything at hand. timing: of the allocation, simulated if None.

    Raises MisplacedError, UnsupportedError, EarlyReadError.
    """
    network, source, hardware = task.network, task.source, task.source.hardware
    on_arrays = StoredNetwork.of(network, source, task.folds)
    graph, matrices = on_arrays.graph, on_arrays.weights
    check_exact(network, hardware, dict(zip(graph.names, (each.rows for each in matrices), strict=True)))
    check_memory(network)
    blocks = zip(graph.names, graph.windows.tolist(), matrices, strict=True)
    check_work(network, {name: total * matrix.cells for name, total, matrix in blocks})
    schedule = BatchSchedule.of(timing or _timing(network, source) or simulate(graph, on_arrays.copies))
    width = Width.of(hardware.precision)
    storage = Storage.of_layers(hardware, graph.layers, source.options.mapping)
    layers = {}
    for stage in graph.layers:
        name, grid, fold = stage.name, schedule.grid(stage.name), _fold(network, stage, task.folds)
        own = replace(converters, width=width.entering(stage).bits)
        window, channels = ParallelWindow.of(stage, grid, fold), network.shapes[name].channels
        parts = (storage[name], own, schedule.copies(name), grid, window, fold)
        layers[name] = EmulatedLayer(stage, channels, *parts)
    held = {name: each.of_number for name, each in zip(graph.names, on_arrays.held, strict=True)}
    arrays = programmed(
        task.arrays, held, storage, lambda name: layers[name].stored(weights.of(layers[name].stage))
    )
    for name, layer in layers.items():
        layer.arrays.extend(arrays[name])
    comparison = Comparison(network, layers, schedule, weights, width, converters)
    difference = None
    for image in range(images):
        difference = difference or comparison.run(image, on_progress)
    return summary(task, comparison, difference, images)


def _fold(network: Network, stage: Stage, folds: Folds) -> Fold | None:
    """Return the fold of a stage, None if it is not folded. Raises SpecError for a dilated kernel."""
    size = folds.get(stage.name, UNFOLDED)
    return None if size == UNFOLDED else Fold.of(filter_of(network, stage), size)
