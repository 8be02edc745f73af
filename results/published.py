"""The published figures of docs/sources/model.md 9 against the least published recurrence, exactly timed as
well.

Writes results/published.md:  python results/published.py
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rramalloc.allocation.case import Case
from rramalloc.api import optimize
from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.mapping.demand import Storage
from rramalloc.methods import published_recurrence as method
from rramalloc.network.network import Network
from rramalloc.search.problem import Problem
from rramalloc.search.work import SECONDS_PER_WORK, Work
from rramalloc.timing.published import chain_layers, published
from rramalloc.timing.simulate import Copies, simulate
from rramalloc.timing.stage_graph import StageGraph

RESULT = Path(__file__).resolve().parent / "published.md"
SHORT, RUNS = 20, 3
"""Work of the timed runs, and how many of them there are."""
PROVEN = "the fewest there are"


@dataclass(frozen=True)
class Entry:
    """A published figure: steps by the published method, by proportional copies, its run time."""

    label: str
    network: str
    arrays: int
    lines: int
    steps: int | None
    proportional: int | None
    run_time: str = ""
    shortcuts: bool = False


ENTRIES = (
    Entry("AlexNet", "alexnet_todaes", 1024, 128, 113, 117),
    Entry("AlexNet", "alexnet_todaes", 2048, 128, 49, 49, "11 s"),
    Entry("VGG-A", "vgg11", 2048, 128, 329, 330, "17 s"),
    Entry("VGG-A", "vgg11", 4096, 128, 162, 245),
    Entry("VGG-E", "vgg19", 4096, 128, None, None, "257 s"),
    Entry("VGG-E", "vgg19", 4096, 256, 201, 295),
    Entry("VGG-E", "vgg19", 8192, 128, 280, 318),
    Entry("VGG-E", "vgg19", 8192, 256, 112, 112, "1 h"),
    Entry("ResNet-18, main path", "resnet18", 4096, 128, 79, 101),
    Entry("ResNet-18, with shortcuts", "resnet18", 4096, 128, 79, 101, "", True),
    Entry("ResNet-18, main path", "resnet18", 8192, 128, None, None, "2 h"),
    Entry("ResNet-18, with shortcuts", "resnet18", 8192, 128, None, None, "2 h", True),
)
ALLOCATIONS = (
    ("AlexNet", "alexnet_todaes", 2304, (106, 21, 7, 6, 6)),
    ("VGG-A", "vgg11", 2304, (200, 50, 13, 13, 4, 4, 1, 1)),
)
NOTES = """\
P, W: published steps by the published method and by copies proportional to the windows
(docs/sources/model.md 9),
"in": run time of the published method. "ours": the least published recurrence that `--method published`
finds in {seconds:g} s of counted work, in bold where it is not above P, with the median wall-clock seconds of
{runs} runs. "fewest": what no allocation within the budget undercuts in that model, with the seconds of a run
with the default work. "same", "next": exact makespan of our allocation with either handoff. "auto": best
exact makespan with the default handoff, in brackets where it is not proven.

ResNet-18 is no chain. "main path" leaves out the additions and the three 1 x 1 convolutions of the shortcuts,
whose arrays are not counted; it is this chain that is timed exactly. "with shortcuts" counts them: each has
the copies of the first convolution of its block, whose grid it shares, and "same" and "next" are of the whole
ResNet-18. "auto" is the whole ResNet-18 in both."""


def main_path(network: Network) -> Network:
    """ResNet-18 without shortcuts: a chain."""
    nodes: list[dict[str, Any]] = []
    for node in network.to_dict()["nodes"]:
        if ".downsample" in node["name"] or node["op"] == "add":
            continue
        nodes.append(node | {"inputs": [nodes[-1]["name"]]} if nodes else node)
    return Network.build(network.name, nodes, source=network.source)


def problem_of(entry: Entry) -> tuple[Problem, Network]:
    """The chain to be searched, and the network to be timed exactly."""
    whole = load(entry.network)
    hardware = load_hardware("plain").with_crossbar(entry.lines, entry.lines)
    chain = main_path(whole) if entry.network == "resnet18" else whole
    problem = Case(chain, hardware).problem(entry.arrays)
    if not entry.shortcuts:
        return problem, chain
    source = Case(whole, hardware).problem(entry.arrays)
    demand = dict.fromkeys(problem.graph.names, 0)
    for name, each in zip(source.graph.names, source.demand.tolist(), strict=True):
        demand[beside(name)] += each
    counted = np.array([demand[name] for name in problem.graph.names], dtype=np.int64)
    return Problem(problem.graph, counted, entry.arrays, Storage.of_copies(counted)), whole


def beside(name: str) -> str:
    """The convolution of the main path whose copies a stage has."""
    return name.replace("downsample.0", "conv1")


def steps_of(problem: Problem, copies: Copies) -> int:
    """Steps by the published recurrence."""
    return published(chain_layers(problem.graph.network), copies.tolist()).steps


def exact(problem: Problem, network: Network, copies: Copies) -> tuple[int, int]:
    """Makespan with handoff "same" and "next"."""
    by_name = dict(zip(problem.graph.names, copies.tolist(), strict=True))
    graph = StageGraph.build(network)
    row = [by_name[beside(name)] for name in graph.names]
    return simulate(graph, row, "same").makespan, simulate(graph, row, "next").makespan


def timed(problem: Problem, work: int, runs: int) -> tuple[Copies, str, float]:
    """Allocation, words of the method and median seconds."""
    seconds = []
    for _ in range(runs):
        begun = time.perf_counter()
        candidate = method.solve(problem, Work(work=work), 0)
        seconds.append(time.perf_counter() - begun)
    return candidate.choice.copies, candidate.proof, statistics.median(seconds)


def arrays_for(entry: Entry, steps: int) -> str:
    """Fewest arrays with which the recurrence comes down to that many steps."""
    problem, _ = problem_of(entry)
    low, high, proven = entry.arrays, 2 * entry.arrays, True
    while low < high:
        middle = (low + high) // 2
        copies, words, _ = timed(replace(problem, budget=middle), Work().work, 1)
        if steps_of(problem, copies) <= steps:
            high = middle
        else:
            low, proven = middle + 1, proven and PROVEN in words
    return f"{low} arrays, {'proven' if proven else 'or fewer'}"


def row(entry: Entry) -> str:
    problem, network = problem_of(entry)
    copies, _, seconds = timed(problem, SHORT, RUNS)
    steps = steps_of(problem, copies)
    _, words, proof_s = timed(problem, Work().work, 1)
    proven = PROVEN in words
    fewest = words.split()[0] if proven else words.split("no fewer than ")[1].split(":")[0]
    same, following = exact(problem, network, copies)
    auto = optimize(entry.network, entry.arrays, crossbar=f"{entry.lines}x{entry.lines}")
    shown = f"**{steps}**" if entry.steps is None or steps <= entry.steps else str(steps)
    cells = [
        entry.label, entry.arrays, entry.lines, entry.steps or "-", entry.proportional or "-",
        entry.run_time or "-", f"{shown} ({seconds:.2f})",
        f"{fewest if proven else f'>= {fewest}'} ({proof_s:.2f})", same, following,
        auto.makespan if auto.gap == 0 else f"({auto.makespan})",
        " ".join(map(str, copies.tolist())),
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def allocation_row(label: str, name: str, arrays: int, copies: tuple[int, ...]) -> str:
    problem = Case(load(name), load_hardware("plain")).problem(arrays)
    theirs = np.array(copies, dtype=np.int64)
    ours, words, _ = timed(problem, Work().work, 1)
    proven = " (proven)" if PROVEN in words else ""
    cells: list[Any] = [label, arrays]
    for each in (theirs, ours):
        cells += [" ".join(map(str, each.tolist())), steps_of(problem, each)]
        cells += exact(problem, problem.graph.network, each)
    cells[-3] = f"{cells[-3]}{proven}"
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    """Measure and write the page."""
    optimize("alexnet", 400, method="published")
    lines = [
        "# Published figures",
        "",
        NOTES.format(seconds=SHORT * SECONDS_PER_WORK, runs=RUNS),
        "",
        "Regenerate with `python results/published.py`.",
        "",
        "| network | arrays | lines | P | W | in | ours (s) | fewest (s) | same | next | auto | copies |",
        "|" + "---|" * 12,
    ]
    for entry in ENTRIES:
        lines.append(row(entry))
        print(lines[-1], flush=True)
    lines += [
        "",
        "Where P is out of reach of the recurrence as the model states it (section 5), it takes this budget:",
        "",
    ]
    for entry in ENTRIES:
        problem, _ = problem_of(entry)
        if entry.steps is not None and steps_of(problem, timed(problem, SHORT, 1)[0]) > entry.steps:
            lines.append(f"- {entry.label}, {entry.steps} steps: {arrays_for(entry, entry.steps)}")
            print(lines[-1], flush=True)
    lines += [
        "",
        "Published allocations beside ours: published recurrence, exact with handoff same and next.",
        "",
        "| network | arrays | published allocation | steps | same | next | ours | steps | same | next |",
        "|" + "---|" * 10,
    ]
    for item in ALLOCATIONS:
        lines.append(allocation_row(*item))
        print(lines[-1], flush=True)
    RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
