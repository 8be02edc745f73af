"""`rramalloc chiplet cost`: a description, or a network as it is placed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from program import Run

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "resnext_block.json"


def test_description(run: Run, tmp_path: Path) -> None:
    table = run("chiplet", "cost", EXAMPLE)
    assert (table.code, table.err) == (0, "")
    assert "groups   55166 cycles in 5 groups" in table.out
    document = run("chiplet", "cost", EXAMPLE, "--format", "json", "-o", tmp_path / "c.json").json
    assert document == json.loads((tmp_path / "c.json").read_text())
    assert document["total"] == sum(group["cost"] for group in document["groups"]) + sum(document["between"])
    assert len(document["groups"]) == len(document["between"]) + 1
    assert set(document["groups"][0]["operators"]["input"]) == {"compute", "communication", "routing", "cost"}
    rows = run("chiplet", "cost", EXAMPLE, "--format", "csv").rows
    assert len(rows) == 36


@pytest.mark.parametrize("more", [(), ("--allocation", "a.json"), ("--placement", "p.json")])
def test_what_is_missing(run: Run, tiny: Path, more: tuple[str, ...]) -> None:
    told = run("chiplet", "cost", tiny, *more)
    assert (told.code, told.out) == (1, "")
    assert told.err.startswith("error: ")


def test_optimize_writes_what_cost_reads(run: Run, tmp_path: Path) -> None:
    schedule, description = tmp_path / "s.json", tmp_path / "d.json"
    told = run(
        "chiplet", "optimize", EXAMPLE, "--work", "4", "-o", schedule, "--description", description, "--quiet"
    )
    assert (told.code, told.err) == (0, "")
    assert [line.split()[0] for line in told.out.split("\n\n")[1].splitlines()][:3] == [
        "total",
        "between",
        "lower",
    ]
    rows = run("chiplet", "cost", EXAMPLE, schedule, description, "--format", "csv").rows
    totals = [float(row["total"]) for row in rows]
    assert totals[0] > totals[1] == totals[2] == json.loads(schedule.read_text())["total"]
    assert run("chiplet", "optimize", EXAMPLE, "--work", "4", "--format", "csv").rows[0]["group"] == "0"
