"""A tiny network, rows without worker processes, and looks into the folders that sweeps leave behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import rramalloc
from rramalloc.commands.sweep.compute import results_of
from rramalloc.commands.sweep.rows import row_of
from rramalloc.commands.sweep.spec import Grid, read_spec

NODES = [
    {"name": "input", "op": "input", "shape": [3, 16, 16]},
    {"name": "conv1", "op": "conv", "inputs": ["input"], "out_channels": 16, "kernel": 3, "pads": 1},
    {"name": "pool1", "op": "maxpool", "inputs": ["conv1"], "kernel": 2, "stride": 2},
    {"name": "conv2", "op": "conv", "inputs": ["pool1"], "out_channels": 32, "kernel": 3, "pads": 1},
    {"name": "flat", "op": "flatten", "inputs": ["conv2"]},
    {"name": "fc", "op": "linear", "inputs": ["flat"], "out_features": 10},
]
"""conv1: 27 rows, 16 columns, 256 windows; conv2: 144 rows, 32 columns, 64 windows: 1 + 2 arrays of 128x128."""  # noqa: E501


def network(name: str = "tiny") -> str:
    """The network as JSON."""
    return json.dumps({"format": "rramalloc-network/1", "name": name, "nodes": NODES})


def rows_of(networks: object, **lists: Any) -> list[dict[str, Any]]:
    """Rows of a spec, computed in this process."""
    grid = Grid.read(*read_spec({"networks": str(networks)} | lists))
    return [row_of(point, results_of(point)) for point in grid.points()]


def content(folder: Path) -> dict[str, bytes]:
    """Bytes of every file by name; the database is there, but its pages follow the order of the rows."""
    files = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    return files | dict.fromkeys(set(files) & {"sweep.sqlite"}, b"")


def rows_on_disk(folder: Path) -> int:
    """Rows that a folder holds already, 0 before it is a sweep's."""
    try:
        return rramalloc.sweep_status(folder).done
    except rramalloc.RramallocError:
        return 0
