"""Specs and grids: the product of the lists, in a fixed order, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rramalloc.commands.sweep.spec import LISTS, Grid, Spec, read_spec
from rramalloc.errors import FileError, SpecError
from rramalloc.methods.registry import method_names

pytestmark = pytest.mark.quick

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
    points = [tuple(checked.axes.places(number).values()) for number in range(checked.size)]
    tied = set().union(*lists.get("zip", []))
    factors = [len(values) for name, values in lists.items() if name in LISTS and name not in tied]
    assert checked.size == math.prod(factors) * (len(lists["networks"]) if tied else 1)
    assert len(set(points)) == checked.size
    assert points[-1] == tuple(len(values) - 1 for values in checked.axes.lists.values())


@pytest.mark.parametrize(
    ("lists", "told"),
    [
        ({"networks": []}, "networks"),
        ({"arrays": [True]}, "arrays[0]"),
        ({"arrays": [2**40 + 1]}, "arrays[0]"),
        ({"arrays": ["2x"]}, "arrays[0]"),
        ({"arrays": ["x2", "x2.0"]}, "stands twice"),
        ({"networks": ["a", "a"]}, "'a' stands twice"),
        ({"crossbars": ["128"]}, "crossbars[0]"),
        ({"crossbars": ["64x64", "064x64"]}, "stands twice"),
        ({"methods": ["best"]}, "methods[0]: is no method; known: auto"),
        ({"objectives": ["arrays"]}, "objectives[0]"),
        ({"bandwidths_gb_s": [float("nan")]}, "bandwidths_gb_s[0]"),
        ({"seeds": [2**63]}, "seeds[0]"),
        ({"work": [1, 2]}, "work"),
        ({"network": ["a"]}, "network: this field is not known"),
        ({"zip": ["networks", "arrays"]}, "at least two lists"),
        ({"zip": [["networks", "colour"]]}, "'colour' is no list"),
        ({"zip": [["networks", "seeds"]]}, "'seeds' is not given"),
        ({"seeds": [1], "zip": [["networks", "arrays"], ["seeds", "arrays"]]}, "stands twice"),
        ({"arrays": [1, 2], "zip": [["networks", "arrays"]]}, "networks has 1, arrays has 2"),
        ({"arrays": list(range(1, 4001)), "seeds": list(range(4001))}, "16004000 points"),
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
        ("networks = [", FileError),
        ('networks = "alexnet"', SpecError),
        ("networks = 2026-11-21\narrays = 1", FileError),
        ('networks = "a"\narrays = ' + "[" * 5000, FileError),
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
        ({"networks": ["vgg61"]}, "sweep: networks[0]: no file or shipped network"),
        ({"networks": ["alexnet", "gone/a.json"]}, "networks[1]: gone/a.json: no such"),
        ({"networks": ["alexnet", "alexnet.json"]}, "networks[1]: is the same as"),
        ({"hardware": ["isac"]}, "hardware[0]: no file or hardware preset"),
        ({"bandwidths_gb_s": [1]}, "hardware 'plain': memory.reuse: this field is missing"),
    ],
)
def test_refused_sources(lists: dict[str, Any], told: str) -> None:
    with pytest.raises(SpecError) as caught:
        Grid.read(spec(**lists), "sweep", "")
    assert told in str(caught.value)
