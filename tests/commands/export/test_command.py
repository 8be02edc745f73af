"""`rramalloc export`: files where they belong, remarks on stderr, refusals with a reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.conftest import Run


@pytest.fixture
def allocation(tmp_path: Path) -> Path:
    path = tmp_path / "a.json"
    path.write_text('{"replication": {"conv1": 3}}')
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


def test_a_folder_with_other_files_is_refused_before_the_work(
    run: Run, tiny: Path, allocation: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is read, so that an allocation that is none does not matter: the folder is the fault."""
    (tmp_path / "README.md").write_text("my project")
    allocation.write_text("no allocation")
    before = sorted(path.name for path in tmp_path.iterdir())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for folder, told in (
        (".", "is the current folder"),
        (tmp_path / "empty" / "..", "is the current folder"),
        ("..", "name a new or an empty folder"),
    ):
        outcome = run("export", tiny, "--allocation", allocation, "--to", "pimsyn", "-o", folder)
        assert (outcome.code, told in outcome.err) == (1, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*before, "empty"])


def test_an_export_that_is_read_is_not_replaced(
    run: Run, tiny: Path, allocation: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    words = ("--allocation", allocation, "--to", "pimsyn", "-o", folder)
    assert run("export", tiny, *words).code == 0
    outcome = run("export", folder / "network.json", *words)
    assert (outcome.code, "is read by this command" in outcome.err) == (1, True)
    assert run("export", tiny, *words).code == 0


def test_check_writes_nothing(run: Run, tiny: Path, allocation: Path, tmp_path: Path) -> None:
    told = run("export", tiny, "--allocation", allocation, "--to", "pimcomp", "-o", tmp_path / "o", "--check")
    assert told.code == 0
    assert "stored once" in told.out
    assert not (tmp_path / "o").exists()
    assert (
        "nothing is rounded" in run("export", tiny, "--allocation", allocation, "--to", "csv", "--check").out
    )


def test_refusals_leave_no_files(run: Run, allocation: Path, tmp_path: Path) -> None:
    allocation.write_text('{"replication": {}}')
    told = run(
        "export", "mobilenet_v1", "--allocation", allocation, "--to", "neurosim", "-o", tmp_path / "out"
    )
    assert told.code == 1
    assert "NeuroSim has no grouped convolution" in told.err
    assert not (tmp_path / "out").exists()


def test_a_placement_comes_along(run: Run, tiny: Path, allocation: Path, tmp_path: Path) -> None:
    placed = tmp_path / "p.json"
    made = run(
        "place", tiny, "--allocation", allocation, "--hardware", "isaac-todaes", "-o", placed, "--quiet"
    )
    assert made.code == 0, made.err
    told = run(
        "export", tiny, "--allocation", allocation, "--placement", placed, "--to", "csv", "-o", tmp_path / "o"
    )
    assert told.code == 0, told.err
    lines = (tmp_path / "o" / "placement.csv").read_text().splitlines()
    assert lines[0].startswith("chip_row,chip_column,tile_row,tile_column,index,layer,replica")
    assert len(lines) == 1 + len(json.loads(placed.read_text())["arrays"])
    document = run("export", tiny, "--allocation", allocation, "--placement", placed, "--to", "json").json
    assert document["placement"] == json.loads(placed.read_text())["arrays"]
    other = run(
        "export",
        tiny,
        "--allocation",
        allocation,
        "--placement",
        placed,
        "--to",
        "pimsyn",
        "-o",
        tmp_path / "x",
    )
    assert other.code == 1
    assert "places arrays itself" in other.err
    allocation.write_text('{"replication": {"conv1": 4}}')
    assert run("export", tiny, "--allocation", allocation, "--placement", placed, "--to", "csv").code == 1
