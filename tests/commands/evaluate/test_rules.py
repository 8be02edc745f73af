"""Every rule of a resource configuration table has a message of its own, which names task and unit."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from commands.evaluate import worked
from hostile.test_mutations import damaged
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from rramalloc.commands.evaluate.evaluate import evaluate
from rramalloc.commands.evaluate.strategy import Strategy, load_strategy
from rramalloc.errors import FileError, RramallocError, SpecError, UnsupportedError
from rramalloc.files import to_json
from rramalloc.hardware.loader import load_hardware
from rramalloc.hardware.performance import ChipPerformance
from rramalloc.network.network import Network
from rramalloc.records import parse

Judge = Any
STRATEGY: TypeAdapter[Strategy] = TypeAdapter(Strategy)
ROUTE = {"storage": [1], "compute": [1], "bandwidth_in_gb_s": 1, "bandwidth_out_gb_s": 1}
ALL = {"compute": [1, 2, 3], "storage": [1, 2, 3]}


def table(*entries: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return worked.changed(worked.WHOLE, tasks={"*": list(entries)}, **fields)


def part(compute: list[Any], storage: list[Any], **fields: Any) -> dict[str, Any]:
    return {"compute": compute, "storage": storage} | fields


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        pytest.param(
            [part([1, 2, 3, 4], [1, 2, 3])],
            "task 'conv1', subtask 1: compute: unit 4 does not exist: the chip has C1 to C3",
            id="too many compute units",
        ),
        pytest.param(
            [part([1, 2, 3], [1, 2, 3, 4])],
            "storage: unit 4 does not exist: the chip has D1 to D3",
            id="too many storage units",
        ),
        pytest.param(
            [part([1, 3], [1, 2, 3])],
            "compute unit C2 is left over, 1 in all (processors = 3)",
            id="too few compute units",
        ),
        pytest.param(
            [part([1, 2, 3], [2])],
            "storage unit D1 is left over, 2 in all (storage_units = 3)",
            id="too few storage units",
        ),
        pytest.param(
            [part([1, 2], [1]), part([2, 3], [2, 3])],
            "subtask 2: compute unit C2 is given to subtask 1 as well",
            id="a compute unit in two subtasks",
        ),
        pytest.param(
            [part([1, 2], [1, 3]), part([3], [2, 3])],
            "subtask 2: storage unit D3 is given to subtask 1 as well",
            id="a storage unit in two subtasks",
        ),
        pytest.param(
            [part([1, 2, "C2", 3], [1, 2, 3])], "compute unit C2 is given twice", id="twice in a subtask"
        ),
        pytest.param([part([], [1, 2, 3])], "subtask 1: has no compute unit", id="no compute unit"),
        pytest.param([part([1, 2, 3], [])], "subtask 1: has no storage unit", id="no storage unit"),
        pytest.param([{}], "subtask 1: has no compute unit", id="empty subtask"),
        pytest.param([], "task 'conv1': has no subtask", id="no subtask"),
        pytest.param([{"idle": [1, 2, 3]}], "has no subtask", id="everything idle"),
        pytest.param([part([0, 1, 2, 3], [1, 2, 3])], "unit 0 does not exist", id="ids begin at 1"),
        pytest.param([part([-1, 2, 3], [1, 2, 3])], "unit -1 does not exist", id="negative id"),
        pytest.param([part([10**400, 2], [1])], "unit an integer of 1329 bits", id="enormous id"),
        pytest.param([part(["D1", 2, 3], [1])], "D1 is no compute unit", id="storage as compute"),
        pytest.param([part([1, 2, 3], ["C1"])], "C1 is no storage unit", id="compute as storage"),
        pytest.param(
            [part([1, 2], [1, 2, 3]), {"idle": [1, 3]}],
            "compute unit C1 is marked idle, but subtask 1 has it",
            id="idle but used",
        ),
        pytest.param([part([1, 2], [1, 2, 3]), {"idle": [9]}], "idle: unit 9 does not", id="idle unknown"),
        pytest.param([part([1, 2], [1, 2, 3]), {"idle": ["D3"]}], "D3 is marked idle", id="wrong kind idle"),
        pytest.param(
            [part([1, 2], [1, 2], share=0.5), part([3], [3], share=0.4)],
            "the shares of its 2 subtasks must sum to 1, got 0.9",
            id="shares below 1",
        ),
        pytest.param(
            [part([1, 2], [1, 2], share=0.5), part([3], [3], share=0.6)], "got 1.1", id="shares above 1"
        ),
        pytest.param([part([1, 2, 3], [1, 2, 3], share=-1.0)], "must be above 0", id="negative share"),
        pytest.param([part([1, 2, 3], [1, 2, 3], share=0)], "must be above 0", id="no share"),
        pytest.param([part([1, 2, 3], [1, 2, 3], share=2)], "at most 1, got 2", id="share above 1"),
        pytest.param(
            [part([1, 2], [1, 2], share=1), part([3], [3])],
            "subtask 2: share: is missing",
            id="some without share",
        ),
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
        pytest.param([part([1, 2], [1, 2, 3])], [3], id="compute unit for the whole table"),
        pytest.param([part([1, 2], [1, 2])], [3], id="a number is both kinds where both are unused"),
        pytest.param([part([1, 2], [2, 3])], ["C3", "D_1"], id="by letter"),
        pytest.param([part([1, 2], [2, 3])], {"compute": [3], "storage": [1]}, id="by kind"),
        pytest.param([part([1, 2], [2, 3]), {"idle": ["C3", "D1"]}], [], id="entry of its own"),
        pytest.param([part([1, 2], [2, 3], idle=["C3", "D1"])], [], id="beside a subtask"),
    ],
)
def test_units_idle_where_the_table_says_so(judge: Judge, entries: list[Any], idle: Any) -> None:
    assert judge(table(*entries, idle=idle)).time_ns == pytest.approx(500)


@pytest.mark.parametrize("shares", [(0.333333, 0.333333, 0.333334), (0.3333333, 0.3333333, 0.3333333)])
def test_rounded_shares_are_taken(judge: Judge, shares: tuple[float, ...]) -> None:
    parts = [part([unit], [unit], share=share) for unit, share in enumerate(shares, 1)]
    assert judge(table(*parts), chip={"unit_bytes": 999}).time_ns == pytest.approx(500 / 3, rel=1e-5)


def test_capacity_to_the_byte(judge: Judge) -> None:
    """fc needs 64 + 20 + 640 = 724 bytes in two units; the subtask without a window needs none."""
    assert judge(worked.SPLIT, chip={"unit_bytes": 362}).time_ns == pytest.approx(336)
    with pytest.raises(SpecError) as told:
        judge(worked.SPLIT, chip={"unit_bytes": 361})
    assert "task 'fc', subtask 1: needs 724 bytes for its input, output and weights" in str(told.value)
    assert "its 2 storage units of 361 bytes hold 722: give it 3 storage units" in str(told.value)


def test_task_names(judge: Judge) -> None:
    with pytest.raises(SpecError, match="'cnov1' is no task of the network; did you mean conv1"):
        judge(worked.changed(worked.WHOLE, tasks={"*": [ALL], "cnov1": [ALL]}))
    with pytest.raises(SpecError, match="task 'conv2': has no entry"):
        judge(worked.changed(worked.WHOLE, tasks={"conv1": [ALL], "fc": [ALL]}))
    with pytest.raises(SpecError, match="'fc' is no task of the network; tasks: conv1, conv2"):
        judge(worked.changed(worked.WHOLE, tasks={"*": [ALL], "fc": [ALL]}), fc="host")


def test_names_of_strategies_differ(judge: Judge) -> None:
    with pytest.raises(SpecError, match=r"two of them are named 'whole' \(strategy 1 and strategy 2\)"):
        judge(worked.WHOLE, worked.WHOLE)


@pytest.mark.parametrize(
    ("copies", "chip", "words"),
    [
        pytest.param({"conv1": 2, "conv2": 3}, {}, "takes 6 arrays, the chip has 3 processors", id="arrays"),
        pytest.param(
            {"conv1": 4},
            {"processors": 9},
            "task 'conv1': has 4 copies, the chip has 3 storage units",
            id="fewer storage units than copies",
        ),
        pytest.param(
            {"conv2": 5},
            {"processors": 9, "storage_units": 9},
            "its copies must be from 1 to its 4 windows, got 5",
            id="more copies than windows",
        ),
        pytest.param({"conv9": 1}, {}, "did you mean conv", id="unknown layer"),
        pytest.param(
            {},
            {"unit_bytes": 63},
            "task 'conv1', subtask 1: needs 192 bytes for its input and output",
            id="storage too small",
        ),
    ],
)
def test_allocations_that_do_not_fit(judge: Judge, copies: Any, chip: Any, words: str) -> None:
    with pytest.raises(SpecError) as told:
        judge(allocations=[copies], chip=chip)
    assert words in str(told.value)


def test_storage_of_an_allocation_holds_no_weights(judge: Judge) -> None:
    """conv1 and conv2 need 192 bytes for input and output: 3 units of 64."""
    assert judge(allocations={}, chip={"unit_bytes": 64}).time_ns == pytest.approx(500)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"processors": 0}, "processors"),
        ({"processors": 2**21}, "processors"),
        ({"processors": 2.5}, "processors"),
        ({"unit_bytes": -1}, "unit_bytes"),
        ({"bandwidth_in_gb_s": 0}, "bandwidth_in_gb_s"),
        ({"bandwidth_out_gb_s": float("inf")}, "bandwidth_out_gb_s"),
        ({"ns_per_byte": {"conv": -1}}, "ns_per_byte"),
        (
            {"ns_per_byte": {"cnov": 1}},
            "no operator that takes time is named 'cnov'; timed are default, conv",
        ),
        ({"ns_per_byte": {"input": 1}}, "no operator that takes time is named 'input'"),
        (
            {"routes": [{"storage": [4], "compute": [1], "bandwidth_in_gb_s": 1, "bandwidth_out_gb_s": 1}]},
            "routes",
        ),
        (
            {"routes": [{"storage": [1], "compute": [0], "bandwidth_in_gb_s": 1, "bandwidth_out_gb_s": 1}]},
            "routes",
        ),
        ({"bandwith": 1}, "bandwith"),
    ],
)
def test_chips(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        ChipPerformance(**(worked.CHIP | fields))


def test_an_operator_needs_a_cost(judge: Judge) -> None:
    assert judge(worked.WHOLE, chip={"ns_per_byte": {"conv": 0.75, "linear": 0.25}}).time_ns == 500
    assert judge(worked.WHOLE, chip={"ns_per_byte": 0}).time_ns == 128 + 212
    with pytest.raises(SpecError, match=r"'fc'.*no ns_per_byte for 'linear', no default"):
        judge(worked.WHOLE, chip={"ns_per_byte": {"conv": 0.75}})


def test_a_chip_that_costs_nothing_but_transfers(judge: Judge) -> None:
    """The largest of three equal terms is the first: nothing costs anything."""
    evaluation = judge(
        worked.WHOLE, chip={"ns_per_byte": 0, "bandwidth_in_gb_s": 1e15, "bandwidth_out_gb_s": 1e15}
    )
    assert evaluation.time_ns < 1e-9


def test_networks_without_tasks() -> None:
    network = Network.build("none", [{"name": "input", "op": "input", "shape": [1, 2, 2]}])
    with pytest.raises(UnsupportedError, match="no weight layer"):
        evaluate(network, ChipPerformance(**worked.CHIP), units=(1, 1))


def test_nothing_to_evaluate(judge: Judge) -> None:
    with pytest.raises(SpecError, match="there are none"):
        judge()


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("s.json", "{}", "format: must be 'rramalloc-strategy/1', got None"),
        ("s.json", "[]", "document"),
        ("s.json", "", "is empty"),
        ("s.json", '{"format": "rramalloc-strategy/1"}', "tasks: this field is missing"),
        (
            "s.json",
            '{"format": "rramalloc-strategy/1", "tasks": {"*": 3}}',
            "tasks.*: input should be a valid array",
        ),
        ("s.json", '{"format": "rramalloc-strategy/1", "tasks": {"*": [{"compute": [true]}]}}', "compute"),
        ("s.json", '{"format": "rramalloc-strategy/1", "tasks": {"*": [{"compute": [1.0]}]}}', "compute"),
        ("s.json", '{"format": "rramalloc-strategy/1", "tasks": {"*": [{"units": [1]}]}}', "not known"),
        ("s.csv", "", "is empty"),
        ("s.csv", "task,compute\n", "column 'storage' is missing"),
        ("s.csv", "task,compute,storage,x\n", "column 'x' is not known"),
        ("s.csv", "task,task,compute,storage\n", "appears 2 times"),
        ("s.csv", "task,compute,storage\n*,1\n", "line 2: has 2 cells"),
        ("s.csv", "task,compute,storage,share\n*,1,1,half\n", "is not JSON"),
        ("s.csv", 'task,compute,storage,share\n*,1,1,"""1"""\n', "must be a number"),
        ("s.csv", "task,compute,storage\n*,--1,1\n", "string should match"),
        ("s.csv", "task,subtask,compute,storage\n*,2,1,1\n", "column 'subtask': must be 1"),
        ("s.csv", 'task,compute,storage\n*,"1,1\n', "is not CSV"),
        ("s.csv", "task,compute,storage\n,1,1\n", "at least 1 character"),
    ],
)
def test_files_that_are_no_strategies(name: str, text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises((SpecError, FileError)) as told:
        load_strategy(path)
    assert str(path) in str(told.value)
    assert words in str(told.value)


def test_files_without_a_name_have_their_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("task,compute,storage,idle\n*,1,1,\n*,,,C2 D2\n")
    strategy = load_strategy(path)
    assert strategy.name == "mine"
    assert strategy.tasks["*"][1].idle == ("C2", "D2")


@given(st.integers(0, 2**40), st.sampled_from(["split", "whole"]))
def test_damaged_tables_are_served_or_refused(seed: int, name: str) -> None:
    chance = random.Random(seed)
    document = damaged(worked.SPLIT if name == "split" else worked.WHOLE, seed, cuts=chance.randint(1, 3))
    network = Network.build("worked", worked.NETWORK["nodes"])
    told = ""
    try:
        strategy = parse(STRATEGY, document, "damaged.json")
        evaluation = evaluate(network, ChipPerformance(**worked.CHIP), strategies=strategy, fc="crossbar")
        assert 68 <= evaluation.time_ns <= 500.001
    except RramallocError as error:
        told = str(error)
    assert len(told) < 3000


def test_chip_files(tmp_path: Path) -> None:
    path = tmp_path / "chip.toml"
    path.write_text(worked.CHIP_TOML)
    assert load_hardware(path).units == ChipPerformance(**worked.CHIP)
    path.write_text(worked.CHIP_TOML.replace("storage_units = 3\n", ""))
    with pytest.raises(SpecError, match=r"chip.toml: units.storage_units: this field is missing"):
        load_hardware(path)
    with pytest.raises(FileError, match="no such file"):
        load_hardware(tmp_path / "none.toml")


def test_a_strategy_as_a_document_is_its_file(tmp_path: Path) -> None:
    path = tmp_path / "whole.json"
    path.write_text(to_json(worked.WHOLE))
    assert load_strategy(path).to_dict() == worked.WHOLE
