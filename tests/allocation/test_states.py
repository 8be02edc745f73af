"""States that one layer reads when the next input comes (docs/sources/model.md 8)."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from laws.reference import needed_inputs, pixels, reference, windows_of
from laws.strategies import by_name, random_blocks, random_copies, random_network
from program import run

import rramalloc
from rramalloc.errors import SpecError, UnsupportedError
from rramalloc.hardware.loader import as_hardware
from rramalloc.network.network import Network
from rramalloc.network.node import Recurrent
from rramalloc.timing.simulate import simulate
from rramalloc.timing.stage_graph import StageGraph

HARDWARE: dict[str, Any] = {
    "name": "plain",
    "crossbar": {"wordlines": 16, "bitlines": 16, "cell_bits": 2},
    "precision": {"weight_bits": 2, "input_bits": 4, "output_bits": 4, "signed": "offset"},
    "timing": {"step_ns": 100.0},
}
CELL = {"op": "conv", "out_channels": 1, "kernel": 3, "pads": 1}


def cell(side: int = 4, **first: Any) -> Network:
    """Three layers in a row, whose last one writes the state."""
    nodes = [
        {"name": "in", "op": "input", "shape": [1, side, side]},
        {"name": "a", "inputs": ["in"], **CELL, **first},
        {"name": "b", "inputs": ["a"], **CELL},
        {"name": "c", "inputs": ["b"], **CELL},
    ]
    return Network.build("cell", nodes)


def timed(network: Network, copies: int, **options: Any) -> rramalloc.Simulation:
    given = {"copies": dict.fromkeys("abc", copies)}
    return rramalloc.simulate(network, given, hardware=HARDWARE, states={"c": "a"}, **options)


@pytest.mark.quick
@pytest.mark.parametrize(("copies", "makespan", "interval"), [(1, 28, 18), (2, 16, 12), (4, 8, 6)])
def test_a_state_read_through_the_window_of_a_layer_sets_the_interval(
    copies: int, makespan: int, interval: int
) -> None:
    """With one copy a, b and c compute pixel p (raster order) at p, p + 6 and p + 12. The first window of a
    that reads p is a row above and a column before, p - 5: 13 + 5 = 18 steps, where a layer is busy for 16.
    Two copies: pixel 6 is written at 12 and read at 0. Four: row 1 is written at 6 and read at 0."""
    found = timed(cell(), copies)
    assert (found.makespan, found.interval) == (makespan, interval)
    assert found.throughput_per_s == pytest.approx(1e9 / (100 * interval))
    assert timed(cell(), copies, feeds_back=True).interval == makespan


@pytest.mark.quick
@pytest.mark.parametrize(("copies", "interval"), [(1, 16), (2, 9), (4, 5)])
def test_a_state_on_the_grid_of_the_output_is_read_there(copies: int, interval: int) -> None:
    """Pixel p is written at p + 13, and read at p: not later than the next input, 16 steps. Two copies: batch
    k is read at k and written at k + 9. Four: k + 5."""
    assert timed(cell(8, kernel=1, pads=0, stride=2), copies).interval == interval


def test_drawn_states_wait_as_a_walk_over_their_pixels_says() -> None:
    random, longer, pairs = Random(8), 0, 0
    while pairs < 60:
        network = random_network(random, 12, 5, images=random.choice((1, 3)))
        graph = StageGraph.build(network)
        layers = [stage for stage in graph.layers if not isinstance(stage, Recurrent)]
        shapes = network.shapes
        layer = random.choice((layers or graph.layers)[:2])
        source, output = network.input_shape(layer), shapes[layer.name]
        fit = [name for name in graph.names if shapes[name].extent in (source.extent, output.extent)]
        if not layers or not fit:
            continue
        state = random.choice((random.choice(fit), fit[-1]))
        graph = StageGraph.build(network.in_turns(None, None, {state: layer.name}))
        graph = graph.in_blocks(random_blocks(random, graph))
        copies = random.choice((random_copies(random, graph), graph.most_copies))
        ticks = [random.choice((1, 2, 5)) for _ in graph.names]
        handoff: Any = random.choice(("next", "same"))
        timing = simulate(graph, copies, handoff, ticks)
        numbers, lasts = by_name(graph, copies), dict(zip(graph.names, ticks, strict=True))
        blocks = dict(zip(graph.names, graph.blocks, strict=True))
        starts = reference(network, numbers, handoff, "host", blocks, lasts).starts
        windows = dict(zip(graph.names, map(windows_of, graph.grids), strict=True))
        read: dict[tuple[int, int], int] = {}
        for block, held in enumerate(windows[layer.name]):
            for pixel in held:
                needed = [pixel]
                if shapes[state].extent == source.extent:
                    needed = needed_inputs(layer, pixel, 0, [source], output)
                for own in needed:
                    read.setdefault(own, starts[layer.name][block // numbers[layer.name]])
        wait = max(len(starts[name]) * lasts[name] for name in graph.names)
        for block, held in enumerate(windows[state]):
            written = starts[state][block // numbers[state]] + (lasts[state] if handoff == "next" else 0)
            for pixel in set(held) & read.keys() & {*pixels(shapes[state])}:
                longer += written - read[pixel] > wait
                wait = max(wait, written - read[pixel])
        assert timing.interval == wait
        pairs += 1
    assert longer > 0


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ({"x": "a"}, "no weight layer is called 'x'"),
        ({"a": "in"}, "no weight layer is called 'in'"),
        ({"c": "half"}, "'c' writes 1 x 4 x 4, but 'half' reads 1 x 2 x 2 and writes 1 x 2 x 2"),
        ({"fc": "fc"}, "'fc' is left to the host"),
        ({"turns": "turns"}, "'turns' is a recurrence"),
        (["a"], "states"),
    ],
)
def test_a_state_that_no_layer_can_read_is_refused(states: Any, words: str) -> None:
    nodes = [
        *cell().to_dict()["nodes"],
        {"name": "pool", "op": "maxpool", "inputs": ["c"], "kernel": 2, "stride": 2},
        {"name": "half", "op": "conv", "inputs": ["pool"], "out_channels": 1, "kernel": 1},
        {"name": "global", "op": "global_avgpool", "inputs": ["c"]},
        {"name": "fc", "op": "linear", "inputs": ["global"], "out_features": 2},
        {"name": "tokens", "op": "regrid", "inputs": ["c"], "grid": [16, 1]},
        {"name": "turns", "op": "recurrent", "inputs": ["tokens"], "hidden": 1, "gates": 1},
    ]
    with pytest.raises(SpecError, match=words):
        rramalloc.simulate(Network.build("n", nodes), {"a": 1}, hardware=HARDWARE, states=states)


@pytest.mark.parametrize(
    "asked",
    [
        {"objective": "interval"},
        {"target_interval": 9},
        {"target_throughput": 9},
        {"at_most": {"interval_ns": 900}},
        {"inputs": 3},
    ],
)
def test_a_search_for_the_interval_is_refused_and_one_without_states_is_not(asked: dict[str, Any]) -> None:
    given: dict[str, Any] = {"hardware": HARDWARE, "progress": False, "work": 1} | asked
    with pytest.raises(UnsupportedError, match=r"states: .* does not take: leave the states out"):
        rramalloc.optimize(cell(), 12, states={"c": "a"}, **given)
    network = cell().in_turns(None, None, {"c": "a"})
    if "target_throughput" not in asked:
        assert rramalloc.optimize(network, 48, states={}, **given).options.states is None


def test_files_keep_states_and_a_call_replaces_them(tmp_path: Path) -> None:
    file, answer = tmp_path / "n.json", tmp_path / "a.json"
    rramalloc.convert(cell(), file, states={"c": "a"})
    assert json.loads(file.read_text())["states"] == {"c": "a"}
    assert rramalloc.load(file).states == {"c": "a"}
    plain = tmp_path / "plain.json"
    rramalloc.convert(cell(), plain)
    machine = tmp_path / "h.toml"
    machine.write_text(as_hardware(HARDWARE).to_toml())
    made = run("optimize", plain, "--arrays", 3, "--hardware", machine, "--state", "c=a", "-q", "-o", answer)
    assert "interval     18 steps between inputs when inputs stream, which need states of the one" in made.out
    again = rramalloc.simulate(plain, answer)
    assert (again.interval, again.states) == (18, {"c": "a"})
    other = rramalloc.simulate(plain, answer, states={"b": "a"})
    assert other.interval == 16
    assert any(text.startswith("states: of this call") for text in other.warnings)
    assert run("optimize", plain, "--arrays", 3, "--state", "ca").code == 1
    twice = run("optimize", plain, "--arrays", 3, "--state", "c=a", "--state", "c=b")
    assert "--state: 'c' is given twice" in twice.err
