"""Two threads that read their first models at the same time, each in a process where nothing is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hostile.documents import archive, onnx_bytes, torch_program

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
        rramalloc.optimize(path, 60, work=0) if sys.argv[1] == "optimize" else rramalloc.load(path)
    except Exception as error:
        faults.append(error)
threads = [threading.Thread(target=call, args=(path,)) for path in sys.argv[2:]]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(repr(faults) if faults else 0)
"""

WITH_TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="reads .pt2 by torch")


@pytest.mark.parametrize(
    ("call", "names"),
    [
        ("load", "m.onnx m.onnx"),
        pytest.param("load", "m.onnx m.pt2", marks=WITH_TORCH),
        pytest.param("load", "m.pt2 m.pt2", marks=WITH_TORCH),
        pytest.param("optimize", "m.onnx m.pt2", marks=WITH_TORCH),
    ],
)
def test_two_threads_read_their_first_models(call: str, names: str, tmp_path: Path) -> None:
    """Some imports are slowed by milliseconds, other ones in every run, so that threads meet in them."""
    (tmp_path / "m.onnx").write_bytes(onnx_bytes())
    (tmp_path / "m.pt2").write_bytes(archive(torch_program()))
    for seed in "12":
        done = subprocess.run(
            [sys.executable, "-c", TWO_THREADS, call, *names.split()],
            cwd=tmp_path, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
