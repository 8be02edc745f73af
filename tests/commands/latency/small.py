"""A small network with every kind of layer, and devices to time it on."""

from __future__ import annotations

from typing import Any

from rramalloc.network.network import Network

NODES: list[dict[str, Any]] = [
    {"name": "in", "op": "input", "shape": [3, 32, 32]},
    {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 16, "kernel": 3, "pads": 1},
    {"name": "relu", "op": "relu", "inputs": ["a"]},
    {"name": "pool", "op": "maxpool", "inputs": ["relu"], "kernel": 2, "stride": 2},
    {"name": "b", "op": "conv", "inputs": ["pool"], "out_channels": 16, "kernel": 3, "pads": 1},
    {"name": "c", "op": "conv", "inputs": ["pool"], "out_channels": 16, "kernel": 3, "pads": 1},
    {"name": "sum", "op": "add", "inputs": ["b", "c"]},
    {"name": "drop", "op": "dropout", "inputs": ["sum"]},
    {"name": "flat", "op": "flatten", "inputs": ["drop"]},
    {"name": "fc", "op": "linear", "inputs": ["flat"], "out_features": 10},
]
NETWORK = Network.build("small", NODES)
DISTINCT = ("conv", "relu", "maxpool", "conv", "add", "linear")
"""Operators of the layers that differ, in network order: b and c are the same, drop and flat are free."""
