"""Rows: what single calls of `optimize` give, and whatever goes wrong as a row."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from commands.sweep.tiny import network, rows_of

import rramalloc
from rramalloc.commands.sweep.rows import COLUMNS, summarise
from rramalloc.commands.sweep.spec import Grid, read_spec
from rramalloc.commands.sweep.sweep import read_rows
from rramalloc.errors import SpecError
from rramalloc.network.network import Network
from rramalloc.timing.latency_table import LatencyRow, LatencyTable
from rramalloc.timing.measured_layer import MeasuredLayer

ISAAC_MEMORY = """
name = "remembering"
source = "made up for this test"
[crossbar]
wordlines = 128
bitlines = 128
cell_bits = 2
[precision]
weight_bits = 16
input_bits = 16
output_bits = 16
signed = "offset"
[timing]
step_ns = 100.0
[memory]
bandwidth_gb_s = 1.0
reuse = "row"
scope = "per_layer"
"""
AXES = """
name = "m"
source = "test"
crossbar = {wordlines = 8, bitlines = 8, cell_bits = 1}
precision = {weight_bits = 1, input_bits = 4, output_bits = 16, signed = "offset"}
timing = {read_ns = 5.0, dac_bits = 1, adc_ns = 1.0, columns_per_adc = 8}
energy = {read_pj = 10.0, leakage_mw = 0.5, area_um2 = 100.0}
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.json"
    path.write_text(network())
    return path


def test_rows_are_what_single_calls_give(tiny: Path, tmp_path: Path) -> None:
    """Every list at once; columns as the fields of the allocation."""
    hardware = tmp_path / "hardware.toml"
    hardware.write_text(ISAAC_MEMORY)
    lists = {
        "hardware": str(hardware),
        "arrays": [40, "x1.5"],
        "crossbars": ["128x128", "64x32"],
        "mappings": ["im2col", "kernel_split"],
        "fc": ["host", "crossbar"],
        "methods": ["auto", "bottleneck"],
        "seeds": 7,
        "work": 2,
    }
    rows = rows_of(tiny, **lists)
    assert len(rows) == 2 * 2 * 2 * 2 * 2
    for row in rows:
        crossbar, mapping, fc = row["crossbar"], row["mapping"], row["fc"]
        options: dict[str, Any] = {"hardware": hardware, "crossbar": crossbar, "mapping": mapping, "fc": fc}
        minimum = rramalloc.inspect(tiny, **options).minimum
        arrays = 40 if row["arrays_asked"] == "40" else math.floor(1.5 * minimum)
        assert (row["minimum"], row["arrays"]) == (minimum, arrays)
        if minimum > arrays:
            assert row["error_kind"] == "BudgetError"
            continue
        single = rramalloc.optimize(tiny, arrays, method=row["method"], seed=row["seed"], work=2, **options)
        same = ("makespan", "interval", "lower_bound", "gap", "proof", "step_ns", "latency_ns", "work_s")
        assert {name: row[name] for name in same} == {name: getattr(single, name) for name in same}
        assert row["throughput_per_s"] == single.throughput_per_s
        assert row["used"] == single.arrays.used
        assert row["hardware"] == "remembering"
        assert (row["network"], row["work"]) == ("tiny", 2)
        assert row["error"] is row["error_kind"] is None


def test_copies_that_are_held_hold_in_a_sweep() -> None:
    """AlexNet, 500 arrays, conv1 held at 4 copies: 790 steps (docs/sources/model.md 15)."""
    (row,) = rows_of("alexnet", arrays=500, copies="conv1=4")
    assert row["makespan"] == 790


def test_bits_and_bandwidth_replace_what_the_hardware_says(tiny: Path, tmp_path: Path) -> None:
    """16-bit weights in 8-bit cells: 2 columns each, 32 and 64 of 128: as many arrays. In 1-bit cells 16
    columns each, 256 and 512: 2 and 4 times as wide. More bandwidth shortens the step down to 100 ns.

    conv1 reads 3 rows x 1 column x 3 channels and writes 16 channels, conv2 3 x 1 x 16 and 32, of 2 bytes:
    50 and 160 bytes a step: 160 ns at 1 GB/s.
    """
    hardware = tmp_path / "hardware.toml"
    hardware.write_text(ISAAC_MEMORY)
    rows = rows_of(
        tiny, arrays="x1", methods="none", hardware=str(hardware), cell_bits=[8, 1], bandwidths_gb_s=[1, 1000]
    )
    assert [row["minimum"] for row in rows] == [1 + 2, 1 + 2, 2 + 2 * 4, 2 + 2 * 4]
    assert [row["step_ns"] for row in rows] == [160, 100, 160, 100]
    assert [row["bandwidth_gb_s"] for row in rows] == [1, 1000, 1, 1000]
    assert len({row["key"] for row in rows}) == 4


@pytest.fixture
def axes(tmp_path: Path) -> dict[str, Any]:
    """A sweep of one convolution: 18 rows and 8 weights, 3 arrays at one bit."""
    (tmp_path / "m.toml").write_text(AXES)
    nodes: list[dict[str, Any]] = [
        {"name": "in", "op": "input", "shape": [2, 4, 4]},
        {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 8, "kernel": 3, "pads": 1},
    ]
    Network.build("one", nodes).save(tmp_path / "one.json")
    return {"networks": tmp_path / "one.json", "hardware": str(tmp_path / "m.toml"), "arrays": 6}


def test_every_axis_changes_its_value(axes: dict[str, Any]) -> None:
    rows = rows_of(
        **axes,
        weight_bits=[1, 2],
        dac_bits=[1, 2],
        columns_per_adc=[4, 8],
        rows_per_read=[4, 8],
        clock=["shared", "own"],
        mapping=["im2col", "sdk"],
    )
    assert len(rows) == 64
    assert all(row["error"] is None for row in rows)
    axes = ("weight_bits", "dac_bits", "columns_per_adc", "rows_per_read", "clock", "mapping")
    assert len({tuple(row[axis] for axis in axes) for row in rows}) == 64
    first = rows[0]
    # ceil(4 / 1) * ceil(8 / 4) slots of max(5, 1 * 4) ns; two bits a weight take twice the arrays
    assert (first["minimum"], first["step_ns"]) == (3, 4 * 2 * 5.0)
    assert {row["minimum"] for row in rows if row["weight_bits"] == 2} == {6}


def test_measured_steps_stand_for_those_of_the_hardware(axes: dict[str, Any], tmp_path: Path) -> None:
    """A window of 7 ns by the table; by the hardware 4 slots of 8 ns. Other times are other rows."""
    network = rramalloc.load(axes["networks"])
    layer = MeasuredLayer.of(network, network.stages[0]).model_dump()
    keys = {row["key"] for row in rows_of(**axes)}
    for ns in (7.0, 9.0):
        LatencyTable(rows=(LatencyRow(**layer, latency_ns=16 * ns),)).save(tmp_path / "times.csv")
        (row,) = rows_of(**axes, latency_table=str(tmp_path / "times.csv"))
        assert row["step_ns"] == ns
        assert row["latency_table"] is not None
        keys.add(row["key"])
    assert len(keys) == 3
    with pytest.raises(rramalloc.RramallocError, match=r"latency_table.*none\.csv"):
        rows_of(**axes, latency_table="none.csv")


def test_a_value_that_contradicts_the_hardware_is_refused_at_once(
    axes: dict[str, Any], tmp_path: Path
) -> None:
    timing = "read_ns = 5.0, dac_bits = 1, adc_ns = 1.0, columns_per_adc = 8"
    (tmp_path / "m.toml").write_text(AXES.replace(timing, "step_ns = 5.0"))
    with pytest.raises(SpecError, match="step_ns is the whole step"):
        rramalloc.sweep(axes | {"networks": str(axes["networks"]), "dac_bits": [1, 2]}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("lists", "kind", "told"),
    [
        ({"arrays": 2}, "BudgetError", "needs 3 arrays"),
        ({"mappings": "whole_kernel", "crossbars": "8x8"}, "SpecError", "'conv1'"),
        (
            {"objectives": "interval", "methods": "none"},
            "UnsupportedError",
            "method: is not 'auto'",
        ),
    ],
)
def test_failing_points_are_rows(lists: dict[str, Any], kind: str, told: str, tiny: Path) -> None:
    bad, good = rows_of(tiny, **({"arrays": 9, "methods": "none"} | lists)) + rows_of(tiny, arrays=9)
    assert good["error"] is None
    assert bad["error_kind"] == kind
    assert told in bad["error"]
    assert "\n" not in bad["error"]
    results = list(COLUMNS)[list(COLUMNS).index("used") : -3]
    assert all(bad[name] is None for name in results)


def _parquet(spec: dict[str, Any], folder: Path) -> pd.DataFrame:
    assert rramalloc.sweep(spec, folder, rows="parquet").computed == 0
    return pd.read_parquet(folder / "rows.parquet")


@pytest.mark.usefixtures("in_this_process")
def test_the_result(tmp_path: Path, tiny: Path) -> None:
    spec = {"networks": [str(tiny), "alexnet"], "arrays": ["x1", 2], "methods": "none", "name": "<b>"}
    result = rramalloc.sweep(spec, tmp_path / "rows", jobs=1)
    rows, alexnet = list(result.rows()), rramalloc.inspect("alexnet").minimum
    assert [(row["network"], row["arrays"]) for row in rows] == [
        ("tiny", 3),
        ("tiny", 2),
        ("alexnet", alexnet),
        ("alexnet", 2),
    ]
    assert (result.points, result.computed, result.failed) == (4, 4, 2)
    assert result.to_dict()["rows"] == rows
    assert result.to_frame()["makespan"].isna().tolist() == [False, True, False, True]
    assert [tuple(line)[:4] for line in result.summary()] == [
        ("tiny", "none", 2, 1),
        ("alexnet", "none", 2, 1),
    ]
    assert len(result.reasons()) == 2
    assert result.summary() == summarise(read_rows(str(tmp_path / "rows")))
    assert "&lt;b&gt;" in result._repr_html_()
    assert "<b>" not in result._repr_html_()
    for frame in (pd.read_csv(tmp_path / "rows" / "rows.csv"), _parquet(spec, tmp_path / "rows")):
        assert list(frame.columns) == list(rows[0])
        assert frame["key"].tolist() == [row["key"] for row in rows]
        assert frame["arrays"].tolist() == [3, 2, alexnet, 2]
        assert frame["makespan"].isna().tolist() == [False, True, False, True]


@pytest.mark.usefixtures("in_this_process")
def test_a_finished_sweep_that_is_called_again_reads_no_row(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row takes a tenth of a millisecond to check; a file with other columns is of an older version."""
    spec = {"networks": str(tiny), "arrays": [1, 3, 5], "methods": ["none", "interval"], "work": 1}
    first = rramalloc.sweep(spec, tmp_path / "rows")
    told = (first.summary(), first.reasons(), str(first.view()))
    before = (tmp_path / "rows/rows.csv").read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr("rramalloc.commands.sweep.sweep.parse_json", lambda text, _: json.loads(text))
        patched.setattr("rramalloc.commands.sweep.sweep.upgraded_row", lambda row: pytest.fail("read"))
        again = rramalloc.sweep(spec, tmp_path / "rows")
        assert (again.summary(), again.reasons(), str(again.view())) == told
    assert (again.computed, (tmp_path / "rows/rows.csv").read_bytes()) == (0, before)
    (tmp_path / "rows/rows.csv").write_bytes(before.replace(b"work_s", b"seconds", 1))
    rramalloc.sweep(spec, tmp_path / "rows")
    assert (tmp_path / "rows/rows.csv").read_bytes() == before


QUESTIONS: list[dict[str, Any]] = [
    {"feeds_back": True},
    {"feeds_back": True, "sequences": 2},
    {"mapping": "kernel_split", "fold": True},
    {"target": 100},
    {"target_interval": "640ns"},
    {"bits": "bits.csv", "sensitivity": 1.0},
    {"arrays": None},
    {"arrays": "small=9,large=9"},
    {"arrays": None, "target_ns": "2us"},
    {"placed": True, "arrays": 6},
]


@pytest.mark.parametrize("asked", QUESTIONS, ids=str)
def test_a_point_is_what_optimize_says(
    asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the question; arrays that are left out are those of the chip or of all kinds."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.json").write_text(network())
    (tmp_path / "bits.csv").write_text(
        "layer,weight_bits,input_bits,sensitivity\nconv2,8,8,0\nconv2,4,8,1\nconv1,8,8,0\nconv1,4,8,1\n"
    )
    machine: dict[str, Any] = {
        "name": "own",
        "crossbar": {"wordlines": 128, "bitlines": 32, "cell_bits": 4},
        "precision": {"weight_bits": 4, "input_bits": 8, "output_bits": 8, "signed": "offset"},
        "timing": {"step_ns": 10.0},
        "chip": {"arrays_per_tile": 4, "tiles": [2, 2]},
    }
    if "small" in str(asked.get("arrays")):
        del machine["chip"]
        lines = {"small": 64, "large": 128}
        machine["kinds"] = [{"name": name, "crossbar": {"wordlines": lines[name]}} for name in lines]
    if "placed" in asked:  # between tiles a hop takes two steps: the answer keeps to fewer arrays
        machine["chip"] |= {"hop_ns_tile": 20.0, "bandwidth_tile_gb_s": 0.5}
    options = {"hardware": machine, "work": 2, "arrays": 12} | asked
    found = rramalloc.optimize("tiny.json", **options)
    spec = {name: value for name, value in options.items() if value is not None}
    (row,) = rows_of("tiny.json", **spec)
    assert row["error"] is None
    assert row["objective"] == found.objective
    columns = ("makespan", "interval", "objective_value", "lower_bound", "throughput_per_s", "step_ns")
    assert [row[name] for name in columns] == [getattr(found, name) for name in columns]
    assert row["used"] == found.arrays.used
    assert row["not_counted"] == ("; ".join(found.not_counted) or None)


def test_links_are_a_part_of_the_key_where_they_count(tiny: Path) -> None:
    """A row of a sweep that does not ask for links keeps its key."""
    specs: list[dict[str, Any]] = [{}, {"placed": False}, {"placed": True}]
    points = [Grid.read(*read_spec({"networks": str(tiny), "arrays": 3} | more)).point(0) for more in specs]
    assert points[0].case.more == ()
    assert points[0].key == points[1].key != points[2].key
