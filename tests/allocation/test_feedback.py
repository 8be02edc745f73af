"""Networks that feed back (docs/sources/model.md 8): the next input of a sequence needs this one's output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from allocation.test_rates import CHAIN, HARDWARE, ONCE
from importers.onnx_parts import info, ints, weight
from onnx import TensorProto, helper
from program import run

import rramalloc
from rramalloc.errors import SpecError, TargetError
from rramalloc.network.network import Network

# One copy each: b begins at 4, so an input takes 10 steps of 100 ns, and the busiest layer 4 of them.
ARRAYS = 4


def found(**options: Any) -> rramalloc.Allocation:
    return rramalloc.optimize(CHAIN, ARRAYS, hardware=HARDWARE, progress=False, **options)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("options", "period"),
    [
        ({}, 4),
        ({"feeds_back": True}, 10),
        ({"feeds_back": True, "sequences": 2}, 5),
        ({"feeds_back": True, "sequences": 3}, 10 / 3),  # shorter than the busiest layer takes
        ({"feeds_back": True, "sequences": 100}, 4),
    ],
)
def test_an_input_comes_every_makespan_that_sequences_share(options: dict[str, Any], period: float) -> None:
    period = max(period, 4)
    answer = found(**options)
    assert answer.makespan == 10
    assert answer.interval == period
    assert answer.throughput_per_s == pytest.approx(1e9 / (period * 100))
    assert answer.stream_energy_pj == pytest.approx(100 + 0.5 * period * 100)
    again = rramalloc.simulate(CHAIN, answer)
    assert (again.interval, again.throughput_per_s) == (answer.interval, answer.throughput_per_s)
    assert (answer.options.feeds_back, answer.options.sequences) == (
        (True, options.get("sequences", 1)) if options else (None, None)
    )


def test_an_interval_that_is_no_whole_number_is_rounded_up_and_the_throughput_is_not() -> None:
    """Two sequences of 9 steps: 4.5 each, longer than the 4 of the busiest layer."""
    shorter = [dict(node) for node in CHAIN.to_dict()["nodes"] if node["name"] != "d"]
    network = Network.build("shorter", shorter)
    answer = rramalloc.simulate(network, {"a": 1}, hardware=HARDWARE, feeds_back=True, sequences=2)
    assert (answer.makespan, answer.interval) == (9, 5)
    assert answer.throughput_per_s == pytest.approx(1e9 / 450)


def test_questions_of_the_interval_are_those_of_the_latency() -> None:
    """All four layers twice need 8 arrays: a, then b to d, of two batches each, end at 2 + 4 = 6 steps."""
    turns: dict[str, Any] = {"hardware": HARDWARE, "feeds_back": True, "progress": False}
    fastest = rramalloc.optimize(CHAIN, 8, objective="interval", **turns)
    assert (fastest.makespan, fastest.interval, fastest.objective_value) == (6, 6, 6)
    fewest = rramalloc.optimize(CHAIN, 8, target_interval=6, **turns)
    assert (fewest.interval, fewest.arrays.used) == (
        6,
        rramalloc.optimize(CHAIN, 8, target=6, **turns).arrays.used,
    )
    with pytest.raises(TargetError):
        rramalloc.optimize(CHAIN, 4, target_throughput=1e9 / 999, **turns)
    assert rramalloc.optimize(CHAIN, 4, target_throughput=1e6, **turns).arrays.used == 4
    limited = rramalloc.optimize(CHAIN, 8, objective="energy", at_most={"interval_ns": 600}, **turns)
    assert limited.makespan <= 6


@pytest.mark.parametrize(
    ("sequences", "steps", "arrays", "makespan"),
    [(2, 5, 4, 10), (2, 4, 5, 8), (3, 4, 4, 10), (100, 2, 8, 6)],
)
def test_a_target_of_several_sequences_holds_for_makespan_and_busiest(
    sequences: int, steps: int, arrays: int, makespan: int
) -> None:
    """By hand: a twice ends at 2, b to d 6 steps later; a busiest layer of 2 steps needs all four twice."""
    turns: dict[str, Any] = {"hardware": HARDWARE, "feeds_back": True, "sequences": sequences}
    chip = {"hop_ns_tile": 1e-3, "arrays_per_tile": 8, "tiles": [2, 2]}
    with_links = HARDWARE | {"chip": chip}
    for more in ({}, {"hardware": with_links, "placed": True}):
        for target in ({"target_interval": steps}, {"target_throughput": 1e9 / (steps * 100)}):
            answer = rramalloc.optimize(CHAIN, 12, **turns | more | target)
            assert (answer.arrays.used, answer.makespan, answer.gap) == (arrays, makespan, 0)
            assert answer.interval <= steps
    turns |= {"objective": "energy", "at_most": {"interval_ns": 100 * steps}}
    limited = rramalloc.optimize(CHAIN, 12, **turns)
    assert limited.interval <= steps


def test_inputs_follow_each_other() -> None:
    """Ten inputs of 10 steps each; the bound is of all of them."""
    answer = found(feeds_back=True, inputs=10)
    assert (answer.objective_value, answer.lower_bound) == (100, 100)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sequences": 2}, "sequences: take turns in a network .* add feeds_back"),
        ({"feeds_back": False, "sequences": 2}, "add feeds_back"),
        ({"feeds_back": True, "sequences": 0}, "must be from 1"),
        (
            {"feeds_back": True, "sequences": 2, "inputs": 3},
            "sequences: .* which inputs does not take",
        ),
        (
            {"feeds_back": True, "sequences": 2, "objective": "interval"},
            "sequences: .* which an interval does not",
        ),
    ],
)
def test_what_is_refused_names_itself(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        found(**options)


def test_a_network_file_says_that_it_feeds_back(tmp_path: Path) -> None:
    file = tmp_path / "back.json"
    rramalloc.convert(CHAIN, file, feeds_back=True)
    assert rramalloc.load(file).to_dict()["feeds_back"] is True
    shown = run("simulate", file, "--allocation", write(tmp_path, ONCE)).out
    assert "interval       10 steps between inputs: the next one needs this one's output" in shown
    other = run("simulate", file, "--allocation", write(tmp_path, ONCE), "--no-feeds-back").out
    assert "interval       4 steps between inputs when inputs stream" in other


def write(folder: Path, copies: dict[str, int]) -> Path:
    (folder / "a.json").write_text(f'{{"copies": {str(copies).replace(chr(39), chr(34))}}}')
    return folder / "a.json"


def decoder(*, cache: int, tokens: int = 1) -> Any:
    """Look up a token of 50, add what the cache of 3 says, and score all 50; the cache comes back longer."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["x"]),
        helper.make_node("Concat", ["past", "x"], ["present"], axis=1),
        helper.make_node("ReduceMean", ["present", "axes"], ["seen"], keepdims=1),
        helper.make_node("Add", ["x", "seen"], ["sum"]),
        helper.make_node("MatMul", ["sum", "head"], ["logits"]),
    ]
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [1, tokens])
    graph = helper.make_graph(
        nodes,
        "decoder",
        [ids, info("past", 1, cache, 16)],
        [info("logits", 1, tokens, 50), info("present", 1, cache + tokens, 16)],
        [weight("table", 50, 16), weight("head", 16, 50), ints("axes", 1)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_a_decoder_is_recognised(tmp_path: Path) -> None:
    onnx.save(decoder(cache=3), tmp_path / "decoder.onnx")
    network = rramalloc.load(tmp_path / "decoder.onnx")
    assert network.sequences == 1
    answer = rramalloc.optimize(network, "x1", progress=False)
    assert answer.interval == answer.makespan
    assert any("waits for this one's output" in text for text in answer.warnings)
    undone = rramalloc.optimize(network, "x1", feeds_back=False, progress=False)
    assert not any("waits for this one's output" in text for text in undone.warnings)
    assert (undone.options.feeds_back, undone.not_counted) == (None, ())


def test_other_caches_are_not_assumed_to_feed_back(tmp_path: Path) -> None:
    """Several tokens at once, or frames whose cache comes back as large, may come from outside."""
    onnx.save(decoder(cache=3, tokens=2), tmp_path / "prefill.onnx")
    frames = helper.make_graph(
        [
            helper.make_node("Concat", ["cache", "frame"], ["both"], axis=2),
            helper.make_node("Conv", ["both", "kernel"], ["out"], kernel_shape=[3]),
            helper.make_node("Slice", ["both", "begin", "end", "axes"], ["next"]),
        ],
        "encoder",
        [info("frame", 1, 8, 4), info("cache", 1, 8, 2)],
        [info("out", 1, 8, 4), info("next", 1, 8, 2)],
        [weight("kernel", 8, 8, 3), ints("begin", 4), ints("end", 6), ints("axes", 2)],
    )
    onnx.save(
        helper.make_model(frames, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "frames.onnx"
    )
    for file in ("prefill.onnx", "frames.onnx"):
        network = rramalloc.load(tmp_path / file)
        assert (file, network.sequences, network.has_caches) == (file, None, True)
        answer = rramalloc.optimize(network, "x1", progress=False)
        caches = "caches: if the next input needs this one's output, --feeds-back"
        assert caches in answer.not_counted
        said = rramalloc.optimize(network, "x1", feeds_back=True, progress=False)
        assert said.interval == said.makespan
        assert caches not in said.not_counted


def test_more_channels_out_than_in_are_no_cache(tmp_path: Path) -> None:
    """One picture in, one map of more channels out (segmentation): nothing stands beside it."""
    graph = helper.make_graph(
        [helper.make_node("Conv", ["picture", "kernel"], ["map"], kernel_shape=[1, 1])],
        "segmentation",
        [info("picture", 1, 3, 8, 8)],
        [info("map", 1, 21, 8, 8)],
        [weight("kernel", 21, 3, 1, 1)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "seg.onnx")
    network = rramalloc.load(tmp_path / "seg.onnx")
    assert not network.has_caches
    assert rramalloc.optimize(network, 8, progress=False).not_counted == ()
