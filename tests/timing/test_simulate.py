"""Exact timing: worked by hand, and against a walk over every pixel (docs/sources/model.md 2 and 4)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from laws.reference import reference
from laws.strategies import (
    ALL_PIXELS,
    ANY,
    CHAIN,
    IMAGES,
    by_name,
    random_blocks,
    random_copies,
    random_network,
    randoms,
)

from rramalloc.allocation.check import finish_by_cumulative_maximum, recheck, recheck_bound
from rramalloc.errors import SolverError
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.counts import macs, weights
from rramalloc.network.coverage import Coverage
from rramalloc.network.network import Network
from rramalloc.timing import dependencies
from rramalloc.timing.buffers import BufferedEdge, buffers
from rramalloc.timing.critical_path import critical_path, path_words
from rramalloc.timing.recurrence import recurrence
from rramalloc.timing.simulate import copies_by_name, makespan_of_each, simulate
from rramalloc.timing.stage_graph import StageGraph
from rramalloc.units import number_of

HANDOFFS = ("next", "same")


def chain(height: int, width: int, *layers: dict[str, Any]) -> StageGraph:
    """Stages and pools one after the other; a layer is named by its place: a, b, c ..."""
    nodes: list[dict[str, Any]] = [{"name": "input", "op": "input", "shape": [1, height, width]}]
    for place, layer in enumerate(layers):
        conv = {"op": "conv", "out_channels": 1} if "op" not in layer else {}
        nodes.append({"name": "abcdef"[place], "inputs": [nodes[-1]["name"]], **conv, **layer})
    return StageGraph.build(Network.build("chain", nodes))


ONE = {"kernel": 1}
THREE = {"kernel": 3, "pads": 1}
POOL = {"op": "maxpool", "kernel": 2, "stride": 2}


@pytest.mark.parametrize(
    ("graph", "copies", "handoff", "starts"),
    [
        # nothing to wait for: ceil(12 / 5) = 3 batches, one a step
        (chain(3, 4, ONE), [5], "next", [[0, 1, 2]]),
        # b's window w needs a's window w, which is computed in step w and there in step w + 1
        (chain(1, 3, ONE, ONE), [1, 1], "next", [[0, 1, 2], [1, 2, 3]]),
        (chain(1, 3, ONE, ONE), [1, 1], "same", [[0, 1, 2], [0, 1, 2]]),
        # b holds windows 0 1 in one batch: waits for a's window 1 (there at 2); then window 2 (there at 3)
        (chain(1, 3, ONE, ONE), [1, 2], "next", [[0, 1, 2], [2, 3]]),
        # a: 0 1 | 2 there at 1, 1, 2; b one at a time may start at 1, then one step apart: 1 2 3
        (chain(1, 3, ONE, ONE), [2, 1], "next", [[0, 1], [1, 2, 3]]),
        # 3 x 3: b's window (0, 0) needs a up to (1, 1) = 4, (0, 1) and (0, 2) up to (1, 2) = 5,
        # (1, 0) up to (2, 1) = 7, (1, 1) and all after it up to (2, 2) = 8
        (chain(3, 3, THREE, THREE), [1, 1], "next", [list(range(9)), [5, 6, 7, 8, 9, 10, 11, 12, 13]]),
        # as above with 3 copies of b: batches need windows 5, 8, 8, there at 6, 9, 9
        (chain(3, 3, THREE, THREE), [1, 3], "next", [list(range(9)), [6, 9, 10]]),
        # pool 2 x 2 on 4 x 4: pooled (0, 0) (0, 1) (1, 0) (1, 1) need a's 5, 7, 13, 15, there at
        # 6, 8, 14, 16; digital, so c starts in these very steps
        (chain(4, 4, ONE, POOL, ONE), [1, 1], "next", [list(range(16)), [6, 8, 14, 16]]),
        # a two a step: windows 5 7 13 15 in batches 2 3 6 7, there at 3 4 7 8; c in pairs: 4, 8
        (chain(4, 4, ONE, POOL, ONE), [2, 2], "next", [list(range(8)), [4, 8]]),
        # global pool: the only window waits for all six windows of a, in batches of 4: there at 2
        (chain(2, 3, ONE, {"op": "global_avgpool"}, ONE), [4, 1], "next", [[0, 1], [2]]),
        # enlarged 1 x 2 -> 2 x 4: rows repeat; window (0, 2) needs a's pixel 1, there at 2
        (
            chain(1, 2, ONE, {"op": "upsample", "scale": 2}, ONE),
            [1, 1],
            "next",
            [[0, 1], [1, 2, 3, 4, 5, 6, 7, 8]],
        ),
        # stride 2 reads a's even columns only: 0 2 4, there at 1 3 5
        (chain(1, 5, ONE, {"kernel": 1, "stride": 2}), [1, 1], "next", [[0, 1, 2, 3, 4], [1, 3, 5]]),
        # two taps 3 apart on five columns: windows 0 1 need columns 3 4, there at 4 5
        (chain(1, 5, ONE, {"kernel": [1, 2], "dilation": [1, 3]}), [1, 1], "next", [[0, 1, 2, 3, 4], [4, 5]]),
        # two pixels of padding before a kernel of 1: windows 0 1 see nothing of a and need not wait
        (chain(1, 2, ONE, {"kernel": 1, "pads": [0, 2, 0, 0]}), [2, 1], "next", [[0], [0, 1, 2, 3]]),
    ],
)
def test_starts_worked_by_hand(
    graph: StageGraph, copies: list[int], handoff: Any, starts: list[list[int]]
) -> None:
    timing = simulate(graph, copies, handoff)
    assert [timing.of_stage(stage).tolist() for stage in range(len(starts))] == starts
    assert timing.makespan == max(steps[-1] for steps in starts) + 1
    assert timing.interval == max(len(steps) for steps in starts)
    assert timing.start.tolist() == [steps[0] for steps in starts]
    assert timing.finish.tolist() == [steps[-1] + 1 for steps in starts]
    assert timing.stall_steps.tolist() == [steps[-1] + 1 - steps[0] - len(steps) for steps in starts]


def test_merge_waits_for_the_slower_branch() -> None:
    """left: 4 steps; right: a 3-wide window on left's grid, so (x) needs input only; add needs both."""
    nodes = [
        {"name": "input", "op": "input", "shape": [1, 1, 4]},
        {"name": "left", "op": "conv", "inputs": ["input"], "out_channels": 1, "kernel": 1},
        {
            "name": "right",
            "op": "conv",
            "inputs": ["left"],
            "out_channels": 1,
            "kernel": [1, 3],
            "pads": [0, 1, 0, 1],
        },
        {"name": "sum", "op": "add", "inputs": ["left", "right"]},
        {"name": "out", "op": "conv", "inputs": ["sum"], "out_channels": 1, "kernel": 1},
    ]
    graph = StageGraph.build(Network.build("merge", nodes))
    timing = simulate(graph, copies_by_name(graph, {"out": 2}, "here"))
    starts = {name: timing.of_stage(stage).tolist() for stage, name in enumerate(graph.names)}
    # right's window x needs left's x + 1, there at x + 2 (the last one: 3, there at 4, one step after 4)
    # out's batches need right's windows 1 and 3, there at 4 and 6
    assert starts == {"left": [0, 1, 2, 3], "right": [2, 3, 4, 5], "out": [4, 6]}


def test_frames_through_one_convolution() -> None:
    """docs/sources/model.md 2, by hand: 4 * 64 windows, 8 a step; the mean waits for all four frames."""
    nodes = [
        {"name": "in", "op": "input", "shape": [3, 8, 8], "images": 4},
        {"name": "c", "op": "conv", "inputs": ["in"], "out_channels": 8, "kernel": 3, "pads": 1},
        {"name": "m", "op": "reduce", "inputs": ["c"]},
        {"name": "d", "op": "conv", "inputs": ["m"], "out_channels": 1, "kernel": 1},
    ]
    network = Network.build("frames", nodes)
    timing = simulate(StageGraph.build(network), [8, 64])
    # pixel 63 of the last frame is computed in step 31, so the one batch of d starts in step 32
    assert (timing.finish.tolist(), timing.makespan) == ([32, 33], 33)
    assert [macs(network, stage) for stage in network.stages] == [55_296, 512]
    assert [weights(network, stage) for stage in network.stages] == [216, 8]


def test_vectors_and_sequences_of_several_images() -> None:
    """docs/sources/model.md 2: 6 images of 1 x 1 are 6 windows of a linear layer, which no host takes; a
    recurrence over 3 sequences of 2 tokens has 6 windows and one copy."""
    nodes = [
        {"name": "in", "op": "input", "shape": [2, 3, 3], "images": 6},
        {"name": "flat", "op": "flatten", "inputs": ["in"]},
        {"name": "fc", "op": "linear", "inputs": ["flat"], "out_features": 8},
        {"name": "tokens", "op": "regrid", "inputs": ["fc"], "grid": [2, 1], "images": 3},
        {"name": "rnn", "op": "recurrent", "inputs": ["tokens"], "hidden": 2, "gates": 4},
        {"name": "last", "op": "take", "inputs": ["rnn"], "rows": [[1, 1, 0]]},
        {"name": "out", "op": "linear", "inputs": ["last"], "out_features": 1},
    ]
    network = Network.build("sequences", nodes)
    graph = StageGraph.build(network)
    assert graph.names == ("fc", "rnn", "out")
    assert (graph.windows.tolist(), graph.most_copies.tolist()) == ([6, 6, 3], [6, 1, 3])
    # fc in pairs ends at 1 2 3; rnn takes a token a step from 1 on; its tokens 1 3 5 are there at 3 5 7
    timing = simulate(graph, [2, 1, 1])
    starts = [timing.of_stage(stage).tolist() for stage in range(3)]
    assert starts == [[0, 1, 2], [1, 2, 3, 4, 5, 6], [3, 5, 7]]
    assert Coverage.of(network, graph.names).barriers == ()


def by_edge(edges: Sequence[BufferedEdge]) -> dict[tuple[str, str], tuple[int, int | None]]:
    """Most pixels of one input, and of inputs that stream, by producer and consumer."""
    return {(edge.producer, edge.consumer): (edge.buffer_pixels, edge.stream_pixels) for edge in edges}


@pytest.mark.parametrize("handoff", HANDOFFS)
@pytest.mark.parametrize(
    ("ops", "fc"),
    [
        (CHAIN, "host"),
        (ANY, "host"),
        (ANY + ALL_PIXELS, "crossbar"),
        (ANY + ALL_PIXELS, "host"),
        (IMAGES, "crossbar"),
        (IMAGES, "host"),
    ],
)
@settings(max_examples=50)
@given(random=randoms)
def test_equals_a_walk_over_every_pixel(ops: tuple[str, ...], fc: Any, handoff: Any, random: Random) -> None:
    """docs/sources/model.md 4, the five formulas; and the largest number of pixels alive at once per edge."""
    network = random_network(random, 16, *((5, ops, 4) if ops is IMAGES else (8, ops)))
    layers = [stage.name for stage in MappingOptions(fc=fc).timed_stages(network)]
    host = random.sample(layers, random.randrange(len(layers)) if random.random() < 0.3 else 0)
    graph = StageGraph.build(network, MappingOptions(fc=fc, host=tuple(host)))
    copies = random_copies(random, graph)
    timing = simulate(graph, copies, handoff)
    expected = reference(network, by_name(graph, copies), handoff, fc, host=host)
    starts = {name: timing.of_stage(stage).tolist() for stage, name in enumerate(graph.names)}
    assert starts == expected.starts
    assert (timing.makespan, timing.interval) == (expected.makespan, expected.interval)
    edges, totals = buffers(timing, 12)
    assert by_edge(edges) == expected.buffers()
    sizes = {name: 12 * shape.channels for name, shape in network.shapes.items()}
    assert totals is not None
    assert (totals.total_bytes, totals.stream_total_bytes) == tuple(
        -(-each // 8) for each in expected.totals(sizes)
    )
    bits = [12 * network.shapes[edge.producer].channels * edge.buffer_pixels for edge in edges]
    assert [edge.buffer_bytes for edge in edges] == [-(-each // 8) for each in bits]


@pytest.mark.parametrize("images", [1, 4])
@pytest.mark.parametrize("handoff", HANDOFFS)
@settings(max_examples=50, deadline=None)
@given(random=randoms)
def test_blocks_and_own_clocks_follow_the_definition(random: Random, handoff: Any, images: int) -> None:
    """docs/sources/model.md 10 and 11: batches of blocks in lockstep, each stage with its own period."""
    network = random_network(random, 12, 8) if images == 1 else random_network(random, 12, 5, IMAGES, images)
    graph = StageGraph.build(network)
    blocks = random_blocks(random, graph)
    graph = graph.in_blocks(blocks)
    copies = random_copies(random, graph)
    cycles = [random.choice((1, 2, 5)) for _ in graph.stages] if random.random() < 0.5 else None
    timing = simulate(graph, copies, handoff, cycles)
    named = dict(zip(graph.names, cycles or (), strict=False))
    expected = reference(
        network,
        by_name(graph, copies),
        handoff,
        "host",
        dict(zip(graph.names, blocks, strict=True)),
        named,
    )
    starts = {name: timing.of_stage(stage).tolist() for stage, name in enumerate(graph.names)}
    assert starts == expected.starts
    assert dict(zip(graph.names, timing.finish.tolist(), strict=True)) == expected.finish
    assert (timing.makespan, timing.interval) == (expected.makespan, expected.interval)
    assert by_edge(buffers(timing, 8).edges) == expected.buffers()
    assert timing.finish.tolist() == finish_by_cumulative_maximum(graph, copies, timing.cycles, handoff)
    bound = recurrence(graph, copies, handoff, timing.cycles)
    assert (bound.op <= timing.finish).all()
    assert (bound.pre_op <= timing.start).all()


@given(random=randoms)
def test_every_route_to_the_makespan_agrees(random: Random) -> None:
    graph = StageGraph.build(random_network(random, 20, 9))
    rows = np.array([random_copies(random, graph) for _ in range(4)])
    for handoff in HANDOFFS:
        timings = [simulate(graph, row, handoff) for row in rows]  # type: ignore[arg-type]
        each = makespan_of_each(graph, rows, handoff)  # type: ignore[arg-type]
        assert each.tolist() == [timing.makespan for timing in timings]
        for timing in timings:
            finish = finish_by_cumulative_maximum(graph, timing.copies, timing.cycles, timing.handoff)
            assert finish == timing.finish.tolist()


@settings(max_examples=80)
@given(random=randoms)
def test_critical_path_leads_from_the_first_step_to_the_last(random: Random) -> None:
    network = random_network(random, 16)
    graph = StageGraph.build(network)
    copies = random_copies(random, graph)
    timing = simulate(graph, copies)
    needs = reference(network, by_name(graph, copies)).needs
    path = critical_path(timing)
    assert path[0].start == 0
    assert path[0].waits_for is None
    assert path[-1].finish == timing.makespan
    assert sum(segment.steps for segment in path) == timing.makespan
    for segment in path:
        starts = timing.of_stage(graph.names.index(segment.stage)).tolist()
        begin = starts.index(segment.start)
        assert starts[begin : begin + segment.batches] == list(range(segment.start, segment.finish))
    for before, after in pairwise(path):
        assert (after.waits_for, after.start) == (before.stage, before.finish)
        assert after.row is not None
        assert after.column is not None
        window = after.row * network.shapes[before.stage].width + after.column
        producer = graph.names.index(before.stage)
        assert timing.of_stage(producer)[window // timing.copies[producer]] == before.finish - 1
        waiting = graph.names.index(after.stage)
        batch = timing.of_stage(waiting).tolist().index(after.start)
        held = needs[after.stage][: (batch + 1) * int(timing.copies[waiting])]
        assert any((before.stage, window) in needed for needed in held)
    assert f"of the {number_of(timing.makespan, 'step')}" in path_words(path, timing.makespan)


@pytest.mark.parametrize(
    ("copies", "budget", "message"),
    [
        ([3, 3], 11, "used 12 arrays, the budget is 11"),
        ([3, 4], 99, "4 copies of 'b'"),
        ([0, 3], 99, "0 copies of 'a'"),
    ],
)
def test_the_judge_refuses(copies: list[int], budget: int, message: str) -> None:
    """One batch each: a in step 0, b in step 1, makespan 2; a takes 3 arrays a copy, b one."""
    timing = simulate(chain(1, 3, ONE, ONE), [3, 3])
    recheck(timing, arrays_of(timing, [3, 1]), 12, "someone")
    recheck_bound(timing.makespan, 2, "steps", "someone")
    object.__setattr__(timing, "copies", np.array(copies))
    with pytest.raises(SolverError, match=f"someone.*{message}"):
        recheck(timing, arrays_of(timing, [3, 1]), budget, "someone")
    with pytest.raises(SolverError, match="someone claims no less than 3 steps, yet 2 are enough"):
        recheck_bound(timing.makespan, 3, "steps", "someone")


def arrays_of(timing: Any, demand: list[int]) -> list[int]:
    return [int(copies) * each for copies, each in zip(timing.copies, demand, strict=True)]


@settings(max_examples=40)
@given(random=randoms)
def test_all_edges_are_listed_or_none(random: Random) -> None:
    graph = StageGraph.build(random_network(random, 12))
    index = {name: stage for stage, name in enumerate(graph.names)}
    whole = (graph.network, graph.network.canonical_nodes, index)
    every = len(dependencies.trace(*whole, only_binding=False))
    for limit in range(0, 40, 3):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(dependencies, "EDGE_LIMIT", limit)
            kept = len(dependencies.trace(*whole, only_binding=False))
        assert kept in (0, every)
