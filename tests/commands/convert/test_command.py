"""`rramalloc convert`: any readable network to network JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from rramalloc.importers import load

Run = Callable[..., Any]


@pytest.mark.quick
@pytest.mark.parametrize("name", ["resnet18", "squeezenet", "shufflenet"])
def test_json_is_a_fixed_point(name: str, run: Run, tmp_path: Path) -> None:
    once, twice = tmp_path / "once.json", tmp_path / "twice.json"
    assert run("convert", name, once).code == 0
    assert run("convert", once, twice).code == 0
    assert once.read_bytes() == twice.read_bytes()
    assert load(once).sha256 == load(name).sha256


def test_output_to_a_pipe_is_the_document(run: Run, tiny: Path, start: Any) -> None:
    out = start("convert", tiny, "/dev/stdout", "--quiet").communicate()[0]
    assert [node["name"] for node in json.loads(out)["nodes"]][:2] == ["input", "conv1"]


@pytest.mark.parametrize("given", [True, False], ids=["shape given", "shape missing"])
def test_dynamic_onnx(given: bool, run: Run, tmp_path: Path) -> None:
    weight = helper.make_tensor("w", TensorProto.FLOAT, [4, 3, 3, 3], bytes(4 * 108), raw=True)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], name="conv")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w_"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [weight],
    )
    path = tmp_path / "dynamic.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)
    outcome = run(
        "convert", path, tmp_path / "out.json", *(["--input-shape", "x=1,3,10,12"] if given else [])
    )
    if given:
        assert outcome.code == 0, outcome.err
        network = load(tmp_path / "out.json")
        assert network.shapes[network.stages[0].name].as_tuple() == (4, 8, 10)
    else:
        assert outcome.code == 1
        assert "dynamic.onnx" in outcome.err
        assert "--input-shape" in outcome.err
        assert not (tmp_path / "out.json").exists()


def test_a_branch_that_an_input_decides(run: Run, tmp_path: Path) -> None:
    """The message is followed, on the command line and in Python; other networks have no such inputs."""
    weight = helper.make_tensor("w", TensorProto.FLOAT, [4, 3, 3, 3], bytes(4 * 108), raw=True)
    info = helper.make_tensor_value_info
    branches = {}
    for name, op in (("then_branch", "Relu"), ("else_branch", "Tanh")):
        made = [info(f"{op}_y", TensorProto.FLOAT, None)]
        branches[name] = helper.make_graph([helper.make_node(op, ["c"], [f"{op}_y"])], name, [], made)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("If", ["cached"], ["y"], **branches)],
        "g",
        [info("x", TensorProto.FLOAT, [1, 3, 8, 8]), info("cached", TensorProto.BOOL, [1])],
        [info("y", TensorProto.FLOAT, None)],
        [weight],
    )
    path, out = tmp_path / "merged.onnx", tmp_path / "out.json"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    outcome = run("convert", path, out)
    assert outcome.code == 1
    assert "--input-value cached=true" in outcome.err
    for value, op in ((True, "relu"), (False, "activation")):
        assert run("convert", path, out, "--input-value", f"cached={value}").code == 0
        assert load(out).nodes[-1].op == op
        assert load(path, input_values={"cached": value}).nodes[-1].op == op
    outcome = run("inspect", "vgg16", "--input-value", "cached=true")
    assert outcome.err.startswith("error: input_values: are for the inputs of an ONNX file, got 'vgg16'")
