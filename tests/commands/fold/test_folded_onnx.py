"""The folded ONNX file computes what the original one does, and nothing is written for what is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import rramalloc
from rramalloc.commands.fold.filter_folding import save_folded_onnx
from rramalloc.errors import SpecError


def written(folder: Path, opset: int = 17) -> Path:
    """Strides 1, 2 and 3, pads of every side, groups, and a 1 x 1 convolution that nothing folds."""
    random = np.random.default_rng(0)
    layers: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
        ("a", (6, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
        ("b", (8, 6, 5, 4), {"strides": [2, 3], "pads": [2, 0, 1, 2]}),
        ("c", (8, 2, 3, 3), {"group": 4, "pads": [1, 1, 1, 1]}),
        ("d", (4, 8, 1, 1), {}),
    ]
    nodes, weights, before = [], [], "x"
    for name, shape, attributes in layers:
        values = random.integers(-3, 4, shape).astype(np.float32)
        weights += [numpy_helper.from_array(values, f"w{name}")]
        weights += [numpy_helper.from_array(np.arange(shape[0], dtype=np.float32), f"bias{name}")]
        nodes.append(
            helper.make_node("Conv", [before, f"w{name}", f"bias{name}"], [name], name, **attributes)
        )
        before = name
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 17, 19])],
        [helper.make_tensor_value_info("d", TensorProto.FLOAT, [1, 4, 8, 6])],
        weights,
    )
    path = folder / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path


def outputs(path: Path) -> Any:
    pixels = np.random.default_rng(1).integers(-5, 6, (1, 3, 17, 19)).astype(np.float32)
    return ReferenceEvaluator(str(path)).run(None, {"x": pixels})[0]


def test_the_folded_file_computes_the_same(tmp_path: Path) -> None:
    path, out = written(tmp_path), tmp_path / "folded.onnx"
    network = rramalloc.load(path)
    folded = rramalloc.fold(network, crossbar="32x32")
    assert {layer.name for layer in folded.layers if layer.size is not None} >= {"a", "b"}
    assert save_folded_onnx(path, network, folded, out) == ()
    onnx.checker.check_model(onnx.load(out))
    assert (outputs(out) == outputs(path)).all()
    shapes = {tensor.name: tuple(tensor.dims) for tensor in onnx.load(out).graph.initializer}
    layer = folded.layers[0]
    assert shapes["a_folded_weights"] == (layer.filter[0], layer.filter[3], *layer.filter[1:3])
    assert "wa" not in shapes


def test_what_cannot_be_written(tmp_path: Path) -> None:
    old, out = written(tmp_path, opset=9), tmp_path / "folded.onnx"
    network = rramalloc.load(old)
    with pytest.raises(SpecError, match="opset 9, folding needs 11"):
        save_folded_onnx(old, network, rramalloc.fold(network), out)
    with pytest.raises(SpecError, match="is no ONNX file"):
        save_folded_onnx("alexnet", network, rramalloc.fold(network), out)
    assert not out.exists()
