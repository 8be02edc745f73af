"""Export: the files made for one tool, and what that tool will round, ignore or count otherwise."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rramalloc.errors import SpecError
from rramalloc.files import write_text
from rramalloc.folders import make_folder
from rramalloc.records import Record
from rramalloc.results.allocation import NetworkId
from rramalloc.shown import Shown, counted, frame_of

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["rounded", "ignored", "changed", "note"]


class Remark(Record):
    """One thing that the tool does otherwise; layer: None if it concerns all.

    kind: "rounded" a number the tool will round, "ignored" what it does not look at, "changed" what is
    written or counted in another way, "note" what its user should know.
    """

    layer: str | None
    kind: Kind
    text: str


class ExportedFile(Record):
    """A file of an export: its name within the folder, and its text."""

    name: str
    text: str


class Bundle(NamedTuple):
    """What a target makes of a subject."""

    files: tuple[ExportedFile, ...]
    remarks: tuple[Remark, ...]


class Export(Shown, Record):
    """An allocation in the files of one tool. files: one or more; remarks: what the tool does otherwise."""

    format: Literal["rramalloc-exported/1"] = "rramalloc-exported/1"
    target: str
    network: NetworkId
    files: tuple[ExportedFile, ...]
    remarks: tuple[Remark, ...]

    def to_dict(self) -> dict[str, Any]:
        """All fields, the files with their text."""
        return self.model_dump(mode="json")

    def to_frame(self) -> pd.DataFrame:
        """One row per remark: layer, kind, text."""
        return frame_of(self.remarks, tuple(Remark.model_fields))

    def save(self, path: str | os.PathLike[str]) -> tuple[Path, ...]:
        """Write the file, or the files into the folder `path`, each whole or not at all.

        Raises FileError.
        """
        if len(self.files) == 1:
            write_text(path, self.files[0].text)
            return (Path(path),)
        make_folder(path)
        written = tuple(Path(path) / file.name for file in self.files)
        for target, file in zip(written, self.files, strict=True):
            write_text(target, file.text)
        return written

    def single_text(self) -> str:
        """The text of an export that is one file. Raises SpecError if it is several."""
        if len(self.files) > 1:
            names = ", ".join(file.name for file in self.files)
            raise SpecError(
                f"export to {self.target}", f"is {len(self.files)} files ({names}): name a folder with -o"
            )
        return self.files[0].text

    def _headline(self) -> tuple[str, str]:
        names = ", ".join(file.name for file in self.files)
        return f"{self.network.name} for {self.target}", f"{names}; {counted(len(self.remarks), 'remark')}"
