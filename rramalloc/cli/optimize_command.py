"""`rramalloc optimize`: the main job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from rramalloc.choices import OBJECTIVES, FullyConnected, Mapping, ObjectiveName, SharedWeights
from rramalloc.cli.interrupt import end, interruptible
from rramalloc.cli.live_line import SearchLine
from rramalloc.cli.output import (
    coverage_line,
    energy_lines,
    hardware_words,
    mapping_words,
    print_result,
    table_of,
    warn,
)
from rramalloc.cli.parameters import Format, Help, parse_budget, parse_input_shapes, passed
from rramalloc.methods.registry import METHODS
from rramalloc.units import duration, number_of, plain_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rramalloc.results.allocation import Allocation

_TABLE = table_of(
    "layer=name, windows, demand, block, replication, arrays, cycles, NormalOp=normal_op, PreOp=pre_op, "
    "Tail=tail, Op=op, start, finish, fold, utilisation, weight_bits, input_bits, energy_pj, area_um2",
    texts="name",
    spare="area_um2 energy_pj tail pre_op normal_op op fold utilisation start demand finish cycles windows",
)
OPTIMIZE: Help = {
    "arrays": (
        "N|xF",
        "Crossbar arrays there are; x2 is twice the minimum; left out: all of the chip.",
        parse_budget,
    ),
    "objective": ("NAME", f"What is minimised: {', '.join(OBJECTIVES)}."),
    "target": ("STEPS", "Latency for 'arrays'."),
    "target_ns": ("NS", "Latency for 'arrays'."),
    "placed": (None, "Count the transfer between tiles, as the arrays would be placed."),
    "bits": ("FILE", "CSV layer,weight_bits,input_bits,sensitivity to choose from."),
    "sensitivity": ("MAX", "Limit of the sum of sensitivities."),
    "bits_network": ("FILE", "Write the network with the chosen bits as JSON."),
    "method": (None, f"One of {', '.join(METHODS)}; those named published are for chains."),
    "gap": ("G", "Stop within this gap, e.g. 0.01."),
    "output": ("FILE", "Write the allocation as JSON."),
    "convergence": ("FILE", "Draw how makespan and bound met."),
}


def optimize(
    network: str,
    *,
    arrays: str | None = None,
    hardware: str = "plain",
    crossbar: str | None = None,
    mapping: Mapping = "im2col",
    fold: bool = False,
    fc: FullyConnected = "host",
    shared: SharedWeights = "copies",
    objective: ObjectiveName = "latency",
    target: int | None = None,
    target_ns: float | None = None,
    latency_table: str | None = None,
    placed: bool = False,
    bits: str | None = None,
    sensitivity: float | None = None,
    bits_network: str | None = None,
    method: str = "auto",
    seed: int = 0,
    work: int = 100,
    time_limit_s: float | None = None,
    gap: float = 0.0,
    input_shapes: list[str] | None = None,
    allow_partial: bool = False,
    output_format: Format = "table",
    output: str | None = None,
    figure: str | None = None,
    convergence: str | None = None,
    quiet: bool = False,
) -> None:
    """Best replication of every layer for a number of crossbar arrays.

    Example: rramalloc optimize vgg16.json --arrays 1024 -o vgg16_1024.json
    """
    given = locals()
    from rramalloc import api
    from rramalloc.hardware.loader import as_hardware
    from rramalloc.importers import load
    from rramalloc.search.problem import Stop

    if arrays is None and as_hardware(hardware, crossbar).chip is None:
        raise typer.BadParameter(f"--arrays is needed: hardware {hardware!r} has no [chip] that gives them")
    with SearchLine(quiet=quiet) as line:
        stop = Stop(work=work, time_limit_s=time_limit_s, gap=gap, on_progress=line.update)
        with interruptible(stop):
            allocation = api.optimize(**passed(given, api.optimize), stop=stop)
    if output is not None:
        allocation.save(output)
    if bits_network is not None:
        source = load(network, parse_input_shapes(input_shapes), allow_partial=allow_partial)
        source.with_bits(allocation.bits).save(bits_network)
    if figure is not None:
        allocation.plot.replication(save=figure)
    if convergence is not None:
        allocation.plot.convergence(save=convergence)
    summary = _summary(allocation)
    print_result(allocation.to_dict, _TABLE, allocation.layers, output_format, summary, quiet=quiet)
    warn(allocation.warnings, quiet=quiet)
    end(stop, line, quiet=quiet)


def _summary(allocation: Allocation) -> Iterator[tuple[str, str]]:
    arrays, hardware = allocation.arrays, allocation.hardware
    yield "network", f"{allocation.network.name}, {number_of(len(allocation.layers), 'stage')}"
    yield "hardware", hardware_words(hardware, mapping_words(allocation.options))
    yield "arrays", f"{arrays.used} used of {arrays.budget} (at least {arrays.minimum} are needed)"
    yield "makespan", number_of(allocation.makespan, allocation.time_unit)
    yield (
        "interval",
        f"{number_of(allocation.interval, allocation.time_unit)} between inputs when inputs stream",
    )
    if allocation.objective == "sequential":
        yield "sequential", f"{plain_quantity(allocation.objective_value, allocation.objective_unit)} in sum"
    yield "lower bound", plain_quantity(allocation.lower_bound, allocation.objective_unit)
    yield "gap", f"{allocation.gap:.2%} from optimal at most"
    yield "proof", allocation.proof
    measured = allocation.options.latency_table
    if measured is not None:
        yield "measured", f"{duration(measured.longest_ns)} a step in the slowest stage, {measured.slowest}"
    if allocation.latency_ns is not None and allocation.unit_ns is not None:
        yield allocation.time_unit, duration(allocation.unit_ns)
        yield "latency", duration(allocation.latency_ns)
        yield "throughput", f"{allocation.throughput_per_s:.6g} inputs/s"
    yield from energy_lines(allocation)
    if allocation.sensitivity is not None:
        yield "sensitivity", f"{allocation.sensitivity:g} in sum, of the bits chosen"
    if allocation.placed is not None:
        rounds, slowest = allocation.placed.rounds, max(allocation.placed.transfer_ns.values())
        end = "nothing changed in the last" if allocation.placed.converged else "the best of them"
        yield "transfer", f"{duration(slowest)} a step between tiles; rounds of placement: {rounds}, {end}"
    if allocation.seconds is not None:
        yield "search", f"{allocation.seconds:.2f} s of work on a reference core"
    yield from coverage_line(allocation.coverage)
