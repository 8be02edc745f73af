"""`rramalloc evaluate`: sources, formats, files and refusals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pandas as pd
import pytest
from commands.evaluate import worked

from rramalloc.schemas import json_schema


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worked example as files in the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("net.json").write_text(json.dumps(worked.NETWORK))
    Path("chip.toml").write_text(worked.CHIP_TOML)
    Path("whole.json").write_text(json.dumps(worked.WHOLE))
    Path("split.csv").write_text(worked.SPLIT_CSV)


SHARED = ("evaluate", "net.json", "--hardware", "chip.toml", "--fc", "crossbar")


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(("--strategies", "whole.json", "split.csv"), id="several files"),
        pytest.param(("--strategies", "whole.json", "--strategies", "split.csv"), id="repeated"),
        pytest.param(("--strategies=whole.json", "split.csv"), id="equals sign"),
        pytest.param(
            ("--strategies", "whole.json", "split.csv", "--fc", "crossbar", "-q"), id="options after"
        ),
    ],
)
def test_several_strategies(run: Any, files: tuple[str, ...]) -> None:
    document = run(*SHARED, *files, "--format", "json").json
    jsonschema.validate(document, json_schema("evaluation"))
    assert [(one["name"], one["time_ns"]) for one in document["ranking"]] == [
        ("split", pytest.approx(336)),
        ("whole", pytest.approx(500)),
    ]


def test_network_after_the_options(run: Any) -> None:
    """An option takes one file then, as everywhere else."""
    outcome = run(
        "evaluate", "--hardware", "chip.toml", "--strategies", "whole.json", "net.json", "--fc", "crossbar"
    )
    assert outcome.code == 0, outcome.err
    assert "whole takes 500 ns" in outcome.out


def test_table_json_and_csv_tell_the_same(run: Any) -> None:
    command = (*SHARED, "--strategies", "whole.json", "split.csv")
    document = run(*command, "--format", "json").json
    rows = run(*command, "--format", "csv").rows
    assert [float(row["time_ns"]) for row in rows] == [task["time_ns"] for task in document["tasks"]]
    assert [row["dominant"] for row in rows] == list(worked.DOMINANT)
    table = run(*command).out
    assert "split takes 336 ns" in table
    assert "3 tasks, one after the other" in table


def test_files_are_written(run: Any) -> None:
    outcome = run(
        *SHARED, "--strategies", "whole.json", "split.csv", "--load", "load.json",
        "--performance", "times.parquet", "-o", "evaluation.json", "--quiet",
    )  # fmt: skip
    assert (outcome.code, outcome.err) == (0, "")
    jsonschema.validate(json.loads(Path("load.json").read_text()), json_schema("load-matrix"))
    assert pd.read_parquet("times.parquet")["time_ns"].tolist() == pytest.approx([500, 336])
    assert json.loads(Path("evaluation.json").read_text())["best"] == "split"


def test_load_matrix_goes_to_a_pipe(start: Any) -> None:
    command = (*SHARED, "--strategies", "whole.json", "--load", "/dev/stdout", "--format", "csv")
    with start(*command) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.startswith('{\n"format"')


def test_enumeration(run: Any) -> None:
    """Classes and their ways as in tests/commands/evaluate/test_enumerate.py."""
    document = run(*SHARED, "--enumerate", "3,3", "--format", "json").json
    many = document["enumerated"]
    assert {key: many[key] for key in ("compute_units", "storage_units", "unit_bytes", "ways")} == {
        "compute_units": 3, "storage_units": 3, "unit_bytes": 400, "ways": 25,
    }  # fmt: skip
    assert {each["name"]: each["ways"] for each in many["classes"]} == {
        "windows / 1": 1, "windows / 2": 9, "outputs / 2": 18, "outputs / 3": 6,
    }  # fmt: skip
    assert (
        "25 ways to share 3 compute and 3 storage units out; 4 classes"
        in run(*SHARED, "--enumerate", "3,3").out
    )


def test_proposals_are_written_and_read_again(run: Any) -> None:
    assert run(*SHARED, "--enumerate", "3,3", "--propose", "best.json").code == 0
    again = run(*SHARED, "--strategies", "best.json", "--format", "json").json
    first = run(*SHARED, "--enumerate", "3,3", "--format", "json").json
    assert again["time_ns"] == pytest.approx(first["composed"]["time_ns"])
    assert run(*SHARED, "--arrays", "3", "--propose", "copies.json").code == 0
    assert json.loads(Path("copies.json").read_text()) == {"replication": {"conv1": 1, "conv2": 1, "fc": 1}}
    told = run(*SHARED, "--arrays", "2")
    assert (told.code, told.out) == (1, "")
    assert "3 arrays" in told.err
    Path("kept.json").write_text('{"replication": {"conv1": 1}}')
    told = run(*SHARED, "--allocations", "kept.json", "--propose", "none.json")
    assert (told.code, told.out) == (1, "")
    assert "nothing is proposed" in told.err


def test_all_sources_together(run: Any) -> None:
    Path("more.json").write_text('{"replication": {"conv1": 1}}')
    outcome = run(
        *SHARED, "--strategies", "whole.json", "--allocations", "more.json", "--enumerate", "1,3",
        "--format", "json",
    )  # fmt: skip
    assert [one["name"] for one in outcome.json["ranking"]] == ["whole", "more", "windows / 1"]
    assert outcome.json["equals"] == 3


def test_allocations_of_equal_file_names_have_their_folders(run: Any) -> None:
    for folder in ("a", "b"):
        Path(folder).mkdir()
        Path(folder, "x.json").write_text('{"replication": {}}')
    outcome = run(*SHARED, "--allocations", "a/x.json", "b/x.json", "--format", "json")
    assert [one["name"] for one in outcome.json["ranking"]] == ["a/x.json", "b/x.json"]


def test_written_allocations_are_read(run: Any) -> None:
    assert run("optimize", "net.json", "--arrays", 3, "-o", "best.json").code == 0
    outcome = run("evaluate", "net.json", "--hardware", "chip.toml", "--allocations", "best.json")
    assert outcome.code == 0, outcome.err
    assert "best takes" in outcome.out


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("evaluate", "net.json", "--hardware", "chip.toml"), id="no source"),
        pytest.param(("evaluate", "net.json", "--strategies", "whole.json"), id="no chip"),
        pytest.param((*SHARED, "--enumerate", "3"), id="one number"),
        pytest.param((*SHARED, "--enumerate", "3,x"), id="no number"),
        pytest.param((*SHARED, "--arrays", "0"), id="no arrays"),
        pytest.param((*SHARED, "--enumerate", "3,3", "stray.json"), id="stray file"),
        pytest.param((*SHARED, "--strategies"), id="no file"),
    ],
)
def test_wrong_usage(run: Any, arguments: tuple[str, ...]) -> None:
    outcome = run(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(("--strategies", "none.json"), "none.json: no such file", id="no strategy file"),
        pytest.param(("--strategies", "chip.toml"), "chip.toml: is not JSON", id="no strategy"),
        pytest.param(("--strategies", "whole.json", "whole.json"), "two of them are named", id="twice"),
        pytest.param(("--allocations", "whole.json"), "whole.json: format", id="no allocation"),
        pytest.param(("--enumerate", "9,1"), "compute units must be from 1 to 3, got 9", id="units"),
        pytest.param(("--enumerate", "2,2", "--performance", "t.xlsx"), ".csv or .parquet", id="ending"),
        pytest.param(("--enumerate", "2,2", "--load", "no/load.json"), "folder does not exist", id="folder"),
    ],
)
def test_what_cannot_be_served_is_said(run: Any, arguments: tuple[str, ...], words: str) -> None:
    before = {path.name for path in Path().iterdir()}
    outcome = run(*SHARED, *arguments)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("error: ")
    assert words in outcome.err
    assert {path.name for path in Path().iterdir()} == before


def test_a_broken_rule_names_file_task_and_unit(run: Any) -> None:
    broken = worked.changed(worked.WHOLE, tasks={"*": [{"compute": [1, 3], "storage": [1, 2, 3]}]})
    Path("broken.json").write_text(json.dumps(broken))
    outcome = run(*SHARED, "--strategies", "broken.json")
    assert outcome.code == 1
    assert outcome.err == (
        "error: broken.json: task 'conv1': compute unit C2 is left over, 1 in all (processors = 3): "
        "give every unit to a subtask, or mark it idle\n"
    )


def test_files_of_many_strategies(run: Any) -> None:
    """A wildcard's worth of files."""
    for number in range(50):
        shutil.copy("split.csv", f"s{number:02}.csv")
    files = sorted(str(path) for path in Path().glob("s??.csv"))
    document = run(*SHARED, "--strategies", *files, "--format", "json").json
    assert (document["strategies"], document["best"], document["equals"]) == (50, "s00", 50)
