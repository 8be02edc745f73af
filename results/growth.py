"""How the search grows with the network: generated networks of 10 to 10,000 stages, 1,000 arrays for each.

Writes results/growth.md and results/growth.svg:  python results/growth.py [--stages 10 ...]
Needs the extra `bench`.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pages
from measured import RESULTS, in_own_process, peak_mb

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
ANSWER_S, ANSWER_MB, LARGEST_S = 10.0, 1024.0, 60.0
"""Goals: time and memory with 1,000 stages, time with 10,000."""
PROCESS_LIMIT_S = 1800.0
PAGE, FIGURE = RESULTS / "growth.md", RESULTS / "growth.svg"
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


def draw(rows: list[Row]) -> None:
    """Time and memory against stages, and the goals."""
    stages = Axis(
        "stages", min(row.stages for row in rows) / 1.2, max(row.stages for row in rows) * 1.2, "log"
    )
    goal = Key("goal, at most", "#000000", "triangle-down")
    first = {kind: Key(f"{kind}, first answer", key.colour, key.shape) for kind, key in SERIES.items()}
    panels = []
    drawn: tuple[tuple[str, tuple[str, ...], dict[str, list[float]]], ...] = (
        ("seconds", ("seconds", "first_s"), {"stages": [1000, 10000], "value": [ANSWER_S, LARGEST_S]}),
        ("peak memory [MB]", ("peak_mb",), {"stages": [1000], "value": [ANSWER_MB]}),
    )
    for what, fields, goals_at in drawn:
        layers = []
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
        layers.append(
            Marks({"type": "point", "size": 90}, goals_at, {"x": "stages", "y": "value", "shape": {}}, goal)
        )
        values = [value for layer in layers for value in layer.data["value"]]
        panels.append(
            Panel(stages, Axis(what, min(values) / 1.5, max(values) * 1.5, "log"), 200, tuple(layers))
        )
    Chart("Growth", tuple(panels), "Seconds and memory against stages.").save(FIGURE)


def goals(rows: list[Row]) -> list[list[str]]:
    """What, measured, goal."""
    lines = [["what", "measured", "goal"]]
    for row in rows:
        if row.stages == 1000:
            what, answer = f"{row.kind}, 1,000 stages, 10^6 arrays", f"with the bound {row.lower_bound}"
            lines.append([f"{what}: answer {answer}", f"{row.seconds:.1f} s", f"at most {ANSWER_S:.0f} s"])
            lines.append([f"{what}: peak memory", f"{row.peak_mb:.0f} MB", f"at most {ANSWER_MB:.0f} MB"])
        if row.stages == 10000:
            what = f"{row.kind}, 10,000 stages, 10^7 arrays: answer"
            lines.append([what, f"{row.seconds:.1f} s", f"at most {LARGEST_S:.0f} s"])
    return lines


NOTES = f"""\
Generated networks: chains of convolutions of varying kernel and width, and residual networks of blocks of two
with an addition around them. Each quarter of a network halves the grid and has twice the channels. Budget:
{ARRAYS_PER_STAGE} arrays of 128 x 128 for each stage; default work. Each run is a process of its own, after
runs that are not counted. x min: budget over the minimum; build s: to build and check the network, not in the
times of the search; first s: to the first answer; s: to the end, where the answer has its bound; MB: peak
memory of the whole process."""


def write_page(rows: list[Row]) -> None:
    """Write results/growth.md and its figure."""
    table = [
        ["network", "stages", "arrays", "x min", "makespan", "bound", "gap", "build s", "first s", "s", "MB"]
    ]
    for row in rows:
        times = [pages.seconds_text(value) for value in (row.read_s, row.first_s, row.seconds)]
        table.append(
            [
                row.kind, str(row.stages), str(row.arrays), f"{row.arrays / row.minimum:.1f}",
                str(row.makespan), str(row.lower_bound), f"{row.gap:.1%}", *times, f"{row.peak_mb:.0f}",
            ]
        )  # fmt: skip
    lines = ["# Growth", "", NOTES, "", "Regenerate with `python results/growth.py`.", ""]
    lines += [*pages.markdown(goals(rows)), f"![seconds and memory against stages]({FIGURE.name})", ""]
    lines += pages.markdown(table)
    PAGE.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    draw(rows)


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description="Measure the growth and write results/growth.*")
    parser.add_argument("--stages", nargs="+", type=int, default=STAGES)
    parser.add_argument("--one", type=json.loads, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one is not None:
        print(json.dumps(measure(**chosen.one)))
        return
    rows = []
    smallest = {"kind": "chain", "stages": min(chosen.stages)}
    in_own_process(__file__, smallest, PROCESS_LIMIT_S)  # compiles what changed, which takes memory
    for kind in SERIES:
        for stages in chosen.stages:
            case = {"kind": kind, "stages": stages}
            row = Row(**case, **in_own_process(__file__, case, PROCESS_LIMIT_S))
            rows.append(row)
            print(
                f"{kind} {stages}: {row.makespan} >= {row.lower_bound}, first {row.first_s:.2f} s, "
                f"end {row.seconds:.2f} s, {row.peak_mb:.0f} MB",
                flush=True,
            )
    write_page(rows)


if __name__ == "__main__":
    main()
