"""Size and form of the package, in figures that packing and wrapping do not change.

`python .ci/size.py [FOLDER]`: each figure stands beside its limit, a row of CONTRIBUTING.md; exit 1 if one is
not kept. `--list NAME` shows where a figure comes from.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST_LINES_OF_SHORT = 6  # from `def` on: a private function of no more lines says little more than its code
ROOMS = "commands/"
FREE_NAMES = frozenset({"command", "main", "run", "solve"})  # every room or method has one
MARKERS = re.compile(r"#\s*(type:|noqa|pragma)")  # comments to a tool


@dataclass
class Figures:
    """What is counted, and the places of what can be listed."""

    statements: int = 0
    of_rooms: int = 0
    comments: int = 0
    code_lines: int = 0
    records: list[str] = field(default_factory=list)
    packed: list[str] = field(default_factory=list)
    public: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    private: defaultdict[str, list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))
    words: Counter[str] = field(default_factory=Counter)

    def add(self, text: str, name: str) -> None:
        """Count one module."""
        tree = ast.parse(text)
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            self.comments += token.type == tokenize.COMMENT and not MARKERS.match(token.string)
            self.words[token.string] += token.type == tokenize.NAME
        code: set[int] = set()
        for node in ast.walk(tree):
            place = f"{name}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.stmt) and not is_docstring(node):
                counts = not isinstance(node, ast.Import | ast.ImportFrom)
                self.statements += counts
                self.of_rooms += counts and name.startswith(ROOMS)
                last = node.lineno if hasattr(node, "body") else node.end_lineno or node.lineno
                code.update(range(node.lineno, last + 1))
            if isinstance(node, ast.ClassDef) and any(isinstance(part, ast.AnnAssign) for part in node.body):
                self.records.append(f"{place} {node.name}")
            elif isinstance(node, ast.Assign) and is_packed(node):
                self.packed.append(place)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_private(node.name):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                self.private[node.name].append((place, lines))
        self.code_lines += len(code)
        for public_name in public_names(tree):
            self.public[public_name].add(name)

    @property
    def repeated_names(self) -> list[str]:
        """Public names that several modules define."""
        return [f"{name} x{len(modules)}" for name, modules in self.public.items() if len(modules) > 1]

    def used_once(self, most_lines: int | None = None) -> list[str]:
        """Return the private functions whose name stands in one definition and one other place."""
        return [
            f"{place} {name}"
            for name, ((place, lines), *others) in self.private.items()
            if not others and self.words[name] == 2 and (most_lines is None or lines <= most_lines)
        ]

    def rows(self) -> dict[str, int | float | list[str]]:
        """Return every figure by the name it has in CONTRIBUTING.md."""
        return {
            "statements of the core": self.statements - self.of_rooms,
            "statements of rooms": self.of_rooms,
            "records": self.records,
            "packed assignments": self.packed,
            "names with many meanings": self.repeated_names,
            "comments in 100 lines of code": round(100 * self.comments / max(1, self.code_lines), 1),
            "private functions used once": self.used_once(),
            "short ones among them": self.used_once(MOST_LINES_OF_SHORT),
        }


def is_docstring(node: ast.stmt) -> bool:
    """Return True if a statement is a string alone."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def is_packed(node: ast.Assign) -> bool:
    """Return True for `a, b = x, y`: several values to as many names."""
    target = node.targets[0]
    if not isinstance(target, ast.Tuple) or not isinstance(node.value, ast.Tuple):
        return False
    return len(target.elts) == len(node.value.elts)


def is_private(name: str) -> bool:
    """Return True for `_name`, not for `__name__`."""
    return name.startswith("_") and not name.startswith("__")


def public_names(tree: ast.Module) -> Iterator[str]:
    """Yield the classes, functions and constants that a module defines for others."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names = [node.name]
        else:
            names = [target.id for target in getattr(node, "targets", []) if isinstance(target, ast.Name)]
        yield from (name for name in names if not name.startswith("_") and name not in FREE_NAMES)


def measure(folder: Path) -> Figures:
    """Return the figures of all modules in a folder."""
    figures = Figures()
    for path in sorted(folder.rglob("*.py")):
        figures.add(path.read_text(encoding="utf-8"), str(path.relative_to(folder)))
    return figures


def limits(contributing: str) -> dict[str, str]:
    """Return the limits that CONTRIBUTING.md gives, by the name of a figure."""
    return dict(re.findall(r"^\| ([a-z0-9 ]+) \| (at (?:most|least) [\d.,]+) \|", contributing, re.MULTILINE))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "rramalloc")
    parser.add_argument("--list", metavar="NAME", help="list the places of one figure")
    arguments = parser.parse_args()
    rows = measure(arguments.folder).rows()
    if arguments.list is not None:
        places = rows.get(arguments.list)
        if not isinstance(places, list):
            parser.error(
                f"--list takes one of {[name for name, row in rows.items() if isinstance(row, list)]}"
            )
        print("\n".join(sorted(places)))
        return
    allowed = limits((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    exceeded = False
    for name, row in rows.items():
        figure = len(row) if isinstance(row, list) else row
        _, word, limit = allowed[name].split()
        most_or_least = float(limit.replace(",", ""))
        is_kept = figure <= most_or_least if word == "most" else figure >= most_or_least
        exceeded |= not is_kept
        print(f"{name:30} {figure:>8,}   {allowed[name]}{'' if is_kept else ': NOT KEPT'}")
    sys.exit(int(exceeded))


if __name__ == "__main__":
    main()
