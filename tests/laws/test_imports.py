"""The arrow through the package: a file imports only from its own folder or from earlier ones."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import rramalloc

PACKAGE = Path(rramalloc.__file__).parent
ORDER = (
    "choices",
    "errors",
    "compiled",
    "records",
    "arguments",
    "lazy",
    "columns",
    "csv_rows",
    "units",
    "progress",
    "version",
    "files",
    "result",
    "chart",
    "plots",
    "schemas",
    "network",
    "importers",
    "hardware",
    "mapping",
    "timing",
    "search",
    "methods",
    "results",
    "placement",
    "export",
    "studies",
    "report",
    "api",
    "cli",
    "__main__",
)
MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything imported from the package, lazily or for types alike."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}:{node.lineno} imports relatively"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_follow_the_arrow(path: Path) -> None:
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if own == "__init__":
        return
    assert own in ORDER, f"{own} has no place in the order of imports: add it"
    for line, name in imported(path):
        root, _, rest = name.partition(".")
        if root == "rramalloc":
            other = rest.split(".")[0]
            assert other in ORDER, f"{name_of(path)}:{line} imports {name}"
            assert ORDER.index(other) <= ORDER.index(own), f"{name_of(path)}:{line} imports {name}"


BY_NAME = (
    "__init__.py",
    "arguments.py",
    "api.py",
    "export/discovery.py",
    "lazy.py",
    "methods/registry.py",
    "plots.py",
    "schemas.py",
)
"""Files that find later parts of the package by name: each holds a table of what it finds, and no more."""


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_nothing_else_goes_round_the_arrow(path: Path) -> None:
    text = path.read_text()
    assert name_of(path) in BY_NAME or not any(way in text for way in ("import_module", "__import__"))
