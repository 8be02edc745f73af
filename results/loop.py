"""A loop over generated networks, as an architecture search calls `optimize`: time, its parts, and gaps.

Every network is a dict of network JSON, as a generator makes it; work 2, in one process.
"""

from __future__ import annotations

import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from growth import Nodes, conv
from pages import SEARCHED, Study, markdown

import rramalloc
from rramalloc.allocation import optimize as pipeline
from rramalloc.allocation.case import Case
from rramalloc.timing.stage_graph import StageGraph

NETWORKS = 300
WORK = 2
FACTORS = (1.5, 2.0, 4.0, 8.0)
"""Budgets as multiples of the fewest arrays."""
SIDES, CHANNELS = (32, 48, 64), (16, 24, 32, 64)
BLOCKS = ("plain", "residual", "inverted", "split")
PARTS = ("reading", "tracing", "building", "search", "checking")
"""Of a call: the network of a dict; stages and dependencies; the problem; the search; all else."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One call: processor time of all of it, and of its parts."""

    number: int
    blocks: str
    stages: int
    factor: float
    makespan: int
    lower_bound: int
    reading_s: float
    tracing_s: float
    building_s: float
    search_s: float
    checking_s: float

    @property
    def gap(self) -> float:
        return 1 - self.lower_bound / self.makespan

    @property
    def seconds(self) -> float:
        return self.reading_s + self.tracing_s + self.building_s + self.search_s + self.checking_s


def generated(number: int) -> tuple[dict[str, Any], str, float]:
    """Return a network of 6 to 40 convolutions, the kind of its blocks, and a budget."""
    draw = random.Random(f"loop {number}")
    kind, side, channels = draw.choice(BLOCKS), draw.choice(SIDES), draw.choice(CHANNELS)
    nodes: Nodes = [{"name": "input", "op": "input", "shape": [3, side, side]}]
    last = conv(nodes, "input", channels, 3, 1)
    for stage in range(draw.randint(2, 3)):
        channels *= 2 if stage else 1
        last = conv(nodes, last, channels, draw.choice((1, 3)), 2 if stage else 1)
        for _ in range(draw.randint(1, 4)):
            last = block(nodes, last, kind, channels, draw)
    document = {"format": "rramalloc-network/1", "name": f"{kind} {number}", "nodes": nodes}
    return document, kind, draw.choice(FACTORS)


def block(nodes: Nodes, before: str, kind: str, channels: int, draw: random.Random) -> str:
    """Append a block that keeps grid and channels; return the name of its last node."""
    kernel, name = draw.choice((1, 3, 5)), f"merge{len(nodes)}"
    if kind == "plain":
        return conv(nodes, before, channels, kernel, 1)
    if kind == "split":
        half = [conv(nodes, before, channels // 2, side, 1) for side in (1, kernel)]
        nodes.append({"name": name, "op": "concat", "inputs": half})
        return name
    wide = channels * (draw.choice((2, 4)) if kind == "inverted" else 1)
    inner = conv(nodes, before, wide, 1 if kind == "inverted" else kernel, 1)
    outer = conv(nodes, inner, channels, kernel, 1)
    nodes.append({"name": name, "op": "add", "inputs": [before, outer]})
    return name


class Watch:
    """Processor time of parts of a call, each without what is measured within it."""

    def __init__(self) -> None:
        self.spent_s = defaultdict[str, float](float)
        self._running = ["checking"]
        self._since_s = time.process_time()

    def _turn(self) -> None:
        now_s = time.process_time()
        self.spent_s[self._running[-1]] += now_s - self._since_s
        self._since_s = now_s

    def around(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a call whose time counts as that of a part."""

        def timed(*given: Any, **options: Any) -> Any:
            self._turn()
            self._running.append(part)
            try:
                return call(*given, **options)
            finally:
                self._turn()
                self._running.pop()

        return timed

    def stop(self) -> None:
        """Count what has run until now."""
        self._turn()


def run(first: int, last: int) -> list[Row]:
    """Ask for the networks of a range, in one process, after calls that are not counted."""
    for number in range(NETWORKS, NETWORKS + len(BLOCKS) * 4):
        document, _, factor = generated(number)
        rramalloc.optimize(document, f"x{factor:g}", work=WORK)
    return [measured(number) for number in range(first, last)]


def measured(number: int) -> Row:
    """Ask for one network."""
    document, kind, factor = generated(number)
    with ExitStack() as stack:
        watch = Watch()
        for owner, name, part in (
            (Case, "of", "reading"),
            (StageGraph, "build", "tracing"),
            (Case, "problem", "building"),
            (pipeline, "propose", "search"),
        ):
            stack.enter_context(patch.object(owner, name, watch.around(part, getattr(owner, name))))
        found = rramalloc.optimize(document, f"x{factor:g}", work=WORK)
        watch.stop()
    return Row(
        number=number,
        blocks=kind,
        stages=len(found.layers),
        factor=factor,
        makespan=found.makespan,
        lower_bound=round(found.lower_bound),
        **{f"{part}_s": round(watch.spent_s[part], 6) for part in PARTS},
    )


def percentile(values: Sequence[float], part: float) -> float:
    """Return the value below which this part of all lies."""
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def answer(rows: Sequence[Row]) -> str:
    """Return the median time of a network."""
    seconds = [row.seconds for row in rows]
    outside = 1 - sum(row.search_s for row in rows) / sum(seconds)
    gaps = [row.gap for row in rows]
    return (
        f"**{statistics.median(seconds):.3f} s of a core a network in the median**, "
        f"{percentile(seconds, 0.95):.3f} s at most in 95 of 100; {outside:.0%} of it is outside the search; "
        f"gaps: median {statistics.median(gaps):.1%}, largest {max(gaps):.1%}, "
        f"{sum(gap == 0 for gap in gaps)} of {len(rows)} proven."
    )


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what is generated, and tables by blocks and by parts."""
    stages = [row.stages for row in rows]
    yield (
        f"{NETWORKS} networks of {min(stages)} to {max(stages)} layers on grids of 32 to 64 pixels: chains, "
        "residual blocks, inverted residual blocks and split branches; arrays of 128 x 128, 1.5 to 8 times "
        "the fewest. Each is a dict that `rramalloc.optimize` is called with, with "
        f"`work={WORK}`, in one process that has run before. Processor time of all threads, in ms."
    )
    yield ""
    table = [
        ["networks", "number", "median", "95 of 100", *PARTS, "outside", "gap: median", "largest", "proven"]
    ]
    for name in (*BLOCKS, "all"):
        own = [row for row in rows if name in (row.blocks, "all")]
        if not own:
            continue
        total = sum(row.seconds for row in own)
        each = [statistics.median(getattr(row, f"{part}_s") for row in own) for part in PARTS]
        seconds, gaps = [row.seconds for row in own], [row.gap for row in own]
        times = [statistics.median(seconds), percentile(seconds, 0.95), *each]
        table.append(
            [
                name,
                str(len(own)),
                *(f"{1000 * value:.1f}" for value in times),
                f"{1 - sum(row.search_s for row in own) / total:.0%}",
                f"{statistics.median(gaps):.1%}",
                f"{max(gaps):.1%}",
                str(sum(gap == 0 for gap in gaps)),
            ]
        )
    yield from markdown(table)
    yield "Parts of a call are medians; outside is all but the search, in total."


STUDY = Study(
    title="A loop over networks",
    question="How long does a network take, and in which part of a call, where a program asks for hundreds?",
    row=Row,
    cases=[(0, NETWORKS)],
    measure=run,
    answer=answer,
    body=body,
    decided_by=SEARCHED,
    alone=True,
)
