"""The tight recurrence is a lower bound of exact timing on every network (docs/sources/model.md 5)."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from laws.reference import reference
from laws.strategies import by_name, random_copies, random_network, randoms

from rramalloc.network.network import Network
from rramalloc.timing.recurrence import recurrence
from rramalloc.timing.simulate import copies_by_name, simulate
from rramalloc.timing.stage_graph import StageGraph


@dataclass
class AsWritten:
    """docs/sources/model.md 5, "Tight recurrence", taken literally; plain: the case in which it is a bound.

    plain: every consumer needs its producer's last batch and its first batch needs something of each.
    """

    op: dict[str, int]
    pre_op: dict[str, int]
    plain: bool


def as_written(network: Network, copies: dict[str, int]) -> AsWritten:
    """Evaluate the formula from the windows that a walk over every pixel finds."""
    walked = reference(network, copies)
    op: dict[str, int] = {}
    pre_op: dict[str, int] = {}
    plain = True
    for stage, needs in walked.needs.items():
        batches = len(walked.starts[stage])
        pre_op[stage], tails = 0, []
        for producer in {of for needed in needs for of, _ in needed}:
            last, need = -1, []
            for needed in needs:
                last = max([last, *(window for of, window in needed if of == producer)])
                need.append(last)
            d_i, d_p = copies[stage], copies[producer]
            dep = [need[min((b + 1) * d_i, len(need)) - 1] // d_p for b in range(batches)]
            first = dep.index(dep[-1])
            producer_batches = len(walked.starts[producer])
            tail = (batches - first) - (producer_batches - 1 - dep[-1])
            pre_op[stage] = max(pre_op[stage], pre_op[producer] + dep[0] + 1)
            tails.append(op[producer] + tail)
            plain = plain and dep[-1] == producer_batches - 1 and dep[0] >= 0
        op[stage] = max([batches + pre_op[stage], *tails])
    return AsWritten(op, pre_op, plain)


def graph_of(*nodes: dict[str, Any]) -> StageGraph:
    return StageGraph.build(Network.build("hand", nodes))


def conv(name: str, source: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "op": "conv", "inputs": [source], "out_channels": 1, "kernel": 1} | fields


def test_two_layers_by_hand() -> None:
    """3 x 3 kernels on 4 x 4, one copy each: b's first window needs window (1, 1) = 5 of a.

    NormalOp 16 16; PreOp_b = 0 + 5 + 1 = 6. Window 15 of a is first needed by window (2, 2) = 10 of b:
    Tail = (16 - 10) - (16 - 1 - 15) = 6; Op_b = max(16 + 6, 16 + 6) = 22.
    """
    graph = graph_of(
        {"name": "in", "op": "input", "shape": [1, 4, 4]},
        conv("a", "in", kernel=3, pads=1),
        conv("b", "a", kernel=3, pads=1),
    )
    terms = recurrence(graph, np.array([1, 1]))
    assert terms.normal_op.tolist() == [16, 16]
    assert terms.pre_op.tolist() == [0, 6]
    assert terms.tail.tolist() == [0, 6]
    assert terms.op.tolist() == [16, 22]
    assert terms.steps == 22


def test_merge_by_hand() -> None:
    """c reads a (8 steps) and b (2 copies, 4 steps) pixel by pixel; one copy of c.

    PreOp_c = max(0 + 0 + 1, 0 + 0 + 1) = 1; from a: Tail = (8 - 7) - 0 = 1, Op = 8 + 1 = 9;
    NormalOp_c + PreOp_c = 8 + 1 = 9.
    """
    graph = graph_of(
        {"name": "in", "op": "input", "shape": [1, 2, 4]},
        conv("a", "in"),
        conv("b", "in"),
        {"name": "sum", "op": "add", "inputs": ["a", "b"]},
        conv("c", "sum"),
    )
    terms = recurrence(graph, copies_by_name(graph, {"b": 2}, "here"))
    of = dict(zip(graph.names, zip(terms.normal_op, terms.pre_op, terms.op, strict=True), strict=True))
    assert of == {"a": (8, 0, 8), "b": (4, 0, 4), "c": (8, 1, 9)}


def test_formula_as_written_is_no_bound_where_the_last_batch_is_not_needed() -> None:
    """Why the program departs from `Op_p + Tail`: i never waits for what delays the end of p.

    Grid 2 x 4. a: one copy, 8 steps. p: four copies, a row a batch, starts when a's rows are there, at 4 and
    8, so Op_p = 9. i: stride 2, windows (0, 0) and (0, 2) of p only, so steps 5 and 6: it ends at 7 and
    the makespan is 9, p's. As written: Tail = (2 - 0) - (2 - 1 - 0) = 1 and Op_i = 9 + 1 = 10.
    """
    network = Network.build(
        "counterexample",
        [
            {"name": "in", "op": "input", "shape": [1, 2, 4]},
            conv("a", "in"),
            conv("p", "a"),
            conv("q", "p", stride=2),
        ],
    )
    graph = StageGraph.build(network)
    named = {"a": 1, "p": 4, "q": 1}
    copies = copies_by_name(graph, named, "here")
    assert simulate(graph, copies).finish.tolist() == [8, 9, 7]
    assert as_written(network, named).op == {"a": 8, "p": 9, "q": 10}
    assert recurrence(graph, copies).op.tolist() == [8, 9, 7]


def test_formula_as_written_is_no_bound_where_the_first_batch_needs_nothing() -> None:
    """PreOp too: q's first windows see padding only and start at once, however late p starts.

    a: 8 steps on 1 x 8. p: eight copies, one batch at 8. q: 8 columns of padding, then p's pixels: windows
    0 ... 7 in steps 0 ... 7, windows 8 ... 15 from 9 on, it ends at 17. As written dep(0) = -1 gives
    PreOp_q = PreOp_p + 0 = 8 and Op_q = 16 + 8 = 24.
    """
    network = Network.build(
        "padding",
        [
            {"name": "in", "op": "input", "shape": [1, 1, 8]},
            conv("a", "in"),
            conv("p", "a"),
            conv("q", "p", pads=[0, 8, 0, 0]),
        ],
    )
    graph = StageGraph.build(network)
    named = {"a": 1, "p": 8, "q": 1}
    copies = copies_by_name(graph, named, "here")
    assert simulate(graph, copies).finish.tolist() == [8, 9, 17]
    assert as_written(network, named).op["q"] == 24
    assert recurrence(graph, copies).op.tolist() == [8, 9, 17]


@pytest.mark.parametrize("handoff", ["next", "same"])
@settings(max_examples=120)
@given(random=randoms)
def test_never_above_exact_timing(handoff: Any, random: Random) -> None:
    """docs/sources/model.md 5: max_i Op_i <= makespan, always; and stage by stage."""
    graph = StageGraph.build(random_network(random, 20))
    copies = random_copies(random, graph)
    exact = simulate(graph, copies, handoff)
    terms = recurrence(graph, copies, handoff)
    assert (terms.op <= exact.finish).all()
    assert (terms.pre_op <= exact.start).all()
    assert (terms.normal_op == exact.batches).all()
    assert (terms.op >= terms.normal_op + terms.pre_op).all()
    assert terms.steps <= exact.makespan


@settings(max_examples=200)
@given(random=randoms)
def test_equals_the_formula_as_written_where_that_is_a_bound(random: Random) -> None:
    network = random_network(random, 12, 6)
    graph = StageGraph.build(network)
    copies = random_copies(random, graph)
    written = as_written(network, by_name(graph, copies))
    terms = recurrence(graph, copies)
    if written.plain:
        assert by_name(graph, terms.pre_op) == written.pre_op
        assert by_name(graph, terms.op) == written.op
    else:
        assert all(by_name(graph, terms.op)[name] <= op for name, op in written.op.items())
