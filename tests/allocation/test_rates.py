"""Energy and power of inputs that come one after another, operations a second, and what numbers leave out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from program import run

import rramalloc
from rramalloc.errors import SpecError
from rramalloc.network.network import Network

LAYER = {"op": "conv", "out_channels": 1, "kernel": 1}
CHAIN = Network.build(
    "chain",
    [
        {"name": "in", "op": "input", "shape": [1, 2, 2]},
        {"name": "a", "inputs": ["in"], **LAYER},
        {"name": "all", "op": "barrier", "inputs": ["a"], "shape": [1, 2, 2]},
        {"name": "b", "inputs": ["all"], **LAYER},
        {"name": "c", "inputs": ["b"], **LAYER},
        {"name": "d", "inputs": ["c"], **LAYER},
    ],
)
HARDWARE: dict[str, Any] = {
    "name": "by hand",
    "source": "by hand",
    "crossbar": {"wordlines": 16, "bitlines": 16, "cell_bits": 8},
    "precision": {"weight_bits": 8, "input_bits": 8, "output_bits": 8, "signed": "offset"},
    "timing": {"step_ns": 100.0},
    "energy": {"read_pj": 6.25, "leakage_mw": 0.125},
}
ONCE = {"a": 1, "b": 1, "c": 1, "d": 1}


@pytest.mark.quick
def test_rates_by_hand() -> None:
    """docs/sources/model.md 12: 16 reads, 100 pJ; 4 arrays, 0.5 mW; b begins at 4: 10 steps, interval 4.

    Alone an input takes 100 + 0.5 * 1000 pJ, in a stream 100 + 0.5 * 400, once in 10 us 100 + 0.5 * 10000.
    """
    found = rramalloc.optimize(CHAIN, 4, hardware=HARDWARE, progress=False)
    assert (found.latency_ns, found.interval, found.energy_pj) == (1000, 4, pytest.approx(600))
    assert (found.stream_energy_pj, found.stream_power_mw) == (pytest.approx(300), pytest.approx(0.75))
    assert (found.tops, found.tops_per_w) == (pytest.approx(2 * 16 * 2.5e6 / 1e12), pytest.approx(32 / 300))
    asked = rramalloc.simulate(CHAIN, found, rate=1e5)
    assert asked.rate_per_s == 1e5
    assert (asked.stream_energy_pj, asked.stream_power_mw) == (pytest.approx(5100), pytest.approx(0.51))
    front = rramalloc.pareto(CHAIN, 4, hardware=HARDWARE).points
    assert front[0].stream_energy_pj == pytest.approx(300)
    (row,) = rramalloc.compare(CHAIN, 4, hardware=HARDWARE, methods=["none"]).rows[-1:]
    assert (row.stream_power_mw, row.tops) == (pytest.approx(0.75), found.tops)


def test_rates_without_time_or_energy() -> None:
    """Steps alone tell nothing; times without energy tell operations a second."""
    plain = rramalloc.optimize(CHAIN, 4, progress=False).to_dict()
    assert [plain[name] for name in ("stream_energy_pj", "stream_power_mw", "tops", "tops_per_w")] == [
        None
    ] * 4
    timed = rramalloc.optimize(CHAIN, 4, hardware={**HARDWARE, "energy": None}, progress=False)
    assert timed.tops is not None
    assert timed.stream_energy_pj is None


def test_a_rate_that_cannot_be_served() -> None:
    """The throughput of three steps of 100 ns is 3,333,333.3 inputs/s, shown as 3,333,000."""
    hardware = {**HARDWARE, "timing": {"step_ns": 75.0}}
    throughput = rramalloc.simulate(CHAIN, ONCE, hardware=hardware).throughput_per_s
    shown = rramalloc.simulate(CHAIN, ONCE, hardware=hardware, rate=3_333_334)
    assert shown.rate_per_s == throughput == pytest.approx(1e9 / 300)
    for rate, changed, words in (
        (3_400_000, hardware, "at most the throughput, 3333333.333 inputs/s, got 3400000"),
        (30, {**hardware, "energy": None}, "the hardware gives no energy"),
        (30, {**hardware, "timing": None, "energy": None}, "the hardware gives no time"),
        (-1, hardware, "rate: must be"),
    ):
        with pytest.raises(SpecError, match=words):
            rramalloc.simulate(CHAIN, ONCE, hardware=changed, rate=rate)


def test_rates_in_tables(tmp_path: Path) -> None:
    """--efficiency shows them with their bits; --rate alone its energy and power."""
    rramalloc.optimize(CHAIN, 4, hardware=HARDWARE, progress=False).save(tmp_path / "a.json")
    CHAIN.save(tmp_path / "chain.json")
    asked = ["simulate", tmp_path / "chain.json", "--allocation", tmp_path / "a.json", "--rate", "100k"]
    assert "5.1 nJ an input, 0.51 mW: 100,000 inputs/s" in run(*asked).out
    shown = run(*asked, "--efficiency").out
    assert "TOPS/W         0.006275 of 8-bit weights and 8-bit inputs" in shown
    heading = run(
        "compare", "alexnet", "--hardware", "isaac", "--arrays", "x1", "--methods", "none", "--efficiency"
    ).out
    assert "TOPS/W" in heading


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, []),
        ({"chip": {"arrays_per_tile": 2, "tiles": [2, 2]}}, []),
        (
            {"chip": {"arrays_per_tile": 2, "tiles": [2, 2], "hop_ns_tile": 1.0}},
            ["links between tiles: optimize --placed counts them"],
        ),
        ({"write": {"write_ns_per_row": 50.0}}, ["writing of weights: --reload counts it"]),
        (
            {"digital": {"ns_per_pixel": {"add": 1.0}}, "timing": {"step_ns": 100.0, "clock": "own"}},
            ["digital nodes without a rate: all", "energy of digital nodes: all"],
        ),
    ],
)
def test_what_is_not_counted(changes: dict[str, Any], words: list[str]) -> None:
    """What the hardware could time, in the file, and in a line of the table where there is any."""
    found = rramalloc.optimize(CHAIN, 4, hardware={**HARDWARE, **changes}, progress=False)
    assert list(found.not_counted) == words
    assert rramalloc.simulate(CHAIN, found).not_counted == found.not_counted
    facts = {fact.name: fact.value for fact in found.view().facts}
    assert facts.get("not counted") == ("; ".join(words) or None)


def test_links_are_counted_with_placed() -> None:
    hardware = {**HARDWARE, "chip": {"arrays_per_tile": 2, "tiles": [2, 2], "hop_ns_tile": 1.0}}
    hardware["chip"]["bandwidth_tile_gb_s"] = 1.0
    found = rramalloc.optimize(CHAIN, 4, hardware=hardware, placed=True, progress=False)
    assert found.not_counted == ()
    assert rramalloc.simulate(CHAIN, found).not_counted == ()


def test_products_of_computed_tensors_are_not_counted() -> None:
    """One head of attention on 512 tokens of 64 features: 2 * 512 * 512 * 64 products."""
    found = rramalloc.optimize("vit_b16", "x1", work=0, progress=False)
    assert [text.split(",")[0] for text in found.not_counted] == ["products of computed tensors"]
