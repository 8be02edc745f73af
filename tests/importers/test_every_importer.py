"""Laws of every importer of the registry: its damaged files are a network or an error that names them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile.documents import DOCUMENTS, onnx_bytes
from hostile.fuzz import damage

import rramalloc
from rramalloc.errors import RramallocError, SpecError
from rramalloc.files import parse_json
from rramalloc.importers.registry import IMPORTERS, Importer
from rramalloc.network.network import Network

FILES = {name: text.encode() for name, text in DOCUMENTS.items()} | {"m.onnx": onnx_bytes()}
DAMAGES = 40


def of(importer: Importer, folder: Path) -> Iterator[Path]:
    """The undamaged files that an importer reads."""
    for name, content in FILES.items():
        if not name.endswith(importer.ending):
            continue
        if importer.ending == ".json" and not importer.part("recognises")(parse_json(content.decode(), name)):
            continue
        path = folder / name
        path.write_bytes(content)
        try:
            rramalloc.load(path)
        except RramallocError:  # of another kind, with the same ending
            continue
        yield path


def refusal_of(path: Path) -> str:
    """What a file is refused with, the file itself if it is a network."""
    try:
        rramalloc.load(path)
    except RramallocError as error:
        return str(error)
    return str(path)


@pytest.mark.parametrize("name", IMPORTERS)
def test_damaged_files_are_networks_or_errors(name: str, tmp_path: Path) -> None:
    paths = list(of(IMPORTERS[name], tmp_path))
    assert paths, f"give tests/hostile/documents.py a file of {name}"
    for path in paths:
        content = path.read_bytes()
        for seed in range(DAMAGES):
            path.write_bytes(content)
            damage(path, seed)
            said = refusal_of(path)
            assert said.startswith(str(path)), said
            assert len(said) < 1000, said
            assert "its importer ends with" not in said, said


class Unguarded:
    """An importer that checks nothing: it divides by the stride."""

    @staticmethod
    def recognises(document: object) -> bool:
        return isinstance(document, dict) and "stride" in document

    @staticmethod
    def read(document: dict[str, int], where: str) -> Network:
        side = 8 // document["stride"]
        return Network.build(where, [{"name": "in", "op": "input", "shape": [1, side, side]}])


def test_what_a_reader_does_not_expect_is_an_error_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(IMPORTERS, "unguarded", Importer(".json", f"{__name__}:read"))
    monkeypatch.setattr(Importer, "part", lambda row, name="": getattr(Unguarded, name or "read"))
    assert rramalloc.load({"stride": 2}).nodes
    for fault, told in (({"stride": 0}, "ZeroDivisionError"), ({"stride": "2"}, "TypeError")):
        with pytest.raises(SpecError, match=f"^network in memory: cannot be read, .* {told}"):
            rramalloc.load(fault)
