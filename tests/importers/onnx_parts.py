"""Parts of ONNX models: inputs, weights and constants."""

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def info(name: str, *dims: Any) -> Any:
    return helper.make_tensor_value_info(name, FLOAT, dims)


def weight(name: str, *dims: int) -> TensorProto:
    return helper.make_tensor(name, FLOAT, dims, np.zeros(int(np.prod(dims)), dtype=np.float32))


def ints(name: str, *values: int) -> TensorProto:
    return numpy_helper.from_array(np.array(values, dtype=np.int64), name)
