"""Every command that reads a network takes one with operators that cannot be modelled, if it is told to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

Run = Callable[..., Any]
CHIP = """name = "chip"
source = "test"
crossbar = {wordlines = 128, bitlines = 128, cell_bits = 2}
precision = {weight_bits = 16, input_bits = 16, output_bits = 16, signed = "offset"}
[units]
processors = 100
storage_units = 100
unit_bytes = 65536
bandwidth_in_gb_s = 8.0
bandwidth_out_gb_s = 8.0
ns_per_byte = 0.5
"""


@pytest.fixture
def partial(tmp_path: Path) -> Path:
    """A convolution to 4 x 6 x 6, and an operator nobody knows with 21 weights behind it."""
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Warp", ["c", "k"], ["y"], name="warp", domain="acme"),
    ]
    weights = [
        numpy_helper.from_array(np.ones((4, 2, 3, 3), dtype=np.float32), "w"),
        numpy_helper.from_array(np.ones((3, 7), dtype=np.float32), "k"),
    ]
    places = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, c, 6, 6]) for n, c in (("x", 2), ("y", 4))
    ]
    graph = helper.make_graph(nodes, "partial", places[:1], places[1:], weights)
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    path = tmp_path / "partial.onnx"
    onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=9), path)
    return path


def test_every_command_takes_it(partial: Path, run: Run, tmp_path: Path) -> None:
    spec, made, placed = tmp_path / "spec.toml", tmp_path / "a.json", tmp_path / "placed.json"
    spec.write_text(f'networks = "{partial}"\narrays = "x2"\nmethods = "uniform"\n')
    chip = tmp_path / "chip.toml"
    chip.write_text(CHIP)
    commands = [
        ["inspect", partial],
        ["optimize", partial, "--arrays", "4", "--hardware", "isaac", "--crossbar", "128x128", "-o", made],
        ["simulate", partial, "--allocation", made],
        ["compare", partial, "--arrays", "4", "--methods", "uniform"],
        ["pareto", partial, "--arrays", "4"],
        ["place", partial, "--allocation", made, "-o", placed],
        ["export", partial, "--allocation", made, "--to", "json"],
        ["verify", partial, "--allocation", made],
        ["evaluate", partial, "--hardware", chip, "--allocations", made],
        ["fold", partial],
        ["size", partial, "--hardware", "isaac", "--choose", "crossbar=128x128", "--target", "1000000"],
        ["sweep", spec, "-o", tmp_path / "swept"],
        ["convert", partial, tmp_path / "partial.json"],
    ]
    for command in commands:
        refused = run(*command)
        assert refused.code == 1, command
        assert "acme.Warp 'warp' (21 weights)" in refused.err
        assert "--allow-partial" in refused.err
        taken = run(*command, "--allow-partial")
        assert taken.code == 0, (command, taken.err)
