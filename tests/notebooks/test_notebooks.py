"""The example notebooks run, with hardly any search, and come to what follows by hand whatever they find."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from notebooks.kernel import NOTEBOOKS, read, run, tidy

OWN_MODEL = """
import json
print(json.dumps({
    "arrays_per_copy": [layer.arrays_per_copy for layer in inspection.layers],
    "once": once.makespan,
    "makespan": [allocation.makespan, simulation.makespan, allocation.lower_bound],
    "arrays": [allocation.arrays.used, len(placement.arrays), verification.arrays],
    "verdict": verification.verdict,
    "rows": len(open("own_model_tables/placement.csv").readlines()) - 1,
    "saved": rramalloc.simulate(net, "own_model_allocation.json").makespan,
}))
"""
DESIGN_SPACE = """
import json
print(json.dumps({
    "minimum": minimum,
    "ratios": [row.ratio for row in comparison.rows],
    "none": [row.makespan for row in comparison.rows if row.method == "none"],
    "budgets": comparison.budgets,
    "first": [front.points[0].arrays, front.points[0].makespan, front.points[0].interval],
    "knee": knee,
    "points": [[point.arrays, point.makespan, point.lower_bound] for point in front.points],
    "crossbars": designs.reset_index()[["crossbar", "arrays", "makespan", "lower_bound"]].values.tolist(),
    "fold": [fold.arrays_before, fold.arrays_after],
    "speeds": [plain.makespan, folded.makespan],
}))
"""
SIZE_A_CHIP = """
import json
areas = [own["energy.area_um2"] for own in arrays]
print(json.dumps({
    "designs": designs.values.tolist(),
    "cost": sizing.cost,
    "status": sizing.status,
    "candidates": [[own.cost_at_least, own.arrays[0] * area, own.why]
                   for own, area in zip(sizing.candidates, areas, strict=True)],
    "chip": [chip.arrays, chip.hardware.energy.area_um2, chip.area_um2],
    "allocation": sizing.networks[0].allocation.throughput_per_s,
    "points": [[point.area_um2, point.latency_ns, point.lower_bound] for point in front.points],
    "half": [half.area_um2, half.latency_ns],
}))
"""


SMALLER = {"resnet18": "alexnet", "jobs=2": "jobs=1"}
"""What is replaced in a notebook besides the work."""


def outcome(name: str, last: str, folder: Path, kernel: Any) -> tuple[Any, Any]:
    """The executed notebook without its last cell, added here, and what that cell printed."""
    from nbformat.v4 import new_code_cell

    notebook = read(NOTEBOOKS / f"{name}.ipynb")
    stored = [kinds(cell) for cell in notebook.cells]
    for cell in notebook.cells:
        cell.source = re.sub(r'(work=|"work": )\d+', r"\g<1>1", cell.source)
        for large, small in SMALLER.items():
            cell.source = cell.source.replace(large, small)
    notebook.cells.append(new_code_cell(last))
    executed = tidy(run(notebook, folder, kernel=kernel))
    found = json.loads(executed.cells.pop().outputs[0]["text"])
    assert [kinds(cell) for cell in executed.cells] == stored, "what the notebook shows is of the same kinds"
    return executed, found


def kinds(cell: Any) -> list[str]:
    """What a cell shows: texts, HTML and pictures."""
    return [kind for output in cell.get("outputs", ()) for kind in sorted(output.get("data", {"text": ""}))]


def pictures(notebook: Any) -> int:
    made = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return sum("image/svg+xml" in output.get("data", {}) for output in made)


def test_own_model(kernel: Any, tmp_path: Path) -> None:
    """By docs/sources/model.md 3 and 4.

    27 x 128 cells take one array of 128 x 128, 144 x 256 two by two, 288 x 256 three by two. One copy of
    each: conv1 ends at step 1024. The last pixel of pool1 is needed by the last two windows of row 14 of
    conv2, then come the 16 of row 15: 1042. The same 18 windows of conv3 follow: 1060.
    """
    executed, found = outcome("own_model", OWN_MODEL, tmp_path, kernel)
    assert found["arrays_per_copy"] == [1, 4, 6]
    assert found["once"] == 1060
    assert len({*found["makespan"], found["saved"]}) == 1
    assert len({*found["arrays"], found["rows"]}) == 1
    assert found["arrays"][0] <= 300
    assert found["verdict"] == "equal"
    assert pictures(executed) == 3


def test_design_space(kernel: Any, tmp_path: Path) -> None:
    """One copy of each: inputs follow each other at the 111 x 111 windows of the first layer."""
    executed, found = outcome("design_space", DESIGN_SPACE, tmp_path, kernel)
    assert found["budgets"] == [2 * found["minimum"], 512]
    assert min(found["ratios"]) == 1
    assert set(found["none"]) == {found["first"][1]}, "the front begins with every layer stored once"
    assert found["first"][0] == found["minimum"] == found["fold"][1]
    assert found["first"][2] == 111 * 111
    arrays, steps, bounds = zip(*found["points"], strict=True)
    assert list(arrays) == sorted(set(arrays))
    assert list(steps) == sorted(set(steps), reverse=True)
    assert all(bound <= step for bound, step in zip(bounds, steps, strict=True))
    least = min(size * step for size, step in zip(arrays, steps, strict=True))
    within = [size for size, step in zip(arrays, steps, strict=True) if size * step <= 1.1 * least]
    assert found["knee"] == within[0]
    for crossbar, count, makespan, bound in found["crossbars"]:
        assert int(crossbar.split("x")[0]) ** 2 * count == 2**24
        assert bound <= makespan
    assert found["speeds"][1] < found["speeds"][0]
    assert pictures(executed) == 2


def test_size_a_chip(kernel: Any, tmp_path: Path) -> None:
    """The chip has the least area of all candidates, whose areas are those of their arrays."""
    executed, found = outcome("size_a_chip", SIZE_A_CHIP, tmp_path, kernel)
    arrays, of_one, area = found["chip"]
    assert found["cost"] == area == pytest.approx(arrays * of_one)
    assert found["status"] == "optimal"
    assert found["allocation"] >= 10_000
    for least, of_arrays, why in found["candidates"]:
        assert least == pytest.approx(of_arrays)
        assert why == "chosen" if least == found["cost"] else least > found["cost"]
    for rate, _, _, _, mm2, bound_mm2, _ in found["designs"]:
        assert bound_mm2 <= mm2
        assert mm2 == pytest.approx(area / 1e6) if rate == 10_000 else True
    assert [row[4] for row in found["designs"]] == sorted(row[4] for row in found["designs"])
    areas, latencies, bounds = zip(*found["points"], strict=True)
    assert list(areas) == sorted(areas)
    assert list(latencies) == sorted(latencies, reverse=True)
    assert all(bound <= latency for bound, latency in zip(bounds, latencies, strict=True))
    assert found["half"][1] <= 2 * latencies[-1]
    assert pictures(executed) == 2
