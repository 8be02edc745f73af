"""CSV, JSON and the ways in: what belongs together is checked."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands.export.nets import chain, conv, machine, residual, subject
from hypothesis import example, given, settings
from hypothesis import strategies as st

import rramalloc
from rramalloc.allocation.allocation_input import AllocationInput
from rramalloc.commands.export.discovery import target_names
from rramalloc.commands.export.export import export_subject
from rramalloc.commands.export.subject import Subject
from rramalloc.commands.export.targets import json as json_document
from rramalloc.commands.export.targets.json import ExportDocument
from rramalloc.errors import FileError, UnsupportedError
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.network import Network

pytestmark = pytest.mark.quick


def reading(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_json_reads_back() -> None:
    (file,) = json_document.export(subject(residual(), {"c1": 5})).files
    document = ExportDocument.model_validate_json(file.text, strict=False)
    assert {layer.name: layer.copies for layer in document.layers} == {"c1": 5, "c2": 1}
    assert [(edge.producer, edge.consumer) for edge in document.edges] == [("c1", "c2")]
    assert document.network.sha256 == residual().sha256
    assert document.hardware == machine()


@pytest.mark.parametrize("target", sorted(set(target_names()) - {"neurosim"}))
def test_same_bytes_every_time_and_three_forms(target: str, tmp_path: Path) -> None:
    first, second = (
        export_subject(subject(residual(), {"c1": 2}, machine(128, 128)), target) for _ in range(2)
    )
    assert first == second
    assert first.to_dict()["target"] == target
    assert list(first.to_frame().columns) == ["layer", "kind", "text"]
    assert "<p>" in first._repr_html_()
    paths = first.save(tmp_path / "out")
    assert [path.read_text() for path in paths] == [file.text for file in first.files]


def contents(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def test_an_export_replaces_an_earlier_one_as_a_whole(tmp_path: Path) -> None:
    """Files of another tool do not stay behind, nor drafts beside the folder; an empty folder will do."""
    folder = tmp_path / "out"
    folder.mkdir()
    export_subject(subject(residual()), "mnsim").save(folder)
    made = export_subject(subject(residual(), {}, machine(128, 128)), "pimsyn")
    made.save(folder)
    assert sorted(contents(folder)) == sorted(file.name for file in made.files)
    assert list(contents(tmp_path)) == ["out", *sorted(f"out/{file.name}" for file in made.files)]


def others_file(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")


def edited_readme(folder: Path) -> None:
    path = folder / "README.md"
    path.write_text("mine\n" + path.read_text())


def missing_file(folder: Path) -> None:
    (folder / "run.py").unlink()


def link_to_a_file(folder: Path) -> None:
    (folder / "run.py").rename(folder.parent / "run.py")
    (folder / "run.py").symlink_to(folder.parent / "run.py")


def link_to_a_folder(folder: Path) -> None:
    folder.rename(folder.parent / "elsewhere")
    folder.symlink_to("elsewhere")


@pytest.mark.parametrize(
    "change", [others_file, edited_readme, missing_file, link_to_a_file, link_to_a_folder]
)
def test_an_export_keeps_what_no_export_made(change: Callable[[Path], None], tmp_path: Path) -> None:
    folder = tmp_path / "out"
    export_subject(subject(residual()), "mnsim").save(folder)
    change(folder)
    before = contents(tmp_path)
    with pytest.raises(FileError, match=r"name a new|name the folder itself"):
        export_subject(subject(residual(), {}, machine(128, 128)), "pimsyn").save(folder)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("broken", ["os.fsync", "rramalloc.files.os.replace", "os.rename"])
def test_a_fault_leaves_the_earlier_export(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step fails in turn, so also the rename between taking the old folder away and bringing the new."""
    made = export_subject(subject(residual()), "mnsim")
    made.save(tmp_path / "out")
    before, working, left = contents(tmp_path), getattr(os, broken.rpartition(".")[2]), [0]

    def fail(*arguments: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(28, "No space left on device")
        return working(*arguments)

    for step in range(1, 3):
        left[0] = step
        with monkeypatch.context() as patch:
            patch.setattr(broken, fail)
            with pytest.raises(FileError, match="no space left on device"):
                made.save(tmp_path / "out")
        assert contents(tmp_path) == before


def test_copies_that_compute_blocks_are_refused_with_a_remedy(tmp_path: Path) -> None:
    """No tool stores them; a block of one window is a plain copy."""
    document = rramalloc.optimize("alexnet", arrays=400, work=0).to_dict()
    path = tmp_path / "a.json"
    document["layers"][0]["block"] = [1, 1]
    path.write_text(json.dumps(document))
    rramalloc.export("alexnet", path, "csv")
    document["layers"][0]["block"] = [2, 2]
    path.write_text(json.dumps(document))
    with pytest.raises(UnsupportedError, match=r"block.conv1: .*use im2col"):
        rramalloc.export("alexnet", path, "csv")


def in_modes(
    net: Network, copies: dict[str, int], blocks: dict[str, tuple[int, int]], size: Hardware
) -> Subject:
    options = MappingOptions(mapping="sdk")
    given = AllocationInput(copies=copies, where="a.json", blocks=blocks, hardware=size, options=options)
    return Subject.build(net, given)


@pytest.mark.parametrize("target", ["pimcomp", "pimsyn", "mnsim", "neurosim"])
def test_tools_refuse_modes_with_the_remedy(target: str) -> None:
    """Blocks, and copies of single windows that share arrays."""
    net = chain() if target == "neurosim" else residual()
    size = machine(128, 128) if target == "pimsyn" else machine()
    whole = in_modes(net, {"c1": 9}, {}, size)
    with pytest.raises(UnsupportedError, match=r"^mapping: .* allocate with --mapping im2col"):
        export_subject(whole, target)
    blocks = in_modes(net, {}, {"c2": (2, 1)}, size)
    with pytest.raises(UnsupportedError, match=r"^mapping: .* allocate with --mapping im2col"):
        export_subject(blocks, target)


HOSTILE = " \t\r\n\v\0\\'\",;=+-@#nrtxuU0123a\u00a0\u200b\ufeff\u2028\U0001f642"


@settings(max_examples=100, deadline=None)
@given(st.sets(st.text(HOSTILE, min_size=1, max_size=9), min_size=3, max_size=3))
@example({" ", "  ", "\t"})
@example({"a,b", 'a"b', "a\r\nb"})
@example({"a\nb", "a\\nb", "a\\\\nb"})
@example({"\\ ", "\\x20", "\\"})
@example({"=1+1", "'=1+1", "''=1+1"})
@example({"name", "name,copies", "\ufeffname"})
@example({"-1", "'-1", " -1"})
def test_a_table_is_read_back_for_any_name(tmp_path_factory: pytest.TempPathFactory, names: set[str]) -> None:
    """Layers of 8 x 8 windows with 1, 2 and 3 copies."""
    copies = {name: number for number, name in enumerate(sorted(names), 1)}
    nodes = [conv(name, source) for name, source in zip(copies, ["input", *copies], strict=False)]
    whole = Network.build("net", [{"name": "input", "op": "input", "shape": [3, 8, 8]}, *nodes])
    path = tmp_path_factory.mktemp("table") / "table.csv"
    path.write_bytes(rramalloc.export(whole, copies, to="csv").files[0].text.encode())
    assert {layer.name: layer.copies for layer in rramalloc.simulate(whole, path).layers} == copies
