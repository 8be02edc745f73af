"""`rramalloc pareto`: what every number of arrays can buy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rramalloc.choices import FrontAgainst, FrontObjective
from rramalloc.cli import EXIT_INTERRUPTED, complete, parameters
from rramalloc.cli.interrupt import interruptible
from rramalloc.cli.live_line import LiveLine
from rramalloc.cli.output import note, print_lines, print_result, warn
from rramalloc.progress import of_front

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rramalloc.results.pareto_front import ParetoFront

_COLUMNS = {
    "against": "against_value",
    "arrays": "arrays",
    "makespan": "makespan",
    "interval": "interval",
    "latency": "latency_ns",
    "energy [pJ]": "energy_pj",
    "EDP [pJ ns]": "edp",
    "area [um2]": "area_um2",
    "value": "value",
    "lower bound": "lower_bound",
    "gap": "gap",
}
_SPARE = ("area [um2]", "EDP [pJ ns]", "energy [pJ]", "value", "latency", "interval", "gap", "lower bound")


Arrays = Annotated[
    str, typer.Option("--arrays", metavar="N", help="Most crossbar arrays; x2 is twice the minimum.")
]
Objective = Annotated[FrontObjective, typer.Option("--objective", help="What is put against arrays.")]
Against = Annotated[FrontAgainst, typer.Option("--against", help="Another quantity instead of arrays.")]
Work = Annotated[
    int, typer.Option("--work", metavar="N", help="Most units of search for all points, 0.05 s each.")
]
Baselines = Annotated[
    str | None,
    typer.Option(
        "--baselines", metavar="A,B,...", autocompletion=complete.method_lists,
        help="Methods beside the front; quick ones in a figure.",
    ),
]  # fmt: skip


def pareto(
    network: parameters.NetworkArgument,
    *,
    arrays: Arrays,
    objective: Objective = "makespan",
    against: Against = "arrays",
    hardware: parameters.Hardware = "plain",
    crossbar: parameters.Crossbar = None,
    mapping: parameters.Mapping = "im2col",
    fold: parameters.Fold = False,
    fc: parameters.Fc = "host",
    baselines: Baselines = None,
    seed: parameters.Seed = 0,
    work: Work = 800,
    time_limit: parameters.TimeLimit = None,
    latency_table: parameters.LatencyTable = None,
    input_shape: parameters.InputShape = None,
    allow_partial: parameters.AllowPartial = False,
    output_format: parameters.OutputFormat = "table",
    output: parameters.Output = None,
    figure: parameters.Figure = None,
    quiet: parameters.Quiet = False,
) -> None:
    """All non-dominated points of arrays and latency up to a budget, each with its bound.

    Example: rramalloc pareto vgg16 --arrays 4096 --figure front.svg
    """
    from rramalloc import api
    from rramalloc.chart import check_figure
    from rramalloc.search.problem import Stop
    from rramalloc.studies.pareto import DEFAULT_BASELINES

    check_figure(figure)
    drawn = figure is not None and against == "arrays" and objective in ("makespan", "interval", "latency_ns")
    beside: tuple[str, ...] = DEFAULT_BASELINES if drawn else ()
    if baselines is not None:
        beside = tuple(name.strip() for name in baselines.split(",") if name.strip())
    stop = Stop(work=work, time_limit_s=time_limit)
    with LiveLine(quiet=quiet) as line, interruptible(stop):
        front = api.pareto(
            network, arrays, objective=objective, against=against, hardware=hardware, crossbar=crossbar,
            mapping=mapping, fold=fold, fc=fc, baselines=beside, seed=seed, work=work,
            time_limit_s=time_limit, latency_table=latency_table, stop=stop,
            input_shapes=parameters.parse_input_shapes(input_shape),
            allow_partial=allow_partial,
            on_progress=lambda *progress: line.show(of_front(*progress)),
        )  # fmt: skip
    if output is not None:
        front.save(output)
    _draw(front, figure)
    if print_result(front.to_dict, _COLUMNS, front.points, output_format, (), spare=_SPARE, quiet=quiet):
        typer.echo()
        print_lines(_summary(front))
    warn(front.warnings, quiet=quiet)
    note(f"done in {line.seconds:.2f} s", quiet=quiet)
    if stop.interrupted:
        note("interrupted: these are the points found so far")
        raise typer.Exit(EXIT_INTERRUPTED)


def _draw(front: ParetoFront, figure: str | None) -> None:
    if figure is not None:
        front.plot.front(save=figure)


def _summary(front: ParetoFront) -> Iterator[tuple[str, str]]:
    yield "network", front.network.name
    yield "hardware", parameters.hardware_words(front.hardware, parameters.mapping_words(front.options))
    against = "" if front.against == "arrays" else f" against {front.against} in {front.against_unit}"
    yield "objective", f"{front.objective} in {front.unit}{against}, up to {front.budget} arrays"
    yield "points", f"{len(front.points)}, {front.proven} of them proven"
    yield "mean gap", f"{front.mean_gap:.2%} from optimal at most"
    yield "search", f"{front.seconds:.2f} s of work on a reference core"
    yield from parameters.coverage_line(front)
