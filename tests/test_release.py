"""What a release is made of: one version, a changelog, a citation, a guide that works, all sources."""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from pathlib import Path

import rramalloc
from rramalloc.lazy import how_to_install

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
VERSION = PROJECT["project"]["version"]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_version_is_semantic_and_stands_in_one_place() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", VERSION)
    assert rramalloc.__version__ == VERSION
    for path in (ROOT / "rramalloc").rglob("*.py"):
        assert f'"{VERSION}"' not in path.read_text(encoding="utf-8"), path


def test_the_source_archive_is_whole() -> None:
    patterns = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    for name in ("rramalloc", "networks", "tests", "docs", "results", ".ci", "pyproject.toml", "mkdocs.yml",
                 "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", "CITATION.bib",
                 "LICENSE"):  # fmt: skip
        assert f"/{name}" in patterns
        assert (ROOT / name).exists()


def test_a_citation_has_the_version_of_the_package_and_one_date() -> None:
    cff = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    bib = (ROOT / "CITATION.bib").read_text(encoding="utf-8")
    versions = [*re.findall(r"(?m)^version: (.+)$", cff), *re.findall(r"version = \{(.+)\}", bib)]
    assert versions == [VERSION, VERSION]
    dates = [*re.findall(r"(?m)^date-released: (.+)$", cff), *re.findall(r"date = \{(.+)\}", bib)]
    assert len(dates) == 2
    assert dates[0] == dates[1]


def test_files_that_the_citations_name_exist() -> None:
    named = re.findall(r"[\w/]+\.py", (ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert named
    for name in named:
        assert (ROOT / "rramalloc" / name).is_file() or (ROOT / name).is_file(), name


def test_hints_install_an_extra_from_where_the_package_is() -> None:
    """No index has the package, so that only its own folder, with that extra in it, can be named."""
    for extra in ("torch", "dask", "measure", "parquet"):
        python, *words = shlex.split(how_to_install(extra))
        assert python == sys.executable
        assert words == ["-P", "-m", "pip", "install", f"{ROOT}[{extra}]"]
        assert extra in PROJECT["project"]["optional-dependencies"]
