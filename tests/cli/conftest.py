"""The command line in this process (fast) or in one of its own, and files to give it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import program
import pytest
from program import Run


@pytest.fixture
def run() -> Run:
    """Run a command in this process."""
    return program.run


@pytest.fixture
def start() -> Callable[..., subprocess.Popen[str]]:
    """Start a command as a process of its own, with pipes."""

    def call(*arguments: object, **settings: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "rramalloc", *map(str, arguments)]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        environment = os.environ | settings.pop("env", {})
        return subprocess.Popen(command, **(pipes | settings), env=environment)

    return call


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Two convolutions, a pooling and a classifier: quick to optimise."""
    nodes = [
        {"name": "input", "op": "input", "shape": [3, 16, 16]},
        {"name": "conv1", "op": "conv", "inputs": ["input"], "out_channels": 16, "kernel": 3, "pads": 1},
        {"name": "pool1", "op": "maxpool", "inputs": ["conv1"], "kernel": 2, "stride": 2},
        {"name": "conv2", "op": "conv", "inputs": ["pool1"], "out_channels": 32, "kernel": 3, "pads": 1},
        {"name": "flat", "op": "flatten", "inputs": ["conv2"]},
        {"name": "fc", "op": "linear", "inputs": ["flat"], "out_features": 10},
    ]
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps({"format": "rramalloc-network/1", "name": "tiny", "nodes": nodes}))
    return path
