"""The Python API: calls that other processes can make, progress that changes nothing, old files."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

import rramalloc
from rramalloc.errors import SpecError


def test_public_calls_are_tasks_of_other_processes() -> None:
    """By name, in a process that has imported nothing yet; each call is one object."""
    calls = [getattr(rramalloc, name) for name in dir(rramalloc) if name != "__version__"]
    assert [pickle.loads(pickle.dumps(call)) is call for call in calls] == [True] * len(calls)  # noqa: S301
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        task = pool.submit(rramalloc.optimize, "alexnet", arrays=300, work=0)
        assert task.result() == rramalloc.optimize("alexnet", arrays=300, work=0)
        with pytest.raises(SpecError, match="work"):
            pool.submit(rramalloc.optimize, "alexnet", arrays=300, work="x").result()


def test_progress_never_changes_a_result() -> None:
    told: list[tuple[int, int]] = []
    followed = rramalloc.optimize("alexnet", 400, on_progress=lambda best, bound: told.append((best, bound)))
    assert told[-1] == (followed.makespan, followed.lower_bound)
    assert followed == rramalloc.optimize("alexnet", 400)
    assert followed == rramalloc.optimize("alexnet", 400, progress=False)


def test_public_names_are_there_and_the_package_imports_nothing_heavy() -> None:
    for name in rramalloc.__all__:
        if name != "from_torch":
            assert getattr(rramalloc, name) is not None
    with pytest.raises(AttributeError, match="no attribute"):
        _ = rramalloc.nothing  # type: ignore[attr-defined]
    code = "import sys, rramalloc; print([m for m in ('numpy', 'pydantic', 'numba') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_allocation_of_weights_stored_once_is_refused(tmp_path: Path) -> None:
    """Earlier versions wrote `shared`: "copies" is what holds, "once" is not known any more."""
    allocation, path = rramalloc.optimize("alexnet", 200, method="none"), tmp_path / "a.json"
    document = allocation.to_dict()
    assert "shared" not in document["options"]
    for shared in ("copies", "once"):
        document["options"]["shared"] = shared
        path.write_text(json.dumps(document))
        if shared == "copies":
            assert rramalloc.simulate("alexnet", path).makespan == allocation.makespan
        else:
            with pytest.raises(SpecError, match="shared"):
                rramalloc.simulate("alexnet", path)
