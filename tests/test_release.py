"""What a release is made of: one version, a changelog, a citation, a guide that works, all sources."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from pages import blocks

import rramalloc
from rramalloc import lazy, methods
from rramalloc.commands.export.bundle import Export
from rramalloc.commands.export.discovery import target_names
from rramalloc.commands.export.export import export
from rramalloc.errors import UnknownNameError
from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.lazy import how_to_install
from rramalloc.methods.registry import METHODS

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
VERSION = PROJECT["project"]["version"]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
CITED = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PERSON = {
    "type": "object", "additionalProperties": False, "required": ["family-names"],
    "properties": {"family-names": {"type": "string"}, "given-names": {"type": "string"}},
}  # fmt: skip
ENTITY = {
    "type": "object", "additionalProperties": False, "required": ["name"],
    "properties": {"name": {"type": "string"}},
}  # fmt: skip
AUTHORS = {"type": "array", "minItems": 1, "items": {"anyOf": [PERSON, ENTITY]}}
TEXT, DOI = {"type": "string", "minLength": 1}, {"type": "string", "pattern": r"^10\.\d{4,9}/\S+$"}
REFERENCE = {
    "type": "object", "additionalProperties": False, "required": ["type", "title", "authors", "notes"],
    "properties": {
        "type": {"enum": ["article", "book", "conference-paper"]}, "title": TEXT, "authors": AUTHORS,
        "year": {"type": "integer", "minimum": 1950}, "volume": {"type": "integer"}, "issue": TEXT,
        "journal": TEXT, "collection-title": TEXT, "notes": TEXT, "doi": DOI,
        "url": {"type": "string", "pattern": "^https://"},
    },
}  # fmt: skip
CITATION = {
    "type": "object", "additionalProperties": False,
    "required": ["cff-version", "message", "title", "authors", "version", "date-released", "references"],
    "properties": {
        "cff-version": {"const": "1.2.0"}, "message": TEXT, "title": TEXT, "abstract": TEXT,
        "type": {"const": "software"}, "version": TEXT, "license": {"const": "MIT"}, "authors": AUTHORS,
        "date-released": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
        "keywords": {"type": "array", "items": TEXT}, "references": {"type": "array", "items": REFERENCE},
    },
}  # fmt: skip
"""The part of the Citation File Format 1.2.0 that the file uses."""


@pytest.fixture(scope="module")
def citation() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.load(CITED, yaml.BaseLoader)  # noqa: S506 - makes text of all
    return numbered(loaded)


def numbered(value: Any) -> Any:
    """Years and volumes as numbers; all else stays text, so that dates and versions are as written."""
    if isinstance(value, dict):
        return {
            key: int(inner) if key in ("year", "volume") else numbered(inner) for key, inner in value.items()
        }
    return [numbered(inner) for inner in value] if isinstance(value, list) else value


def test_version_is_semantic_and_stands_in_one_place() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", VERSION)
    assert rramalloc.__version__ == VERSION
    for path in (ROOT / "rramalloc").rglob("*.py"):
        assert f'"{VERSION}"' not in path.read_text(encoding="utf-8"), path


def test_changelog_is_kept() -> None:
    headings = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    released = [
        re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - (\d{4}-\d{2}-\d{2})", heading) for heading in headings[1:]
    ]
    assert all(released)
    assert next(found[1] for found in released if found) == VERSION
    dates = [found[2] for found in released if found]
    assert dates == sorted(dates, reverse=True)
    kinds = set(re.findall(r"^### (.*)$", CHANGELOG, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_citation_is_valid_and_of_this_version(citation: dict[str, Any]) -> None:
    jsonschema.validate(citation, CITATION)
    assert citation["version"] == VERSION
    assert f"## [{VERSION}] - {citation['date-released']}" in CHANGELOG
    titles = [reference["title"] for reference in citation["references"]]
    assert len(titles) == len(set(titles))


def sources() -> Iterator[str]:
    """DOIs, arXiv numbers and venues that the docstrings of methods name."""
    for path in sorted((ROOT / "rramalloc").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        yield from re.findall(r"doi\s(10\.\d+/[\w.:/-]*\w)", text)
        yield from re.findall(r"arXiv:? (\d{4}\.\d{5})", text)


def test_bibtex_says_what_the_citation_says(citation: dict[str, Any]) -> None:
    entry = (ROOT / "CITATION.bib").read_text(encoding="utf-8")
    fields = dict(re.findall(r"^  (\w+) = \{(.*)\},$", entry, re.MULTILINE))
    authors = " and ".join(f"{{{author['name']}}}" for author in citation["authors"])
    assert fields == {
        "title": citation["title"], "author": authors, "version": citation["version"],
        "date": citation["date-released"], "license": citation["license"],
        "keywords": ", ".join(citation["keywords"]),
    }  # fmt: skip


def test_files_that_the_citation_names_exist() -> None:
    named = set(re.findall(r"[\w/]+\.py", CITED))
    assert len(named) >= 10
    assert [name for name in sorted(named) if not (ROOT / "rramalloc" / name).is_file()] == []


def test_citation_names_the_sources_of_the_methods(citation: dict[str, Any]) -> None:
    named = set(sources())
    assert len(named) >= 4
    text = " ".join(str(reference) for reference in citation["references"])
    assert [source for source in named if source not in text] == []
    years = {
        (reference["authors"][0].get("family-names"), reference.get("year"))
        for reference in citation["references"]
    }
    for author, year in (("Shafiee", 2016), ("Song", 2017), ("Sun", 2023), ("Li", 2024), ("Peng", 2019)):
        assert (author, year) in years


def test_the_source_archive_is_whole() -> None:
    patterns = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    for name in ("rramalloc", "networks", "tests", "docs", "results", ".ci", "pyproject.toml", "mkdocs.yml",
                 "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", "CITATION.bib",
                 "LICENSE"):  # fmt: skip
        assert f"/{name}" in patterns
        assert (ROOT / name).exists()


def test_files_that_the_guide_names_exist() -> None:
    named = set(re.findall(r"`((?:networks|rramalloc|tests|docs|results|\.ci)/[\w/.-]*)`", GUIDE))
    assert len(named) >= 10
    made = {"networks/all_cnn.json"}
    assert [name for name in sorted(named - made) if "NAME" not in name and not (ROOT / name).exists()] == []


@pytest.fixture(scope="module")
def guide() -> dict[str, str]:
    """The programs and the preset of the guide, by the function they define."""
    written = [
        (block.kind, textwrap.dedent(block.text))
        for block in blocks(GUIDE)
        if block.kind in ("python", "toml")
    ]
    named = re.compile(r"^(?:def (\w+)|name = \"(\w+)\"|\[project\.(entry-points))", re.MULTILINE)
    names = (match for _, text in written if (match := named.search(text)))
    return {next(filter(None, match.groups())): text for match, (_, text) in zip(names, written, strict=True)}


def test_the_network_of_the_guide(guide: dict[str, str], tmp_path: Path) -> None:
    program = f"{guide['all_cnn']}\nimport rramalloc\nrramalloc.convert(all_cnn(), 'all_cnn.json')\n"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "networks")}
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment, check=True, timeout=120)
    network = load(tmp_path / "all_cnn.json")
    assert (len(network.stages), network.shapes["conv7"].height) == (
        9,
        6,
    )  # 32 / 2 / 2 = 8, unpadded 3 x 3: 6
    with pytest.raises(UnknownNameError):
        load("all_cnn")


def test_the_preset_of_the_guide(guide: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "example.toml").write_text(guide["example"], encoding="utf-8")
    hardware = load_hardware(tmp_path / "example.toml")
    assert (hardware.columns_per_weight, hardware.unconfirmed) == (4, ("precision.signed",))


def test_the_baseline_of_the_guide(
    guide: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its one file in the folder of the methods is all that there is of it."""
    (tmp_path / "twice.py").write_text(guide["solve"], encoding="utf-8")
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path)])
    monkeypatch.setitem(METHODS, "twice", "rramalloc.methods.twice:TWICE")
    found = rramalloc.optimize("alexnet", arrays=400, method="twice")
    assert set(found.replication.values()) == {2}
    assert found.arrays.used == 2 * (3 + 26 + 42 + 54 + 36)
    rows = rramalloc.compare("alexnet", 400, methods=["twice", "none"]).rows
    assert {row.method for row in rows} == {"twice", "none"}


def test_the_changes_of_the_guide_fit_the_code() -> None:
    """Lines that a diff keeps or removes stand one below the other in its file."""
    diffs = [block.text for block in blocks(GUIDE) if block.kind == "diff"]
    assert len(diffs) >= 4
    for diff in diffs:
        name, *lines = diff.rstrip("\n").split("\n")
        before = "\n".join(line[1:] for line in lines if not line.startswith("+"))
        assert before in (ROOT / name.removeprefix("--- a/")).read_text(encoding="utf-8"), diff


def test_the_export_of_the_guide(
    guide: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands in a package of its own, as pip installs it."""
    (tmp_path / "copies_export.py").write_text(guide["export"], encoding="utf-8")
    about = tmp_path / "copies-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: copies\nVersion: 1\n", encoding="utf-8")
    points = tomllib.loads(guide["entry-points"])["project"]["entry-points"]["rramalloc.exports"]
    lines = ["[rramalloc.exports]", *(f"{name} = {value}" for name, value in points.items())]
    (about / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert target_names()[-1] == "copies"
    exported = export("alexnet", {"conv1": 3}, "copies")
    assert isinstance(exported, Export)
    assert exported.files[0].text.startswith("{\n")
    assert yaml.safe_load(exported.files[0].text)["conv1"] == 3


def test_hints_install_an_extra_from_where_the_package_is() -> None:
    """No index has the package, so that only its own folder, with that extra in it, can be named."""
    for extra in ("torch", "dask", "measure", "parquet"):
        python, *words = shlex.split(how_to_install(extra))
        assert python == sys.executable
        assert words == ["-m", "pip", "install", f"{ROOT}[{extra}]"]
        assert extra in PROJECT["project"]["optional-dependencies"]


def test_hints_of_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy, "__file__", str(tmp_path / "rramalloc" / "lazy.py"))
    where = "'.[dask]' (in the folder of rramalloc's source)"
    assert how_to_install("dask") == f"{sys.executable} -m pip install {where}"
