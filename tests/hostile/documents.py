"""Undamaged files of every kind that a user can hand in, small ones, for others to damage."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

_HARDWARE = """\
name = "h"
source = "s"
[crossbar]
wordlines = 128
bitlines = 128
cell_bits = 2
[precision]
weight_bits = 8
input_bits = 8
output_bits = 8
signed = "offset"
[chip]
arrays_per_tile = 16
tiles = [4, 4]
chips = [2, 1]
hop_ns_tile = 1.0
hop_ns_chip = 34.0
bandwidth_tile_gb_s = 32.0
bandwidth_chip_gb_s = 12.8
[energy]
read_pj = 1.0
leakage_mw = 0.1
area_um2 = 5.0
pj_per_byte = 0.5
periphery_um2 = 9.0
[write]
write_ns_per_row = 50.0
write_pj = 1.0
parallel = 2
[units]
processors = 4
storage_units = 4
unit_bytes = 65536
bandwidth_in_gb_s = 8.0
bandwidth_out_gb_s = 8.0
"""
_STEPS = """\
[timing]
step_ns = 100.0
[memory]
bandwidth_gb_s = 128.0
reuse = "row"
scope = "shared"
"""
_CLOCKED = """\
[timing]
read_ns = 100.0
dac_bits = 1
adc_ns = 1.0
columns_per_adc = 128
rows_per_read = 64
clock = "own"
tick_ns = 10.0
[digital]
ns_per_pixel = {add = 0.5, maxpool = 0.5}
"""
HARDWARE = {"h.toml": _HARDWARE + _STEPS, "own.toml": _HARDWARE + _CLOCKED}
_STRATEGY = """
{"format": "rramalloc-strategy/1", "name": "uneven", "tasks": {
  "*": [{"compute": [1, 2], "storage": [1, 2]}, {"compute": [3], "storage": [3, 4]}, {"idle": ["C4"]}],
  "c1": [{"compute": [1, 2, 3], "storage": [1, 2, 3], "share": 0.75},
         {"compute": [4], "storage": [4], "share": 0.25}]}}
"""
_PAIR = """
{"chip": {"chiplets": [1, 2], "units": [1, 4], "hop_cycles_inside": 1, "hop_cycles_between": 5,
          "systolic": 4},
 "groups": [["v"], ["u"]],
 "operators": {
   "v": {"work": [3, 3, 3], "strategy": 1, "latency": [10, 25], "submesh": [[1, 1], [1, 1]],
         "first": [[0, 0], [0, 1]]},
   "u": {"compute": 30, "submesh": [[1, 1], [1, 4]], "first": [[0, 1], [0, 0]], "last": [[0, 1], [0, 3]],
         "transfers": 100, "reduce_to": "last"}},
 "edges": [{"from": "v", "to": "u", "latency": [[10], [75]], "transfers": 100}]}
"""
_NETWORK = """
{"format": "rramalloc-network/1", "name": "small", "nodes": [
  {"name": "input", "op": "input", "shape": [3, 12, 12]},
  {"name": "c1", "op": "conv", "inputs": ["input"], "out_channels": 16, "kernel": [3, 3], "pads": 1},
  {"name": "p1", "op": "maxpool", "inputs": ["c1"], "kernel": 2, "stride": 2},
  {"name": "c2", "op": "conv", "inputs": ["p1"], "out_channels": 16, "kernel": 3, "pads": 1},
  {"name": "c3", "op": "conv", "inputs": ["c2"], "out_channels": 16, "kernel": 1},
  {"name": "sum", "op": "add", "inputs": ["c3", "p1"]},
  {"name": "flat", "op": "flatten", "inputs": ["sum"]},
  {"name": "fc", "op": "linear", "inputs": ["flat"], "out_features": 10}]}
"""
_PIMCOMP = """
[{"operation": "OP_INPUT", "name": "x", "index": 0, "provider_num": 0, "provider": [],
  "output_dim": [1, 3, 8, 8]},
 {"operation": "OP_CONV", "name": "c", "index": 1, "provider_num": 1, "provider": ["x"],
  "output_dim": [1, 4, 8, 8],
  "param": {"kernel_h": 3, "kernel_w": 3, "stride_h": 1, "stride_w": 1, "pad_h0": 1, "pad_h1": 1,
            "pad_w0": 1, "pad_w1": 1, "dilation_h": 1, "dilation_w": 1, "input_channel": 3,
            "output_channel": 4, "group": 1}},
 {"operation": "OP_RELU", "name": "r", "index": 2, "provider_num": 1, "provider": ["c"],
  "output_dim": [1, 4, 8, 8]}]
"""
DOCUMENTS = {
    **HARDWARE,
    "s.toml": """\
networks = ["n.json"]
arrays = ["x1.5", 40]
crossbars = ["128x128"]
methods = ["interval", "none"]
seeds = [0]
hardware = ["h.toml"]
work = 1
""",
    "n.json": _NETWORK,
    "bare.json": '{"copies": {"c1": 1, "c3": 1}}',
    "blocks.json": '{"copies": {"c1": 2}, "block": {"c1": [1, 2]}}',
    "none.json": '{"copies": {}}',
    "strategy.json": _STRATEGY,
    "pair.json": _PAIR,
    "pimcomp.json": _PIMCOMP,
    "bits.csv": """\
layer,weight_bits,input_bits,sensitivity
c1,8,8,0
c1,4,8,0.5
c2,8,8,0
c2,2,4,1.5
""",
    "t.csv": """\
name,c_in,c_out,w_out,h_out,k,s,p,k_pool,s_pool,p_pool
c1,3,16,16,16,3,1,1,2,2,0
c2,16,32,8,8,3,1,1,1,1,0
c3,32,32,8,8,3,1,1,1,1,0
""",
}
"""Files of text by their name."""


def onnx_bytes() -> bytes:
    """Two convolutions with a pooling between them and a classifier."""
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
    sizes = {"w1": (4, 3, 3, 3), "w2": (4, 4, 2, 2), "g": (16, 5)}
    weights = [numpy_helper.from_array(np.zeros(dims, np.float32), name) for name, dims in sizes.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    return bytes(model.SerializeToString())


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


def with_value(text: str, table: str, field: str, value: Any) -> str:
    """A TOML document with one value changed."""
    document = tomllib.loads(text)
    document[table][field] = value
    return toml_of(document)
