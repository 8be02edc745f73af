"""Networks in memory: an onnx.ModelProto, and the bytes of ONNX and JSON files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from hostile.documents import onnx_bytes

import rramalloc
from rramalloc.errors import RramallocError, SpecError

pytestmark = pytest.mark.quick


def test_a_network_in_memory_is_that_of_its_file(tmp_path: Path) -> None:
    """A model, the bytes of its file, and those of the network's JSON, with a byte-order mark or not."""
    path = tmp_path / "net.onnx"
    path.write_bytes(onnx_bytes())
    of_file = rramalloc.load(path)
    model = onnx.load(path)
    of_file.save(tmp_path / "net.json")
    document = (tmp_path / "net.json").read_bytes()
    for source in (model, path.read_bytes(), document, b"\xef\xbb\xbf\n" + document):
        assert rramalloc.load(source).nodes == of_file.nodes
    assert rramalloc.load(model).name == model.graph.name
    shaped = rramalloc.load(model, {"x": (1, 3, 8, 8)}, allow_partial=True, names="onnx")
    assert [node.op for node in shaped.nodes] == [node.op for node in of_file.nodes]
    with pytest.raises(SpecError, match="are for the inputs of an ONNX file, got 'JSON'"):
        rramalloc.load(document, input_values={"flag": True})
    (tmp_path / "t.csv").write_text("")
    others = {
        "net.json": tmp_path / "net.json",
        "t.csv": tmp_path / "t.csv",
        "JSON": document,
        "vgg16": "vgg16",
    }
    for told, source in others.items():
        with pytest.raises(SpecError, match=f"^input_shapes: are for .* ONNX file, got '{told}': leave them"):
            rramalloc.load(source, {"x": (1, 3, 8, 8)})


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (b"", "network in memory: graph.node: holds no operators"),
        (b"{", "network in memory: is not JSON"),
        (b"{\xff", "is not UTF-8 text"),
        (b"\xff\xff", "is not an ONNX model"),
        (b"[]", "network in memory"),
        (5, "network: must be a file, a name, bytes or an onnx.ModelProto, got 5"),
    ],
)
def test_what_is_no_network_in_memory(source: Any, told: str) -> None:
    with pytest.raises(RramallocError, match=told):
        rramalloc.load(source)
