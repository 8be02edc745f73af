"""A time limit ends every search over some hundred layers, whatever it is at."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import cache
from typing import Any

import pytest

import rramalloc
from rramalloc.compiled import compilation
from rramalloc.errors import SolverError
from rramalloc.hardware.hardware import Hardware
from rramalloc.network.network import Network

LAYERS, LIMIT_S = 300, 0.3
MOST_S = 6.0
"""Of the processor, start and end of a call included: some took minutes, all take less than 2 s alone."""


@cache
def network(*, branches: bool) -> Network:
    nodes: list[dict[str, Any]] = [{"name": "in", "op": "input", "shape": [4, 8, 8]}]
    for k in range(LAYERS):
        last = nodes[-1]["name"]
        nodes.append(
            {"name": f"c{k}", "op": "conv", "inputs": [last], "out_channels": 4, "kernel": 3, "pads": 1}
        )
        if branches and k % 2:
            nodes.append({"name": f"a{k}", "op": "add", "inputs": [f"c{k}", nodes[-2]["inputs"][0]]})
    return Network.build("many", nodes)


def machine(clock: str) -> Hardware:
    tables: dict[str, Any] = {
        "name": "m", "source": "test",
        "crossbar": {"wordlines": 128, "bitlines": 128, "cell_bits": 8},
        "precision": {"weight_bits": 8, "input_bits": 8, "output_bits": 8, "signed": "offset"},
        "timing": {"read_ns": 100.0, "dac_bits": 1, "clock": clock},
        "energy": {"read_pj": 10.0, "leakage_mw": 0.1},
    }  # fmt: skip
    if clock == "own":
        tables["timing"]["tick_ns"] = 100.0
    else:
        tables["memory"] = {"bandwidth_gb_s": 10.0, "reuse": "row", "scope": "per_layer"}
    return Hardware.model_validate(tables)


def ended(call: Any, branches: bool, clock: str, **options: Any) -> Any:
    """The result of a call with a time limit, and that it ends soon after."""
    begun_s = time.process_time() - compilation.seconds
    try:
        return call(
            network(branches=branches), "x2", hardware=machine(clock), time_limit_s=LIMIT_S, progress=False,
            **options,
        )  # fmt: skip
    finally:
        assert time.process_time() - compilation.seconds - begun_s < MOST_S


@pytest.mark.parametrize(("clock", "branches"), [("shared", True), ("own", False)])
@pytest.mark.parametrize("mapping", ["im2col", "sdk"])
@pytest.mark.parametrize("objective", ["latency", "interval", "energy", "edp", "sequential"])
def test_optimize(objective: str, mapping: str, clock: str, branches: bool) -> None:
    found = ended(rramalloc.optimize, branches, clock, mapping=mapping, objective=objective)
    assert found.arrays.used <= found.arrays.budget
    assert 0 <= found.lower_bound <= found.objective_value


@pytest.mark.parametrize("mapping", ["im2col", "sdk"])
def test_pareto(mapping: str) -> None:
    assert ended(rramalloc.pareto, True, "shared", mapping=mapping, objective="latency_ns").points


def test_milp() -> None:
    """Which has no allocation before its solver has one."""
    with suppress(SolverError):
        ended(rramalloc.optimize, True, "shared", method="milp")
