"""`rramalloc chiplet cost`: a description, or a network as it is placed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.conftest import Run

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


def test_description_without_edges(run: Run, tmp_path: Path) -> None:
    """3 + 3 + 3 - 1 cycles on an array of 4 x 4 cells (docs/sources/companions.md 2), and nothing between."""
    chip = {
        "chiplets": [1, 1],
        "units": [1, 1],
        "hop_cycles_inside": 1,
        "hop_cycles_between": 1,
        "systolic": 4,
    }
    description = {"chip": chip, "groups": [["v"]], "operators": {"v": {"work": [3, 3, 3]}}}
    path = tmp_path / "d.json"
    path.write_text(json.dumps(description))
    table = run("chiplet", "cost", path)
    assert (table.code, table.err) == (0, "")
    assert [line.split() for line in table.out.splitlines()[-3:]] == [
        ["groups", "8", "cycles", "in", "1", "groups"],
        ["between", "0", "cycles"],
        ["total", "8", "cycles"],
    ]


def test_placed_network(run: Run, tiny: Path, tmp_path: Path) -> None:
    allocation, placement = tmp_path / "a.json", tmp_path / "p.json"
    allocation.write_text('{"replication": {"conv1": 8}}')
    machine = ("--hardware", "isaac-todaes")
    assert run("place", tiny, "--allocation", allocation, *machine, "-o", placement, "--quiet").code == 0
    told = run(
        "chiplet", "cost", tiny, "--allocation", allocation, "--placement", placement, "--format", "json"
    )
    assert told.code == 0, told.err
    assert told.json["unit"] == "ns"
    groups = told.json["groups"]
    assert (
        groups[0]["operators"]["conv1"]["compute"] == 2100 * 256 / 8
    )  # 256 windows, 8 copies, 2100 ns a step
    assert groups[1]["operators"]["conv2"]["compute"] == 2100 * 64


@pytest.mark.parametrize("more", [(), ("--allocation", "a.json"), ("--placement", "p.json")])
def test_what_is_missing(run: Run, tiny: Path, more: tuple[str, ...]) -> None:
    told = run("chiplet", "cost", tiny, *more)
    assert (told.code, told.out) == (1, "")
    assert told.err.startswith("error: ")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"chip": {}}'])
def test_hostile_descriptions(run: Run, tmp_path: Path, text: str) -> None:
    path = tmp_path / "d.json"
    path.write_text(text)
    told = run("chiplet", "cost", path)
    assert (told.code, told.out) == (1, "")
    assert "d.json" in told.err


def test_optimize_writes_what_cost_reads(run: Run, tmp_path: Path) -> None:
    schedule, description = tmp_path / "s.json", tmp_path / "d.json"
    told = run(
        "chiplet", "optimize", EXAMPLE, "--work", "4", "-o", schedule, "--description", description, "--quiet"
    )
    assert (told.code, told.err) == (0, "")
    assert [line.split()[0] for line in told.out.split("\n\n")[1].splitlines()][:3] == [
        "total", "between", "lower",
    ]  # fmt: skip
    rows = run("chiplet", "cost", EXAMPLE, schedule, description, "--format", "csv").rows
    totals = [float(row["total"]) for row in rows]
    assert totals[0] > totals[1] == totals[2] == json.loads(schedule.read_text())["total"]
    assert run("chiplet", "optimize", EXAMPLE, "--work", "4", "--format", "csv").rows[0]["group"] == "0"


def test_a_placed_network_is_timed_both_ways(run: Run, tmp_path: Path) -> None:
    """AlexNet on 1024 arrays: 82 steps of 2100 ns as a pipeline; layer after layer 604,520 ns."""
    allocation, placement = tmp_path / "a.json", tmp_path / "p.json"
    machine = ("--hardware", "isaac-todaes")
    run("optimize", "alexnet", "--arrays", "1024", *machine, "-o", allocation, "--quiet")
    run("place", "alexnet", "--allocation", allocation, "-o", placement, "--quiet", "--work", "0")
    more = ("--allocation", allocation, "--placement", placement)
    told = run("chiplet", "cost", "alexnet", *more)
    lines = {line.split()[0]: line for line in told.out.splitlines()[-4:]}
    assert "172200 ns, all stages at the same time" in lines["pipelined"]
    assert "sequential: one group after the other" in lines["total"]


@pytest.mark.parametrize(
    "more",
    [("--hardware", "plain"), ("--hardware", "isaac", "--mapping", "x"), ("--work", "-1"), ("--seed", "-1")],
)
def test_optimize_refuses(run: Run, more: tuple[str, ...]) -> None:
    told = run("chiplet", "optimize", "alexnet", *more)
    assert told.code in (1, 2)
    assert told.out == ""


def test_a_missing_file(run: Run) -> None:
    told = run("chiplet", "cost", "nothing.json")
    assert (told.code, told.out) == (1, "")
    assert "no such file" in told.err
