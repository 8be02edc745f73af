"""`rramalloc optimize`: the main job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rramalloc.choices import OBJECTIVES, ObjectiveName
from rramalloc.cli import EXIT_INTERRUPTED, complete, parameters
from rramalloc.cli.interrupt import interruptible
from rramalloc.cli.live_line import SearchLine
from rramalloc.cli.output import note, print_lines, print_result, warn
from rramalloc.methods.registry import METHODS
from rramalloc.units import duration, number_of, plain_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rramalloc.results.allocation import Allocation

_COLUMNS = {
    "layer": "name",
    "windows": "windows",
    "demand": "demand",
    "block": "block",
    "replication": "replication",
    "arrays": "arrays",
    "cycles": "cycles",
    "NormalOp": "normal_op",
    "PreOp": "pre_op",
    "Tail": "tail",
    "Op": "op",
    "start": "start",
    "finish": "finish",
    "fold": "fold",
    "utilisation": "utilisation",
    "weight bits": "weight_bits",
    "input bits": "input_bits",
    "energy [pJ]": "energy_pj",
    "area [um2]": "area_um2",
}
_SPARE = (
    "area [um2]",
    "energy [pJ]",
    "Tail",
    "PreOp",
    "NormalOp",
    "Op",
    "fold",
    "utilisation",
    "start",
    "demand",
    "finish",
    "cycles",
    "windows",
)


Arrays = Annotated[
    str | None,
    typer.Option(
        "--arrays", metavar="N|xF", callback=parameters.check_budget,
        help="Crossbar arrays there are; x2 is twice the minimum; left out: all of the chip.",
    ),
]  # fmt: skip
Objective = Annotated[
    ObjectiveName,
    typer.Option("--objective", metavar="NAME", help=f"What is minimised: {', '.join(OBJECTIVES)}."),
]
Target = Annotated[int | None, typer.Option("--target", metavar="STEPS", help="Latency for 'arrays'.")]
TargetNs = Annotated[float | None, typer.Option("--target-ns", metavar="NS", help="Latency for 'arrays'.")]
Method = Annotated[
    str,
    typer.Option(
        "--method",
        autocompletion=complete.methods,
        help=f"One of {', '.join(METHODS)}; those named published are for chains.",
    ),
]
Convergence = Annotated[
    str | None, typer.Option("--convergence", metavar="FILE", help="Draw how makespan and bound met.")
]
Placed = Annotated[
    bool, typer.Option("--placed", help="Count the transfer between tiles, as the arrays would be placed.")
]
Bits = Annotated[
    str | None,
    typer.Option(
        "--bits", metavar="FILE", help="CSV layer,weight_bits,input_bits,sensitivity to choose from."
    ),
]
Sensitivity = Annotated[
    float | None, typer.Option("--sensitivity", metavar="MAX", help="Limit of the sum of sensitivities.")
]
BitsNetwork = Annotated[
    str | None,
    typer.Option("--bits-network", metavar="FILE", help="Write the network with the chosen bits as JSON."),
]
Gap = Annotated[float, typer.Option("--gap", metavar="G", help="Stop within this gap, e.g. 0.01.")]
AllocationFile = Annotated[
    str | None, typer.Option("-o", "--output", metavar="FILE", help="Write the allocation as JSON.")
]


def optimize(
    network: parameters.NetworkArgument,
    *,
    arrays: Arrays = None,
    hardware: parameters.Hardware = "plain",
    crossbar: parameters.Crossbar = None,
    mapping: parameters.Mapping = "im2col",
    fold: parameters.Fold = False,
    fc: parameters.Fc = "host",
    shared: parameters.Shared = "copies",
    objective: Objective = "latency",
    target: Target = None,
    target_ns: TargetNs = None,
    latency_table: parameters.LatencyTable = None,
    placed: Placed = False,
    bits: Bits = None,
    sensitivity: Sensitivity = None,
    bits_network: BitsNetwork = None,
    method: Method = "auto",
    seed: parameters.Seed = 0,
    work: parameters.Work = 100,
    time_limit: parameters.TimeLimit = None,
    gap: Gap = 0.0,
    input_shape: parameters.InputShape = None,
    allow_partial: parameters.AllowPartial = False,
    output_format: parameters.OutputFormat = "table",
    output: AllocationFile = None,
    figure: parameters.Figure = None,
    convergence: Convergence = None,
    quiet: parameters.Quiet = False,
) -> None:
    """Best replication of every layer for a number of crossbar arrays.

    Example: rramalloc optimize vgg16.json --arrays 1024 -o vgg16_1024.json
    """
    from rramalloc import api
    from rramalloc.chart import check_figure
    from rramalloc.files import check_writable
    from rramalloc.hardware.loader import as_hardware
    from rramalloc.importers import load
    from rramalloc.search.problem import Stop

    check_figure(figure)
    check_figure(convergence)
    check_writable(bits_network)
    if arrays is None and as_hardware(hardware, crossbar).chip is None:
        raise typer.BadParameter(f"--arrays is needed: hardware {hardware!r} has no [chip] that gives them")
    with SearchLine(quiet=quiet) as line:
        stop = Stop(work=work, time_limit_s=time_limit, gap=gap, on_progress=line.update)
        with interruptible(stop):
            allocation = api.optimize(
                network, parameters.budget_of(arrays), hardware=hardware, crossbar=crossbar,
                mapping=mapping, fold=fold, fc=fc, shared=shared, objective=objective, method=method,
                target=target, target_ns=target_ns, latency_table=latency_table, placed=placed, bits=bits,
                sensitivity=sensitivity, seed=seed,
                work=work, time_limit_s=time_limit, gap=gap, stop=stop,
                input_shapes=parameters.parse_input_shapes(input_shape),
                allow_partial=allow_partial,
            )  # fmt: skip
    if output is not None:
        allocation.save(output)
    if bits_network is not None:
        shapes = parameters.parse_input_shapes(input_shape)
        source = load(network, shapes, allow_partial=allow_partial)
        source.with_bits(allocation.bits).save(bits_network)
    _draw(allocation, figure, convergence)
    _print(allocation, output_format, quiet=quiet)
    warn(allocation.warnings, quiet=quiet)
    note(f"done in {line.seconds:.2f} s", quiet=quiet)
    if stop.interrupted:
        note("interrupted: this is the best found so far")
        raise typer.Exit(EXIT_INTERRUPTED)


def _draw(allocation: Allocation, figure: str | None, convergence: str | None) -> None:
    if figure is not None:
        allocation.plot.replication(save=figure)
    if convergence is not None:
        allocation.plot.convergence(save=convergence)


def _print(allocation: Allocation, output_format: parameters.Format, *, quiet: bool) -> None:
    if print_result(
        allocation.to_dict, _COLUMNS, allocation.layers, output_format, ("layer",), spare=_SPARE, quiet=quiet
    ):
        typer.echo()
        print_lines(_summary(allocation))


def _summary(allocation: Allocation) -> Iterator[tuple[str, str]]:
    arrays, hardware = allocation.arrays, allocation.hardware
    yield "network", f"{allocation.network.name}, {number_of(len(allocation.layers), 'stage')}"
    yield "hardware", parameters.hardware_words(hardware, parameters.mapping_words(allocation.options))
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
    yield from parameters.energy_lines(allocation)
    if allocation.sensitivity is not None:
        yield "sensitivity", f"{allocation.sensitivity:g} in sum, of the bits chosen"
    if allocation.placed is not None:
        rounds, slowest = allocation.placed.rounds, max(allocation.placed.transfer_ns.values())
        end = "nothing changed in the last" if allocation.placed.converged else "the best of them"
        yield "transfer", f"{duration(slowest)} a step between tiles; rounds of placement: {rounds}, {end}"
    if allocation.seconds is not None:
        yield "search", f"{allocation.seconds:.2f} s of work on a reference core"
    yield from parameters.coverage_line(allocation)
