"""Weights stored once: the layers that use them run one after another on the same arrays (model.md 14)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rramalloc
from rramalloc.errors import BudgetError, RramallocError, SpecError
from rramalloc.network.network import Network

LAYER: dict[str, Any] = {"op": "conv", "kernel": 3, "pads": 1, "out_channels": 8}
INPUT = {"name": "x", "op": "input", "shape": [8, 6, 6]}


def chain() -> Network:
    """One convolution three times, then another one; 36 windows each, one array each."""
    nodes = [INPUT, {"name": "a", "inputs": ["x"], **LAYER}]
    nodes += [{"name": name, "inputs": [before], "shares": "a", **LAYER} for before, name in ("ab", "bc")]
    return Network.build("chain", [*nodes, {"name": "d", "inputs": ["c"], **LAYER}])


def twins() -> Network:
    """One convolution for each of two inputs, and their sum."""
    nodes = [
        INPUT, {**INPUT, "name": "y"}, {"name": "a", "inputs": ["x"], **LAYER},
        {"name": "b", "inputs": ["y"], "shares": "a", **LAYER},
        {"name": "s", "op": "add", "inputs": ["a", "b"]},
        {"name": "d", "inputs": ["s"], **LAYER},
    ]  # fmt: skip
    return Network.build("twins", nodes)


def test_users_in_a_chain() -> None:
    """36 steps for each use; the last layer ends a step later if 9 copies of it can keep up."""
    assert rramalloc.inspect(chain()).minimum == 4
    assert rramalloc.inspect(chain(), shared="once").minimum == 2
    made = rramalloc.optimize(chain(), arrays=10, shared="once")
    assert [(layer.start, layer.finish) for layer in made.layers[:3]] == [(0, 36), (36, 72), (72, 108)]
    assert (made.makespan, made.lower_bound, made.interval) == (109, 109, 108)
    assert [layer.replication for layer in made.layers] == [1, 1, 1, 9]
    assert [layer.arrays for layer in made.layers] == [1, 0, 0, 9]
    assert (made.arrays.used, made.arrays.minimum, made.arrays.budget) == (10, 2, 10)
    assert made.coverage.stored_again == 0
    assert rramalloc.optimize(chain(), arrays=10).coverage.stored_again == 2 * 8 * 8 * 9


def test_users_side_by_side() -> None:
    """Apart both take 36 steps at once; together 72, and the sum waits for the second."""
    copies = {"d": 36}
    assert rramalloc.simulate(twins(), copies).makespan == 37
    once = rramalloc.simulate(twins(), copies, shared="once")
    assert (once.makespan, once.interval, once.arrays) == (73, 72, 37)


def test_the_best_copies_are_found() -> None:
    """All copies of the last layer that fit are tried."""
    tried = [rramalloc.simulate(chain(), {"d": copies}, shared="once").makespan for copies in range(1, 7)]
    made = rramalloc.optimize(chain(), arrays=7, shared="once")
    assert made.makespan == made.lower_bound == min(tried)


def test_files_keep_it_and_other_commands_refuse_it(tmp_path: Path) -> None:
    made = rramalloc.optimize(chain(), arrays=10, shared="once")
    made.save(tmp_path / "a.json")
    again = rramalloc.simulate(chain(), tmp_path / "a.json")
    assert (again.makespan, again.arrays) == (109, 10)
    with pytest.raises(SpecError, match="only simulate reads that"):
        rramalloc.place(chain(), tmp_path / "a.json", hardware="isaac")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        pytest.param({"mapping": "sdk"}, "blocks", id="blocks"),
        pytest.param({"objective": "interval"}, "objective", id="objective"),
        pytest.param({"hardware": "isaac"}, r"\[chip\]", id="chip"),
        pytest.param({"shared": "twice"}, "shared", id="unknown"),
    ],
)
def test_what_it_is_not_for(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(RramallocError, match=reason):
        rramalloc.optimize(chain(), **{"arrays": 100, "shared": "once", **fields})


def test_budget_and_copies() -> None:
    with pytest.raises(BudgetError, match="needs 2 arrays"):
        rramalloc.optimize(chain(), arrays=1, shared="once")
    with pytest.raises(SpecError, match="have one copy, got 2"):
        rramalloc.simulate(chain(), {"b": 2}, shared="once")
