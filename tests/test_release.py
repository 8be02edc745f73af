"""What a release is made of: one version, a changelog, a citation, a guide that works, all sources."""

from __future__ import annotations

import re
import shlex
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from pages import blocks

import rramalloc
from rramalloc import lazy, methods
from rramalloc.commands.export.bundle import Export
from rramalloc.commands.export.discovery import target_names
from rramalloc.commands.export.export import export
from rramalloc.hardware.loader import load_hardware
from rramalloc.lazy import how_to_install
from rramalloc.methods.registry import METHODS

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
VERSION = PROJECT["project"]["version"]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
CITED = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


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


def test_citation_is_of_this_version() -> None:
    citation = yaml.load(CITED, yaml.BaseLoader)  # noqa: S506 - makes text of all
    assert citation["version"] == VERSION
    assert f"## [{VERSION}] - {citation['date-released']}" in CHANGELOG
    assert f"version = {{{VERSION}}}" in (ROOT / "CITATION.bib").read_text(encoding="utf-8")


def sources() -> Iterator[str]:
    """DOIs, arXiv numbers and venues that the docstrings of methods name."""
    for path in sorted((ROOT / "rramalloc").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        yield from re.findall(r"doi\s(10\.\d+/[\w.:/-]*\w)", text)
        yield from re.findall(r"arXiv:? (\d{4}\.\d{5})", text)


def test_citation_names_the_sources_of_the_methods() -> None:
    named = set(sources())
    assert len(named) >= 4
    assert [source for source in named if source not in CITED] == []


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
    assert [name for name in sorted(named) if "NAME" not in name and not (ROOT / name).exists()] == []


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
