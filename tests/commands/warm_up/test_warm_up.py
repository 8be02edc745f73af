"""`warm-up`: what it compiles it counts and times, once; what is there already is not compiled."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rramalloc import compiled
from rramalloc.commands.warm_up import warm_up as room

Run = Callable[..., Any]


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> compiled.Compilation:
    """Two halves that need one function of their own and one of both, each compiled in 20 s once."""
    now_s, there = [100.0], set[str]()
    compilation = compiled.Compilation()

    def need(*names: str) -> None:
        for name in names:
            if name not in there:
                there.add(name)
                compilation.begin()
                now_s[0] += 20
                compilation.end()

    programs = {"copies": lambda: need("bound", "copies"), "modes": lambda: need("modes", "bound")}
    monkeypatch.setattr(compiled.time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(compiled, "compilation", compilation)
    monkeypatch.setattr(room, "compilation", compilation)
    monkeypatch.setattr(room, "PROGRAMS", programs)
    return compilation


@pytest.mark.quick
@pytest.mark.usefixtures("slowly")
def test_a_second_one_compiles_nothing_and_says_so(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    first, second = run("warm-up"), run("warm-up")
    folder = f"kept below  {tmp_path.resolve()}\n"
    assert first.out == f"warm-up     compiled 3 functions in 60.0 s\n{folder}"
    assert second.out == f"warm-up     nothing to compile, all is there\n{folder}"
    told = run("warm-up", "--format", "json").json
    assert (told["functions"], told["seconds"], told["folder"]) == (0, 0, str(tmp_path.resolve()))


def test_it_fails_before_the_work_where_nothing_is_kept(
    run: Run, slowly: compiled.Compilation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", "relative")
    done = run("warm-up")
    assert (done.code, done.out) == (1, "")
    assert "is no absolute path" in done.err
    assert "mkdir -m 700" in done.err
    assert slowly.functions == 0


LEFT = """
import importlib, pkgutil
import rramalloc
from numba.core.dispatcher import Dispatcher
from rramalloc.commands.warm_up.warm_up import PROGRAMS
for program in PROGRAMS.values():
    program()
for name in [module.name for module in pkgutil.walk_packages(rramalloc.__path__, "rramalloc.")]:
    if not name.endswith("__main__"):
        for found in vars(importlib.import_module(name)).values():
            if not isinstance(found, Dispatcher) or found.targetoptions.get("inline") == "always":
                continue  # the latter is compiled within its callers
            if not found.signatures and not found._cache._cache_file._load_index():  # here or within another
                print(found.py_func.__module__, found.py_func.__name__)
"""


def test_no_function_is_left_out() -> None:
    ran = subprocess.run([sys.executable, "-c", LEFT], capture_output=True, text=True, check=True)
    assert ran.stdout == ""
