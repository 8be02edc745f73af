"""Coverage: weights and MACs on arrays, counted by hand on a small network."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from rramalloc.errors import SpecError
from rramalloc.network.coverage import Coverage, DynamicProducts
from rramalloc.network.network import Network

pytestmark = pytest.mark.quick

NODES: list[dict[str, Any]] = [
    {"name": "in", "op": "input", "shape": [4, 8, 8]},
    {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 4, "kernel": 3, "pads": 1, "groups": 2},
    {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 4, "kernel": 1},
    {"name": "c", "op": "conv", "inputs": ["b"], "out_channels": 4, "kernel": 1, "shares": "b"},
    {"name": "sum", "op": "add", "inputs": ["b", "c"]},
    {"name": "wait", "op": "barrier", "inputs": ["sum"], "shape": [4, 8, 8]},
    {"name": "pool", "op": "global_avgpool", "inputs": ["wait"]},
    {"name": "fc", "op": "linear", "inputs": ["pool"], "out_features": 10},
]
"""a: 3 * 3 * 2 * 4 = 72 weights, b and c: 4 * 4 = 16 of their own, fc: 40; all but fc on 64 pixels."""
STAGES = ("a", "b", "c")


def network(**more: Any) -> Network:
    return Network.from_document(
        {"format": "rramalloc-network/1", "name": "n", "nodes": NODES, **more}, "n.json"
    )


def test_shared_weights_count_once_and_grouped_ones_without_zeros() -> None:
    coverage = Coverage.of(network(), STAGES)
    assert Coverage.of(network(), (*STAGES, "fc")).complete
    assert not Coverage.of(network(), ("a", "b", "fc")).complete  # the weights of c are there, for b
    assert (coverage.weights.on_arrays, coverage.weights.total) == (72 + 16, 72 + 16 + 40)
    assert (coverage.macs.on_arrays, coverage.macs.total) == ((72 + 16 + 16) * 64, (72 + 16 + 16) * 64 + 40)
    assert coverage.stored_again == 16
    assert coverage.host == ("fc",)
    assert coverage.barriers == ("wait",)
    assert coverage.free_digital == ("sum", "wait", "pool")
    assert not coverage.complete


def test_products_of_computed_tensors_are_macs_and_never_on_arrays() -> None:
    """One head, 512 tokens, 64 features, four projections: 4 * 512 * 64 * 64 of all are 20 %."""
    digital = {"inputs": ["q"], "op": "mul", "dynamic_macs": 512 * 512 * 64}
    nodes: list[dict[str, Any]] = [
        {"name": "in", "op": "input", "shape": [64, 512, 1]},
        {"name": "q", "op": "linear", "inputs": ["in"], "out_features": 64},
        {"name": "a", **digital},
        {"name": "b", **digital},
        *[{"name": name, "op": "linear", "inputs": ["b"], "out_features": 64} for name in "kvo"],
    ]
    attention = Network.build("n", nodes)
    again = Network.from_document(attention.to_dict(), "again.json")
    coverage = Coverage.of(again, [stage.name for stage in again.stages])
    assert (coverage.macs.on_arrays, coverage.macs.total) == (4 * 512 * 4096, 4 * 512 * 4096 * 5)
    assert coverage.dynamic == DynamicProducts(macs=2 * 512 * 512 * 64, share=0.8, nodes=("a", "b"))
    assert coverage.summary == (
        "20 % of the MACs and 100 % of the weights on arrays; dynamic, products of computed tensors: "
        "33,554,432 MACs, 80 % of all"
    )
    assert (
        coverage.qualified("proven optimal: all timed")
        == "proven optimal for the layers on arrays: all timed"
    )
    plain = [{key: value for key, value in node.items() if key != "dynamic_macs"} for node in nodes]
    assert Network.build("n", plain).sha256 == again.sha256  # they change no time
    with pytest.raises(SpecError, match="dynamic_macs"):
        Network.build("n", [node | {"dynamic_macs": 1} for node in nodes])  # layers and inputs have none


def test_sharing_does_not_change_the_hash() -> None:
    apart = [{key: value for key, value in node.items() if key != "shares"} for node in NODES]
    assert Network.build("n", apart).sha256 == network().sha256


@pytest.mark.parametrize("seed", range(8))
def test_order_in_the_file_changes_nothing(seed: int) -> None:
    """Three classifiers side by side and two barriers, listed in any order, as are all other lists."""
    nodes = [
        *NODES,
        {"name": "wait2", "op": "barrier", "inputs": ["a"], "shape": [4, 8, 8]},
        {"name": "fc2", "op": "linear", "inputs": ["pool"], "out_features": 10},
        {"name": "fc10", "op": "linear", "inputs": ["pool"], "out_features": 10},
    ]
    lists: dict[str, list[dict[str, Any]]] = {
        "nodes": nodes,
        "unmodelled": [{"name": name, "operator": "Lost", "weights": 3} for name in ("wait", "wait2")],
        "approximations": [
            {"name": "wait2", "operator": "Lost", "treatment": "barrier"},
            {"name": "sum", "operator": "Odd", "treatment": "add"},
        ],
        "precomputed": [{"name": name, "operator": "Conv", "weights": 5} for name in ("early", "later")],
    }
    first = Coverage.of(network(**lists), STAGES)
    assert first.host == ("fc", "fc2", "fc10")
    assert first.barriers == ("wait", "wait2")
    shuffled = {name: Random(seed).sample(each, len(each)) for name, each in lists.items()}
    assert Coverage.of(network(**shuffled), STAGES) == first
