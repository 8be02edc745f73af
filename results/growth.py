"""How the search grows with the network: generated networks of 10 to 10,000 stages, 1,000 arrays for each."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from measured import in_own_process, peak_mb
from pages import SEARCHED, Study, markdown, seconds_text

from rramalloc.chart import BLUE, RED, Axis, Chart, Key, Marks, Panel

if TYPE_CHECKING:
    from rramalloc.network.network import Network

STAGES = (10, 30, 100, 300, 1000, 3000, 10000)
ARRAYS_PER_STAGE = 1000
GRIDS, CHANNELS = (64, 32, 16, 8), (128, 256, 512, 1024)
"""Side of the output and output channels of each quarter of a network."""
SERIES = {
    "chain": Key("chain", BLUE, "circle"),
    "residual": Key("residual", RED, "diamond"),
}
PROCESS_LIMIT_S = 1800.0
FIGURE = "growth.svg"
Nodes = list[dict[str, Any]]


def generated(kind: str, stages: int) -> Network:
    """A network of so many convolutions, each quarter on a coarser grid and with more channels."""
    from rramalloc.network.network import Network

    nodes: Nodes = [{"name": "input", "op": "input", "shape": [3, 2 * GRIDS[0], 2 * GRIDS[0]]}]
    draw = random.Random(f"{kind} {stages}")
    done = 0
    for quarter, channels in enumerate(CHANNELS, start=1):
        count = stages * quarter // len(CHANNELS) - done
        (chain if kind == "chain" else residual)(nodes, draw, count, channels)
        done += count
    return Network.build(f"{kind}_{stages}", nodes, source="generated")


def conv(nodes: Nodes, before: str, channels: int, kernel: int, stride: int) -> str:
    """Append a convolution that keeps the grid or halves it; its name."""
    name = f"conv{len(nodes)}"
    nodes.append(
        {
            "name": name, "op": "conv", "inputs": [before], "out_channels": channels, "kernel": kernel,
            "stride": stride, "pads": kernel // 2,
        }
    )  # fmt: skip
    return name


def chain(nodes: Nodes, draw: random.Random, count: int, channels: int) -> None:
    """Convolutions of varying kernel and width, one after the other."""
    for index in range(count):
        width = int(channels * draw.choice((0.5, 0.75, 1, 1.25)))
        kernel = 3 if index == 0 else draw.choice((1, 3, 3))
        conv(nodes, nodes[-1]["name"], width, kernel, 2 if index == 0 else 1)


def residual(nodes: Nodes, draw: random.Random, count: int, channels: int) -> None:
    """A convolution that halves the grid, then blocks of two with an addition around them."""
    conv(nodes, nodes[-1]["name"], channels, 3, 2)
    for _ in range((count - 1) // 2):
        shortcut = nodes[-1]["name"]
        inner = conv(
            nodes, shortcut, int(channels * draw.choice((0.25, 0.5, 0.75, 1))), draw.choice((1, 3)), 1
        )
        outer = conv(nodes, inner, channels, 3, 1)
        nodes.append({"name": f"add{len(nodes)}", "op": "add", "inputs": [shortcut, outer]})
    if count % 2 == 0:
        conv(nodes, nodes[-1]["name"], channels, 1, 1)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run: seconds to build the network, to the first answer and to the end of the default work."""

    kind: str
    stages: int
    arrays: int
    minimum: int
    makespan: int
    lower_bound: int
    gap: float
    read_s: float
    first_s: float
    seconds: float
    peak_mb: float


def measure(kind: str, stages: int) -> dict[str, Any]:
    """Run one case in this process, after runs that are not counted."""
    from rramalloc.api import optimize

    for few, arrays in (("alexnet", 193), ("squeezenet", 216)):
        optimize(few, arrays, work=10)
    begun = time.perf_counter()
    network = generated(kind, stages)
    read_s = time.perf_counter() - begun
    reports: list[float] = []
    begun = time.perf_counter()
    found = optimize(
        network, ARRAYS_PER_STAGE * stages, on_progress=lambda *_: reports.append(time.perf_counter() - begun)
    )
    seconds = time.perf_counter() - begun
    assert len(found.layers) == stages
    return {
        "arrays": found.arrays.budget, "minimum": found.arrays.minimum, "makespan": found.makespan,
        "lower_bound": found.lower_bound, "gap": found.gap, "read_s": read_s,
        "first_s": reports[0] if reports else seconds, "seconds": seconds, "peak_mb": peak_mb(),
    }  # fmt: skip


def run(kind: str, stages: int) -> list[Row]:
    """Run a case in a process of its own."""
    case = {"kind": kind, "stages": stages}
    return [Row(**case, **in_own_process(measure, case, PROCESS_LIMIT_S))]  # type: ignore[arg-type]


def figures(rows: Sequence[Row]) -> Mapping[str, Chart]:
    """Draw time and memory against stages."""
    stages = Axis(
        "stages", min(row.stages for row in rows) / 1.2, max(row.stages for row in rows) * 1.2, "log"
    )
    first = {
        kind: Key(f"{kind}, first answer: dashed, open", key.colour, key.shape)
        for kind, key in SERIES.items()
    }
    panels = []
    for what, fields in (("seconds", ("seconds", "first_s")), ("peak memory [MB]", ("peak_mb",))):
        layers: list[Marks] = []
        for kind, key in SERIES.items():
            part = [row for row in rows if row.kind == kind]
            for field in fields:
                data = {
                    "stages": [row.stages for row in part],
                    "value": [getattr(row, field) for row in part],
                }
                early = field == "first_s"
                shown = first[kind] if early else key
                line = {"type": "line", "strokeDash": [5, 4] if early else [1, 0]}
                points = {"type": "point", "filled": not early, "size": 45, "opacity": 1}
                at = {"x": "stages", "y": "value"}
                layers += [Marks(line, data, at, shown), Marks(points, data, at | {"shape": {}}, shown)]
        values = [value for layer in layers for value in layer.data["value"]]
        panels.append(
            Panel(stages, Axis(what, min(values) / 1.5, max(values) * 1.5, "log"), 200, tuple(layers))
        )
    return {FIGURE: Chart("Growth", tuple(panels), "Seconds and memory against stages.")}


NOTES = f"""\
Generated networks: chains of convolutions of varying kernel and width, and residual networks of blocks of two
with an addition around them. Each quarter of a network halves the grid and has twice the channels. Budget:
{ARRAYS_PER_STAGE} arrays of 128 x 128 for each stage; default work. Each run is a process of its own, after
runs that are not counted. x min: budget over the minimum; build s: to build and check the network, not in the
times of the search; first s: to the first answer; s: to the end, where the answer has its bound; MB: peak
memory of the whole process."""


def answer(rows: Sequence[Row]) -> str:
    """Return the time of the largest network."""
    largest = max(rows, key=lambda row: (row.stages, row.seconds))
    return (
        f"**A network of {largest.stages:,} stages takes {largest.seconds:.0f} s and {largest.peak_mb:.0f} "
        f"MB** with a "
        f"gap of {largest.gap:.0%}, its first answer {seconds_text(largest.first_s)} s."
    )


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what is generated, the figure and the table."""
    yield from (NOTES, "", f"![seconds and memory against stages]({FIGURE})", "")
    table = [
        ["network", "stages", "arrays", "x min", "makespan", "bound", "gap", "build s", "first s", "s", "MB"]
    ]
    for row in rows:
        times = [seconds_text(value) for value in (row.read_s, row.first_s, row.seconds)]
        table.append(
            [
                row.kind, str(row.stages), str(row.arrays), f"{row.arrays / row.minimum:.1f}",
                str(row.makespan), str(row.lower_bound), f"{row.gap:.1%}", *times, f"{row.peak_mb:.0f}",
            ]
        )  # fmt: skip
    yield from markdown(table)


STUDY = Study(
    title="Growth",
    question="How do time, memory and gap grow with the size of the network?",
    row=Row,
    cases=list(product(SERIES, STAGES)),
    measure=run,
    answer=answer,
    body=body,
    decided_by=SEARCHED,
    figures=figures,
    alone=True,
)
