"""How `size` searches: bounds before modes, starts, stores that a call goes on from, processes, Ctrl-C."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from commands.size.test_size import CROSSBARS, HARDWARE, TIED, network
from laws.kinds import hardware as two_kinds
from program import run

import rramalloc
from rramalloc.allocation.case import Case
from rramalloc.commands.size import results
from rramalloc.commands.size.first_bounds import FirstBounds
from rramalloc.commands.size.question import SizedNetwork
from rramalloc.commands.size.task import SizeTask, TaskResult
from rramalloc.errors import SpecError, TargetError
from rramalloc.hardware.loader import as_hardware
from rramalloc.network.network import Network
from rramalloc.search.work import Work
from rramalloc.store import Store

MANY: dict[str, Any] = {
    "networks": [{"network": "alexnet", "target": 900}, {"network": "squeezenet", "target": 900}],
    "minimise": "arrays",
    "stored": "all",
    "choose": {"crossbar.cell_bits": [1, 2, 4], "crossbar": ["64x64", "128x128"]},
    "work": 2,
}


def _bytes(question: dict[str, Any], **more: Any) -> str:
    return json.dumps(rramalloc.size(question, progress=False, **more).to_dict())


@pytest.mark.quick
@pytest.mark.parametrize("seed", range(12))
def test_first_bounds_never_exceed_the_fewest_arrays(seed: int) -> None:
    """Of one kind of arrays and of two, for goals of every form, with copies and modes."""
    random = Random(seed)
    source = Network.from_document(network(random.choice((8, 20)), 3, random.choice((1, 2))), "n")
    machine = as_hardware(HARDWARE)
    if random.random() < 0.4:
        machine = two_kinds(None, None, timing={"step_ns": 10.0})
    goals: list[dict[str, Any]] = [
        {"target": random.choice((1, 2, 4))},
        {"target_ns": random.choice((9.0, 25.0, 40.0))},
        {"target_interval": random.choice((1, 3))},
        {"target_throughput": random.choice((5e7, 2e8))},
    ]
    sized = SizedNetwork(network="n", mapping=random.choice(("im2col", "sdk")), **random.choice(goals))
    case = Case.of(source, {**sized.options, "hardware": machine})  # type: ignore[typeddict-item]
    bounds = FirstBounds(case, sized.wanted)
    options: dict[str, Any] = {"hardware": machine, "mapping": sized.mapping, **sized.goal}
    many: Any = 2000 if machine.kinds is None else None
    try:
        found = rramalloc.optimize(source, many, objective="arrays", progress=False, **options)
    except TargetError:
        return
    least = bounds.least(machine)
    assert least <= (found.arrays.used if machine.kinds is None else 1e6 * (found.area_um2 or 0.0))
    if sized.mapping == "im2col" and found.interval and "interval" in next(iter(sized.goal)):
        assert least == (found.arrays.used if machine.kinds is None else 1e6 * (found.area_um2 or 0.0))


@pytest.mark.quick
def test_what_is_out_of_reach_is_not_said_to_be_dearer() -> None:
    """Within 10 ns 4 copies: 400 um2 on 16 x 16 with steps of 10 ns; steps of 20 ns are out of reach."""
    asked = {"network": Network.from_document(network(), "one"), "target_ns": 10.0}
    choose = {**CROSSBARS, "timing.step_ns": [10.0, 20.0]}
    found = rramalloc.size({"networks": [asked], "hardware": HARDWARE, "choose": choose, "zip": TIED})
    whys = {each.text: each.why for each in found.candidates}
    assert whys["crossbar 16x16, area_um2 100.0, step_ns 10.0"] == "chosen"
    assert whys["crossbar 32x32, area_um2 300.0, step_ns 10.0"] == "dearer"
    slow = whys["crossbar 32x32, area_um2 300.0, step_ns 20.0"]
    assert slow == "infeasible: one: the latency of 10 ns cannot be met, the bound is 20"
    assert found.searched == 1


def test_a_call_goes_on_from_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a store, with one, from a part of one as after a kill, and from all of it: the same bytes."""
    plain, store = _bytes(MANY), tmp_path / "searches.sqlite"
    assert _bytes(MANY, store=store) == plain
    with Store(store, "sizing") as kept:
        keys = [key for (key,) in kept.query("SELECT key FROM rows ORDER BY key")]
        kept.write("DELETE FROM rows WHERE key = ?", [(key,) for key in keys[::2]])
    assert _bytes(MANY, store=store) == plain
    monkeypatch.setattr(results, "result_of", None)
    assert _bytes(MANY, store=store) == plain


def test_processes_change_nothing() -> None:
    assert _bytes(MANY, jobs=2) == _bytes(MANY, jobs=1)
    with pytest.raises(SpecError, match="jobs: must be from 1"):
        rramalloc.size(MANY, jobs=0)


def test_an_interrupted_search_has_the_best_so_far(tmp_path: Path) -> None:
    stop, store = Work(), tmp_path / "searches.sqlite"

    def interrupt(decided: int, candidates: int, best: float | None, bound: float) -> None:
        stop.interrupted = best is not None

    found = rramalloc.size(MANY, stop=stop, store=store, on_progress=interrupt)
    assert found.status == "bounded"
    assert found.lower_bound <= found.cost
    assert _bytes(MANY, store=store) == _bytes(MANY)


@pytest.mark.parametrize("found", [True, False])
def test_ctrl_c_on_a_terminal(found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first search of a candidate, or before any: exit code 130."""
    whole = results.result_of

    def interrupted(task: SizeTask, stop: Work) -> TaskResult:
        signal.raise_signal(signal.SIGINT)
        nothing: TaskResult = {
            "found": None,
            "least": task.least,
            "impossible": "",
            "miss": 1.0,
            "work_s": 0.0,
        }
        return whole(task, Work(work=task.work)) if found else nothing

    monkeypatch.setattr(results, "result_of", interrupted)
    choices = ("--choose", "crossbar=64x64,128x128", "--minimise", "arrays", "--hardware", "plain")
    ended = run("size", "alexnet", "--target", "900", *choices, "-o", tmp_path / "chip.toml")
    assert ended.code == 130
    assert ("this is the best found so far" if found else "no chip was found yet") in ended.err
    assert (tmp_path / "chip.toml").exists() == found
    few = run("size", "alexnet", "--target", "900", *choices, "--most-candidates", "1")
    assert few.code == 1
    assert "the limit is 1" in few.err
