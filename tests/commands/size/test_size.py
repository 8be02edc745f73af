"""`size`: hand values, every candidate one by one, chips for other commands, questions it refuses."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest
import tomli_w
from laws.kinds import HAND as PAIR
from laws.kinds import KindsCase
from laws.kinds import hardware as two_kinds
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


def tiled(values: dict[str, Any]) -> dict[str, Any]:
    """Return the hardware with a [chip] of these values, if any, and area beside the arrays of a tile."""
    chip = {"chip": values} if values else {}
    return {**HARDWARE, **chip, "energy": {"area_um2": 100.0, "periphery_um2": 70.0}}


@pytest.mark.quick
@pytest.mark.parametrize(
    ("goals_ns", "stored", "minimise", "cost", "per_tile", "tiles"),
    [
        ((20.0,), "one", "area_um2", 270.0, 2, 1),  # 2 arrays: 2 * 100 + 70 < 4 * 100 + 70
        ((10.0,), "one", "area_um2", 470.0, 4, 1),  # 4 arrays: 2 * 270 > 470
        ((20.0,), "one", "arrays", 2.0, 2, 1),
        ((10.0,), "one", "arrays", 4.0, 2, 2),  # as many in a tile of 4: the first choice
        ((10.0, 20.0), "one", "area_um2", 470.0, 4, 1),  # the network that needs most
        ((10.0, 20.0), "all", "area_um2", 810.0, 2, 3),  # 6 arrays: 3 * 270 < 2 * 470
        ((10.0, 20.0), "all", "arrays", 6.0, 2, 3),  # 2 tiles of 4 have 8
    ],
)
@pytest.mark.parametrize(
    "chip", [None, {}, {"hop_ns_tile": 1.0}, {"arrays_per_tile": 1}, {"arrays_per_tile": 9, "tiles": 1}]
)
def test_arrays_per_tile_by_hand(
    chip: dict[str, Any] | None,
    goals_ns: tuple[float, ...],
    stored: str,
    minimise: str,
    cost: float,
    per_tile: int,
    tiles: int,
) -> None:
    """docs/sources/model.md 20: whole tiles of 2 or 4 arrays, as many as are needed."""
    one = rramalloc.Network.from_document(network(), "one")
    found = rramalloc.size({
        "networks": [{"network": one, "target_ns": goal} for goal in goals_ns],
        "stored": stored, "minimise": minimise, "choose": {"chip.arrays_per_tile": [2, 4]},
        "hardware": HARDWARE if chip is None else tiled(chip),
        "set_values": ["energy.periphery_um2=70", "chip.arrays_per_tile=1"] if chip is None else [],
    })  # fmt: skip
    sized = found.chip.hardware.chip
    assert sized is not None
    assert (found.cost, sized.arrays_per_tile, found.chip.tiles) == (cost, per_tile, tiles)
    assert (sized.arrays, found.status) == (tiles * per_tile, "optimal")


def test_the_number_of_tiles_is_found_and_written(tmp_path: Path) -> None:
    """A file without `tiles` is for `size` alone; what it writes has those that it found."""
    (tmp_path / "one.json").write_text(json.dumps(network(pixels=3)))
    (tmp_path / "open.toml").write_text(tomli_w.dumps(tiled({"arrays_per_tile": 4})))
    asked = (tmp_path / "one.json", "--target-ns", "20", "--hardware")  # 9 windows in 2 steps
    chip = tmp_path / "chip.toml"
    sized = run("size", *asked, tmp_path / "open.toml", "-o", chip, "-q")
    assert sized.code == 0, sized.err
    assert "940 um2, 8 arrays of 2 tiles" in sized.out  # 5 copies
    assert "no chip of this candidate with less area" in sized.out
    written = tomllib.loads(chip.read_text())["chip"]
    assert (written["arrays_per_tile"], written["tiles"]) == (4, 2)
    assert run("optimize", *asked, chip, "-q").code == 0
    refused = run("optimize", *asked, tmp_path / "open.toml", "-q")
    assert refused.code == 1
    assert "chip.tiles: this field is missing" in refused.err
    assert "rramalloc size" in refused.err


def test_links_between_tiles_decide_with_placed(tmp_path: Path) -> None:
    """Two layers of an array each in two tiles: 5 steps of 10 ns. A pixel has 16 values of 2 bytes.

    At 4 bytes/ns it takes 2 + 8 ns, within a step; at 0.1 bytes/ns 322 ns, which only a placement tells.
    """
    chain = network()
    chain["nodes"].append(chain["nodes"][1] | {"name": "b", "inputs": ["a"]})
    (tmp_path / "two.json").write_text(json.dumps(chain))
    question = {
        "networks": [{"network": str(tmp_path / "two.json"), "target_ns": 50.0}],
        "hardware": tiled({"arrays_per_tile": 1, "tiles": [1, 1], "hop_ns_tile": 2.0}),
        "choose": {"chip.bandwidth_tile_gb_s": [0.1, 4.0]},
    }
    plain = rramalloc.size(question)
    placed = rramalloc.size(question | {"placed": True})
    for found, gb_s, is_counted in ((plain, 0.1, False), (placed, 4.0, True)):
        chip = found.chip.hardware.chip
        assert chip is not None
        assert (chip.bandwidth_tile_gb_s, chip.tile_count, found.cost) == (gb_s, 2, 340.0)
        assert (found.status, found.networks[0].allocation.latency_ns) == ("optimal", 50.0)
        assert (found.not_counted == ()) is is_counted


def test_networks_that_are_all_stored_share_the_tiles_of_a_placed_chip(tmp_path: Path) -> None:
    """Two networks of two arrays each, 50 ns where neighbours are 1 hop apart (2 + 8 ns, a step).

    Of tiles of one array they take 4, of tiles of three 2, of which one may hold parts of both.
    """
    chain = network()
    chain["nodes"].append(chain["nodes"][1] | {"name": "b", "inputs": ["a"]})
    question: dict[str, Any] = {"networks": [], "stored": "all", "placed": True}
    for name in ("one", "other"):
        (tmp_path / f"{name}.json").write_text(json.dumps(chain | {"name": name}))
        question["networks"].append({"network": str(tmp_path / f"{name}.json"), "target_ns": 50.0})
    links = {"tiles": [1, 1], "hop_ns_tile": 2.0, "bandwidth_tile_gb_s": 4.0}
    for per_tile, tiles in ((1, 4), (3, 2)):
        found = rramalloc.size(question | {"hardware": tiled({"arrays_per_tile": per_tile, **links})})
        assert (found.status, found.chip.tiles, found.not_counted) == ("optimal", tiles, ())
        held = Counter[tuple[int, ...]]()
        for each in found.networks:
            assert each.allocation.latency_ns == 50.0
            for layer in each.allocation.places or ():
                for _, *site, arrays in layer.pieces:
                    held[tuple(site)] += arrays
        assert sum(held.values()) == 4
        assert max(held.values()) <= per_tile


def test_a_number_of_tiles_that_was_set_is_no_longer(tmp_path: Path) -> None:
    """The file of a chip says nothing of a value that the search replaced."""
    question = {"networks": [{"network": "alexnet", "target": 4000}], "hardware": "isaac"}
    found = rramalloc.size(question | {"set_values": ["chip.tiles=[2, 2]", "timing.read_ns=50"]})
    found.save(tmp_path / "chip.toml")
    assert as_hardware(tmp_path / "chip.toml") == found.chip.hardware
    assert found.chip.hardware.set_values == ("timing.read_ns=50",)


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


@pytest.mark.parametrize(
    ("stored", "arrays"),
    [(None, 9), ("one", 9), ("all", 13)],  # 2 x 2 and 3 x 3 windows in one step: 4 and 9 arrays
)
def test_networks_with_one_goal(stored: str | None, arrays: int, tmp_path: Path) -> None:
    """All have the goal and the options; they run in turn unless all are stored."""
    files = [tmp_path / f"{pixels}.json" for pixels in (2, 3)]
    for pixels, path in zip((2, 3), files, strict=True):
        path.write_text(json.dumps(network(pixels=pixels)))
    options = () if stored is None else ("--stored", stored)
    asked = ("--target", 1, "--minimise", "arrays", "--set", "crossbar=16x16", "--format", "json")
    sized = run("size", *files, *asked, *options, "-q")
    assert sized.code == 0, sized.err
    assert (sized.json["cost"], sized.json["stored"], sized.json["status"]) == (
        arrays,
        stored or "one",
        "optimal",
    )
    assert [(own["goal"], own["arrays"]) for own in sized.json["networks"]] == [
        ({"target": 1.0}, 4), ({"target": 1.0}, 9)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "arrays"),
    [
        ("--target-interval 4", 2),  # one copy of each: busy for 4 steps, the second layer ends after 5
        ("--target-interval 4 --feeds-back", 4),  # an input every makespan, which two copies of each make 3
        ("--target 5 --feeds-back --sequences 2", 2),
        ("--target-interval 4 --feeds-back --sequences 2", 2),  # max(4, 5 / 2)
    ],
)
def test_a_network_that_feeds_back(options: str, arrays: int, tmp_path: Path) -> None:
    """docs/sources/model.md 8: the interval of one sequence is the makespan."""
    chain = network()
    chain["nodes"].append({"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 16, "kernel": 1})
    (tmp_path / "two.json").write_text(json.dumps(chain))
    asked = ("--minimise", "arrays", "--set", "crossbar=16x16", "--format", "json", "-q")
    sized = run("size", tmp_path / "two.json", *options.split(), *asked)
    assert sized.code == 0, sized.err
    assert (sized.json["cost"], sized.json["status"]) == (arrays, "optimal")


def test_the_example_is_taken_as_it_is(tmp_path: Path) -> None:
    shown = run("size", "--example")
    assert (shown.code, shown.err) == (0, "")
    (tmp_path / "question.toml").write_text(shown.out)
    sized = run("size", tmp_path / "question.toml", "--format", "json", "-q")
    assert sized.code == 0, sized.err
    asked = tomllib.loads(shown.out)
    assert [own["name"] for own in sized.json["networks"]] == [own["network"] for own in asked["networks"]]
    assert {name for own in sized.json["candidates"] for name in own["choices"]} == set(asked["choose"])
    assert sized.json["status"] == "optimal"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "give a NETWORK with a goal"),
        ("question.toml alexnet", "question.toml says which networks there are"),
        ("alexnet question.toml --target 9", "question.toml says which networks there are"),
        ("one.toml two.toml", "one.toml says which networks there are"),
        ("--example alexnet", "leave NETWORK out"),
        ("--example -o question.toml", "leave -o out"),
        ("alexnet --target 9 --stored both", "'both'"),
    ],
)
def test_wrong_usage(words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 2, before any file is read or written."""
    monkeypatch.chdir(tmp_path)
    refused = run("size", *words.split())
    assert refused.code == 2
    assert said in " ".join(refused.err.split())
    assert list(tmp_path.iterdir()) == []


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
    assert found.view().sentence.startswith("The chosen chip costs ")
    every, networks = found.view().tables
    assert networks.rows()[0][:2] == ["one", "target_ns 20 ns"]
    assert [row[0] for row in every.rows()] == [own.text for own in found.candidates]


def test_values_on_the_command_line() -> None:
    """A comma in brackets is one of a list, any other stands between two values."""
    given = ["crossbar=64x64,128x128", "chip.tiles=[1, 2],[3,4]", "timing.dac_bits=1"]
    assert values_to_choose(given) == {
        "crossbar": ("64x64", "128x128"), "chip.tiles": ([1, 2], [3, 4]), "timing.dac_bits": (1,),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("channels", "targets", "cost", "bound", "numbers"),
    [
        # 16 -> 16 once on a small array (100 um2), 16 -> 32 on a large one (150): neither needs both kinds
        ((16, 32), (40, 40), 250.0, 150.0, {"small": 1, "large": 1}),
        # two and four small arrays: the larger area is the bound
        ((16, 16), (20, 10), 400.0, 400.0, {"small": 4}),
    ],
)
def test_networks_in_turn_on_kinds(
    channels: tuple[int, int], targets: tuple[int, int], cost: float, bound: float, numbers: dict[str, int]
) -> None:
    """By docs/sources/model.md 20: of each kind the most that any network takes."""
    networks = [
        {
            "network": rramalloc.Network.from_document(network(channels=of_network), "n"),
            "target_ns": target,
        }
        for of_network, target in zip(channels, targets, strict=True)
    ]
    machine = two_kinds(None, None, timing={"step_ns": 10.0}).to_dict()
    found = rramalloc.size({"networks": networks, "hardware": machine})
    assert (found.cost, found.lower_bound, found.chip.area_um2) == (cost, bound, cost)
    assert found.chip.arrays == sum(numbers.values())
    assert {kind.name: kind.arrays for kind in found.chip.hardware.kinds or ()} == {"large": 1} | numbers


@pytest.mark.parametrize(
    ("minimise", "target", "cost", "numbers"),
    [
        # both layers on a large tile; a tile of each would take 600
        ("area_um2", 5, 350.0, {"small": 0, "large": 2}),
        ("area_um2", 3, 600.0, {"small": 2, "large": 2}),
        ("area_um2", 2, 1200.0, {"small": 4, "large": 4}),
        ("arrays", 5, 2.0, {"small": 0, "large": 2}),
        ("arrays", 3, 4.0, {"small": 2, "large": 2}),
    ],
)
def test_kinds_in_tiles_by_hand(minimise: str, target: int, cost: float, numbers: dict[str, int]) -> None:
    """Tiles of two arrays of docs/sources/model.md 18: a small one takes 250 um2, a large one 350."""
    document = two_kinds(None, None).to_dict() | {"chip": {"arrays_per_tile": 2}}
    document["energy"]["periphery_um2"] = 50.0
    question = {"networks": [{"network": PAIR, "target": target}], "hardware": document}
    found = rramalloc.size({**question, "minimise": minimise})
    assert (found.cost, found.lower_bound, found.by_kind) == (cost, cost, numbers)
    assert found.chip.tiles == sum(numbers.values()) // 2
    again = rramalloc.optimize(PAIR, hardware=found.chip.hardware, work=1, progress=False)
    assert again.makespan <= target


@pytest.mark.parametrize(("target", "cost"), [(5, 2.0), (2, 8.0)])
def test_fewest_arrays_of_kinds_without_areas(target: int, cost: float) -> None:
    """Each layer once on a large array, or four copies of both."""
    machine = two_kinds(None, None, areas=False).to_dict()
    question = {"networks": [{"network": PAIR, "target": target}], "hardware": machine}
    found = rramalloc.size({**question, "minimise": "arrays"})
    assert (found.cost, found.lower_bound, found.chip.area_um2) == (cost, cost, None)


@pytest.mark.parametrize("number", range(8))
@pytest.mark.usefixtures("no_enumeration")
def test_kinds_in_tiles_against_all_allocations(number: int) -> None:
    """By docs/sources/model.md 20: the fewest whole tiles, by searches alone."""
    random = Random(number)
    case = KindsCase.drawn(random)
    per_tile = {"small": random.choice((1, 2, 3)), "large": random.choice((1, 2, 4))}
    every = list(case.with_numbers(99).allocations())
    target = random.choice(sorted({found.makespan for _, found in every})[:4])
    document, of_tile = case.hardware.to_dict(), {**per_tile}
    document["chip"] = {"arrays_per_tile": 1}
    if case.by_area:
        document["energy"]["periphery_um2"] = periphery = random.choice((30.0, 70.0))
    for kind in document["kinds"]:
        del kind["arrays"]
        kind["chip"] = {"arrays_per_tile": per_tile[kind["name"]]}
        if case.by_area:
            area = kind.get("energy", document["energy"])["area_um2"]
            of_tile[kind["name"]] = per_tile[kind["name"]] * area + periphery
    costs = list[float]()
    for given, found in every:
        used = dict.fromkeys(per_tile, 0)
        for layer in found.layers:
            used[given["kind"][layer.name]] += layer.arrays
        if found.makespan <= target:
            costs.append(sum(-(-used[name] // per_tile[name]) * of_tile[name] for name in used))
    question = {"networks": [{"network": case.network, "target": target}], "hardware": document}
    sized = rramalloc.size({**question, "minimise": "area_um2" if case.by_area else "arrays"})
    assert sized.lower_bound <= min(costs) == sized.cost


@pytest.mark.parametrize(("interval", "cost", "reached"), [(2, 1000.0, 2), (4, 500.0, 3)])
def test_kinds_of_a_network_that_feeds_back(interval: int, cost: float, reached: int) -> None:
    """An input every makespan: 2 steps with four copies of both layers, 3 with two (100 and 150 um2)."""
    asked = {"network": PAIR, "target_interval": interval, "feeds_back": True}
    found = rramalloc.size({"networks": [asked], "hardware": two_kinds(None, None).to_dict()})
    assert (found.cost, found.lower_bound, found.networks[0].reaches) == (cost, cost, reached)


def test_energy_is_that_of_the_chip() -> None:
    """Two arrays that leak 1 mW for 20 ns, and four reads of 1 pJ; not all that any network could use.

    So a limit of that energy is kept, and a smaller one is not.
    """
    energy = {"area_um2": 100.0, "read_pj": 1.0, "leakage_mw": 1.0}
    machine = {**HARDWARE, "energy": energy, "chip": {"arrays_per_tile": 2}}
    one = rramalloc.Network.from_document(network(), "n")
    asked: dict[str, Any] = {"network": one, "target_ns": 20.0}
    for limit in ({}, {"at_most": {"energy_pj": 44.0}}):
        found = rramalloc.size({"networks": [asked | limit], "hardware": machine})
        assert found.networks[0].allocation.energy_pj == 44.0
    with pytest.raises(InfeasibleError, match="44"):
        rramalloc.size({"networks": [asked | {"at_most": {"energy_pj": 43.0}}], "hardware": machine})
    other = {"network": rramalloc.Network.from_document(network(), "m"), "target_ns": 10.0}
    both = {"networks": [asked | limit, other], "hardware": machine}
    with pytest.raises(
        InfeasibleError, match="one: its allocation breaks a limit of at_most on the chip of all"
    ):
        rramalloc.size(both)


def test_bound_of_a_layer_on_a_digital_unit() -> None:
    """A unit of 900 um2 holds what takes 16 arrays of 100: the bound knows that a copy takes one unit."""
    timing = {"step_ns": 10.0, "clock": "own", "tick_ns": 1.0}
    unit = {"name": "digital", "processor": {"macs_per_ns": 64.0, "area_um2": 900.0}}
    wide = rramalloc.Network.from_document(network(channels=256), "n")
    machine = {**HARDWARE, "timing": timing, "kinds": [{"name": "analog"}, unit]}
    found = rramalloc.size({"networks": [{"network": wide, "target_ns": 1e6}], "hardware": machine})
    assert found.candidates[0].cost == (900.0, 900.0)
