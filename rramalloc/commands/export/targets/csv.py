"""The allocation, and the placement if there is one, as CSV tables for any other tool."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from rramalloc.commands.export.bundle import Bundle, ExportedFile
from rramalloc.commands.export.subject import Subject
from rramalloc.commands.export.targets.json import layers
from rramalloc.commands.place.placement import PlacedArray
from rramalloc.csv_rows import csv_cell

_PLACES = ("chip", "tile")


def export(subject: Subject) -> Bundle:
    """Export allocation.csv, with a placement also placement.csv; lists are written as 3x3."""
    stages = [layer.model_dump() for layer in layers(subject)]
    cells = ([_cell(value) for value in stage.values()] for stage in stages)
    files = [_file("allocation.csv", list(stages[0]), cells)]
    if subject.placement is not None:
        spare = {*_PLACES, *(subject.placement.left_out - {"copies"})}
        rest = [name for name in PlacedArray.model_fields if name not in spare]
        heading = [f"{place}_{axis}" for place in _PLACES for axis in ("row", "column")] + rest
        rows = (
            [*array.chip, *array.tile, *(getattr(array, name) for name in rest)]
            for array in subject.placement.arrays
        )
        files.append(_file("placement.csv", heading, rows))
    return Bundle(tuple(files), (), places=True, blocks=True)


def _cell(value: object) -> object:
    return "x".join(map(str, value)) if isinstance(value, tuple) else value


def _file(name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> ExportedFile:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([*map(csv_cell, row)] for row in rows)
    return ExportedFile(name=name, text=text.getvalue())
