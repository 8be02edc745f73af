"""A file says how it is timed: turns, places, cycles, measured times and bits, whichever command reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rramalloc
from rramalloc import Network
from rramalloc.allocation.timed import time_allocation, time_simulation
from rramalloc.errors import SpecError
from rramalloc.timing.latency_table import LatencyRow, LatencyTable
from rramalloc.timing.measured_layer import MeasuredLayer

NODES: list[dict[str, Any]] = [
    {"name": "in", "op": "input", "shape": [16, 4, 4]},
    {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 16, "kernel": 3, "pads": 1},
    {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 16, "kernel": 1},
    {"name": "c", "op": "conv", "inputs": ["b"], "out_channels": 32, "kernel": 1},
]
NET = Network.build("net3", NODES)
"""Nine, one and two arrays of 16 x 16; 16 windows each: 18 steps with one copy each."""
LINKED: dict[str, Any] = {
    "name": "linked",
    "source": "hand-made",
    "crossbar": {"wordlines": 16, "bitlines": 16, "cell_bits": 8},
    "precision": {"weight_bits": 8, "input_bits": 8, "output_bits": 8, "signed": "offset"},
    "timing": {"step_ns": 10.0},
    "chip": {"arrays_per_tile": 4, "tiles": [4, 4], "hop_ns_tile": 1.0, "bandwidth_tile_gb_s": 1.0},
}
OWN = LINKED | {
    "timing": {"read_ns": 10.0, "dac_bits": 8, "clock": "own", "tick_ns": 1.0},
}
TABLE = "layer,weight_bits,input_bits,sensitivity\na,8,8,0\na,8,4,0\nb,8,8,0\n"


def alone(found: rramalloc.Allocation) -> tuple[int, int, float | None]:
    return found.makespan, found.interval, found.latency_ns


TURNS: tuple[dict[str, Any], ...] = ({}, {"feeds_back": True}, {"feeds_back": True, "sequences": 3})
MORE = ("plain", "bits", "table", "placed bits")
CLOCKS = {"steps": LINKED, "own": OWN}
ALIKE = [
    pytest.param(turns, CLOCKS[clock], more, id=f"{more}-{clock}-turns{column}")
    for row, more in enumerate(MORE)
    for column, turns in enumerate(TURNS)
    for clock in [("steps", "own")[(row + column) % 2]]
]
"""Turns with each of the others, on steps and own clocks in turn: every two of the three are met."""


@pytest.mark.parametrize(("turns", "hardware", "more"), ALIKE)
def test_every_command_times_a_file_alike(
    turns: dict[str, Any], hardware: dict[str, Any], more: str, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"hardware": hardware, "work": 1, **turns}
    if "placed" in more:
        given["placed"] = True
    if "bits" in more:
        table = tmp_path / "bits.csv"
        table.write_text(TABLE)
        given["bits"] = table
    if more == "table":
        rows = [MeasuredLayer.of(NET, node) for node in NET.stages]
        given["latency_table"] = LatencyTable(
            rows=tuple(LatencyRow(**layer.model_dump(), latency_ns=16.0 * 30) for layer in rows)
        )
    made = rramalloc.optimize(NET, 14, **given)
    path = tmp_path / "a.json"
    made.save(path)
    timing = rramalloc.simulate(NET, path)
    assert alone(made) == (timing.makespan, timing.interval, timing.latency_ns)
    assert timing.sequences == turns.get("sequences", 1 if turns else None)
    explained = rramalloc.explain(NET, allocation=path, work=1, what_if=())
    assert (explained.makespan, explained.interval, explained.latency_ns) == alone(made)
    assert explained.options.sequences == timing.sequences
    report = time_allocation(made, NET, "a.json").timing
    assert report is not None
    assert (report.makespan, report.interval) == (made.makespan, made.interval)
    place = rramalloc.place(NET, path, work=0)
    verified = rramalloc.verify(NET, path)
    assert (verified.verdict, verified.makespan) == ("equal", made.makespan)
    assert [layer.copies for layer in place.layers] == [layer.copies for layer in made.layers]
    if "placed" not in more:
        unit = made.step_ns or 1.0
        assert place.latency_ns_alone == made.latency_ns
        assert place.interval_ns_alone == pytest.approx(made.interval * unit, abs=unit)
    assert rramalloc.export(NET, path, to="json").files


def test_place_of_a_file_that_feeds_back_says_its_interval() -> None:
    """18 steps of 10 ns alone, and 18 of 17 ns: nine arrays of `a` on three tiles send 16 bytes to `b`."""
    made = rramalloc.optimize(NET, 14, hardware=LINKED, feeds_back=True, placed=True)
    placed = rramalloc.place(NET, made)
    assert (placed.interval_ns_alone, placed.latency_ns_alone) == (180.0, 180.0)
    assert placed.interval_ns == placed.latency_ns
    assert rramalloc.place(NET, made, feeds_back=False).interval_ns_alone == 160.0
    explained = rramalloc.explain(NET, allocation=made, work=1, what_if=())
    facts = {fact.name: fact.value for fact in explained.view().facts}
    assert facts["interval"] == "18 steps, set by the next input, which waits for this one's output"


def test_an_option_given_again_replaces_what_a_file_says_and_is_named() -> None:
    made = rramalloc.optimize(NET, 12, hardware=LINKED, feeds_back=True, sequences=2)
    assert rramalloc.simulate(NET, made).interval == 16  # busy for 16 steps, 18 / 2 is less
    alone = rramalloc.simulate(NET, made, sequences=1)
    assert (alone.interval, alone.sequences) == (18, 1)
    assert any(words.startswith("sequences: of this call") for words in alone.warnings)
    never = rramalloc.simulate(NET, made, feeds_back=False)
    assert (never.interval, never.sequences) == (16, None)
    faster = {"timing.step_ns": 5.0}
    for found in (
        rramalloc.place(NET, made, set_values=faster, work=0),
        rramalloc.verify(NET, made, set_values=faster),
        rramalloc.export(NET, made, to="json", set_values=faster),
        rramalloc.explain(NET, allocation=made, set_values=faster, work=1, what_if=()),
    ):
        assert any(words.startswith("hardware: of this call") for words in found.warnings), found
    decoder = NET.in_turns(True, None)
    kept = rramalloc.optimize(decoder, 12, hardware=LINKED, feeds_back=False)
    assert rramalloc.simulate(decoder, kept).interval == 16  # the file says that it does not feed back
    assert rramalloc.explain(decoder, allocation=kept, work=1, what_if=()).interval == 16


def test_chosen_bits_leave_the_network_what_it_is(tmp_path: Path) -> None:
    """`a` with 4 bits of inputs of 8; `c` is not named and keeps the bits of the hardware."""
    table = tmp_path / "bits.csv"
    table.write_text("layer,weight_bits,input_bits,sensitivity\na,8,4,0\n")
    made = rramalloc.optimize(NET, 12, hardware=OWN | {"timing": OWN["timing"] | {"dac_bits": 4}}, bits=table)
    assert (made.bits["a"], made.bits["c"]) == ((8, 4), (8, 8))
    with_all = NET.with_bits(made.bits)
    with_one = NET.with_bits({"a": (8, 4)})
    other = NET.with_bits({"a": (8, 8)})
    for network in (NET, with_one, with_all):
        assert rramalloc.simulate(network, made).makespan == made.makespan
        assert rramalloc.place(network, made, work=0).network == made.network
        assert rramalloc.explain(network, allocation=made, work=1, what_if=()).makespan == made.makespan
        assert rramalloc.optimize(network, 12, hardware=made.hardware, start=made, work=0).bits == made.bits
    with pytest.raises(SpecError, match=r"made for 8 bits of weights and 4 of inputs in layer 'a'"):
        rramalloc.place(other, made)
    plain = rramalloc.optimize(NET, 12, hardware=made.hardware)
    assert rramalloc.place(other, plain, work=0).network == plain.network  # 8 bits are the hardware's
    with pytest.raises(SpecError, match="made for 8 bits of weights and 8 of inputs"):
        rramalloc.place(with_one, plain)


def test_what_ifs_of_a_placed_allocation_are_timed_with_its_transfers() -> None:
    """16 bytes over a link of 1 byte/ns and a hop set the step, however fast the arrays are."""
    made = rramalloc.optimize(NET, 12, hardware=LINKED, placed=True)
    assert made.placed is not None
    slowest = max(made.placed.transfer_ns.values())
    assert made.step_ns == slowest > 10.0
    explained = rramalloc.explain(NET, allocation=made, work=1, what_if=["timing.step_ns=5.0"])
    (change,) = explained.what_if
    assert change.as_it_is is not None
    assert explained.latency_ns == change.as_it_is.latency_ns == made.latency_ns
    assert change.gain == 0.0
    faster = rramalloc.simulate(NET, made, set_values={"timing.step_ns": 5.0})
    assert faster.latency_ns == made.latency_ns
    (wider,) = rramalloc.explain(
        NET, allocation=made, work=1, what_if=["chip.bandwidth_tile_gb_s=4.0"]
    ).what_if
    assert wider.as_it_is is not None
    assert wider.searched is not None
    on_its_places = rramalloc.simulate(NET, made, set_values={"chip.bandwidth_tile_gb_s": 4.0})
    assert wider.as_it_is.latency_ns == on_its_places.latency_ns
    assert wider.searched.value <= wider.as_it_is.value < made.latency_ns
    slower = rramalloc.simulate(NET, made, set_values={"timing.step_ns": 40.0})
    assert slower.step_ns == 40.0


def test_kinds_and_turns_of_a_file_hold_in_every_command(tmp_path: Path) -> None:
    kinds = [
        {"name": "small", "arrays": 12, "crossbar": {"wordlines": 16, "bitlines": 16}},
        {"name": "large", "arrays": 2, "crossbar": {"wordlines": 144, "bitlines": 32}},
    ]
    hardware = {name: table for name, table in LINKED.items() if name != "chip"} | {"kinds": kinds}
    made = rramalloc.optimize(NET, hardware=hardware, feeds_back=True, work=1)
    made.save(tmp_path / "a.json")
    assert made.interval == made.makespan
    for found in (
        rramalloc.simulate(NET, tmp_path / "a.json"),
        rramalloc.explain(NET, allocation=tmp_path / "a.json", work=1, what_if=()),
    ):
        assert (found.makespan, found.interval, found.latency_ns) == alone(made)
    report = time_allocation(made, NET, "a.json").timing
    assert report is not None
    assert (report.makespan, report.interval) == (made.makespan, made.interval)


def test_a_page_of_a_simulation_knows_its_bits_and_turns(tmp_path: Path) -> None:
    table = tmp_path / "bits.csv"
    table.write_text("layer,weight_bits,input_bits,sensitivity\na,8,4,0\n")
    hardware = OWN | {"timing": OWN["timing"] | {"dac_bits": 4}}
    made = rramalloc.optimize(NET, 12, hardware=hardware, bits=table, feeds_back=True)
    found = rramalloc.simulate(NET, made)
    timed = time_simulation(found, NET, "s.json").timing
    assert timed is not None
    assert (timed.makespan, timed.interval) == (found.makespan, found.interval)
