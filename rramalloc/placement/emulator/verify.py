"""`verify`: the one call from a placement to the verdict on what it computes."""

from __future__ import annotations

import os

from rramalloc.hardware.loader import HardwareLike, as_hardware
from rramalloc.importers import InputShapes, NetworkLike, as_network
from rramalloc.mapping.options import FullyConnected, Mapping
from rramalloc.network.network import Network
from rramalloc.placement.emulator.accelerator import Accelerator, held_by
from rramalloc.placement.emulator.cells import Storage
from rramalloc.placement.emulator.comparison import Comparison, Told
from rramalloc.placement.emulator.converters import Converters
from rramalloc.placement.emulator.emulator import Emulator
from rramalloc.placement.emulator.folded import fold_for, lines_of
from rramalloc.placement.emulator.integers import Width
from rramalloc.placement.emulator.limits import check_exact, check_memory, check_work
from rramalloc.placement.emulator.onnx_weights import weights_in
from rramalloc.placement.emulator.reference import Reference
from rramalloc.placement.emulator.schedule import Schedule
from rramalloc.placement.emulator.summary import summary
from rramalloc.placement.emulator.task import Task, task_of
from rramalloc.placement.emulator.verification import Verification
from rramalloc.placement.emulator.weights import Weights
from rramalloc.placement.placement import PlacementLike
from rramalloc.records import check_range
from rramalloc.results.allocation_input import AllocationLike
from rramalloc.timing.simulate import Timing, replication_by_name, simulate
from rramalloc.timing.stage_graph import StageGraph

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
    on_progress: Told | None = None,
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
    source = as_network(network, input_shapes)
    chosen = None if hardware is None else as_hardware(hardware)
    task = task_of(source, allocation, placement, chosen, mapping, fc)
    file = (
        None if isinstance(network, Network) or not os.fspath(network).lower().endswith(".onnx") else network
    )
    weights = {} if file is None else weights_in(file, source)
    bits = task.hardware.precision.weight_bits
    return verify_task(
        task, Weights(source, bits, seed, weights), seed=seed, images=images, adc_bits=adc_bits, noise=noise,
        on_progress=on_progress,
    )  # fmt: skip


def verify_task(
    task: Task, weights: Weights, *, seed: int, images: int, adc_bits: int | None, noise: float,
    on_progress: Told | None = None, timing: Timing | None = None,
) -> Verification:  # fmt: skip
    """The same with everything at hand. timing: of the allocation, simulated if None.

    Raises MisplacedError, UnsupportedError, EarlyReadError.
    """
    network, hardware = task.network, task.hardware
    graph = StageGraph.build(network, task.options.fc)
    stages = {stage.name: stage for stage in graph.stages}
    folded = {name: fold_for(network, stage, task.folds) for name, stage in stages.items()}
    check_exact(network, hardware, {name: lines_of(network, stages[name], folded[name]) for name in stages})
    check_memory(network)
    check_work(network)
    timing = timing or simulate(graph, replication_by_name(graph, task.replication, task.where))
    width, storage = Width.of(hardware.precision), Storage.of(hardware)
    timed = hardware.timing.dac_bits if hardware.timing is not None else None
    converters = Converters(adc_bits, noise, timed or max(1, width.bits - 1), width.bits, seed)
    held = held_by(network, graph.stages, hardware, task.options.mapping, task.folds)
    accelerator = Accelerator.programmed(
        task.arrays, held, storage, lambda name: weights.grouped(stages[name], folded[name])
    )
    schedule = Schedule.of(timing)
    comparison = Comparison(
        network, Emulator(network, accelerator, storage, converters, schedule, weights, width, task.folds),
        Reference(network, weights, width.low, width.high), seed, converters.exact,
    )  # fmt: skip
    difference = None
    for image in range(images):
        difference = difference or comparison.run(image, on_progress)
    return summary(task, comparison, difference, images)
