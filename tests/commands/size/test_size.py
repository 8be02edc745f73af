"""`size`: hand values, every candidate one by one, chips for other commands, questions it refuses."""

from __future__ import annotations

import json
import tomllib
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from program import run

import rramalloc
from rramalloc.commands.size.question import values_to_choose
from rramalloc.errors import InfeasibleError, SpecError, TargetError
from rramalloc.hardware.loader import as_hardware

HARDWARE: dict[str, Any] = {
    "name": "h", "source": "by hand",
    "crossbar": {"wordlines": 16, "bitlines": 16, "cell_bits": 16},
    "precision": {"weight_bits": 16, "input_bits": 16, "output_bits": 16, "signed": "offset"},
    "timing": {"step_ns": 10.0},
    "energy": {"area_um2": 100.0},
}  # fmt: skip
CROSSBARS = {"crossbar": ["16x16", "32x32"], "energy.area_um2": [100.0, 300.0]}
TIED = [["crossbar", "energy.area_um2"]]


def network(channels: int = 16, pixels: int = 2, kernel: int = 1) -> dict[str, Any]:
    return {
        "format": "rramalloc-network/1", "name": "one", "source": "by hand",
        "nodes": [
            {"name": "in", "op": "input", "shape": [16, pixels, pixels]},
            {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": channels, "kernel": kernel},
        ],
    }  # fmt: skip


@pytest.mark.quick
@pytest.mark.parametrize(
    ("target_ns", "mapping", "large_um2", "cost", "size", "arrays"),
    [
        (20.0, "im2col", 300.0, 200.0, "16x16", 2),
        (10.0, "im2col", 300.0, 400.0, "16x16", 4),
        (20.0, "sdk", 300.0, 200.0, "16x16", 2),
        (10.0, "sdk", 150.0, 300.0, "32x32", 2),
    ],
)
def test_by_hand(
    tmp_path: Path, target_ns: float, mapping: str, large_um2: float, cost: float, size: str, arrays: int
) -> None:
    """docs/sources/model.md 20: two copies share an array of 32 x 32 with mapping sdk."""
    (tmp_path / "one.json").write_text(json.dumps(network()))
    own = {"network": str(tmp_path / "one.json"), "target_ns": target_ns, "mapping": mapping}
    choose = {**CROSSBARS, "energy.area_um2": [100.0, large_um2]}
    found = rramalloc.size({"networks": [own], "hardware": HARDWARE, "choose": choose, "zip": TIED})
    assert (found.cost, found.chip.hardware.crossbar.size, found.chip.arrays) == (cost, size, arrays)
    assert found.status == "optimal"
    assert found.networks[0].allocation.hardware == found.chip.hardware


@pytest.mark.quick
@pytest.mark.parametrize("seed", range(25))
def test_it_is_the_least_over_all_candidates(seed: int) -> None:
    """As `optimize --objective arrays` of every candidate, done one by one, says."""
    random = Random(seed)
    networks = [
        rramalloc.Network.from_document(network(random.choice((8, 20)), random.choice((2, 3)), kernel), "n")
        for kernel in random.choices((1, 2), k=random.choice((1, 2)))
    ]
    goals = [{"target_ns": float(random.choice((10, 30, 50)))} for _ in networks]
    chip = {"arrays_per_tile": 3, "tiles": [1, 1], "chips": [1, 1]} if random.random() < 0.5 else None
    hardware, tiles_of_values = dict(HARDWARE), dict[str, Any]()
    if chip is not None:
        hardware |= {"chip": chip, "energy": {"area_um2": 100.0, "periphery_um2": 70.0}}
        tiles_of_values["chip.tiles"] = [9, 99]
    choose: dict[str, Any] = {**CROSSBARS, "timing.step_ns": [5.0, 10.0]}
    stored = random.choice(("one", "all"))
    costs = []
    for at, step_ns in product(range(2), choose["timing.step_ns"]):
        values = {"crossbar": choose["crossbar"][at], "timing.step_ns": step_ns}
        values |= {"energy.area_um2": choose["energy.area_um2"][at], **tiles_of_values}
        machine = as_hardware(hardware).with_values(values)
        try:
            taken = [
                rramalloc.optimize(each, 2000, hardware=machine, progress=False, **goal).arrays.used
                for each, goal in zip(networks, goals, strict=True)
            ]
        except TargetError:
            continue
        arrays, area = (max if stored == "one" else sum)(taken), choose["energy.area_um2"][at]
        tiles = -(-arrays // 3)
        costs.append(arrays * area if chip is None else tiles * (3 * area + 70.0))
    asked = [{"network": each, **goal} for each, goal in zip(networks, goals, strict=True)]
    question = {"networks": asked, "stored": stored, "hardware": hardware, "choose": choose, "zip": TIED}
    if not costs:
        with pytest.raises(InfeasibleError):
            rramalloc.size(question)
        return
    found = rramalloc.size(question)
    assert (found.cost, found.lower_bound, found.status) == (min(costs), min(costs), "optimal")
    (chosen,) = [own for own in found.candidates if own.why == "chosen"]
    assert chosen.arrays == (found.chip.arrays, found.chip.arrays)


def test_the_chip_goes_through_other_commands(tmp_path: Path) -> None:
    chip, allocation = tmp_path / "chip.toml", tmp_path / "a.json"
    sized = run(
        "size", "alexnet", "--target-throughput", "1k", "--hardware", "isaac",
        "--choose", "timing.columns_per_adc=32,64", "-o", chip, "--format", "json", "-q",
        "--figure", tmp_path / "cost.svg",
    )  # fmt: skip
    assert sized.code == 0, sized.err
    used = sized.json["networks"][0]["arrays"]
    assert tomllib.loads(chip.read_text())["timing"]["columns_per_adc"] == 64
    again = run(
        "optimize", "alexnet", "--hardware", chip, "--target-throughput", "1k", "-o", allocation, "-q"
    )
    assert again.code == 0, again.err
    assert json.loads(allocation.read_text())["arrays"]["used"] == used
    assert run("place", "alexnet", "--allocation", allocation, "--work", "2", "-q").code == 0
    sizing = tmp_path / "sizing.json"
    sizing.write_text(json.dumps(sized.json))
    assert run("report", allocation, sizing, "-o", tmp_path / "page.html", "-q").code == 0
    assert "<svg" in (tmp_path / "cost.svg").read_text()


def test_goals_out_of_reach_name_the_network_and_the_nearest_choice() -> None:
    asked = {"network": "alexnet", "target": 2}
    question = {"networks": [asked], "minimise": "arrays", "choose": {"crossbar": ["64x64", "128x128"]}}
    with pytest.raises(InfeasibleError, match=r"alexnet: the latency of 2 steps cannot be met.*nearest with"):
        rramalloc.size(question)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"networks": [{"network": "alexnet"}]}, "exactly one of target"),
        ({"networks": []}, "networks"),
        ({"choose": {"timing.colums_per_adc": [1, 2]}}, "columns_per_adc"),
        ({"choose": {"crossbar": ["64x64", "32x32"]}}, "tie lists of energy.area_um2"),
        ({"choose": {"timing.dac_bits": [1, 2, 4]}, "most_candidates": 2}, "3 candidates, the limit is 2"),
        ({"zip": [["crossbar", "timing.dac_bits"]]}, "is not in choose"),
        (
            {
                "choose": {"timing.dac_bits": [1, 2], "timing.read_ns": [1.0]},
                "zip": [["timing.dac_bits", "timing.read_ns"]],
            },
            "equally long",
        ),
        ({"hardware": "plain"}, "energy.area_um2 is missing"),
        ({"colour": "red"}, "colour"),
    ],
)  # fmt: skip
def test_questions_that_are_refused(changed: dict[str, Any], words: str) -> None:
    question = {"networks": [{"network": "alexnet", "target_throughput": 100.0}], "hardware": "isaac"}
    with pytest.raises(SpecError, match=words):
        rramalloc.size(question | changed)


def test_a_file_says_all(tmp_path: Path) -> None:
    """Options of the same question beside it are refused; files in it are found beside it."""
    (tmp_path / "one.json").write_text(json.dumps(network()))
    spec = tmp_path / "spec.toml"
    spec.write_text(
        'minimise = "arrays"\nstored = "all"\n[choose]\n"crossbar" = ["16x16", "32x32"]\n'
        '[[networks]]\nnetwork = "one.json"\ntarget = 2\n[[networks]]\nnetwork = "one.json"\ntarget = 1\n'
    )
    done = run("size", spec, "--format", "json")
    assert done.code == 0, done.err
    assert (done.json["cost"], done.json["chip"]["arrays"], done.json["status"]) == (6, 6, "optimal")
    assert "count alike" in done.json["warnings"][0]
    refused = run("size", spec, "--target", "3")
    assert refused.code == 1
    assert "target" in refused.err


def test_the_chart_and_the_table_show_every_candidate() -> None:
    """Bounds of those within reach, costs where they are known, and a row of the table for each."""
    choose = {**CROSSBARS, "timing.step_ns": [30.0, 10.0]}
    one = rramalloc.Network.from_document(network(), "one")
    asked = {"networks": [{"network": one, "target_ns": 20.0}], "hardware": HARDWARE}
    found = rramalloc.size({**asked, "choose": choose, "zip": TIED})
    assert [own.why.partition(":")[0] for own in found.candidates].count("infeasible") == 2
    (panel,) = found.plot.cost().panels
    bounds, *costs, _ = panel.layers
    assert sorted(bounds.data["least"]) == sorted(
        own.cost_at_least for own in found.candidates if not own.is_infeasible
    )
    drawn = [cost for layer in costs for cost in layer.data["cost"]]
    assert sorted(drawn) == sorted(own.cost[1] for own in found.candidates if own.cost[1] is not None)
    assert bounds.data["why"][0] == "chosen"
    assert panel.y.names == ("crossbar 16x16", "crossbar 32x32")  # area is tied, the step the same
    every, networks = found.view().tables
    assert networks.rows()[0][:2] == ["one", "target_ns 20.0"]
    assert [row[0] for row in every.rows()] == [own.text for own in found.candidates]


def test_values_on_the_command_line() -> None:
    """A comma in brackets is one of a list, any other stands between two values."""
    given = ["crossbar=64x64,128x128", "chip.tiles=[1, 2],[3,4]", "timing.dac_bits=1"]
    assert values_to_choose(given) == {
        "crossbar": ("64x64", "128x128"), "chip.tiles": ([1, 2], [3, 4]), "timing.dac_bits": (1,),
    }  # fmt: skip
