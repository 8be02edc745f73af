"""Settings all tests share: generated examples are the same in every run, and kernels are compiled once."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "rramalloc",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=60,
    phases=[Phase.explicit, Phase.generate],  # examples are seeds: a smaller seed is no simpler example
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("rramalloc")

COPIES = """
import rramalloc
from rramalloc.hardware.hardware import Hardware
plain = rramalloc.load_hardware("plain").to_dict()
chip = {"chip": {"arrays_per_tile": 60, "straddle": False, "tiles": [1, 4], "chips": [1, 1]}}
clock = {"timing": {"step_ns": 1.0, "clock": "own"}}
for part in ({}, chip, clock):
    hardware = Hardware.model_validate(plain | part)
    rramalloc.optimize("alexnet", 200, hardware=hardware, work=1, progress=False)
"""
MODES = """
import rramalloc
from rramalloc.hardware.hardware import Hardware
figures = {"timing": {"step_ns": 1.0}, "energy": {"read_pj": 1.0, "leakage_mw": 1.0}}
hardware = Hardware.model_validate(rramalloc.load_hardware("plain").to_dict() | figures)
for objective in ("latency", "energy"):
    rramalloc.optimize(
        "alexnet", 170, hardware=hardware, mapping="sdk", objective=objective, work=1, progress=False
    )
rramalloc.compare("alexnet", 200, work=1, progress=False)
rramalloc.place("alexnet", {"conv1": 2}, hardware="isaac-todaes")
"""
"""What compiles most kernels, in two halves that share few of them: a process each, about as long."""
LONG = ("tests/test_docs.py", "tests/test_readme.py", "tests/notebooks/", "tests/hostile/test_scale.py",
        "tests/studies/sweep/", "tests/search/test_tiles.py", "tests/placement/test_bound.py")  # fmt: skip
"""Where single tests take longest: they come first, so that no worker ends long after the others."""


def pytest_configure(config: pytest.Config) -> None:
    """Compile ahead of several workers, of which each would compile every kernel for itself."""
    if config.getoption("dist", "no") == "no":  # without workers, or a worker
        return
    for process in [subprocess.Popen([sys.executable, "-c", program]) for program in (COPIES, MODES)]:
        process.wait()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A worker without tests takes half of what another has left, in place of fixed chunks."""
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))
