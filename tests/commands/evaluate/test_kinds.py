"""Kinds of arrays and digital units in `evaluate`: times by hand, and the proposal against all choices."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from laws.kinds import HAND, hardware

import rramalloc
from rramalloc.errors import SpecError

pytestmark = pytest.mark.quick

FAST = {"processors": 64, "storage_units": 64, "unit_bytes": 4096, "bandwidth_in_gb_s": 1e12}
UNITS = FAST | {"bandwidth_out_gb_s": 1e12}


def machine(small: int, digital: int, macs_per_ns: float) -> Any:
    """Arrays of 16 x 16, a step of 10 ns, and digital units."""
    unit = {"name": "unit", "arrays": digital, "processor": {"macs_per_ns": macs_per_ns}}
    kinds = [{"name": "small", "arrays": small}, unit]
    timing = {"step_ns": 10.0, "clock": "own", "tick_ns": 1.0}
    return hardware(None, None, areas=False, timing=timing, units=UNITS, kinds=kinds)


def test_an_allocation_is_timed_on_its_kinds() -> None:
    """a: 2 copies of 4 windows in 10 ns each: 20 ns. b: 4 * 16 * 32 products at 64 a ns: 32 ns."""
    given = {"copies": {"a": 2, "b": 1}, "kind": {"a": "small", "b": "unit"}}
    found = rramalloc.evaluate(HAND, machine(3, 1, 64.0), allocations=given)
    assert found.performance_ns[:, 0].tolist() == pytest.approx([20.0, 32.0])
    with pytest.raises(SpecError, match="takes 2 of kind 'unit', the chip has 1"):
        rramalloc.evaluate(
            HAND, machine(3, 1, 64.0), allocations=given | {"kind": {"a": "unit", "b": "small"}}
        )


def test_units_of_a_table_have_no_kind() -> None:
    with pytest.raises(SpecError, match="have no kind"):
        rramalloc.evaluate(HAND, machine(3, 1, 64.0), units=(4, 4))


@pytest.mark.parametrize("numbers", [(3, 1, 64.0), (8, 2, 16.0), (2, 2, 40.0), (5, 1, 25.0)])
def test_the_proposal_is_the_best_of_all_kinds_and_copies(
    numbers: tuple[int, int, float], tmp_path: Path
) -> None:
    """All kinds and copies of both layers: a takes 1 array or unit a copy, b 2 arrays or 1 unit."""
    small, digital, macs_per_ns = numbers
    needs = {("a", "small"): 1, ("b", "small"): 2, ("a", "unit"): 1, ("b", "unit"): 1}
    whole_ns = {"a": 1024 / macs_per_ns, "b": 2048 / macs_per_ns}
    best = math.inf
    for kinds in product(("small", "unit"), repeat=2):
        for copies in product(range(1, 5), repeat=2):
            each = list(zip("ab", kinds, copies, strict=True))
            used = {kind: sum(needs[a, k] * d for a, k, d in each if k == kind) for kind in ("small", "unit")}
            if used["small"] > small or used["unit"] > digital or sum(used.values()) > 6:
                continue
            parts = [(layer, kind, -(-4 // count)) for layer, kind, count in each]
            times = [10 * n if kind == "small" else whole_ns[layer] * n / 4 for layer, kind, n in parts]
            best = min(best, sum(times))
    found = rramalloc.evaluate(HAND, machine(*numbers), arrays=6)
    assert found.document.proposal is not None
    assert found.document.proposal.time_ns == pytest.approx(best)
    found.save_proposal(tmp_path / "copies.json")
    assert {*json.loads((tmp_path / "copies.json").read_text())} == {"copies", "kind"}
    again = rramalloc.evaluate(HAND, machine(*numbers), allocations=str(tmp_path / "copies.json"))
    assert sum(again.performance_ns[:, 0].tolist()) == pytest.approx(best)
