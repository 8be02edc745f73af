"""MLPerf Tiny and GPT-2 small on arrays of three sizes: fewest arrays, latency and its bound, interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from pages import SEARCHED, Study, markdown

import rramalloc

NETWORKS = ("resnet8", "ds_cnn", "mobilenet_v1_025", "autoencoder", "gpt2_small")
LINES, FACTORS = (128, 256, 512), (1, 2, 4)
"""Wordlines and bitlines of an array, and budgets as multiples of the fewest arrays."""


@dataclass(frozen=True)
class Row:
    """One allocation. minimum: fewest arrays; used: of the budget; makespan, lower_bound, interval: steps."""

    network: str
    lines: int
    factor: int
    minimum: int
    used: int
    makespan: int
    lower_bound: int
    interval: int

    @property
    def gap(self) -> float:
        return 1 - self.lower_bound / self.makespan


def run(network: str, lines: int, factor: int) -> list[Row]:
    """Search with the default work."""
    found = rramalloc.optimize(network, f"x{factor}", crossbar=f"{lines}x{lines}")
    minimum = rramalloc.inspect(network, crossbar=f"{lines}x{lines}").minimum
    row = Row(
        network, lines, factor, minimum, found.arrays.used, found.makespan, round(found.lower_bound),
        found.interval,
    )  # fmt: skip
    return [row]


def answer(rows: Sequence[Row]) -> str:
    """Return how many allocations are proven, and the largest gap."""
    proven = sum(row.gap == 0 for row in rows)
    return (
        f"**{proven} of {len(rows)} allocations are proven the fastest**, the others are at most "
        f"{max(row.gap for row in rows):.1%} from their bound."
    )


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what is allocated, and the table."""
    yield from (
        "Plain cells, one a weight; classifiers on one pixel and GPT-2's head are on the host, all layers of",
        "the autoencoder, which has no others, on arrays. GPT-2 small is the prefill of 1,024 tokens. Steps",
        "with the fewest arrays, twice and four times as many, and how far from the bound; interval of x1.",
        "",
    )
    budgets = [f"x{factor}" for factor in FACTORS]
    table = [["network", "lines", "fewest arrays", *budgets, "interval"]]
    for network, lines in dict.fromkeys((row.network, row.lines) for row in rows):
        own = {row.factor: row for row in rows if (row.network, row.lines) == (network, lines)}
        first = next(iter(own.values()))
        steps = [shown(own[factor]) if factor in own else "-" for factor in FACTORS]
        table.append([network, str(lines), f"{first.minimum:,}", *steps, f"{first.interval:,}"])
    yield from markdown(table)


def shown(row: Row) -> str:
    """Makespan with its gap."""
    return f"{row.makespan:,} ({'optimal' if row.gap == 0 else f'{row.gap:.1%}'})"


STUDY = Study(
    title="MLPerf Tiny and GPT-2 small",
    question="How many arrays do small networks and a language model need, and how fast are they then?",
    row=Row,
    cases=list(product(NETWORKS, LINES, FACTORS)),
    measure=run,
    answer=answer,
    body=body,
    decided_by=SEARCHED,
)
