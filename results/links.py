"""What links between tiles add to latency and interval: places after copies, or both chosen together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from pages import SEARCHED, Study, markdown
from placement import hardware

import rramalloc

NETWORKS = (
    *(("resnet18", "own", "x1.1"), ("alexnet", "own", "x2"), ("inception_v1", "own", "x2")),
    *(("alexnet", "isaac", "x2"), ("squeezenet", "isaac", "x2"), ("shufflenet", "isaac", "x2")),
)
GB_S = (1.0, 4.0, 16.0)


@dataclass(frozen=True)
class Row:
    """Latency and interval with transfers to those without, for links of `gb_s`.

    placed, placed_interval: with places after copies; together: latency of `--placed`.
    """

    network: str
    hardware: str
    budget: str
    gb_s: float
    alone_us: float
    placed: float
    placed_interval: float
    together: float


def run(network: str, name: str, budget: str, gb_s: float) -> list[Row]:
    """Allocate without transfers and place, then allocate with them."""
    machine = hardware(name, timed=True).with_values({"chip.bandwidth_tile_gb_s": gb_s})
    allocation = rramalloc.optimize(network, budget, hardware=machine, work=4, progress=False)
    placement = rramalloc.place(network, allocation, hardware=machine)
    together = rramalloc.optimize(network, budget, hardware=machine, work=4, placed=True, progress=False)
    alone_ns = placement.latency_ns_alone or 0.0
    interval_ns = placement.interval_ns_alone
    factors = [
        with_links / alone
        for with_links, alone in (
            (placement.latency_ns, alone_ns),
            (placement.interval_ns, interval_ns),
            (together.latency_ns, alone_ns),
        )
        if with_links is not None and alone is not None
    ]
    return [Row(network, name, budget, gb_s, alone_ns / 1000, *(round(factor, 4) for factor in factors))]


def answer(rows: Sequence[Row]) -> str:
    """Return in how many cases links cost nothing, for each speed."""
    parts = []
    for gb_s in GB_S:
        chosen = [row for row in rows if row.gb_s == gb_s]
        hidden = [sum(getattr(row, name) <= 1 for row in chosen) for name in ("placed", "together")]
        parts.append(f"{hidden[0]} and {hidden[1]} of {len(chosen)} at {gb_s:g} GB/s")
    return (
        "**Transfers cost no latency with places after copies, and with both chosen together, in "
        f"{', '.join(parts)}**."
    )


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table."""
    yield (
        "Copies by `optimize --work 4` without transfers, then `place`; together: `optimize --placed --work "
        "4`. own: 8 x 8 tiles of 16 arrays, 400 ns a step, hops of 2 ns; isaac: hops of 1 ns. All factors "
        "are to the latency, or the interval, of the first copies without transfers."
    )
    yield ""
    table = [["network", "hardware", "GB/s", "alone, us", "latency", "interval", "latency together"]]
    for row in rows:
        factors = [f"x{factor:.2f}" for factor in (row.placed, row.placed_interval, row.together)]
        name = f"{row.network} {row.budget}"
        table.append([name, row.hardware, f"{row.gb_s:g}", f"{row.alone_us:,.1f}", *factors])
    yield from markdown(table)


STUDY = Study(
    title="Links",
    question="What do links between tiles add to latency and interval?",
    row=Row,
    cases=[(*case, gb_s) for case, gb_s in product(NETWORKS, GB_S)],
    measure=run,
    answer=answer,
    body=body,
    decided_by=(*SEARCHED, "commands/place"),
)
