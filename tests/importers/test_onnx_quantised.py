"""Quantised ONNX files, as ONNX Runtime's quantiser writes them: the float network with bits per layer."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

quantization = pytest.importorskip("onnxruntime.quantization")

from rramalloc.errors import RramallocError  # noqa: E402
from rramalloc.importers import load  # noqa: E402
from rramalloc.importers.onnx import from_model  # noqa: E402
from rramalloc.mapping.options import MappingOptions  # noqa: E402
from rramalloc.network.counts import macs, weights  # noqa: E402
from rramalloc.network.network import Network  # noqa: E402
from rramalloc.timing.simulate import simulate  # noqa: E402
from rramalloc.timing.stage_graph import StageGraph  # noqa: E402

SHAPE = (1, 3, 16, 16)


def drawn(name: str, *dims: int) -> TensorProto:
    values = np.random.default_rng(len(name)).normal(size=dims).astype(np.float32)
    return numpy_helper.from_array(values, name)


def network_file(folder: Path) -> Path:
    """Every operator that ONNX Runtime has a quantised version of, and a convolution behind each."""

    def node(op: str, inputs: str, output: str, **fields: Any) -> Any:
        return helper.make_node(op, inputs.split(), [output], name=f"n_{output}", **fields)

    nodes = [
        node("Conv", "x w1", "a", pads=[1, 1, 1, 1]),
        node("LeakyRelu", "a", "b"),
        node("Conv", "b w2", "c", pads=[1, 1, 1, 1]),
        node("Sigmoid", "c", "d"),
        node("Add", "d b", "e"),
        node("Mul", "e d", "m"),
        node("Conv", "m w3", "f"),
        node("Concat", "e f", "g", axis=1),
        node("AveragePool", "g", "h", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", "h w4", "i", group=2),
        node("GlobalAveragePool", "i", "j"),
        node("Flatten", "j", "k"),
        node("Gemm", "k w5 b5", "l", transB=1),
        node("Softmax", "l", "y", axis=1),
    ]
    kernels = [drawn("w1", 8, 3, 3, 3), drawn("w2", 8, 8, 3, 3), drawn("w3", 4, 8, 1, 1)]
    kernels += [drawn("w4", 6, 6, 3, 3), drawn("w5", 10, 6), drawn("b5", 10)]
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 10))],
        kernels,
    )  # fmt: skip
    path = folder / "float.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


class Images(quantization.CalibrationDataReader):  # type: ignore[misc, name-defined]
    """Two random images."""

    def __init__(self) -> None:
        self.left = [np.random.default_rng(seed).random(SHAPE, dtype=np.float32) for seed in range(2)]

    def get_next(self) -> dict[str, Any] | None:
        return {"x": self.left.pop()} if self.left else None


def one_copy(network: Network) -> int:
    graph = StageGraph.build(network, MappingOptions(fc="crossbar"))
    return simulate(graph, np.ones(len(graph.names), dtype=np.int64)).makespan


@pytest.mark.parametrize(
    ("form", "kind", "bits"),
    [
        ("QOperator", "QInt8", (8, 8)),
        ("QOperator", "QUInt8", (8, 8)),
        ("QDQ", "QInt8", (8, 8)),
        ("QDQ", "QInt4", (4, 16)),
        ("dynamic", "QInt8", (8, 8)),
    ],
)
def test_quantised(form: str, kind: str, bits: tuple[int, int], tmp_path: Path) -> None:
    source, target = network_file(tmp_path), tmp_path / "quantised.onnx"
    weight_type = getattr(quantization.QuantType, kind)
    if form == "dynamic":
        quantization.quantize_dynamic(source, target, weight_type=weight_type)
    else:
        values = quantization.QuantType.QUInt8 if bits[1] == 8 else quantization.QuantType.QInt16
        quantization.quantize_static(
            source, target, Images(), quant_format=getattr(quantization.QuantFormat, form),
            weight_type=weight_type, activation_type=values,
            extra_options={"UseQDQContribOps": True},
        )  # fmt: skip
    plain, network = load(source), load(target)
    assert {(stage.weight_bits, stage.input_bits) for stage in plain.stages} == {(None, None)}
    counts = [[(weights(n, s), macs(n, s)) for s in n.stages] for n in (plain, network)]
    assert counts[0] == counts[1]
    assert one_copy(plain) == one_copy(network)
    assert "barrier" not in {node.op for node in network.nodes}
    found = {(stage.weight_bits, stage.input_bits) for stage in network.stages}
    assert found == {bits}
    again = Network.from_document(network.to_dict(), "again")
    assert (again.nodes, again.sha256) == (network.nodes, network.sha256)
    assert network.sha256 != plain.sha256


def packed(**fields: Any) -> Any:
    """MatMulNBits on 6 tokens of 32 values: 20 columns of 4-bit weights in blocks of 16."""
    attributes = {"K": 32, "N": 20, "bits": 4, "block_size": 16} | fields
    node = helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", **attributes)
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 6, 32))],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(np.zeros((20, 2, 8), np.uint8), "w"), drawn("s", 40)],
    )  # fmt: skip
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=domains)


def test_weights_of_few_bits() -> None:
    network = from_model(packed(), "few.onnx", {})
    stage: Any = network.stages[0]
    assert (weights(network, stage), stage.weight_bits, stage.input_bits) == (32 * 20, 4, None)


@pytest.mark.parametrize("inputs", [["x"], ["x", "s"], ["x", "s", "z", "w", "s", "z"]])
def test_damaged_operators(inputs: list[str]) -> None:
    """Operands that are missing or do not fit are read as far as they say something, or refused."""
    for op in ("QGemm", "QLinearConv", "QLinearMatMul", "QLinearAdd", "QLinearConcat", "QLinearSoftmax"):
        proto = packed()
        proto.graph.node[0].op_type = op
        proto.graph.initializer.append(numpy_helper.from_array(np.zeros(1, np.uint8), "z"))
        del proto.graph.node[0].input[:], proto.graph.node[0].attribute[:]
        proto.graph.node[0].input.extend(inputs)
        with contextlib.suppress(RramallocError):
            from_model(proto, "damaged.onnx", {})


def test_a_quantised_layer_has_the_name_of_its_module() -> None:
    """As in the float file: weights quantised in place, by quantisers written out, and stored quantised."""

    def named(nodes: list[Any], *stored: TensorProto) -> set[str]:
        scalars = [
            numpy_helper.from_array(np.float32(0.1), "s"),
            numpy_helper.from_array(np.int8(0), "z"),
            numpy_helper.from_array(np.array([1, 0], np.int64), "perm"),
        ]
        graph = helper.make_graph(
            nodes, "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4, 8, 8))],
            [helper.make_empty_tensor_value_info("y")],
            [*stored, *scalars],
        )  # fmt: skip
        network = from_model(helper.make_model(graph), "net.onnx", {})
        return {stage.name for stage in network.stages}

    def node(op: str, inputs: str, output: str, **fields: Any) -> Any:
        return helper.make_node(op, inputs.split(), [output], name=f"n_{output}", **fields)

    weight = drawn("blocks.0.dw.weight", 4, 1, 3, 3)
    whole = numpy_helper.from_array(np.zeros((4, 1, 3, 3), np.int8), "blocks.0.dw.weight_quantized")
    free = numpy_helper.from_array(
        numpy_helper.to_array(weight), "blocks.0.dw.parametrizations.weight.original"
    )
    assert named([node("Conv", f"x {weight.name}", "y", group=4)], weight) == {"blocks.0.dw"}
    for first in (weight, free):
        quantised = [node("QuantizeLinear", f"{first.name} s z", "q"), node("DequantizeLinear", "q s z", "w")]
        assert named([*quantised, node("Conv", "x w", "y", group=4)], first) == {"blocks.0.dw"}
        written = [node("Div", f"{first.name} s", "d"), node("Round", "d", "r"), node("Mul", "r s", "w")]
        assert named([*written, node("Conv", "x w", "y", group=4)], first) == {"blocks.0.dw"}
    stored = [node("DequantizeLinear", f"{whole.name} s z", "w"), node("Conv", "x w", "y", group=4)]
    assert named(stored, whole) == {"blocks.0.dw"}
    linear = [
        node("QuantizeLinear", "x s z", "xq"),
        node("QLinearConv", f"xq s z {whole.name} s z s z", "y", group=4),
    ]
    assert named(linear, whole) == {"blocks.0.dw"}
