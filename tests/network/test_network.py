"""Networks: the checks of the graph, orders that do not depend on the file, and the hash."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from operator import attrgetter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from laws.strategies import random_network, randoms

from rramalloc.errors import NetworkError, RramallocError, SpecError
from rramalloc.importers import load
from rramalloc.network.network import Network
from rramalloc.network.shipped import shipped_names

pytestmark = pytest.mark.quick

INPUT: dict[str, Any] = {"name": "in", "op": "input", "shape": [4, 8, 8]}


def relu(name: str, *inputs: str) -> dict[str, Any]:
    return {"name": name, "op": "relu", "inputs": list(inputs)}


def conv(**fields: Any) -> dict[str, Any]:
    return {"name": "c", "op": "conv", "inputs": ["in"], "out_channels": 8, "kernel": 3} | fields


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([INPUT, relu("a", "b"), relu("b", "a")], "net: node 'a' .*cycle"),
        ([INPUT, relu("a", "a")], "net: node 'a' .*cycle"),
        ([INPUT, relu("a", "in"), relu("a", "in")], "node 'a' .*used twice"),
        ([INPUT, relu("a", "nowhere")], "'a' .*inputs: no node is named 'nowhere'"),
        ([relu("a", "a")], "no node with op 'input'"),
        ([], "no node with op 'input'"),
        ([INPUT, relu("a", "in", "in")], "'a' .*takes one input, got 2"),
        ([INPUT, conv(groups=3)], "'c' .*groups: 3 groups do not divide 4 input"),
        ([INPUT, conv(groups=4, out_channels=6)], "'c' .*4 groups do not divide 6 output"),
        ([INPUT, conv(kernel=[3, 9])], "'c' .*kernel: covers 9 pixels.* has 8 in width"),
        ([INPUT, conv(kernel=3, dilation=[4, 1])], "'c' .*covers 9 pixels.* has 8 in height"),
        (
            [INPUT, conv(), {"name": "s", "op": "add", "inputs": ["in", "c"]}],
            "'s' .*inputs: grids differ: 6 x 6 and 8 x 8",
        ),
        (
            [INPUT, conv(pads=1), {"name": "s", "op": "mul", "inputs": ["in", "c"]}],
            "'s' .*channel counts differ: 4 and 8",
        ),
        (
            [INPUT, {"name": "u", "op": "upsample", "inputs": ["in"], "scale": 4096}],
            "'u' .*limits: 16777216 pixels",
        ),
    ],
)
def test_faulty_graphs(nodes: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        Network.build("net", nodes)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (conv(kernel=0), r"nodes\[1\] 'c'.kernel.*greater than or equal to 1"),
        (conv(stride=[1, 0]), r"nodes\[1\] 'c'.stride\[1\].*got 0"),
        (conv(pads=-1), r"'c'.pads.*got -1"),
        (conv(pads=[1, 1]), r"'c'.pads"),
        (conv(kernel=[3, 3, 3]), r"'c'.kernel"),
        (conv(out_channels=2.5), r"'c'.out_channels.*got 2.5"),
        (conv(out_channels="8"), r"'c'.out_channels.*got '8'"),
        (conv(out_channels=True), r"'c'.out_channels.*got True"),
        (conv(kernel=True), r"'c'.kernel"),
        (conv(bias=1), r"'c'.bias: this field is not known"),
        ({"name": "c", "op": "conv", "inputs": ["in"], "kernel": 1}, r"'c'.out_channels: .*missing"),
        (conv(inputs=[]), r"'c'.inputs"),
        (conv(inputs="in"), r"'c'.inputs"),
        (conv(op="conf"), r"'c'.*conf"),
        (relu("", "in"), r"nodes\[1\] ''.name"),
        ({"name": "i", "op": "input", "shape": [1, 0, 4]}, r"'i'.shape\[1\].*got 0"),
        (conv(out_channels=2**31), r"'c'.out_channels.*got 2147483648"),
    ],
)
def test_faulty_fields_are_named(node: dict[str, Any], message: str) -> None:
    """docs/sources/interface.md: errors that name node and field."""
    with pytest.raises(SpecError, match=message) as caught:
        Network.build("net", [INPUT, node])
    assert str(caught.value).startswith("net: nodes[1]")


@pytest.mark.parametrize(
    ("node", "shape"),
    [
        (conv(), (8, 6, 6)),
        (conv(pads=1), (8, 8, 8)),
        (conv(pads=[1, 0, 0, 2], stride=[2, 3]), (8, 4, 3)),  # (9-3)//2+1, (10-3)//3+1
        (conv(dilation=2), (8, 4, 4)),  # span 5
        ({"name": "c", "op": "linear", "inputs": ["in"], "out_features": 3}, (3, 8, 8)),
        ({"name": "c", "op": "maxpool", "inputs": ["in"], "kernel": 3, "stride": 2}, (4, 3, 3)),
        (
            {"name": "c", "op": "avgpool", "inputs": ["in"], "kernel": 3, "stride": 2, "ceil_mode": True},
            (4, 4, 4),
        ),
        # 8 + 1 + 1 = 10: rounded up ceil(8 / 3) + 1 = 4 windows, the last starts at 9 >= 8 + 1: dropped
        (
            {
                "name": "c",
                "op": "maxpool",
                "inputs": ["in"],
                "kernel": 2,
                "stride": 3,
                "pads": 1,
                "ceil_mode": True,
            },
            (4, 3, 3),
        ),
        ({"name": "c", "op": "global_avgpool", "inputs": ["in"]}, (4, 1, 1)),
        ({"name": "c", "op": "flatten", "inputs": ["in"]}, (256, 1, 1)),
        ({"name": "c", "op": "concat", "inputs": ["in", "in"]}, (8, 8, 8)),
        ({"name": "c", "op": "add", "inputs": ["in", "in"]}, (4, 8, 8)),
        ({"name": "c", "op": "upsample", "inputs": ["in"], "scale": [2, 3]}, (4, 16, 24)),
        ({"name": "c", "op": "barrier", "inputs": ["in"], "shape": [5, 2, 1]}, (5, 2, 1)),
        ({"name": "c", "op": "softmax", "inputs": ["in"]}, (4, 8, 8)),
    ],
)
def test_shapes(node: dict[str, Any], shape: tuple[int, int, int]) -> None:
    """Input 4 x 8 x 8."""
    assert Network.build("net", [INPUT, node]).shapes["c"] == shape


FRAMES = INPUT | {"images": 6}


@pytest.mark.parametrize(
    ("node", "images", "shape"),
    [
        (conv(), 6, (8, 6, 6)),
        ({"op": "global_avgpool"}, 6, (4, 1, 1)),
        ({"op": "global_avgpool", "images": 2}, 2, (4, 1, 1)),
        ({"op": "flatten"}, 6, (256, 1, 1)),
        ({"op": "flatten", "images": 2}, 2, (3 * 256, 1, 1)),
        ({"op": "reduce"}, 1, (4, 8, 8)),
        ({"op": "reduce", "images": 3}, 3, (4, 8, 8)),
        ({"op": "reduce", "images": 6}, 6, (4, 1, 1)),
        ({"op": "select", "channels": 2, "images": 12}, 12, (2, 8, 8)),
        ({"op": "select", "channels": 12, "images": 2}, 2, (12, 8, 8)),
        ({"op": "take", "of_images": [[5, 6, -1], [-1, 2, 0]]}, 8, (4, 8, 8)),
        ({"op": "concat", "inputs": ["in", "in"]}, 6, (8, 8, 8)),
        ({"op": "concat", "inputs": ["in", "in"], "images": 12}, 12, (4, 8, 8)),
        ({"op": "regrid", "grid": [6 * 64, 1], "images": 1}, 1, (4, 384, 1)),
        ({"op": "regrid", "grid": [4, 2], "images": 48, "order": "windows"}, 48, (4, 4, 2)),
        ({"op": "regrid", "grid": [16, 24], "images": 1, "order": "strided"}, 1, (4, 16, 24)),
        ({"op": "barrier", "shape": [5, 2, 1], "images": 9}, 9, (5, 2, 1)),
    ],
)
def test_shapes_of_images(node: dict[str, Any], images: int, shape: tuple[int, int, int]) -> None:
    """Input 6 images of 4 x 8 x 8; docs/sources/model.md 2, the table of images."""
    found = Network.build("net", [FRAMES, {"name": "c", "inputs": ["in"]} | node]).shapes["c"]
    assert (found.images, tuple(found)) == (images, shape)


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (conv(images=3), "'c' (conv): images: must be those of its inputs, 6, got 3"),
        ({"op": "add", "inputs": ["in", "other"]}, "'c' (add): inputs: numbers of images differ: 4 and 6"),
        ({"op": "reduce", "images": 4}, "images: must divide the 6 of its input, got 4"),
        ({"op": "flatten", "images": 12}, "images: must divide the 6 of its input, got 12"),
        (
            {"op": "select", "channels": 1, "images": 4},
            "must divide the 6 of its input or be a multiple, got 4",
        ),
        ({"op": "concat", "inputs": ["in", "in"], "images": 11}, "must be those of its inputs, 6, got 11"),
        ({"op": "take", "of_images": [[0, 7, 1]]}, "of_images: the run [0, 7, 1] leaves the 6 there are"),
        ({"op": "take", "of_images": [[0, 2, 1]], "images": 3}, "must be the 2 that of_images takes, got 3"),
        ({"op": "regrid", "grid": [8, 8], "images": 5}, "5 images of 8 x 8 are not the 384 pixels"),
        ({"op": "regrid", "grid": [3, 8], "images": 16, "order": "windows"}, "does not divide"),
        (conv(images=0), "images"),
    ],
)
def test_images_that_do_not_fit(node: dict[str, Any], words: str) -> None:
    other = INPUT | {"name": "other", "images": 4}
    with pytest.raises(RramallocError) as refused:
        Network.build("net", [FRAMES, other, {"name": "c", "inputs": ["in"]} | node])
    assert words in str(refused.value)


def test_what_is_inherited_may_be_repeated() -> None:
    """The same network has the same hash and the same file, whether it repeats inherited images or not."""
    plain, repeated = (
        Network.build("net", [FRAMES, conv(), relu("r", "c") | more]) for more in ({}, {"images": 6})
    )
    assert plain.sha256 == repeated.sha256
    assert plain.to_dict() == repeated.to_dict()
    assert plain.sha256 != Network.build("net", [INPUT, conv(), relu("r", "c")]).sha256
    alone = Network.build("net", [INPUT | {"images": 1}, conv(), relu("r", "c")])
    assert alone.sha256 == Network.build("net", [INPUT, conv(), relu("r", "c")]).sha256


def test_file_order_is_kept_where_it_can_be() -> None:
    nodes = [relu("z", "b"), relu("y", "in"), INPUT, relu("b", "in"), relu("a", "in")]
    assert [node.name for node in Network.build("net", nodes).nodes] == ["in", "y", "b", "z", "a"]
    for name in shipped_names():
        network = load(name)
        again = Network.build(name, network.nodes)
        assert again.nodes == network.nodes


@given(random=randoms)
def test_order_in_the_file_changes_neither_hash_nor_canonical_order(random: Random) -> None:
    network = random_network(random, 12)
    nodes = list(network.nodes)
    random.shuffle(nodes)
    other = Network.build("another name", nodes, source="elsewhere")
    assert other.sha256 == network.sha256
    assert other.canonical_nodes == network.canonical_nodes
    assert dict(other.shapes) == dict(network.shapes)
    seen: set[str] = set()
    for node in other.canonical_nodes:
        assert seen.issuperset(node.inputs)
        seen.add(node.name)


@given(random=randoms)
def test_a_document_survives_being_read_again(random: Random) -> None:
    network = random_network(random, 12)
    again = Network.from_document(network.to_dict(), "here")
    assert again == network
    assert again.sha256 == network.sha256


@pytest.mark.parametrize(
    "change", [{"out_channels": 16}, {"stride": 2}, {"pads": [1, 1, 1, 1]}, {"name": "d"}]
)
def test_hash_depends_on_every_field(change: dict[str, Any]) -> None:
    assert (
        Network.build("net", [INPUT, conv()]).sha256 != Network.build("net", [INPUT, conv(**change)]).sha256
    )


def test_a_network_can_be_sent_to_another_process() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(attrgetter("sha256"), load("squeezenet")).result() == load("squeezenet").sha256


def test_a_recurrence_gets_its_input_projection() -> None:
    """docs/sources/model.md 11: a recurrent layer is a linear layer onto all gates and the recurrence."""
    nodes: list[dict[str, Any]] = [
        {"name": "x", "op": "input", "shape": [8, 30, 1]},
        {"name": "lstm", "op": "recurrent", "inputs": ["x"], "hidden": 20, "gates": 4},
    ]
    network = Network.build("n", nodes)
    assert [(node.name, node.op) for node in network.nodes[1:]] == [
        ("lstm/projection", "linear"), ("lstm", "recurrent"),
    ]  # fmt: skip
    assert [network.shapes[node.name] for node in network.nodes[1:]] == [(80, 30, 1), (20, 30, 1)]
    assert Network.from_document(network.to_dict(), "n").nodes == network.nodes
    with pytest.raises(NetworkError, match="T x 1 grid"):
        Network.build("n", [{**nodes[0], "shape": [80, 5, 6]}, nodes[1]])
