"""PIMCOMP and PIMSYN: what is written is read back by the importer to the same stages
(docs/sources/peers.md)."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from commands.export.nets import chain, conv, expressible, machine, network, of, residual, subject
from hypothesis import given, settings
from laws.strategies import randoms

from rramalloc.commands.export.bundle import Bundle
from rramalloc.commands.export.subject import Subject
from rramalloc.commands.export.targets import pimcomp, pimsyn
from rramalloc.errors import UnsupportedError
from rramalloc.hardware.tables import Chip
from rramalloc.importers import load
from rramalloc.importers.pimcomp_nodes import from_document
from rramalloc.mapping.demand import demands
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.network import Network
from rramalloc.timing.stage_graph import StageGraph


def documents(bundle: Bundle) -> dict[str, Any]:
    return {file.name: json.loads(file.text) for file in bundle.files if file.name.endswith(".json")}


def to_pimsyn(subject: Subject) -> Bundle:
    """On arrays of a size that PIMSYN has; its network does not depend on them."""
    return pimsyn.export(replace(subject, hardware=subject.hardware.with_crossbar(128, 128)))


def stages(net: Network) -> dict[str, tuple[int, int]]:
    """Windows and demand by stage."""
    graph = StageGraph.build(net, MappingOptions(fc="crossbar"))
    need = demands(net, graph.stages, machine())
    return {name: (int(w), n) for name, w, n in zip(graph.names, graph.windows, need, strict=True)}


def edges(net: Network) -> dict[tuple[str, str], list[int]]:
    graph = StageGraph.build(net, MappingOptions(fc="crossbar"))
    return {
        (graph.names[edge.producer], graph.names[edge.consumer]): np.asarray(graph.needed(edge)).tolist()
        for edge in graph.edges
    }


def assert_read_back(net: Network, nodes: Any) -> None:
    back = from_document(nodes, "back.json")
    assert stages(back) == stages(net)
    assert edges(back) == edges(net)


@pytest.mark.parametrize("name", ["resnet18", "squeezenet", "tiny_yolov2"])
def test_shipped_networks_come_back_from_both(name: str) -> None:
    net = load(name)
    for target, unwrap in ((pimcomp.export, "node_list"), (to_pimsyn, None)):
        written = documents(target(subject(net)))["network.json"]
        assert (unwrap in written) if unwrap else isinstance(written, list)
        assert_read_back(net, written)


@given(randoms)
@settings(max_examples=60, deadline=None)
def test_networks_that_they_take_come_back(random: Random) -> None:
    net = expressible(random, branches=True)
    for target in (pimcomp.export, to_pimsyn):
        assert_read_back(net, documents(target(subject(net)))["network.json"])


def test_copies_are_keyed_by_the_index_of_the_convolution() -> None:
    """The tool walks `node_list` and numbers it from 0."""
    files = documents(pimcomp.export(subject(residual(), {"c1": 5, "c2": 3})))
    nodes = files["network.json"]["node_list"]
    assert [node["index"] for node in nodes] == list(range(len(nodes)))
    by_name = {nodes[int(index)]["name"]: copies for index, copies in files["replication.json"].items()}
    assert by_name == {"c1": 5, "c2": 3}
    assert all(nodes[int(index)]["operation"] == "OP_CONV" for index in files["replication.json"])


def test_batchnorm_and_activation_are_fused_as_in_the_tools_own_files() -> None:
    nodes = documents(pimcomp.export(subject(residual())))["network.json"]["node_list"]
    by_name = {node["name"]: node for node in nodes}
    assert list(by_name) == ["x", "c1", "c2", "sum", "r2", "p", "f", "fc"]
    assert (by_name["c1"]["with_bn"], by_name["c1"]["with_act"], by_name["c1"]["act_type"]) == (1, 1, 0)
    assert (by_name["c2"]["with_bn"], by_name["c2"]["with_act"], by_name["c2"]["act_type"]) == (0, 0, -1)
    assert by_name["c1"]["consumer"] == ["c2", "sum"]
    assert [node["new_node_index"] for node in nodes] == list(range(8))
    assert (by_name["c1"]["provider_index"], by_name["c1"]["consumer_index"]) == ([0], [2, 3])
    assert by_name["sum"]["provider"] == ["c2", "c1"]
    assert by_name["sum"]["param"] == {"eletype": 2}
    assert by_name["f"]["output_dim"] == [1, 64]  # 4 channels of 4 x 4
    assert by_name["fc"]["param"] == {"num_input": 64, "num_output": 10, "with_bias": 1}
    for node in nodes:
        assert node["consumer_num"] == len(node["consumer"])
        assert node["provider_num"] == len(node["provider"])
        assert node["output_dim_num"] == len(node["output_dim"])
        assert (
            node["operation"] == "OP_INPUT" or node["input_dim"] == by_name[node["provider"][0]]["output_dim"]
        )


def test_networks_with_too_many_paths_are_refused() -> None:
    """Each sum doubles the paths: 2 ** 30 reach the last."""
    nodes, last = [conv("c", "x")], "c"
    for index in range(30):
        nodes += [conv(f"c{index}", last), of("add", f"s{index}", f"c{index}", last)]
        last = f"s{index}"
    with pytest.raises(UnsupportedError, match="walks every path"):
        pimcomp.export(subject(network(*nodes)))


def test_what_the_cores_cannot_hold_is_refused() -> None:
    """c1: 1 array; c2: 36 x 300 on 64 x 32, 10 a copy; fc: 1200 rows of 64, 19 arrays: 60 in all."""
    chip = Chip(arrays_per_tile=16, tiles=(1, 4), chips=(1, 1))
    pimcomp.export(subject(chain(), {"c2": 4}, machine(chip=chip)))
    less = chip.model_copy(update={"tiles": (1, 3)})
    with pytest.raises(UnsupportedError, match="do not fit 3 cores of 16"):
        pimcomp.export(subject(chain(), {"c2": 4}, machine(chip=less)))


BROADCAST = network(
    conv("c1", "x"), of("global_avgpool", "g", "c1"), conv("c2", "g", 4, 1), of("mul", "m", "c1", "c2")
)
REFUSED = [
    (network(conv("c", "x", dilation=2, pads=2)), "PIMCOMP", "without dilation"),
    (network(conv("c", "x"), of("upsample", "u", "c", scale=2)), "both", "'upsample'"),
    (network(conv("c", "x"), of("select", "s", "c", channels=2)), "both", "'select'"),
    (BROADCAST, "both", "repeats no pixels"),
    (network(conv("c", "x"), of("flatten", "f", "c"), conv("d", "f", 4, 1)), "both", "grid of pixels"),
    (network(conv("c", "x"), shape=(3, 8, 6)), "PIMSYN", "square"),
]


@pytest.mark.parametrize(("net", "tool", "reason"), REFUSED)
def test_what_they_cannot_express_is_refused(net: Network, tool: str, reason: str) -> None:
    for name, target in (("PIMCOMP", pimcomp.export), ("PIMSYN", to_pimsyn)):
        if tool in (name, "both"):
            with pytest.raises(UnsupportedError, match=reason) as caught:
                target(subject(net))
            assert name in str(caught.value)
