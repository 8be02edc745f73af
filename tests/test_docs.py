"""Every page of the documentation can be followed, shows what really comes out, and leaves nothing out."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
from pages import blocks, follow

from rramalloc import optimize
from rramalloc.cli.main import app
from rramalloc.commands.latency.measure import Repetition
from rramalloc.schemas import json_schema, schema_names

DOCS = Path(__file__).resolve().parents[1] / "docs"
WITHOUT_COMMANDS = ("architecture", "changes", "together")
"""Pages about the code, which a test of their own reads."""
PAGES = sorted(page for page in DOCS.glob("*.md") if page.stem not in WITHOUT_COMMANDS)
EACH_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
READERS: Mapping[str, Callable[[str], Any]] = {
    "json": json.loads,
    "toml": tomllib.loads,
    "csv": lambda text: list(csv.reader(text.splitlines())),
}
ELSEWHERE = dict.fromkeys(("docs", "examples", "networks", "presets", "schema"), "shipped") | {
    "warm-up": "warm_up"
}
"""Commands that share a page, or whose page has another name."""
FIGURE = re.compile(r"\]\(figures/([\w-]+\.svg)\)")


@dataclass(frozen=True)
class Few(Repetition):
    """Executions of a run unless a command says otherwise."""

    least: int = 5
    most: int = 5


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def script(name: str) -> ModuleType:
    """Return a program that stands beside the pages."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    return script("hooks")


@pytest.fixture(scope="module")
def pictures() -> Mapping[str, Callable[[], str]]:
    drawn: Mapping[str, Callable[[], str]] = script("figures").PICTURES
    return drawn


def one_search() -> None:
    optimize("alexnet", 200, work=0)


@EACH_PAGE
def test_page_can_be_followed(
    page: Path, tmp_path: Path, pictures: Mapping[str, Callable[[], str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real device is timed a few times only: nothing is said of how long it takes.

    `warm-up` compiles one search only: its own test has it compile all.
    """
    monkeypatch.setattr("rramalloc.commands.latency.measure.Repetition", Few)
    monkeypatch.setattr("rramalloc.commands.warm_up.warm_up.PROGRAMS", {"copies": one_search})
    text = text_of(page)
    assert follow(text, tmp_path, DOCS / "examples") > 0
    for figure in FIGURE.findall(text):
        assert figure in pictures or (tmp_path / figure).is_file(), f"no command of the page draws {figure}"


@EACH_PAGE
def test_every_block_is_run_printed_or_read(page: Path) -> None:
    text = text_of(page)
    assert len(re.findall(r"^```", text, re.MULTILINE)) == 2 * len(list(blocks(text)))
    for block in blocks(text):
        assert block.kind in ("sh", "python", "text", *READERS)
        if block.kind in READERS:
            READERS[block.kind](block.text)
        if block.kind == "sh":
            starts = {line.split()[0] for line in block.text.replace("\\\n", " ").splitlines()}
            assert starts <= {"rramalloc", "python3", ".venv/bin/python", "source"}


def test_pictures_are_as_their_program_draws_them(pictures: Mapping[str, Callable[[], str]]) -> None:
    for name, draw in pictures.items():
        assert text_of(DOCS / "figures" / name) == draw(), name


def test_every_command_has_a_page() -> None:
    for name in typer.main.get_command(app).commands:  # type: ignore[attr-defined]
        page = text_of(DOCS / f"{ELSEWHERE.get(name, name)}.md")
        assert f"rramalloc {name}" in page, name


def test_every_package_that_is_installed_has_its_reason() -> None:
    asked = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    answer = text_of(DOCS / "questions.md").rpartition("## ")[2]
    for requirement in asked["dependencies"]:
        name = re.split("[<>=]", requirement)[0]
        assert f"`{name}`" in answer, name


def test_format_pages_have_every_field_of_every_schema(hooks: ModuleType) -> None:
    pages = hooks.format_pages()
    assert tuple(pages) == schema_names()
    assert re.findall(r"^\| \[`([\w-]+)`\]", hooks.formats(), re.MULTILINE) == list(pages)
    every = "\n".join(pages.values())
    for name, page in pages.items():
        schema = json_schema(name)
        for field in schema.get("properties", {}):
            assert f"| `{field}` |" in page, (name, field)
        for record in schema.get("$defs", {}).values():
            for field in record.get("properties", {}):
                assert f"| `{field}` |" in every, (name, field)
        for other, target in re.findall(r"\]\(([\w-]*)(?:\.md)?#([\w-]+)\)", page):
            assert f"{{ #{target} }}" in pages[other or name], (name, other, target)


def test_fields_of_formats_have_a_meaning(hooks: ModuleType) -> None:
    lines = "\n".join(hooks.format_pages().values()).splitlines()
    rows = [line for line in lines if line.startswith("| `")]
    assert [row for row in rows if row.rstrip().endswith("|  |")] == []
    told = (
        "One stage. arrays_per_copy: arrays of one copy; arrays: of all: both.\n\nstart, finish: exact steps."
    )
    text, meaning = hooks.meanings(told, ("arrays_per_copy", "arrays", "start", "finish"))
    assert meaning == {
        "arrays_per_copy": "arrays of one copy",
        "arrays": "of all: both",
        "start": "exact steps",
        "finish": "exact steps",
    }
    assert text == "One stage."


def test_notebooks_are_pages(hooks: ModuleType) -> None:
    for path in (DOCS / "notebooks").glob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        page = hooks.notebook_page({"cells": cells})
        assert page.count("```python") == sum(cell["cell_type"] == "code" for cell in cells)
        shown = sum(len(cell.get("outputs", ())) for cell in cells)
        assert page.count('<div class="output">') == shown > 0
        assert "<svg" in page or "data:image/png" in page
        assert not hooks.LOADED.search(page)
    printed = {"output_type": "stream", "text": ["<b>\n", "\n", "2"]}
    assert "&lt;b&gt;\n2" in hooks.notebook_page(
        {"cells": [{"cell_type": "code", "source": ["x"], "outputs": [printed]}]}
    )


@pytest.mark.parametrize(
    ("tag", "loads"),
    [
        ('<script src="assets/a.js"></script>', False),
        ('<a href="https://example.org">x</a>', False),
        ('<link href="https://example.org/x" rel="canonical">', False),
        ('<script async src="https://example.org/a.js"></script>', True),
        ('<link rel="stylesheet" href="//fonts.example.org/css">', True),
        ('<img alt="" src=https://example.org/a.png>', True),
    ],
)
def test_what_loads_from_the_network(hooks: ModuleType, tag: str, loads: bool) -> None:
    assert bool(hooks.LOADED.search(tag)) == loads


def test_files_that_the_map_of_the_code_names_exist() -> None:
    named = re.findall(r"`([\w/]+/(?:\w+\.py)?|\w+\.py)`", text_of(DOCS / "architecture.md"))
    known = [path.as_posix() for path in (DOCS.parent / "rramalloc").rglob("*.py")]
    assert len(named) > 40
    for name in named:
        places = (DOCS.parent / name, DOCS.parent / "rramalloc" / name)
        assert any(place.exists() for place in places) or any(path.endswith(f"/{name}") for path in known), (
            name
        )


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_patches_that_show_how_to_contribute_apply_and_hold(tmp_path: Path) -> None:
    """All go into one copy of the source, compiled code and all; a limit of cores then changes answers.

    A command touches nothing but its folder, its page and its tests, and what one program writes.
    """
    root = DOCS.parent
    shutil.copytree(root / "rramalloc", tmp_path / "rramalloc")
    (tmp_path / "networks").symlink_to(root / "networks")
    law = "tests/importers/test_every_importer.py"
    for name in ("mkdocs.yml", "docs/generate.py", law, "tests/hostile/documents.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, tmp_path / name)
    guide = (root / "docs" / "changes.md").read_text(encoding="utf-8")
    patches = re.findall(r"^```diff\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    assert len(patches) == 9
    touched = re.findall(r"^\+\+\+ b/(.*)", patches[0], re.MULTILINE)
    homes = ("rramalloc/commands/reuse/", "tests/commands/reuse/", "docs/reuse.md")
    assert [path for path in touched if not path.startswith(homes)] == []
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    for patch in patches:
        subprocess.run(["git", "apply"], cwd=tmp_path, input=patch, text=True, check=True)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (tmp_path, tmp_path / "tests", root / "tests"))),
    }
    page = "from pages import follow; from pathlib import Path; "
    page += "assert follow(Path('docs/reuse.md').read_text(), Path(), Path('docs')) == 1"
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/allocation/test_cores.py"]
    tests += [
        "tests/commands/reuse",
        "tests/search/test_array_time.py",
        "tests/mapping/test_channel_split.py",
        "tests/timing/test_pj_per_mac.py",
        "tests/importers/test_darknet.py",
        "tests/timing/test_hand_over.py",
        f"{law}::test_damaged_files_are_networks_or_errors[Darknet]",
    ]
    # files that an objective, a mapping, a figure, an importer and a rule of timing touch
    for patch, most in zip((*patches[1:3], *patches[6:]), (4, 8, 3, 4, 8), strict=True):
        assert patch.count("\n+++ b/") <= most
    for words in (["docs/generate.py"], ["-c", page], tests):
        run = [sys.executable, *words]
        done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "import reuse as reuse" in (tmp_path / "rramalloc" / "__init__.pyi").read_text()
    assert "      - Use of weights: reuse.md\n" in (tmp_path / "mkdocs.yml").read_text()
