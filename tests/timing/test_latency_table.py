"""Latency tables: their two formats, how layers are found, and what they mean for a step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import rramalloc
from rramalloc.errors import MissingLatencyError, SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import load_hardware
from rramalloc.mapping.options import DEFAULT_MAPPING, MappingOptions
from rramalloc.network.network import Network
from rramalloc.schemas import json_schema
from rramalloc.timing.access import StepTime
from rramalloc.timing.latency_table import LatencyRow, LatencyTable, Overhead, load_latency_table
from rramalloc.timing.measured_steps import MeasuredSteps
from rramalloc.timing.stage_graph import StageGraph

NODES: list[dict[str, Any]] = [
    {"name": "in", "op": "input", "shape": [3, 8, 8]},
    {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 4, "kernel": 3, "pads": 1},
    {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 4, "kernel": 3, "pads": 1, "stride": 2},
    {"name": "c", "op": "conv", "inputs": ["a"], "out_channels": 4, "kernel": 3, "pads": 1, "stride": 2},
    {"name": "sum", "op": "add", "inputs": ["b", "c"]},
    {"name": "flat", "op": "flatten", "inputs": ["sum"]},
    {"name": "fc", "op": "linear", "inputs": ["flat"], "out_features": 10},
]
NETWORK = Network.build("small", NODES)
CONV_A = {"out_channels": 4, "kernel": 3, "pads": 1}
CONV_B = CONV_A | {"stride": 2}


def row(
    parameters: dict[str, Any], shape: tuple[int, int, int], latency_ns: float, **fields: Any
) -> LatencyRow:
    operator = fields.pop("operator", "conv")
    return LatencyRow(operator=operator, shape=shape, parameters=parameters, latency_ns=latency_ns, **fields)


def table(*more: LatencyRow) -> LatencyTable:
    """64 windows of a in 6400 ns, 16 of b and c in 4000 ns: 100 and 250 ns a step."""
    rows = (row(CONV_A, (3, 8, 8), 6400.0), row(CONV_B, (4, 8, 8), 4000.0), *more)
    return LatencyTable(rows=rows)


def timed(step_ns: float) -> Hardware:
    document = load_hardware("plain").to_dict() | {"timing": {"step_ns": step_ns}}
    document.pop("unconfirmed", None)
    return Hardware(**document)


PLAIN = load_hardware("plain")


def full_table() -> LatencyTable:
    rows = (
        row(
            CONV_A, (3, 8, 8), 6400.5, spread_ns=12.25, noise_ns=0.5, n=40, median_ns=9000.0,
            device="=chip,\t1 ", method="regression", date="2026-02-28",
        ),
        row(
            {"other_inputs": [[4, 4, 4]]}, (4, 4, 4), -3.0, operator="add",
            flags=("below_noise", "negative"), n=9,
        ),
        row({"kernel": [2, 2], "ceil_mode": True}, (4, 8, 8), 1e-3, operator="maxpool"),
        row({}, (4, 8, 8), 0.0, operator="relu"),
        row({"sha256": "12e4" * 16}, (3, 8, 8), 5.0, operator="network"),
    )  # fmt: skip
    overhead = Overhead(a_ns_per_byte=0.05, b_ns_per_byte=-1e-9, c_ns=1 / 3, r2=0.999, runs=12)
    return LatencyTable(overhead=overhead, rows=rows)


@pytest.mark.parametrize("name", ["t.json", "t.csv", "T.CSV"])
def test_a_table_survives_its_file(tmp_path: Path, name: str) -> None:
    full_table().save(tmp_path / name)
    read = load_latency_table(tmp_path / name)
    assert read == full_table()
    assert read.sha256 == full_table().sha256
    assert (tmp_path / name).read_text().startswith("{" if name == "t.json" else "format,operator,shape,")


def test_the_json_obeys_its_schema() -> None:
    schema = json_schema("latency")
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(full_table().to_dict(), schema)
    assert "date" not in full_table().to_dict()["rows"][1]


def test_equal_layers_share_a_row_whatever_their_names() -> None:
    found = [table().find(NETWORK, node) for node in NETWORK.nodes[1:4]]
    assert [None if r is None else r.latency_ns for r in found] == [6400.0, 4000.0, 4000.0]
    assert table().find(NETWORK, NETWORK.nodes[4]) is None
    other = table(row({"other_inputs": [[4, 4, 4]]}, (4, 4, 4), 7.0, operator="add"))
    assert [r.latency_ns for r in other.lookup(NETWORK, NETWORK.nodes[1:5])] == [6400.0, 4000.0, 4000.0, 7.0]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"operator": "conf"}, "operator|tag"),
        ({"operator": "input", "parameters": {"shape": [1, 1, 1]}}, "no layer"),
        ({"parameters": {"kernel": 3}}, "out_channels"),
        ({"parameters": {"out_channels": 4, "kernel": 3, "colour": 1}}, "colour"),
        ({"parameters": {"out_channels": 4, "kernel": 30}}, "covers 30"),
        ({"parameters": CONV_A | {"other_inputs": [[1, 1, 1]]}}, "no layer of 2"),
        ({"shape": [3, 8]}, "shape"),
        ({"shape": [3, 0, 8]}, "shape"),
        ({"latency_ns": "fast"}, "latency_ns"),
        ({"latency_ns": 1e300}, "latency_ns"),
        ({"flags": ["slow"]}, "flags"),
        ({"date": "tomorrow"}, "date"),
        ({"name": "conv1"}, "name"),
    ],
)
def test_hostile_rows(tmp_path: Path, fields: dict[str, Any], words: str) -> None:
    good = {"operator": "conv", "shape": [3, 8, 8], "parameters": CONV_A, "latency_ns": 1.0}
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"format": "rramalloc-latency/1", "rows": [good | fields]}))
    with pytest.raises(SpecError, match=words):
        load_latency_table(path)


def test_a_step_is_that_of_the_slowest_stage() -> None:
    """a: 6400 / 64 = 100 ns; b and c: 4000 / 16 = 250 ns; fc is left to the host."""
    steps = MeasuredSteps.of(table(), NETWORK, DEFAULT_MAPPING, PLAIN)
    assert steps.compute_ns == {"a": 100.0, "b": 250.0, "c": 250.0}
    assert (steps.longest_ns, steps.slowest, steps.warnings) == (250.0, "b", ())
    graph = StageGraph.build(NETWORK)
    step_time = StepTime.of(graph, PLAIN, steps)
    assert step_time is not None
    for copies in ([1, 1, 1], [64, 16, 2]):
        assert step_time.step_ns(np.array(copies)) == 250.0
    assert StepTime.of(graph, timed(9.0), steps).step_ns(np.array([1, 1, 1])) == 250.0  # type: ignore[union-attr]


def test_stages_that_the_table_lacks_take_the_step_of_the_hardware() -> None:
    steps = MeasuredSteps.of(table(), NETWORK, MappingOptions(fc="crossbar"), timed(300.0))
    assert steps.compute_ns == {"a": 100.0, "b": 250.0, "c": 250.0, "fc": 300.0}
    assert steps.longest_ns == 300.0
    assert steps.assumed == ("fc",)
    assert "fc: not in the latency table" in steps.warnings[0]
    with pytest.raises(MissingLatencyError, match="fc: linear"):
        MeasuredSteps.of(table(), NETWORK, MappingOptions(fc="crossbar"), PLAIN)


@pytest.mark.parametrize(("count", "told"), [(1, "n0: "), (8, ", n7: "), (9, ", n7 and 1 more: ")])
def test_a_warning_names_eight_layers_and_counts_the_rest(count: int, told: str) -> None:
    names = tuple(f"n{number}" for number in range(count))
    steps = MeasuredSteps(sha256="0", compute_ns=dict.fromkeys(names, 1.0), assumed=names)
    (warning,) = steps.warnings
    assert f"{told}not in the latency table" in warning


def test_negative_latencies_count_as_nothing_and_are_told() -> None:
    low = row(CONV_B, (4, 8, 8), -5.0, flags=("below_noise", "negative"))
    steps = MeasuredSteps.of(
        LatencyTable(rows=(row(CONV_A, (3, 8, 8), 6400.0), low)), NETWORK, DEFAULT_MAPPING, PLAIN
    )
    assert steps.compute_ns == {"a": 100.0, "b": 0.0, "c": 0.0}
    assert steps.warnings == ("b, c: latency below the noise of its measurement",)
    nothing = LatencyTable(rows=(row(CONV_A, (3, 8, 8), 0.0), low))
    with pytest.raises(SpecError, match="takes any time"):
        MeasuredSteps.of(nothing, NETWORK, DEFAULT_MAPPING, PLAIN)


def test_optimize_by_a_table_and_its_file_simulates_to_itself(tmp_path: Path) -> None:
    """Step 250 ns, without any [timing]: latency = 250 * makespan."""
    plain = rramalloc.optimize(NETWORK, 40)
    allocation = rramalloc.optimize(NETWORK, 40, latency_table=table())
    assert plain.latency_ns is None
    assert allocation.makespan == plain.makespan
    assert allocation.latency_ns == 250.0 * allocation.makespan
    path = tmp_path / "a.json"
    allocation.save(path)
    for saved in (allocation, path):
        again = rramalloc.simulate(NETWORK, saved)
        assert again.latency_ns == allocation.latency_ns
        assert again.latency_table == allocation.options.latency_table
        assert rramalloc.simulate(NETWORK, saved, hardware="plain").latency_ns is None
        assert rramalloc.simulate(NETWORK, saved, hardware=timed(7.0)).step_ns == 7.0
    assert rramalloc.simulate(NETWORK, {"a": 2}, latency_table=table()).step_ns == 250.0
