"""No answer depends on the processor: what numpy leaves to its instructions is not asked of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import rramalloc

pytestmark = pytest.mark.quick

PACKAGE = Path(rramalloc.__file__).parent


def orders_of_equals(tree: ast.AST) -> Iterator[int]:
    """Lines that order numbers of elements, and leave open which of equal ones comes first."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        kinds = [
            k.value.value for k in node.keywords if k.arg == "kind" and isinstance(k.value, ast.Constant)
        ]
        if node.func.attr == "argpartition" or (node.func.attr == "argsort" and kinds != ["stable"]):
            yield node.lineno


def test_equal_elements_keep_their_order() -> None:
    """numpy sorts with the widest vectors of a processor; each width has its own order of equal ones."""
    left_open = {
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in PACKAGE.rglob("*.py")
        for line in orders_of_equals(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert left_open == set()


@pytest.mark.parametrize("asked", ["np.argpartition(a, 3)", "np.argsort(a)", "a.argsort(kind='quicksort')"])
def test_what_leaves_it_open_is_seen(asked: str) -> None:
    assert [*orders_of_equals(ast.parse(asked))] == [1]
