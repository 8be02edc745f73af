"""The counter of CONTRIBUTING.md's limits: what it counts in two modules, by hand."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]

FIRST = '''"""A module."""

import os  # no statement, but its comment counts

LIMIT = 3  # noqa: X1
_HIDDEN = 4

class Point:
    """A record."""
    x: int
    y: int = 0

def build(a, b):
    left, right = a, b
    swapped = right, left
    first, *rest = swapped
    return _twice(left) + _long(right) + _method(first)

def _twice(value):
    """Docstrings are no statements."""
    return 2 * value

def _long(value):
    # a comment
    value += 1
    value += 2
    value += 3
    value += 4
    return (
        value
    )
'''
SECOND = """LIMIT = 5

class Point:
    z = 1

class Other:
    def _method(self):
        return os

def _method(): return 1

def run(): return LIMIT
"""


@pytest.fixture(scope="module")
def size() -> ModuleType:
    spec = importlib.util.spec_from_file_location("size_of_package", ROOT / ".ci" / "size.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_figures_of_two_modules_by_hand(size: ModuleType, tmp_path: Path) -> None:
    """Statements of the first: 2 constants, 3 of Point, 5 of build, 2 of _twice, 6 of _long.

    Of the second: LIMIT, 2 of Point, 3 of Other, 2 of _method, 2 of run. Lines of code are those statements
    and the import, and two more of the wrapped return; where a function and its body share a line, one.
    """
    (tmp_path / "first.py").write_text(FIRST)
    (tmp_path / "second.py").write_text(SECOND)
    figures = size.measure(tmp_path)
    assert figures.statements == 18 + 10
    assert figures.comments == 2
    assert figures.code_lines == (18 + 1 + 2) + 8
    assert figures.records == ["first.py:8 Point"]
    assert figures.packed == ["first.py:14"]
    assert sorted(figures.repeated_names) == ["LIMIT x2", "Point x2"]
    assert figures.used_once() == ["first.py:19 _twice", "first.py:23 _long"]
    assert figures.used_once(6) == ["first.py:19 _twice"]


def test_every_figure_has_a_limit_in_the_guide(size: ModuleType) -> None:
    allowed = size.limits((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert set(allowed) == set(size.Figures().rows())
