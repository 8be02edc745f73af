"""`rramalloc export`: files where they belong, remarks on stderr, refusals with a reason."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from program import Run

import rramalloc


@pytest.fixture
def allocation(tmp_path: Path) -> Path:
    path = tmp_path / "a.json"
    path.write_text('{"copies": {"conv1": 3}}')
    return path


def test_a_single_file_goes_to_stdout_or_to_a_file(
    run: Run, tiny: Path, allocation: Path, tmp_path: Path
) -> None:
    printed = run("export", tiny, "--allocation", allocation, "--to", "csv")
    assert printed.code == 0
    assert printed.out.splitlines()[1].startswith("0,conv1,conv,3x16x16,16x16x16,3x3")
    kept = run("export", tiny, "--allocation", allocation, "--to", "csv", "-o", tmp_path / "out.csv")
    assert (kept.out, (tmp_path / "out.csv").read_text()) == ("", printed.out)


def test_several_files_go_to_a_folder(run: Run, tiny: Path, allocation: Path, tmp_path: Path) -> None:
    told = run("export", tiny, "--allocation", allocation, "--to", "pimsyn", "-o", tmp_path / "out")
    assert (told.code, told.out) == (0, "")
    assert "the best power efficiency" in told.err
    names = ["README.md", "allocation.json", "duplication.json", "network.json", "run.py"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    assert json.loads((tmp_path / "out" / "duplication.json").read_text()) == [3, 1]
    quiet = run(
        "export", tiny, "--allocation", allocation, "--to", "pimsyn", "-o", tmp_path / "out", "--quiet"
    )
    assert (quiet.code, quiet.err) == (0, "")


def test_a_readme_shows_a_name_as_it_is() -> None:
    """A name from a file makes no link, image, code or HTML, and no line of its own."""
    network = replace(rramalloc.load("alexnet"), name="a\n# b ![x](http://y) <img src=z> `c`")
    text = next(
        file.text for file in rramalloc.export(network, {}, "neurosim").files if file.name == "README.md"
    )
    assert text.startswith("# a?\\# b \\!\\[x\\](http://y) \\<img src=z\\> \\`c\\` for neurosim\n")
