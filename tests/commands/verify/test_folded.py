"""Folded filters on the arrays: the same outputs as the network that was never folded."""

from __future__ import annotations

from pathlib import Path
from random import Random

from commands.place.machines import chain, chip, machine
from commands.verify.naive import random_conv, random_hardware, verified
from hypothesis import given, settings
from laws.strategies import randoms

import rramalloc
from rramalloc.allocation.allocation_input import AllocationInput
from rramalloc.commands.place.place import StoredNetwork, place
from rramalloc.commands.place.placement import read_placement
from rramalloc.commands.verify.verify import Task, in_order
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.demand import fold_refusal, folds
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.geometry import Pair
from rramalloc.network.network import Network
from rramalloc.network.node import Conv
from rramalloc.timing.stage_graph import StageGraph

FOLDED = MappingOptions(mapping="kernel_split", fold=True)


def any_folds(random: Random, source: Network) -> dict[str, Pair]:
    """Up to one pixel more than the kernel has, for the stages that can be folded."""
    chosen = {}
    for stage in StageGraph.build(source).stages:
        if isinstance(stage, Conv) and fold_refusal(source, stage) is None:
            high, wide = stage.kernel
            chosen[stage.name] = (random.randint(1, high + 1), random.randint(1, wide + 1))
    return chosen


def folded_task(source: Network, copies: dict[str, int], machine_: Hardware, sizes: dict[str, Pair]) -> Task:
    given = AllocationInput(copies=copies, where="test", hardware=machine_, options=FOLDED)
    return Task(
        source, given, in_order(StoredNetwork.of(source, given, sizes), given.where), "in order", sizes
    )


@settings(max_examples=120, deadline=None)
@given(randoms)
def test_any_fold_of_any_convolution_is_equal(random: Random) -> None:
    source = random_conv(random)
    copies = {"c": random.randint(1, min(4, source.shapes["c"].pixels))}
    what = folded_task(source, copies, random_hardware(random), any_folds(random, source))
    result = verified(what, seed=random.randint(0, 9))
    assert result.verdict == "equal", result.difference


def test_optimize_fold_place_verify(tmp_path: Path) -> None:
    """Through files: the fold travels from the allocation to the placement and to the arrays."""
    source = chain(6, 5, 7, kernel=3)
    board = machine(chip(10, (3, 3)))
    allocation = rramalloc.optimize(source, 40, hardware=board, mapping="kernel_split", fold=True)
    plain = rramalloc.optimize(source, 40, hardware=board, mapping="kernel_split")
    assert allocation.arrays.minimum < plain.arrays.minimum
    allocation.save(tmp_path / "a.json")
    place(source, tmp_path / "a.json").save(tmp_path / "p.json")
    stages = StageGraph.build(source).stages
    placed = read_placement(tmp_path / "p.json")
    sizes = dict(zip((s.name for s in stages), folds(source, stages, board, FOLDED) or (), strict=True))
    assert {layer.name: layer.fold for layer in placed.layers} == sizes
    for placement in (tmp_path / "p.json", None):
        assert rramalloc.verify(source, tmp_path / "a.json", placement).verdict == "equal"
