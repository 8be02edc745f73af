"""The published recurrence and the published figures (docs/sources/model.md 5 and 9)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from laws.strategies import randoms

from rramalloc.errors import UnsupportedError
from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.mapping.demand import demands
from rramalloc.network.network import Network
from rramalloc.timing.published import ChainLayer, chain_layers, published
from rramalloc.timing.simulate import simulate
from rramalloc.timing.stage_graph import StageGraph

pytestmark = pytest.mark.quick

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "published.json").read_text())


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: f"{case['network']}-{case['arrays_128']}")
def test_latency_of_an_independent_program(case: dict[str, Any]) -> None:
    network = load(case["network"])
    terms = published(chain_layers(network), case["copies"])
    assert terms.op[-1] == terms.steps == case["op"]
    graph = StageGraph.build(network)
    demand = dict(zip(graph.names, demands(network, graph.stages, load_hardware("plain")), strict=True))
    names = [layer.name for layer in chain_layers(network)]
    used = sum(d * demand[name] for d, name in zip(case["copies"], names, strict=True))
    assert used == case["arrays_128"]


@pytest.mark.parametrize("name", GOLDEN["networks"])
def test_layer_table(name: str) -> None:
    table, network = GOLDEN["networks"][name], load(name)
    layers = chain_layers(network)
    columns = {"Wo": "w_out", "Kc": "k", "Kp": "k_pool", "Sc": "s", "Sp": "s_pool", "Pc": "p", "Pp": "p_pool"}
    assert {key: [getattr(layer, field) for layer in layers] for key, field in columns.items()} == {
        key: table[key] for key in columns
    }
    assert [layer.h_out for layer in layers] == table["Wo"]
    stages = {stage.name: stage for stage in network.stages}
    assert [network.input_shape(stages[layer.name]).channels for layer in layers] == table["Ci"]
    assert [network.shapes[layer.name].channels for layer in layers] == table["Co"]


@pytest.mark.parametrize(
    ("arrays", "lines", "copies", "figure", "recurrence", "exact"),
    [
        (512, 128, 2, 1556.5, 1561, 1562),
        (512, 256, 7, 447.2, 447, 447),
        (1024, 128, 4, 783.6, 783, 783),
        (1024, 256, 14, 224.2, 224, 224),
        (2048, 128, 8, 391.1, 392, 392),
        (2048, 256, 28, 114.3, 114, 114),
    ],
)
def test_published_bars_of_equal_copies(
    arrays: int, lines: int, copies: int, figure: float, recurrence: int, exact: int
) -> None:
    """docs/sources/model.md 9, last paragraph; `copies` is the most that fits the arrays."""
    network = load("alexnet_todaes")
    graph = StageGraph.build(network)
    hardware = load_hardware("plain").with_crossbar(lines, lines)
    least = sum(demands(network, graph.stages, hardware))
    assert copies == arrays // least
    each = [copies] * len(graph.stages)
    steps = published(chain_layers(network), each).steps
    same = simulate(graph, each, "same").makespan
    assert (steps, same) == (recurrence, exact)
    assert steps == pytest.approx(figure, rel=0.01)
    assert same == pytest.approx(figure, rel=0.01)


@pytest.mark.parametrize(
    ("name", "copies", "arrays"),
    [("alexnet_todaes", [106, 21, 7, 6, 6], 2304), ("vgg11", [200, 50, 13, 13, 4, 4, 1, 1], 2304)],
)
def test_published_allocations_fit_their_budget(name: str, copies: list[int], arrays: int) -> None:
    network = load(name)
    graph = StageGraph.build(network)
    demand = demands(network, graph.stages, load_hardware("plain"))
    used = sum(d * each for d, each in zip(copies, demand, strict=True))
    assert used <= arrays
    exact = simulate(graph, copies, "same").makespan
    assert published(chain_layers(network), copies).steps == pytest.approx(exact, rel=0.15)


def test_two_layers_by_hand() -> None:
    """5 x 5 layers, kernel 3, padding 1, one copy of the first and two of the second.

    NormalOp 25, ceil(25 / 2) = 13. interval(2, 1): n = 2: row 1, col 2; Wp = (5 - 1 + 0) // 1 + 1 = 5;
    prow = 0 + 3 - 1 = 2, pcol = min(1 + 3 - 1, 5) = 3; crow = 1 + 1 = 2, ccol = min(1 + 2, 5) = 3;
    ceil((1 * 5 + 3) / 1) - 1 = 7 = PreOp_2. Tail_2 = ceil(5 * 1 / 2) = 3.
    Op_2 = max(13 + 7, 25 + 3) = 28.
    """
    layers = [ChainLayer(name=name, w_out=5, h_out=5, k=3, s=1, p=1) for name in "ab"]
    terms = published(layers, [1, 2])
    every = [list(term) for term in (terms.normal_op, terms.pre_op, terms.tail, terms.op)]
    assert every == [[25, 13], [0, 7], [5, 3], [25, 28]]


def pre_op(layers: Sequence[ChainLayer], d: Sequence[int]) -> list[int]:
    """PreOp word for word as docs/sources/model.md 5 has it."""
    waits: list[int] = []
    for i in range(len(layers)):
        n, wait = d[i], []
        for j in range(i, 0, -1):
            own, before = layers[j], layers[j - 1]
            row = -(-n // own.w_out)
            col = n - (row - 1) * own.w_out
            wide = (before.w_out - before.k_pool + 2 * before.p_pool) // before.s_pool + 1
            prow, pcol = (row - 1) * own.s + own.k - own.p, min((col - 1) * own.s + own.k - own.p, wide)
            crow = before.k_pool + before.s_pool * (prow - 1) - before.p_pool
            ccol = min(before.k_pool + before.s_pool * (pcol - 1) - before.p_pool, before.w_out)
            batches = -(-((crow - 1) * before.w_out + ccol) // d[j - 1])
            wait.append(batches - 1 + waits[j - 1])
            n = batches * d[j - 1]
        waits.append(max(wait, default=0))
    return waits


@given(random=randoms)
def test_any_chain_against_the_definition(random: Random) -> None:
    """Also where padding is as large as the kernel, and waits are negative."""
    layers = [
        ChainLayer(
            name=f"c{i}", w_out=random.randint(1, 20), h_out=random.randint(1, 20), k=random.randint(1, 7),
            s=random.randint(1, 3), p=random.randint(0, 4), k_pool=random.randint(1, 3),
            s_pool=random.randint(1, 3), p_pool=random.randint(0, 1),
        )
        for i in range(random.randint(1, 8))
    ]  # fmt: skip
    copies = [random.randint(1, layer.w_out * layer.h_out) for layer in layers]
    assert list(published(layers, copies).pre_op) == pre_op(layers, copies)


def test_pixels_beyond_all_numbers_are_refused() -> None:
    """Each layer of stride 2 on a single pixel asks for twice the rows: 2^199 of the first one."""
    layers = [ChainLayer(name=f"c{i}", w_out=1, h_out=1, k=3, s=2, p=1) for i in range(200)]
    with pytest.raises(UnsupportedError, match="does not clamp rows"):
        published(layers, [1] * 200)


@pytest.mark.parametrize("name", ["resnet18", "squeezenet", "unet", "vit_b16"])
def test_other_than_chains_are_refused(name: str) -> None:
    with pytest.raises(UnsupportedError, match="chain"):
        chain_layers(load(name))


def test_uneven_kernels_are_refused() -> None:
    nodes = [
        {"name": "in", "op": "input", "shape": [1, 4, 4]},
        {"name": "c", "op": "conv", "inputs": ["in"], "out_channels": 1, "kernel": [1, 3]},
    ]
    with pytest.raises(UnsupportedError, match=r"'c'.*square"):
        chain_layers(Network.build("uneven", nodes))
