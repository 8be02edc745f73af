"""Settings all tests share: generated examples are the same in every run, and kernels are compiled once."""

from __future__ import annotations

import compileall
import gc
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

import rramalloc

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

QUICK = "quick"
_HEAVY = "test_docs.py test_readme.py notebooks/ hostile/test_scale.py commands/sweep/ commands/tune/ cli/"
LONG = tuple(f"tests/{name}" for name in (*_HEAVY.split(), "commands/place/test_bound.py"))
"""Where single tests take longest: they come first, so that no worker ends long after the others."""


def pytest_configure(config: pytest.Config) -> None:
    """Compile ahead of several workers, of which each would compile every kernel for itself.

    And ahead of the many commands that tests start, which all compile the modules where Python is told to
    write no bytecode. Commands are interrupted by tests: they must not inherit that a shell has started the
    tests in the background, where Ctrl-C is ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("dist", "no") == "no":  # without workers, or a worker
        return
    compileall.compile_dir(Path(rramalloc.__file__).parent, quiet=2)
    from rramalloc.commands.warm_up.warm_up import PROGRAMS  # imports what searches import

    program = "from rramalloc.commands.warm_up.warm_up import PROGRAMS; PROGRAMS[{!r}]()"
    started = [
        subprocess.Popen([sys.executable, "-c", program.format(name)], cwd=config.rootpath)
        for name in PROGRAMS
    ]
    codes = [process.wait() for process in started]
    if any(codes):
        raise pytest.UsageError("what compiles ahead of the tests has failed")


@pytest.fixture
def no_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave small problems to searches and provers, too, instead of timing all of their allocations."""
    from rramalloc.search import enumeration

    monkeypatch.setattr(enumeration, "MOST_STAGES", 0)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files without a quick test where those alone are asked for: to import all takes 5 s."""
    if config.getoption("markexpr") != QUICK or collection_path.suffix != ".py":
        return None
    return f"mark.{QUICK}" not in collection_path.read_text(encoding="utf-8") or None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """What is collected stays until the end: the garbage collector need not go through it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A worker without tests takes half of what another has left, in place of fixed chunks."""
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))
