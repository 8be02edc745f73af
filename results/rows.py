"""Rows of the CSV files of results/: dataclasses whose fields are str, bool, int or float, or None.

The first line of a file is a comment: the folders of the package that decide its numbers, each with a digest.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

_KINDS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": lambda text: text == "True",
    "int | None": lambda text: int(text) if text else None,
    "float | None": lambda text: float(text) if text else None,
}
_DECIDED_BY = "# decided by"


def read(path: Path, kind: type[Any]) -> list[Any]:
    """The rows of a file, none if there is no file; kind: their dataclass."""
    if not path.exists():
        return []
    kinds = {field.name: _KINDS[str(field.type)] for field in fields(kind)}
    lines = [line for line in path.read_text("utf-8").splitlines() if not line.startswith(_DECIDED_BY)]
    return [kind(**{name: kinds[name](text) for name, text in row.items()}) for row in csv.DictReader(lines)]


def write(path: Path, rows: Iterable[Any], kind: type[Any], decided_by: Mapping[str, str]) -> None:
    """Write a file anew. decided_by: digest of each folder of the package that decides the numbers."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(
            " ".join([_DECIDED_BY, *(f"{folder}={digest}" for folder, digest in decided_by.items())]) + "\n"
        )
        writer = csv.DictWriter(file, [field.name for field in fields(kind)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(asdict, rows))


def decided_by(path: Path) -> dict[str, str]:
    """The digests in the first line of a file; none if there is no file, or no such line."""
    first = path.read_text("utf-8").partition("\n")[0] if path.exists() else ""
    if not first.startswith(_DECIDED_BY):
        return {}
    return dict(word.split("=") for word in first.removeprefix(_DECIDED_BY).split())
