"""Keras models through tf2onnx: all kernels of Keras are on arrays, and no layer waits without a reason."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow")
tf2onnx = pytest.importorskip("tf2onnx")

from rramalloc.errors import UnsupportedError  # noqa: E402
from rramalloc.importers import load  # noqa: E402
from rramalloc.network.coverage import Coverage  # noqa: E402
from rramalloc.network.network import Network  # noqa: E402
from rramalloc.timing.simulate import simulate  # noqa: E402
from rramalloc.timing.stage_graph import StageGraph  # noqa: E402

layers = tf.keras.layers


def classifier() -> Any:
    return tf.keras.Sequential(
        [
            tf.keras.Input((16, 16, 3)), layers.Conv2D(8, 3, padding="same", activation="relu"),
            layers.BatchNormalization(), layers.MaxPooling2D(), layers.DepthwiseConv2D(3, padding="same"),
            layers.Conv2D(16, 1), layers.ReLU(6.0), layers.Conv2D(16, 3, strides=2, padding="same"),
            layers.GlobalAveragePooling2D(), layers.Dense(10, activation="softmax"),
        ]
    )  # fmt: skip


def flattened() -> Any:
    return tf.keras.Sequential(
        [tf.keras.Input((8, 8, 3)), layers.Conv2D(4, 3), layers.Flatten(), layers.Dense(9), layers.Dense(2)]
    )


def enlarging() -> Any:
    return tf.keras.Sequential(
        [
            tf.keras.Input((8, 8, 4)), layers.Conv2DTranspose(8, 4, strides=2, padding="same"),
            layers.LeakyReLU(), layers.UpSampling2D(2, interpolation="bilinear"), layers.Conv2D(3, 3),
        ]
    )  # fmt: skip


def signal() -> Any:
    return tf.keras.Sequential(
        [
            tf.keras.Input((32, 3)), layers.Conv1D(8, 3, padding="causal"), layers.MaxPooling1D(2),
            layers.Conv1D(4, 3, strides=2), layers.Dense(5),
        ]
    )  # fmt: skip


def attention() -> Any:
    tokens = tf.keras.Input((10, 16))
    x = layers.LayerNormalization()(layers.MultiHeadAttention(2, 8)(tokens, tokens) + tokens)
    return tf.keras.Model(tokens, layers.Dense(16)(layers.Dense(32, activation="gelu")(x)))


def read(model: Any, folder: Path) -> Network:
    shape = (1, *model.input_shape[1:])
    signature = (tf.TensorSpec(shape, tf.float32, name="input"),)
    path = folder / "keras.onnx"
    function = tf.function(lambda x: model(x))
    tf2onnx.convert.from_function(function, input_signature=signature, opset=15, output_path=str(path))
    return load(path)


@pytest.mark.parametrize(
    ("build", "stages", "steps"),
    [
        # the first layer takes 256 steps; pixel (7, 7) of the pooled 8 x 8 needs the last one, and the ten
        # windows of the depthwise layer from (6, 6) on need that pixel; then each layer ends a step later
        pytest.param(classifier, 5, 256 + 10 + 1 + 1 + 1, id="classifier"),
        # 36 windows, then one of each classifier
        pytest.param(flattened, 3, 38, id="flattened"),
        pytest.param(enlarging, 2, None, id="enlarging"),
        pytest.param(signal, 3, None, id="signal"),
        pytest.param(attention, 6, None, id="attention"),
    ],
)
def test_keras_models(build: Callable[[], Any], stages: int, steps: int | None, tmp_path: Path) -> None:
    model = build()
    network = read(model, tmp_path)
    graph = StageGraph.build(network, "crossbar")
    coverage = Coverage.of(network, graph.names)
    kernels = sum(math.prod(weight.shape) for weight in model.weights if "kernel" in weight.name)
    assert len(graph.names) == stages
    assert coverage.weights.on_arrays == coverage.weights.total == kernels
    assert coverage.barriers == ()
    made = simulate(graph, np.ones(stages, dtype=np.int64)).makespan
    assert steps is None or made == steps


def test_loops_of_recurrent_layers_are_refused(tmp_path: Path) -> None:
    model = tf.keras.Sequential([tf.keras.Input((8, 3)), layers.LSTM(4), layers.Dense(2)])
    with pytest.raises(UnsupportedError, match="control flow"):
        read(model, tmp_path)
