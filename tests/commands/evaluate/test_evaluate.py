"""The matrices against values worked out by hand and against a slow evaluation one subtask at a time."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from commands.evaluate import worked
from commands.evaluate.drawn import ROOMY, random_chip, random_strategy, weight_layers
from hypothesis import given, settings
from laws.strategies import random_network, randoms

import rramalloc
from rramalloc.commands.evaluate.strategy import Strategy
from rramalloc.errors import SpecError, UnsupportedError
from rramalloc.hardware.performance import ChipPerformance
from rramalloc.network.network import Network

pytestmark = pytest.mark.quick

Judge = Any


def test_worked_example(judge: Judge) -> None:
    evaluation = judge(worked.WHOLE, worked.SPLIT)
    frame = evaluation.to_frame()
    assert tuple(frame.index) == worked.TASKS
    for name, times in worked.MATRIX.items():
        assert frame[name].tolist() == pytest.approx(times, rel=1e-12)
    assert evaluation.totals_ns() == pytest.approx(worked.TOTALS, rel=1e-12)
    assert (evaluation.best, evaluation.document.equals) == ("split", 1)
    assert tuple(task.dominant for task in evaluation.document.tasks) == worked.DOMINANT
    assert [task.subtasks for task in evaluation.document.tasks] == [2, 2, 2]
    assert [task.share for task in evaluation.document.tasks] == [0.75, 0.5, 1]
    conv1 = evaluation.document.tasks[0]
    assert (conv1.bytes_in, conv1.bytes_out, conv1.bytes_working) == (64, 128, 16)
    assert (conv1.in_ns, conv1.compute_ns, conv1.out_ns) == pytest.approx((24, 36, 96), rel=1e-12)
    assert [(one.name, one.ratio) for one in evaluation.document.ranking] == [
        ("split", 1.0),
        ("whole", pytest.approx(500 / 336)),
    ]


def test_copies_of_an_allocation_are_subtasks(judge: Judge) -> None:
    """conv1 twice: 8 of 16 windows each, 104 ns; conv2 three times: 2 of 4 windows at most, 112 ns; fc 68 ns.

    Each copy takes one array, so 2 + 3 + 1 = 6 processors are needed.
    """
    copies = {"conv1": 2, "conv2": 3}
    evaluation = judge(allocations=[copies], chip={"processors": 6, "storage_units": 3})
    assert evaluation.performance_ns[:, 0].tolist() == pytest.approx([104, 112, 68])


def test_whole_allocations_bring_their_hardware_and_options() -> None:
    """squeezenet's demand depends on the hardware: with larger arrays a copy has fewer compute units."""
    chip = ChipPerformance(**(worked.CHIP | {"processors": 5000, "storage_units": 100} | ROOMY))
    small = rramalloc.optimize("squeezenet", 200, method="none")
    large = rramalloc.optimize("squeezenet", 200, method="none", crossbar="512x512")
    evaluation = rramalloc.evaluate("squeezenet", chip, allocations=[small, large])
    held = [
        sum(len(part.compute) for task in range(len(evaluation.task_names)) for part in plan.split(task))
        for plan in evaluation.plans
    ]
    assert held == [small.arrays.used, large.arrays.used]
    assert held[0] > held[1]


def slow_time_ns(network: Network, chip: ChipPerformance, strategy: Strategy, layer: str) -> float:
    """The formula of docs/sources/companions.md 1, one subtask and one window at a time."""
    node = next(node for node in network.nodes if node.name == layer)
    source, output = network.shapes[node.inputs[0]], network.shapes[layer]
    bytes_in = 2 * source.channels * source.height * source.width
    bytes_out = 2 * output.channels * output.height * output.width
    cost = chip.ns_per_byte.get(node.op, chip.ns_per_byte["default"])
    parts = [part for part in strategy.tasks.get(layer, strategy.tasks["*"]) if part.compute]
    dealt = [0] * len(parts)
    for window in range(output.height * output.width):
        dealt[window % len(parts)] += 1
    times = []
    for part, windows in zip(parts, dealt, strict=True):
        share = part.share if part.share is not None else windows / (output.height * output.width)
        times.append(
            share * bytes_in / chip.bandwidth_in_gb_s
            + share * bytes_in * cost
            + share * bytes_out / chip.bandwidth_out_gb_s
        )
    return max(times)


@settings(max_examples=60)
@given(randoms)
def test_matrices_are_those_of_the_slow_evaluation(
    tmp_path_factory: pytest.TempPathFactory, random: Random
) -> None:
    network, chip = random_network(random), random_chip(random)
    layers = weight_layers(network)
    strategies = [random_strategy(random, chip, layers, f"s{number}") for number in range(4)]
    evaluation = rramalloc.evaluate(network, chip, strategies=strategies, fc="crossbar")
    assert list(evaluation.task_names) == layers
    slow = {
        strategy.name: [slow_time_ns(network, chip, strategy, layer) for layer in layers]
        for strategy in strategies
    }
    path = tmp_path_factory.mktemp("load") / "load.json"
    evaluation.save_load(path)
    for layer, row in zip(layers, json.loads(path.read_text())["matrix"], strict=True):
        for strategy, entry in zip(strategies, row, strict=True):
            parts = [part for part in strategy.tasks.get(layer, strategy.tasks["*"]) if part.compute]
            held = [[number, [*part.compute], [*part.storage]] for number, part in enumerate(parts, 1)]
            assert entry == held
    for name, times in slow.items():
        assert evaluation.to_frame()[name].tolist() == pytest.approx(times, rel=1e-9)
    assert sum(slow[evaluation.best]) == pytest.approx(min(map(sum, slow.values())), rel=1e-9)


def test_units_by_themselves_are_not_set(judge: Any) -> None:
    with pytest.raises(SpecError, match="given by themselves"):
        judge(worked.WHOLE, set_values={"units.processors": 2})


def test_links_between_tiles_are_refused_by_name(judge: Judge) -> None:
    """Layers hand their outputs on through storage units: the same bytes would count twice."""
    words = "placed: counts the transfer between tiles, which evaluate does not take: leave it out"
    with pytest.raises(UnsupportedError, match=words):
        judge(worked.WHOLE, placed=True)
