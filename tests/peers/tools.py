"""The tools that exports are written for: unpacked and built once, from archives that the user has.

RRAMALLOC_PEERS names the folder of the archives, RRAMALLOC_PEERS_CACHE the folder where they are built
(default: the user's cache). Nothing of the tools is part of the project.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ARCHIVES = os.environ.get("RRAMALLOC_PEERS")
needs_tools = pytest.mark.skipif(
    ARCHIVES is None, reason="the real tools are left out: RRAMALLOC_PEERS does not name their archives"
)


@dataclass(frozen=True)
class Tool:
    """archive: holds one folder, the checkout; commands: run in it, one after another, to build it."""

    archive: str
    commands: tuple[str, ...] = ()


CMAKE = "cmake -S . -B build -DCMAKE_BUILD_TYPE=Release && cmake --build build -j 2"
TOOLS = {
    "pimcomp": Tool("PIMCOMP-NN.tar.gz"),  # run.py of an export builds it
    "pimsim-nn": Tool("pimsim-nn.tar.gz", ("rm -rf build", CMAKE)),
    "pimsyn": Tool("PIMSYN-NN.tar.gz"),
    "mnsim": Tool("MNSIM-2.0.tar.gz"),
    "neurosim": Tool("DNN_NeuroSim_V1.4.tar.gz"),
    "neurosim-1.5": Tool("DNN_NeuroSim_V1.5.tar.gz"),
}


def build(name: str) -> Path:
    """The folder of a checkout of the tool, built; the same one as long as archive and commands are."""
    tool = TOOLS[name]
    assert ARCHIVES is not None, "RRAMALLOC_PEERS must name the folder of the archives"
    archive = Path(ARCHIVES).resolve() / tool.archive
    digest = hashlib.sha256(archive.read_bytes() + repr(tool.commands).encode()).hexdigest()
    cache = _cache()
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"{name}-{digest[:16]}"
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _build(tool, archive, folder)
    return folder


def fresh(name: str, folder: Path) -> Path:
    """A checkout of the tool unpacked into an empty folder, not built."""
    shutil.unpack_archive(Path(ARCHIVES or "") / TOOLS[name].archive, folder, filter="data")
    (checkout,) = folder.iterdir()
    for path in [checkout, *checkout.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)
    return checkout


def _build(tool: Tool, archive: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        shutil.unpack_archive(archive, work, filter="data")
        (checkout,) = Path(work).iterdir()
        for command in tool.commands:
            done = subprocess.run(  # noqa: S602 - commands of this table
                command, shell=True, cwd=checkout, capture_output=True, text=True,
                env={**os.environ, "RRAMALLOC_PEERS": str(archive.parent)},
            )  # fmt: skip
            assert done.returncode == 0, f"{command}: {done.stderr[-2000:]}"
        checkout.rename(folder)


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("RRAMALLOC_PEERS_CACHE") or Path(base) / "rramalloc" / "peers").resolve()
