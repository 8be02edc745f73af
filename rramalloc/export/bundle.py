"""Export: the files made for one tool, and what that tool will round, ignore or count in another way."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, NamedTuple

from rramalloc.errors import SpecError
from rramalloc.files import make_folder, read_text, to_json, write_text
from rramalloc.records import Record
from rramalloc.result import ResultRecord
from rramalloc.results.allocation import NetworkId
from rramalloc.units import counted

Kind = Literal["rounded", "ignored", "changed", "note"]
_RUNS = Path(__file__).parent / "runs"
_SCRIPT_LIMIT_BYTES = 1_000_000


class Remark(Record):
    """One thing that the tool does in another way; layer: None if it concerns all.

    kind: "rounded" a number the tool will round, "ignored" what it does not look at, "changed" what is
    written or counted in another way, "note" what its user should know.
    """

    layer: str | None
    kind: Kind
    text: str


class ExportedFile(Record):
    """A file of an export: its name within the folder, its text, and what it is, in one line."""

    name: str
    text: str
    about: str = ""


def json_file(name: str, document: object, about: str) -> ExportedFile:
    """A document of JSON values as a file."""
    return ExportedFile(name=name, text=to_json(document), about=about)


def run_script(name: str, about: str) -> ExportedFile:
    """run.py of an export: the script `runs/run_NAME.py`, which needs nothing but the folder and the tool."""
    text = read_text(_RUNS / f"run_{name}.py", _SCRIPT_LIMIT_BYTES)
    return ExportedFile(name="run.py", text=text, about=about)


class Bundle(NamedTuple):
    """What a target makes of a subject.

    command: what goes from a checkout of the tool to its figures, "" for files without a tool;
    places: whether the files hold the placement of the subject, if it has one; blocks: whether they hold the
    blocks that copies compute in a step (mapping "sdk").
    """

    files: tuple[ExportedFile, ...]
    remarks: tuple[Remark, ...]
    command: str = ""
    places: bool = False
    blocks: bool = False


class Export(ResultRecord):
    """An allocation in the files of one tool. files: one or more; remarks: what the tool does otherwise."""

    rows_in = "remarks"

    format: Literal["rramalloc-exported/1"] = "rramalloc-exported/1"
    target: str
    network: NetworkId
    files: tuple[ExportedFile, ...]
    remarks: tuple[Remark, ...]

    @classmethod
    def of(cls, target: str, network: NetworkId, bundle: Bundle) -> Export:
        """The files of a bundle; where they are for a tool that is run, with a README.md of the folder."""
        files = bundle.files
        if bundle.command:
            files = (*files, ExportedFile(name="README.md", text=_readme(target, network, bundle)))
        return cls(target=target, network=network, files=files, remarks=bundle.remarks)

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


def _readme(target: str, network: NetworkId, bundle: Bundle) -> str:
    """What is in the folder, the command that runs it, and all remarks."""
    lines = [f"# {network.name} for {target}", "", "From a checkout of the tool to its figures:", ""]
    lines += ["```sh", bundle.command, "```", "", "| file | what it is |", "|---|---|"]
    lines += [f"| `{file.name}` | {file.about} |" for file in bundle.files]
    if bundle.remarks:
        lines += ["", "What the tool counts or does in another way than rramalloc:", ""]
        lines += [
            f"- {remark.layer or 'all layers'} ({remark.kind}): {remark.text}" for remark in bundle.remarks
        ]
    return "\n".join([*lines, "", f"Network: {network.name}, sha256 {network.sha256}.", ""])
