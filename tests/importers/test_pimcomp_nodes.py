"""PIMCOMP / PIMSYN network JSON: docs/sources/peers.md; shapes follow docs/sources/model.md 2."""

import contextlib
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rramalloc.errors import RramallocError, SpecError
from rramalloc.importers import load
from rramalloc.importers.pimcomp_nodes import from_document, recognises
from rramalloc.network.network import Network
from rramalloc.network.node import Pool

Json = dict[str, Any]


def node(name: str, operation: str, dims: list[int], *provider: str, **param: int) -> Json:
    made: Json = {"name": name, "operation": operation, "output_dim": dims, "bitwidth": 16, "index": 0}
    made |= {"provider": list(provider)} if provider else {"provider_num": 0}
    return made | ({"param": param} if param else {})


def square(kernel: int, stride: int = 1, pad: int = 0, **more: int) -> dict[str, int]:
    pads = dict.fromkeys(("pad_h0", "pad_h1", "pad_w0", "pad_w1"), pad)
    return {"kernel_h": kernel, "kernel_w": kernel, "stride_h": stride, "stride_w": stride} | pads | more


def residual() -> list[Json]:
    return [
        node("x", "OP_INPUT", [1, 3, 32, 32]),
        node("c1", "OP_CONV", [1, 8, 16, 16], "x", **square(3, 2, 1, input_channel=3, output_channel=8)),
        node("r1", "OP_RELU", [1, 8, 16, 16], "c1"),
        node("c2", "OP_CONV", [1, 8, 16, 16], "r1", **square(3, 1, 1, group=8, input_channel=8)),
        node("sum", "OP_ELTWISE", [1, 8, 16, 16], "c2", "r1", eletype=2),
        node("join", "OP_CONCAT", [1, 16, 16, 16], "sum", "r1"),
        node("pool", "OP_POOL", [1, 16, 8, 8], "join", **square(3, 2, 0, pool_method=1)),
        node("fc", "OP_FC", [1, 10], "pool", num_input=1024, num_output=10),
        node("prob", "OP_SOFTMAX", [1, 10], "fc"),
    ]


def test_residual_network() -> None:
    network = from_document(residual(), "net.json")
    assert [stage.name for stage in network.stages] == ["c1", "c2", "fc"]
    assert network.name == "net"
    assert network.shapes["fc_flatten"] == (16 * 8 * 8, 1, 1)
    pool = next(item for item in network.nodes if item.name == "pool")
    assert isinstance(pool, Pool)
    assert pool.ceil_mode  # (16 - 3) / 2 + 1 = 7.5: 8 pixels only when rounded up
    assert pool.op == "avgpool"
    assert network.warnings == ()


def test_both_wrappings_and_files(tmp_path: Path) -> None:
    bare, wrapped = tmp_path / "a.json", tmp_path / "b.json"
    bare.write_text(json.dumps(residual()))
    wrapped.write_text(json.dumps({"node_list": residual(), "reshape_info": {}}))
    assert load(bare).sha256 == load(wrapped).sha256


@pytest.mark.parametrize(
    ("document", "answer"),
    [([], True), ({"node_list": 1}, True), ({"format": "x"}, False), ("x", False), (None, False)],
)
def test_recognises(document: object, answer: bool) -> None:
    assert recognises(document) is answer


@pytest.mark.parametrize(
    ("operation", "source", "dims", "param", "op"),
    [
        ("OP_POOL", [1, 4, 7, 7], [1, 4, 1, 1], {"global": 1, "pool_method": 1}, "global_avgpool"),
        ("OP_POOL", [1, 4, 6, 6], [1, 4, 6, 6], {"kernel_h": 1, "kernel_w": 1}, "maxpool"),
        ("OP_BN", [1, 4, 6, 6], [1, 4, 6, 6], {}, "batchnorm"),
        ("OP_ELTWISE", [1, 4, 6, 6], [1, 4, 6, 6], {"eletype": 2}, "activation"),
        ("OP_SHUFFLE", [1, 4, 6, 6], [1, 4, 6, 6], {"split_factor": 2}, "identity"),
        ("OP_RESHAPE", [1, 4, 6, 6], [1, 2, 2, 6, 6], {}, "identity"),
        ("OP_TRANSPOSE", [1, 2, 2, 6, 6], [1, 2, 2, 6, 6], {}, "identity"),
        ("OP_RESHAPE", [1, 4, 6, 6], [1, 144], {}, "flatten"),
        ("OP_RESHAPE", [1, 4, 6, 6], [1, 36, 4], {}, "barrier"),
        ("OP_FC", [1, 16, 8], [1, 16, 4], {"input_channel": 8}, "linear"),
        ("OP_MATMUL", [1, 8], [1, 4], {}, "linear"),
        ("OP_SLICE", [1, 8, 6, 6], [1, 2, 6, 6], {}, "select"),
        ("OP_SLICE", [1, 8, 6, 6], [1, 8, 3, 6], {}, "barrier"),
        ("OP_UPSAMPLE", [1, 8, 6, 6], [1, 8, 9, 9], {}, "barrier"),
        (
            "OP_PAD",
            [1, 8, 6, 6],
            [1, 8, 9, 13],
            {"pad_2_h": 1, "pad_2_w": 2, "pad_3_h": 3, "pad_3_w": 4},
            "maxpool",
        ),
    ],
)
def test_one_operation(operation: str, source: list[int], dims: list[int], param: Json, op: str) -> None:
    entries = [node("x", "OP_INPUT", source), node("y", operation, dims, "x", **param)]
    network = from_document(entries, "net.json")
    assert network.nodes[-1].op == op
    alone = "all weight layers are linear layers on a single pixel: on the arrays"
    assert all(warning.startswith(alone) for warning in network.warnings)


def test_unknown_operation_is_a_barrier_with_one_warning() -> None:
    entries = [
        node("x", "OP_INPUT", [1, 4, 6, 6]),
        node("a", "OP_WEIRD", [1, 9, 2, 2], "x"),
        node("b", "OP_WEIRD", [1, 9, 2, 2], "a", "x"),
    ]
    network = from_document(entries, "n")
    assert [item.op for item in network.nodes] == ["input", "barrier", "barrier"]
    assert network.warnings == ("operator OP_WEIRD (2 nodes, first 'a') is not known: treated as a barrier",)
    assert [item.name for item in network.approximations] == ["a", "b"]


def _changed(index: int, **fields: Any) -> list[Json]:
    entries = copy.deepcopy(residual())
    for key, value in fields.items():
        if key in ("provider", "output_dim", "name", "operation", "param"):
            entries[index][key] = value
        else:
            entries[index].setdefault("param", {})[key] = value
    return entries


@pytest.mark.parametrize(
    ("document", "place", "reason"),
    [
        ([], "node_list", "at least one"),
        ({"node_list": {}}, "node_list", "must be a list"),
        ([{}], "node 0.name", "must be a text"),
        (_changed(1, name="x"), "node 1 'x'.name", "used twice"),
        (_changed(1, output_dim=[2, 8, 16, 16]), "'c1'.output_dim[0]", "batch must be 1"),
        (_changed(1, output_dim=[1, 8, 15, 16]), "'c1'.output_dim", "must be [1, 8, 16, 16]"),
        (_changed(1, output_dim=[1, 8, 0, 16]), "'c1'.output_dim[2]", "from 1"),
        (_changed(1, output_dim=None), "'c1'.output_dim", "must be a list"),
        (_changed(1, provider=["none"]), "'c1'.provider", "no node is named 'none'"),
        (_changed(1, provider=["x", "x"]), "'c1'.provider", "takes one"),
        (_changed(0, provider=["c1"]), "'x'.provider", "must be empty"),
        (_changed(1, param={}), "'c1'.param.kernel_h", "got nothing"),
        (_changed(1, kernel_h="3"), "'c1'.param.kernel_h", "got '3'"),
        (_changed(1, dilation_h=10**30), "'c1'.param.dilation_h", "from 1"),
        (_changed(1, input_channel=4), "'c1'.param.input_channel", "must be 3"),
        (_changed(3, group=3), "'c2'", "do not divide"),
        (_changed(6, output_dim=[1, 16, 9, 9]), "'pool'.output_dim", "[1, 16, 7, 7]"),
        (_changed(7, num_input=7), "'fc'.param.num_input", "must be 1024"),
        (_changed(2, provider=["sum"]), "", "cycle"),
    ],
)
def test_faults_name_node_and_field(document: object, place: str, reason: str) -> None:
    with pytest.raises(SpecError) as caught:
        from_document(document, "net.json")
    assert caught.value.where.startswith("net.json")
    assert place in caught.value.where
    assert reason in caught.value.reason


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.integers(0, 8), st.sampled_from(["name", "operation", "output_dim", "provider", "param"]), _VALUES)
def test_any_value_gives_a_network_or_a_typed_error(index: int, field: str, value: object) -> None:
    entries = residual()
    entries[index][field] = value
    with contextlib.suppress(RramallocError):
        assert isinstance(from_document(entries, "n"), Network)
