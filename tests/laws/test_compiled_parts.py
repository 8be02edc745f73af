"""What compiled parts may do: none returns an array, for nothing counts who holds one there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from numba.core.caching import NullCache

import rramalloc
from rramalloc.compiled import compiled, compiled_part

SCALARS = {"int", "float", "bool", "None"}


def parts() -> Iterator[tuple[str, ast.FunctionDef]]:
    for path in sorted(Path(rramalloc.__file__).parent.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and "compiled_part" in map(ast.unparse, node.decorator_list):
                yield f"{path.name}: {node.name}", node


def test_compiled_parts_return_scalars() -> None:
    found = dict(parts())
    assert len(found) > 50
    for name, node in found.items():
        assert node.returns is not None, name
        named = {each.id for each in ast.walk(node.returns) if isinstance(each, ast.Name)}
        assert named - {"tuple"} <= SCALARS, name


@compiled_part
def _tripled(number: int) -> int:
    return 3 * number


@compiled
def _tripled_twice(number: int) -> int:
    return max(_tripled(_tripled(number)), 1)


def test_a_part_has_machine_code_in_its_callers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for made in (_tripled, _tripled_twice):
        monkeypatch.setattr(made, "_cache", NullCache())  # what is loaded from disk needs no part
    assert _tripled_twice(5) == 45
    functions = [
        [one.name for one in result.library._final_module.functions if not one.is_declaration]
        for made in (_tripled, _tripled_twice)
        for result in made.overloads.values()  # type: ignore[attr-defined]
    ]
    assert functions[0] == []
    assert functions[1] != []
