"""What compiled parts may do: none returns an array, for nothing counts who holds one there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import rramalloc

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
