"""`rramalloc evaluate`: sources, formats, files and refusals."""

from __future__ import annotations

import json
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
        ("--strategies", "whole.json", "split.csv"),
        ("--strategies", "whole.json", "--strategies", "split.csv"),
        ("--strategies=whole.json", "split.csv"),
        ("--strategies", "whole.json", "split.csv", "--fc", "crossbar", "-q"),
    ],
)
def test_several_strategies(run: Any, files: tuple[str, ...]) -> None:
    document = run(*SHARED, *files, "--format", "json").json
    jsonschema.validate(document, json_schema("evaluation"))
    assert [(one["name"], one["time_ns"]) for one in document["ranking"]] == [
        ("split", pytest.approx(336)),
        ("whole", pytest.approx(500)),
    ]


def test_files_are_written(run: Any) -> None:
    outcome = run(
        *SHARED,
        "--strategies",
        "whole.json",
        "split.csv",
        "--load",
        "load.json",
        "--performance",
        "times.parquet",
        "-o",
        "evaluation.json",
        "--quiet",
    )
    assert (outcome.code, outcome.err) == (0, "")
    jsonschema.validate(json.loads(Path("load.json").read_text()), json_schema("load-matrix"))
    assert pd.read_parquet("times.parquet")["time_ns"].tolist() == pytest.approx([500, 336])
    assert json.loads(Path("evaluation.json").read_text())["best"] == "split"


def test_proposals_are_written_and_read_again(run: Any) -> None:
    assert run(*SHARED, "--enumerate", "3,3", "--propose", "best.json").code == 0
    again = run(*SHARED, "--strategies", "best.json", "--format", "json").json
    first = run(*SHARED, "--enumerate", "3,3", "--format", "json").json
    assert again["time_ns"] == pytest.approx(first["composed"]["time_ns"])
    assert run(*SHARED, "--arrays", "3", "--propose", "copies.json").code == 0
    assert json.loads(Path("copies.json").read_text()) == {"copies": {"conv1": 1, "conv2": 1, "fc": 1}}
    told = run(*SHARED, "--arrays", "2")
    assert (told.code, told.out) == (1, "")
    assert "3 arrays" in told.err
    Path("kept.json").write_text('{"copies": {"conv1": 1}}')
    told = run(*SHARED, "--allocations", "kept.json", "--propose", "none.json")
    assert (told.code, told.out) == (1, run(*SHARED, "--allocations", "kept.json").out)
    assert "nothing is proposed" in told.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate", "net.json", "--hardware", "chip.toml"),
        (*SHARED, "--enumerate", "3"),
        (*SHARED, "--enumerate", "3,3", "stray.json"),
        (*SHARED, "--strategies"),
    ],
)
def test_wrong_usage(run: Any, arguments: tuple[str, ...]) -> None:
    outcome = run(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--strategies", "chip.toml"), "chip.toml: is not JSON"),
        (("--strategies", "whole.json", "whole.json"), "two of them are named"),
        (("--enumerate", "9,1"), "compute units must be from 1 to 3, got 9"),
        (("--enumerate", "2,2", "--load", "no/load.json"), "folder does not exist"),
    ],
)
def test_what_cannot_be_served_is_said(run: Any, arguments: tuple[str, ...], words: str) -> None:
    before = {path.name for path in Path().iterdir()}
    outcome = run(*SHARED, *arguments)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("error: ")
    assert words in outcome.err
    assert {path.name for path in Path().iterdir()} == before


def test_set_changes_units_of_the_hardware(run: Any) -> None:
    files = ("--strategies", "whole.json", "split.csv", "--set", "units.bandwidth_out_gb_s=100")
    document = run(*SHARED, *files, "--format", "json").json
    jsonschema.validate(document, json_schema("evaluation"))
    assert document["set_values"] == ["units.bandwidth_out_gb_s=100"]
    assert document["chip"]["bandwidth_out_gb_s"] == 100
    assert document["time_ns"] < 336
