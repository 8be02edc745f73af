"""Specs and grids: the product of the lists, in a fixed order, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rramalloc.choices import DEFAULT_WORK
from rramalloc.commands.sweep import spec as module
from rramalloc.commands.sweep.spec import LISTS, Spec, read_sources, read_spec
from rramalloc.errors import FileError, RramallocError, SpecError
from rramalloc.methods.registry import method_names

LEAST: dict[str, Any] = {"networks": ["alexnet"], "arrays": [400]}


def spec(**lists: Any) -> Spec:
    return read_spec(LEAST | lists)[0]


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    def some(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
        return st.lists(values, min_size=1, max_size=4, unique=True)

    lists = {
        "networks": draw(some(st.sampled_from("abcdef"))),
        "arrays": draw(some(st.one_of(st.integers(1, 9), st.sampled_from(["x1", "x1.5", "x2"])))),
        "crossbars": draw(some(st.sampled_from(["64x64", "128x128", "128x64"]))),
        "cell_bits": draw(some(st.integers(1, 16))),
        "methods": draw(some(st.sampled_from(method_names()))),
        "mappings": draw(some(st.sampled_from(["im2col", "kernel_split", "whole_kernel"]))),
        "seeds": draw(some(st.integers(0, 2**63 - 1))),
    }
    shown = {name: values for name, values in lists.items() if name in LEAST or draw(st.booleans())}
    equal = [name for name in shown if len(shown[name]) == len(shown["networks"])]
    return shown | ({"zip": [equal]} if len(equal) > 1 and draw(st.booleans()) else {})


@given(specs())
def test_a_grid_is_the_product_of_its_groups(lists: dict[str, Any]) -> None:
    checked = spec(**lists)
    points = list(checked.points())
    tied = set().union(*lists.get("zip", []))
    factors = [len(values) for name, values in lists.items() if name in LISTS and name not in tied]
    assert len(points) == checked.size
    assert checked.size == math.prod(factors) * (len(lists["networks"]) if tied else 1)
    assert len(set(points)) == checked.size
    assert points[-1] == checked.point(checked.size - 1)
    with pytest.raises(IndexError):
        checked.point(checked.size)


def test_golden_order() -> None:
    """Networks vary slowest, then crossbars, arrays, methods; worked out by hand."""
    checked = spec(
        networks=["a", "b"], crossbars=["64x64", "128X128"], arrays=[5, "x2"], methods=["auto", "none"]
    )
    told = [(p.network, p.crossbar, p.arrays, p.method) for p in checked.points()]
    assert told[:5] == [
        (0, "64x64", 5, "auto"),
        (0, "64x64", 5, "none"),
        (0, "64x64", "x2", "auto"),
        (0, "64x64", "x2", "none"),
        (0, "128x128", 5, "auto"),
    ]
    assert told[-1] == (1, "128x128", "x2", "none")
    assert checked.describe_size() == "16 points: 2 networks x 2 crossbars x 2 arrays x 2 methods"


def test_golden_zip() -> None:
    """Tied lists advance together, in the place of the first of them."""
    checked = spec(networks=["a", "b"], arrays=[5, 7], methods=["auto", "none"], zip=[["arrays", "networks"]])
    told = [(p.network, p.arrays, p.method) for p in checked.points()]
    assert told == [(0, 5, "auto"), (0, 5, "none"), (1, 7, "auto"), (1, 7, "none")]
    assert checked.describe_size() == "4 points: 2 (networks, arrays) x 2 methods"


def test_one_value_stands_for_a_list() -> None:
    assert spec(networks="alexnet", arrays="x2", seeds=3, methods="none").size == 1
    assert spec().describe_size() == "1 point"


def test_the_default_work_is_that_of_a_search() -> None:
    assert spec().work == module.DEFAULT_WORK == DEFAULT_WORK


@pytest.mark.parametrize(
    ("lists", "told"),
    [
        pytest.param({"networks": []}, "networks", id="empty list"),
        pytest.param({"arrays": [0]}, "arrays[0]", id="no arrays"),
        pytest.param({"arrays": [True]}, "arrays[0]", id="a truth value"),
        pytest.param({"arrays": [2**40 + 1]}, "arrays[0]", id="too many arrays"),
        pytest.param({"arrays": [1.5]}, "arrays[0]", id="half an array"),
        pytest.param({"arrays": ["x0.5"]}, "arrays[0]", id="less than the minimum"),
        pytest.param({"arrays": ["2x"]}, "arrays[0]", id="multiple the wrong way round"),
        pytest.param({"arrays": ["x2", "x2.0"]}, "stands twice", id="the same multiple"),
        pytest.param({"arrays": [[4]]}, "arrays[0]", id="list in a list"),
        pytest.param({"networks": ["a", "a"]}, "'a' stands twice", id="twice"),
        pytest.param({"networks": [""]}, "networks[0]", id="empty name"),
        pytest.param({"networks": [3]}, "networks[0]", id="number as network"),
        pytest.param({"crossbars": ["128"]}, "crossbars[0]", id="one size only"),
        pytest.param({"crossbars": ["0x1"]}, "crossbars[0]", id="no wordlines"),
        pytest.param({"crossbars": ["64x64", "064x64"]}, "stands twice", id="the same crossbar"),
        pytest.param({"methods": ["best"]}, "methods[0]: is no method; known: auto", id="unknown method"),
        pytest.param({"methods": [["auto"]]}, "methods[0]", id="list as method"),
        pytest.param({"objectives": ["arrays"]}, "objectives[0]", id="objective with a target"),
        pytest.param({"mappings": ["diagonal"]}, "mappings[0]", id="unknown mapping"),
        pytest.param({"cell_bits": [0]}, "cell_bits[0]", id="no bits"),
        pytest.param({"bandwidths_gb_s": [0]}, "bandwidths_gb_s[0]", id="no bandwidth"),
        pytest.param({"bandwidths_gb_s": [float("nan")]}, "bandwidths_gb_s[0]", id="not a number"),
        pytest.param({"seeds": [-1]}, "seeds[0]", id="negative seed"),
        pytest.param({"seeds": [2**63]}, "seeds[0]", id="seed of 64 bits"),
        pytest.param({"work": -1}, "work", id="negative work"),
        pytest.param({"work": [1, 2]}, "work", id="list of works"),
        pytest.param({"network": ["a"]}, "network: this field is not known", id="unknown key"),
        pytest.param({"zip": ["networks", "arrays"]}, "at least two lists", id="group without brackets"),
        pytest.param({"zip": [["networks", "colour"]]}, "'colour' is no list", id="unknown list"),
        pytest.param({"zip": [["networks", "work"]]}, "'work' is no list", id="not a list"),
        pytest.param({"zip": [["networks", "seeds"]]}, "'seeds' is not given", id="tied to a default"),
        pytest.param({"zip": [["networks", "networks"]]}, "stands twice", id="tied to itself"),
        pytest.param(
            {"seeds": [1], "zip": [["networks", "arrays"], ["seeds", "arrays"]]},
            "stands twice",
            id="two groups",
        ),
        pytest.param(
            {"arrays": [1, 2], "zip": [["networks", "arrays"]]}, "networks has 1, arrays has 2", id="unequal"
        ),
        pytest.param(
            {"arrays": list(range(1, 4001)), "seeds": list(range(4001))},
            "16004000 points",
            id="too many points",
        ),
    ],
)
def test_refused(lists: dict[str, Any], told: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec(**lists)
    assert str(caught.value).startswith("sweep: ")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("networks = [", FileError, id="no TOML"),
        pytest.param("", SpecError, id="empty"),
        pytest.param('networks = "alexnet"', SpecError, id="no arrays"),
        pytest.param("networks = 2026-11-21\narrays = 1", SpecError, id="a date"),
        pytest.param("arrays = 1\n[networks]\na = 1", SpecError, id="a table"),
        pytest.param('networks = "a"\narrays = ' + "[" * 5000, FileError, id="deep"),
        pytest.param('networks = "a"\narrays = 1' + "0" * 5000, RramallocError, id="huge integer"),
    ],
)
def test_hostile_toml(text: str, error: type[Exception], tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    path.write_text(text)
    with pytest.raises(error, match=r"spec\.toml"):
        read_spec(path)


@pytest.mark.parametrize(
    ("lists", "told"),
    [
        pytest.param({"networks": ["vgg61"]}, "sweep: networks[0]: no file or shipped network", id="unknown"),
        pytest.param(
            {"networks": ["alexnet", "gone/a.json"]}, "networks[1]: gone/a.json: no such", id="gone"
        ),
        pytest.param({"networks": ["alexnet", "alexnet.json"]}, "networks[1]: is the same as", id="the same"),
        pytest.param({"hardware": ["isac"]}, "hardware[0]: no file or hardware preset", id="no hardware"),
        pytest.param({"bandwidths_gb_s": [1]}, "'plain' has no [memory]", id="no memory to change"),
    ],
)
def test_refused_sources(lists: dict[str, Any], told: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_sources(spec(**lists), "sweep", "")
    assert told in str(caught.value)
