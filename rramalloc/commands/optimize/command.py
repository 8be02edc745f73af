"""`rramalloc optimize`: the main job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from rramalloc.choices import shown_by
from rramalloc.cli import complete
from rramalloc.cli.interrupt import end
from rramalloc.cli.live_line import SearchLine
from rramalloc.cli.output import check_columns, deliver
from rramalloc.cli.parameters import (
    EFFICIENCY,
    LATEX,
    PLACED,
    Help,
    OptionValue,
    described,
    of_call,
    parse_budget,
    passed,
    typed,
)
from rramalloc.methods.registry import METHODS
from rramalloc.room import load_from

OPTIMIZE: Help = {
    "arrays": (
        "N|xF",
        "Crossbar arrays; x2 is twice the minimum. Left out: all of [chip].",
        parse_budget,
    ),
    "objective": ("NAME", f"What is minimised, latency if left out: {', '.join(shown_by('optimize'))}."),
    "target": ("STEPS", "Fewest arrays for this latency."),
    "target_ns": (OptionValue("NS", unit="ns"), "Fewest arrays for this latency, e.g. 50us."),
    "target_interval": ("N", "Fewest arrays for this interval, in steps or ticks, or e.g. 10us."),
    "target_throughput": (OptionValue("X", unit="inputs/s"), "Fewest arrays for so many inputs/s, e.g. 2k."),
    "reload": (None, "Run a network larger than the chip in segments; the hardware needs [write]."),
    "inputs": ("N", "Minimise the time of N inputs that stream; with --reload, N in each loading."),
    "start": ("FILE", "Allocation to begin with; the answer is never worse."),
    "partial_start": (None, "Take what of --start fits by name; the rest begins with the fewest copies."),
    "placed": PLACED,
    "bits": (
        "FILE",
        "CSV layer,weight_bits,input_bits,sensitivity, or a quantised network, or a .npy policy.",
    ),
    "bits_layers": ("FILE", "YAML of CIM-AQ with the layers of a policy .npy."),
    "sensitivity": ("MAX", "Limit of the sum of sensitivities."),
    "bits_network": (OptionValue("FILE", writes="file"), "Write the network with the chosen bits as JSON."),
    "method": (
        OptionValue("NAME", completion=complete.methods, plugins="rramalloc.methods"),
        f"One of {', '.join(METHODS)}; those named published are for chains.",
    ),
    "gap": (OptionValue("G", unit=""), "Stop within this gap, e.g. 1%."),
    "recurrence": (None, "Show NormalOp, PreOp, Tail and Op, too: terms of the tight recurrence."),
    "efficiency": EFFICIENCY,
    "output": ("FILE", "Write the allocation as JSON."),
    "convergence": (OptionValue("FILE", writes="figure"), "Draw how makespan and bound met."),
}


@described(
    OPTIMIZE,
    problem="arrays",
    goal="objective target target_ns target_interval target_throughput reload inputs placed bits bits_layers "
    "sensitivity",
    search="start partial_start method gap",
    output="recurrence efficiency bits_network convergence",
)
@of_call(
    "rramalloc.api:optimize",
    outputs=LATEX,
    example="Example: rramalloc optimize alexnet --arrays 400 -o a.json",
)
def command(
    given: dict[str, Any],
    *,
    context: typer.Context,
    quiet: bool,
    columns: str | None,
    figure_width: int | None,
    gap: float,
    reload: bool = False,
    bits_network: str | None = None,
    recurrence: bool = False,
    efficiency: bool = False,
    convergence: str | None = None,
) -> None:
    """Run `optimize`, or with --reload the plan of segments in its place."""
    from rramalloc import api
    from rramalloc.allocation.allocation import Layer
    from rramalloc.allocation.case_arguments import DEFAULTS
    from rramalloc.hardware.loader import as_hardware
    from rramalloc.importers import load
    from rramalloc.reading import sizing_in
    from rramalloc.search.work import Work, interruptible

    check_columns(columns, Layer, "stall_steps", "busy")
    machine = as_hardware(given["hardware"], given["crossbar"], given["set_values"])
    is_sized = sizing_in(given["network"]) is not None
    of_hardware = machine.chip is not None or machine.kinds is not None or is_sized
    if given["arrays"] is None and not of_hardware:
        name = given["hardware"]
        raise typer.BadParameter(f"--arrays is needed: hardware {name!r} has no [chip] that gives them")
    with SearchLine(quiet=quiet) as line:
        stop = Work(given["work"], given["time_limit_s"], gap, line.update)
        if reload:
            load_from("reload", "command:reload", "--reload")(given, typed(context), stop)
            end(stop, line, quiet=quiet)
            return
        asked = passed(given, api.optimize)
        if is_sized:  # a default is no word against what the file says
            said = typed(context)
            asked = {name: value for name, value in asked.items() if name in said or name not in DEFAULTS}
        with interruptible(stop):
            allocation = api.optimize(**asked, stop=stop)
    also: list[Callable[[], object]] = []
    if bits_network is not None:
        named = allocation.options.bits or {}
        chosen = {layer: bits for layer, bits in allocation.bits.items() if layer in named}
        also.append(lambda: load(**passed(given, load)).with_bits(chosen).save(bits_network))
    if convergence is not None:
        also.append(lambda: allocation.plot.convergence(save=convergence, width=figure_width))
    deliver(
        allocation, given, "copies", known={"recurrence": recurrence, "efficiency": efficiency}, also=also
    )
    end(stop, line, quiet=quiet)
