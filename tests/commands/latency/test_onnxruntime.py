"""ONNX Runtime: the models it is given compute the right shapes, and a real measurement works."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from commands.latency.small import NETWORK

from rramalloc.commands.latency.device import input_arrays, model_bytes, open_device, timed_network
from rramalloc.commands.latency.estimate import estimate_latency
from rramalloc.commands.latency.fit import fit_latency
from rramalloc.commands.latency.measure import Repetition, measure_latency
from rramalloc.commands.latency.plan import MeasurePlan
from rramalloc.errors import DeviceError
from rramalloc.network.network import Network


def outputs(network: Network) -> dict[str, tuple[int, ...]]:
    """Shapes that ONNX Runtime computes, by name of the model's output."""
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(model_bytes(network), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return {
        name: value.shape for name, value in zip(names, session.run(None, input_arrays(network)), strict=True)
    }


def test_every_run_is_a_model_with_the_bytes_of_the_plan() -> None:
    for run in MeasurePlan.of(NETWORK, "conv3x3").runs[:12]:
        network = timed_network(run)
        arrays, found = input_arrays(network), outputs(network)
        assert sum(array.nbytes for array in arrays.values()) == run.input_bytes
        (shape,) = found.values()
        assert 4 * shape[1] * shape[2] * shape[3] == run.output_bytes


def test_a_real_measurement(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    nodes = [
        {"name": "in", "op": "input", "shape": [8, 32, 32]},
        {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 32, "kernel": 3, "pads": 1},
        {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 32, "kernel": 3, "pads": 1},
    ]
    network = Network.build("two", nodes)
    device = open_device("onnxruntime", network, threads=1, seed=0)
    measure_latency(network, device, tmp_path / "s", effort=Repetition(width=0.5, least=10, most=20))
    table = fit_latency(tmp_path / "s")
    assert [row.operator for row in table.rows] == ["conv", "conv", "network"]
    assert {row.method for row in table.rows} == {"subtract"}
    assert all(row.median_ns is not None and row.median_ns > 0 for row in table.rows)
    estimate = estimate_latency(network, table)
    assert estimate.measured_ns is not None
    assert estimate.error is not None


def test_without_onnx_runtime_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(DeviceError, match=r"pip install '.*\[measure\]'"):
        open_device("onnxruntime", NETWORK, threads=1, seed=0)
