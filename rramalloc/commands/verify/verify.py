"""`verify`: from placed arrays, by computing node after node on both sides, to the verdict."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Literal, NamedTuple, Unpack

import numpy as np

from rramalloc.allocation.allocation import NetworkId
from rramalloc.allocation.allocation_input import AllocationInput, AllocationLike, read_case
from rramalloc.allocation.case import Case
from rramalloc.allocation.case_arguments import AllocationArguments
from rramalloc.allocation.goes_with import check_command
from rramalloc.commands.place.check import check_placement
from rramalloc.commands.place.place import StoredNetwork, place_network, placed_array
from rramalloc.commands.place.placement import MAX_PLACED, PlacedArray, Placement, PlacementLike, as_placement
from rramalloc.commands.verify.crossbars import EXACT_BITS, Converters, CrossbarStorage, address_of
from rramalloc.commands.verify.layer import EmulatedLayer, ParallelWindow
from rramalloc.commands.verify.reference import (
    Weights,
    Width,
    images_read,
    node_output,
    pixels_met,
    regridded,
    weights_in,
    window_rows,
)
from rramalloc.commands.verify.verification import (
    Difference,
    Verification,
    VerificationOptions,
    VerifiedLayer,
)
from rramalloc.errors import MisplacedError, RramallocError, SpecError, UnsupportedError
from rramalloc.hardware.hardware import Hardware
from rramalloc.importers import NetworkLike
from rramalloc.mapping.blocks import unit_of
from rramalloc.mapping.demand import filter_of
from rramalloc.mapping.fold import UNFOLDED, Fold
from rramalloc.mapping.mode import array_of
from rramalloc.ndarrays import Ints
from rramalloc.network.geometry import Pair, Shape
from rramalloc.network.network import Network
from rramalloc.network.node import (
    Barrier,
    Conv,
    ConvTranspose,
    Elementwise,
    Flatten,
    GlobalPool,
    Input,
    Node,
    Pool,
    Recurrent,
    Reduce,
    Regrid,
    Stage,
    Take,
    Upsample,
)
from rramalloc.records import Record, brief, check_range
from rramalloc.timing.simulate import ExactTiming, simulate
from rramalloc.version import __version__

VerifyProgress = Callable[[int, int, str], None]  # nodes done, all of them, and the name of the next
Folds = MappingOf[str, Pair]  # pixels (n_h, n_w) folded into one, by layer name
NO_FOLDS: Folds = MappingProxyType({})
_DIGITS = 6  # significant digits of an error
ComparedValues = tuple[Ints, Ints]  # as the reference expects them and as the accelerator yields them


@dataclass(slots=True)
class Tally:
    """Sums over all images of a layer's expected values and of their differences."""

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


PixelSteps = Ints  # step from which each pixel of a tensor can be read; shape (height, width)
WrittenPixels = dict[int, PixelSteps]
"""The same of what each stage contributed to a tensor, NEVER where nothing, before transfer.

One entry, ANY_STAGE, where no transfer takes time.
"""
NOT_WRITTEN = -1  # before batch 0
ANY_STAGE = -1  # no stage's number


def last_written(written: PixelSteps, node: Stage | Pool, output: Shape) -> PixelSteps:
    """Return the step from which each window can be read, that of its latest pixel; shape of the output."""
    for axis, outputs in enumerate((output.height, output.width)):
        border = [(0, int(axis == 0)), (0, int(axis == 1))]
        bordered = np.pad(written, border, constant_values=NOT_WRITTEN)
        other = written.shape[1 - axis]
        latest = np.full((outputs, other) if axis == 0 else (other, outputs), NOT_WRITTEN, dtype=np.int64)
        for position in range(node.kernel[axis]):
            pixels = pixels_met(node, axis, position, outputs, written.shape[axis])
            latest = np.maximum(latest, bordered.take(pixels, axis=axis))
        written = latest
    return written


class EarlyReadError(RramallocError):
    """A window is read before its inputs are written: the timing does not hold.

    layer, window: which reads; step: when; written: the step from which all its inputs can be read.
    """

    def __init__(self, layer: str, window: int, step: int, written: int) -> None:
        super().__init__(layer, window, step, written)
        self.layer, self.window, self.step, self.written = layer, window, step, written

    def __str__(self) -> str:
        return (
            f"layer {brief(self.layer)}: window {self.window} is read in step {self.step}, its inputs are "
            f"written only by step {self.written}: the timing of this allocation is wrong, please report it"
        )


@dataclass(frozen=True)
class BatchSchedule:
    """Batch starts of all stages, as `simulate` found them."""

    timing: ExactTiming

    @cached_property
    def stage(self) -> dict[str, int]:
        """Number of each stage by name."""
        return {name: number for number, name in enumerate(self.timing.graph.names)}

    def written(self, network: Network, node: Node, inputs: list[WrittenPixels]) -> WrittenPixels:
        """Return the step from which each pixel of a node's output can be read. Raises EarlyReadError."""
        output, lags, reached = network.shapes[node.name], self.timing.graph.lags, WrittenPixels()
        for source in sorted(set().union(*inputs)) or [ANY_STAGE]:
            steps = [
                steps_by_stage.get(source, np.full_like(next(iter(steps_by_stage.values())), NOT_WRITTEN))
                for steps_by_stage in inputs
            ]
            shapes = [network.shapes[name] for name in node.inputs]
            reached[source] = _all_written(node, steps, shapes, output, is_timed=node.name in self.stage)
        number = self.stage.get(node.name)
        if number is None:
            return reached
        needed = np.full((output.rows, output.width), NOT_WRITTEN, dtype=np.int64)
        for source, step in reached.items():
            arrived = np.where(step > NOT_WRITTEN, step + lags.get((source, number), 0), NOT_WRITTEN)
            needed = np.maximum(needed, arrived)
        timing = self.timing
        batch = timing.graph.grids[number].numbers() // int(timing.copies[number])
        step = timing.of_stage(number).astype(np.int64)[batch]
        early = np.flatnonzero((step < needed).ravel())
        if len(early):
            window = int(early[0])
            raise EarlyReadError(node.name, window, int(step.flat[window]), int(needed.flat[window]))
        return {number if lags else ANY_STAGE: step + int(timing.delay[number])}


def _all_written(
    node: Node, inputs: list[PixelSteps], sources: list[Shape], output: Shape, *, is_timed: bool
) -> PixelSteps:
    """Return the steps from which all inputs of each pixel of a node's output can be read.

    is_timed: whether the node is a stage; a weight layer left to the host needs all pixels of its input.
    """
    if isinstance(node, Input):
        return np.zeros((output.rows, output.width), dtype=np.int64)
    if isinstance(node, Regrid) and (node.order != "raster" or sources[0].images != output.images):
        moved: PixelSteps = regridded(node, inputs[0][None], sources[0], output)[0]
        return moved
    if max(output.images, *(source.images for source in sources)) == 1:
        return _image_written(node, inputs, output, is_timed=is_timed)
    images, alone = list[PixelSteps](), output.of_images(1)
    for image in range(output.images):
        stacked = [steps[None] for steps in inputs]
        read = images_read(node, stacked, sources, output, image, NOT_WRITTEN)
        latest = [steps[0].max(axis=0) for steps in read]
        images.append(_image_written(node, latest, alone, is_timed=is_timed))
    return np.concatenate(images)


def _image_written(node: Node, inputs: list[PixelSteps], output: Shape, *, is_timed: bool) -> PixelSteps:
    """Return the same for one image, of what it reads of each input."""
    grid = output.grid
    if isinstance(node, Stage) and not is_timed:
        return np.full(grid, int(inputs[0].max()))
    if isinstance(node, Stage | Pool):
        return last_written(inputs[0], node, output)
    if isinstance(node, Upsample | Take | Regrid):
        rows, columns = (node.needed(axis, Shape(1, *inputs[0].shape)) for axis in (0, 1))
        high = np.stack(
            [inputs[0][first : last + 1].max(axis=0, initial=NOT_WRITTEN) for first, last in rows]
        )
        wide = [high[:, first : last + 1].max(axis=1, initial=NOT_WRITTEN) for first, last in columns]
        return np.stack(wide, axis=1)
    if isinstance(node, GlobalPool | Flatten | Barrier) or (
        isinstance(node, Reduce) and inputs[0].shape != grid
    ):
        return np.full(grid, max(int(steps.max()) for steps in inputs))
    latest = np.full(grid, NOT_WRITTEN, dtype=np.int64)
    for steps in inputs:  # one pixel is broadcast
        latest = np.maximum(latest, steps)
    return latest


@dataclass(slots=True)
class TwinRun:
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

        Raises EarlyReadError.
        """
        known, written = dict[str, ComparedValues](), dict[str, WrittenPixels]()
        left = {name: len(readers) for name, readers in self.network.consumers.items()}
        for number, node in enumerate(self.network.nodes):
            if on_progress is not None:
                on_progress(number, len(self.network.nodes), node.name)
            inputs = list(node.inputs)
            written[node.name] = self.schedule.written(self.network, node, [written[name] for name in inputs])
            expected, got = self._both(node, [known[name] for name in inputs], image)
            self.values += expected.size
            if isinstance(node, Stage):
                self.tallies.setdefault(node.name, Tally()).add(expected, got)
            if self.converters.exact and not np.array_equal(expected, got):
                channel, row, column = map(int, np.argwhere(expected != got)[0])
                at = (channel, row, column)
                values = {"expected": int(expected[at]), "got": int(got[at])}
                return Difference(image=image, layer=node.name, position=at, **values)
            if isinstance(node, Stage | Elementwise):
                shift = self.shifts.setdefault(node.name, self.width.shift_for(expected))
                expected, got = (self.width.narrowed(sums, shift) for sums in (expected, got))
            known[node.name] = expected, expected if self.converters.exact else got
            for name in inputs:
                left[name] -= 1
                if not left[name]:
                    known.pop(name, None)
                    written.pop(name, None)
        return None

    def _both(self, node: Node, inputs: list[ComparedValues], image: int) -> ComparedValues:
        """Return the values of both sides; one tensor where no array lies between."""
        if isinstance(node, Input):
            drawn = self.width.drawn(self.network, node, self.converters.seed, image)
            return drawn, drawn
        given, read = [expected for expected, _ in inputs], [got for _, got in inputs]
        shape, by = self.network.shapes[node.name], (self.weights, self.width)
        sources = [self.network.shapes[name] for name in node.inputs]
        expected = node_output(node, given, sources, shape, *by)
        if node.name in self.layers and isinstance(node, Stage):
            entering = read[0] >> (self.width.bits - self.width.entering(node).bits)
            return expected, self.layers[node.name].sums(entering)
        same = all(one is other for one, other in inputs)
        return expected, expected if same else node_output(node, read, sources, shape, *by)


PlacedBy = Literal["given", "placer", "in order"]


class Task(NamedTuple):
    """Network, allocation and options of a computation.

    source: the allocation, with hardware and options of the placement; folds: of the layers folded first.
    """

    network: Network
    source: AllocationInput
    arrays: Sequence[PlacedArray]
    placed: PlacedBy
    folds: Folds = NO_FOLDS


def _task(network: Network, source: AllocationInput, placement: PlacementLike | None) -> Task:
    """Return the task on the arrays of a placement, which is checked, or made here for an allocation.

    It is placed on a chip, or block after block where there is none.
    """
    placer: PlacedBy = "placer" if placement is None else "given"
    if placement is not None:
        where = "placement" if isinstance(placement, Placement) else os.fspath(placement)
        placed = as_placement(placement)
        if source.network is not None:  # a whole allocation, which says what it was made for
            _check_same(source, placed, where)
        check_placement(placed, network, source.copies, where, source.blocks, source.kinds)
    elif source.hardware.chip is not None:
        placed = place_network(network, source, work=0, seed=0)
    else:
        stored = StoredNetwork.of(network, source)
        folded = {} if stored.sizes is None else dict(zip(stored.graph.names, stored.sizes, strict=True))
        return Task(network, source, in_order(stored, source.where), "in order", folded)
    if source.hardware != placed.hardware:
        source = source.changed(hardware=placed.hardware)
    measured = placed.options.latency_table or source.measured
    source = replace(source, options=placed.options.changed(), measured=measured)
    sizes = {layer.name: layer.fold for layer in placed.layers if layer.fold is not None}
    return Task(network, source, placed.arrays, placer, sizes)


_DESCRIBES = frozenset(("name", "source", "unconfirmed", "set_values"))
"""Fields of a hardware that do not affect any result."""


def _check_same(source: AllocationInput, placed: Placement, where: str) -> None:
    """Raise MisplacedError for a placement on other hardware, or with other options, than the allocation's.

    Tiles may be those of the placement alone.
    """
    on_tiles = source.hardware
    if on_tiles.chip is None:
        on_tiles = on_tiles.model_copy(update={"chip": placed.hardware.chip})
    wanted = {"hardware": on_tiles, "options": source.options, "options.latency_table": source.measured}
    got = {
        "hardware": placed.hardware,
        "options": placed.options.changed(),
        "options.latency_table": placed.options.latency_table,
    }
    for entry, value in wanted.items():
        apart = _first_difference(got[entry], value, entry)
        if apart is not None:
            field, here, there = apart
            remedy = "place this allocation, or give its copies alone ({'copies': ...})"
            reason = f"is {_shown(here)}, the allocation has {_shown(there)}: {remedy}"
            raise MisplacedError(where, field, reason)


_LONGEST_VALUE = 60
"""Characters of a value in a message."""


def _shown(value: object) -> str:
    """Return a value of a field as a file has it; a list whole, as the entry that differs may be any."""
    return str(list(value))[:_LONGEST_VALUE] if isinstance(value, tuple) else brief(value)


def _first_difference(got: object, wanted: object, entry: str) -> tuple[str, object, object] | None:
    """Return the dotted name and both values of the first field in which two records differ."""
    if got == wanted:
        return None
    if not (isinstance(got, Record) and isinstance(wanted, Record)):
        return entry, got, wanted
    fields = (name for name in type(wanted).model_fields if name not in _DESCRIBES)
    found = (
        _first_difference(getattr(got, name), getattr(wanted, name), f"{entry}.{name}") for name in fields
    )
    return next((difference for difference in found if difference is not None), None)


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
    needed = sum(len(copies) * copies.together for copies in stored.held)
    if needed > MAX_PLACED:
        raise SpecError(where, f"takes {needed} arrays, the limit of a placement is {MAX_PLACED}")
    arrays: list[PlacedArray] = []
    for name, held in zip(stored.graph.names, stored.held, strict=True):
        for replica, blocks in (held[number] for number in range(len(held))):
            for block in blocks:
                arrays.append(placed_array((0, 0), (0, 0), len(arrays), name, replica, block))
    return arrays


def summary(task: Task, comparison: TwinRun, difference: Difference | None, images: int) -> Verification:
    """Return the verdict and the results of every layer."""
    timing, converters = comparison.schedule.timing, comparison.converters
    layers = []
    for stage in task.network.stages:
        if stage.name in comparison.tallies:
            layer = comparison.layers.get(stage.name)
            verified = VerifiedLayer.gather(
                comparison.tallies[stage.name],
                name=stage.name,
                computed="host" if layer is None else "arrays",
                copies=0 if layer is None else layer.copies,
                arrays=0 if layer is None else len(layer.arrays),
                weights=comparison.weights.source(stage),
                shift=comparison.shifts.get(stage.name, 0),
            )
            layers.append(verified)
    warnings, drawn = (
        [*task.network.warnings, *task.source.left_out],
        [layer.name for layer in layers if layer.weights == "random"],
    )
    if 0 < len(drawn) < len(layers):  # the file gives some weights and not others
        first = f"{len(drawn)} layers, first {brief(drawn[0])}"
        warnings.append(f"{first}, have no weights in the file: they are random")
    changed = any(layer.worst for layer in layers)
    dac_bits = None if converters.adc_bits is None else converters.dac_bits
    sources = task.source.options, task, converters
    case = Case(task.network, task.source.hardware, task.source.options, task.source.measured)
    case = case.with_stages(timing.graph)
    return Verification(
        rramalloc_version=__version__,
        network=NetworkId.of(task.network),
        hardware=task.source.hardware.name,
        set_values=task.source.hardware.set_values,
        options=VerificationOptions.gather(*sources, images=images, dac_bits=dac_bits),
        verdict="different" if difference is not None else "approximate" if changed else "equal",
        difference=difference,
        makespan=timing.makespan,
        tick_ns=task.source.hardware.tick_ns if timing.graph.unit == "ticks" else None,
        arrays=len(task.arrays),
        values=comparison.values,
        layers=tuple(layers),
        not_counted=case.not_counted(links=bool(task.source.transfer_ns)),
        warnings=tuple(warnings),
    )


MEMORY_LIMIT_BYTES = 2**32  # of the cells of all arrays, and of the tensors or weights of one node
WORK_LIMIT = 2**42  # products, and values that poolings look at, of one image
POSITIONS_LIMIT = 2**17  # kernel positions of one node


def check_limits(network: Network, hardware: Hardware, stored: MappingOf[str, Pair]) -> None:
    """Raise UnsupportedError if sums could leave the integers that are exact, or an image asks for too much.

    stored: of layers on arrays, by name: wordlines that one output depends on, and products of all windows,
    those with the zeros between shifted kernels included.
    """
    width, work = Width.of(hardware.precision).bits, 0
    if width + 24 > EXACT_BITS:  # sums over the at most 2**24 pixels of a grid
        reason = f"tensors of {width} bits are too wide for exact sums: use fewer input_bits or output_bits"
        raise UnsupportedError(network.where, reason)
    for node in network.nodes:
        where, output = f"{network.where}: node {brief(node.name)} ({node.op})", network.shapes[node.name]
        shapes = [network.shapes[name] for name in (*node.inputs, node.name)]
        values, weights, bits = sum(shape.channels * shape.pixels for shape in shapes), 0, 0
        if isinstance(node, Recurrent):
            reason = "is a recurrence, which is not emulated: verify the layers before it and behind it apart"
            raise UnsupportedError(where, reason)
        if isinstance(node, Elementwise):
            many = len(node.inputs)
            bits = width * many if node.op == "mul" else width + many.bit_length()
        if isinstance(node, Stage):
            precision = hardware.precision.of_layer(node)
            rows, products = stored.get(node.name, (window_rows(network, node), 0))
            bits = rows.bit_length() + precision.weight_bits + min(width, precision.input_bits) - 1
            weights = node.weight_count(network.input_shape(node).channels)
            work += max(weights * output.pixels, products)
        if isinstance(node, Conv | ConvTranspose | Pool):
            positions, (top, left, bottom, right) = math.prod(node.kernel), node.pads
            if positions > POSITIONS_LIMIT:
                reason = f"its kernel has {positions} positions, the limit is {POSITIONS_LIMIT}"
                raise UnsupportedError(where, f"{reason}: use a smaller kernel")
            work += output.channels * output.pixels * positions if isinstance(node, Pool) else 0
            # of a transposed one the full output, of which the pads are cut off
            source = output if isinstance(node, ConvTranspose) else network.input_shape(node)
            height = source.height + top + bottom + node.geometry.span(0)
            values += source.channels * height * (source.width + left + right + node.geometry.span(1))
        if bits > EXACT_BITS:
            what, remedy = "products" if node.op == "mul" else "sums", "fewer weight_bits, input_bits or"
            reason = (
                f"its {what} take {bits} bits, exact arithmetic has {EXACT_BITS}: use {remedy} output_bits"
            )
            raise UnsupportedError(where, reason)
        for what, needed, remedy in (
            ("tensors", 32 * values, "a smaller input shape"),
            ("weights", 16 * weights, "a smaller network"),
        ):
            if needed > MEMORY_LIMIT_BYTES:
                reason = f"its {what} take {needed >> 20} MiB, the limit is {MEMORY_LIMIT_BYTES >> 20}"
                raise UnsupportedError(where, f"{reason}: use {remedy}")
    if work > WORK_LIMIT:
        reason = f"computing it takes {work} products, the limit is {WORK_LIMIT}"
        raise UnsupportedError(network.where, f"{reason}: use a smaller input shape")


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

    Parameters
    ----------
    network
        A Network, a file, or the name of a shipped network.
    allocation
        An Allocation, its file, or how layers run by name: copies, {"conv1": 4}.
    placement
        A Placement or its file; None to place the allocation here, on what hardware, mapping, fc and host
        say.
    seed
        Of inputs, of weights that no ONNX file gives, and of noise.
    images
        Number of inputs.
    adc_bits
        Bits of converters that lose some: the verdict is then "approximate", unless all is equal.
    noise
        Relative deviation of programmed cells: the verdict is then "approximate", unless all is equal.
    on_progress
        Called with (number of the node, nodes in all, its name) before each node.

    Returns
    -------
    Verification
        Whether all values are equal, and where they are not.

    Raises
    ------
    RramallocError
        MisplacedError, CapacityError, FileError, SpecError, UnknownNameError, UnsupportedError,
        EarlyReadError.
    """
    check_range("seed", seed, 0, 2**53)
    check_range("images", images, 1, MAX_IMAGES)
    check_range("noise", noise, 0, 1)
    check_range("adc_bits", adc_bits, 1, MAX_ADC_BITS)
    case, what = read_case(network, allocation, given)
    source = case.network
    what.made_for(source)
    check_command("verify", "verify", case)
    if placement is not None:
        for name in ("hardware", "set_values", "mapping", "fc", "host"):
            if given.get(name) is not None:
                raise SpecError(name, "is what the placement says: leave it out, or place anew")
    task = _task(source, what, placement)
    weights = {}
    if isinstance(network, str | os.PathLike) and os.fspath(network).lower().endswith(".onnx"):
        weights = weights_in(network, source)
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
    """Return the verification of a task. timing: of the allocation, simulated if None.

    Raises MisplacedError, UnsupportedError, EarlyReadError.
    """
    network, source, hardware = task.network, task.source, task.source.hardware
    on_arrays = StoredNetwork.of(network, source, task.folds)
    graph = on_arrays.graph
    by_stage = zip(graph.names, on_arrays.held, graph.windows.tolist(), strict=True)
    stored = {name: (held.weights.rows, total * held.weights.cells) for name, held, total in by_stage}
    check_limits(network, hardware, stored)
    schedule = BatchSchedule(timing or _timing(network, source) or simulate(graph, on_arrays.copies))
    width, layers = Width.of(hardware.precision), dict[str, EmulatedLayer]()
    rows = zip(graph.layers, graph.grids, on_arrays.copies.tolist(), graph.modes, strict=True)
    for stage, grid, copies, mode in rows:
        size = task.folds.get(stage.name, UNFOLDED)
        fold = None if size == UNFOLDED else Fold.of(filter_of(network, stage), size)
        own = array_of(hardware, stage, mode)
        storage = CrossbarStorage.of(own, source.options.mapping)
        of_layer = replace(converters, width=width.entering(stage).bits)
        if own.processor is not None:  # exact, whatever converters and cells of arrays lose
            storage = CrossbarStorage.of(unit_of(network, stage, own), "im2col")
            of_layer = replace(of_layer, adc_bits=None, noise=0.0)
        window, channels = ParallelWindow.of(stage, grid, fold), network.shapes[stage.name].channels
        layers[stage.name] = EmulatedLayer(stage, channels, storage, of_layer, copies, grid, window, fold)
    cells = sum(array.rows * array.columns * layers[array.layer].storage.bytes for array in task.arrays)
    if cells > MEMORY_LIMIT_BYTES:
        reason = f"its cells take {cells >> 20} MiB, the limit is {MEMORY_LIMIT_BYTES >> 20}"
        raise UnsupportedError("placement", f"{reason}: verify an allocation of fewer arrays")
    arrays: dict[str, list[PlacedArray]] = {name: [] for name in layers}
    for array in {address_of(array): array for array in task.arrays}.values():  # what is written last stays
        arrays[array.layer].append(array)
    for layer, held in zip(layers.values(), on_arrays.held, strict=True):
        layer.program(arrays[layer.stage.name], held, weights.of(layer.stage))
    comparison = TwinRun(network, layers, schedule, weights, width, converters)
    difference = None
    for image in range(images):
        difference = difference or comparison.run(image, on_progress)
    return summary(task, comparison, difference, images)
