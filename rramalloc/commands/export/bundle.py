"""Export: the files made for one tool, and remarks on what it rounds, ignores or counts differently."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from rramalloc.allocation.allocation import NetworkId
from rramalloc.errors import FileError, SpecError
from rramalloc.files import (
    check_folder,
    folder_names,
    read_bytes,
    read_text,
    to_json,
    write_folder,
    write_text,
)
from rramalloc.records import Record
from rramalloc.result import AnswerRecord
from rramalloc.units import counted, printable

RemarkKind = Literal["rounded", "ignored", "changed", "note"]
_RUNS = Path(__file__).parent / "runs"
_SCRIPT_LIMIT_BYTES = 1_000_000  # of a run.py, larger than any
_FOLDER_FILE_LIMIT_BYTES = 2**30  # of a file that is compared with its seal; larger than any export
_SEAL = "Written by rramalloc; sha256 of all files up to this line: "
"""The last line of README.md, by which an export recognises an earlier one that nobody has changed."""


class Remark(Record):
    """One difference between the allocation and what the tool makes of it.

    layer: None if it concerns all; text: the difference in words; kind: "rounded" for a number that the tool
    rounds, "ignored" for a value that it does not read, "changed" for one that is written or counted
    differently, "note" for anything else that its user should know.
    """

    layer: str | None
    kind: RemarkKind
    text: str


def remark(kind: RemarkKind, text: str, layer: str | None = None) -> Remark:
    """Return a remark on a layer, or on all."""
    return Remark(layer=layer, kind=kind, text=text)


class ExportedFile(Record):
    """A file of an export.

    name: within the folder; text: its content; about: what it is, in one line.
    """

    name: str
    text: str
    about: str = ""


def json_file(name: str, document: object, about: str) -> ExportedFile:
    """Return a document of JSON values as a file."""
    return ExportedFile(name=name, text=to_json(document), about=about)


def run_script(name: str, about: str) -> ExportedFile:
    """Return run.py of an export: `runs/run_NAME.py`, which needs nothing but the folder and the tool."""
    text = read_text(_RUNS / f"run_{name}.py", _SCRIPT_LIMIT_BYTES)
    return ExportedFile(name="run.py", text=text, about=about)


class Bundle(NamedTuple):
    """Files of a target for a subject.

    command: shell command that runs the tool from its checkout, "" for files without a tool;
    places: whether the files hold the placement of the subject, if it has one; blocks: whether they hold the
    blocks that copies compute in a step (mapping "sdk").
    """

    files: tuple[ExportedFile, ...]
    remarks: tuple[Remark, ...]
    command: str = ""
    places: bool = False
    blocks: bool = False


class Export(AnswerRecord):
    """An allocation in the files of one tool.

    target: the tool, csv or json; files: one or more; remarks: what the tool does otherwise.
    """

    rows_in = "remarks"

    format: Literal["rramalloc-exported/1"] = "rramalloc-exported/1"
    target: str
    network: NetworkId
    files: tuple[ExportedFile, ...]
    remarks: tuple[Remark, ...]

    @classmethod
    def of(cls, target: str, network: NetworkId, bundle: Bundle) -> Export:
        """Return the files of a bundle; if they are several, with a README.md of their folder."""
        files = bundle.files
        if len(files) > 1:
            text = _readme(target, network, bundle)
            contents = {file.name: file.text.encode() for file in files} | {"README.md": text.encode()}
            files = (*files, ExportedFile(name="README.md", text=f"{text}{_SEAL}{_digest(contents)}\n"))
        return cls(target=target, network=network, files=files, remarks=bundle.remarks)

    def save(self, path: str | os.PathLike[str]) -> tuple[Path, ...]:
        """Write the file, or the files as the folder `path`; an error leaves nothing half-written.

        Raises FileError, also for a folder that is neither empty nor an export as it was written.
        """
        if len(self.files) == 1:
            write_text(path, self.files[0].text)
            return (Path(path),)
        write_folder(path, {file.name: file.text for file in self.files}, _is_export)
        return tuple(Path(path) / file.name for file in self.files)

    def single_text(self) -> str:
        """Return the text of an export that is one file. Raises SpecError if it is several."""
        if len(self.files) > 1:
            names = ", ".join(file.name for file in self.files)
            raise SpecError(
                f"export to {self.target}", f"is {len(self.files)} files ({names}): name a folder with -o"
            )
        return self.files[0].text

    def _headline(self) -> tuple[str, str]:
        names = ", ".join(file.name for file in self.files)
        return f"{self.network.name} for {self.target}", f"{names}; {counted(len(self.remarks), 'remark')}"


class CheckedTool(Record):
    """A target, and whether its files can hold an allocation.

    taken: whether they can; remarks: number of those that it has if it does; reason: why it does not.
    """

    name: str
    taken: bool
    remarks: int
    reason: str


class ExportCheck(AnswerRecord):
    """The targets of export.

    tools: what each of them says of an allocation.
    """

    rows_in = "tools"

    format: Literal["rramalloc-export-check/1"] = "rramalloc-export-check/1"
    network: NetworkId
    tools: tuple[CheckedTool, ...]

    def _headline(self) -> tuple[str, str]:
        names = ", ".join(tool.name for tool in self.tools if tool.taken)
        return self.network.name, f"taken by {names}"


def check_target(path: str, inputs: Iterable[str | None]) -> None:
    """Raise FileError before the work if a folder `path` cannot be replaced, or holds one of the inputs."""
    if not os.path.isdir(path):
        return
    check_folder(path, _is_export)
    for name in inputs:
        if name is not None and Path(path).resolve() in Path(name).resolve().parents:
            raise FileError(path, f"holds {name[-60:]!r}, which is read by this command: name a new folder")


def _is_export(folder: Path) -> bool:
    """Return True if a folder holds an export and nothing else, all of it as it was written."""
    names = folder_names(folder)
    if "README.md" not in names or not all((folder / name).is_file() for name in names):
        return False
    if any((folder / name).is_symlink() for name in names):
        return False
    contents = {name: read_bytes(folder / name, _FOLDER_FILE_LIMIT_BYTES) for name in names}
    contents["README.md"], _, seal = contents["README.md"].rpartition(_SEAL.encode())
    return seal == f"{_digest(contents)}\n".encode()


def _digest(contents: dict[str, bytes]) -> str:
    parts = (f"{name}:{hashlib.sha256(contents[name]).hexdigest()}" for name in sorted(contents))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _in_markdown(name: str) -> str:
    """Return a name that a page shows as it is: no link, code or HTML of a file's author."""
    return re.sub(r"([\\`*\[\]<>|&#!])", r"\\\1", printable(name))


def _readme(target: str, network: NetworkId, bundle: Bundle) -> str:
    """Return the text about the folder's files, the command that runs them if any, and all remarks."""
    name = _in_markdown(network.name)
    lines = [f"# {name} for {target}", ""]
    if bundle.command:
        lines += ["From a checkout of the tool to its figures:", "", "```sh", bundle.command, "```", ""]
    lines += ["| file | what it is |", "|---|---|"]
    lines += [f"| `{file.name}` | {file.about} |" for file in bundle.files]
    if bundle.remarks:
        lines += ["", "What the tool counts or does in another way than rramalloc:", ""]
        lines += [
            f"- {_in_markdown(remark.layer or 'all layers')} ({remark.kind}): {remark.text}"
            for remark in bundle.remarks
        ]
    return "\n".join([*lines, "", f"Network: {name}, sha256 {network.sha256}.", "", ""])
