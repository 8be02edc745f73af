"""Every rule of a resource configuration table has a message of its own, which names task and unit."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from commands.evaluate import worked
from hostile.fuzz import changed
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from rramalloc.commands.evaluate.evaluate import evaluate
from rramalloc.commands.evaluate.strategy import Strategy, load_strategy
from rramalloc.errors import FileError, RramallocError, SpecError
from rramalloc.hardware.performance import ChipPerformance
from rramalloc.network.network import Network
from rramalloc.records import parse

pytestmark = pytest.mark.quick

Judge = Any
STRATEGY: TypeAdapter[Strategy] = TypeAdapter(Strategy)


def table(*entries: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return worked.changed(worked.WHOLE, tasks={"*": list(entries)}, **fields)


def part(compute: list[Any], storage: list[Any], **fields: Any) -> dict[str, Any]:
    return {"compute": compute, "storage": storage} | fields


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        (
            [part([1, 2, 3, 4], [1, 2, 3])],
            "task 'conv1', subtask 1: compute: unit 4 does not exist: the chip has C1 to C3",
        ),
        ([part([1, 2, 3], [2])], "storage unit D1 is left over, 2 in all (storage_units = 3)"),
        (
            [part([1, 2], [1]), part([2, 3], [2, 3])],
            "subtask 2: compute unit C2 is given to subtask 1 as well",
        ),
        (
            [part([1, 2], [1, 3]), part([3], [2, 3])],
            "subtask 2: storage unit D3 is given to subtask 1 as well",
        ),
        ([part([1, 2, "C2", 3], [1, 2, 3])], "compute unit C2 is given twice"),
        ([part([1, 2, 3], [])], "subtask 1: has no storage unit"),
        ([{"idle": [1, 2, 3]}], "has no subtask"),
        ([part([0, 1, 2, 3], [1, 2, 3])], "unit 0 does not exist"),
        ([part([10**400, 2], [1])], "unit an integer of 1329 bits"),
        ([part(["D1", 2, 3], [1])], "D1 is no compute unit"),
        ([part([1, 2, 3], ["C1"])], "C1 is no storage unit"),
        ([part([1, 2], [1, 2, 3]), {"idle": [1, 3]}], "compute unit C1 is marked idle, but subtask 1 has it"),
        ([part([1, 2], [1, 2, 3]), {"idle": [9]}], "idle: unit 9 does not"),
        (
            [part([1, 2], [1, 2], share=0.5), part([3], [3], share=0.4)],
            "the shares of its 2 subtasks must sum to 1, got 0.9",
        ),
        ([part([1, 2, 3], [1, 2, 3], share=-1.0)], "must be above 0"),
        ([part([1, 2], [1, 2], share=1), part([3], [3])], "subtask 2: share: is missing"),
    ],
)
def test_rules(judge: Judge, entries: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(SpecError) as told:
        judge(table(*entries))
    assert str(told.value).startswith("strategy 1: task 'conv1'")
    assert words in str(told.value)


@pytest.mark.parametrize(
    ("entries", "idle"),
    [
        ([part([1, 2], [1, 2])], [3]),
        ([part([1, 2], [2, 3])], ["C3", "D_1"]),
        ([part([1, 2], [2, 3], idle=["C3", "D1"])], []),
    ],
)
def test_units_idle_where_the_table_says_so(judge: Judge, entries: list[Any], idle: Any) -> None:
    assert judge(table(*entries, idle=idle)).time_ns == pytest.approx(500)


def test_capacity_to_the_byte(judge: Judge) -> None:
    """fc needs 64 + 20 + 640 = 724 bytes in two units; the subtask without a window needs none."""
    assert judge(worked.SPLIT, chip={"unit_bytes": 362}).time_ns == pytest.approx(336)
    with pytest.raises(SpecError) as told:
        judge(worked.SPLIT, chip={"unit_bytes": 361})
    assert "task 'fc', subtask 1: needs 724 bytes for its input, output and weights" in str(told.value)
    assert "its 2 storage units of 361 bytes hold 722: give it 3 storage units" in str(told.value)


@pytest.mark.parametrize(
    ("copies", "chip", "words"),
    [
        ({"conv1": 2, "conv2": 3}, {}, "takes 6 arrays, the chip has 3 processors"),
        (
            {"conv2": 5},
            {"processors": 9, "storage_units": 9},
            "its copies must be from 1 to its 4 windows, got 5",
        ),
        ({}, {"unit_bytes": 63}, "task 'conv1', subtask 1: needs 192 bytes for its input and output"),
    ],
)
def test_allocations_that_do_not_fit(judge: Judge, copies: Any, chip: Any, words: str) -> None:
    with pytest.raises(SpecError) as told:
        judge(allocations=[copies], chip=chip)
    assert words in str(told.value)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"processors": 0}, "processors"),
        ({"bandwidth_out_gb_s": float("inf")}, "bandwidth_out_gb_s"),
        (
            {"ns_per_byte": {"cnov": 1}},
            "no operator that takes time is named 'cnov'; timed are default, conv",
        ),
        (
            {"routes": [{"storage": [4], "compute": [1], "bandwidth_in_gb_s": 1, "bandwidth_out_gb_s": 1}]},
            "routes",
        ),
    ],
)
def test_chips(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        ChipPerformance(**(worked.CHIP | fields))


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("s.json", "{}", "format: must be 'rramalloc-strategy/1', got None"),
        ("s.json", "", "is empty"),
        (
            "s.json",
            '{"format": "rramalloc-strategy/1", "tasks": {"*": 3}}',
            "tasks.*: input should be a valid array",
        ),
        ("s.json", '{"format": "rramalloc-strategy/1", "tasks": {"*": [{"compute": [true]}]}}', "compute"),
        ("s.csv", "", "is empty"),
        ("s.csv", "task,compute\n", "column 'storage' is missing"),
        ("s.csv", "task,compute,storage\n*,1\n", "line 2: has 2 cells"),
        ("s.csv", "task,compute,storage,share\n*,1,1,half\n", "is not JSON"),
        ("s.csv", "task,subtask,compute,storage\n*,2,1,1\n", "column 'subtask': must be 1"),
        ("s.csv", 'task,compute,storage\n*,"1,1\n', "is not CSV"),
    ],
)
def test_files_that_are_no_strategies(name: str, text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises((SpecError, FileError)) as told:
        load_strategy(path)
    assert str(path) in str(told.value)
    assert words in str(told.value)


@given(st.integers(0, 2**40), st.sampled_from(["split", "whole"]))
def test_damaged_tables_are_served_or_refused(seed: int, name: str) -> None:
    chance = random.Random(seed)
    document: Any = worked.SPLIT if name == "split" else worked.WHOLE
    for _ in range(chance.randint(1, 3)):
        document = changed(document, chance)
    network = Network.build("worked", worked.NETWORK["nodes"])
    told = ""
    try:
        strategy = parse(STRATEGY, document, "damaged.json")
        evaluation = evaluate(network, ChipPerformance(**worked.CHIP), strategies=strategy, fc="crossbar")
        assert 68 <= evaluation.time_ns <= 500.001
    except RramallocError as error:
        told = str(error)
    assert len(told) < 3000
