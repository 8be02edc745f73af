"""Costs of arrays: areas of kinds are neither arrays nor held against limits of arrays."""

from __future__ import annotations

import pytest
from laws.kinds import HAND, hardware

import rramalloc
from rramalloc.errors import InfeasibleError, LimitError, SpecError, TargetError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import as_hardware


def _by_area(times: float) -> Hardware:
    """Any number of arrays of 16 x 16 with 100 um2 and of 32 x 32 with 150 um2, so many times as large."""
    document = hardware(None, None, timing={"step_ns": 10.0}).to_dict()
    document["energy"]["area_um2"] *= times
    document["kinds"][1]["energy"]["area_um2"] *= times
    return as_hardware(document)


@pytest.mark.quick
@pytest.mark.parametrize("times", [1.0, 1e4, 1e6])
def test_areas_are_not_arrays(times: float) -> None:
    """With arrays of any area the same allocations (docs/sources/model.md 18): 5 steps take a small array and
    a large one, 3 steps two of each, 2 steps four of each.
    """
    machine = _by_area(times)
    goal = {"network": HAND, "target_throughput": 10e6}
    sized = rramalloc.size({"networks": [goal], "hardware": machine})
    assert (sized.cost, sized.lower_bound, sized.chip.arrays) == (250 * times, 250 * times, 2)
    fastest = rramalloc.optimize(HAND, hardware=machine, target=2, progress=False)
    assert (fastest.objective_value, fastest.gap) == (1000 * times, 0.0)
    with pytest.raises(TargetError) as short:
        rramalloc.optimize(HAND, 3, hardware=machine, target=3, progress=False)
    assert (short.value.need, short.value.remedy) == (4, "--arrays 4")
    with pytest.raises(LimitError) as slow:
        rramalloc.optimize(HAND, 3, hardware=machine, at_most={"latency_ns": 30.0}, progress=False)
    assert list(slow.value.remedies)[-1] == "--arrays 4"
    with pytest.raises(LimitError) as large:
        rramalloc.optimize(HAND, hardware=machine, at_most={"area_um2": 249 * times}, progress=False)
    assert large.value.least == 250 * times
    held = {"copies": {"a": "3.."}, "copies_divide": "windows"}  # 4, of 100 or of 150
    divided = rramalloc.optimize(HAND, hardware=machine, target=5, progress=False, **held)
    assert divided.objective_value == 550 * times
    explained = rramalloc.explain(HAND, 2, hardware=machine, speedup=5 / 3)
    assert explained.speedup is not None
    assert explained.speedup.point is not None
    assert explained.speedup.point.area_um2 == 500 * times


@pytest.mark.quick
def test_a_kind_without_area_and_too_large_ones_are_refused() -> None:
    with pytest.raises(SpecError, match="an array of 'small' has no area"):
        _by_area(0.0)
    with pytest.raises(TargetError, match="more arrays were not tried"):  # 10,000 mm2 would do
        rramalloc.optimize(HAND, hardware=_by_area(1e7), target=2, progress=False)
    with pytest.raises(
        InfeasibleError, match="the bound is 3, within the 9,007 mm2 that are counted at most"
    ):
        rramalloc.size({"networks": [{"network": HAND, "target": 2}], "hardware": _by_area(1e7)})
    with pytest.raises(SpecError, match=r"every layer once takes .* mm2 or more, no more than 9,007"):
        rramalloc.optimize(HAND, hardware=_by_area(1e9), target=5, progress=False)
    with pytest.raises(SpecError, match=r"no choice of a kind .* limits: 1 arrays of all kinds: raise"):
        rramalloc.optimize(HAND, 1, hardware=_by_area(1e4), progress=False)
