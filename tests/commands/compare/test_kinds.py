"""Methods on several kinds of arrays: the baselines by hand, and every row within the arrays there are."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from laws.kinds import HAND, KindsCase, hardware

import rramalloc
from rramalloc.commands.compare.comparison import Comparison
from rramalloc.errors import SpecError
from rramalloc.network.network import Network

pytestmark = pytest.mark.quick


def _rows(found: Comparison) -> dict[str, tuple[int, dict[str, int] | None]]:
    return {row.method: (row.makespan, row.by_kind) for row in found.rows}


def test_baselines_by_hand() -> None:
    """3 small, 2 large: a twice on small, b twice on large take 3 steps. Each kind alone holds them once, 5
    steps, and so does the fullest one: b fills two small arrays, and half of a large one.
    """
    found = rramalloc.compare(HAND, {"small": 3, "large": 2}, hardware=hardware(9, 9))
    rows = _rows(found)
    assert rows["auto"] == (3, {"small": 2, "large": 2})
    assert rows["single-kind"] == (5, {"small": 3, "large": 0})
    assert rows["fullest-kind"] == (5, {"small": 3, "large": 0})
    (note,) = [words for words in found.warnings if "not compared" in words]
    assert "gain" in note
    assert "single-kind" not in note


def test_the_fullest_kind_feeds_the_slowest_layer() -> None:
    """7 small: a and b once take 3, a again 1, b again 2, and the last one goes to a, the first of equals."""
    found = rramalloc.optimize(HAND, {"small": 7, "large": 9}, hardware=hardware(9, 9), method="fullest-kind")
    assert found.copies == {"a": 3, "b": 2}
    assert {layer.kind for layer in found.layers} == {"small"}


def test_bottleneck_begins_with_the_cheapest_kinds() -> None:
    """2 small of 100 um2, 2 large of 150: a is cheapest on small, b on one large; then each gets a copy."""
    found = rramalloc.optimize(HAND, hardware=hardware(2, 2), method="bottleneck")
    assert found.makespan == 3
    assert [(layer.kind, layer.copies) for layer in found.layers] == [("small", 2), ("large", 2)]


def test_a_baseline_that_finds_nothing_says_why() -> None:
    found = rramalloc.compare(HAND, hardware=hardware(2, 1), methods=["auto", "fullest-kind", "gain"])
    reasons = {left.method: left.reason for left in found.skipped}
    assert "takes more than there is: small 3, large 0" in reasons["fullest-kind"]
    assert "several kinds of arrays, which method 'gain' does not take" in reasons["gain"]
    with pytest.raises(SpecError, match="a hardware with kinds has no minimum"):
        rramalloc.compare(HAND, "x2", hardware=hardware(2, 1))


@pytest.mark.parametrize("seed", range(5))
def test_no_method_is_better_than_the_best_of_all(seed: int) -> None:
    case = KindsCase.drawn(Random(seed))
    best = min(found.makespan for _, found in case.allocations())
    found = rramalloc.compare(case.network, hardware=case.hardware, work=5)
    rows = _rows(found)
    assert rows["auto"][0] == best
    numbers = {kind.name: kind.arrays or 0 for kind in case.hardware.kinds or ()}
    for row in found.rows:
        assert row.lower_bound <= row.objective_value
        again = rramalloc.simulate(case.network, row.allocation, hardware=case.hardware)
        assert (again.makespan, again.arrays) == (row.makespan, row.used)
        assert all(count <= numbers[name] for name, count in (row.by_kind or {}).items())
    alone = []
    for _, other in case.allocations():
        kinds = {layer.kind for layer in other.layers}
        alone += [other.makespan] if len(kinds) == 1 else []
    if "single-kind" in rows:
        assert rows["single-kind"][0] == min(alone)
    else:
        assert not alone


def test_a_method_proves_what_auto_proves_with_as_much_work() -> None:
    """The bound of a baseline's energy takes no more work than a run is allowed."""
    energy = {"area_um2": 100.0, "read_pj": 2.0, "leakage_mw": 0.1}
    machine = hardware(60, 30, timing={"step_ns": 10.0}, energy=energy).to_dict()
    machine["kinds"][1]["energy"] = {"area_um2": 300.0, "read_pj": 5.0, "leakage_mw": 0.3}
    nodes: list[dict[str, Any]] = [{"name": "in", "op": "input", "shape": [16, 8, 8]}]
    for number, channels in enumerate((16, 32, 32)):
        source = nodes[-1]["name"]
        node = {"name": f"c{number}", "op": "conv", "inputs": [source], "out_channels": channels, "kernel": 1}
        nodes.append(node)
    chain = Network.build("chain", nodes)
    asked: dict[str, Any] = {"hardware": machine, "objective": "energy", "work": 1, "progress": False}
    bound = rramalloc.optimize(chain, **asked).lower_bound
    (row,) = rramalloc.compare(chain, methods=["bottleneck"], **asked).rows
    assert row.lower_bound == bound
