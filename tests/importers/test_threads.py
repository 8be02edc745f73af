"""Two threads that read their first models at the same time, each in a process where nothing is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hostile.documents import onnx_bytes

TWO_THREADS = """
import sys, threading, time
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("rramalloc"):
            time.sleep(hash(name) % 3 / 300)
sys.meta_path.insert(0, Slow())
import rramalloc
start, faults = threading.Barrier(2), []
def call(path):
    start.wait()
    try:
        if path == "module":
            import torch
            rramalloc.from_torch(torch.nn.Conv2d(3, 4, 3), (1, 3, 8, 8))
        elif sys.argv[1] == "optimize":
            rramalloc.optimize(path, 60, work=0)
        else:
            rramalloc.load(path)
    except Exception as error:
        faults.append(error)
threads = [threading.Thread(target=call, args=(path,)) for path in sys.argv[2:]]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(repr(faults) if faults else 0)
"""

WITH_TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="reads a module of torch")


@pytest.mark.parametrize(
    ("call", "names"),
    [
        ("load", "m.onnx m.onnx"),
        pytest.param("load", "m.onnx module", marks=WITH_TORCH),
        pytest.param("load", "module module", marks=WITH_TORCH),
        pytest.param("optimize", "m.onnx module", marks=WITH_TORCH),
    ],
)
def test_two_threads_read_their_first_models(call: str, names: str, tmp_path: Path) -> None:
    """Some imports are slowed by milliseconds, other ones in every run, so that threads meet in them."""
    (tmp_path / "m.onnx").write_bytes(onnx_bytes())
    for seed in "12":
        done = subprocess.run(
            [sys.executable, "-c", TWO_THREADS, call, *names.split()],
            cwd=tmp_path, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
