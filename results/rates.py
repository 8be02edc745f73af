"""What an input costs alone, where inputs follow each other, and where a chip waits for them."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from pages import SEARCHED, Study, markdown

import rramalloc

NETWORKS = ("alexnet", "resnet18", "mobilenet_v2", "squeezenet", "inception_v1", "mobilenet_v1")
PRESETS, BUDGETS = ("isaac", "puma"), ("x1.1", "x4")
RATE_PER_S = 30  # pictures a second of a camera


@dataclass(frozen=True)
class Row:
    """Energies of an input in uJ, powers in mW.

    alone: while it is computed and nothing else; stream: at the interval; waiting: at `RATE_PER_S`.
    """

    network: str
    hardware: str
    budget: str
    arrays: int
    throughput_per_s: float
    tops: float
    tops_per_w: float
    alone_uj: float
    stream_uj: float
    waiting_uj: float
    stream_mw: float
    waiting_mw: float


def run(network: str, preset: str, budget: str) -> list[Row]:
    """Allocate for latency and ask for the energies of an input at both rates."""
    allocation = rramalloc.optimize(network, budget, hardware=preset, work=4, progress=False)
    waiting = rramalloc.simulate(network, allocation, hardware=preset, rate=RATE_PER_S)
    figures = (
        allocation.throughput_per_s,
        allocation.tops,
        allocation.tops_per_w,
        *(
            None if energy is None else energy * 1e-6
            for energy in (
                allocation.energy_pj,
                allocation.stream_energy_pj,
                waiting.stream_energy_pj,
            )
        ),
        allocation.stream_power_mw,
        waiting.stream_power_mw,
    )
    throughput, tops, tops_per_w, alone, stream, slow, stream_mw, waiting_mw = (
        0.0 if figure is None else round(figure, 4) for figure in figures
    )
    return [
        Row(
            network=network, hardware=preset, budget=budget, arrays=allocation.arrays.used,
            throughput_per_s=throughput, tops=tops, tops_per_w=tops_per_w, alone_uj=alone, stream_uj=stream,
            waiting_uj=slow, stream_mw=stream_mw, waiting_mw=waiting_mw,
        )
    ]  # fmt: skip


def answer(rows: Sequence[Row]) -> str:
    """Return what streaming saves of the energy of an input alone, and what waiting costs."""
    saved = statistics.median(1 - row.stream_uj / row.alone_uj for row in rows)
    dearer = statistics.median(row.waiting_uj / row.stream_uj for row in rows)
    return (
        f"**Streaming saves {saved:.0%} of the energy of an input alone (median); asked {RATE_PER_S} times a "
        f"second, an input takes {dearer:,.0f} times as much**, since arrays leak while they wait."
    )


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table."""
    yield (
        "Copies by `optimize --work 4` for latency. Alone: from the first step of an input to its last, with "
        f"the leakage of that time; stream: inputs at the interval; waiting: {RATE_PER_S} inputs a second. "
        "TOPS and TOPS/W are those of the stream, of the weights and inputs of the preset. Links, digital "
        "nodes and products of computed tensors are not counted."
    )
    yield ""
    energies = ["alone, uJ", "stream, uJ", "waiting, uJ"]
    table = [
        [
            "network",
            "hardware",
            "arrays",
            "inputs/s",
            "TOPS",
            "TOPS/W",
            *energies,
            "stream, mW",
            "waiting, mW",
        ]
    ]
    for row in rows:
        speed = [f"{row.throughput_per_s:,.0f}", f"{row.tops:.3g}", f"{row.tops_per_w:.3g}"]
        costs = [f"{energy:,.4g}" for energy in (row.alone_uj, row.stream_uj, row.waiting_uj)]
        powers = [f"{power:,.4g}" for power in (row.stream_mw, row.waiting_mw)]
        name = f"{row.network} {row.budget}"
        table.append([name, row.hardware, f"{row.arrays:,}", *speed, *costs, *powers])
    yield from markdown(table)


STUDY = Study(
    title="Rates of inputs",
    question="What does an input cost alone, in a stream, and on a chip that waits for it?",
    row=Row,
    cases=list(product(NETWORKS, PRESETS, BUDGETS)),
    measure=run,
    answer=answer,
    body=body,
    decided_by=SEARCHED,
)
