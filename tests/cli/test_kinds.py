"""Several kinds of arrays on the command line: what shows them, and what knows of one kind and says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands.sweep.tiny import rows_of
from laws.kinds import DOCUMENT, HAND, hardware
from program import run

import rramalloc
from rramalloc.errors import RramallocError, SpecError
from rramalloc.hardware.loader import as_hardware

pytestmark = pytest.mark.quick


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network, a hardware with two kinds, and an allocation on it, in the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("pair.json").write_text(json.dumps(DOCUMENT))
    Path("kinds.toml").write_text(hardware(2, 1, timing={"step_ns": 10.0}).to_toml())
    rramalloc.optimize("pair.json", hardware="kinds.toml", progress=False).save("a.json")


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    "words",
    [
        "export pair.json --allocation a.json --to mnsim",
        "optimize pair.json --hardware kinds.toml --method gain",
    ],
)
def test_what_knows_of_one_kind_says_so(words: str) -> None:
    refused = run(*words.split())
    assert refused.code == 1, refused.err
    assert "several kinds of arrays" in refused.err
    assert "Traceback" not in refused.err


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    "words",
    [
        "compare pair.json --hardware kinds.toml",
        "pareto pair.json --hardware kinds.toml --arrays small=4,large=4",
    ],
)
def test_tables_have_the_arrays_of_every_kind(words: str) -> None:
    shown = run(*words.split(), "-q", "-o", "result.json", "--figure", "figure.svg")
    assert shown.code == 0, shown.err
    assert "small 1, large 1" in shown.out
    assert run("report", "result.json", "-o", "page.html", "-q").code == 0
    assert "small 1, large 1" in Path("page.html").read_text()


@pytest.mark.usefixtures("files")
def test_an_allocation_of_kinds_is_a_start() -> None:
    begun = run("optimize", "pair.json", "--hardware", "kinds.toml", "--start", "a.json", "--work", 0, "-q")
    assert begun.code == 0, begun.err
    assert "small 1 of 2, large 1 of 1" in begun.out
    bare = {"copies": {"a": 1, "b": 1}, "kind": {"a": "small", "b": "small"}}
    with pytest.raises(SpecError, match="takes more arrays than the kinds have"):
        rramalloc.optimize(HAND, hardware="kinds.toml", start=bare)
    with pytest.raises(SpecError, match="no \\[\\[kinds\\]\\]"):
        rramalloc.optimize(HAND, 9, start=bare)


def test_one_kind_is_an_error_and_two_equal_ones_are_one_with_their_sum() -> None:
    document = hardware(2, 1).to_dict()
    with pytest.raises(RramallocError, match="a single kind is the hardware itself"):
        as_hardware(document | {"kinds": document["kinds"][:1]})
    del document["kinds"]
    alone = as_hardware(document)
    for arrays in (3, 4, 7, 12):  # by area: a layer that lies on one kind may leave arrays of the other empty
        kinds = [{"name": "one"}, {"name": "other"}]
        most = {"area_um2": 100.0 * arrays}
        two = rramalloc.optimize(HAND, hardware=document | {"kinds": kinds}, at_most=most)
        one = rramalloc.optimize(HAND, arrays, hardware=alone)
        assert (two.makespan, two.interval, two.gap) == (one.makespan, one.interval, 0.0)


@pytest.mark.usefixtures("files")
def test_a_sweep_has_points_of_kinds() -> None:
    first, second = rows_of("pair.json", hardware=["kinds.toml"], arrays=[3, "x2"], work=1)
    assert [first[name] for name in ("makespan", "used", "arrays", "minimum")] == [5, 2, 3, None]
    assert "those of kinds such as small=512" in second["error"]


@pytest.mark.usefixtures("files")
def test_size_chooses_values_of_a_kind() -> None:
    """3 steps take 2 of each, 500 um2 (docs/sources/model.md 18)."""
    choices = ("--target", 3, "--choose", "kinds.large.energy.area_um2=250,150", "-o", "chip.toml", "-q")
    sized = run("size", "pair.json", "--hardware", "kinds.toml", *choices)
    assert sized.code == 0, sized.err
    assert "500 um2" in sized.out
    again = run("optimize", "pair.json", "--hardware", "chip.toml", "-q")
    assert "4 used: small 2 of 2, large 2 of 2" in again.out
