"""Layers left to the host by name (docs/sources/model.md 2): a barrier each, in every call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from program import run

import rramalloc
from rramalloc.errors import SpecError, UnsupportedError
from rramalloc.hardware.performance import ChipPerformance
from rramalloc.network.network import Network

NODES: list[dict[str, Any]] = [
    {"name": "input", "op": "input", "shape": [4, 8, 8]},
    {"name": "c1", "op": "conv", "inputs": ["input"], "out_channels": 8, "kernel": 3, "pads": 1},
    {"name": "c2", "op": "conv", "inputs": ["c1"], "out_channels": 8, "kernel": 3, "pads": 1},
    {"name": "c3", "op": "conv", "inputs": ["c2"], "out_channels": 8, "kernel": 3, "pads": 1},
    {"name": "pool", "op": "global_avgpool", "inputs": ["c3"]},
    {"name": "fc", "op": "linear", "inputs": ["pool"], "out_features": 10},
]
NETWORK = Network.build("three", NODES)
HARDWARE = """
name = "small"
source = "made for a test"
[crossbar]
wordlines = 128
bitlines = 64
cell_bits = 8
[precision]
weight_bits = 8
input_bits = 8
output_bits = 8
signed = "offset"
[timing]
step_ns = 100.0
[chip]
arrays_per_tile = 4
straddle = true
tiles = [3, 3]
chips = [1, 1]
hop_ns_tile = 1.0
bandwidth_tile_gb_s = 32.0
[write]
write_ns_per_row = 10.0
"""
CHIP: dict[str, Any] = {
    "processors": 20,
    "storage_units": 20,
    "unit_bytes": 4000,
    "bandwidth_in_gb_s": 2,
    "bandwidth_out_gb_s": 1,
    "ns_per_byte": {"linear": 1.0, "conv": 1.0},
}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """The network and the hardware as files."""
    network, hardware = tmp_path / "net.json", tmp_path / "small.toml"
    rramalloc.convert(NETWORK, network)
    hardware.write_text(HARDWARE)
    return network, hardware


def test_a_layer_on_the_host_waits_for_all_pixels_and_is_named() -> None:
    """64 windows of c1, one a step; c2 yields nothing before the last; then 64 windows of c3."""
    timed = rramalloc.optimize(NETWORK, 2, host="c2")
    assert [(layer.name, layer.start, layer.finish) for layer in timed.layers] == [
        ("c1", 0, 64),
        ("c3", 64, 128),
    ]
    assert timed.options.host == ("c2",)
    assert timed.coverage.host == ("c2", "fc")
    assert timed.coverage.barriers == ("c2",)
    assert timed.proof.startswith("proven optimal for the layers on arrays")
    assert timed.coverage.summary.endswith("; on the host: c2, fc")
    assert (timed.coverage.weights.on_arrays, timed.coverage.weights.total) == (288 + 576, 288 + 1152 + 80)
    assert "host" not in rramalloc.optimize(NETWORK, 20).to_dict()["options"]


def test_patterns_classifiers_and_what_is_left() -> None:
    def stages(**given: Any) -> list[str]:
        return [layer.name for layer in rramalloc.inspect(NETWORK, **given).layers]

    assert stages(host=["c[12]"]) == ["c3"]
    assert stages(host=("c1", "c1", "fc")) == ["c2", "c3"]
    assert stages(host="c*", fc="crossbar") == ["fc"]
    linear = Network.build("linear", [NODES[0] | {"shape": [4, 1, 1]}, NODES[5] | {"inputs": ["input"]}])
    for host, words in (
        ("c9", "host: no weight layer is called 'c9'; did you mean"),
        ("x*", "host: no weight layer is called 'x*'"),
        ("pool", "host: no weight layer is called 'pool'"),
        (["c1", ""], "host"),
        ([f"x{number}" for number in range(101)], "host: has more than 100 patterns"),
    ):
        with pytest.raises(SpecError, match=words.replace("*", r"\*")):
            stages(host=host)
    with pytest.raises(UnsupportedError, match=r"host or put .* fc crossbar"):
        stages(host="c*")
    with pytest.raises(UnsupportedError, match="leave one of them out of host"):
        rramalloc.inspect(linear, host="fc")


def test_a_file_with_host_layers_is_reproduced(files: tuple[Path, Path], tmp_path: Path) -> None:
    (network, hardware), path = files, tmp_path / "a.json"
    allocation = rramalloc.optimize(network, 6, hardware=hardware, host=["c2"])
    allocation.save(path)
    assert json.loads(path.read_text())["options"]["host"] == ["c2"]
    simulation = rramalloc.simulate(network, path)
    assert simulation.makespan == allocation.makespan
    assert [edge.buffer_pixels for edge in simulation.edges] == [64]
    simulation.save(tmp_path / "s.json")
    placement = rramalloc.place(network, path)
    placement.save(tmp_path / "p.json")
    assert {array.layer for array in placement.arrays} == {"c1", "c3"}
    for given in ({}, {"placement": tmp_path / "p.json"}):
        verified = rramalloc.verify(network, path, **given)
        assert (verified.verdict, verified.makespan) == ("equal", allocation.makespan)
        assert [layer.computed for layer in verified.layers] == ["arrays", "host", "arrays", "host"]
        exported = rramalloc.export(network, path, "json", **given)
        assert json.loads(exported.files[0].text)["host"] == ["c2"]
    with pytest.raises(UnsupportedError, match=r"node 'c2': is left to the host.* which MNSIM does not take"):
        rramalloc.export(network, path, "mnsim")
    assert rramalloc.explain(network, allocation=path).makespan == allocation.makespan
    page = tmp_path / "r.html"
    assert run("report", path, tmp_path / "s.json", "--network", network, "-o", page).code == 0
    assert rramalloc.simulate(network, path, host=[], fc="crossbar").coverage.complete
    with pytest.raises(SpecError, match="copies: 'c1' is left to the host, by fc or host"):
        rramalloc.simulate(network, path, host="c1")
    document = json.loads(path.read_text())
    document["options"]["host"] = ["c9"]
    path.write_text(json.dumps(document))
    with pytest.raises(SpecError, match="no weight layer is called 'c9'"):
        rramalloc.simulate(network, path)


@pytest.mark.parametrize(
    "command",
    [
        ("optimize", "--arrays", 4, "--placed", "--work", 1),
        ("optimize", "--arrays", 4, "--mapping", "sdk", "--work", 1),
        ("optimize", "--arrays", 1, "--reload", "--work", 1),
        ("inspect",),
        ("compare", "--arrays", 4, "--methods", "auto,published,balance", "--work", 1),
        ("pareto", "--arrays", 4, "--work", 1),
        ("explain", "--arrays", 4, "--work", 1),
        ("fold",),
        ("chiplet", "optimize", "--work", 1),
    ],
)
def test_every_command_that_maps_a_network_takes_it(
    command: tuple[object, ...], files: tuple[Path, Path], tmp_path: Path
) -> None:
    (network, hardware), out = files, tmp_path / "out.json"
    done = run(*command, network, "--hardware", hardware, "--host", "c2", "-q", "-o", out)
    assert done.code == 0, done.err
    rows = _rows(json.loads(out.read_text()))
    named = {value for row in rows if "inputs" not in row for value in (row.get("name"), *row)}
    assert named & {"c1", "c2", "c3"} == {"c1", "c3"}


def _rows(value: Any) -> list[dict[str, Any]]:
    """Return every object in a document."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = [value] if isinstance(value, dict) else []
    return own + [row for each in inner for row in _rows(each)]


def test_a_pattern_names_no_part_of_a_layer_that_reload_cuts(tmp_path: Path) -> None:
    """72 rows of c3 on 64 wordlines: two parts, of which the second is called as the pattern says."""
    hardware = tmp_path / "low.toml"
    hardware.write_text(HARDWARE.replace("wordlines = 128", "wordlines = 64"))
    plan = rramalloc.optimize_reload(NETWORK, 1, hardware=hardware, host="*2", work=1)
    layers = [layer.name for segment in plan.segments for layer in segment.allocation.layers]
    assert layers == ["c1", "c3/part1", "c3/part2"]
    assert (plan.options.host, plan.host) == (("*2",), ("c2", "fc"))
    for each in plan.segments:
        segment = Network.build("segment", each.network.nodes)
        assert rramalloc.simulate(segment, each.allocation).makespan == each.makespan


class Copies:
    """Judges an allocation by its copies: the fewer, the worse."""

    name = "copies"

    def evaluate(self, network: Network, allocation: rramalloc.Allocation) -> float:
        assert network.sha256 == NETWORK.sha256
        return 100.0 - sum(allocation.copies.values())


def test_sweeps_evaluations_and_tuning_take_it(files: tuple[Path, Path], tmp_path: Path) -> None:
    network, hardware = map(str, files)
    evaluation = rramalloc.evaluate(NETWORK, ChipPerformance(**CHIP), arrays=12, host="c2")
    assert evaluation.task_names == ("c1", "c3")
    assert evaluation.document.host == ("c2",)
    spec = {"networks": [network], "hardware": [hardware], "arrays": [2, 4], "host": "c2", "work": 1}
    swept = rramalloc.sweep(spec, tmp_path / "sweep", jobs=1)
    assert [row["makespan"] for row in swept.rows()] == [128, 64]
    tuned = rramalloc.tune(NETWORK, 6, Copies(), evaluations=4, host=["c2"])
    assert tuned.allocation.copies.keys() == {"c1", "c3"}
    assert tuned.options.host == ("c2",)


@pytest.mark.parametrize(("features", "told"), [(712, False), (713, True)])
def test_a_small_convolution_beside_large_linear_layers_says_that_fc_exists(
    features: int, told: bool
) -> None:
    """c1 has 4 * 8 * 9 = 288 weights: less than 1 % of 8 * 40 + 40 * 713, not of 8 * 40 + 40 * 712."""
    nodes = [*NODES[:2], NODES[4] | {"inputs": ["c1"]}, NODES[5] | {"out_features": 40}]
    wide = {"name": "head", "op": "linear", "inputs": ["fc"], "out_features": features}
    network = Network.build("decode", [*nodes, wide])
    words = "2 linear layers on a single pixel with 99 % of the weights: left to the host by default, --fc"

    def says(result: Any) -> bool:
        return any(words in warning for warning in result.warnings)

    assert says(rramalloc.optimize(network, 4)) is told
    assert says(rramalloc.simulate(network, {"c1": 2})) is told
    assert says(rramalloc.inspect(network)) is told
    assert not says(rramalloc.inspect(network, fc="crossbar"))
    assert not says(rramalloc.inspect(network, host=["fc", "head"]))
