"""Tokens a second of decoders, whose next input needs this one's output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from pages import SEARCHED, Study, markdown

import rramalloc
from rramalloc.network.network import Network

WIDTH, BLOCKS = 768, 12  # GPT-2 small
CACHED = (128, 1024)
SEQUENCES = (1, 4, 16, 64)
BUDGETS = ("x1", "x2")
NS_PER_PIXEL = 1000.0  # of the products with cached keys and values of a token


@dataclass(frozen=True)
class Row:
    """One token at a time: what it takes, and the tokens a second of all sequences that take turns."""

    cached: int
    sequences: int
    budget: str
    arrays: int
    latency_us: float
    interval_us: float
    tokens_per_s: float
    as_if_streamed_per_s: float


def decoder(cached: int) -> dict[str, object]:
    """Return the network of one token: `BLOCKS` blocks, products with `cached` keys and values."""
    nodes: list[dict[str, object]] = [{"name": "token", "op": "input", "shape": [WIDTH, 1, 1]}]
    last = "token"
    for block in range(BLOCKS):
        layers = (("qkv", 3 * WIDTH), ("products", 0), ("proj", WIDTH), ("mlp1", 4 * WIDTH), ("mlp2", WIDTH))
        for layer, features in layers:
            name = f"b{block}_{layer}"
            node: dict[str, object] = {"name": name, "inputs": [last]}
            if features:
                node |= {"op": "linear", "out_features": features}
            else:
                node |= {"op": "select", "channels": WIDTH, "dynamic_macs": 2 * WIDTH * cached}
            nodes.append(node)
            last = name
    return {"format": "rramalloc-network/1", "name": f"decoder{cached}", "nodes": nodes, "feeds_back": True}


def hardware(cached: int) -> dict[str, object]:
    """Return arrays of 256 x 256 that take 100 ns, and digital products in proportion to what is cached."""
    document = rramalloc.load_hardware("plain").with_crossbar(256, 256).to_dict()
    rates = {"select": NS_PER_PIXEL * cached / CACHED[-1]}
    return document | {
        "timing": {"clock": "own", "tick_ns": 10.0, "step_ns": 100.0},
        "digital": {"ns_per_pixel": rates},
    }


def run(cached: int, sequences: int, budget: str) -> list[Row]:
    """Time a token where the next one needs it, and as if all tokens were known."""
    network = Network.from_document(decoder(cached), "decoder")
    machine = hardware(cached)
    fed_back = rramalloc.optimize(
        network, budget, hardware=machine, fc="crossbar", sequences=sequences, progress=False
    )
    streamed = rramalloc.optimize(
        network, budget, hardware=machine, fc="crossbar", feeds_back=False, progress=False
    )
    unit_us = 0.01  # a tick
    return [
        Row(
            cached, sequences, budget, fed_back.arrays.used, round(fed_back.makespan * unit_us, 3),
            round(fed_back.interval * unit_us, 3), round(fed_back.throughput_per_s or 0.0, 1),
            round(streamed.throughput_per_s or 0.0, 1),
        )
    ]  # fmt: skip


def answer(rows: Sequence[Row]) -> str:
    """Return what a stream of known tokens would claim of one conversation."""
    one = [row for row in rows if row.sequences == 1]
    claimed = max(row.as_if_streamed_per_s / row.tokens_per_s for row in one)
    fastest = {row.budget: row.tokens_per_s for row in sorted(one, key=lambda row: row.tokens_per_s)}
    copies = fastest.get("x2", fastest["x1"]) / fastest["x1"]
    return (
        f"**One conversation gets up to {claimed:.0f} times fewer tokens a second than the interval of a "
        f"stream says**; twice the arrays change that by {copies - 1:.0%}."
    )


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what is decoded, and the table."""
    yield (
        f"A decoder of {BLOCKS} blocks of width {WIDTH} (GPT-2 small) on arrays of 256 x 256 that take 100 "
        f"ns, one token at a time. The products with {CACHED[-1]} cached keys and values take "
        f"{NS_PER_PIXEL:g} ns a layer on digital units, with fewer in proportion. Sequences: conversations "
        "that take turns. As a stream: the interval if no token needed the one before."
    )
    yield ""
    table = [
        ["cached", "sequences", "arrays", "latency, us", "interval, us", "tokens/s", "as a stream, tokens/s"]
    ]
    for row in rows:
        times = [f"{row.latency_us:.2f}", f"{row.interval_us:.3f}"]
        tokens = [f"{row.tokens_per_s:,.0f}", f"{row.as_if_streamed_per_s:,.0f}"]
        table.append([str(row.cached), str(row.sequences), f"{row.arrays:,} ({row.budget})", *times, *tokens])
    yield from markdown(table)


STUDY = Study(
    title="Decoding",
    question="How many tokens a second does a decoder give whose next token needs this one?",
    row=Row,
    cases=list(product(CACHED, SEQUENCES, BUDGETS)),
    measure=run,
    answer=answer,
    body=body,
    decided_by=SEARCHED,
)
