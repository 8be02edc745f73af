"""`rramalloc pareto`: what every number of arrays can buy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from rramalloc.choices import CaseArguments, FrontAgainst, FrontObjective
from rramalloc.cli import complete
from rramalloc.cli.interrupt import end, interruptible
from rramalloc.cli.live_line import LiveLine
from rramalloc.cli.output import coverage_line, hardware_words, mapping_words, print_result, table_of, warn
from rramalloc.cli.parameters import Format, Help, Value, described, passed
from rramalloc.units import duration, share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rramalloc.commands.pareto.pareto_front import ParetoFront

_TABLE = table_of(
    "against=against_value, arrays, kinds, makespan, interval, latency_ns, energy_pj, EDP=edp, area_um2, "
    "value, lower_bound, gap",
    spare="area_um2 edp energy_pj value latency_ns interval gap lower_bound",
)
PARETO: Help = {
    "arrays": ("N", "Most crossbar arrays; x2 is twice the minimum; small=512,large=64 of kinds."),
    "objective": (None, "What is put against arrays."),
    "against": (None, "Another quantity instead of arrays."),
    "work": ("N", "Effort for all points at most, in units of 0.05 s of a core."),
    "baselines": (
        Value("A,B,...", completion=complete.method_lists, plugins="rramalloc.methods"),
        "Methods to put beside the front. Left out: none, quick ones in a figure.",
    ),
}


@described(PARETO, problem="arrays", goal="objective against", search="baselines")
def pareto(
    network: str,
    *,
    arrays: str | None = None,
    objective: FrontObjective = "makespan",
    against: FrontAgainst = "arrays",
    baselines: str | None = None,
    seed: int = 0,
    work: int = 800,
    time_limit_s: float | None = None,
    output_format: Format = "table",
    output: str | None = None,
    figure: str | None = None,
    quiet: bool = False,
    **shared: Unpack[CaseArguments],
) -> None:
    """Find all non-dominated points of arrays and latency up to a budget, each with its bound.

    Example: rramalloc pareto alexnet --arrays 1000 --figure front.svg
    """
    given = locals()
    from rramalloc.commands.pareto.pareto import DEFAULT_BASELINES, progress_words
    from rramalloc.commands.pareto.pareto import pareto as run_pareto
    from rramalloc.search.work import Work

    drawn = figure is not None and against == "arrays" and objective in ("makespan", "interval", "latency_ns")
    given["baselines"] = DEFAULT_BASELINES if drawn else ()
    if baselines is not None:
        given["baselines"] = tuple(name.strip() for name in baselines.split(",") if name.strip())
    stop = Work(work=work, time_limit_s=time_limit_s)
    with LiveLine(quiet=quiet) as line, interruptible(stop):
        front = run_pareto(
            **passed(given, run_pareto),
            stop=stop,
            on_progress=lambda *progress: line.show(progress_words(*progress)),
        )
    if output is not None:
        front.save(output)
    if figure is not None:
        front.plot.front(save=figure)
    print_result(front.to_dict, _TABLE, front.points, output_format, _summary(front), quiet=quiet)
    warn(front.warnings, quiet=quiet)
    end(stop, line, shown="these are the points found so far", quiet=quiet)


def _summary(front: ParetoFront) -> Iterator[tuple[str, str]]:
    yield "network", front.network.name
    yield "hardware", hardware_words(front.hardware, mapping_words(front.options))
    against = "" if front.against == "arrays" else f" against {front.against} in {front.against_unit}"
    yield "objective", f"{front.objective} in {front.unit}{against}, up to {front.budget} arrays"
    yield "points", f"{len(front.points)}, {front.proven} of them proven"
    yield "mean gap", f"{share(front.mean_gap)} from optimal at most"
    yield "search", f"{duration(1e9 * front.work_s)} of work on a reference core"
    yield from coverage_line(front.coverage)
