"""A folder of commands that is deleted takes its command along and nothing else.

Each copy of the package is of links to its files, so that compiled code is found; its commands run in forks
of one process that has imported the libraries.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

import rramalloc
from rramalloc.room import rooms

PACKAGE = Path(rramalloc.__file__).parent
ROOT = Path(__file__).resolve().parents[2]
NEEDED_BY = {name: {other.name for other in rooms().values() if name in other.needs} for name in rooms()}
WITHOUT_EACH = """
import contextlib, importlib.util, io, json, os, sys
import numba, numpy, pydantic, rich.cells, typer  # as commands do; every fork has them

def outcome(*arguments):
    from rramalloc.cli.main import main
    out, err, code = io.StringIO(), io.StringIO(), 0
    sys.argv = ["rramalloc", *arguments]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
    return code, out.getvalue(), err.getvalue()

def found(room, commands):
    import rramalloc
    spec = importlib.util.spec_from_file_location("generate", sys.path[0] + "/docs/generate.py")
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    written = dict(zip(("stub", "navigation"), generate.generated().values()))
    runs = {" ".join(line): outcome(*line) for line in commands}
    return {"names": dir(rramalloc), "help": outcome("--help"), "runs": runs, **written}

for folder, room, commands in json.loads(sys.argv[1]):
    reading, writing = os.pipe()
    if os.fork() == 0:
        sys.path.insert(0, folder)
        with os.fdopen(writing, "w") as pipe:
            json.dump(found(room, commands), pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        print(pipe.read() or "null", flush=True)
    os.wait()
"""


def without(names: Collection[str], folder: Path) -> Path:
    """Return `folder` with the package in it, without these rooms and what is generated."""
    commands = folder / "rramalloc" / "commands"
    commands.mkdir(parents=True)
    for path in PACKAGE.iterdir():
        if path.name not in ("commands", "__init__.pyi"):
            (folder / "rramalloc" / path.name).symlink_to(path)
    for path in (PACKAGE / "commands").iterdir():
        if path.name not in names:
            (commands / path.name).symlink_to(path)
    (folder / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "generate.py", folder / "docs")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    return folder


ALLOCATION = ("--allocation", "a.json", "--hardware", "isaac")
MISSING = {
    "place": (
        ("optimize", "alexnet", "--arrays", "200", "--hardware", "isaac", "--placed"),
        ("verify", "alexnet", *ALLOCATION),
        ("tune", "alexnet", "--arrays", "200", "--simulator", "neurosim"),
    ),
    "reload": (("optimize", "alexnet", "--arrays", "200", "--reload"),),
    "sweep": (("report", "."), ("size", "alexnet", "--target", "300")),
}
"""Commands that need a room that is absent."""


def typed(name: str) -> str:
    """Return a room's name as one types its command."""
    return name.replace("_", "-")


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What is seen without each room."""
    asked = []
    for name in rooms():
        folder = without([name], tmp_path_factory.mktemp(name))
        remaining = ("schema", "network") if name == "presets" else ("presets", "isaac")
        asked.append((str(folder), name, [remaining, (typed(name),), *MISSING.get(name, ())]))
    words = [sys.executable, "-c", WITHOUT_EACH, json.dumps(asked)]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    return dict(zip(rooms(), map(json.loads, ran.stdout.splitlines()), strict=True))


TYPED = pytest.mark.skipif(
    importlib.util.find_spec("mypy") is None or not (ROOT / ".mypy_cache").is_dir(),
    reason="to check all types anew takes a minute: run mypy first",
)
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")


def test_networks_are_allocated_without_any_room(tmp_path: Path) -> None:
    code = "import rramalloc; print(rramalloc.optimize('alexnet', 'x2').makespan)"
    environment = {**os.environ, "PYTHONPATH": str(without(rooms(), tmp_path))}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert ran.stdout.strip() == "240", ran.stderr


@pytest.mark.parametrize("name", rooms())
def test_without_a_room_all_else_is_there(name: str, left: dict[str, Any]) -> None:
    seen, room, gone = left[name], rooms()[name], {name, *NEEDED_BY[name]}
    kept = [other for other in rooms().values() if other.name not in gone]
    code, text, err = seen["help"]
    assert code == 0, err
    listed = re.findall(r"^  ([a-z][a-z-]*) {2,}[A-Z]", text, re.MULTILINE)
    assert listed == [typed(other.name) for other in kept if other.has_command]
    (code, out, err), (code_of_gone, _, err_of_gone) = [*seen["runs"].values()][:2]
    assert code == 0, err
    assert out
    assert code_of_gone == 2
    assert f"No such command '{typed(name)}'" in err_of_gone
    assert {*dir(rramalloc)} - {*seen["names"]} == {
        call.partition(":")[2] for other in gone for call in rooms()[other].calls
    }
    assert f"commands.{name}." not in seen["stub"]
    assert (room.title == "") or f": {name}.md" not in seen["navigation"]


@pytest.mark.parametrize("name", MISSING)
def test_what_needs_a_room_that_is_absent_says_so(name: str, left: dict[str, Any]) -> None:
    for line, (code, out, err) in [*left[name]["runs"].items()][2:]:
        assert code == 1, line
        assert out == ""
        assert f"this installation has no commands/{name}: install rramalloc anew" in err


@TYPED
@pytest.mark.parametrize("removed", [rooms(), ["place", *NEEDED_BY["place"]]], ids=["all", "place"])
def test_types_of_the_rest_are_right(removed: Collection[str], tmp_path: Path) -> None:
    """For any other room this follows from what its modules import (test_imports)."""
    folder = without(removed, tmp_path)
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copytree(ROOT / ".mypy_cache", folder / ".mypy_cache")
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    subprocess.run([sys.executable, "docs/generate.py"], cwd=folder, env=environment, check=True)
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "rramalloc"], cwd=folder, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout


USER = """
from typing import assert_type

import rramalloc
from rramalloc import Comparison, Placement, RramallocError

allocation = rramalloc.optimize("alexnet", 200, placed=True, seed=1)
assert_type(allocation, rramalloc.Allocation)
assert_type(allocation.makespan, int)
assert_type(rramalloc.place("alexnet", allocation), Placement)
assert_type(rramalloc.compare("alexnet", arrays=200), Comparison)
assert_type(rramalloc.__version__, str)
rramalloc.pareto("alexnet", "x2", objective="makespan", against="arrays", fold=True)
rramalloc.pareto("alexnet", "x2", against="weight")
rramalloc.optimise("alexnet")
"""


@TYPED
def test_users_see_the_types_of_every_call(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(USER, encoding="utf-8")
    shutil.copytree(ROOT / ".mypy_cache", tmp_path / ".mypy_cache")
    words = ["-m", "mypy", "--cache-dir", str(tmp_path / ".mypy_cache"), str(tmp_path / "user.py")]
    ran = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    faults = [line.split(": ", 1)[1] for line in ran.stdout.splitlines() if ": error: " in line]
    assert len(faults) == 2, ran.stdout
    assert "has incompatible type \"Literal['weight']\"" in faults[0] or "arg-type" in faults[0]
    assert '"optimise"' in faults[1]
