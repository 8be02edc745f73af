"""Rooms are told by name: what each says of itself is true, and none uses another one that it does not name.

Which folder of the core may import from which is a contract in pyproject.toml, which `lint-imports` checks.
No module imports itself through others.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import rramalloc
from rramalloc.room import Room, rooms

pytestmark = pytest.mark.quick

PACKAGE = Path(rramalloc.__file__).parent
ROOT = Path(__file__).resolve().parents[2]
EACH_ROOM = pytest.mark.parametrize("room", rooms().values(), ids=lambda room: room.name)


def imports(path: Path) -> Iterator[str]:
    """Modules that a file imports from, for type checkers too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{name.name}" for name in node.names)


def rooms_in(path: Path) -> set[str]:
    """Rooms that a file imports from."""
    parts = (module.split(".") for module in imports(path))
    return {part[2] for part in parts if part[:2] == ["rramalloc", "commands"] and len(part) > 2}


@EACH_ROOM
def test_a_room_imports_from_itself_and_from_those_it_names(room: Room) -> None:
    folder = PACKAGE / "commands" / room.name
    used = {name for path in folder.rglob("*.py") for name in rooms_in(path)} - {room.name}
    every = used.union(*(rooms()[name].needs for name in used))
    assert {*room.needs} == every
    assert [*imports(folder / "room.py")] == ["rramalloc.room.Room"]


def test_no_other_module_imports_from_a_room() -> None:
    for path in PACKAGE.rglob("*.py"):
        if "commands" not in path.parts:
            assert rooms_in(path) == set(), path


def test_the_array_of_a_layer_is_looked_up_in_one_place() -> None:
    """What is of a kind alone, such as its processor, needs no layer; `array_of` is for all else."""
    by_mode = re.compile(r"each_kind\[[^]]*\.kind](?!\.processor)")
    found = [path.name for path in PACKAGE.rglob("*.py") if by_mode.search(path.read_text(encoding="utf-8"))]
    assert found == ["mode.py"]


def test_no_module_imports_itself_through_others() -> None:
    """Neither at its start, nor in a function, nor for type checkers."""
    paths = {".".join((PACKAGE.name, *path.relative_to(PACKAGE).with_suffix("").parts)): path
             for path in PACKAGE.rglob("*.py")}  # fmt: skip
    modules = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    used = {
        module: {name if name in modules else name.rpartition(".")[0] for name in imports(path)} & {*modules}
        for module, path in modules.items()
    }
    assert used["rramalloc.allocation.case"] > {"rramalloc.hardware.hardware", "rramalloc.search.problem"}
    TopologicalSorter(used).prepare()  # raises CycleError, which names the modules


@EACH_ROOM
def test_what_a_room_names_is_there(room: Room) -> None:
    named = [room.command, *room.calls, *room.records.values(), *room.views.values()]
    assert all(room.load(attribute) is not None for attribute in named if attribute)
    assert sum(other.order == room.order for other in rooms().values()) == 1


def test_searches_and_methods_time_allocations_at_one_door() -> None:
    timers = {"makespan_of", "makespan_of_each", "makespans", "simulate"}
    doors = {
        path.stem
        for folder in ("search", "methods")
        for path in (PACKAGE / folder).glob("*.py")
        for name in timers
        if any(module.endswith(f".{name}") for module in imports(path))
    }
    assert doors == {"exact_time"}


def test_generated_files_are_as_the_rooms_say() -> None:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for path, text in module.generated().items():
        assert path.read_text(encoding="utf-8") == text, f"run: python docs/generate.py ({path.name})"


def test_what_rooms_offer_is_known_without_importing_them() -> None:
    code = "import sys, rramalloc.room as r; r.rooms(); print([m for m in sys.modules if m.count('.') > 2])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {module.rpartition(".")[2] for module in ast.literal_eval(ran.stdout)} == {"room"}
