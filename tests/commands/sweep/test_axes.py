"""Axes of a sweep that change the hardware, and the columns of energy, area and utilisation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rramalloc
from rramalloc.errors import SpecError
from rramalloc.network.network import Network
from rramalloc.timing.latency_table import LatencyRow, LatencyTable
from rramalloc.timing.measured_layer import MeasuredLayer

HARDWARE = """
name = "m"
source = "test"
crossbar = {wordlines = 8, bitlines = 8, cell_bits = 1}
precision = {weight_bits = 1, input_bits = 4, output_bits = 16, signed = "offset"}
timing = {read_ns = 5.0, dac_bits = 1, adc_ns = 1.0, columns_per_adc = 8}
energy = {read_pj = 10.0, leakage_mw = 0.5, area_um2 = 100.0}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m.toml").write_text(HARDWARE)
    nodes: list[dict[str, Any]] = [
        {"name": "in", "op": "input", "shape": [2, 4, 4]},
        {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 8, "kernel": 3, "pads": 1},
    ]
    Network.build("one", nodes).save(tmp_path / "one.json")
    return tmp_path


def rows_of(folder: Path, **lists: Any) -> list[dict[str, Any]]:
    """Rows of a sweep of one convolution: 18 rows and 8 weights, 3 arrays at one bit."""
    spec = {"networks": "one.json", "hardware": "m.toml", "arrays": 48} | lists
    lines = [f"{name} = {value!r}".replace("True", "true") for name, value in spec.items()]
    (folder / "spec.toml").write_text("\n".join(lines))
    return list(rramalloc.sweep(folder / "spec.toml", folder / "out", jobs=1).rows())


def test_every_axis_changes_its_value(folder: Path) -> None:
    rows = rows_of(
        folder,
        weight_bits=[1, 2],
        dac_bits=[1, 2],
        columns_per_adc=[4, 8],
        rows_per_read=[4, 8],
        clock=["shared", "own"],
        mapping=["im2col", "sdk"],
        arrays=6,
    )
    assert len(rows) == 64
    assert all(row["error"] is None for row in rows)
    axes = ("weight_bits", "dac_bits", "columns_per_adc", "rows_per_read", "clock", "mapping")
    assert len({tuple(row[axis] for axis in axes) for row in rows}) == 64
    first = rows[0]
    # ceil(4 / 1) * ceil(8 / 4) slots of max(5, 1 * 4) ns; two bits a weight take twice the arrays
    assert (first["minimum"], first["step_ns"]) == (3, 4 * 2 * 5.0)
    assert {row["minimum"] for row in rows if row["weight_bits"] == 2} == {6}


def test_measured_steps_stand_for_those_of_the_hardware(folder: Path) -> None:
    """A window of 7 ns by the table; by the hardware 4 slots of 8 ns. Other times are other rows."""
    network = rramalloc.load(folder / "one.json")
    layer = MeasuredLayer.of(network, network.stages[0]).model_dump()
    (before,) = rows_of(folder, arrays=6)
    for ns in (7.0, 9.0):
        (folder / "out").rename(folder / f"before {ns}")
        LatencyTable(rows=(LatencyRow(**layer, latency_ns=16 * ns),)).save(folder / "times.csv")
        rows = rows_of(folder, arrays=6, latency_table="times.csv")
        assert len(rows) == 1
        assert rows[0]["step_ns"] == ns
        assert rows[0]["latency_table"] != before["latency_table"] is None
    with pytest.raises(rramalloc.RramallocError, match=r"latency_table.*none\.csv"):
        rows_of(folder, latency_table="none.csv")


def test_a_value_that_contradicts_the_hardware_is_refused_at_once(folder: Path) -> None:
    text = HARDWARE.replace("read_ns = 5.0, dac_bits = 1, adc_ns = 1.0, columns_per_adc = 8", "step_ns = 5.0")
    (folder / "m.toml").write_text(text)
    with pytest.raises(SpecError, match="step_ns is the whole step"):
        rows_of(folder, dac_bits=[1, 2])
