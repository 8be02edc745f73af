"""`sdk` and `vw-sdk`: the published tables, and what they make of a network under a budget."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from laws.strategies import ALL_PIXELS, ANY, random_problem, randoms
from methods.small import chain

import rramalloc
from rramalloc.allocation.case import Case
from rramalloc.allocation.check import check_answer
from rramalloc.allocation.optimize import objective_of, propose
from rramalloc.allocation.question import Question
from rramalloc.errors import UnsupportedError
from rramalloc.hardware.loader import load_hardware
from rramalloc.mapping.demand import Storage
from rramalloc.mapping.mode import Mode
from rramalloc.mapping.modes import ArrayCount
from rramalloc.mapping.options import MappingOptions
from rramalloc.methods.registry import method_named
from rramalloc.methods.sdk import cycles, square_block
from rramalloc.methods.vw_sdk import variable_window
from rramalloc.network.network import Network
from rramalloc.search.problem import Problem
from rramalloc.search.work import Work

Layer = tuple[int, int, int, int]
"""Image, kernel, channels in and out: square, no padding, stride 1."""
RESNET18 = [(112, 7, 3, 64), (56, 3, 64, 64), (28, 3, 128, 128), (14, 3, 256, 256), (7, 3, 512, 512)]
VGG13 = [
    (224, 3, 3, 64), (224, 3, 64, 64), (112, 3, 64, 128), (112, 3, 128, 128), (56, 3, 128, 256),
    (56, 3, 256, 256), (28, 3, 256, 512), (28, 3, 512, 512), (14, 3, 512, 512), (14, 3, 512, 512),
]  # fmt: skip


def modes_of(layer: Layer, lines: int) -> Storage:
    image, kernel, inputs, outputs = layer
    nodes = [
        {"name": "input", "op": "input", "shape": [inputs, image, image]},
        {"name": "conv", "op": "conv", "inputs": ["input"], "out_channels": outputs, "kernel": kernel},
    ]
    network = Network.build("layer", nodes)
    return Storage(network.stages, None, network, load_hardware("plain").with_crossbar(lines, lines))


@pytest.mark.parametrize(
    ("layers", "lines", "im2col", "sdk", "vw_sdk"),
    [
        (
            RESNET18, 512, [11236, 5832, 2028, 720, 225], [2809, 1458, 2028, 720, 225],
            [1431, 1458, 676, 504, 225],
        ),
        (RESNET18, 256, 25560, 17133, 10287),
        (VGG13, 512, 243736, 114697, 77102),
        (VGG13, 256, 381632, 344669, 215851),
    ],
)  # fmt: skip
def test_published_tables(
    layers: list[Layer], lines: int, im2col: list[int] | int, sdk: list[int] | int, vw_sdk: list[int] | int
) -> None:
    """VW-SDK, arXiv 2112.11282, tables of cycles: docs/sources/model.md 10; a number is the total."""
    modes = [modes_of(layer, lines) for layer in layers]
    reached = (
        [cycles(each, 0, (1, 1)) for each in modes],
        [cycles(each, 0, square_block(each, 0)) for each in modes],
        [variable_window(each, 0)[1] for each in modes],
    )
    for each, published in zip(reached, (im2col, sdk, vw_sdk), strict=True):
        assert published in (each, sum(each))


def test_windows_by_hand() -> None:
    """docs/sources/model.md 10. 3 x 3, 64 -> 64 on 512 x 512: 2 x 2 has 1024 rows, 2 arrays as im2col.

    3 x 3 has 1600 rows and 576 columns, 8 arrays.
    """
    modes = modes_of((56, 3, 64, 64), 512)
    assert square_block(modes, 0) == (2, 2)
    # 2 x 2: ceil(54 / 2) ** 2 * ceil(64 / (512 // 16)) * ceil(64 / (512 // 4)) = 729 * 2 * 1
    assert variable_window(modes, 0) == ((2, 2), 1458)


@pytest.mark.parametrize("pads", [0, 1, 2, 3])
def test_windows_of_a_transposed_convolution(pads: int) -> None:
    """Blocks begin where output + pads is a multiple of the stride 2: only the first and last are cut.

    Kernel 8 over 5 x 5 pixels of one channel gives 16 - 2 pads. On 36 lines a block of 4 x 8 has
    (2 + 3) * (4 + 3) = 35 rows and 32 columns, so one array takes a step for each block there is.
    """
    nodes = [
        {"name": "input", "op": "input", "shape": [1, 5, 5]},
        {"name": "up", "op": "conv_transpose", "inputs": ["input"], "out_channels": 1,
         "kernel": 8, "stride": 2, "pads": pads},
    ]  # fmt: skip
    network = Network.build("layer", nodes)
    modes = Storage(network.stages, None, network, load_hardware("plain").with_crossbar(36, 36))
    pixels = 16 - 2 * pads + pads % 2
    sizes = [(tall, wide) for tall in range(2, 11, 2) for wide in range(2, 11, 2)]
    fitting = [(h, w) for h, w in sizes if (h // 2 + 3) * (w // 2 + 3) <= 36 >= h * w]
    assert variable_window(modes, 0)[1] == min(-(-pixels // h) * -(-pixels // w) for h, w in fitting)


@pytest.mark.parametrize("name", ["sdk", "vw-sdk"])
@settings(max_examples=30)
@given(random=randoms)
def test_every_proposal_fits(name: str, random: Random) -> None:
    """What is proposed passes the check, unchanged, for strides, dilations and groups alike."""
    case = random_problem(random, 7, 5, ANY + ALL_PIXELS, 5)
    graph = case.problem.graph
    lines = random.choice((8, 16, 64))
    modes = Storage(graph.stages, None, graph.network, load_hardware("plain").with_crossbar(lines, lines))
    demand = modes.costs(graph.modes, np.ones(len(graph.stages), dtype=np.int64))
    budget = int(demand.sum()) + random.randint(0, 40)
    problem = Problem(graph, demand, budget, modes)
    found = propose(objective_of(problem, Question(method=name)), Question(method=name), Work(work=1))
    assert not found.repaired
    checked = check_answer(problem, found, budget, name)
    assert checked.used <= budget
    alone = method_named(name).solve(problem, Work(work=1), 0)
    assert alone.lower_bound == 1


@pytest.mark.parametrize("name", ["sdk", "vw-sdk"])
def test_only_with_modes(name: str) -> None:
    with pytest.raises(UnsupportedError, match="use mapping sdk"):
        rramalloc.optimize("alexnet", "x2", method=name)


def test_copies_go_to_the_slowest_layer() -> None:
    """One 3 x 3 layer of 4 x 4 windows on 16 x 16: a 2 x 2 block is 16 rows and 4 columns, one array.

    Its 4 blocks take 2 batches with 2 copies, which takes a second array, and 1 with 4.
    """
    nodes = [
        {"name": "in", "op": "input", "shape": [1, 5, 5]},
        {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 1, "kernel": 3},
    ]
    network = Network.build("one", nodes)
    for arrays, copies, steps in ((1, 1, 4), (2, 2, 2), (3, 2, 2), (4, 4, 1)):
        found = rramalloc.optimize(network, arrays, crossbar="16x16", mapping="sdk", method="sdk")
        assert (found.blocks, found.copies, found.makespan) == ({"a": (2, 2)}, {"a": copies}, steps)


@pytest.mark.parametrize("name", ["sdk", "vw-sdk"])
def test_arrays_are_looked_up_in_proportion_to_the_layers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """5,000 layers took 37 s when every step counted the arrays of all of them."""
    looks, count = [0], Storage.count
    hardware = load_hardware("plain")
    problems = [Case(chain(n), hardware, MappingOptions(mapping="sdk")).problem(8 * n) for n in (40, 80)]

    def counted(self: Storage, stage: int, mode: Mode) -> ArrayCount:
        looks[0] += 1
        return count(self, stage, mode)

    monkeypatch.setattr(Storage, "count", counted)
    each = []
    for problem in problems:
        looks[0] = 0
        method_named(name).solve(problem, Work(), 0)
        each.append(looks[0])
    assert each[0] >= 40
    assert each[1] <= 2.2 * each[0]
