"""Tables and documents that `optimize` and `export` write are allocations, edited or not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hostile.documents import DOCUMENTS
from program import run

KINDS = """
[[kinds]]
name = "small"
arrays = 60
crossbar = { wordlines = 64, bitlines = 64 }
[[kinds]]
name = "large"
arrays = 30
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("n.json", "h.toml", "own.toml"):
        Path(name).write_text(DOCUMENTS[name])
    Path("kinds.toml").write_text(DOCUMENTS["h.toml"].partition("[chip]")[0] + KINDS)


def written(options: str, *, exported: bool) -> dict[str, str]:
    """An allocation as a file of its own and in each form; the options that give it again, by file."""
    given = options.split()
    assert run("optimize", "n.json", *given, "--work", 1, "-o", "a.json").code == 0
    Path("a.csv").write_text(run("optimize", "n.json", *given, "--work", 1, "--format", "csv").out)
    call = " ".join(given[given.index("--hardware") :])
    files = {"a.json": "", "a.csv": call}
    if exported:
        for tool in ("csv", "json"):
            assert run("export", "n.json", "--allocation", "a.json", "--to", tool, "-o", tool).code == 0
            path = next(Path(tool).iterdir()) if Path(tool).is_dir() else Path(tool)
            Path(f"e.{tool}").write_text(path.read_text())
        files |= {"e.csv": call, "e.json": ""}
    return files


@pytest.mark.parametrize(
    ("options", "exported"),
    [
        ("--arrays 24 --hardware h.toml", True),
        ("--arrays 24 --hardware own.toml", True),
        ("--arrays 24 --hardware h.toml --mapping sdk", True),
        ("--hardware kinds.toml", False),
    ],
)
def test_every_form_is_the_allocation(options: str, exported: bool) -> None:
    """The same times from each, and nothing to note."""
    seen = {}
    for name, call in written(options, exported=exported).items():
        outcome = run("simulate", "n.json", "--allocation", name, *call.split(), "--format", "json")
        assert outcome.code == 0, f"{name}: {outcome.err}"
        assert "derived anew" not in outcome.err, name
        seen[name] = {field: outcome.json[field] for field in ("makespan", "arrays", "layers")}
    assert all(found == seen["a.json"] for found in seen.values())


def test_place_and_export_read_them_too() -> None:
    for name, call in written("--arrays 24 --hardware h.toml", exported=True).items():
        at = ["n.json", "--allocation", name, *call.split()]
        assert run("place", *at, "--work", 0, "--format", "csv").code == 0, name
        table = run("export", *at, "--to", "csv")
        assert (table.code, table.out) == (0, Path("e.csv").read_text()), name


def edited(change: Any) -> tuple[str, str]:
    """The notes on a table and on a document of which the copies of a layer were changed."""
    written("--arrays 24 --hardware h.toml", exported=False)
    header, first, *rest = Path("a.csv").read_text().splitlines()
    cells = dict(zip(header.split(","), first.split(","), strict=True))
    cells["copies"] = str(change)
    Path("a.csv").write_text("\n".join([header, ",".join(cells.values()), *rest]))
    document = json.loads(Path("a.json").read_text())
    document["layers"][0]["copies"] = change
    Path("a.json").write_text(json.dumps(document))
    call = ("--hardware", "h.toml")
    table = run("simulate", "n.json", "--allocation", "a.csv", *call)
    return table.err, run("simulate", "n.json", "--allocation", "a.json", *call).err


def test_what_follows_from_the_copies_is_derived_anew_and_noted() -> None:
    """c1 has 144 windows and one array a copy: of one copy one array and 144 batches."""
    for told in edited(1):
        assert "derived anew: arrays of 'c1' is 1, stated is" in told
        assert "batches of 'c1' is 144, stated is" in told


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("name,copies,mine\nc1,1,2\n", "column 'mine' is not known"),
        ("name,windows\nc1,144\n", "column 'copies' is missing"),
        ("name,copies\nc1,1\nc1,2\n", "'c1' stands twice"),
        ("name,copies\nc1,two\n", "copies: must be a whole number, got 'two'"),
        ("name,copies\nc9,2\n", "c9"),
        ("name,copies,block\nc1,2,wide\n", "block: must be such as 2x2, got 'wide'"),
        ("name,copies,kind\nc1,2,small\n", "the hardware has no [[kinds]]"),
    ],
)
def test_what_a_table_cannot_say(table: str, told: str) -> None:
    Path("t.csv").write_text(table)
    outcome = run("simulate", "n.json", "--allocation", "t.csv")
    assert (outcome.code, outcome.out) == (1, "")
    assert told in outcome.err


def test_a_field_of_an_export_that_nobody_knows() -> None:
    written("--arrays 24 --hardware h.toml", exported=True)
    document = json.loads(Path("e.json").read_text())
    document["layers"][0]["mine"] = 1
    Path("e.json").write_text(json.dumps(document))
    outcome = run("simulate", "n.json", "--allocation", "e.json")
    assert outcome.code == 1
    assert "layers[0]: field" in outcome.err
    assert "mine" in outcome.err
