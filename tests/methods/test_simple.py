"""`none`, `uniform`, `proportional` and `lagrange` on cases worked by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from methods.small import conv, copies, problem, pyramid

from rramalloc.allocation.case import Case
from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.methods import lagrange, none, proportional, uniform
from rramalloc.search.problem import Held, Problem
from rramalloc.timing.published import chain_layers, published

pytestmark = pytest.mark.quick


def test_none_stores_everything_once() -> None:
    assert copies(none, pyramid([1, 2, 3], 1000)) == [1, 1, 1]
    least = np.array([2, 1, 3], dtype=np.int64)
    assert copies(none, replace(pyramid([1, 2, 3], 1000), held=Held(least))) == [2, 1, 3]


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        pytest.param(6, [1, 1, 1], id="the minimum"),
        pytest.param(11, [1, 1, 1], id="one short of two copies"),
        pytest.param(12, [2, 2, 2], id="exactly two copies"),
        pytest.param(20, [3, 3, 3], id="3 copies take 18, 4 take 24"),
        pytest.param(40, [9, 9, 4], id="the last has 4 windows: 9 + 18 + 12 = 39, 10 + 20 + 12 = 42"),
        pytest.param(10**9, [64, 16, 4], id="every window"),
    ],
)
def test_uniform(budget: int, expected: list[int]) -> None:
    assert copies(uniform, pyramid([1, 2, 3], budget)) == expected


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        pytest.param(6, [1, 1, 1], id="the minimum"),
        pytest.param(39, [24, 6, 1], id="scale 24/64: 24 + 12 + 3"),
        pytest.param(40, [25, 6, 1], id="scale 25/64: 25 + 12 + 3"),
        pytest.param(54, [32, 8, 2], id="scale 1/2: 32 + 16 + 6"),
        pytest.param(55, [33, 8, 2], id="scale 33/64: one array more"),
        pytest.param(53, [31, 7, 1], id="scale 31/64: 31 + 14 + 3; at 1/2 all three jump, to 54"),
        pytest.param(108, [64, 16, 4], id="every window: 64 + 32 + 12"),
        pytest.param(10**9, [64, 16, 4], id="more than every window"),
    ],
)
def test_proportional(budget: int, expected: list[int]) -> None:
    assert copies(proportional, pyramid([1, 2, 3], budget)) == expected


@pytest.mark.parametrize(
    ("name", "arrays", "lines", "figure"),
    [
        pytest.param("alexnet_todaes", 2048, 128, 49, id="AlexNet, 2048"),
        pytest.param("vgg11", 2048, 128, 330, id="VGG-A, 2048"),
        pytest.param("vgg11", 4096, 128, 245, id="VGG-A, 4096"),
        pytest.param("vgg19", 4096, 256, 295, id="VGG-E, 4096 of 256"),
        pytest.param("vgg19", 8192, 256, 112, id="VGG-E, 8192 of 256"),
    ],
)
def test_proportional_meets_the_published_figures(name: str, arrays: int, lines: int, figure: int) -> None:
    """docs/sources/model.md 9, column W, by the published recurrence; a finer scale than theirs can save a
    step."""
    network, hardware = load(name), load_hardware("plain").with_crossbar(lines, lines)
    found = copies(proportional, Case(network, hardware).problem(arrays))
    assert figure - 1 <= published(chain_layers(network), found).steps <= figure


def two(windows: tuple[int, int], demand: list[int], budget: int) -> Problem:
    """Two convolutions side by side, on grids of one row."""
    nodes = [
        {"name": "a", "op": "input", "shape": [1, 1, windows[0]]},
        {"name": "b", "op": "input", "shape": [1, 1, windows[1]]},
        conv("c1", "a"), conv("c2", "b"),
    ]  # fmt: skip
    return problem(1, nodes, demand, budget)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        pytest.param(two((64, 16), [1, 4], 40), [20, 5], id="d = 8x, 2x: 16x = 40 at x = 2.5"),
        pytest.param(two((64, 16), [1, 4], 43), [23, 5], id="x = 2.875: 23 + 4 * 5"),
        pytest.param(two((36, 75), [1, 3], 21), [6, 5], id="d = 6x, 5x: 21x = 21"),
        pytest.param(two((36, 75), [1, 3], 23), [8, 5], id="x = 7/6 gives 7 and 5; one array is left"),
        pytest.param(two((36, 75), [1, 3], 4), [1, 1], id="the minimum"),
        pytest.param(two((36, 75), [1, 3], 10**6), [36, 75], id="every window"),
    ],
)
def test_lagrange(case: Problem, expected: list[int]) -> None:
    assert copies(lagrange, case) == expected
