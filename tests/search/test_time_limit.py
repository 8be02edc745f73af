"""A time limit ends every search over some hundred layers, whatever it is at."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import rramalloc
from rramalloc.compiled import compilation
from rramalloc.errors import SolverError
from rramalloc.hardware.hardware import Hardware
from rramalloc.network.network import Network

LAYERS, LIMIT_S = 200, 0.15
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


def machine(clock: str) -> dict[str, Any]:
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
    return tables


def ended(call: Any, branches: bool, clock: str, **options: Any) -> Any:
    """The result of a call with a time limit, and that it ends soon after."""
    begun_s = time.process_time() - compilation.seconds
    try:
        return call(
            network(branches=branches), "x2", hardware=Hardware.model_validate(machine(clock)),
            time_limit_s=LIMIT_S, progress=False, **options,
        )  # fmt: skip
    finally:
        assert time.process_time() - compilation.seconds - begun_s < MOST_S


OBJECTIVES = ("latency", "interval", "energy", "edp", "sequential")


@pytest.mark.parametrize(
    ("objective", "mapping", "clock", "branches"),
    [(objective, mapping, "shared", True) for objective in OBJECTIVES for mapping in ("im2col", "sdk")]
    + [(objective, "sdk", "own", False) for objective in OBJECTIVES],
)
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


PRESS = """
import os, signal, sys, threading, time
from rramalloc.cli.main import main
from rramalloc.search.work import Work

look = Work.out_of_time.fget

def begin(stop):
    Work.out_of_time = property(look)
    def press():
        time.sleep(0.3)
        sys.stderr.write(f"pressed {time.process_time()}\\n")
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=press, daemon=True).start()
    return look(stop)

Work.out_of_time = property(begin)
try:
    main()
finally:
    sys.stderr.write(f"ended {time.process_time()}\\n")
"""
"""A command that is asked to end 0.3 s after its search began, and says what it took of the processor."""


@pytest.mark.parametrize(
    "words",
    [
        "optimize many.json --mapping sdk --objective edp",
        "optimize many.json --objective arrays --target 20000 --mapping sdk",
        "pareto many.json --objective latency_ns",
    ],
)
def test_ctrl_c(words: str, tmp_path: Path) -> None:
    """The best so far is printed soon after, with the exit code of an interruption."""
    network(branches=True).save(tmp_path / "many.json")
    tables = {name: part if isinstance(part, dict) else {} for name, part in machine("shared").items()}
    lines = [
        line
        for name, part in tables.items()
        for line in (f"[{name}]" if part else "", *(f"{key} = {json.dumps(part[key])}" for key in part))
    ]
    (tmp_path / "m.toml").write_text("\n".join(lines))
    command = [*words.split(), "--arrays", "x2", "--hardware", "m.toml", "--work", "100000"]
    ended = subprocess.run(
        [sys.executable, "-c", PRESS, *command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 130, ended.stderr
    assert "found so far" in ended.stderr
    assert "coverage" in ended.stdout
    seconds = dict(re.findall(r"^(pressed|ended) (.*)$", ended.stderr, re.MULTILINE))
    assert float(seconds["ended"]) - float(seconds["pressed"]) < MOST_S
