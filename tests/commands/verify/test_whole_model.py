"""The reference against one ONNX model of a whole network, run once by the evaluator of the ONNX package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from commands.verify.naive import expected, hardware, task, verified
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from rramalloc.choices import MAPPINGS
from rramalloc.commands.verify.reference import Weights, Width
from rramalloc.importers import load
from rramalloc.network.network import Network

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
LOW, HIGH = -128.0, 127.0


class Builder:
    """ONNX operators with the names of the network's nodes."""

    def __init__(self, network: Network, weights: Weights, shifts: dict[str, int]) -> None:
        self.network, self.weights, self.shifts = network, weights, shifts
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, value: Any) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def narrowed(self, node: Any) -> None:
        name, shift = node.name, self.shifts[node.name]
        self.nodes.append(
            helper.make_node(
                "Div", [f"{name}.sum", self.constant(f"{name}.by", 2.0**shift)], [f"{name}.part"]
            )
        )
        self.nodes.append(helper.make_node("Floor", [f"{name}.part"], [f"{name}.whole"]))
        self.nodes.append(helper.make_node("Clip", [f"{name}.whole", "low", "high"], [name]))

    def add(self, node: Any) -> None:
        inputs, name = list(node.inputs), node.name
        match node.op:
            case "conv":
                weights = self.weights.of(node).astype(np.float64)
                self.nodes.append(
                    helper.make_node(
                        "Conv",
                        [*inputs, self.constant(f"{name}.w", weights)],
                        [f"{name}.sum"],
                        strides=list(node.stride),
                        pads=list(node.pads),
                        dilations=list(node.dilation),
                        group=node.groups,
                    )
                )
                self.narrowed(node)
            case "maxpool":
                assert not any(node.pads)
                self.nodes.append(
                    helper.make_node(
                        "MaxPool",
                        inputs,
                        [name],
                        kernel_shape=list(node.kernel),
                        strides=list(node.stride),
                        ceil_mode=int(node.ceil_mode),
                    )
                )
            case "global_avgpool":
                self.nodes.append(helper.make_node("GlobalAveragePool", inputs, [f"{name}.mean"]))
                self.nodes.append(helper.make_node("Floor", [f"{name}.mean"], [name]))
            case "relu":
                self.nodes.append(helper.make_node("Relu", inputs, [name]))
            case "concat":
                self.nodes.append(helper.make_node("Concat", inputs, [name], axis=1))
            case "dropout" | "identity":
                self.nodes.append(helper.make_node("Identity", inputs, [name]))
            case "add":
                self.nodes.append(helper.make_node("Sum", inputs, [f"{name}.sum"]))
                self.narrowed(node)
            case _:
                raise AssertionError(node.op)

    def run(self, image: np.ndarray, wanted: list[str]) -> list[np.ndarray]:
        self.constant("low", LOW)
        self.constant("high", HIGH)
        for node in self.network.nodes[1:]:
            self.add(node)
        first = self.network.nodes[0].name
        outputs = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, None) for name in wanted]
        inputs = [helper.make_tensor_value_info(first, TensorProto.DOUBLE, None)]
        graph = helper.make_graph(self.nodes, "whole", inputs, outputs, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        return ReferenceEvaluator(model).run(None, {first: image[None].astype(np.float64)})


def squeezenet() -> Network:
    """The network of the ONNX package on 48 x 48 pixels, without the softmax, which is no integer."""
    nodes = load(LIGHT / "light_squeezenet.onnx").to_dict()["nodes"]
    nodes[0]["shape"] = [3, 48, 48]
    return Network.build("squeezenet", [node for node in nodes if node["op"] != "softmax"])


def residual() -> Network:
    """Strides, dilation, groups and a sum."""
    conv = {"op": "conv", "kernel": 3}
    return Network.build(
        "residual",
        [
            {"name": "in", "op": "input", "shape": [3, 17, 15]},
            {
                "name": "a",
                "inputs": ["in"],
                **conv,
                "out_channels": 12,
                "stride": [2, 1],
                "pads": [1, 0, 2, 1],
            },
            {"name": "r", "op": "relu", "inputs": ["a"]},
            {
                "name": "b",
                "inputs": ["r"],
                **conv,
                "out_channels": 12,
                "groups": 12,
                "pads": 2,
                "dilation": 2,
            },
            {"name": "c", "inputs": ["b"], **conv, "out_channels": 12, "groups": 3, "pads": 1},
            {"name": "s", "op": "add", "inputs": ["c", "r"]},
            {"name": "p", "op": "maxpool", "inputs": ["s"], "kernel": 3, "stride": 2, "ceil_mode": True},
        ],
    )


@pytest.mark.parametrize("signed", ["offset", "differential"])
@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("network", [squeezenet(), residual()], ids=lambda network: network.name)
def test_every_node_of_the_whole_model(network: Network, mapping: str, signed: str) -> None:
    machine = hardware((64, 32), weight_bits=6, cell_bits=4, bits=8, signed=signed)
    weights = Weights(network, 6, 3)
    copies = {
        stage.name: min(1 + number % 3, network.shapes[stage.name].pixels)
        for number, stage in enumerate(network.stages)
    }
    assert verified(task(network, copies, machine, mapping), weights=weights).verdict == "equal"
    values, shifts = expected(network, weights, Width(8))
    names = [node.name for node in network.nodes[1:]]
    found = Builder(network, weights, shifts).run(values[network.nodes[0].name], names)
    for name, value in zip(names, found, strict=True):
        assert np.array_equal(values[name], value[0]), name
        assert np.ptp(value) > 0, name
