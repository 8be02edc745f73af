"""Policies of CIM-AQ and quantised networks as choices of bits: what a row is for, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rramalloc
from rramalloc.allocation.bit_policy import read_bits, read_policy
from rramalloc.errors import SpecError
from rramalloc.hardware.tables import Precision
from rramalloc.network.network import Network

pytestmark = pytest.mark.quick

PRECISION = Precision(weight_bits=8, input_bits=7, output_bits=8, signed="offset")


def conv(name: str, after: str, channels: int, kernel: int, **more: Any) -> dict[str, Any]:
    pads = kernel // 2
    fields = {"out_channels": channels, "kernel": kernel, "pads": pads}
    return {"name": name, "op": "conv", "inputs": [after]} | fields | more


def residual(**bits: Any) -> Network:
    """A block with a downsampling branch, which stands last, and a classifier. bits: of stages, by name."""
    nodes = [
        {"name": "in", "op": "input", "shape": [2, 4, 4]},
        conv("first", "in", 3, 3, stride=2), conv("second", "first", 3, 3), conv("third", "second", 3, 3),
        conv("down", "in", 3, 1, stride=2),
        {"name": "sum", "op": "add", "inputs": ["third", "down"]},
        {"name": "flat", "op": "flatten", "inputs": ["sum"]},
        {"name": "fc", "op": "linear", "inputs": ["flat"], "out_features": 5},
    ]  # fmt: skip
    return Network.build("residual", [node | bits.get(str(node["name"]), {}) for node in nodes])


YAML = """\
---
# sizes of the layers
layer_dimensions:
  # downsampling first
  - type: Conv2D
    output_dim: 3
    input_dim: 2*1*1
    mvm_invocations: 2*2  # 2 x 2

  - type: Conv2D
    output_dim: 3
    input_dim: 2*3*3
    mvm_invocations: 4
  - type: Conv2D
    output_dim: 3
    input_dim: 27
    mvm_invocations: 2 * 2
  - type: MatMul
    output_dim: 3
    input_dim: 27
    mvm_invocations: 4
    repeat_factor: 12
  - type: Conv2D
    output_dim: 3
    input_dim: 3*3*3
    mvm_invocations: 2*2
  - type: Dense
    output_dim: 5
    input_dim: 12
"""
POLICY = [[8, 1], [8, 2], [8, 3], [8, 4], [8, 5], [4, 6]]


def files(folder: Path, text: str = YAML, policy: Any = POLICY) -> tuple[Path, Path]:
    """A policy and its layers."""
    np.save(folder / "policy.npy", np.array(policy))
    (folder / "layers.yaml").write_text(text)
    return folder / "policy.npy", folder / "layers.yaml"


def bits_of(policy: Path, layers: Path | None, network: Network) -> dict[str, tuple[int, int]]:
    table = read_bits(policy, layers, network, PRECISION)
    assert all(len(own) == 1 and own[0].sensitivity == 0 for own in table.choices.values())
    return {name: own[0][:2] for name, own in table.choices.items()}


def test_rows_are_matched_by_their_sizes_and_then_in_order(tmp_path: Path) -> None:
    """`second` and `third` have the same sizes, as has the product of two tensors, which has no stage."""
    assert bits_of(*files(tmp_path), residual()) == {
        "down": (8, 1), "first": (8, 2), "second": (8, 3), "third": (8, 5), "fc": (4, 6),
    }  # fmt: skip


def test_layers_of_equal_sizes_side_by_side_need_equal_bits(tmp_path: Path) -> None:
    """No data flow says which of them is first: that is how ResNet-50's first block is."""
    nodes = [
        {"name": "in", "op": "input", "shape": [2, 4, 4]},
        conv("left", "in", 3, 1), conv("right", "in", 3, 1),
        {"name": "sum", "op": "add", "inputs": ["left", "right"]},
    ]  # fmt: skip
    network = Network.build("twins", nodes)
    row = "  - type: Conv2D\n    output_dim: 3\n    input_dim: 2\n    mvm_invocations: 16\n"
    text = "layer_dimensions:\n" + 2 * row
    assert bits_of(*files(tmp_path, text, [[4, 3], [4, 3]]), network) == {"left": (4, 3), "right": (4, 3)}
    with pytest.raises(SpecError, match="neither 'left' nor 'right' is before the other: give a CSV"):
        bits_of(*files(tmp_path, text, [[4, 3], [4, 5]]), network)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        pytest.param("layer_dimensions:", "layers:", "line 3: must begin with 'layer_dimensions:'"),
        pytest.param(YAML, "", "must begin with"),
        pytest.param("27\n", "28\n", "line 14: has 1 layers of 28 rows, 3 columns and 4 windows"),
        pytest.param("  - type: Dense", "  - type: Gemm", "line 27: type must be one of Conv2D"),
        pytest.param("output_dim: 5", "output_dims: 5", "line 28: field 'output_dims' is not known"),
        pytest.param("output_dim: 5", "input_dim: 5", "line 29: field 'input_dim' appears twice"),
        pytest.param("    input_dim: 12\n", "", "line 27: field 'input_dim' of this layer is missing"),
        pytest.param("input_dim: 12", "input_dim: 12+1", "line 29: input_dim must be a whole number"),
        pytest.param("input_dim: 12", "input_dim: 0", "line 29: input_dim must be a whole number"),
        pytest.param("input_dim: 12", "input_dim: 9999999999*999", "line 29: input_dim must be"),
        pytest.param("input_dim: 12", "input_dim: !!python/name:os.system", "line 29: input_dim must be"),
        pytest.param("    input_dim: 12", "  input_dim: 12", "line 29: must be indented"),
        pytest.param("    input_dim: 12", "\tinput_dim: 12", "line 29: must be 'name: value'"),
        pytest.param("Dense", "Dense\n    repeat_factor: 2", "line 27: repeat_factor of a Dense must be 1"),
        pytest.param(YAML[YAML.index("  - type: Dense"):], "", "has 6 rows, the YAML has 5 layers"),
    ],
)  # fmt: skip
def test_layers_that_are_refused(old: str, new: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=words):
        bits_of(*files(tmp_path, YAML.replace(old, new)), residual())


def test_every_layer_needs_a_row(tmp_path: Path) -> None:
    text = YAML[: YAML.index("  - type: Dense")]
    with pytest.raises(SpecError, match=r"has 0 layers of 12 rows, 5 columns and 1 windows, .* has 1: fc"):
        bits_of(*files(tmp_path, text, POLICY[:-1]), residual())


@settings(max_examples=30)
@given(
    rows=st.lists(st.tuples(st.integers(1, 64), st.integers(1, 64)), min_size=1, max_size=9),
    kind=st.sampled_from(["i1", "u1", "<i2", ">u4", "<i8", ">i8", "u8"]),
    order=st.sampled_from(["C", "F"]),
)
def test_policies_in_every_form_of_numpy(rows: list[tuple[int, int]], kind: str, order: Any) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "policy.npy")
        np.save(path, np.asarray(rows, dtype=kind, order=order))
        assert read_policy(path) == rows


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        pytest.param([[8, 0]], "row 0: input bits must be from 1 to 64, got 0", id="bits"),
        pytest.param([[8, 8], [-1, 8]], "row 1: weight bits must be from 1 to 64, got -1", id="negative"),
        pytest.param([8, 8], "must be what numpy.save writes", id="one column"),
        pytest.param([[8.0, 8.0]], "must be what numpy.save writes", id="no whole numbers"),
        pytest.param(np.array([[{}, {}]]), "must be what numpy.save writes", id="pickled objects"),
    ],
)
def test_policies_that_are_refused(policy: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=words):
        bits_of(*files(tmp_path, policy=policy), residual())


def test_a_policy_that_is_cut_off_or_names_a_huge_shape(tmp_path: Path) -> None:
    path, _ = files(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(SpecError, match="names 6 rows of two numbers, but holds 95 bytes"):
        read_policy(path)
    path.write_bytes(whole.replace(b"(6, 2), }        ", b"(600000000, 2), }"))
    with pytest.raises(SpecError, match="names 600000000 rows"):
        read_policy(path)


def test_a_policy_needs_its_layers_and_nothing_else_does(tmp_path: Path) -> None:
    policy, layers = files(tmp_path)
    with pytest.raises(SpecError, match="give CIM-AQ's YAML, bits_layers FILE"):
        rramalloc.optimize(residual(), 60, bits=policy)
    with pytest.raises(SpecError, match="is for a policy"):
        rramalloc.optimize(residual(), 60, bits=tmp_path / "bits.csv", bits_layers=layers)
    with pytest.raises(SpecError, match="which is not given"):
        rramalloc.optimize(residual(), 60, bits_layers=layers)


def test_bits_of_a_quantised_network(tmp_path: Path) -> None:
    """By name; what it leaves open is the hardware's. Under other names by sizes and order, as a policy."""
    quantised = residual(first={"weight_bits": 3, "input_bits": 4}, third={"weight_bits": 2})
    path = tmp_path / "quantised.json"
    quantised.save(path)
    expected = {"first": (3, 4), "second": (8, 7), "third": (2, 7), "down": (8, 7), "fc": (8, 7)}
    assert bits_of(path, None, residual()) == expected
    path.write_text(path.read_text().replace('"third"', '"conv_3"'))
    assert bits_of(path, None, residual()) == expected
    residual().save(path)
    with pytest.raises(SpecError, match="it is not quantised"):
        bits_of(path, None, residual())


def test_the_allocation_has_the_bits_of_the_policy(tmp_path: Path) -> None:
    policy, layers = files(tmp_path)
    found = rramalloc.optimize(
        residual(), 60, hardware="isaac", fc="crossbar", bits=policy, bits_layers=layers
    )
    assert found.bits["third"] == (8, 5)
    assert found.bits["fc"] == (4, 6)
    assert found.sensitivity == 0
