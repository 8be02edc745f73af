"""ONNX models to be timed: any network whose operators ONNX has, with weights of no meaning."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rramalloc.network.geometry import Shape
from rramalloc.network.network import Network
from rramalloc.network.node import Conv, Input, Linear, Node, Pool, Upsample
from rramalloc.studies.latency.auxiliary import Run
from rramalloc.timing.measured_layer import FREE

OPSET, IR_VERSION = 13, 8
_PLAIN = {
    "relu": "Relu",
    "activation": "Sigmoid",
    "add": "Sum",
    "mul": "Mul",
    "global_avgpool": "GlobalAveragePool",
    "global_maxpool": "GlobalMaxPool",
}
_WINDOWED = ("conv", "linear", "maxpool", "avgpool", "upsample")
_OTHER = ("input", "concat", "softmax", "batchnorm", *_WINDOWED, *FREE)


def unsupported(network: Network) -> str | None:
    """Why a network cannot be built, None if it can."""
    for node in network.nodes:
        if node.op not in _PLAIN and node.op not in _OTHER:
            return f"{node.name[:60]}: {node.op} is no single ONNX operator"
        if node.op == "avgpool" and isinstance(node, Pool) and node.dilation != (1, 1):
            return f"{node.name[:60]}: avgpool with dilation"
        if node.op == "concat" and len({network.shapes[name][1:] for name in node.inputs}) > 1:
            return f"{node.name[:60]}: concat of unequal grids"
    return None


def network_of(run: Run) -> Network:
    """The layers of a run, one after another, as a network."""
    head = run.layer or run.auxiliary
    if head is None:
        raise ValueError("the run has no layer")
    inputs = [Input(name=f"input{place}", shape=shape.as_tuple()) for place, shape in enumerate(head.shapes)]
    nodes: list[Node] = [*inputs, head.node]
    if run.layer is not None and run.auxiliary is not None:
        nodes.append(run.auxiliary.node.model_copy(update={"name": "auxiliary", "inputs": ("layer",)}))
    return Network.build("run", nodes)


def model_bytes(network: Network) -> bytes:
    """A serialised model of the network, batch 1, 32-bit floats.

    Raises ValueError if it would be larger than protobuf allows.
    """
    from onnx import TensorProto, helper

    model = _Model()
    for node in network.nodes:
        model.add(network, node)
    used = {name for node in network.nodes for name in node.inputs}
    inputs = [node for node in network.nodes if isinstance(node, Input)]
    ends = [node for node in network.nodes if node.name not in used and not isinstance(node, Input)]
    graph = helper.make_graph(
        model.nodes,
        "timed",
        [_value(helper, TensorProto, model.names[node.name], network.shapes[node.name]) for node in inputs],
        [_value(helper, TensorProto, model.names[node.name], network.shapes[node.name]) for node in ends],
        model.weights,
    )
    opsets = [helper.make_opsetid("", OPSET)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    content: bytes = proto.SerializeToString()
    return content


def input_arrays(network: Network) -> dict[str, Any]:
    """A value for each input, by its name in the model."""
    random = np.random.default_rng(0)
    return {
        _value_name(place): random.random((1, *node.shape), dtype=np.float32)
        for place, node in enumerate(network.nodes)
        if isinstance(node, Input)
    }


@dataclass
class _Model:
    """Nodes and weights of a model while it is made; names: of values, one for each node."""

    nodes: list[Any] = field(default_factory=list)
    weights: list[Any] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)

    def add(self, network: Network, node: Node) -> None:
        sources = [self.names[name] for name in node.inputs]
        value = _value_name(len(self.names))
        self.names[node.name] = value
        if isinstance(node, Conv):
            self._conv(node, network.input_shape(node).channels, sources[0], value)
        elif isinstance(node, Linear):
            self._linear(node, network.input_shape(node), sources[0], value)
        elif isinstance(node, Pool):
            self._pool(node, sources[0], value)
        elif node.op == "flatten":
            shape = network.shapes[node.name]
            target = self._constant(f"{value}_shape", np.array([1, *shape], dtype=np.int64))
            self._node("Reshape", [sources[0], target], value)
        elif node.op in FREE:
            self.names[node.name] = sources[0]
        elif isinstance(node, Upsample):
            scales = self._constant(f"{value}_scales", np.array([1, 1, *node.scale], dtype=np.float32))
            self._node("Resize", [sources[0], "", scales], value, mode="nearest")
        elif node.op == "batchnorm":
            ones = np.ones(network.shapes[node.name].channels, dtype=np.float32)
            rest = [self._constant(f"{value}_{part}", ones) for part in ("scale", "bias", "mean", "var")]
            self._node("BatchNormalization", [sources[0], *rest], value)
        elif node.op in ("concat", "softmax"):
            self._node(node.op.capitalize(), sources, value, axis=1)
        elif node.op in _PLAIN:
            self._node(_PLAIN[node.op], sources, value)

    def _conv(self, node: Conv, channels: int, source: str, value: str) -> None:
        weights = _random((node.out_channels, channels // node.groups, *node.kernel))
        bias = np.zeros(node.out_channels, dtype=np.float32)
        constants = [self._constant(f"{value}_w", weights), self._constant(f"{value}_b", bias)]
        self._node(
            "Conv", [source, *constants], value, kernel_shape=node.kernel, strides=node.stride,
            pads=node.pads, dilations=node.dilation, group=node.groups,
        )  # fmt: skip

    def _linear(self, node: Linear, shape: Shape, source: str, value: str) -> None:
        """A product with a matrix; on a grid the same for every pixel, a 1 x 1 convolution."""
        if shape.pixels > 1:
            like = Conv(name="linear", inputs=("x",), out_channels=node.out_features, kernel=(1, 1))
            self._conv(like, shape.channels, source, value)
            return
        weights = self._constant(f"{value}_w", _random((node.out_features, shape.channels)))
        bias = self._constant(f"{value}_b", np.zeros(node.out_features, dtype=np.float32))
        target = self._constant(f"{value}_shape", np.array([1, node.out_features, 1, 1], dtype=np.int64))
        self._node("Flatten", [source], f"{value}_flat")
        self._node("Gemm", [f"{value}_flat", weights, bias], f"{value}_product", transB=1)
        self._node("Reshape", [f"{value}_product", target], value)

    def _pool(self, node: Pool, source: str, value: str) -> None:
        extra = {"dilations": node.dilation} if node.op == "maxpool" else {}
        self._node(
            "MaxPool" if node.op == "maxpool" else "AveragePool", [source], value, kernel_shape=node.kernel,
            strides=node.stride, pads=node.pads, ceil_mode=int(node.ceil_mode), **extra,
        )  # fmt: skip

    def _node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> None:
        from onnx import helper

        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))

    def _constant(self, name: str, array: Any) -> str:
        from onnx import numpy_helper

        self.weights.append(numpy_helper.from_array(array, name))
        return name


def _value_name(place: int) -> str:
    """Name of the value that the node at a place of the network makes."""
    return f"v{place}"


def _random(shape: tuple[int, ...]) -> Any:
    """Weights that keep values in range through many layers: denormal numbers would be slow."""
    inputs = int(np.prod(shape[1:]))
    centred = np.random.default_rng(0).random(shape, dtype=np.float32) - np.float32(0.5)
    return centred * np.float32(np.sqrt(24.0 / inputs))


def _value(helper: Any, tensors: Any, name: str, shape: Shape) -> Any:
    return helper.make_tensor_value_info(name, tensors.FLOAT, [1, *shape])
