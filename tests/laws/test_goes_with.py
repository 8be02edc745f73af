"""Every pair of a feature and what reads it: an answer where the table says so, else the one refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from program import run

import rramalloc
from rramalloc.allocation.goes_with import FEATURES, OF_CASE, Feature, readers
from rramalloc.commands.sweep.compute import results_of
from rramalloc.commands.sweep.spec import Grid, read_spec
from rramalloc.errors import SpecError, UnsupportedError
from rramalloc.hardware.loader import as_hardware
from rramalloc.room import installed
from rramalloc.timing.latency_table import LatencyRow, LatencyTable
from rramalloc.timing.measured_layer import MeasuredLayer

TAKES = readers()
LINKS = {"hop_ns_tile": 1.0, "bandwidth_tile_gb_s": 8.0}
CHIP = {"arrays_per_tile": 4, "tiles": [4, 4]}
NODES: list[dict[str, Any]] = [
    {"name": "in", "op": "input", "shape": [2, 4, 4]},
    {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 4, "kernel": 3, "pads": 1},
    {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 2, "kernel": 1},
]
MACHINE: dict[str, Any] = {
    "name": "machine",
    "crossbar": {"wordlines": 32, "bitlines": 16, "cell_bits": 2},
    "precision": {"weight_bits": 4, "input_bits": 4, "output_bits": 4, "signed": "offset"},
    "timing": {"step_ns": 10.0},
    "energy": {"read_pj": 1.0, "leakage_mw": 0.01, "area_um2": 5.0},
    "units": {"processors": 64, "storage_units": 64, "unit_bytes": 64, "bandwidth_in_gb_s": 1.0}
    | {"bandwidth_out_gb_s": 1.0},
    "write": {"write_ns_per_row": 5.0},
    "chip": CHIP,
}
KINDS = [
    {"name": name, "tiles": 8, "crossbar": {"wordlines": lines}, "energy": MACHINE["energy"]}
    for name, lines in (("s", 16), ("l", 32))
]
ON_HARDWARE: dict[str, dict[str, Any]] = {
    "kinds": {"kinds": KINDS},
    "counting": {"counting": {"groups": "dense", "classifiers": "stored", "row_blocks": "anywhere"}},
    "first_fit": {"counting": {"groups": "dense", "classifiers": "stored", "row_blocks": "first_fit"}},
    "own_clock": {"timing": {"step_ns": 10.0, "clock": "own", "tick_ns": 1.0}},
    "links": {"chip": CHIP | LINKS},
}
OF_NETWORK = ("layer_bits", "images")
OPTIONS: dict[str, dict[str, Any]] = {
    "turns": {"feeds_back": True},
    "sequences": {"feeds_back": True, "sequences": 2},
    "states": {"states": {"a": "a"}},
    "sdk": {"mapping": "sdk"},
    "host": {"host": "b"},
    "fold": {"mapping": "kernel_split", "fold": True},
    "latency_table": {"latency_table": "table.json"},
    "copies": {"copies": ["a=2"]},
    "copies_divide": {"copies_divide": "width"},
    "at_most": {"at_most": ["energy_pj=1J"]},
    "interval_limit": {"at_most": ["interval_ns=1ms"]},
    "area": {"at_most": ["area_um2=1mm2"]},
    "objective": {"objective": "energy"},
    "interval": {"objective": "interval"},
    "target": {"target_ns": "1ms"},
    "interval_target": {"target_interval": "1ms"},
    "inputs": {"inputs": 2},
    "start": {"start": "start.json"},
    "partial_start": {"start": "start.json", "partial_start": True},
    "bits": {"bits": "bits.csv"},
    "placed": {"placed": True},
    "method": {"method": "gain"},
}
SAME = [
    {"sdk", "fold"},
    {"turns", "sequences"},
    {"turns", "states"},
    {"sequences", "states"},
    {"at_most", "area"},
    {"at_most", "interval_limit"},
    {"interval_limit", "area"},
    {"target", "interval_target"},
    {"counting", "first_fit"},
    {"start", "partial_start"},
]
SAME += [{"objective", "interval"}, {"objective", "target"}, {"target", "interval"}, {"layer_bits", "bits"}]
SAME += [
    {"objective", "interval_target"},
    {"interval", "interval_target"},
    {"kinds", "own_tiles"},
    {"kinds", "first_fit"},
]
"""Pairs of one option or table, or of which one includes the other."""
NEVER_TOGETHER = [
    {"kinds", "start"},
    {"kinds", "partial_start"},
    {"bits", "start"},
    {"bits", "partial_start"},
    {"host", "start"},
    {"host", "partial_start"},
]
"""A start on a hardware of kinds names them, and has copies of layers on arrays alone."""
COMMANDS = {
    "optimize": "optimize n.json --arrays 16 --work 1",
    "inspect": "inspect n.json",
    "compare": "compare n.json --arrays 16 --work 1 --methods none,auto",
    "pareto": "pareto n.json --arrays 16 --work 1",
    "explain": "explain n.json --arrays 16 --work 1",
    "size": "size n.json --target-ns 1ms --work 1",
    "size --placed": "size n.json --target-ns 1ms --work 1 --placed",
    "tune": "tune n.json --arrays 16 --evaluations 2 --simulator",
    "--placed": "optimize n.json --arrays 16 --work 1 --placed",
    "--reload": "optimize n.json --arrays 16 --work 1 --reload",
    "chiplet optimize": "chiplet optimize n.json --work 1",
    "evaluate": "evaluate n.json --arrays 16",
    "simulate": "simulate n.json --allocation a.json",
    "place": "place n.json --allocation a.json --work 0",
    "verify": "verify n.json --allocation a.json",
    "export": "export n.json --allocation a.json --to json -o out.json",
    "--to TOOL": "export n.json --allocation a.json --to pimsyn --check",
    "chiplet cost": "chiplet cost n.json --allocation a.json --placement p.json",
}
"""A command line of everything that the rooms say of themselves."""
BY_FILE = {"evaluate": ("fold", "turns", "sequences", "states")}
"""What comes with an allocation, and has no option."""
OWN_OBJECTIVES = ("size", "size --placed", "explain", "pareto", "compare")
SWEPT = {"objective": "objectives", "method": "methods", "mapping": "mappings"}
"""Options that are lists in the file of a sweep."""
COUNTS_LINKS = {"--placed", "size --placed", "place", "chiplet optimize"}
"""Whose times have the transfers between tiles in them."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "n.json").write_text(json.dumps(network_with(set())))
    (tmp_path / "start.json").write_text('{"copies": {"a": 2, "b": 1}}')
    (tmp_path / "bits.csv").write_text("layer,weight_bits,input_bits,sensitivity\na,4,4,0\na,2,4,1\n")
    of_image = network_with({"images"})
    for network, name in (
        (rramalloc.load("n.json"), "table.json"),
        (rramalloc.load(of_image), "of_image.json"),
    ):
        layers = [MeasuredLayer.of(network, node).model_dump() for node in network.stages]
        LatencyTable(rows=tuple(LatencyRow(**layer, latency_ns=160.0) for layer in layers)).save(name)
    return tmp_path


def hardware_with(features: set[str]) -> dict[str, Any]:
    machine = dict(MACHINE)
    for name in sorted(features & {*ON_HARDWARE}):
        machine |= ON_HARDWARE[name]
    if "placed" in features:
        machine["chip"] = CHIP | LINKS
    return machine


def network_with(features: set[str]) -> dict[str, Any]:
    more = {"a": {"weight_bits": 2, "input_bits": 4}} if "layer_bits" in features else {}
    more |= {"in": {"images": 2}} if "images" in features else {}
    nodes = [node | more.get(node["name"], {}) for node in NODES]
    return {"format": "rramalloc-network/1", "name": "n", "source": "test", "nodes": nodes}


def options_of(features: set[str]) -> dict[str, Any]:
    options: dict[str, Any] = {"hardware": hardware_with(features)}
    for name in sorted(features & {*OPTIONS}):
        options |= OPTIONS[name]
    if {"latency_table", "images"} <= features:
        options["latency_table"] = "of_image.json"
    return options


def words_of(options: dict[str, Any]) -> list[str]:
    """The same options on a command line."""
    Path("hardware.toml").write_text(as_hardware(options["hardware"]).to_toml())
    words = ["--hardware", "hardware.toml"]
    for name, value in options.items():
        if name == "states":
            words += ["--state", "a=a"]
        elif name != "hardware":
            option = f"--{name.replace('_', '-')}"
            words += (
                [option] if value is True else [option, str(value[0] if isinstance(value, list) else value)]
            )
    return words


def test_every_feature_and_every_reader_is_asked() -> None:
    assert {*FEATURES} == {*ON_HARDWARE, *OPTIONS, *OF_NETWORK}
    told = {name for room in installed().values() for name in room.reads}
    assert told == {*COMMANDS, "sweep"}


@pytest.mark.parametrize("reader", COMMANDS)
def test_a_command_answers_or_refuses(reader: str) -> None:
    command = COMMANDS[reader].split()
    of_file = "--allocation" in command
    for name in FEATURES:
        features = {name} | ({"placed"} if reader.endswith("--placed") or reader == "chiplet cost" else set())
        options = options_of(features) | ({} if name != "placed" else {"placed": True})
        network = network_with(features)
        if {"objective", "target", "interval_target", "interval"} & features and reader in OWN_OBJECTIVES:
            continue
        if name not in OF_CASE and of_file:
            continue
        Path("n.json").write_text(json.dumps(network))
        if of_file:
            asked = {key: value for key, value in options.items() if key != "placed"}
            asked |= {"crossbar": "128x128"} if reader == "--to TOOL" else {}
            allocation = rramalloc.optimize(network, 16, work=1, **asked)
            allocation.save("a.json")
            if reader == "chiplet cost":
                rramalloc.place("n.json", allocation, work=0).save("p.json")
            ended = run(*command, "-q")
        else:
            if reader.endswith("--placed"):
                options.pop("placed")
            tool = ["sh -c 'echo 1.0' {allocation}"] if reader == "tune" else []
            ended = run(*command, *tool, *words_of(options), "-q")
        if name in BY_FILE.get(reader, ()):
            continue
        if name in TAKES[reader]:
            assert ended.code == 0, (name, ended.err)
        else:
            words = ("No such option", "is not for", "is not one of")
            no_option = ended.code == 2 and any(word in ended.err for word in words)
            assert no_option or (ended.code == 1 and "does not take" in ended.err), (name, ended.err)


@pytest.mark.parametrize("name", FEATURES)
def test_a_sweep_answers_or_refuses(name: str) -> None:
    """Its points fail one by one; what it has no list for is refused with the file."""
    Path("n.json").write_text(json.dumps(network_with({name})))
    options = {SWEPT.get(key, key): value for key, value in options_of({name}).items()}
    if "at_most" in options:
        options["at_most"] = dict(text.split("=") for text in options["at_most"])
    spec: dict[str, Any] = {"networks": ["n.json"], "arrays": [16], "work": 1} | options
    if name not in TAKES["sweep"]:
        with pytest.raises(SpecError, match="start: this field is not known"):
            read_spec(spec)
        return
    (point,) = Grid.read(*read_spec(spec)).points()
    assert results_of(point).get("error") is None


BY_WORDS = {
    "interval": "an interval",
    "interval_target": "a target of the interval",
    "interval_limit": "a limit of the interval",
}


def together(pair: tuple[str, str]) -> bool:
    """Whether all that two features ask of `optimize` takes both."""
    features = {*pair} | ({"start"} if "partial_start" in pair else set())
    asked = {name: OPTIONS[name] for name in features if name in OPTIONS}
    every = {key: value for options in asked.values() for key, value in options.items()}
    targets = {"target_ns", "target_interval"}
    objective = every.get("objective", "arrays" if targets & every.keys() else "latency")
    readers = ["optimize", f"objective {objective!r}", f"method {every.get('method', 'auto')!r}"]
    readers += [f"--{name.replace('_', '-')}" for name in features if f"--{name.replace('_', '-')}" in TAKES]
    readers += [BY_WORDS[name] for name in sorted(features & BY_WORDS.keys())]
    return all(features <= TAKES[reader] for reader in readers)


@pytest.mark.parametrize("first", FEATURES)
def test_two_features_of_optimize_go_together_or_are_refused(first: str) -> None:
    for second in FEATURES:
        pair = {first, second}
        if first >= second or pair in SAME or pair in NEVER_TOGETHER:
            continue
        network, options = network_with(pair), options_of(pair)
        if together((first, second)):
            rramalloc.optimize(network, 16, work=1, **options)
        else:
            with pytest.raises(UnsupportedError, match=r"which .* does not take"):
                rramalloc.optimize(network, 16, work=1, **options)


def test_a_feature_that_comes_with_changed_hardware_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a candidate of `size`, whose first bounds would not know it, and of a what-if of `explain`."""
    feature = Feature("has three bits a cell", "take two", lambda case: case.hardware.crossbar.cell_bits == 3)
    for table in (OF_CASE, FEATURES):
        monkeypatch.setitem(table, "three_bits", feature)
    spec: dict[str, Any] = {"networks": [{"network": "n.json", "target": 16}], "hardware": MACHINE}
    with pytest.raises(UnsupportedError, match="three bits a cell, which size does not take: take two"):
        rramalloc.size(spec | {"choose": {"crossbar.cell_bits": [2, 3]}})
    found = rramalloc.optimize("n.json", 16, hardware=MACHINE, progress=False)
    explained = rramalloc.explain("n.json", allocation=found, what_if=["crossbar.cell_bits=3"])
    assert "three bits a cell, which explain does not take" in explained.what_if[0].words
    assert explained.what_if[0].gain is None


@pytest.mark.parametrize("reader", sorted({*COMMANDS} - {"export", "--to TOOL", "chiplet cost"}))
def test_what_times_leave_out_stands_in_every_result(reader: str) -> None:
    """Links, and writing of weights (docs/sources/model.md 21): of the case, whatever the command."""
    command, options = COMMANDS[reader].split(), options_of({"links"})
    if "--allocation" in command:
        rramalloc.optimize("n.json", 16, work=1, **options).save("a.json")
    tool = ["sh -c 'echo 1.0' {allocation}"] if reader == "tune" else []
    ended = run(*command, *tool, *words_of(options), "--format", "json", "-q")
    assert ended.code == 0, ended.err
    said = json.loads(ended.out)["not_counted"]
    assert any(text.startswith("links between tiles") for text in said) is (reader not in COUNTS_LINKS)
    assert any(text.startswith("writing of weights") for text in said) is (reader != "--reload")
