"""Damaged copies of everything that a user can hand in: served or refused, never a crash."""

from __future__ import annotations

import copy
import io
import json
import math
import random
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper

Behaves = Callable[..., Any]

_NUMBERS = (-1, 0, 1, 3, 0.5, 10**18, -(10**18), 2**31 - 1, 2**63, 10**400, 1e308, float("nan"), float("inf"))
_TEXTS = ("", "x", "input", "conv1", "\x00", "\ud800", "n" * 2000)
VALUES: tuple[Any, ...] = (None, True, *_NUMBERS, *_TEXTS, [], {}, [[]], [1, 2], [1] * 100, {"op": "conv"})


def places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) of a document."""
    items: Any = ()
    if isinstance(document, dict):
        items = document.items()
    elif isinstance(document, list):
        items = enumerate(document)
    for key, value in list(items):
        yield document, key
        yield from places(value)


def damaged(document: Any, seed: int, cuts: int = 1) -> Any:
    """A copy with some values replaced, removed, doubled or moved."""
    chance = random.Random(seed)
    document = copy.deepcopy(document)
    for _ in range(cuts):
        container, key = chance.choice(list(places(document)) or [({0: 0}, 0)])
        match chance.randrange(6):
            case 0:
                del container[key]
            case 1 if isinstance(container, dict):
                container[f"{key}_"] = container.pop(key)
            case 2 if isinstance(container, list):
                container.insert(chance.randrange(len(container) + 1), container[key])
            case 3 if isinstance(container, list):
                chance.shuffle(container)
            case _:
                container[key] = copy.deepcopy(chance.choice(VALUES))
    return document


def bitten(content: bytes, seed: int) -> bytes:
    """A copy that is cut off, has bytes changed, or has a part twice."""
    chance = random.Random(seed)
    place = chance.randrange(len(content))
    match chance.randrange(4):
        case 0:
            return content[:place]
        case 1:
            changed = bytearray(content)
            for _ in range(chance.randrange(1, 20)):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
            return bytes(changed)
        case 2:
            return content[:place] + chance.randbytes(8) + content[place:]
    return content[:place] + content[chance.randrange(len(content)) :]


def as_json(document: Any) -> bytes:
    return json.dumps(document).encode()


@given(st.randoms(use_true_random=False), st.integers(0, 2**32))
def test_any_fields_of_a_node(chance: random.Random, seed: int) -> None:
    """All fields of one node hostile at once: a Network or an error of the package."""
    from rramalloc.errors import RramallocError
    from rramalloc.network.network import Network

    fields = {
        name: chance.choice(VALUES) for name in ("kernel", "stride", "pads", "dilation", "groups", "shape")
    }
    fields |= {"scale": chance.choice(VALUES), "out_channels": chance.choice(VALUES)}
    operator = chance.choice(
        ["conv", "maxpool", "upsample", "barrier", "linear", "concat", "input", "select"]
    )
    chosen = dict(chance.sample(sorted(fields.items()), chance.randrange(1, 4)))
    node = {"name": "conv1", "op": operator, "inputs": ["input"]} | chosen
    told = ""
    try:
        Network.build("n", [{"name": "input", "op": "input", "shape": [3, 8, 8]}, node])
    except RramallocError as error:
        told = str(error)
    assert not told or told.startswith("n: ")


def toml_of(values: dict[str, Any]) -> str:
    """A TOML document of tables of plain values; what TOML cannot say is left as JSON writes it."""
    lines, tables = [], []
    for key, value in values.items():
        if isinstance(value, dict):
            tables.append(f"[{key}]\n" + "".join(f"{name} = {_toml_value(v)}\n" for name, v in value.items()))
        else:
            lines.append(f"{key} = {json.dumps(value)}\n")
    return "".join(lines) + "".join(tables)


def _toml_value(value: Any) -> str:
    if not isinstance(value, dict):
        return json.dumps(value)
    return "{" + ", ".join(f"{name} = {_toml_value(inner)}" for name, inner in value.items()) + "}"


@pytest.fixture(scope="module")
def allocation() -> Any:
    from rramalloc import api

    return api.optimize("alexnet", 800, work=0).to_dict()


PIMCOMP = [
    {
        "operation": "OP_INPUT",
        "name": "x",
        "index": 0,
        "provider_num": 0,
        "provider": [],
        "output_dim": [1, 3, 8, 8],
    },
    {
        "operation": "OP_CONV",
        "name": "c",
        "index": 1,
        "provider_num": 1,
        "provider": ["x"],
        "output_dim": [1, 4, 8, 8],
        "param": {
            "kernel_h": 3,
            "kernel_w": 3,
            "stride_h": 1,
            "stride_w": 1,
            "pad_h0": 1,
            "pad_h1": 1,
            "pad_w0": 1,
            "pad_w1": 1,
            "dilation_h": 1,
            "dilation_w": 1,
            "input_channel": 3,
            "output_channel": 4,
            "group": 1,
        },
    },
    {
        "operation": "OP_RELU",
        "name": "r",
        "index": 2,
        "provider_num": 1,
        "provider": ["c"],
        "output_dim": [1, 4, 8, 8],
    },
]


def onnx_bytes() -> bytes:
    """Two convolutions with a pooling between them and a classifier."""

    def weight(name: str, *dims: int) -> TensorProto:
        return helper.make_tensor(name, TensorProto.FLOAT, dims, bytes(4 * _product(dims)), raw=True)

    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["c", "w2"], ["d"], strides=[2, 2]),
        helper.make_node("Flatten", ["d"], ["e"]),
        helper.make_node("Gemm", ["e", "g"], ["y"]),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
        for name, dims in (("x", [1, 3, 8, 8]), ("y", [1, 5]))
    ]
    weights = [weight("w1", 4, 3, 3, 3), weight("w2", 4, 4, 2, 2), weight("g", 16, 5)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    model: ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    return bytes(model.SerializeToString())


def _product(dims: tuple[int, ...]) -> int:
    result = 1
    for size in dims:
        result *= size
    return result


def tensor(name: str) -> dict[str, Any]:
    return {"as_tensor": {"name": name}}


def operation(target: str, output: str, *arguments: Any) -> dict[str, Any]:
    inputs = [{"name": name, "arg": value, "kind": 2 - ("as_tensor" in value)} for name, value in arguments]
    return {
        "target": f"torch.ops.aten.{target}",
        "inputs": inputs,
        "outputs": [tensor(output)],
        "metadata": {},
        "name": output,
    }


def sizes(*dims: int) -> dict[str, Any]:
    strides = [{"as_int": math.prod(dims[axis + 1 :])} for axis in range(len(dims))]
    return {
        "dtype": 7,
        "sizes": [{"as_int": size} for size in dims],
        "strides": strides,
        "layout": 7,
        "requires_grad": False,
        "device": {"type": "cpu", "index": None},
        "storage_offset": {"as_int": 0},
    }


def torch_program() -> dict[str, Any]:
    """A convolution, its relu and the sum of both, as torch.export writes them."""
    pair = [("stride", {"as_ints": [1, 1]}), ("padding", {"as_ints": [1, 1]})]
    nodes = [
        operation("conv2d.default", "a", ("input", tensor("x")), ("weight", tensor("w")), *pair),
        operation("relu.default", "b", ("self", tensor("a"))),
        operation("add.Tensor", "c", ("self", tensor("a")), ("other", tensor("b"))),
    ]
    values = {name: sizes(1, 4, 8, 8) for name in "abc"} | {"x": sizes(1, 3, 8, 8), "w": sizes(4, 3, 3, 3)}
    graph = {
        "inputs": [tensor("w"), tensor("x")],
        "outputs": [tensor("c")],
        "nodes": nodes,
        "tensor_values": values,
        "sym_int_values": {},
        "sym_bool_values": {},
        "is_single_tensor_return": False,
    }
    parameter = {"parameter": {"arg": {"name": "w"}, "parameter_name": "conv.weight"}}
    outputs = [{"user_output": {"arg": tensor("c")}}]
    signature = {"input_specs": [parameter, {"user_input": {"arg": tensor("x")}}], "output_specs": outputs}
    module = {"graph": graph, "signature": signature, "module_call_graph": []}
    return {
        "graph_module": module,
        "schema_version": {"major": 8, "minor": 0},
        "range_constraints": {},
        "opset_version": {"aten": 10},
        "verifiers": ["TRAINING"],
        "torch_version": "2.13.0",
    }


def archive(document: Any) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr("model/models/model.json", json.dumps(document))
    return content.getvalue()
