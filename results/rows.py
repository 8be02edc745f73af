"""Rows of the CSV files of results/: dataclasses whose fields are str, int or float."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

_KINDS: dict[str, Callable[[str], Any]] = {"str": str, "int": int, "float": float}


def read(path: Path, kind: type[Any]) -> list[Any]:
    """The rows of a file, none if there is no file; kind: their dataclass."""
    if not path.exists():
        return []
    kinds = {field.name: _KINDS[str(field.type)] for field in fields(kind)}
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        return [kind(**{name: kinds[name](text) for name, text in row.items()}) for row in rows]


def append(path: Path, row: Any) -> None:
    """Add a row at the end of a file, which begins with the names of its fields."""
    _write(path, "w" if not path.exists() else "a", [row], type(row))


def write(path: Path, rows: Iterable[Any], kind: type[Any]) -> None:
    """Write a file anew."""
    _write(path, "w", rows, kind)


def _write(path: Path, mode: str, rows: Iterable[Any], kind: type[Any]) -> None:
    with path.open(mode, encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(kind)], lineterminator="\n")
        if mode == "w":
            writer.writeheader()
        writer.writerows(map(asdict, rows))
