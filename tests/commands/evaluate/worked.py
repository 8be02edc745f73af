"""A network of three layers, a chip and two strategies whose matrices are worked out by hand.

Values have 16 bits = 2 bytes (preset `plain`). Costs: 0.75 ns per byte for conv, 0.25 for all others;
2 bytes per ns in, 1 byte per ns out.

layer  bytes in           bytes out          weights             in   compute   out   T
conv1  2*4*4*2 = 64       4*4*4*2 = 128      1*1*2*4*2 = 16      32   48        128   208
conv2  4*4*4*2 = 128      8*2*2*2 = 64       2*2*4*8*2 = 256     64   96        64    224
fc     8*2*2*2 = 64       10*2    = 20       32*10*2   = 640     32   16        20    68

Strategy "whole": one subtask has everything: 208 + 224 + 68 = 500 ns.
Strategy "split": conv1 has shares 0.75 and 0.25: 0.75 * 208 = 156 ns; conv2's 4 windows are dealt 2 and 2:
0.5 * 224 = 112 ns; fc has a single window, so one of its two subtasks has all of it: 68 ns. Sum 336 ns.
"""

from __future__ import annotations

import copy
from typing import Any

NETWORK: dict[str, Any] = {
    "format": "rramalloc-network/1",
    "name": "worked",
    "nodes": [
        {"name": "input", "op": "input", "shape": [2, 4, 4]},
        {"name": "conv1", "op": "conv", "inputs": ["input"], "out_channels": 4, "kernel": 1},
        {"name": "relu1", "op": "relu", "inputs": ["conv1"]},
        {"name": "conv2", "op": "conv", "inputs": ["relu1"], "out_channels": 8, "kernel": 2, "stride": 2},
        {"name": "flat", "op": "flatten", "inputs": ["conv2"]},
        {"name": "fc", "op": "linear", "inputs": ["flat"], "out_features": 10},
    ],
}
CHIP: dict[str, Any] = {
    "processors": 3,
    "storage_units": 3,
    "unit_bytes": 400,
    "bandwidth_in_gb_s": 2,
    "bandwidth_out_gb_s": 1,
    "ns_per_byte": {"default": 0.25, "conv": 0.75},
}
CHIP_TOML = """name = "worked"
source = "test"
crossbar = {wordlines = 128, bitlines = 128, cell_bits = 16}
precision = {weight_bits = 16, input_bits = 16, output_bits = 16, signed = "offset"}
[units]
processors = 3
storage_units = 3
unit_bytes = 400
bandwidth_in_gb_s = 2
bandwidth_out_gb_s = 1
[units.ns_per_byte]
default = 0.25
conv = 0.75
"""
WHOLE: dict[str, Any] = {
    "format": "rramalloc-strategy/1",
    "name": "whole",
    "tasks": {"*": [{"compute": [1, 2, 3], "storage": [1, 2, 3]}]},
}
SPLIT: dict[str, Any] = {
    "format": "rramalloc-strategy/1",
    "name": "split",
    "tasks": {
        "conv1": [
            {"compute": [3, 1], "storage": [2], "share": 0.75},
            {"compute": [2], "storage": [1, 3], "share": 0.25},
        ],
        "*": [{"compute": [1, 2], "storage": [1, 2]}, {"compute": [3], "storage": [3]}],
    },
}
SPLIT_CSV = """task,subtask,compute,storage,share
conv1,1,3 1,2,0.75
conv1,2,2,1;3,0.25
*,1,1 2,1 2,
*,2,3,3,
"""
TASKS = ("conv1", "conv2", "fc")
MATRIX = {"whole": (208, 224, 68), "split": (156, 112, 68)}
TOTALS = {"whole": 500, "split": 336}
DOMINANT = ("out_transfer", "compute", "in_transfer")


def changed(document: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A copy with other fields."""
    return copy.deepcopy(document) | fields
