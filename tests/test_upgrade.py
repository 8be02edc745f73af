"""Files of the first versions of formats, as version 0.1.0 wrote them (old/results.json), are read today."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from program import run
from pydantic import TypeAdapter

import rramalloc
from rramalloc.commands.sweep.sweep import DATABASE
from rramalloc.errors import SpecError
from rramalloc.records import parse
from rramalloc.schemas import record_of
from rramalloc.upgrade import upgraded, upgraded_row

OLD: dict[str, Any] = json.loads(Path(__file__).with_name("old").joinpath("results.json").read_text())
OLD_NAMES = {"demand", "replication", "seconds", "demand_before", "demand_after"}


def names_in(value: Any) -> set[str]:
    """Names of all fields of a document."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set(value if isinstance(value, dict) else ()).union(*map(names_in, inner))


@pytest.fixture
def old(tmp_path: Path) -> dict[str, Path]:
    """The stored files by name."""
    paths = {name: tmp_path / f"{name}.json" for name in OLD}
    for name, path in paths.items():
        path.write_text(json.dumps(OLD[name]))
    return paths


@pytest.mark.parametrize("name", sorted(OLD.keys() - {"network"}))
def test_every_old_result_is_todays_record(name: str) -> None:
    """No old name is left in any depth, and nothing but names and the version differs."""
    assert names_in(OLD[name]) & OLD_NAMES
    document = upgraded(OLD[name])
    assert not names_in(document) & OLD_NAMES
    assert document["format"] == f"rramalloc-{name}/{1 if name == 'size' else 2}"
    record: Any = parse(TypeAdapter(record_of(name)), document, name)
    assert getattr(record, "status", "optimal") in ("optimal", "bounded", "feasible")
    assert record.format == document["format"]
    assert upgraded(document) == document


def test_names_that_a_user_gave_stay() -> None:
    """Layers may be called what fields were called before."""
    document = {"replication": {"demand": 2, "replication": 3}, "block": {"seconds": [1, 2]}}
    assert upgraded(document) == {
        "copies": {"demand": 2, "replication": 3},
        "block": {"seconds": [1, 2]},
    }
    layer = {"name": "replication", "demand": 3, "replication": 4}
    old = {"format": "rramalloc-allocation/1", "layers": [layer]}
    assert upgraded(old)["layers"] == [{"name": "replication", "arrays_per_copy": 3, "copies": 4}]


def test_both_names_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "both.json"
    path.write_text('{"replication": {"c1": 2}, "copies": {"c1": 3}}')
    with pytest.raises(SpecError, match="replication: this field is not known"):
        rramalloc.simulate(str(_network(tmp_path)), path)


def _network(folder: Path) -> Path:
    path = folder / "network.json"
    path.write_text(json.dumps(OLD["network"]))
    return path


def test_an_old_allocation_is_read_by_all_that_take_one(old: dict[str, Path]) -> None:
    network, allocation = old["network"], old["allocation"]
    before = OLD["allocation"]
    copies = {layer["name"]: layer["replication"] for layer in before["layers"]}
    simulated = rramalloc.simulate(str(network), allocation)
    assert simulated.makespan == before["makespan"]
    assert {layer.name: layer.copies for layer in simulated.layers} == copies
    assert rramalloc.place(str(network), allocation).copies == copies
    assert rramalloc.explain(str(network), allocation=allocation, work=1).makespan == before["makespan"]
    verified = rramalloc.verify(str(network), allocation, placement=old["placement"])
    assert verified.arrays == before["arrays"]["used"]
    started = rramalloc.optimize(str(network), 12, hardware=simulated.hardware, start=allocation, work=0)
    assert started.copies == copies


def test_a_report_shows_old_results(old: dict[str, Path], tmp_path: Path) -> None:
    """Every result that a report has a section for; those of `export` have none."""
    files = [path for name, path in old.items() if name not in ("network", "export")]
    page = tmp_path / "page.html"
    outcome = run("report", *files, "--network", old["network"], "-o", page, "-q")
    assert (outcome.code, outcome.err) == (0, "")
    assert page.read_text().count("<section") >= len(files)


def test_a_bare_allocation_in_the_old_name(old: dict[str, Path], tmp_path: Path) -> None:
    bare = tmp_path / "bare.json"
    bare.write_text('{"replication": {"c1": 2}}')
    simulated = rramalloc.simulate(str(old["network"]), bare)
    assert {layer.name: layer.copies for layer in simulated.layers} == {"c1": 2, "c2": 1}


def test_an_error_in_an_old_file_says_todays_name(old: dict[str, Path]) -> None:
    document = json.loads(old["allocation"].read_text())
    document["layers"][0]["replication"] = 0
    old["allocation"].write_text(json.dumps(document))
    with pytest.raises(SpecError, match=r"layers\[0\] 'c1'\.copies"):
        rramalloc.simulate(str(old["network"]), old["allocation"])


def test_a_sweep_that_the_first_version_began_resumes(old: dict[str, Path], tmp_path: Path) -> None:
    """Two rows of three are there in their old form: one point is computed, the file of rows is as new."""
    spec = {"networks": str(old["network"]), "arrays": [3, 6, 9], "work": 1}
    whole, begun = tmp_path / "whole", tmp_path / "begun"
    rramalloc.sweep(spec, whole, jobs=1)
    rramalloc.sweep(spec, begun, jobs=1)
    with contextlib.closing(sqlite3.connect(begun / DATABASE)) as database, database:
        (text,) = database.execute("SELECT document FROM sweep").fetchone()
        first = text.replace("rramalloc-sweep/2", "rramalloc-sweep/1")
        database.execute("UPDATE sweep SET document = ?, identity = 'of the first version'", (first,))
        database.execute(
            "UPDATE rows SET row = replace(json_remove(row, '$.status'), '\"work_s\":', '\"seconds\":')"
        )
        database.execute("DELETE FROM rows WHERE key = (SELECT key FROM points WHERE number = 1)")
    assert rramalloc.sweep_status(begun).done == 2
    resumed = rramalloc.sweep(spec, begun, jobs=1)
    assert resumed.computed == 1
    assert (begun / "rows.csv").read_bytes() == (whole / "rows.csv").read_bytes()
    assert resumed.document.format == "rramalloc-sweep/2"


@pytest.mark.parametrize("gap", ["x", [], {}, None])
def test_a_row_that_is_none_is_left_to_its_record(gap: Any) -> None:
    assert upgraded_row({"gap": gap, "lower_bound": 1}) == {"gap": gap, "lower_bound": 1}
    assert upgraded_row({"gap": 0.5, "lower_bound": "x"})["status"] == "feasible"
