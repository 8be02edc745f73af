"""A small ONNX model in the making, fed with arrays and run by the reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

OPSET = 19


class Model:
    """Operators one after the other; values are named by number."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._feeds: dict[str, npt.NDArray[Any]] = {}

    def feed(self, value: npt.NDArray[Any] | float) -> str:
        """An input of the model with its value."""
        name = f"in{len(self._feeds)}"
        self._feeds[name] = np.asarray(value)
        return name

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """An operator with one output."""
        from onnx import helper

        name = f"out{len(self._nodes)}"
        lists = {key: list(v) if isinstance(v, tuple) else v for key, v in attributes.items()}
        self._nodes.append(helper.make_node(op, list(inputs), [name], **lists))
        return name

    def run(self, output: str) -> npt.NDArray[np.float64]:
        """The value of an output."""
        from onnx import TensorProto, helper
        from onnx.reference import ReferenceEvaluator

        kinds = {"f": TensorProto.DOUBLE, "i": TensorProto.INT64}
        inputs = [
            helper.make_tensor_value_info(name, kinds[value.dtype.kind], value.shape)
            for name, value in self._feeds.items()
        ]
        outputs = [helper.make_tensor_value_info(output, TensorProto.DOUBLE, None)]
        graph = helper.make_graph(self._nodes, "node", inputs, outputs)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        found: npt.NDArray[np.float64] = ReferenceEvaluator(model).run(None, self._feeds)[0]
        return found
